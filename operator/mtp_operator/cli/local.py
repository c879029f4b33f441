"""``mtp local``: the same manifests without a cluster."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from mtp_operator.cli.manifests import UnreadableManifest, read_manifests
from mtp_operator.kube.verbs import FINE_TUNE, KINDS, SERVING, Kind, KubeError, NotFound, Object, Refused, kind_of
from mtp_operator.local.display import display
from mtp_operator.local.files import SessionRunning
from mtp_operator.local.services import reachable
from mtp_operator.local.session import LocalSession, conditions, delete_from
from mtp_operator.local.store import LocalStore, refuse_unknown_kinds
from mtp_operator.local.table import table

INTERRUPTED = 130
_SHORT = {"mtpft": FINE_TUNE, "sds": SERVING, "pvc": next(k for k in KINDS.values() if k.plural.startswith("persist"))}
_USAGE_ERRORS = (UnreadableManifest, Refused, SessionRunning, NotADirectoryError)
_POLL_SECONDS = 0.25


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``local`` and its own commands."""
    local = commands.add_parser("local", help="run manifests on this machine", description=__doc__)
    actions = local.add_subparsers(required=True, metavar="ACTION")

    apply = actions.add_parser("apply", help="run manifests until they are done; servings until Ctrl-C")
    apply.add_argument("-f", "--file", action="append", type=Path, required=True, dest="files", metavar="FILE")
    apply.add_argument(
        "--claim", action="append", default=[], type=_claim, metavar="NAME=DIR", help="folder of a claim"
    )
    apply.add_argument("--until-ready", action="store_true", help="stop servings once they are Ready")
    apply.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after this long (default: never)")
    _state(apply)
    apply.set_defaults(command=_apply)

    get = actions.add_parser("get", help="show objects")
    get.add_argument("kind", nargs="?", metavar="KIND")
    get.add_argument("name", nargs="?", metavar="NAME")
    get.add_argument("-o", "--output", choices=("yaml", "json", "wide"))
    _state(get)
    get.set_defaults(command=_get)

    logs = actions.add_parser("logs", help="print the logs of an object's pods")
    logs.add_argument("name", metavar="NAME")
    logs.add_argument("--stage", choices=("prepare", "train", "evaluate", "publish"), help="only this stage of a run")
    _state(logs)
    logs.set_defaults(command=_logs)

    delete = actions.add_parser("delete", help="delete objects and what they own; outputs stay")
    delete.add_argument("kind", nargs="?", metavar="KIND")
    delete.add_argument("name", nargs="?", metavar="NAME")
    delete.add_argument("-f", "--file", action="append", type=Path, default=[], dest="files", metavar="FILE")
    _state(delete)
    delete.set_defaults(command=_delete)


def _state(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--state", type=Path, default=Path(".mtp-local"), metavar="DIR", help="where objects and volumes are kept"
    )


def _claim(text: str) -> tuple[str, Path]:
    name, separator, folder = text.partition("=")
    if not (name and separator and folder):
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=DIR")
    return name, Path(folder)


def kind_named(word: str) -> Kind:
    """A kind by its name, plural, singular or short name, as ``kubectl`` takes them.

    Raises:
        UnreadableManifest: no such kind.
    """
    lower = word.lower()
    for kind in KINDS.values():
        if lower in (kind.kind.lower(), kind.plural):
            return kind
    if lower in _SHORT:
        return _SHORT[lower]
    raise UnreadableManifest(f"{word}: no such kind; write mtpfinetune (mtpft) or specdecodeserving (sds)")


def _apply(options: argparse.Namespace) -> int:
    try:
        objects = read_manifests(options.files)
        refuse_unknown_kinds(objects)
        return asyncio.run(_apply_until_done(options, objects))
    except _USAGE_ERRORS as error:
        return _fail(error)


async def _apply_until_done(options: argparse.Namespace, objects: list[Object]) -> int:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    async with LocalSession(options.state, dict(options.claim)) as session:
        for obj, outcome in zip(objects, await session.apply(objects), strict=True):
            print(f"{obj['kind'].lower()}/{obj['metadata']['name']} {_said(session, obj, outcome)}", file=sys.stderr)
        code = await _watch(session, objects, options, interrupted)
        for line in _tables(session, objects):
            print(line)
        if code == INTERRUPTED:
            print("stopping; apply again to go on", file=sys.stderr)
    return code


async def _watch(
    session: LocalSession, objects: list[Object], options: argparse.Namespace, interrupted: asyncio.Event
) -> int:
    """Show the objects until all are done; the exit status."""
    loop = asyncio.get_running_loop()
    deadline = None if options.timeout is None else loop.time() + options.timeout
    with display() as shown:
        while True:
            session.check()
            newest = [session.get(kind_of(obj), obj["metadata"]["name"], _namespace(obj)) for obj in objects]
            shown.show(newest)
            states = [
                _state_of(obj, until_ready=options.until_ready) if session.looked_at(obj) else "running"
                for obj in newest
            ]
            if all(state != "running" for state in states):
                return 1 if "failed" in states else 0
            if interrupted.is_set():
                return INTERRUPTED
            if deadline is not None and loop.time() > deadline:
                print(f"not done within {options.timeout:.0f} s", file=sys.stderr)
                return 1
            await asyncio.sleep(_POLL_SECONDS)


