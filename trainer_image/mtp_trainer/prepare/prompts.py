"""Held-out prompts, as the evaluate stage sends them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from mtp_trainer.contract.configs import DatasetConfig
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.data import Renderer, read_samples
from mtp_trainer.data.samples import Message
from mtp_trainer.storage import write_file


@dataclass(frozen=True)
class Prompt:
    """One prompt; ``key`` is the hash of what it asks."""

    messages: list[Message]
    token_ids: list[int]
    key: str


def held_out_prompts(path: Path, dataset: DatasetConfig, renderer: Renderer) -> list[Prompt]:
    """The different prompts of a dataset, in its order; answers that stand in it are not looked at.

    Raises:
        StageError: ``DatasetInvalid`` for a sample that asks nothing, and what reading raises.
    """
    prompts: dict[str, Prompt] = {}
    for sample in read_samples(path, dataset.subset, dataset.split, dataset.max_samples):
        if not sample.prompt:
            raise StageError(
                Reason.DATASET_INVALID,
                f"{sample.where}: asks nothing; give messages with the role user, or prompt and completion",
            )
        key = sample.prompt_key()
        if key not in prompts:
            try:
                prompts[key] = Prompt(sample.prompt, renderer.prompt_tokens(sample.prompt), key)
            except StageError as error:
                raise StageError(error.reason, f"{sample.where}: {error.message}") from error
    return list(prompts.values())


def save_prompts(prompts: list[Prompt], path: Path) -> None:
    """One JSON object per line: ``messages`` and ``promptTokenIds``.

    Raises:
        StageError: ``DiskFull`` or ``OutputNotWritable``.
    """
    lines = [
        json.dumps({"messages": prompt.messages, "promptTokenIds": prompt.token_ids}, ensure_ascii=False)
        for prompt in prompts
    ]
    write_file(path, "".join(f"{line}\n" for line in lines))
