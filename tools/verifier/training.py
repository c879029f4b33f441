"""The two phases of training: the trunk on next tokens, then the head on the token after, with the trunk frozen.

The head's phase is that of a published checkpoint: one step, hard labels, ground truth as input. Nothing here applies
the head to its own output, so its drafts get worse with depth, and a recursive fine-tune has something to gain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verifier.corpus import Rows
from verifier.layers import packing
from verifier.model import Verifier
from verifier.precision import autocast


@dataclass
class Curve:
    """What a phase reports: loss (nats per answer token) after so many tokens, and the time it took."""

    tokens: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    seconds: float = 0.0


def target_weights(rows: Rows, distance: int) -> Tensor:
    """Loss weights ``[R, T - distance]`` of predicting token t + distance at t, 0 across documents."""
    same = rows.documents[:, distance:] == rows.documents[:, :-distance]
    return rows.weights[:, distance:] * same


def weighted_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, float]:
    """Weighted mean cross-entropy, and its mean over answer tokens alone for the curve."""
    losses = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    weights = weights.flatten()
    answers = weights == 1.0
    shown = (losses.detach() * answers).sum() / answers.sum().clamp(min=1)
    return (losses * weights).sum() / weights.sum(), float(shown)


def trunk_loss(verifier: Verifier, rows: Rows) -> tuple[Tensor, float]:
    """Next-token loss of a batch."""
    packed = packing(rows.documents, rows.positions, verifier.shape)
    with autocast():
        logits = verifier.logits(verifier.model(rows.tokens, packed))
    return weighted_loss(logits[:, :-1], rows.tokens[:, 1:], target_weights(rows, 1))


def head_loss(verifier: Verifier, rows: Rows) -> tuple[Tensor, float]:
    """Loss of the head's single step: row t sees token t + 1 and the normed state of t, and predicts token t + 2."""
    packed = packing(rows.documents, rows.positions, verifier.shape)
    with autocast():
        with torch.no_grad():
            hidden = verifier.model(rows.tokens, packed)
            embedded = verifier.model.embed_tokens(rows.tokens.roll(-1, dims=1))
        logits = verifier.logits(verifier.mtp(embedded, hidden, packed))
    return weighted_loss(logits[:, :-2], rows.tokens[:, 2:], target_weights(rows, 2))


def batches(rows: Rows, size: int, generator: torch.Generator) -> Iterable[Rows]:
    """Endless batches of ``size`` rows, shuffled anew each pass."""
    while True:
        order = torch.randperm(len(rows.tokens), generator=generator)
        for start in range(0, len(order) - size + 1, size):
            pick = order[start : start + size]
            yield Rows(rows.tokens[pick], rows.documents[pick], rows.positions[pick], rows.weights[pick])


def train(
    name: str,
    verifier: Verifier,
    part: nn.Module,
    loss_of: Callable[[Verifier, Rows], tuple[Tensor, float]],
    source: Iterable[Rows],
    *,
    steps: int,
    learning_rate: float,
    stop: int | None = None,
    warmup: int = 60,
    on_progress: Callable[[int], None] | None = None,
    progress_seconds: float = 180.0,
) -> Curve:
    """AdamW with warm-up and cosine decay over ``steps`` on ``part`` alone, until step ``stop`` where that is given.

    ``on_progress`` is called every few minutes.
    """
    for parameter in verifier.parameters():
        parameter.requires_grad_(False)
    trained = [parameter.requires_grad_(True) for parameter in part.parameters()]
    groups = [
        {"params": [p for p in trained if p.dim() == 2], "weight_decay": 0.05},
        {"params": [p for p in trained if p.dim() != 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)
    curve, seen, shown, started = Curve(), 0, [], time.monotonic()
    last_progress = started
    for step, batch in zip(range(1, (stop or steps) + 1), source, strict=False):
        cosine = 0.5 * (1 + math.cos(math.pi * max(0, step - warmup) / max(1, steps - warmup)))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(step / warmup, 0.02 + 0.98 * cosine)
        loss, answer_loss = loss_of(verifier, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += batch.tokens.numel()
        shown.append(answer_loss)
        if step % 20 == 0 or step == steps:
            curve.tokens.append(seen)
            curve.loss.append(round(sum(shown) / len(shown), 4))
            shown.clear()
        now = time.monotonic()
        if step % 100 == 0 or step == steps:
            rate = seen / (now - started)
            spent = f"{rate:.0f} tokens/s, {now - started:.0f} s"
            print(f"{name} {step}/{steps}: loss {curve.loss[-1]:.3f}, {spent}", flush=True)
        if on_progress is not None and now - last_progress > progress_seconds:
            on_progress(step)
            last_progress = time.monotonic()
    curve.seconds = round(time.monotonic() - started, 1)
    return curve
