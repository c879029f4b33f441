"""The train stage, from top to bottom.

Only the head is trained. Rows, batches and learning rates are functions of seed and step, so a run that is killed and
resumed ends with the very same head as one that wasn't.
"""

from __future__ import annotations

import hashlib
import math
import time
from pathlib import Path

import torch

from mtp_trainer.checkpoints import VerifierInspection, load_inspection, read_tensors
from mtp_trainer.contract import (
    AcceptanceCounts,
    ExitCode,
    PrepareResult,
    Reason,
    Stage,
    StageError,
    TrainConfig,
    TrainResult,
    Workspace,
    parse_result,
)
from mtp_trainer.data import load_rows
from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead
from mtp_trainer.hidden_states import TransformersVerifier
from mtp_trainer.interruption import interruption
from mtp_trainer.objectives import resolve
from mtp_trainer.recursion import Batch, RecursionOutput, recursive_loss
from mtp_trainer.sources import verifier_folder
from mtp_trainer.train.artefacts import write_artefacts
from mtp_trainer.train.checkpoints import Best, TrainCheckpoints
from mtp_trainer.train.history import History
from mtp_trainer.train.progress import ProgressReporter
from mtp_trainer.train.schedule import learning_rate, rows_of_step, total_steps
from mtp_trainer.train.states import RowStates
from mtp_trainer.train.validation import held_out_acceptance

BETAS = (0.9, 0.95)
"""AdamW's, as in FastMTP (arXiv:2509.18362)."""

FEW_TOKENS, MANY_PASSES = 200_000, 5.0


def run(config: TrainConfig) -> TrainResult:
    """Train, and write checkpoints, history, progress and both artefacts.

    Raises:
        StageError: wrong inputs; ``LossNotFinite`` naming step and documents; ``Interrupted`` (exit code 75) after a
            checkpoint.
    """
    training = config.training
    if training.hidden_states == "VLLM":
        raise StageError(
            Reason.CONFIG_INVALID,
            "training.hiddenStates: VLLM is not available in this version; write Transformers",
        )
    workspace = Workspace(config.workspace)
    folder = verifier_folder(config.verifier, workspace)
    inspection = load_inspection(workspace.inspection)
    _same_verifier(folder, inspection)
    rows, held_out = load_rows(workspace.train_rows), load_rows(workspace.validation_rows)
    if not len(rows):
        raise StageError(Reason.DATASET_EMPTY, f"{workspace.train_rows}: has no rows; name a larger dataset")

    torch.manual_seed(training.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    compute = torch.bfloat16 if device == "cuda" else torch.float32
    verifier = TransformersVerifier(folder, compute, device)
    head = MTPHead.from_tensors(
        family_for(inspection.config), inspection.config, read_tensors(folder, inspection.head_tensors), compute
    ).to(device)
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=training.learning_rate, betas=BETAS, weight_decay=training.weight_decay
    )
    states, held_out_states = (
        RowStates(verifier, rows, "train", _say),
        RowStates(verifier, held_out, "validation", _say),
    )

    def predicted() -> AcceptanceCounts:
        return held_out_acceptance(head, held_out_states, verifier.embedding, verifier.lm_head, training.steps)

    shipped = predicted()
    checkpoints = TrainCheckpoints(workspace.checkpoints, _config_digest(config, inspection))
    resumed = checkpoints.resume(head, optimizer)
    warnings = list(resumed.passed_over) if resumed else []
    for warning in warnings:
        _say(f"warning: {warning}")
    first_step, best = (resumed.step, resumed.best) if resumed else (0, None)
    first_loss = last_loss = resumed.first_loss if resumed else math.nan
    history = History(workspace.history, first_step)
    if not resumed:
        history.validation(0, shipped.drafts, shipped.accepted, shipped.mean_acceptance_length or 1.0)
    newest = best.rates if best else shipped.rates
    steps, trained_tokens, seconds = total_steps(len(rows), training), 0, 0.0
    _say(_opening(first_step, steps, shipped, resolve(training.objective), training.kv_context))

    with (
        interruption.deferred(),
        ProgressReporter(workspace.progress, steps, first_step, config.progress_port) as progress,
    ):
        for step in range(first_step, steps):
            began = time.perf_counter()
            batch = states.batch(rows_of_step(step, len(rows), training))
            output = recursive_loss(
                head,
                batch,
                verifier.embedding,
                verifier.lm_head,
                training.objective,
                training.steps,
                training.kv_context,
                training.step_weights,
                training.top_k,
                temperature=config.temperature or 1.0,
            )
            rate = learning_rate(step, steps, training)
            norm = _update(head, optimizer, output, rate, training.max_grad_norm)
            last_loss = float(output.loss.detach())
            if not math.isfinite(last_loss) or not math.isfinite(norm):
                raise _not_finite(step, last_loss, norm, batch)
            first_loss = last_loss if step == 0 else first_loss
            trained_tokens += int(output.counted[0])
            seconds += time.perf_counter() - began
            speed = trained_tokens / seconds
            done = step + 1
            history.step(
                step=done,
                loss=last_loss,
                stepLosses=output.step_losses.tolist(),
                alpha=output.alpha.tolist(),
                learningRate=rate,
                gradNorm=norm,
                tokensPerSecond=round(speed, 1),
            )
            better = False
            if done % training.validate_every_steps == 0 or done == steps:
                counts = predicted()
                length = counts.mean_acceptance_length or 1.0
                history.validation(done, counts.drafts, counts.accepted, length)
                newest = counts.rates
                if better := best is None or length > best.mean_acceptance_length:
                    best = Best(done, length, counts.rates)
            if better or done % training.checkpoint_every_steps == 0 or done == steps or interruption.requested:
                checkpoints.save(done, head, optimizer, best, first_loss)
            progress.update(done, last_loss, newest, speed)
            if interruption.requested and done < steps:
                raise StageError(
                    Reason.INTERRUPTED,
                    f"stopped by a signal after step {done} of {steps}; a checkpoint is written, run it again to go on",
                    ExitCode.INTERRUPTED,
                )

    chosen = best or Best(steps, 1.0, ())
    if chosen.mean_acceptance_length <= (shipped.mean_acceptance_length or 1.0):
        warnings.append(
            "no checkpoint is predicted better than the shipped head; give more data, or change the learning rate"
        )
    unique, passes = rows.trained_token_count, steps * training.rows_per_batch / len(rows)
    if passes > MANY_PASSES and unique < FEW_TOKENS:
        warnings.append(f"{passes:.0f} passes over only {unique} unique tokens; more data helps more than more passes")
    data_digest = _data_digest(workspace)
    overlay, stitched = write_artefacts(
        config,
        folder,
        inspection,
        checkpoints.head(chosen.step),
        {"dataDigest": data_digest, "bestStep": chosen.step, "predictedAcceptance": list(chosen.rates)},
    )
    return TrainResult(
        objective=resolve(training.objective),
        kv_context=training.kv_context,
        steps=training.steps,
        optimizer_steps=steps,
        best_step=chosen.step,
        resumed_from=resumed.step if resumed else None,
        first_loss=round(first_loss, 6),
        last_loss=round(last_loss, 6),
        shipped_predicted=tuple(round(rate, 4) for rate in shipped.rates),
        tuned_predicted=tuple(round(rate, 4) for rate in chosen.rates),
        tokens_per_second=round(trained_tokens / seconds, 1) if seconds else 0.0,
        unique_tokens=unique,
        passes=round(passes, 2),
        head=overlay,
        checkpoint=stitched,
        warnings=tuple(warnings),
    )


