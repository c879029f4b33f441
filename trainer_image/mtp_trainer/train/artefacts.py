"""The two artefacts of a trained head: the overlay, and the stitched checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mtp_trainer.checkpoints import VerifierInspection, as_stored, stitch, write_head_overlay
from mtp_trainer.contract import ArtifactRef, TrainConfig, Workspace


def write_artefacts(
    config: TrainConfig,
    verifier: Path,
    inspection: VerifierInspection,
    head: Mapping[str, Tensor],
    figures: dict[str, Any],
) -> tuple[ArtifactRef, ArtifactRef | None]:
    """Write the head overlay, and the stitched checkpoint if the configuration asks for it.

    The overlay is always written: the evaluation serves it.

    Args:
        head: float32 tensors under the verifier's names.
        figures: goes into the manifest beside configuration and digests.

    Raises:
        StageError: what the writers raise; neither artefact is ever half there.
    """
    workspace = Workspace(config.workspace)
    stored = as_stored(head, inspection.head_tensors)
    manifest = {
        "verifier": {
            "uri": config.verifier.uri,
            "revision": inspection.revision,
            "digest": inspection.digest,
            "family": inspection.family,
        },
        "training": config.training.model_dump(mode="json", by_alias=True),
        "trainedFor": {
            "numSpeculativeTokens": config.training.steps,
            "draftSampling": config.draft_sampling,
            "temperature": config.temperature,
        },
        **figures,
    }
    for left_over in (workspace.head, workspace.stitched):
        # A run that was killed between the artefacts and its result writes both again.
        shutil.rmtree(left_over, ignore_errors=True)
    overlay = write_head_overlay(verifier, stored, workspace.head, manifest, config.trust_remote_code)
    stitched = None
    if "StitchedCheckpoint" in config.contents:
        stitched = stitch(verifier, stored, workspace.stitched, manifest, inspection.files, config.trust_remote_code)
    return overlay, stitched
