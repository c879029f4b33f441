"""Plays the kubelet: writes into the status of pods what a node would."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.api import JOBS, PODS, Api, Json, eventually

JOB_LABEL = "batch.kubernetes.io/job-name"


class Kubelet:
    """Starts and ends the pods of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace

    def pods(self, job: str) -> list[Json]:
        """All pods of a Job."""
        return self._api.list(PODS, self.namespace, f"{JOB_LABEL}={job}")

    def waiting_pod(self, job: str) -> Json:
        """The Job's pod that hasn't ended, once the Job controller has made it."""

        def look() -> Json | None:
            open_pods = [pod for pod in self.pods(job) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
            return open_pods[0] if open_pods else None

        return eventually(look, f"a pod of Job {job} in {self.namespace}")

    def run(self, pod: Json, ip: str = "10.0.0.1") -> None:
        """The pod's containers run and are ready."""
        conditions = [_condition("PodScheduled"), _condition("Ready"), _condition("ContainersReady")]
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "startTime": _now()}
        self._patch(
            pod,
            {
                **status,
                "conditions": conditions,
                "containerStatuses": [_container(pod, {"running": {"startedAt": _now()}}, ready=True)],
            },
        )

    def end(self, pod: Json, exit_code: int, message: str) -> None:
        """The pod's container has ended, and left ``message`` in its termination log."""
        terminated = {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else "Error",
            "message": message,
            "startedAt": _now(),
            "finishedAt": _now(),
        }
        self._patch(
            pod,
            {
                "phase": "Failed" if exit_code else "Succeeded",
                "conditions": [_condition("PodScheduled")],
                "containerStatuses": [_container(pod, {"terminated": terminated}, ready=False)],
            },
        )

    def finish(self, job: str, message: str, exit_code: int = 0) -> None:
        """Run the Job's next pod to this end, and wait until the Job controller has counted it."""
        pod = self.waiting_pod(job)
        self.run(pod)
        self.end(pod, exit_code, message)
        eventually(lambda: self._counted(job, pod), f"the end of {pod['metadata']['name']} to be counted")

    def _counted(self, job: str, pod: Json) -> bool:
        """The Job controller holds a pod by a finalizer until it has counted it; the Job may be gone by then."""
        found = self._api.get(PODS, self.namespace, pod["metadata"]["name"])
        gone = self._api.get(JOBS, self.namespace, job) is None
        return gone or found is None or not found["metadata"].get("finalizers")

    def _patch(self, pod: Json, status: Json) -> None:
        self._api.patch_status(PODS, self.namespace, pod["metadata"]["name"], status)


def _container(pod: Json, state: Json, *, ready: bool) -> Json:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
