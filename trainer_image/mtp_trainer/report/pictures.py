"""The report's charts, from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from mtp_trainer.measurements import Measurements, SetMeasurement
from mtp_trainer.report.charts import svg
from mtp_trainer.report.charts.acceptance import Bars, acceptance_chart
from mtp_trainer.report.charts.intervals import Row, interval_chart
from mtp_trainer.report.charts.lines import Line, line_chart
from mtp_trainer.report.charts.scale import around, ticks
from mtp_trainer.report.figures import round_ratios
from mtp_trainer.report.history import Curves, moving_mean
from mtp_trainer.report.numbers import length, length_range, ratio, share, significant
from mtp_trainer.report.theme import chart_css

MARGIN = 24.0


def acceptance_picture(measured: Measurements) -> str | None:
    """The main chart; ``None`` where nothing was drafted."""
    return _acceptance("acceptance", measured.domain, measured.shipped_predicted, measured.tuned_predicted)


def general_picture(general: SetMeasurement) -> str | None:
    """The main chart's like for the general set."""
    return _acceptance("general", general)


def standalone_picture(measured: Measurements) -> str:
    """The main chart as a file of its own: on a card of its own colour, so that it can stand on any background."""
    domain = measured.domain
    lengths = [length(head.mean_acceptance_length.value) for head in (domain.shipped, domain.tuned)]
    heading = (
        f"Mean acceptance length {lengths[0]} → {lengths[1]} tokens per step",
        f"Drafted tokens that the verifier accepted; {domain.prompts:,} held-out prompts, {measured.engine}",
    )
    bars = _bars(domain, measured.shipped_predicted, measured.tuned_predicted)
    inner = acceptance_chart("acceptance", "Acceptance per position, shipped against tuned", *bars, heading)
    _, _, width, height = (float(part) for part in inner.attrib["viewBox"].split())
    outer = svg.chart("card", width + 2 * MARGIN, height + 2 * MARGIN, "", "")
    outer[:] = inner[:2]
    outer.set("xmlns", svg.NAMESPACE)
    outer.set("aria-labelledby", inner.attrib["aria-labelledby"])
    outer.set("width", svg.number(width + 2 * MARGIN))
    outer.set("height", svg.number(height + 2 * MARGIN))
    svg.add(outer, "style", chart_css())
    svg.add(
        outer, "rect", x=0.5, y=0.5, width=width + 2 * MARGIN - 1, height=height + 2 * MARGIN - 1, rx=12, class_="card"
    )
    moved = svg.add(outer, "g", transform=f"translate({MARGIN:g} {MARGIN:g})")
    moved.extend(inner[2:])
    return svg.markup(outer) + "\n"


def length_picture(identity: str, measured: SetMeasurement, depth: int) -> str:
    """Mean acceptance lengths on the scale of what is possible: from 1 to depth + 1 tokens per step."""
    rows = [
        Row(
            name=name,
            style=name,
            value=head.mean_acceptance_length.value,
            low=head.mean_acceptance_length.low,
            high=head.mean_acceptance_length.high,
            said=f"{length(head.mean_acceptance_length.value)} ({length_range(head.mean_acceptance_length)})",
        )
        for name, head in (("shipped", measured.shipped), ("tuned", measured.tuned))
    ]
    title = "Mean acceptance length with 95% intervals"
    marks = range(1, depth + 2)
    return svg.markup(interval_chart(identity, title, rows, (1.0, depth + 1.0), marks, lambda value: f"{value:g}"))


def throughput_picture(measured: SetMeasurement) -> str | None:
    """Tuned over shipped speed, median and range of the rounds; ``None`` where it wasn't measured."""
    if measured.tokens_per_second_ratio is None:
        return None
    rounds = round_ratios(measured)
    median = measured.tokens_per_second_ratio
    low, high = (min(rounds), max(rounds)) if len(rounds) > 1 else (None, None)
    said = ratio(median) if low is None or high is None else f"{ratio(median)} ({ratio(low)} to {ratio(high)})"
    row = Row("tuned ÷ shipped", "tuned", median, low, high, said, rounds)
    between = around([1.0, median, *rounds], 0.25)
    title = "Ratio of tokens per second, tuned over shipped"
    marks = ticks(*between, about=5)
    chart = interval_chart(
        "throughput", title, [row], between, marks, lambda v: f"{v:.4g}×", (1.0, "as fast as shipped")
    )
    return svg.markup(chart)


