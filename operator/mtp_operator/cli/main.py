"""``mtp``: local mode, and a look at what the operator would make of a manifest."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from mtp_operator import __version__
from mtp_operator.cli import local, render, status

Command = Callable[[argparse.Namespace], int]


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="mtp", description="Tune a model's MTP head and serve it with measured acceptance."
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    local.add_to(commands)
    render.add_to(commands)
    status.add_to(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status: 0 done, 1 failed, 2 wrong usage or manifest, 130 interrupted."""
    options = parser().parse_args(arguments)
    command: Command = options.command
    return command(options)


if __name__ == "__main__":
    sys.exit(main())
