"""Where a published artefact comes from and what it was measured to do."""

from __future__ import annotations

from typing import Any

from mtp_trainer.contract.configs import PublishConfig
from mtp_trainer.contract.results import AcceptanceCounts, SetEvaluation
from mtp_trainer.publish.results import Earlier


def provenance(config: PublishConfig, earlier: Earlier) -> dict[str, Any]:
    """What publishing knows beyond the training's own manifest."""
    prepare, train, evaluate = earlier.prepare, earlier.train, earlier.evaluate
    return {
        "run": config.run,
        "operatorVersion": config.operator_version,
        "verifier": {
            "uri": config.verifier.uri,
            "revision": prepare.verifier_revision,
            "digest": prepare.verifier_digest,
            "family": prepare.family,
        },
        "data": {
            "digest": prepare.data_digest,
            "trainTokens": prepare.train_tokens,
            "trainedTokens": prepare.trained_tokens,
            "passes": train.passes,
        },
        "recipe": {"objective": train.objective, "kvContext": train.kv_context, "steps": train.steps},
        "acceptance": {
            "numSpeculativeTokens": evaluate.num_speculative_tokens,
            "domain": evaluated(evaluate.domain),
            **({"general": evaluated(evaluate.general)} if evaluate.general else {}),
            "outputParity": evaluate.output_parity,
        },
        "gate": {"passed": evaluate.gate.passed, "failures": list(evaluate.gate.failures)},
    }


def evaluated(result: SetEvaluation) -> dict[str, Any]:
    """Both heads on one set of prompts, and the interval of the improvement in tokens per verifier step."""
    return {
        "shipped": measured(result.shipped),
        "tuned": measured(result.tuned),
        "improvement": result.improvement,
        "improvementLow": result.improvement_low,
        "improvementHigh": result.improvement_high,
    }


def measured(counts: AcceptanceCounts) -> dict[str, Any]:
    """Counts and the rates that follow from them."""
    return {
        "drafts": counts.drafts,
        "accepted": list(counts.accepted),
        "positions": list(counts.rates),
        "meanAcceptanceLength": counts.mean_acceptance_length,
    }