def _state_of(obj: Object, *, until_ready: bool) -> str:
    """``running``, ``done`` or ``failed``: what there is to wait for."""
    found = conditions(obj)
    current = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
    if not current:
        return "running"
    if found.get("Stalled", {}).get("status") == "True":
        return "failed"
    if obj["kind"] == FINE_TUNE.kind:
        suspended = found.get("Suspended", {}).get("status") == "True"
        return "done" if suspended or found.get("Succeeded", {}).get("status") == "True" else "running"
    return "done" if until_ready and found.get("Ready", {}).get("status") == "True" else "running"


def _said(session: LocalSession, obj: Object, outcome: str) -> str:
    """What apply did, and that a run which has ended will not do anything again."""
    newest = session.get(kind_of(obj), obj["metadata"]["name"], _namespace(obj))
    ended = obj["kind"] == FINE_TUNE.kind and conditions(newest).get("Succeeded", {}).get("status") in ("True", "False")
    return f"{outcome}: the run has ended, nothing to do" if outcome == "unchanged" and ended else outcome


def _tables(session: LocalSession, objects: list[Object]) -> Iterator[str]:
    for kind in (FINE_TUNE, SERVING):
        names = [(obj["metadata"]["name"], _namespace(obj)) for obj in objects if kind_of(obj) == kind]
        if names:
            yield table(kind.kind, [session.get(kind, *name) for name in names], datetime.now(UTC))


def _namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", "default"))


def _get(options: argparse.Namespace) -> int:
    try:
        kinds = [kind_named(options.kind)] if options.kind else [FINE_TUNE, SERVING]
    except UnreadableManifest as error:
        return _fail(error)
    store = LocalStore(options.state)
    found = {kind: [reachable(obj) for obj in store.select(kind)] for kind in kinds}
    if options.name:
        found = {kind: [o for o in objects if o["metadata"]["name"] == options.name] for kind, objects in found.items()}
        if not any(found.values()):
            print(f'{kinds[0].plural} "{options.name}" not found', file=sys.stderr)
            return 1
    if options.output in ("yaml", "json"):
        flat = [obj for objects in found.values() for obj in objects]
        print(_dump(flat[0] if options.name else {"apiVersion": "v1", "kind": "List", "items": flat}, options.output))
        return 0
    shown = [_table(kind, objects, wide=options.output == "wide") for kind, objects in found.items() if objects]
    print("\n\n".join(shown) if shown else f"nothing in {options.state}")
    return 0


def _table(kind: Kind, objects: list[Object], *, wide: bool) -> str:
    if kind in (FINE_TUNE, SERVING):
        return table(kind.kind, objects, datetime.now(UTC), wide=wide)
    return "\n".join(f"{kind.kind.lower()}/{obj['metadata']['name']}" for obj in objects)


def _dump(value: Any, form: str) -> str:
    if form == "json":
        return json.dumps(value, indent=2)
    return yaml.safe_dump(value, sort_keys=False, width=120).rstrip()


def _logs(options: argparse.Namespace) -> int:
    """Logs of a run's or serving's pods, those of removed pods too, oldest first."""
    stage = f"{options.name}-{options.stage}" if options.stage else options.name
    files = sorted(options.state.glob(f"pods/*/{stage}-*/*.log"), key=lambda file: file.stat().st_mtime)
    if not files:
        print(f"no pod of {stage} has run in {options.state}", file=sys.stderr)
        return 1
    for file in files:
        print(f"==> {file.parent.name} <==", flush=True)
        sys.stdout.write(file.read_text(encoding="utf-8", errors="replace"))
    return 0


def _delete(options: argparse.Namespace) -> int:
    try:
        if options.files:
            targets = [
                (kind_of(obj), _namespace(obj), obj["metadata"]["name"]) for obj in read_manifests(options.files)
            ]
        elif options.kind and options.name:
            targets = [(kind_named(options.kind), "default", options.name)]
        else:
            raise UnreadableManifest("what to delete? write KIND NAME, or -f FILE")
        asyncio.run(delete_from(options.state, targets))
    except NotFound as error:
        print(error.message, file=sys.stderr)
        return 1
    except (*_USAGE_ERRORS, KeyError) as error:
        return _fail(error)
    for kind, _, name in targets:
        print(f"{kind.kind.lower()}/{name} deleted")
    return 0


def _fail(error: Exception) -> int:
    print(error.message if isinstance(error, KubeError) else error, file=sys.stderr)
    return 2
