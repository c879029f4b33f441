"""What identifies a folder: the names, sizes and hashes of its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileDigest:
    """Size in bytes and hexadecimal SHA-256 of a file's content."""

    size: int
    sha256: str


def file_digest(path: Path) -> FileDigest:
    """Hash a file, read as a stream."""
    with path.open("rb") as file:
        value = hashlib.file_digest(file, "sha256").hexdigest()
        return FileDigest(os.fstat(file.fileno()).st_size, value)


def folder_files(folder: Path) -> list[str]:
    """Relative names of all files below a folder, links followed, without hidden ones (``.git``, ``.cache``)."""
    found = []
    for path, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(path, name).relative_to(folder).as_posix() for name in names if not name.startswith(".")]
    return sorted(found)


def folder_digests(folder: Path, names: Iterable[str]) -> dict[str, FileDigest]:
    """Hash the named files of a folder."""
    return {name: file_digest(folder / name) for name in sorted(names)}


def digest_of(files: Mapping[str, FileDigest]) -> str:
    """One digest of a set of files: SHA-256 over their sorted names, sizes and hashes, as ``sha256:...``."""
    listing = [[name, files[name].size, files[name].sha256] for name in sorted(files)]
    return "sha256:" + hashlib.sha256(json.dumps(listing, ensure_ascii=False).encode()).hexdigest()
