"""What the stage tells people: the line it opens with, and the warnings that its result carries."""

from __future__ import annotations

from mtp_trainer.contract import AcceptanceCounts
from mtp_trainer.train.checkpoints import Best

FEW_TOKENS, MANY_PASSES = 200_000, 5.0


def opening(first_step: int, total_steps: int, shipped: AcceptanceCounts, objective: str, kv_context: str) -> str:
    """The line before the first step."""
    begins = f"resuming after step {first_step} of {total_steps}" if first_step else f"{total_steps} steps"
    rates = "/".join(f"{rate:.3f}" for rate in shipped.rates) or "unknown (no held-out chain)"
    return f"{begins}, {objective} on the {kv_context} recursion; the shipped head's predicted acceptance is {rates}"


def acceptance_warning(shipped: AcceptanceCounts, best: Best, depth: int) -> str | None:
    """Why the tuned head may be no better than the shipped one; None where it is predicted to be."""
    if not shipped.drafts:
        return (
            f"no held-out document is long enough for a draft of {depth} tokens, so acceptance isn't predicted and the "
            "last head is taken; give longer documents, or train fewer steps of recursion"
        )
    if best.mean_acceptance_length > (shipped.mean_acceptance_length or 1.0):
        return None
    return "no checkpoint is predicted better than the shipped head; give more data, or change the learning rate"


def data_warning(unique_tokens: int, passes: float) -> str | None:
    """Many passes over little data memorise it."""
    if passes <= MANY_PASSES or unique_tokens >= FEW_TOKENS:
        return None
    return f"{passes:.0f} passes over only {unique_tokens} unique tokens; more data helps more than more passes"
