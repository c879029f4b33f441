"""Give vLLM's CPU build the package metadata that vLLM looks for.

``python -m mtp_trainer.engine.cpu_metadata`` writes it beside the wheel's own; run again it changes nothing. Why it is
needed: :mod:`mtp_trainer.engine.installed`. No other module imports this one, so that it can be run with ``-m``.
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution
from pathlib import Path

from mtp_trainer.engine.installed import CPU_WHEEL, NAME, cpu_wheel


def write_metadata(wheel: Distribution | None) -> str:
    """Write the metadata beside that of ``wheel`` if it's needed; returns a sentence that says what was done."""
    if wheel is None:
        return f"{CPU_WHEEL} is not installed; nothing to do"
    version = f"{wheel.version}+cpu"
    folder = Path(str(wheel.locate_file(""))) / f"{NAME}-{wheel.version}.dist-info"
    if (folder / "METADATA").is_file():
        return f"{NAME} {version} is there already"
    folder.mkdir(exist_ok=True)
    (folder / "RECORD").write_text("", encoding="utf-8")
    (folder / "INSTALLER").write_text("mtp-operator\n", encoding="utf-8")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n", encoding="utf-8")
    return f"wrote the metadata of {NAME} {version}"


if __name__ == "__main__":
    sys.stdout.write(f"{write_metadata(cpu_wheel())}\n")
