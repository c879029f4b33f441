"""Where things are in a run's workspace.

::

    <workspace>/
      verifier/                   only for hf:// sources: the downloaded checkpoint
      datasets/<role>/            only for hf:// sources: the downloaded datasets
      prepare/
        verifier.json             inspection: family, head tensors, digests
        train.safetensors         packed rows (see mtp_trainer.data.packing)
        validation.safetensors    packed rows of held-out conversations
        domain.jsonl              held-out prompts of the run's own domain
        general.jsonl             prompts of the general set, when the gate has one
        regenerated.jsonl         responses as the verifier wrote them, one per line, appended (resumable)
        finished.json             digests of inputs and outputs, so that a repeated stage reuses them
        result.json
      train/
        checkpoints/step-000200/  head, optimiser, step; verified by hash on load
        history.jsonl             one line per optimiser step, one per validation
        progress.json             newest progress
        head/                     the head overlay: config.json, model.safetensors, manifest.json
        checkpoint/               the stitched checkpoint
        result.json
        finished.sha256           of the result and all that it was made from, as in the stages below
      evaluate/
        measurements.json         counts per prompt set, head and round
        configuration.json          what the stage was asked to do, so that the report can be written again
        report.html
        result.json
      publish/
        result.json
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mtp_trainer.contract.exits import Stage


@dataclass(frozen=True)
class Workspace:
    """Paths below one run's workspace folder."""

    root: Path

    def stage(self, stage: Stage) -> Path:
        """Folder of a stage."""
        return self.root / stage.value.lower()

    def result(self, stage: Stage) -> Path:
        """File that a finished stage leaves; its content equals the termination message."""
        return self.stage(stage) / "result.json"

    @property
    def downloaded_verifier(self) -> Path:
        return self.root / "verifier"

    @property
    def downloaded_datasets(self) -> Path:
        return self.root / "datasets"

    @property
    def inspection(self) -> Path:
        return self.stage(Stage.PREPARE) / "verifier.json"

    @property
    def train_rows(self) -> Path:
        return self.stage(Stage.PREPARE) / "train.safetensors"

    @property
    def validation_rows(self) -> Path:
        return self.stage(Stage.PREPARE) / "validation.safetensors"

    @property
    def domain_prompts(self) -> Path:
        return self.stage(Stage.PREPARE) / "domain.jsonl"

    @property
    def general_prompts(self) -> Path:
        return self.stage(Stage.PREPARE) / "general.jsonl"

    @property
    def regenerated(self) -> Path:
        return self.stage(Stage.PREPARE) / "regenerated.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.stage(Stage.TRAIN) / "checkpoints"

    @property
    def history(self) -> Path:
        return self.stage(Stage.TRAIN) / "history.jsonl"

    @property
    def progress(self) -> Path:
        return self.stage(Stage.TRAIN) / "progress.json"

    @property
    def head(self) -> Path:
        return self.stage(Stage.TRAIN) / "head"

    @property
    def stitched(self) -> Path:
        return self.stage(Stage.TRAIN) / "checkpoint"

    @property
    def measurements(self) -> Path:
        return self.stage(Stage.EVALUATE) / "measurements.json"

    @property
    def report(self) -> Path:
        return self.stage(Stage.EVALUATE) / "report.html"
