"""Causal attention over step 0's keys, merged with a few keys that each anchor has for itself.

Step k of the served recursion lets anchor t attend to the keys of step 0 up to t and to its own chain's keys of steps
1 to k. Written as one attention that would be a ``[T, K * T]`` matrix, nearly all of it masked. Here the own keys are a
diagonal: at most K more scores per anchor, which enter the same softmax through the sum of exponentials.

Scores live only for one block of anchors at a time; the backward pass computes them again from the saved
log-sum-exp, as in FlashAttention (arXiv:2205.14135, section 3.1).

Shapes: R rows, G key and value heads, M query heads for each of them, A anchors, T row length, D head size, k own keys.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def chain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    own_key: Tensor | None,
    own_value: Tensor | None,
    index: Tensor,
    starts: Tensor,
    block: int = 128,
) -> Tensor:
    """Attention output ``[R, A, G * M, D]``, softmax in float32 (float64 for float64 inputs).

    Args:
        query: ``[R, A, G * M, D]``, query heads of one group next to each other.
        key, value: ``[R, T, G, D]``, shared by all anchors of a row.
        own_key, own_value: ``[k, R, A, G, D]``, each anchor's own, or None.
        index: ``[R, A]`` positions of the anchors in the row, ascending.
        starts: ``[R, A]`` first position each anchor may see; it sees ``starts <= j <= index``.
        block: anchors whose scores are in memory at once.
    """
    rows, anchors, heads, size = query.shape
    groups = key.shape[2]
    grouped = query.view(rows, anchors, groups, heads // groups, size).permute(0, 2, 3, 1, 4).contiguous()
    if own_key is None or own_value is None:
        own_key = own_value = query.new_empty(0, rows, anchors, groups, size)
    mixed = _ChainAttention.apply(
        grouped,
        key.transpose(1, 2).contiguous(),
        value.transpose(1, 2).contiguous(),
        own_key.permute(0, 1, 3, 2, 4).contiguous(),
        own_value.permute(0, 1, 3, 2, 4).contiguous(),
        index,
        starts,
        block,
    )
    return mixed.permute(0, 3, 1, 2, 4).reshape(rows, anchors, heads, size)


def _spans(index: Tensor, starts: Tensor, block: int) -> list[tuple[int, int, int, int]]:
    """Blocks of anchors with the keys that any of them may see: (first anchor, end, first key, end)."""
    firsts = range(0, index.shape[1], block)
    lows = torch.stack([starts[:, first : first + block].amin() for first in firsts])
    highs = torch.stack([index[:, first : first + block].amax() for first in firsts])
    bounds = torch.stack([lows, highs + 1]).tolist()
    ends = [min(first + block, index.shape[1]) for first in firsts]
    return list(zip(firsts, ends, *bounds, strict=True))


class _ChainAttention(torch.autograd.Function):
    """Query ``[R, G, M, A, D]``, key and value ``[R, G, T, D]``, own key and value ``[k, R, G, A, D]``."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        own_key: Tensor,
        own_value: Tensor,
        index: Tensor,
        starts: Tensor,
        block: int,
    ) -> Tensor:
        output = torch.empty_like(query)
        wide = torch.promote_types(query.dtype, torch.float32)
        total = query.new_empty(query.shape[:-1], dtype=wide)
        spans = _spans(index, starts, block)
        for first, end, low, high in spans:
            scores, own_scores = _scores(query, key, own_key, index, starts, (first, end, low, high))
            top = scores.amax(-1)
            for own in own_scores:
                top = torch.maximum(top, own)
            weights = scores.sub_(top.unsqueeze(-1)).exp_()
            mass = weights.sum(-1)
            mixed = _shared(weights.to(value.dtype), value[:, :, low:high]).to(wide)
            for own, own_v in zip(own_scores, own_value[:, :, :, first:end], strict=True):
                weight = (own - top).exp_()
                mass = mass + weight
                mixed.addcmul_(weight.unsqueeze(-1), own_v.unsqueeze(2).to(wide))
            output[:, :, :, first:end] = mixed.div_(mass.unsqueeze(-1))
            total[:, :, :, first:end] = mass.log_().add_(top)
        ctx.save_for_backward(query, key, value, own_key, own_value, index, starts, output, total)
        ctx.spans = spans
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, own_key, own_value, index, starts, output, total = ctx.saved_tensors
        wide, scale = total.dtype, query.shape[-1] ** -0.5
        grad_query = torch.empty_like(query)
        grad_key, grad_value = (torch.zeros_like(x, dtype=wide) for x in (key, value))
        grad_own_key, grad_own_value = torch.empty_like(own_key), torch.empty_like(own_value)
        for span in ctx.spans:
            first, end, low, high = span
            scores, own_scores = _scores(query, key, own_key, index, starts, span)
            q, out, grad = (x[:, :, :, first:end] for x in (query, output, grad_output))
            lse = total[:, :, :, first:end]
            correction = (grad.to(wide) * out.to(wide)).sum(-1)
            weights = scores.sub_(lse.unsqueeze(-1)).exp_()
            narrow = weights.to(value.dtype)
            grad_value[:, :, low:high] += _onto_keys(narrow, grad)
            slope = _shared(grad, value[:, :, low:high].transpose(-1, -2)).to(wide)
            slope = slope.sub_(correction.unsqueeze(-1)).mul_(weights).mul_(scale).to(query.dtype)
            grad_key[:, :, low:high] += _onto_keys(slope, q)
            grad_q = _shared(slope, key[:, :, low:high]).to(wide)
            for i, own in enumerate(own_scores):
                own_k, own_v = (x[i, :, :, first:end].unsqueeze(2) for x in (own_key, own_value))
                weight = (own - lse).exp_()
                own_slope = ((grad * own_v).sum(-1, dtype=wide) - correction).mul_(weight).mul_(scale).unsqueeze(-1)
                grad_own_value[i, :, :, first:end] = (weight.unsqueeze(-1) * grad).sum(2)
                grad_own_key[i, :, :, first:end] = (own_slope * q).sum(2)
                grad_q.addcmul_(own_slope, own_k.to(wide))
            grad_query[:, :, :, first:end] = grad_q
        grads = (grad_query, grad_key.to(key.dtype), grad_value.to(value.dtype), grad_own_key, grad_own_value)
        return *grads, None, None, None


