"""Checkpoints as files: what is in them, and new ones in which only the MTP head differs.

Nothing here loads a model: tensors are read and written as safetensors, because every model class drops the head.
"""

from mtp_trainer.checkpoints.artefact import (
    HEAD,
    MANIFEST,
    STITCHED,
    artefact_digest,
    artefact_files,
    as_stored,
    check_head,
    read_manifest,
)
from mtp_trainer.checkpoints.header import TensorInfo, read_header
from mtp_trainer.checkpoints.inspection import VerifierInspection, inspect_verifier, load_inspection
from mtp_trainer.checkpoints.overlay import write_head_overlay
from mtp_trainer.checkpoints.stitch import stitch
from mtp_trainer.checkpoints.tensors import read_tensors, tensors_digest, write_tensors
from mtp_trainer.checkpoints.verification import verify_stitched
from mtp_trainer.checkpoints.weights import read_config, read_weights

__all__ = [
    "HEAD",
    "MANIFEST",
    "STITCHED",
    "TensorInfo",
    "VerifierInspection",
    "artefact_digest",
    "artefact_files",
    "as_stored",
    "check_head",
    "inspect_verifier",
    "load_inspection",
    "read_config",
    "read_header",
    "read_manifest",
    "read_tensors",
    "read_weights",
    "stitch",
    "tensors_digest",
    "verify_stitched",
    "write_head_overlay",
    "write_tensors",
]
