"""What a user gets: the run of ``conftest.ran``, looked at from all sides."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest

from mtp_operator.kube.verbs import FINE_TUNE, POD
from mtp_operator.local.session import LocalSession, conditions
from mtp_trainer.checkpoints import artefact_digest
from mtp_trainer.contract import EvaluateResult, Stage, TrainResult, parse_result
from mtp_trainer.measurements import read_measurements

from .conftest import NAME, QUICKSTART, Ran

# The whole run happens in the set-up of whichever test comes first.
pytestmark = pytest.mark.timeout(3000)


def test_every_stage_ran_once_and_the_run_is_ready(ran: Ran) -> None:
    found = conditions(ran.fine_tune)
    assert {name: found[name]["status"] for name in ("Ready", "Succeeded", "GatePassed", "Published")} == dict.fromkeys(
        ("Ready", "Succeeded", "GatePassed", "Published"), "True"
    )
    assert "Stalled" not in found or found["Stalled"]["status"] != "True"
    assert {job["metadata"]["name"] for job in ran.jobs} == {f"{NAME}-{stage.value.lower()}" for stage in Stage}
    assert all(job["status"]["succeeded"] == 1 for job in ran.jobs)


def test_the_shipped_head_falls_with_depth_and_the_tuned_one_is_better_at_depth(ran: Ran) -> None:
    evaluation = ran.fine_tune["status"]["evaluation"]
    shipped, tuned = ([float(p["rate"]) for p in evaluation[head]["positions"]] for head in ("shipped", "tuned"))
    assert len(shipped) == len(tuned) == 3
    assert all(deeper < before for before, deeper in pairwise(shipped))
    assert tuned[1] > shipped[1]
    assert tuned[2] > shipped[2]
    assert float(evaluation["improvementLow"]) > 0
    assert evaluation["outputParity"] is True


def test_the_mean_acceptance_length_is_one_and_the_sum_of_the_rates(ran: Ran) -> None:
    evaluation = ran.fine_tune["status"]["evaluation"]
    for figures in (evaluation["shipped"], evaluation["tuned"], ran.serving["status"]["acceptance"]):
        total = 1 + sum(float(position["rate"]) for position in figures["positions"])
        assert float(figures["meanAcceptanceLength"]) == pytest.approx(total, abs=0.01)


def test_both_artefacts_load_in_vllm_and_draft_the_same(ran: Ran) -> None:
    result = parse_result(ran.workspace.result(Stage.EVALUATE).read_text())
    assert isinstance(result, EvaluateResult)
    assert result.stitched == result.domain.tuned


def test_acceptance_predicted_offline_is_what_vllm_accepts(ran: Ran) -> None:
    trained = parse_result(ran.workspace.result(Stage.TRAIN).read_text())
    assert isinstance(trained, TrainResult)
    measured = read_measurements(ran.workspace.measurements).domain
    for predicted, served in (
        (trained.shipped_predicted, measured.shipped.counts.rates),
        (trained.tuned_predicted, measured.tuned.counts.rates),
    ):
        # Validation has a dozen conversations here, and evaluation others of the same kind.
        assert predicted == pytest.approx(served, abs=0.15)


def test_what_was_published_is_found_under_its_digest(ran: Ran) -> None:
    artifact = ran.fine_tune["status"]["artifact"]
    for kind in ("head", "checkpoint"):
        folder = ran.heads / artifact[kind]["path"].removeprefix("pvc://heads/")
        assert artefact_digest(folder) == artifact[kind]["digest"]
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["run"] == f"default/{NAME}"
        assert manifest["gate"] == {"passed": True, "failures": []}
    assert artifact["head"]["sizeBytes"] < artifact["checkpoint"]["sizeBytes"]


def test_the_report_shows_the_measured_figures(ran: Ran) -> None:
    page = ran.workspace.report.read_text()
    for head in ("shipped", "tuned"):
        assert f"{float(ran.fine_tune['status']['evaluation'][head]['meanAcceptanceLength']):.2f}" in page


def test_the_serving_drafts_with_the_tuned_head(ran: Ran) -> None:
    acceptance = ran.serving["status"]["acceptance"]
    assert acceptance["drafts"] >= 100
    # Each answer's first token comes from the prompt, each further step gives one token and the accepted drafts.
    assert acceptance["acceptedTokens"] + acceptance["drafts"] <= ran.completion_tokens + 3 * acceptance["pods"] * 16
    evaluation = ran.fine_tune["status"]["evaluation"]
    shipped, tuned, served = (
        float(figures["meanAcceptanceLength"]) for figures in (evaluation["shipped"], evaluation["tuned"], acceptance)
    )
    assert abs(served - tuned) < abs(served - shipped)


def test_applying_the_finished_run_again_starts_nothing(ran: Ran) -> None:
    async def again() -> tuple[list[str], list[str], list[str]]:
        async with LocalSession(ran.state, {"quickstart": QUICKSTART, "heads": ran.heads}) as session:
            before = [pod["metadata"]["name"] for pod in session.store.select(POD) if NAME in pod["metadata"]["name"]]
            outcome = await session.apply(ran.manifests[:1])
            await session.wait(FINE_TUNE, NAME, "Ready", 30)
            after = [pod["metadata"]["name"] for pod in session.store.select(POD) if NAME in pod["metadata"]["name"]]
            stages = [f"{NAME}-{stage.value.lower()}" for stage in Stage]
            return (
                outcome,
                *([name for name in names if name.startswith(tuple(stages))] for names in (before, after)),
            )

    outcome, before, after = asyncio.run(again())
    assert outcome == ["unchanged"]
    assert before == after
