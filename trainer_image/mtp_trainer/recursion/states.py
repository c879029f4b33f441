"""The states of K recursion steps, as the server computes them or as FastMTP trains them.

``Serving`` follows vLLM (``v1/spec_decode/llm_base_proposer.py``): step 0 runs over all committed tokens with the
verifier's states and leaves keys K0; step k runs at rotary position t + k, on the state that step k - 1 recycled, and
attends to K0 up to t and to this chain's own keys.

``SameDepth`` is what FastMTP (arXiv:2509.18362) and Speculators train: at step k every row attends to the step-k keys
of the rows before it, and positions stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mtp_trainer.contract.configs import KVContext
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion.batch import Anchors, Batch

NextToken = Callable[[int, Tensor], Tensor]
"""(step k >= 1, state ``[R, A, H]`` of step k - 1) -> tokens ``[R, A]`` that step k reads."""


def recursive_states(
    head: MTPHead,
    batch: Batch,
    embedding: Tensor,
    steps: int,
    kv_context: KVContext,
    anchors: Anchors,
) -> list[Tensor]:
    """States ``[R, A, H]`` of each step with teacher-forced inputs: step k at anchor t reads token t + k + 1."""
    raise NotImplementedError


def serving_states(
    head: MTPHead, batch: Batch, embedding: Tensor, steps: int, anchors: Anchors, next_token: NextToken
) -> list[Tensor]:
    """States ``[R, A, H]`` of each step as served; the caller says which token a chain reads next."""
    raise NotImplementedError
