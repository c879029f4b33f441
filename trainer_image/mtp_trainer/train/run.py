"""The train stage, from top to bottom.

Only the head is trained. Rows, batches and learning rates are functions of seed and step, so a run that is killed and
resumed ends with the very same head as one that wasn't.
"""

from __future__ import annotations

import math
import time

import torch

from mtp_trainer.checkpoints import read_tensors
from mtp_trainer.contract import AcceptanceCounts, ExitCode, Reason, StageError, TrainConfig, TrainResult, Workspace
from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead
from mtp_trainer.hidden_states import TransformersVerifier
from mtp_trainer.interruption import interruption
from mtp_trainer.objectives import resolve
from mtp_trainer.train.artefacts import write_artefacts
from mtp_trainer.train.checkpoints import Best, TrainCheckpoints
from mtp_trainer.train.history import History
from mtp_trainer.train.inputs import read_inputs
from mtp_trainer.train.progress import ProgressReporter
from mtp_trainer.train.remarks import acceptance_warning, data_warning, opening
from mtp_trainer.train.schedule import learning_rate, rows_of_step, total_steps
from mtp_trainer.train.states import RowStates
from mtp_trainer.train.update import update
from mtp_trainer.train.validation import held_out_acceptance

BETAS = (0.9, 0.95)
"""AdamW's, as in FastMTP (arXiv:2509.18362)."""


def run(config: TrainConfig) -> TrainResult:
    """Train, and write checkpoints, history, progress and both artefacts.

    Raises:
        StageError: wrong inputs; ``LossNotFinite`` naming step and documents; ``Interrupted`` (exit code 75) after a
            checkpoint; ``DiskFull`` or ``OutputNotWritable``.
    """
    training, workspace = config.training, Workspace(config.workspace)
    inputs = read_inputs(config)
    rows, inspection = inputs.rows, inputs.inspection

    torch.manual_seed(training.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    compute = torch.bfloat16 if device == "cuda" else torch.float32
    verifier = TransformersVerifier(inputs.verifier, compute, device)
    shipped_head = read_tensors(inputs.verifier, inspection.head_tensors)
    head = MTPHead.from_tensors(family_for(inspection.config), inspection.config, shipped_head, compute).to(device)
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=training.learning_rate, betas=BETAS, weight_decay=training.weight_decay
    )
    states = RowStates(verifier, rows, workspace.train_rows.name, _say)
    held_out_states = RowStates(verifier, inputs.held_out, workspace.validation_rows.name, _say)

    def predicted() -> AcceptanceCounts:
        return held_out_acceptance(head, held_out_states, verifier.embedding, verifier.lm_head, training.steps)

    shipped = predicted()
    checkpoints = TrainCheckpoints(workspace.checkpoints, inputs.config_digest)
    resumed = checkpoints.resume(head, optimizer)
    first_step, best = (resumed.step, resumed.best) if resumed else (0, None)
    first_loss, last_loss = (resumed.first_loss, resumed.last_loss) if resumed else (math.nan, math.nan)
    warnings = list(resumed.damaged) if resumed else []
    for warning in warnings:
        _say(f"warning: {warning}")
    history = History(workspace.history, first_step)
    if not resumed:
        history.validation(0, shipped)
    newest = best.rates if best else shipped.rates
    steps, trained_tokens, seconds = total_steps(len(rows), training), 0, 0.0
    _say(opening(first_step, steps, shipped, resolve(training.objective), training.kv_context))

    with (
        interruption.deferred(),
        ProgressReporter(workspace.progress, steps, first_step, config.progress_port) as progress,
    ):
        for step in range(first_step, steps):
            began = time.perf_counter()
            batch = states.batch(rows_of_step(step, len(rows), training))
            made = update(step, config, head, optimizer, verifier, batch, learning_rate(step, steps, training))
            trained_tokens += int(made.output.counted[0])
            seconds += time.perf_counter() - began
            speed = trained_tokens / seconds
            done, last_loss = step + 1, made.loss
            first_loss = last_loss if step == 0 else first_loss
            history.step(done, made, speed)
            better = False
            if done % training.validate_every_steps == 0 or done == steps:
                counts = predicted()
                history.validation(done, counts)
                newest, length = counts.rates, counts.mean_acceptance_length or 1.0
                # Of equals the later one: where nothing can be predicted, that is the one trained longest.
                if better := best is None or length >= best.mean_acceptance_length:
                    best = Best(done, length, counts.rates)
            if better or done % training.checkpoint_every_steps == 0 or done == steps or interruption.requested:
                checkpoints.save(done, head, optimizer, best, first_loss, last_loss)
            progress.update(done, last_loss, newest, speed)
            if interruption.requested and done < steps:
                raise StageError(
                    Reason.INTERRUPTED,
                    f"stopped by a signal after step {done} of {steps}; a checkpoint is written, run it again to go on",
                    ExitCode.INTERRUPTED,
                )

    assert best is not None  # noqa: S101 - the last step validates
    unique, passes = rows.trained_token_count, steps * training.rows_per_batch / len(rows)
    remarks = acceptance_warning(shipped, best, training.steps), data_warning(unique, passes)
    figures = {"dataDigest": inputs.data_digest, "bestStep": best.step, "predictedAcceptance": list(best.rates)}
    overlay, stitched = write_artefacts(config, inputs.verifier, inspection, checkpoints.head(best.step), figures)
    return TrainResult(
        objective=resolve(training.objective),
        kv_context=training.kv_context,
        steps=training.steps,
        optimizer_steps=steps,
        best_step=best.step,
        resumed_from=resumed.step if resumed else None,
        first_loss=round(first_loss, 6),
        last_loss=round(last_loss, 6),
        shipped_predicted=tuple(round(rate, 4) for rate in shipped.rates),
        tuned_predicted=tuple(round(rate, 4) for rate in best.rates),
        tokens_per_second=round(trained_tokens / seconds, 1) if seconds else 0.0,
        unique_tokens=unique,
        passes=round(passes, 2),
        head=overlay,
        checkpoint=stitched,
        warnings=(*warnings, *(remark for remark in remarks if remark)),
    )


def _say(line: str) -> None:
    print(line, flush=True)
