"""Sessions: what is applied, waited for, and left behind, by the operator's own loop."""

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mtp_operator.kube.verbs import FINE_TUNE, JOB, POD, SERVING, NotFound, Object, Refused, Verbs
from mtp_operator.local.files import SessionRunning
from mtp_operator.local.session import Fetch, LocalSession, WaitFailed, delete_from

from .conftest import until


def fine_tune(name: str = "run", **spec: Any) -> Object:
    return {
        "apiVersion": "specdecode.dev/v1alpha1",
        "kind": "MTPFineTune",
        "metadata": {"name": name},
        "spec": {
            "verifier": {"uri": "pvc://models/verifier"},
            "dataset": {"uri": "pvc://data/train.jsonl"},
            "evaluation": {"dataset": {"uri": "pvc://data/heldout.jsonl"}},
            "pods": {"gpus": 0},
            "workspace": {"storage": "1Gi"},
            "output": {"path": "pvc://heads/run"},
            **spec,
        },
    }


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """A stand-in for ``mtp-trainer``, found first on the path: it does what the given script says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "mtp-trainer"
    program.write_text(f"#!{sys.executable}\nexec(open({str(folder / 'script.py')!r}).read())\n")
    program.chmod(0o755)
    monkeypatch.setattr("mtp_operator.local.container._host_environment", lambda: {**os.environ, "PATH": str(folder)})
    return (folder / "script.py").write_text


REFUSE = """
import json, os, sys
message = {"stage": "Prepare", "failed": True, "reason": "NoMTPHead", "message": "config.json: no head"}
open(os.environ["MTP_TERMINATION_LOG"], "w").write(json.dumps(message))
sys.exit(3)
"""
SLEEP = "import time; print('working', flush=True); time.sleep(600)"


async def test_a_stages_refusal_ends_the_run_with_its_reason(tmp_path: Path, trainer: Callable[[str], object]) -> None:
    trainer(REFUSE)
    async with LocalSession(tmp_path / "state") as session:
        assert await session.apply([fine_tune()]) == ["created"]
        with pytest.raises(WaitFailed, match=r"NoMTPHead.*config.json: no head"):
            await session.wait(FINE_TUNE, "run", "Ready", 30)


async def test_applying_a_finished_run_again_does_nothing(tmp_path: Path, trainer: Callable[[str], object]) -> None:
    trainer(REFUSE)
    for outcome in ("created", "unchanged"):
        async with LocalSession(tmp_path / "state") as session:
            assert await session.apply([fine_tune()]) == [outcome]
            with pytest.raises(WaitFailed):
                await session.wait(FINE_TUNE, "run", "Ready", 30)
            assert len(session.store.select(POD)) == 1


async def test_what_an_earlier_session_found_is_not_taken_for_todays_answer(tmp_path: Path) -> None:
    serving = {
        "apiVersion": "specdecode.dev/v1alpha1",
        "kind": "SpecDecodeServing",
        "metadata": {"name": "late"},
        "spec": {"model": {"uri": "pvc://models/verifier"}, "head": {"fineTuneRef": {"name": "run"}}},
    }
    stalled = {"conditions": [{"type": "Stalled", "status": "True", "reason": "ModelNotFound", "message": "not yet"}]}
    answered = asyncio.Event()

    async def answer(verbs: Verbs, namespace: str, name: str, now: datetime, fetch: Fetch) -> None:
        await answered.wait()
        obj = await verbs.get(SERVING, namespace, name)
        assert obj is not None
        ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]}
        await verbs.patch_status(obj, ready)

    async with LocalSession(tmp_path / "state", reconcilers={}) as session:
        await session.apply([serving])
        await session.store.patch_status(session.get(SERVING, "late"), stalled)
    async with LocalSession(tmp_path / "state", reconcilers={SERVING: answer}) as session:
        waiting = asyncio.create_task(session.wait(SERVING, "late", "Ready", 30))
        await asyncio.sleep(0.5)
        answered.set()
        await waiting


async def test_one_refused_manifest_keeps_all_of_them_out(tmp_path: Path) -> None:
    async with LocalSession(tmp_path / "state", reconcilers={}) as session:
        with pytest.raises(Refused, match="model: set exactly one of uri"):
            await session.apply([fine_tune(), {**fine_tune("two"), "kind": "SpecDecodeServing", "spec": {"model": {}}}])
        assert session.store.version == 0


async def test_a_run_cannot_be_edited(tmp_path: Path) -> None:
    async with LocalSession(tmp_path / "state", reconcilers={}) as session:
        await session.apply([fine_tune()])
        with pytest.raises(Refused, match=r"spec\.nodes cannot change"):
            await session.apply([fine_tune(nodes=2)])
        assert await session.apply([fine_tune(suspend=True)]) == ["configured"]


@pytest.mark.parametrize(
    "manifest",
    [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, {"metadata": {}}, "text", fine_tune("")],
)
async def test_only_the_two_kinds_may_be_applied(tmp_path: Path, manifest: Any) -> None:
    async with LocalSession(tmp_path / "state", reconcilers={}) as session:
        with pytest.raises(Refused):
            await session.apply([manifest])


async def test_a_state_folder_has_one_session_at_a_time(tmp_path: Path) -> None:
    async with LocalSession(tmp_path / "state", reconcilers={}):
        with pytest.raises(SessionRunning, match=f"process {os.getpid()}"):
            async with LocalSession(tmp_path / "state", reconcilers={}):
                pass


async def test_a_claims_folder_must_exist_and_is_remembered(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="no such folder"):
        async with LocalSession(tmp_path / "state", {"models": tmp_path / "nowhere"}):
            pass
    async with LocalSession(tmp_path / "state", {"models": tmp_path}, reconcilers={}):
        pass
    async with LocalSession(tmp_path / "state", reconcilers={}) as session:
        assert session.places.claims.folder("models") == tmp_path


async def test_deleting_a_run_takes_its_workspace_and_leaves_outputs(
    tmp_path: Path, trainer: Callable[[str], object]
) -> None:
    trainer(SLEEP)
    state = tmp_path / "state"
    async with LocalSession(state) as session:
        await session.apply([fine_tune()])
        await until(lambda: any(p["status"].get("phase") == "Running" for p in session.store.select(POD)))
        workspace = session.places.claims.folder("run-workspace")
        heads = session.places.claims.folder("heads")
    await delete_from(state, [(FINE_TUNE, "default", "run")])
    assert (workspace.exists(), heads.exists()) == (False, True)
    async with LocalSession(state) as session:
        assert session.store.select(JOB) == session.store.select(POD) == []


async def test_deleting_what_is_not_there_deletes_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with LocalSession(state, reconcilers={}) as session:
        await session.apply([fine_tune()])
    with pytest.raises(NotFound):
        await delete_from(state, [(FINE_TUNE, "default", "run"), (SERVING, "default", "run")])
    async with LocalSession(state, reconcilers={}) as session:
        assert session.get(FINE_TUNE, "run")


async def test_a_killed_session_takes_its_processes_along_and_the_next_one_goes_on(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, sys
        sys.path.insert(0, sys.argv[2])
        from pathlib import Path
        from conftest import job, running
        async def main():
            async with running(Path(sys.argv[1]) / "state") as session:
                work = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
                await session.store.create(job("work", work, sys.argv[1] + "/pid"))
                await asyncio.sleep(600)
        asyncio.run(main())
    """)
    arguments = [sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)]
    victim = await asyncio.create_subprocess_exec(*arguments)
    pid_file = tmp_path / "pid"
    pid = int(await until(lambda: pid_file.exists() and pid_file.read_text()))
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    async with LocalSession(tmp_path / "state", reconcilers={}) as session:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        await until(lambda: len(session.store.select(POD)) == 2)
        lost = next(p for p in session.store.select(POD) if p["status"]["phase"] == "Failed")
        assert "DisruptionTarget" in [c["type"] for c in lost["status"]["conditions"]]
