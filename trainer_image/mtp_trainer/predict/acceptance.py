"""Count the drafts that a greedy server would accept, from packed rows that the verifier wrote.

At anchor t the head drafts K tokens, each on the drafts before it. Draft i stands for token t + 2 + i. A greedy server
accepts it iff it accepted all before and draft i is the verifier's argmax after the tokens up to t + 1 + i, drafts
included. The rows hold the verifier's state only after their *own* tokens, so that argmax is known while the drafts so
far equal the row's tokens. Where a row was written greedily by this verifier, the row's next token is that argmax and
the count is the server's. Where it was sampled, a chain stops being known once an accepted draft differs from the row;
it counts as rejected from there, and ``undecided`` says how many did: the prediction is then a lower bound.

A server does not draft at every position: after accepting a drafts it starts again a + 1 tokens on. The walk visits the
same anchors, from the token before each answer (a run of tokens under the loss mask). Drafts that reach over the
answer's end aren't counted, because nothing says what the verifier would have written there; a server counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtp_trainer.contract.results import AcceptanceCounts
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion.batch import Anchors, Batch
from mtp_trainer.recursion.states import serving_states


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
    with torch.no_grad():
        anchors = Anchors.whole(batch, steps)
        chain: list[Tensor] = []

        def own_draft(_: int, state: Tensor) -> Tensor:
            chain.append(_greedy(state, lm_head, chunk_tokens))
            return chain[-1]

        states = serving_states(head, batch, embedding, steps, anchors, own_draft)
        drafts = torch.stack([*chain, _greedy(states[-1], lm_head, chunk_tokens)])
        verdicts = _verdicts(batch, anchors, lm_head, steps, chunk_tokens)
        written = torch.stack([anchors.take(batch.ahead(batch.tokens, k + 2)) for k in range(steps)])
    follows = drafts == written
    known = torch.cat([torch.ones_like(follows[:1]), follows[:-1]]).cumprod(0)
    accepted = (drafts == verdicts).cumprod(0) * known
    lengths = accepted.sum(0)
    strides = (accepted * follows).sum(0) + 1
    undecided = (lengths >= strides) & (lengths < steps)
    visited = _visited(batch, anchors, strides, every_anchor)
    where = visited[:, 0], visited[:, 1]
    return PredictedAcceptance(
        drafts=len(visited),
        accepted=tuple(int(n) for n in accepted[:, where[0], where[1]].sum(1)),
        undecided=int(undecided[where].sum()),
        anchors=torch.stack([where[0], anchors.index[where]], dim=1).cpu(),
        draft_tokens=drafts[:, where[0], where[1]].T.cpu(),
        accepted_lengths=lengths[where].cpu(),
    )


def _greedy(states: Tensor, lm_head: Tensor, chunk_tokens: int) -> Tensor:
    """Likeliest tokens ``[...]`` of ``states[..., H]``."""
    flat = states.flatten(0, -2).to(lm_head.dtype)
    best = [(part @ lm_head.T).argmax(-1) for part in flat.split(chunk_tokens)]
    return torch.cat(best).view(states.shape[:-1])


def _verdicts(batch: Batch, anchors: Anchors, lm_head: Tensor, steps: int, chunk_tokens: int) -> Tensor:
    """``[K, R, A]``: the verifier's likeliest token at t + 2 + i, which its state at t + 1 + i gives."""
    last = batch.tokens.shape[1] - 1
    offset = torch.arange(len(batch.tokens), device=batch.tokens.device).unsqueeze(1) * (last + 1)
    places = torch.stack([(anchors.index + i + 1).clamp(max=last) + offset for i in range(steps)])
    positions, inverse = places.unique(return_inverse=True)
    return _greedy(batch.hidden.flatten(0, 1).index_select(0, positions), lm_head, chunk_tokens)[inverse]


def _visited(batch: Batch, anchors: Anchors, strides: Tensor, every_anchor: bool) -> Tensor:
    """``[V, 2]`` (row, number of the anchor in its row) of the anchors that count."""
    real = anchors.counted.all(0)
    if every_anchor:
        return real.nonzero()
    visited: list[tuple[int, int]] = []
    mask, documents = batch.loss_mask.bool().tolist(), batch.documents.tolist()
    for row, (places, valid, stride) in enumerate(
        zip(anchors.index.tolist(), real.tolist(), strides.tolist(), strict=True)
    ):
        number = {place: i for i, (place, ok) in enumerate(zip(places, valid, strict=True)) if ok}
        for first in _first_anchors(mask[row], documents[row]):
            place = first
            while place in number:
                visited.append((row, number[place]))
                place += stride[number[place]]
    return torch.tensor(visited, dtype=torch.long, device=real.device).view(-1, 2)


def _first_anchors(mask: list[bool], documents: list[int]) -> list[int]:
    """The token before each answer; where an answer opens its document, that answer's first token."""
    firsts = []
    for place, written in enumerate(mask):
        opens = place == 0 or documents[place - 1] != documents[place]
        if written and (opens or not mask[place - 1]):
            firsts.append(place if opens else place - 1)
    return firsts
