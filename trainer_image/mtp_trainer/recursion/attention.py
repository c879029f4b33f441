"""Causal attention over step 0's keys, merged with a few keys that each anchor has for itself.

Step k of the served recursion lets anchor t attend to the keys of step 0 up to t and to its own chain's keys of steps
1 to k. Written as one attention that would be a ``[T, K * T]`` matrix, nearly all of it masked. Here the own keys are a
diagonal: at most K more scores per anchor, which enter the same softmax through the sum of exponentials.

Scores live only for one block of anchors at a time; the backward pass computes them again from the saved
log-sum-exp, as in FlashAttention (arXiv:2205.14135, section 3.1).

Shapes: R rows, G key and value heads, M query heads for each of them, A anchors, T row length, D head size, k own keys.
"""

from __future__ import annotations

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
    raise NotImplementedError
