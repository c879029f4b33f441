"""``history.jsonl``: one line per optimiser step and one per validation, for the report and for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mtp_trainer.contract import AcceptanceCounts
from mtp_trainer.storage import storage_errors, write_file
from mtp_trainer.train.update import Update


class History:
    """Appends to the file; a resumed run first cuts what came after its checkpoint."""

    def __init__(self, path: Path, from_step: int) -> None:
        """Keep lines up to and including ``from_step``; 0 begins a new file.

        Raises:
            StageError: ``DiskFull`` or ``OutputNotWritable``.
        """
        self._path = path
        write_file(path, "".join(f"{line}\n" for line in self._lines(from_step)))

    def step(self, step: int, made: Update, tokens_per_second: float) -> None:
        """One optimiser step, counted from 1."""
        self._append(
            {
                "step": step,
                "loss": made.loss,
                "stepLosses": made.output.step_losses.tolist(),
                "alpha": made.output.alpha.tolist(),
                "learningRate": made.learning_rate,
                "gradNorm": made.grad_norm,
                "tokensPerSecond": round(tokens_per_second, 1),
            }
        )

    def validation(self, step: int, counts: AcceptanceCounts) -> None:
        """One validation after ``step`` steps; step 0 is the shipped head. Length 1 where there are no drafts."""
        figures = {
            "drafts": counts.drafts,
            "accepted": list(counts.accepted),
            "meanAcceptanceLength": counts.mean_acceptance_length or 1.0,
        }
        self._append({"step": step, "validation": figures})

    def _append(self, record: dict[str, Any]) -> None:
        with storage_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def _lines(self, until: int) -> list[str]:
        """Lines up to and including a step; a killed process may leave half a line, a crashed machine worse."""
        if not until or not self._path.is_file():
            return []
        kept = []
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                step = json.loads(line)["step"]
            except (ValueError, KeyError, TypeError):
                continue
            if step <= until:
                kept.append(line)
        return kept