def _update(
    head: MTPHead, optimizer: torch.optim.Optimizer, output: RecursionOutput, rate: float, max_norm: float
) -> float:
    """One optimiser step; returns the gradient norm before clipping. A norm that isn't finite changes nothing."""
    optimizer.zero_grad(set_to_none=True)
    output.loss.backward()
    norm = float(torch.nn.utils.clip_grad_norm_(head.parameters(), max_norm))
    if math.isfinite(norm):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return norm


def _not_finite(step: int, loss: float, norm: float, batch: Batch) -> StageError:
    documents = sorted({int(d) for d in batch.documents.unique().tolist() if d >= 0})
    named = ", ".join(map(str, documents[:20])) + (", ..." if len(documents) > 20 else "")
    return StageError(
        Reason.LOSS_NOT_FINITE,
        f"step {step + 1}: loss {loss}, gradient norm {norm} on documents {named}; "
        "lower training.learningRate, or look at these documents",
    )


def _same_verifier(folder: Path, inspection: VerifierInspection) -> None:
    """Compare sizes with what prepare hashed: cheap, and enough to notice another checkpoint."""
    for name, digest in inspection.files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != digest.size:
            raise StageError(
                Reason.CONFIG_INVALID,
                f"{path}: not the file that was prepared for; the verifier changed, so use a new workspace",
            )


def _config_digest(config: TrainConfig, inspection: VerifierInspection) -> str:
    """Of what decides about the trained head: recipe, verifier, data."""
    data = _data_digest(Workspace(config.workspace))
    text = f"{config.training.model_dump_json()}|{config.temperature}|{inspection.digest}|{data}"
    return hashlib.sha256(text.encode()).hexdigest()


def _data_digest(workspace: Workspace) -> str:
    path = workspace.result(Stage.PREPARE)
    try:
        result = parse_result(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: no result of the prepare stage ({error}); run that stage first"
        ) from error
    if not isinstance(result, PrepareResult):
        raise StageError(Reason.CONFIG_INVALID, f"{path}: the prepare stage did not succeed; run it again")
    return result.data_digest


def _opening(first: int, steps: int, shipped: AcceptanceCounts, objective: str, context: str) -> str:
    begins = f"resuming after step {first} of {steps}" if first else f"{steps} steps"
    rates = "/".join(f"{rate:.3f}" for rate in shipped.rates) or "unknown (no held-out chain)"
    return f"{begins}, {objective} on the {context} recursion; the shipped head's predicted acceptance is {rates}"


def _say(line: str) -> None:
    print(line, flush=True)
