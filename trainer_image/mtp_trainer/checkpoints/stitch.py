"""The stitched checkpoint: the verifier's, with other values in the head's tensors and every other byte the same.

Names, shapes and dtypes stay, so nothing is serialised again: the head's byte ranges are overwritten in clones of the
files that hold them. The old head must not stay in any file that the index names, since vLLM loads all tensors of each.
Files without head tensors are shared with the verifier by hard links, which are never written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mtp_trainer.checkpoints.artefact import MANIFEST, STITCHED, check_head, writing_artefact
from mtp_trainer.checkpoints.header import TensorInfo
from mtp_trainer.checkpoints.inspection import inspect_head
from mtp_trainer.checkpoints.tensors import tensor_bytes
from mtp_trainer.checkpoints.verification import verify_stitched
from mtp_trainer.checkpoints.weights import OTHER_WEIGHTS
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.contract.results import ArtifactRef
from mtp_trainer.storage import FileDigest, clone_file, folder_files, share_file


def stitch(
    verifier: Path,
    head: Mapping[str, Tensor],
    out: Path,
    manifest: Mapping[str, Any],
    known: Mapping[str, FileDigest] | None = None,
    trust_remote_code: bool = False,
) -> ArtifactRef:
    """Write a checkpoint like the verifier's with this head, all or nothing, and compare it before it gets its name.

    Tokenizer, templates and all other files come along, links followed; copies of the weights in other formats don't,
    because they hold the old head. Disk: the files that hold the head, unless the file system shares blocks.

    Args:
        verifier: the checkpoint; never written to.
        head: every tensor of the head, under the verifier's names, in its shapes and dtypes (see ``as_stored``).
        out: the new folder; one with the same content counts as written.
        manifest: where the head comes from; ``kind``, ``digest``, ``headDigest`` and ``files`` are added.
        known: digests of the verifier's files (``VerifierInspection.files``), to save reading them again.

    Raises:
        StageError: ``IncompleteMTPHead`` or ``LossNotFinite`` for a head that doesn't fit or isn't finite;
            ``OutputNotWritable``, ``DiskFull``; and what ``inspect_verifier`` raises.
    """
    if out.resolve().is_relative_to(verifier.resolve()) or verifier.resolve().is_relative_to(out.resolve()):
        raise StageError(
            Reason.OUTPUT_NOT_WRITABLE, f"{out}: overlaps the verifier {verifier}; name a folder outside of it"
        )
    _, _, weights, stored = inspect_head(verifier, trust_remote_code)
    check_head(head, stored)
    changed = {info.file for info in stored.values()}

    def unchanged(folder: Path) -> dict[str, FileDigest]:
        """Known digests of the files that are the very files of the verifier."""
        return {
            name: digest
            for name, digest in (known or {}).items()
            if name not in changed and (folder / name).samefile(verifier / name)
        }

    with writing_artefact(out, STITCHED, head, manifest, unchanged) as (folder, results):
        for name in carried_files(verifier, weights.shards):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name in weights.shards and name not in changed:
                share_file(verifier / name, folder / name)
            else:
                clone_file(verifier / name, folder / name)
        overwrite(folder, head, stored)
        verify_stitched(verifier, folder, head, trust_remote_code)
    return results[0]


def carried_files(verifier: Path, shards: tuple[str, ...]) -> list[str]:
    """Files of the verifier that belong into the stitched checkpoint."""
    return [
        name
        for name in folder_files(verifier)
        if name != MANIFEST and (name in shards or Path(name).suffix not in OTHER_WEIGHTS)
    ]


def overwrite(folder: Path, head: Mapping[str, Tensor], stored: Mapping[str, TensorInfo]) -> None:
    """Replace the bytes of the stored tensors by the head's, one tensor at a time."""
    for name in sorted(stored, key=lambda name: (stored[name].file, stored[name].begin)):
        with (folder / stored[name].file).open("r+b") as file:
            file.seek(stored[name].begin)
            file.write(tensor_bytes(head[name]))
