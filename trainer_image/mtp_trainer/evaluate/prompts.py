"""The held-out prompts that prepare left in the workspace."""

from __future__ import annotations

import json
from pathlib import Path

from mtp_trainer.contract import Reason, StageError

Prompts = list[tuple[int, list[int]]]


def read_prompts(path: Path) -> Prompts:
    """Pairs of an index and token ids, from jsonl lines with ``promptTokenIds``.

    Raises:
        StageError: ``DatasetInvalid`` or ``DatasetEmpty``, naming the file (and line) and what to do.
    """
    prompts: Prompts = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            ids = json.loads(line)["promptTokenIds"]
            if not ids or not all(type(i) is int and i >= 0 for i in ids):
                raise ValueError(f"promptTokenIds is {str(ids)[:40]}")
            prompts.append((number, ids))
    except FileNotFoundError as error:
        raise StageError(Reason.DATASET_EMPTY, f"{path}: not there; run the prepare stage first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StageError(
            Reason.DATASET_INVALID,
            f"{path}:{len(prompts) + 1}: not a prepared prompt ({error}); run the prepare stage again",
        ) from error
    if not prompts:
        raise StageError(Reason.DATASET_EMPTY, f"{path}: no prompts; name a larger evaluation.dataset")
    return prompts
