"""``mtp-trainer``: one stage per call, one JSON file in, one result out.

Everything that a stage can end with becomes an exit code and a result here, and nowhere else.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from mtp_trainer import __version__
from mtp_trainer.contract import (
    EvaluateConfig,
    ExitCode,
    FailureResult,
    PrepareConfig,
    PublishConfig,
    Reason,
    Stage,
    StageError,
    StageResult,
    TrainConfig,
    Workspace,
    load_config,
    parse_result,
    result_json,
)
from mtp_trainer.interruption import Interrupted, interruption

TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes looks for a container's termination message by default."""

EXIT_CODES = """exit codes:
  0   done; the result is in WORKSPACE/STAGE/result.json and in the termination message
  1   failed for a reason that may pass; try again
  2   the command line is wrong
  3   the input is wrong; the message names the field or file
  75  interrupted by a signal, resumable; run it again to go on
"""

FINISHED = "finished.sha256"
"""Beside a stage's result: says what it is the result of."""

StageConfig = PrepareConfig | TrainConfig | EvaluateConfig | PublishConfig

CONFIGS: dict[Stage, type[StageConfig]] = {
    Stage.PREPARE: PrepareConfig,
    Stage.TRAIN: TrainConfig,
    Stage.EVALUATE: EvaluateConfig,
    Stage.PUBLISH: PublishConfig,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    interruption.install()
    try:
        if parsed.command == "inspect":
            return _inspect(parsed.path, parsed.trust_remote_code)
        return run_stage(Stage(parsed.command.capitalize()), parsed.config)
    except Interrupted:
        # While the end of a stage was being reported: what is written stays true, and another run reports it again.
        return int(ExitCode.INTERRUPTED)


def run_stage(stage: Stage, config_path: Path) -> int:
    """Run a stage, write its result and its termination message, and return the exit code."""
    workspace: Workspace | None = None
    try:
        config = load_config(CONFIGS[stage], config_path)
        workspace = Workspace(config.workspace)
        result: StageResult = _finished(stage, workspace, config) or _run(stage, workspace, config)
        code = ExitCode.DONE
    except BaseException as error:
        result, code = describe(stage, error)
        print(f"mtp-trainer {stage.value.lower()}: {result.reason.value}: {result.message}", file=sys.stderr)
    text = result_json(result)
    _write_termination_message(text)
    if code == ExitCode.DONE:
        print(text)
    return int(code)


def describe(stage: Stage, error: BaseException) -> tuple[FailureResult, ExitCode]:
    """The result and exit code that an exception means. Unexpected ones leave their traceback in the log."""
    match error:
        case StageError():
            reason, message, code = error.reason, error.message, error.exit_code
        case Interrupted() | KeyboardInterrupt():
            reason, message, code = (
                Reason.INTERRUPTED,
                "stopped by a signal; run it again to go on",
                ExitCode.INTERRUPTED,
            )
        case MemoryError():
            reason, message, code = Reason.OUT_OF_MEMORY, _memory_advice(error), ExitCode.FAILED
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            reason, code = Reason.DISK_FULL, ExitCode.BAD_INPUT
            message = f"{_place(error)}: no space left; enlarge the volume or free space"
        case OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS):
            reason, code = Reason.OUTPUT_NOT_WRITABLE, ExitCode.BAD_INPUT
            message = f"{_place(error)}: {error.strerror}; make it accessible for the user that runs this"
        case _ if type(error).__name__ == "OutOfMemoryError":
            # torch's, named so that this module needn't import torch.
            reason, message, code = Reason.OUT_OF_MEMORY, _memory_advice(error), ExitCode.FAILED
        case _:
            traceback.print_exception(error)
            reason, code = Reason.UNEXPECTED, ExitCode.FAILED
            message = f"{type(error).__name__}: {error} (the traceback is in the log)"
    return FailureResult(stage=stage, reason=reason, message=message), code


