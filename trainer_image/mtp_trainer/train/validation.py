"""Acceptance of a head on held-out rows, predicted by the served chain on the head's own drafts."""

from __future__ import annotations

from torch import Tensor

from mtp_trainer.contract import AcceptanceCounts
from mtp_trainer.head import MTPHead
from mtp_trainer.predict import predict_acceptance
from mtp_trainer.train.states import RowStates

ROWS_AT_ONCE = 4


def held_out_acceptance(
    head: MTPHead, rows: RowStates, embedding: Tensor, lm_head: Tensor, steps: int
) -> AcceptanceCounts:
    """Counts over all held-out rows, as vLLM counts; zero drafts where no row has a whole chain."""
    drafts, accepted = 0, [0] * steps
    for first in range(0, len(rows), ROWS_AT_ONCE):
        batch = rows.batch(range(first, min(first + ROWS_AT_ONCE, len(rows))))
        counts = predict_acceptance(head, batch, embedding, lm_head, steps).counts
        drafts += counts.drafts
        accepted = [total + more for total, more in zip(accepted, counts.accepted, strict=True)]
    return AcceptanceCounts(drafts=drafts, accepted=tuple(accepted))
