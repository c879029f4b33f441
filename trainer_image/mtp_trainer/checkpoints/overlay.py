"""The head overlay: a folder with nothing but the head, served beside the unchanged verifier.

vLLM loads it as ``speculative_config.model``; embedding and output projection come from the verifier. The configuration
must be the verifier's own, byte for byte, since the server reads the head's sizes from it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mtp_trainer.checkpoints.artefact import HEAD, check_head, writing_artefact
from mtp_trainer.checkpoints.inspection import inspect_head
from mtp_trainer.checkpoints.tensors import write_tensors
from mtp_trainer.checkpoints.weights import CONFIG, SINGLE
from mtp_trainer.contract.results import ArtifactRef


def write_head_overlay(
    verifier: Path,
    head: Mapping[str, Tensor],
    out: Path,
    manifest: Mapping[str, Any],
    trust_remote_code: bool = False,
) -> ArtifactRef:
    """Write ``config.json``, ``model.safetensors`` with only the head, and ``manifest.json``, all or nothing.

    Args:
        verifier: the checkpoint that the head belongs to.
        head: every tensor of the head, under the verifier's names, in its shapes and dtypes (see ``as_stored``).
        out: the new folder; one with the same content counts as written.
        manifest: where the head comes from; ``kind``, ``digest``, ``headDigest`` and ``files`` are added.

    Raises:
        StageError: ``IncompleteMTPHead`` or ``LossNotFinite`` for a head that doesn't fit or isn't finite;
            ``OutputNotWritable``, ``DiskFull``; and what ``inspect_verifier`` raises.
    """
    stored = inspect_head(verifier, trust_remote_code)[3]
    check_head(head, stored)
    with writing_artefact(out, HEAD, head, manifest) as (folder, results):
        shutil.copyfile(verifier / CONFIG, folder / CONFIG)
        write_tensors(folder / SINGLE, head)
    return results[0]
