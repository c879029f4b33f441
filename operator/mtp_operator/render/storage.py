"""Claims: from ``pvc://CLAIM/PATH`` to volumes and paths in a container, and back.

Claims are mounted whole, and paths joined below the mount. A ``subPath`` would be made by the kubelet as root, where a
pod with a random user can't write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

WORKSPACE_MOUNT = "/mnt/mtp/workspace"
CLAIMS_MOUNT = "/mnt/mtp/claims"
_SCHEME = "pvc://"


@dataclass(frozen=True)
class Mount:
    """A claim at a path of the container."""

    claim: str
    path: str
    read_only: bool


def is_claim_uri(uri: str | None) -> bool:
    """Whether this is ``pvc://``."""
    return uri is not None and uri.startswith(_SCHEME)


def split_claim_uri(uri: str) -> tuple[str, str]:
    """Claim and path (relative, possibly empty) of ``pvc://CLAIM/PATH``.

    Raises:
        ValueError: another scheme.
    """
    if not uri.startswith(_SCHEME):
        raise ValueError(f"{uri}: not a claim; write pvc://CLAIM/PATH")
    claim, _, path = uri.removeprefix(_SCHEME).partition("/")
    return claim, path.strip("/")


def mounted_path(uri: str) -> str:
    """Where the container sees ``pvc://CLAIM/PATH``."""
    claim, path = split_claim_uri(uri)
    return str(PurePosixPath(CLAIMS_MOUNT, claim, path))


def claim_mount(uri: str, *, read_only: bool) -> Mount:
    """Mount of the claim that ``uri`` names."""
    claim, _ = split_claim_uri(uri)
    return Mount(claim, f"{CLAIMS_MOUNT}/{claim}", read_only)


def claim_uri(path: str) -> str | None:
    """``pvc://CLAIM/PATH`` of a path in a container; ``None`` when it isn't below a claim's mount."""
    try:
        claim, *rest = PurePosixPath(path).relative_to(CLAIMS_MOUNT).parts
    except ValueError:
        return None
    return _SCHEME + "/".join([claim, *rest])


def workspace_folder(name: str, uid: str) -> str:
    """The run's folder in its workspace claim.

    The uid is part of it, so that a new run of an old name never takes the old one's results for its own.
    """
    return f"{name}-{uid[:8]}" if uid else name


def volumes_of(mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """One volume per claim: a pod that has a claim in two volumes may never start."""
    claims: dict[str, bool] = {}
    for mount in mounts:
        claims[mount.claim] = claims.get(mount.claim, True) and mount.read_only
    return [
        {
            "name": _volume_name(index),
            "persistentVolumeClaim": {"claimName": claim, "readOnly": True} if read_only else {"claimName": claim},
        }
        for index, (claim, read_only) in enumerate(claims.items())
    ]


def volume_mounts_of(mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Where the container sees them. A path mounted twice is mounted once, writable if either is."""
    paths: dict[str, Mount] = {}
    claims: list[str] = []
    for mount in mounts:
        if mount.claim not in claims:
            claims.append(mount.claim)
        known = paths.get(mount.path)
        paths[mount.path] = Mount(mount.claim, mount.path, mount.read_only and (known is None or known.read_only))
    return [
        {
            "name": _volume_name(claims.index(mount.claim)),
            "mountPath": mount.path,
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in paths.values()
    ]


def _volume_name(index: int) -> str:
    """Claims may have names that volumes may not (dots, length), so volumes are numbered."""
    return f"claim-{index}"
