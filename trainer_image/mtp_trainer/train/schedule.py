"""Which rows a step sees, and its learning rate. Pure functions of the step, so that a resumed run needs no memory."""

from __future__ import annotations

import math

import torch

from mtp_trainer.contract import TrainingConfig

FINAL_SHARE = 0.05
"""The cosine ends at this share of the peak learning rate."""


def total_steps(rows: int, training: TrainingConfig) -> int:
    """Optimiser steps of the run: ``epochs`` passes, the last batch of a pass may be smaller; at most ``max_steps``."""
    steps = training.epochs * math.ceil(rows / training.rows_per_batch)
    return steps if training.max_steps is None else min(steps, training.max_steps)


def rows_of_step(step: int, rows: int, training: TrainingConfig) -> list[int]:
    """Rows of optimiser step ``step`` (from 0): each pass visits all rows once, in an order of its own."""
    batches = math.ceil(rows / training.rows_per_batch)
    epoch, batch = divmod(step, batches)
    generator = torch.Generator().manual_seed(training.seed * 1_000_003 + epoch)
    order = torch.randperm(rows, generator=generator).tolist()
    return order[batch * training.rows_per_batch : (batch + 1) * training.rows_per_batch]


def learning_rate(step: int, steps: int, training: TrainingConfig) -> float:
    """Linear warm-up to the peak, then a cosine down to :data:`FINAL_SHARE` of it."""
    warm_up = max(1, round(steps * training.warmup_fraction))
    if step < warm_up:
        return training.learning_rate * (step + 1) / warm_up
    progress = (step - warm_up) / max(1, steps - warm_up)
    share = FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * progress)) / 2
    return training.learning_rate * share
