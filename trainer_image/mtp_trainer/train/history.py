"""``history.jsonl``: one line per optimiser step and one per validation, for the report and for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mtp_trainer.storage import storage_errors, write_file


class History:
    """Appends to the file; a resumed run first cuts what came after its checkpoint."""

    def __init__(self, path: Path, from_step: int) -> None:
        """Keep lines up to and including ``from_step``.

        Raises:
            StageError: ``DiskFull`` or ``OutputNotWritable``.
        """
        self._path = path
        kept = [line for line in self._lines() if json.loads(line)["step"] <= from_step] if from_step else []
        write_file(path, "".join(f"{line}\n" for line in kept))

    def step(self, **values: Any) -> None:
        """One optimiser step."""
        self._append(values)

    def validation(self, step: int, drafts: int, accepted: tuple[int, ...], mean_acceptance_length: float) -> None:
        """One validation after ``step`` steps; step 0 is the shipped head."""
        figures = {"drafts": drafts, "accepted": list(accepted), "meanAcceptanceLength": mean_acceptance_length}
        self._append({"step": step, "validation": figures})

    def _append(self, record: dict[str, Any]) -> None:
        with storage_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def _lines(self) -> list[str]:
        """Whole lines: a killed process may leave half of one."""
        if not self._path.is_file():
            return []
        text = self._path.read_text(encoding="utf-8")
        return text[: text.rfind("\n") + 1].splitlines()
