"""Checkpoints as files: what is in them, and new ones in which only the MTP head differs.

Nothing here loads a model: tensors are read and written as safetensors, because every model class drops the head.
"""

from mtp_trainer.checkpoints.header import TensorInfo, read_header
from mtp_trainer.checkpoints.inspection import VerifierInspection, inspect_verifier, load_inspection
from mtp_trainer.checkpoints.tensors import read_tensors, tensors_digest, write_tensors
from mtp_trainer.checkpoints.weights import read_config, read_weights

__all__ = [
    "TensorInfo",
    "VerifierInspection",
    "inspect_verifier",
    "load_inspection",
    "read_config",
    "read_header",
    "read_tensors",
    "read_weights",
    "tensors_digest",
    "write_tensors",
]
