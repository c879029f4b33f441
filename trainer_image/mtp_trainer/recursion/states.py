"""The states of K recursion steps, as the server computes them or as FastMTP trains them.

``Serving`` follows vLLM (``v1/spec_decode/llm_base_proposer.py``): step 0 runs over all committed tokens with the
verifier's states and leaves keys K0; step k runs at rotary position t + k, on the state that step k - 1 recycled, and
attends to K0 up to t and to this chain's own keys.

``SameDepth`` is what FastMTP (arXiv:2509.18362) and Speculators train: at step k every row attends to the step-k keys
of the rows before it, and positions stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from mtp_trainer.contract.configs import KVContext
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion.attention import chain_attention
from mtp_trainer.recursion.batch import Anchors, Batch

NextToken = Callable[[int, Tensor], Tensor]
"""(step k >= 1, state ``[R, A, H]`` of step k - 1) -> tokens ``[R, A]`` that step k reads."""


def recursive_states(
    head: MTPHead, batch: Batch, embedding: Tensor, steps: int, kv_context: KVContext, anchors: Anchors
) -> list[Tensor]:
    """States ``[R, A, H]`` of each step with teacher-forced inputs: step k at anchor t reads token t + k + 1.

    ``SameDepth`` needs every position as an anchor, because each row's keys are seen by later rows.
    """
    if kv_context == "SameDepth":
        return same_depth_states(head, batch, embedding, steps)
    return serving_states(
        head, batch, embedding, steps, anchors, lambda k, _: anchors.take(batch.ahead(batch.tokens, k + 1))
    )


def serving_states(
    head: MTPHead, batch: Batch, embedding: Tensor, steps: int, anchors: Anchors, next_token: NextToken
) -> list[Tensor]:
    """States ``[R, A, H]`` of each step as served; the caller says which token a chain reads next."""
    attention, norm = head.layer.attention, head.layer.input_norm
    starts = anchors.take(batch.starts())
    position = anchors.take(batch.positions)
    own_keys: list[Tensor] = []
    own_values: list[Tensor] = []
    with _autocast(head, batch):
        x = _combine(head, embedding, batch.ahead(batch.tokens, 1), batch.hidden.detach(), batch.positions)
        normed = norm(x)
        key, value = attention.keys_values(normed, head.rotary(batch.positions, x.dtype))
        query, gate = attention.queries(anchors.take(normed), head.rotary(position, x.dtype))
        mixed = chain_attention(query, key, value, None, None, anchors.index, starts)
        output = head.close(anchors.take(x), mixed.flatten(-2), gate)
        states = [output.state]
        for k in range(1, steps):
            x = _combine(head, embedding, next_token(k, output.state), output.recycled, position + k)
            normed, tables = norm(x), head.rotary(position + k, x.dtype)
            own_key, own_value = attention.keys_values(normed, tables)
            own_keys.append(own_key)
            own_values.append(own_value)
            query, gate = attention.queries(normed, tables)
            own = torch.stack(own_keys), torch.stack(own_values)
            mixed = chain_attention(query, key, value, *own, anchors.index, starts)
            output = head.close(x, mixed.flatten(-2), gate)
            states.append(output.state)
    return states


def same_depth_states(head: MTPHead, batch: Batch, embedding: Tensor, steps: int) -> list[Tensor]:
    """States ``[R, T, H]`` of each step of the FastMTP recursion, teacher-forced."""
    attention = head.layer.attention
    starts = batch.starts()
    index = torch.arange(starts.shape[1], device=starts.device).expand_as(starts)
    states = []
    with _autocast(head, batch):
        recycled = batch.hidden.detach()
        for k in range(steps):
            x = _combine(head, embedding, batch.ahead(batch.tokens, k + 1), recycled, batch.positions)
            normed, tables = head.layer.input_norm(x), head.rotary(batch.positions, x.dtype)
            query, gate = attention.queries(normed, tables)
            mixed = chain_attention(query, *attention.keys_values(normed, tables), None, None, index, starts)
            state, recycled = head.close(x, mixed.flatten(-2), gate)
            states.append(state)
    return states


def _combine(head: MTPHead, embedding: Tensor, tokens: Tensor, hidden: Tensor, positions: Tensor) -> Tensor:
    dtype = head.projection.weight.dtype
    embedded = F.embedding(tokens.long(), embedding.detach())
    return head.combine(embedded.to(dtype), hidden.to(dtype), positions)


def _autocast(head: MTPHead, batch: Batch) -> torch.autocast:
    narrow = head.compute_dtype in (torch.bfloat16, torch.float16)
    return torch.autocast(batch.hidden.device.type, dtype=head.compute_dtype if narrow else None, enabled=narrow)
