"""Where libraries put what they write without being asked.

A pod with a random user has no home, and its root file system is read-only: without these variables torch, Triton,
vLLM and the hub client fail with ``Permission denied: '/.cache'``. All point into one emptyDir.
"""

from __future__ import annotations

from typing import Any

CACHE_MOUNT = "/mnt/mtp/cache"
CACHE_VOLUME = "cache"
TEMPORARY_VOLUME = "tmp"
SHARED_MEMORY_VOLUME = "shm"

_FOLDERS = {
    "HOME": "home",
    "HF_HOME": "huggingface",
    "XDG_CACHE_HOME": "xdg/cache",
    "XDG_CONFIG_HOME": "xdg/config",
    "XDG_DATA_HOME": "xdg/data",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "VLLM_CACHE_ROOT": "vllm/cache",
    "VLLM_CONFIG_ROOT": "vllm/config",
    "NUMBA_CACHE_DIR": "numba",
}


def cache_env() -> list[dict[str, Any]]:
    """Environment of every container."""
    return [{"name": name, "value": f"{CACHE_MOUNT}/{folder}"} for name, folder in _FOLDERS.items()]


def cache_volumes(gpus: int) -> list[dict[str, Any]]:
    """Their volumes. Processes that share a model over several GPUs exchange data through ``/dev/shm``, of which a
    container has 64 MiB by itself."""
    volumes: list[dict[str, Any]] = [
        {"name": CACHE_VOLUME, "emptyDir": {}},
        {"name": TEMPORARY_VOLUME, "emptyDir": {}},
    ]
    if gpus > 1:
        volumes.append({"name": SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}})
    return volumes


def cache_mounts(gpus: int) -> list[dict[str, Any]]:
    """Where the container sees them."""
    mounts: list[dict[str, Any]] = [
        {"name": CACHE_VOLUME, "mountPath": CACHE_MOUNT},
        {"name": TEMPORARY_VOLUME, "mountPath": "/tmp"},  # noqa: S108
    ]
    if gpus > 1:
        mounts.append({"name": SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"})  # noqa: S108
    return mounts
