"""What the evaluate stage measured, as a file: everything that the gate decides on and the report shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from mtp_trainer.contract import AcceptanceCounts, GateVerdict

PARITY_SHARE = 0.95
"""Share of answers that must agree with those written without drafting.

Verification computes several tokens at once and another batch shape rounds differently, so a near tie between two
tokens may fall the other way. Such answers count as agreeing; a head or server that changes output breaks nearly all.
"""

NEAR_TIE_NATS = 0.25
"""Two tokens' distance in log-probability up to which rounding may swap them.

Logits between 16 and 32 are 0.125 apart in bfloat16, and each of the two may be rounded by one such step.
"""


class Record(BaseModel):
    """Base: camelCase in JSON, frozen."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Interval(Record):
    """A figure with its 95 % bootstrap interval over prompts."""

    value: float
    low: float
    high: float


class HeadMeasurement(Record):
    """One head on one set of prompts."""

    counts: AcceptanceCounts
    rates: tuple[Interval, ...]
    """Unconditional acceptance at each position."""
    mean_acceptance_length: Interval
    """Tokens per step."""
    tokens_per_second: tuple[float, ...] = ()
    """Of each timed round, all requests together; comparable only within this file."""


class SetMeasurement(Record):
    """Both heads on one set, same prompts, same depth."""

    prompts: int
    shipped: HeadMeasurement
    tuned: HeadMeasurement
    improvement: Interval
    """Tuned minus shipped mean acceptance length, paired by prompt."""
    tokens_per_second_ratio: float | None = None
    """Tuned over shipped: median of the ratios of neighbouring rounds."""


class ParityMeasurement(Record):
    """Greedy output with drafting compared with output without it."""

    prompts: int
    identical: int
    near_ties: int = 0
    """Answers that part where the verifier's likeliest tokens were within :data:`NEAR_TIE_NATS`."""
    first_difference: str | None = None
    """Where the first other answer that differs parts, for people."""

    @property
    def share(self) -> float:
        """Share of prompts whose answers agree token by token, or part at a near tie."""
        return (self.identical + self.near_ties) / self.prompts if self.prompts else 0.0

    @property
    def agrees(self) -> bool:
        """Whether drafting left the output as it is."""
        return self.share >= PARITY_SHARE


class Measurements(Record):
    """Content of ``evaluate/measurements.json``."""

    num_speculative_tokens: int
    draft_sampling: str
    temperature: float
    max_tokens: int
    engine: str
    """Name and version of the engine."""
    domain: SetMeasurement
    general: SetMeasurement | None = None
    stitched: AcceptanceCounts | None = None
    parity: ParityMeasurement
    shipped_predicted: tuple[float, ...] = ()
    tuned_predicted: tuple[float, ...] = ()
    """Acceptance per position that training predicted offline."""
    gate: GateVerdict
    warnings: tuple[str, ...] = ()


def read_measurements(path: Path) -> Measurements:
    """Read ``measurements.json``."""
    return Measurements.model_validate_json(path.read_text(encoding="utf-8"))


def summed(counts: Sequence[AcceptanceCounts]) -> AcceptanceCounts:
    """Counts of several requests together."""
    depth = max((len(c.accepted) for c in counts), default=0)
    return AcceptanceCounts(
        drafts=sum(c.drafts for c in counts),
        accepted=tuple(sum(c.accepted[i] for c in counts if i < len(c.accepted)) for i in range(depth)),
    )
