"""One run of the quickstart in local mode, smaller than ``make demo``: a real trainer, a real vLLM, real traffic."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from mtp_operator.kube.verbs import FINE_TUNE, JOB, POD, SERVING
from mtp_operator.local.session import LocalSession
from mtp_trainer.contract import Workspace

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
NAME = "quickstart"
SAMPLES, PROMPTS, GENERAL_PROMPTS = 240, 48, 24
SERVED_PROMPTS = 16
READY_SECONDS, MEASURED_SECONDS = 1500.0, 180.0


@dataclass(frozen=True)
class Ran:
    """What was left when the fine-tune had ended and the serving had answered."""

    fine_tune: dict[str, Any]
    serving: dict[str, Any]
    jobs: list[dict[str, Any]]
    completion_tokens: int
    state: Path
    workspace: Workspace
    heads: Path
    manifests: list[dict[str, Any]]


def smaller(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The examples with fewer samples and prompts."""
    fine_tune, serving = copy.deepcopy(manifests)
    spec = fine_tune["spec"]
    spec["dataset"]["maxSamples"] = SAMPLES
    spec["evaluation"]["dataset"]["maxSamples"] = PROMPTS
    gate = spec["evaluation"]["gate"]
    gate["minDrafts"] = 200
    gate["general"]["dataset"]["maxSamples"] = GENERAL_PROMPTS
    serving["spec"]["acceptance"]["minDrafts"] = 100
    return [fine_tune, serving]


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("quickstart")
    manifests = [
        yaml.safe_load((QUICKSTART / name).read_text()) for name in ("mtpfinetune.yaml", "specdecodeserving.yaml")
    ]
    return asyncio.run(_tune_and_serve(folder, smaller(manifests)))


async def _tune_and_serve(folder: Path, manifests: list[dict[str, Any]]) -> Ran:
    heads, state = folder / "heads", folder / "state"
    heads.mkdir()
    async with LocalSession(state, {"quickstart": QUICKSTART, "heads": heads}) as session:
        await session.apply(manifests)
        await session.wait(FINE_TUNE, NAME, "Ready", READY_SECONDS)
        serving = await session.wait(SERVING, NAME, "Ready", READY_SECONDS)
        tokens = await _ask(serving["status"]["url"])
        serving = await session.wait(SERVING, NAME, "AcceptanceMeasured", MEASURED_SECONDS)
        # A claim has a folder for each run.
        (workspace,) = session.places.claims.folder(f"{NAME}-workspace").glob(f"{NAME}-*")
        assert all("deletionTimestamp" not in pod["metadata"] for pod in session.store.select(POD))
        return Ran(
            fine_tune=session.get(FINE_TUNE, NAME),
            serving=serving,
            jobs=session.store.select(JOB),
            completion_tokens=tokens,
            state=state,
            workspace=Workspace(workspace),
            heads=heads,
            manifests=manifests,
        )


async def _ask(url: str) -> int:
    """Held-out questions as a client would send them; the number of tokens that came back."""
    lines = (QUICKSTART / "data" / "heldout.jsonl").read_text().splitlines()[-SERVED_PROMPTS:]
    async with aiohttp.ClientSession() as client:

        async def ask(line: str) -> int:
            body = {"model": NAME, "messages": json.loads(line)["messages"][:1], "temperature": 0, "max_tokens": 128}
            async with client.post(f"{url}/v1/chat/completions", json=body) as response:
                response.raise_for_status()
                return int((await response.json())["usage"]["completion_tokens"])

        return sum(await asyncio.gather(*map(ask, lines)))
