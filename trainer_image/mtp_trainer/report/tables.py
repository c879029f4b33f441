"""Every figure of the report as text, in tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtp_trainer.contract import PrepareResult, TrainResult
from mtp_trainer.measurements import Measurements, SetMeasurement
from mtp_trainer.report.charts.scale import thinned
from mtp_trainer.report.figures import round_ratios
from mtp_trainer.report.history import Step, Validation
from mtp_trainer.report.numbers import (
    change,
    change_range,
    count,
    length,
    length_range,
    points,
    ratio,
    share,
    share_range,
    significant,
)

NOTHING = "–"
MOST_STEPS = 25
"""Rows of the loss table; the whole is in history.jsonl."""


@dataclass(frozen=True)
class Table:
    """Rows of text; the first cell of a row is its heading."""

    caption: str
    headings: tuple[str, ...]
    """Empty for pairs of name and value."""
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()
    """What columns after the first have in common, and how many they are."""

    @property
    def starts(self) -> frozenset[int]:
        """Columns with which a group begins; the page leaves some space before them."""
        return frozenset(1 + sum(span for _, span in self.groups[:i]) for i in range(len(self.groups)))

    @property
    def narrow(self) -> bool:
        """Too few columns to be spread over a page."""
        return len(self.headings) == 3


def acceptance_table(
    measured: SetMeasurement, shipped_predicted: Sequence[float] = (), tuned_predicted: Sequence[float] = ()
) -> Table:
    """One row per position: both rates, their intervals, counts, predictions where there are some."""
    predicted = bool(shipped_predicted or tuned_predicted)
    shipped, tuned = measured.shipped, measured.tuned
    rows = []
    for i in range(max(len(shipped.rates), len(tuned.rates))):
        cells = [f"position {i}"]
        for head, prediction in ((shipped, shipped_predicted), (tuned, tuned_predicted)):
            if i < len(head.rates):
                cells += [share(head.rates[i].value), share_range(head.rates[i]), count(head.counts.accepted[i])]
            else:
                cells += [NOTHING] * 3
            if predicted:
                cells.append(share(prediction[i]) if i < len(prediction) else NOTHING)
        both = i < len(shipped.rates) and i < len(tuned.rates)
        rows.append((*cells, points(tuned.rates[i].value - shipped.rates[i].value) if both else NOTHING))
    columns = ("rate", "95% interval", "accepted", *(["predicted"] if predicted else []))
    drafts = f"{count(shipped.counts.drafts)} drafts of the shipped head, {count(tuned.counts.drafts)} of the tuned one"
    groups = (("shipped head", len(columns)), ("tuned head", len(columns)), ("", 1))
    return Table(drafts, ("", *columns, *columns, "points"), tuple(rows), groups)


def length_table(measured: SetMeasurement) -> Table:
    """Mean acceptance lengths, their difference, and throughput where it was measured."""
    rows = [
        (name, length(head.mean_acceptance_length.value), length_range(head.mean_acceptance_length))
        for name, head in (("shipped", measured.shipped), ("tuned", measured.tuned))
    ]
    rows.append(("improvement", change(measured.improvement.value), change_range(measured.improvement)))
    return Table("Mean acceptance length, tokens per step", ("", "value", "95% interval"), tuple(rows))


def rounds_table(measured: SetMeasurement) -> Table | None:
    """Tokens per second of each timed round; ``None`` where nothing was timed."""
    ratios = round_ratios(measured)
    pairs = zip(measured.shipped.tokens_per_second, measured.tuned.tokens_per_second, ratios, strict=False)
    rows = [(f"round {i + 1}", f"{a:,.1f}", f"{b:,.1f}", ratio(r)) for i, (a, b, r) in enumerate(pairs)]
    if measured.tokens_per_second_ratio is not None:
        rows.append(("median", "", "", ratio(measured.tokens_per_second_ratio)))
    if not rows:
        return None
    return Table("Tokens per second, all requests together", ("", "shipped", "tuned", "ratio"), tuple(rows))


def validation_table(validations: Sequence[Validation]) -> Table:
    """One row per validation."""
    depth = max((len(v.rates) for v in validations), default=0)
    rows = tuple(
        (
            count(v.step),
            *(share(rate) for rate in v.rates),
            *[NOTHING] * (depth - len(v.rates)),
            length(v.mean_acceptance_length),
            count(v.drafts),
        )
        for v in validations
    )
    headings = ("step", *(f"position {i}" for i in range(depth)), "mean acceptance length", "drafts")
    return Table("Predicted on held-out rows; step 0 is the shipped head", headings, rows)


def loss_table(steps: Sequence[Step], smoothed: Sequence[float]) -> Table:
    """Some steps, evenly apart: loss, smoothed loss, loss of each recursion step, learning rate."""
    depth = max((len(step.step_losses) for step in steps), default=0)
    chosen = thinned(len(steps), MOST_STEPS)
    rows = tuple(
        (
            count(steps[i].step),
            significant(steps[i].loss),
            significant(smoothed[i]),
            *(significant(loss) for loss in steps[i].step_losses),
            *[NOTHING] * (depth - len(steps[i].step_losses)),
            NOTHING if (rate := steps[i].learning_rate) is None else significant(rate),
        )
        for i in chosen
    )
    caption = "Every step" if len(chosen) == len(steps) else f"{len(chosen)} of {count(len(steps))} steps"
    headings = ("step", "loss", "smoothed", *(f"position {i}" for i in range(depth)), "learning rate")
    return Table(caption, headings, rows)


def training_table(trained: TrainResult) -> Table:
    """What was trained, how far, and at which speed."""
    pairs = [
        ("objective", f"{trained.objective} on the {words(trained.kv_context)} recursion, {trained.steps} steps deep"),
        ("optimiser steps", count(trained.optimizer_steps)),
        ("best step", f"{count(trained.best_step)} (the tuned head)"),
        ("loss", f"{significant(trained.first_loss)} at first, {significant(trained.last_loss)} at last"),
        ("passes", f"{trained.passes:g} over {count(trained.unique_tokens)} tokens under the loss mask"),
        ("speed", f"{trained.tokens_per_second:,.1f} tokens per second"),
        ("head", trained.head.digest),
    ]
    if trained.resumed_from is not None:
        pairs.insert(3, ("resumed", f"from step {count(trained.resumed_from)}"))
    if trained.checkpoint is not None:
        pairs.append(("stitched checkpoint", trained.checkpoint.digest))
    return Table("Recipe", (), tuple(pairs))


def data_table(prepared: PrepareResult) -> Table:
    """Samples and tokens, with what was left out and why."""
    rows = [("samples read", count(prepared.read), "")]
    for reason, number in sorted(prepared.dropped.items(), key=lambda item: -item[1]):
        rows.append((f"left out: {words(reason)}", count(number), _of(number, prepared.read)))
    rows += [
        ("samples kept", count(prepared.kept), _of(prepared.kept, prepared.read)),
        ("documents to train on", count(prepared.train_documents), ""),
        ("documents to validate on", count(prepared.validation_documents), ""),
        ("rows", count(prepared.rows), ""),
        ("tokens in rows", count(prepared.train_tokens), ""),
        (
            "tokens under the loss mask",
            count(prepared.trained_tokens),
            _of(prepared.trained_tokens, prepared.train_tokens),
        ),
        ("prompts of the domain", count(prepared.domain_prompts), ""),
    ]
    if prepared.general_prompts:
        rows.append(("prompts of the general set", count(prepared.general_prompts), ""))
    return Table("Counts of the prepare stage", ("", "count", "share"), tuple(rows))


def verifier_table(prepared: PrepareResult) -> Table:
    """Which model, by digest."""
    pairs = [
        ("family", prepared.family),
        ("MTP head", f"{count(prepared.head_tensors)} tensors, {count(prepared.head_parameters)} parameters"),
        ("verifier", prepared.verifier_digest),
        ("data", prepared.data_digest),
    ]
    if prepared.verifier_revision:
        pairs.insert(1, ("revision", prepared.verifier_revision))
    return Table("Inputs", (), tuple(pairs))


def stitched_table(measured: Measurements) -> Table | None:
    """The stitched checkpoint beside the overlay, count by count."""
    if measured.stitched is None:
        return None
    overlay, stitched = measured.domain.tuned.counts, measured.stitched
    depth = max(len(overlay.accepted), len(stitched.accepted))
    rows = [
        (name, count(counts.drafts), *(count(a) for a in counts.accepted), *[NOTHING] * (depth - len(counts.accepted)))
        for name, counts in (("head overlay", overlay), ("stitched checkpoint", stitched))
    ]
    headings = ("", "drafts", *(f"accepted at {i}" for i in range(depth)))
    return Table("Same prompts, same sampling", headings, tuple(rows))


def configuration_table(configuration: Mapping[str, Any]) -> Table:
    """Dotted names and values."""
    return Table("Configuration of the evaluate stage", (), tuple(_flat(configuration)))


def words(name: str) -> str:
    """``regenerationFailed`` as ``regeneration failed``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _of(part: int, whole: int) -> str:
    return share(part / whole) if whole else ""
