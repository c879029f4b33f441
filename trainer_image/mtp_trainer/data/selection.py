"""Which conversations train, which validate, and which are left out."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Set

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.data.documents import Document
from mtp_trainer.data.samples import Sample


def select(samples: Iterable[Sample], held_out: Set[str], by_prompt: bool, dropped: Counter[str]) -> list[Sample]:
    """Samples without duplicates and without those that evaluation asks.

    Args:
        held_out: keys of the prompts of evaluation (:func:`mtp_trainer.data.samples.prompt_key`).
        by_prompt: the same question is a duplicate whatever its answer, as it is when answers are written anew.
        dropped: gets the counts ``duplicate`` and ``heldOut``.
    """
    kept, seen = [], set()
    for sample in samples:
        key = sample.prompt_key() if by_prompt else sample.content_key()
        if key in seen:
            dropped["duplicate"] += 1
            continue
        seen.add(key)
        if held_out & sample.asked_keys():
            dropped["heldOut"] += 1
            continue
        kept.append(sample)
    return kept


def split(documents: list[Document], fraction: float, seed: int) -> tuple[list[Document], list[Document]]:
    """Training and validation documents; all answers to one prompt are on the same side.

    Who goes where depends on content and seed, not on the order of the files.

    Raises:
        StageError: ``DatasetInvalid`` when there are fewer than two prompts.
    """
    order = sorted({document.key for document in documents}, key=lambda key: seeded(key, seed))
    if len(order) < 2:
        raise StageError(
            Reason.DATASET_INVALID,
            f"the dataset has {len(order)} prompts after all drops; training and validation need one each, give more",
        )
    count = min(max(1, math.floor(fraction * len(order) + 0.5)), len(order) - 1)
    validating = set(order[:count])
    return (
        [document for document in documents if document.key not in validating],
        [document for document in documents if document.key in validating],
    )


def seeded(key: str, seed: int) -> str:
    """A hash of a key that another seed changes."""
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()
