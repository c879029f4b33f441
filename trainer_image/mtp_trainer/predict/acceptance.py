"""Count the drafts that a greedy server would accept, from packed rows that the verifier wrote.

At anchor t the head drafts K tokens on its own drafts. Draft i stands for token t + 2 + i. A greedy server accepts it iff
it accepted all before and draft i is the verifier's argmax after the tokens up to t + 1 + i, drafts included. The rows hold
the verifier's state only after their *own* tokens, so the argmax is known while the drafts so far equal the row's tokens.
Where a row was written greedily by this verifier, the row's next token is that argmax and the count is the server's.
Where it was sampled, a chain stops being known once an accepted draft differs from the row; it counts as rejected from
there, and ``undecided`` says how many did: the prediction is then a lower bound.

A server does not draft at every position: after accepting a drafts it starts again a + 1 tokens on. The walk visits the same
anchors, from the token before each answer (a run of tokens under the loss mask). Drafts that reach over the answer's end aren't
counted, because nothing says what the verifier would have written there.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mtp_trainer.contract.results import AcceptanceCounts
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion.batch import Batch


@dataclass(frozen=True)
class PredictedAcceptance:
    """Counts in vLLM's sense, and the drafts they come from. V visited anchors, K steps."""

    drafts: int
    """Visited anchors."""
    accepted: tuple[int, ...]
    """``accepted[i]``: visited anchors at which at least i + 1 drafts were accepted."""
    undecided: int
    """Visited anchors at which an accepted draft differed from the row's token, so that the rest wasn't known."""
    anchors: Tensor
    """``[V, 2]``: row and position of each visited anchor, in the order of the walk."""
    draft_tokens: Tensor
    """``[V, K]``."""
    accepted_lengths: Tensor
    """``[V]``: drafts accepted at each visited anchor."""

    @property
    def counts(self) -> AcceptanceCounts:
        """As the contract's counters, to add up over batches and compare with a server's."""
        return AcceptanceCounts(drafts=self.drafts, accepted=self.accepted)


def predict_acceptance(
    head: MTPHead,
    batch: Batch,
    embedding: Tensor,
    lm_head: Tensor,
    steps: int,
    every_anchor: bool = False,
    chunk_tokens: int = 1024,
) -> PredictedAcceptance:
    """Run the served greedy chain from the rows' anchors and count what is accepted.

    Args:
        head, batch, embedding, lm_head: as in :func:`mtp_trainer.recursion.recursive_loss`.
        steps: K, the number of speculative tokens.
        every_anchor: count every anchor instead of those that the server visits; less noise, but another quantity.
        chunk_tokens: positions whose vocabulary scores are in memory at once.
    """
    raise NotImplementedError
