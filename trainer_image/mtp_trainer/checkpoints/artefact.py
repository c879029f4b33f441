"""What both artefacts of a fine-tune have in common: a head that fits its verifier, a digest, a manifest.

``manifest.json`` names the files and says where they come from; it isn't part of the digest, which names what is
served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtp_trainer.checkpoints.header import TensorInfo
from mtp_trainer.checkpoints.tensors import DTYPES, NAMES, tensors_digest
from mtp_trainer.checkpoints.weights import listing, read_json
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.contract.results import ArtifactRef
from mtp_trainer.storage import FileDigest, digest_of, folder_digests, folder_files, new_folder, write_file

MANIFEST = "manifest.json"
HEAD, STITCHED = "Head", "StitchedCheckpoint"


def as_stored(head: Mapping[str, Tensor], stored: Mapping[str, TensorInfo]) -> dict[str, Tensor]:
    """The head's tensors in the dtypes in which the verifier's checkpoint stores them (rounded to nearest, even)."""
    return {name: tensor.to(DTYPES[stored[name].dtype]) if name in stored else tensor for name, tensor in head.items()}


def check_head(head: Mapping[str, Tensor], stored: Mapping[str, TensorInfo]) -> None:
    """A head may replace the stored one only if names, shapes and dtypes are the same and all values are finite.

    Raises:
        StageError: ``IncompleteMTPHead`` or ``LossNotFinite``, naming the tensors.
    """
    problems = [f"{name} is missing" for name in sorted(stored.keys() - head.keys())]
    problems += [f"{name} is not in the verifier's head" for name in sorted(head.keys() - stored.keys())]
    for name in sorted(head.keys() & stored.keys()):
        tensor, info = head[name], stored[name]
        if tuple(tensor.shape) != info.shape or NAMES[tensor.dtype] != info.dtype:
            problems.append(
                f"{name} is {NAMES[tensor.dtype]} {list(tensor.shape)}, the verifier's {info.dtype} {list(info.shape)}"
            )
    if problems:
        raise StageError(
            Reason.INCOMPLETE_MTP_HEAD, f"the tuned head does not fit the verifier: {listing(problems)}; train it again"
        )
    if broken := [name for name in sorted(head) if not bool(torch.isfinite(head[name]).all())]:
        raise StageError(
            Reason.LOSS_NOT_FINITE,
            f"the tuned head has values that are not finite in {listing(broken)}; train with a lower learning rate",
        )


def artefact_files(folder: Path) -> list[str]:
    """Names of the files that an artefact's digest covers: all but the manifest and hidden ones."""
    return [name for name in folder_files(folder) if name != MANIFEST]


def artefact_digest(folder: Path) -> str:
    """Digest of an artefact as it is on disk; reads all of it."""
    return digest_of(folder_digests(folder, artefact_files(folder)))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an artefact.

    Raises:
        StageError: ``CheckpointCorrupt`` when it is absent or not JSON.
    """
    return read_json(folder / MANIFEST)


@contextmanager
def writing_artefact(
    out: Path,
    kind: str,
    head: Mapping[str, Tensor],
    manifest: Mapping[str, Any],
    known: Callable[[Path], Mapping[str, FileDigest]] = lambda folder: {},
) -> Iterator[tuple[Path, list[ArtifactRef]]]:
    """Fill a temporary folder that becomes the artefact ``out``; yields it and a list that holds the result afterwards.

    Args:
        known: digests that need not be computed again, of files in the folder that was filled.

    Raises:
        StageError: ``OutputNotWritable`` when ``out`` exists with other content, or cannot be written; ``DiskFull``.
    """
    results: list[ArtifactRef] = []
    try:
        with new_folder(out) as folder:
            yield folder, results
            already = known(folder)
            names = artefact_files(folder)
            files = {**folder_digests(folder, [name for name in names if name not in already]), **already}
            digest, size = digest_of(files), sum(file.size for file in files.values())
            content = {
                **manifest,
                "kind": kind,
                "digest": digest,
                "headDigest": tensors_digest(head),
                "files": {name: asdict(files[name]) for name in sorted(files)},
            }
            write_file(folder / MANIFEST, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
            results.append(ArtifactRef(path=str(out), digest=digest, size_bytes=size))
    except FileExistsError:
        # The same content written twice is what a repeated stage does; anything else must not be replaced.
        if not results or not out.is_dir() or artefact_digest(out) != results[0].digest:
            raise StageError(
                Reason.OUTPUT_NOT_WRITABLE,
                f"{out}: exists already with other content; remove it, or name another folder",
            ) from None
