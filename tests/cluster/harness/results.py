"""Termination messages as the trainer writes them, from the contract's own models."""

from __future__ import annotations

from mtp_trainer.contract import (
    AcceptanceCounts,
    ArtifactRef,
    EvaluateResult,
    FailureResult,
    GateVerdict,
    PrepareResult,
    PublishResult,
    Reason,
    SetEvaluation,
    Stage,
    TrainResult,
    result_json,
)

STAGES = ("prepare", "train", "evaluate", "publish")
_DIGEST = "sha256:" + "ab" * 32
_SHIPPED = AcceptanceCounts(drafts=1000, accepted=(850, 600, 400))
_TUNED = AcceptanceCounts(drafts=1000, accepted=(880, 720, 580))


def message_of(stage: str) -> str:
    """What a successful stage leaves."""
    return {"prepare": _prepare, "train": _train, "evaluate": _evaluate, "publish": _publish}[stage]()


def failure(stage: Stage, reason: Reason, message: str) -> str:
    """What a stage leaves that stopped on purpose."""
    return result_json(FailureResult(stage=stage, reason=reason, message=message))


def gate_failed() -> str:
    """An evaluation whose tuned head may not be published."""
    verdict = GateVerdict(
        passed=False, failures=("the improvement is below minImprovement",), reason=Reason.GATE_FAILED
    )
    return _evaluated(verdict)


def _prepare() -> str:
    return result_json(
        PrepareResult(
            family="qwen3_5",
            verifier_digest=_DIGEST,
            head_tensors=15,
            head_parameters=1_000_000,
            data_digest=_DIGEST,
            read=1500,
            kept=1400,
            train_documents=1330,
            validation_documents=70,
            train_tokens=200_000,
            trained_tokens=100_000,
            rows=400,
            domain_prompts=200,
            general_prompts=150,
        )
    )


def _train() -> str:
    return result_json(
        TrainResult(
            objective="KL",
            kv_context="Serving",
            steps=3,
            optimizer_steps=400,
            best_step=350,
            first_loss=2.0,
            last_loss=1.0,
            shipped_predicted=_SHIPPED.rates,
            tuned_predicted=_TUNED.rates,
            tokens_per_second=1000.0,
            unique_tokens=100_000,
            passes=3.0,
            head=ArtifactRef(path="/mnt/mtp/workspace/train/head", digest=_DIGEST, size_bytes=1000),
        )
    )


def _evaluate() -> str:
    return _evaluated(GateVerdict(passed=True))


def _evaluated(verdict: GateVerdict) -> str:
    domain = SetEvaluation(
        shipped=_SHIPPED, tuned=_TUNED, improvement=0.33, improvement_low=0.28, improvement_high=0.38
    )
    return result_json(
        EvaluateResult(num_speculative_tokens=3, domain=domain, output_parity=True, parity_prompts=32, gate=verdict)
    )


def _publish() -> str:
    head = ArtifactRef(path="/mnt/mtp/claims/heads/quickstart/head", digest=_DIGEST, size_bytes=1000)
    return result_json(PublishResult(head=head))
