"""What a measurement shows beside the gate: differences that should not be there. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mtp_trainer.measurements import Measurements

PREDICTION_GAP = 0.05
"""Difference between served and predicted acceptance at a position that is worth a warning."""


def remarks(measured: Measurements, domain_prompts: int, general_prompts: int) -> tuple[str, ...]:
    """A sentence for each.

    Args:
        domain_prompts, general_prompts: how many prompts there were to ask.
    """
    return (
        *_left_out(measured, domain_prompts, general_prompts),
        *_mispredicted(measured),
        *_stitched(measured),
    )


def _left_out(measured: Measurements, domain: int, general: int) -> Iterator[str]:
    for name, given, measurement in (("domain", domain, measured.domain), ("general", general, measured.general)):
        if measurement is not None and measurement.prompts < given:
            yield (
                f"{given - measurement.prompts} of {given} {name} prompts fill the context and were left out; "
                "raise engine.maxModelLen"
            )


def _mispredicted(measured: Measurements) -> Iterator[str]:
    for name, predicted, head in (
        ("shipped", measured.shipped_predicted, measured.domain.shipped),
        ("tuned", measured.tuned_predicted, measured.domain.tuned),
    ):
        for position, (offline, online) in enumerate(zip(predicted, head.counts.rates, strict=False)):
            if abs(offline - online) > PREDICTION_GAP:
                yield (
                    f"{name} head, position {position}: training predicted {offline:.3f}, vLLM accepted {online:.3f}; "
                    "validation and evaluation data differ, or training and serving do"
                )


def _stitched(measured: Measurements) -> Iterator[str]:
    tuned, stitched = measured.domain.tuned.counts, measured.stitched
    if stitched is not None and stitched != tuned:
        yield (
            f"the stitched checkpoint gave {stitched.drafts} drafts and {stitched.accepted}, the overlay "
            f"{tuned.drafts} and {tuned.accepted}; rounding explains small differences only"
        )
