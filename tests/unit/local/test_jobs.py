"""Jobs end as the Job controller and the kubelet would have them end."""

import os
from pathlib import Path
from typing import Any

import pytest

from mtp_operator.kube.verbs import CONFIG_MAP, JOB, POD, Object
from mtp_operator.local.session import LocalSession

from .conftest import job, running, until

POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}},
        {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "In", "values": [75]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}
FOREVER = "import time; print('up', flush=True); time.sleep(600)"


async def finished(session: LocalSession, name: str) -> Object:
    def ended() -> Object | None:
        found = session.store.read(JOB, "default", name)
        assert found is not None
        kinds = {c["type"] for c in found.get("status", {}).get("conditions", []) if c["status"] == "True"}
        return found if kinds & {"Complete", "Failed"} else None

    result: Object = await until(ended)
    return result


def condition(obj: Object) -> dict[str, Any]:
    return dict(obj["status"]["conditions"][-1])


def terminated(pod: Object) -> dict[str, Any]:
    return dict(pod["status"]["containerStatuses"][0]["state"]["terminated"])


def phase(session: LocalSession, wanted: str) -> Object | None:
    return next((p for p in session.store.select(POD) if p.get("status", {}).get("phase") == wanted), None)


async def test_a_jobs_result_is_its_termination_message(session: LocalSession) -> None:
    script = "import os; open(os.environ['MESSAGE'], 'w').write('done ' * 2000)"
    env = [{"name": "MESSAGE", "value": "/dev/termination-log"}]
    await session.store.create(job("work", script, container={"env": env}))
    assert condition(await finished(session, "work"))["type"] == "Complete"
    (pod,) = session.store.select(POD)
    assert len(terminated(pod)["message"]) == 4096
    assert terminated(pod)["exitCode"] == 0


