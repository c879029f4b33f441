"""Reading manifests that a person wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from mtp_operator.kube.verbs import Object


class UnreadableManifest(ValueError):
    """A file that isn't there or isn't YAML; the message names it."""


def read_manifests(files: list[Path]) -> list[Object]:
    """All documents of all files, in order; ``-`` is standard input, a folder stands for its YAML files.

    Raises:
        UnreadableManifest: a file can't be read, or holds no object.
    """
    objects: list[Object] = []
    for file in files:
        paths = sorted(file.glob("*.y*ml")) if file.is_dir() else [file]
        for path in paths:
            objects += _documents(path)
    if not objects:
        raise UnreadableManifest(
            f"{', '.join(map(str, files))}: no object in it; write apiVersion, kind, metadata, spec"
        )
    return objects


def _documents(path: Path) -> list[Object]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise UnreadableManifest(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnreadableManifest(f"{path}: not YAML ({error})") from error
