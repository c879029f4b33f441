"""From a container's paths to local ones, and back.

A local process sees no mounts, so every mount path in its arguments, its environment and its configuration files is
replaced by the folder behind it; what it reports of such folders is about the mounts again. All replacements happen in
one pass: what was put in isn't looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


class Translation:
    """Replaces path prefixes: ``/mnt/mtp/workspace/run`` with the workspace's folder, then ``/run``."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = {mount.rstrip("/"): str(folder) for mount, folder in folders.items()}
        longest_first = sorted(self._folders, key=len, reverse=True)
        # A prefix only counts where a path begins and a component ends: not the /tmp of /mnt/tmp or of /tmpfs.
        self._pattern = re.compile(
            r"(?<![\w./-])(" + "|".join(re.escape(mount) for mount in longest_first) + r")(?=[/\"'\s:,;\]})]|$)"
            if longest_first
            else r"(?!)"
        )

    def __call__(self, text: str) -> str:
        """``text`` with every mount path replaced."""
        return self._pattern.sub(lambda match: self._folders[match[1]], text)

    def reversed(self) -> Translation:
        """From the folders to the mount paths; a folder that is mounted twice becomes the first of them."""
        mounts: dict[str, Path] = {}
        for mount, folder in self._folders.items():
            mounts.setdefault(folder, Path(mount))
        return Translation(mounts)


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """``$(NAME)`` as Kubernetes expands it in a container's command and arguments; ``$$(NAME)`` stays ``$(NAME)``."""

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        return environment.get(match[1], match[0])

    return re.sub(r"\$?\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", value, text)