@pytest.mark.parametrize(("code", "seen"), [(0, "/mnt/data/x"), (1, "{claim}/x")])
async def test_a_result_names_mount_paths_and_an_error_local_ones(session: LocalSession, code: int, seen: str) -> None:
    script = "import os, sys; open(os.environ['MESSAGE'], 'w').write(sys.argv[1]); sys.exit(int(sys.argv[2]))"
    mounted = {
        "env": [{"name": "MESSAGE", "value": "/dev/termination-log"}],
        "volumeMounts": [{"name": "data", "mountPath": "/mnt/data"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    work = job("work", script, "/mnt/data/x", str(code), container=mounted, volumes=volumes, backoffLimit=0)
    await session.store.create(work)
    await finished(session, "work")
    (pod,) = session.store.select(POD)
    assert terminated(pod)["message"] == seen.format(claim=session.places.claims.folder("data"))


async def test_a_failure_without_a_message_says_the_end_of_its_log(session: LocalSession) -> None:
    await session.store.create(job("work", "raise SystemExit('the disk is full')", backoffLimit=0))
    await finished(session, "work")
    (pod,) = session.store.select(POD)
    assert "the disk is full" in terminated(pod)["message"]


async def test_wrong_input_is_not_tried_again(session: LocalSession) -> None:
    await session.store.create(job("work", "raise SystemExit(3)", podFailurePolicy=POLICY))
    done = await finished(session, "work")
    assert (condition(done)["type"], condition(done)["reason"]) == ("Failed", "PodFailurePolicy")
    assert len(session.store.select(POD)) == 1


async def test_an_interruption_is_tried_again_and_not_counted(session: LocalSession, tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; f = pathlib.Path(sys.argv[1]); seen = f.exists(); f.touch(); sys.exit(0 if seen else 75)"
    )
    await session.store.create(job("work", script, str(tmp_path / "f"), podFailurePolicy=POLICY, backoffLimit=0))
    done = await finished(session, "work")
    assert condition(done)["type"] == "Complete"
    assert done["status"]["failed"] == 0


async def test_failures_beyond_the_limit_end_the_job(session: LocalSession) -> None:
    await session.store.create(job("work", "raise SystemExit(1)", podFailurePolicy=POLICY, backoffLimit=1))
    done = await finished(session, "work")
    assert condition(done)["reason"] == "BackoffLimitExceeded"
    assert done["status"]["failed"] == 2


async def test_a_missing_program_is_a_failure_that_names_it(session: LocalSession) -> None:
    await session.store.create(job("work", "", container={"command": ["no-such-program"]}, backoffLimit=0))
    await finished(session, "work")
    (pod,) = session.store.select(POD)
    assert "no-such-program" in terminated(pod)["message"]


async def test_a_deadline_stops_the_pod_and_fails_the_job(session: LocalSession) -> None:
    await session.store.create(job("work", FOREVER, activeDeadlineSeconds=1))
    assert condition(await finished(session, "work"))["reason"] == "DeadlineExceeded"
    await until(lambda: not session.store.select(POD))


async def test_a_suspended_job_stops_its_pod_and_goes_on_when_resumed(session: LocalSession) -> None:
    made = await session.store.create(job("work", FOREVER))
    await until(lambda: phase(session, "Running"))
    session.store.replace(made, {**made, "spec": {**made["spec"], "suspend": True}})
    await until(lambda: not session.store.select(POD))
    suspended = session.store.read(JOB, "default", "work")
    assert suspended is not None
    assert condition(suspended)["type"] == "Suspended"
    session.store.replace(suspended, {**suspended, "spec": {**suspended["spec"], "suspend": False}})
    await until(lambda: phase(session, "Running"))


async def test_deleting_a_job_ends_its_processes(session: LocalSession, tmp_path: Path) -> None:
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    await session.store.create(job("work", script, str(tmp_path / "pid")))
    pid = int(await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    await session.delete(JOB, "work")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_mounted_paths_become_folders_in_arguments_environment_and_files(
    session: LocalSession, tmp_path: Path
) -> None:
    script = (
        "import json, os, sys, pathlib\n"
        "config = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        "pathlib.Path(config['out']).write_text(os.environ['IN'] + ' ' + os.environ['WHO'] + ' ' + sys.argv[2])\n"
    )
    await session.store.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "stage"},
            "data": {"stage.json": '{"out": "/mnt/data/out.txt"}'},
        }
    )
    await session.store.create(
        job(
            "work",
            script,
            "/etc/stage/stage.json",
            "$(WHO)!",
            container={
                "env": [
                    {"name": "IN", "value": "/mnt/data/in"},
                    {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                ],
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/stage"},
                    {"name": "data", "mountPath": "/mnt/data"},
                ],
            },
            volumes=[
                {"name": "config", "configMap": {"name": "stage"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        )
    )
    assert condition(await finished(session, "work"))["type"] == "Complete"
    folder = session.places.claims.folder("data")
    assert (folder / "out.txt").read_text() == f"{folder}/in default default!"


async def test_a_missing_config_map_keeps_the_pod_waiting_until_it_is_there(session: LocalSession) -> None:
    volumes = [{"name": "config", "configMap": {"name": "late"}}]
    mounts = {"volumeMounts": [{"name": "config", "mountPath": "/etc/late"}]}
    await session.store.create(job("work", "", container=mounts, volumes=volumes))

    def waiting() -> bool:
        statuses = [s for p in session.store.select(POD) for s in p["status"].get("containerStatuses", [])]
        return any("late" in s["state"].get("waiting", {}).get("message", "") for s in statuses)

    await until(waiting)
    await session.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {}})
    assert condition(await finished(session, "work"))["type"] == "Complete"
    assert session.store.select(CONFIG_MAP)


async def test_each_pod_listens_on_an_address_of_its_own(session: LocalSession) -> None:
    script = (
        "import http.server, os\n"
        "http.server.HTTPServer((os.environ['MTP_BIND_ADDRESS'], 8123), http.server.SimpleHTTPRequestHandler)"
        ".serve_forever()"
    )
    container = {
        "env": [{"name": "MTP_BIND_ADDRESS", "value": "overridden"}],
        "ports": [{"name": "http", "containerPort": 8123}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 0.1},
    }
    for name in ("one", "two"):
        await session.store.create(job(name, script, container=container))
    await until(lambda: sum(j.get("status", {}).get("ready", 0) for j in session.store.select(JOB)) == 2)


async def test_the_end_of_a_session_lets_a_pod_save_its_work_and_the_next_session_goes_on(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys, time\n"
        "saved = pathlib.Path(sys.argv[1])\n"
        "def save(*_): saved.write_text('step 7'); sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "if saved.exists(): sys.exit(0)\n"
        "pathlib.Path(sys.argv[2]).touch()\n"
        "time.sleep(600)\n"
    )
    saved, up = tmp_path / "saved", tmp_path / "up"
    async with running(tmp_path / "state") as first:
        await first.store.create(job("work", script, str(saved), str(up), podFailurePolicy=POLICY, backoffLimit=0))
        await until(up.exists)
    assert saved.read_text() == "step 7"
    async with running(tmp_path / "state") as second:
        done = await finished(second, "work")
        assert condition(done)["type"] == "Complete"
        assert len(second.store.select(POD)) == 2


async def test_a_pod_that_ignores_sigterm_is_killed_with_all_it_started(session: LocalSession, tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {child.pid}')\n"
        "time.sleep(600)\n"
    )
    await session.store.create(job("work", script, str(tmp_path / "pids"), grace=1))
    pids = await until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
    await session.delete(JOB, "work")
    for pid in map(int, pids.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
