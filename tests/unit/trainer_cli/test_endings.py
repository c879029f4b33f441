"""What an exception means to the operator: reason, and exit code, by which a Job's pod is tried again or not."""

from __future__ import annotations

import errno
import os

import pytest
import torch

from mtp_trainer.cli import describe
from mtp_trainer.contract import ExitCode, Reason, Stage, StageError
from mtp_trainer.interruption import Interrupted


def system_error(number: int, *names: str) -> OSError:
    return OSError(number, os.strerror(number), *names)


@pytest.mark.parametrize(
    ("error", "reason", "code", "words"),
    [
        (StageError(Reason.NO_MTP_HEAD, "no head"), Reason.NO_MTP_HEAD, ExitCode.BAD_INPUT, "no head"),
        (
            StageError(Reason.HUB_RATE_LIMITED, "wait", ExitCode.FAILED),
            Reason.HUB_RATE_LIMITED,
            ExitCode.FAILED,
            "wait",
        ),
        (Interrupted(), Reason.INTERRUPTED, ExitCode.INTERRUPTED, "run it again to go on"),
        (KeyboardInterrupt(), Reason.INTERRUPTED, ExitCode.INTERRUPTED, "run it again to go on"),
        (MemoryError(), Reason.OUT_OF_MEMORY, ExitCode.FAILED, "sequenceLength"),
        (torch.OutOfMemoryError("2 GiB"), Reason.OUT_OF_MEMORY, ExitCode.FAILED, "2 GiB"),
        (system_error(errno.ENOSPC, "/w/file"), Reason.DISK_FULL, ExitCode.BAD_INPUT, "/w/file: no space left"),
        (system_error(errno.ENOSPC), Reason.DISK_FULL, ExitCode.BAD_INPUT, "a file: no space left"),
        (system_error(errno.EDQUOT, "/w/file"), Reason.DISK_FULL, ExitCode.BAD_INPUT, "/w/file"),
        (system_error(errno.EACCES, "/w/file"), Reason.OUTPUT_NOT_WRITABLE, ExitCode.BAD_INPUT, "/w/file: Permission"),
        (system_error(errno.EROFS, "/w/file"), Reason.OUTPUT_NOT_WRITABLE, ExitCode.BAD_INPUT, "/w/file: Read-only"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_ending_has_its_reason_and_exit_code(
    error: BaseException, reason: Reason, code: ExitCode, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result, found = describe(Stage.TRAIN, error)
    assert (result.stage, result.reason, found) == (Stage.TRAIN, reason, code)
    assert words in result.message
    assert capsys.readouterr().err == ""


def test_what_nobody_expected_leaves_its_traceback_and_may_be_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    result, code = describe(Stage.PREPARE, ValueError("odd"))
    assert (result.reason, code) == (Reason.UNEXPECTED, ExitCode.FAILED)
    assert result.message == "ValueError: odd (the traceback is in the log)"
    assert "ValueError: odd" in capsys.readouterr().err
