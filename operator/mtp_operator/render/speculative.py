"""vLLM's speculative configuration. It is written here and nowhere else."""

from __future__ import annotations

import json
from typing import Any

from mtp_operator.api.serving_spec import BatchDepth, Speculative


def speculative_config(spec: Speculative, head: str | None, head_revision: str | None = None) -> str:
    """The value of ``--speculative-config``, compact JSON.

    Args:
        spec: ``spec.speculative`` with a numeric depth.
        head: folder or hub name of a tuned head beside the model; ``None`` for the head in the model's checkpoint.
        head_revision: its hub revision.

    Raises:
        ValueError: the depth is "Auto", which has to be resolved before.
    """
    depth = spec.num_speculative_tokens
    if isinstance(depth, str):
        raise ValueError(f'numSpeculativeTokens is "{depth}"; resolve it to a depth first')
    config: dict[str, Any] = {"method": spec.method, "num_speculative_tokens": depth}
    if head is not None:
        config["model"] = head
    if head_revision is not None:
        config["revision"] = head_revision
    if spec.draft_sampling == "Probabilistic":
        config["draft_sample_method"] = "probabilistic"
    if spec.per_batch_size:
        config["num_speculative_tokens_per_batch_size"] = batch_ranges(spec.per_batch_size)
    return json.dumps(config, separators=(",", ":"), sort_keys=True)


def batch_ranges(entries: list[BatchDepth]) -> list[list[int]]:
    """``[first, last, depth]`` of running requests, both ends inclusive, from 1 on and without gaps, as vLLM wants."""
    ranges, first = [], 1
    for entry in entries:
        ranges.append([first, entry.up_to, entry.tokens])
        first = entry.up_to + 1
    return ranges