def _place(error: OSError) -> str:
    return str(error.filename) if error.filename is not None else "a file"


def _memory_advice(error: BaseException) -> str:
    return f"out of memory ({error}); lower training.sequenceLength or rowsPerBatch, or ask for more memory"


def _run(stage: Stage, workspace: Workspace, config: StageConfig) -> StageResult:
    result = _stage_function(stage)(config)
    from mtp_trainer.storage import write_file

    path, text = workspace.result(stage), result_json(result)
    write_file(path, text)
    write_file(path.with_name(FINISHED), _finished_digest(stage, workspace, config, text))
    return result


def _finished(stage: Stage, workspace: Workspace, config: StageConfig) -> StageResult | None:
    """The result of an earlier run on the same input: a Job's pod may be started again after it succeeded.

    Prepare looks at its input itself.
    """
    if stage is Stage.PREPARE:
        return None
    path = workspace.result(stage)
    try:
        text = path.read_text(encoding="utf-8")
        if path.with_name(FINISHED).read_text(encoding="utf-8") != _finished_digest(stage, workspace, config, text):
            return None
        result = parse_result(text)
    except (OSError, ValueError):
        return None
    print(f"{stage.value} is finished already: {path}")
    return result


def _finished_digest(stage: Stage, workspace: Workspace, config: StageConfig, result: str) -> str:
    """Of a result and what it was made from: the configuration, and the results of the stages before."""
    before = list(Stage)[: list(Stage).index(stage)]
    inputs = [path.read_text(encoding="utf-8") for path in map(workspace.result, before) if path.exists()]
    return hashlib.sha256("\0".join([config.model_dump_json(), *inputs, result]).encode()).hexdigest()


def _stage_function(stage: Stage) -> Callable[[StageConfig], StageResult]:
    """Imported only when it runs: torch and transformers take seconds to load."""
    import importlib

    function: Callable[[StageConfig], StageResult] = importlib.import_module(f"mtp_trainer.{stage.value.lower()}").run
    return function


def _write_termination_message(text: str) -> None:
    named = os.environ.get("MTP_TERMINATION_LOG")
    path = Path(named) if named else TERMINATION_LOG
    if named or path.exists():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"mtp-trainer: the termination message can't be written to {path}: {error}", file=sys.stderr)


def _inspect(path: Path, trust_remote_code: bool) -> int:
    from mtp_trainer.checkpoints import inspect_verifier

    try:
        found = inspect_verifier(path, trust_remote_code=trust_remote_code)
    except StageError as error:
        print(f"mtp-trainer inspect: {error.reason.value}: {error.message}", file=sys.stderr)
        return int(error.exit_code)
    print(f"{found.path}: {found.family}, {found.digest}")
    print(f"MTP head of {len(found.head_tensors)} tensors, {found.head_parameters:,} parameters:")
    for name, tensor in sorted(found.head_tensors.items()):
        print(f"  {name:50} {tensor.dtype:5} {'x'.join(map(str, tensor.shape)):>14}  {tensor.file}")
    return int(ExitCode.DONE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mtp-trainer",
        description="Fine-tune a model's own MTP head, stage by stage.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    helps = {
        Stage.PREPARE: "inspect the verifier, make the data ready",
        Stage.TRAIN: "train the head; write overlay and stitched checkpoint",
        Stage.EVALUATE: "measure shipped against tuned in vLLM, apply the gate, write the report",
        Stage.PUBLISH: "copy what passed the gate to its output, by digest",
    }
    for stage, text in helps.items():
        command = commands.add_parser(
            stage.value.lower(), help=text, epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="the stage's JSON configuration"
        )
    inspect = commands.add_parser("inspect", help="show what a checkpoint says about its MTP head")
    inspect.add_argument("path", type=Path, metavar="FOLDER")
    inspect.add_argument("--trust-remote-code", action="store_true", help="accept a checkpoint that brings code")
    return parser


if __name__ == "__main__":
    sys.exit(main())
