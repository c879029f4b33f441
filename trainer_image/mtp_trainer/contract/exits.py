"""Exit codes, stages and failure reasons. All of them are API: the operator and people's scripts depend on them."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """Exit status of ``mtp-trainer`` and what the Job's pod failure policy does with it."""

    DONE = 0
    """The stage finished and wrote its result."""
    FAILED = 1
    """Anything unexpected; counts as a failure and may be retried."""
    BAD_INPUT = 3
    """The input is wrong; terminal, never retried."""
    INTERRUPTED = 75
    """Stopped by SIGTERM after a checkpoint; retried, not counted."""


class Stage(StrEnum):
    """The stages of a fine-tune, in the order in which they run."""

    PREPARE = "Prepare"
    TRAIN = "Train"
    EVALUATE = "Evaluate"
    PUBLISH = "Publish"


class Reason(StrEnum):
    """Why a stage ended without success. A subset of the condition reasons of ``MTPFineTune``."""

    NO_MTP_HEAD = "NoMTPHead"
    UNSUPPORTED_FAMILY = "UnsupportedFamily"
    INCOMPLETE_MTP_HEAD = "IncompleteMTPHead"
    QUANTIZED_HEAD = "QuantizedHead"
    CHECKPOINT_CORRUPT = "CheckpointCorrupt"
    DATASET_EMPTY = "DatasetEmpty"
    DATASET_INVALID = "DatasetInvalid"
    HUB_UNAUTHORIZED = "HubUnauthorized"
    HUB_RATE_LIMITED = "HubRateLimited"
    VOLUME_MISSING = "VolumeMissing"
    CONFIG_INVALID = "ConfigInvalid"
    OUTPUT_NOT_WRITABLE = "OutputNotWritable"
    DISK_FULL = "DiskFull"
    OUT_OF_MEMORY = "OutOfMemory"
    LOSS_NOT_FINITE = "LossNotFinite"
    HIDDEN_STATES_NOT_FINITE = "HiddenStatesNotFinite"
    INTERRUPTED = "Interrupted"
    ENGINE_MISSING = "EngineMissing"
    ENGINE_FAILED = "EngineFailed"
    ENGINE_CRASHED = "EngineCrashed"
    ENGINE_NONSENSE = "EngineNonsense"
    GATE_FAILED = "GateFailed"
    TOO_FEW_DRAFTS = "TooFewDrafts"
    OUTPUT_MISMATCH = "OutputMismatch"
    UNEXPECTED = "Unexpected"


class StageError(Exception):
    """An end of a stage that a person can act on.

    ``message`` names the field or file, says what is wrong and what to write instead.
    """

    def __init__(self, reason: Reason, message: str, exit_code: ExitCode = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.exit_code = exit_code
