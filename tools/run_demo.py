"""The main job on this machine: fine-tune the quickstart verifier's head, serve it, show how many drafts are accepted.

Runs both manifests of ``examples/quickstart`` in local mode, with the real trainer and a real vLLM. Leaves
``result.json`` and ``report.html`` in the output folder, and fails unless the tuned head passed its gate. Interrupted,
it goes on where it was when it is started again; ``--fresh`` begins anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import yaml

from demo.result import is_better, result_of
from demo.traffic import BadAnswer, read_prompts, send
from mtp_operator.kube.verbs import FINE_TUNE, SERVING, KubeError, Object
from mtp_operator.local.display import Display, display
from mtp_operator.local.files import SessionRunning
from mtp_operator.local.session import LocalSession, WaitFailed, conditions
from mtp_operator.local.table import table

QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart"
NAME = "quickstart"
MANIFESTS = ("mtpfinetune.yaml", "specdecodeserving.yaml")
SERVING_READY_SECONDS = 900
MEASURED_SECONDS = 75  # figures in a status change at most once a minute
POLL_SECONDS = 0.5


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for state, heads and results")
    parser.add_argument("--prompts", type=int, default=60, help="held-out prompts to send to the served model")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier demo left in the output folder")
    options = parser.parse_args()
    if options.fresh:
        shutil.rmtree(options.output, ignore_errors=True)
    (options.output / "heads").mkdir(parents=True, exist_ok=True)
    try:
        return asyncio.run(_interruptible(options))
    except asyncio.CancelledError:
        print("interrupted; start again to go on", file=sys.stderr)
        return 130
    except (WaitFailed, BadAnswer, SessionRunning) as error:
        print(f"demo failed: {error}", file=sys.stderr)
    except KubeError as error:
        print(f"demo failed: {error.message}", file=sys.stderr)
    return 1


async def _interruptible(options: argparse.Namespace) -> int:
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await demo(options.output, options.prompts)


async def demo(output: Path, prompts: int) -> int:
    """Run it; the exit status."""
    manifests = [yaml.safe_load((QUICKSTART / file).read_text()) for file in MANIFESTS]
    claims = {"quickstart": QUICKSTART, "heads": output / "heads"}
    async with LocalSession(output / "state", claims) as session:
        await session.apply(manifests)
        with display() as shown:
            watching = asyncio.create_task(_show(session, shown))
            try:
                await session.wait(FINE_TUNE, NAME, "Ready")
                await session.wait(SERVING, NAME, "Ready", SERVING_READY_SECONDS)
                fine_tune, serving = await _serve_prompts(session, prompts)
            finally:
                watching.cancel()
        return _report(session, output, fine_tune, serving)


async def _show(session: LocalSession, shown: Display) -> None:
    while True:
        shown.show([session.get(FINE_TUNE, NAME), session.get(SERVING, NAME)])
        await asyncio.sleep(POLL_SECONDS)


async def _serve_prompts(session: LocalSession, count: int) -> tuple[Object, Object]:
    """Send held-out prompts, and wait until the serving has counted their drafts."""
    fine_tune, serving = session.get(FINE_TUNE, NAME), session.get(SERVING, NAME)
    prompts = read_prompts(QUICKSTART / "data" / "heldout.jsonl", count)
    await send(serving["status"]["url"], NAME, prompts, fine_tune["spec"]["evaluation"]["maxTokens"])
    sent = datetime.now(UTC)
    deadline = asyncio.get_running_loop().time() + MEASURED_SECONDS
    while True:
        session.check()
        serving = session.get(SERVING, NAME)
        acceptance = serving["status"].get("acceptance", {})
        measured = conditions(serving).get("AcceptanceMeasured", {}).get("status") == "True"
        if measured and datetime.fromisoformat(acceptance["lastUpdateTime"]) >= sent.replace(microsecond=0):
            return fine_tune, serving
        if asyncio.get_running_loop().time() > deadline:
            if measured:  # counted already; a status is only written again when figures change meaningfully
                return fine_tune, serving
            reason = conditions(serving).get("AcceptanceMeasured", {}).get("message", "")
            raise WaitFailed(f"SpecDecodeServing {NAME}: acceptance not measured {MEASURED_SECONDS} s after: {reason}")
        await asyncio.sleep(POLL_SECONDS)


def _report(session: LocalSession, output: Path, fine_tune: Object, serving: Object) -> int:
    result = result_of(fine_tune, serving)
    (output / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    now = datetime.now(UTC)
    print(f"\n$ kubectl get mtpft\n{table('MTPFineTune', [fine_tune], now)}")
    print(f"\n$ kubectl get sds\n{table('SpecDecodeServing', [serving], now)}\n")
    print(f"{'':8} {'tokens per step':>15}   accepted by position")
    for head in ("shipped", "tuned", "served"):
        figures = result[head]
        rates = " / ".join(f"{rate:.3f}" for rate in figures["positions"])
        print(f"{head:8} {figures['meanAcceptanceLength']:>15.2f}   {rates}   ({figures['drafts']} drafts)")
    report = fine_tune["status"]["evaluation"].get("report")
    if report:
        claim, _, path = report.removeprefix("pvc://").partition("/")
        shutil.copyfile(session.places.claims.folder(claim) / path, output / "report.html")
        print(f"\nreport: {output / 'report.html'}\nresult: {output / 'result.json'}")
    if not is_better(result):
        print("demo failed: the tuned head is not better than the shipped one", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
