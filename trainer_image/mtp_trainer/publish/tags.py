"""Names that people give to publications: ``tags/<tag>.json``, which points to folders by digest and never moves."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.contract.results import ArtifactRef
from mtp_trainer.storage import create_file

FORM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def tag_content(tag: str, published: dict[str, ArtifactRef]) -> str:
    """What a tag's file says: for each kind of artefact, the folder beside ``tags/`` and its digest."""
    pointers = {kind: {"folder": Path(ref.path).name, "digest": ref.digest} for kind, ref in sorted(published.items())}
    return json.dumps({"tag": tag, "published": pointers}, indent=1) + "\n"


def check_tags(output: Path, tags: tuple[str, ...], published: dict[str, ArtifactRef]) -> None:
    """Whether all tags can be set, before anything is copied.

    Raises:
        StageError: ``ConfigInvalid``, naming the tag that is malformed or taken.
    """
    for tag in tags:
        if not FORM.fullmatch(tag):
            raise StageError(
                Reason.CONFIG_INVALID, f"output.tags: {tag!r} is no tag; write letters, digits, '.', '_' and '-'"
            )
        path = tag_path(output, tag)
        if path.exists() and path.read_text(encoding="utf-8") != tag_content(tag, published):
            raise taken(path, tag)


def set_tags(output: Path, tags: tuple[str, ...], published: dict[str, ArtifactRef]) -> None:
    """Write each tag's file; one that says the same already stays.

    Raises:
        StageError: ``ConfigInvalid`` when a tag names something else by now; ``DiskFull``, ``OutputNotWritable``.
    """
    for tag in tags:
        path, content = tag_path(output, tag), tag_content(tag, published)
        if not path.exists():
            # Another run may set it at this moment: then its file stays, and is compared.
            with suppress(FileExistsError):
                create_file(path, content)
        if path.read_text(encoding="utf-8") != content:
            raise taken(path, tag)


def tag_path(output: Path, tag: str) -> Path:
    """File of a tag."""
    return output / "tags" / f"{tag}.json"


def taken(path: Path, tag: str) -> StageError:
    """The error for a tag that names something else."""
    return StageError(
        Reason.CONFIG_INVALID,
        f"output.tags: {tag} names another publication already ({path}); choose another tag, or delete that file",
    )
