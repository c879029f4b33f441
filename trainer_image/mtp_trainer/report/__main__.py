"""``python -m mtp_trainer.report``: write a finished evaluation's report again, or its main chart alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mtp_trainer.contract import StageError, Workspace
from mtp_trainer.report.write import known_configuration, write_chart, write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code of the trainer's contract."""
    parser = argparse.ArgumentParser(
        prog="python -m mtp_trainer.report", description="Write the report of a finished evaluation again."
    )
    parser.add_argument("--workspace", type=Path, required=True, metavar="DIR", help="the run's workspace")
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="also write the main chart alone")
    parsed = parser.parse_args(arguments)
    workspace = Workspace(parsed.workspace)
    try:
        print(write_report(workspace, known_configuration(workspace)))
        if parsed.chart is not None:
            write_chart(workspace, parsed.chart)
            print(parsed.chart)
    except StageError as error:
        print(f"mtp_trainer.report: {error.reason.value}: {error.message}", file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
