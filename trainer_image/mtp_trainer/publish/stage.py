"""Run the publish stage."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtp_trainer.checkpoints import HEAD, MANIFEST, STITCHED, artefact_digest, artefact_files, read_manifest
from mtp_trainer.contract.configs import PublishConfig
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.contract.results import ArtifactRef, PublishResult
from mtp_trainer.publish.manifest import provenance
from mtp_trainer.publish.results import Earlier, earlier_results
from mtp_trainer.publish.tags import check_tags, set_tags
from mtp_trainer.storage import new_folder, share_file, write_file

log = logging.getLogger(__name__)

FOLDER = {HEAD: "head", STITCHED: "checkpoint"}
"""First part of a publication's name, by kind."""


def run(config: PublishConfig) -> PublishResult:
    """Copy the artefacts of a run that passed the gate to ``<output>/<kind>-<digest>``, then set the tags.

    What is there already with the same digest is checked and kept, so that a repeated run changes nothing.

    Raises:
        StageError: the gate's reason when it didn't pass; ``ConfigInvalid`` for a stage without a result, an artefact
            that wasn't made, or a tag that is taken; ``CheckpointCorrupt`` when an artefact's bytes aren't those that
            were trained; ``DiskFull`` and ``OutputNotWritable``.
    """
    earlier = earlier_results(config)
    output = config.output.path
    sources: dict[str, ArtifactRef] = {kind: artefact(config, earlier, kind) for kind in config.output.contents}
    planned = {kind: reference(output, kind, source) for kind, source in sources.items()}
    check_tags(output, config.output.tags, planned)
    facts = provenance(config, earlier)
    for kind, source in sources.items():
        publish(Path(source.path), planned[kind], facts)
    set_tags(output, config.output.tags, planned)
    return PublishResult(head=planned.get(HEAD), checkpoint=planned.get(STITCHED), tags=config.output.tags)


def artefact(config: PublishConfig, earlier: Earlier, kind: str) -> ArtifactRef:
    """An artefact in the workspace, as the train stage recorded it."""
    workspace = Workspace(config.workspace)
    recorded = earlier.train.head if kind == HEAD else earlier.train.checkpoint
    folder = workspace.head if kind == HEAD else workspace.stitched
    if recorded is None or not folder.is_dir():
        raise StageError(
            Reason.CONFIG_INVALID,
            f"output.contents: the train stage made no {kind} ({folder}); list it in its contents too, and train again",
        )
    # The workspace may be mounted at another place than when the head was trained.
    return recorded.model_copy(update={"path": str(folder)})


def reference(output: Path, kind: str, source: ArtifactRef) -> ArtifactRef:
    """Where an artefact will be."""
    name = f"{FOLDER[kind]}-{source.digest.removeprefix('sha256:')[:12]}"
    return source.model_copy(update={"path": str(output / name)})


def publish(source: Path, target: ArtifactRef, facts: Mapping[str, Any]) -> None:
    """Copy one artefact, all or nothing, and check the copy before it gets its name."""
    folder = Path(target.path)
    if folder.exists():
        check(folder, target.digest, "remove this folder and publish again")
        log.info("%s is published already", folder)
        return
    try:
        with new_folder(folder) as temporary:
            for name in artefact_files(source):
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                share_file(source / name, temporary / name)
            check(temporary, target.digest, "train again")
            manifest = {**read_manifest(source), **facts}
            text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
            write_file(temporary / MANIFEST, text + "\n")
    except FileExistsError:
        # Another run published the same content meanwhile.
        check(folder, target.digest, "remove this folder and publish again")


def check(folder: Path, digest: str, remedy: str) -> None:
    """Compare a folder's content with the digest that names it."""
    found = artefact_digest(folder)
    if found != digest:
        raise StageError(
            Reason.CHECKPOINT_CORRUPT, f"{folder}: its content has the digest {found}, not {digest}; {remedy}"
        )