def _scores(
    query: Tensor, key: Tensor, own_key: Tensor, index: Tensor, starts: Tensor, span: tuple[int, int, int, int]
) -> tuple[Tensor, list[Tensor]]:
    """Scaled scores of one block: ``[R, G, M, B, L]`` on the shared keys, masked, and k times ``[R, G, M, B]``."""
    first, end, low, high = span
    q = query[:, :, :, first:end]
    wide = torch.promote_types(q.dtype, torch.float32)
    q = q * q.shape[-1] ** -0.5
    scores = _shared(q, key[:, :, low:high].transpose(-1, -2)).to(wide)
    place = torch.arange(low, high, device=index.device)
    seen = (place <= index[:, first:end, None]) & (place >= starts[:, first:end, None])
    scores.masked_fill_(~seen[:, None, None], float("-inf"))
    return scores, [(q * own[:, :, first:end].unsqueeze(2)).sum(-1, dtype=wide) for own in own_key]


def _shared(left: Tensor, right: Tensor) -> Tensor:
    """``left[R, G, M, B, X] @ right[R, G, X, Y]``: the M query heads of a group share its keys."""
    rows, groups, members, block, _ = left.shape
    return (left.flatten(2, 3) @ right).view(rows, groups, members, block, right.shape[-1])


def _onto_keys(left: Tensor, right: Tensor) -> Tensor:
    """Sum over the group's queries of ``left[R, G, M, B, L]`` times ``right[R, G, M, B, D]``: ``[R, G, L, D]``."""
    return left.flatten(2, 3).transpose(-1, -2) @ right.flatten(2, 3)