def prediction_picture(curves: Curves, best_step: int | None) -> str | None:
    """Predicted acceptance of each position over training; ``None`` with fewer than two validations."""
    depth = max((len(v.rates) for v in curves.validations), default=0)
    if len(curves.validations) < 2 or not depth:
        return None
    lines = [
        Line(
            f"position {i}",
            f"position-{i % 8}",
            [(v.step, v.rates[i]) for v in curves.validations if i < len(v.rates)],
            marked=len(curves.validations) <= 60,
        )
        for i in range(depth)
    ]
    words = "; ".join(
        f"{line.name} from {share(line.points[0][1])} at step {line.points[0][0]:,} to {share(line.points[-1][1])} "
        f"at step {line.points[-1][0]:,}"
        for line in lines
    )
    rule = None if best_step is None else (float(best_step), "kept as the tuned head")
    title = "Predicted acceptance over training"
    return svg.markup(line_chart("prediction", title, f"{words}.", lines, (0.0, 1.0), _percent, rule=rule))


def loss_window(curves: Curves) -> int:
    """Steps that are averaged for the smoothed loss: about a twentieth of the run."""
    return max(1, len(curves.steps) // 20) | 1


def smoothed_loss(curves: Curves) -> list[float]:
    """The loss as the chart's curve and the table show it."""
    return moving_mean([step.loss for step in curves.steps], loss_window(curves))


def loss_picture(curves: Curves) -> str | None:
    """Loss per optimiser step, single values and smoothed; ``None`` with fewer than two steps."""
    steps = curves.steps
    if len(steps) < 2:
        return None
    raw = [(float(step.step), step.loss) for step in steps]
    lines = [Line("loss", "total", _zip(raw, smoothed_loss(curves)))]
    depth = min(len(step.step_losses) for step in steps)
    for i in range(depth if depth > 1 else 0):
        means = moving_mean([step.step_losses[i] for step in steps], loss_window(curves))
        lines.append(Line(f"position {i}", f"position-{i % 8} thin", _zip(raw, means)))
    words = (
        f"From {significant(lines[0].points[0][1])} to {significant(lines[0].points[-1][1])}, smoothed, "
        f"over {len(steps):,} steps."
    )
    low, high = around([y for _, y in raw] + [y for line in lines for _, y in line.points], 0.04)
    between = (max(0.0, low) if min(y for _, y in raw) >= 0 else low, high)
    return svg.markup(line_chart("loss", "Loss per optimiser step", words, lines, between, _short, raw))


def _acceptance(
    identity: str, measured: SetMeasurement, shipped: Sequence[float] = (), tuned: Sequence[float] = ()
) -> str | None:
    bars = _bars(measured, shipped, tuned)
    if not any(head.rates for head in bars):
        return None
    return svg.markup(_root(identity, bars))


def _root(identity: str, bars: tuple[Bars, Bars]) -> ET.Element:
    return acceptance_chart(identity, "Acceptance per position, shipped against tuned", *bars)


def _bars(measured: SetMeasurement, shipped: Sequence[float], tuned: Sequence[float]) -> tuple[Bars, Bars]:
    return (
        Bars("shipped head", "shipped", measured.shipped.rates, tuple(shipped)),
        Bars("tuned head", "tuned", measured.tuned.rates, tuple(tuned)),
    )


def _zip(raw: Sequence[tuple[float, float]], values: Sequence[float]) -> list[tuple[float, float]]:
    return [(x, value) for (x, _), value in zip(raw, values, strict=True)]


def _percent(value: float) -> str:
    return share(value) if round(value * 100, 6) % 1 else f"{value:.0%}"


def _short(value: float) -> str:
    return f"{value:.3g}"
