"""From a source as a user wrote it to a path that exists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from mtp_trainer.contract.configs import SourceConfig
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.sources.hub import download

Kind = Literal["model", "dataset"]


@dataclass(frozen=True)
class Resolved:
    """A folder or file that exists; ``revision`` is the commit of what came from the Hub."""

    path: Path
    revision: str | None = None


def resolve(source: SourceConfig, field: str, kind: Kind, into: Path) -> Resolved:
    """Make a source available as a path: a mounted volume as it is, a repository of the Hub downloaded ``into``.

    Args:
        field: the configuration's field, for messages.

    Raises:
        StageError: ``ConfigInvalid``, ``VolumeMissing``, ``HubUnauthorized`` or ``HubRateLimited``, naming ``field``.
    """
    scheme, _, rest = source.uri.partition("://")
    match scheme:
        case "pvc":
            return Resolved(mounted(source, field, rest))
        case "hf":
            return Resolved(*download(rest, source.revision, kind, field, into))
        case _:
            raise StageError(
                Reason.CONFIG_INVALID,
                f"{field}.uri: this trainer cannot read {source.uri}; write hf://ORGANISATION/NAME or pvc://CLAIM/PATH",
            )


def verifier_folder(source: SourceConfig, workspace: Workspace) -> Path:
    """The verifier's folder in the stages after prepare, which has resolved it.

    Raises:
        StageError: ``VolumeMissing`` when it isn't there.
    """
    folder = workspace.downloaded_verifier if source.uri.startswith("hf://") else source.path
    if folder is None or not folder.is_dir():
        raise StageError(
            Reason.VOLUME_MISSING,
            f"verifier: {source.uri} is not at {folder}; mount its volume, and run the prepare stage first",
        )
    return folder


def mounted(source: SourceConfig, field: str, rest: str) -> Path:
    """The path of a mounted source, inside of its volume."""
    if ".." in PurePosixPath(rest).parts or (source.path and ".." in source.path.parts):
        raise StageError(
            Reason.CONFIG_INVALID, f"{field}.uri: {source.uri} leaves its volume; write a path without '..'"
        )
    if source.path is None:
        raise StageError(Reason.CONFIG_INVALID, f"{field}.path: missing; write where {source.uri} is mounted")
    if not source.path.exists():
        raise StageError(
            Reason.VOLUME_MISSING,
            f"{field}.uri: {source.uri} is not on its volume ({source.path}); copy it there, or correct the path",
        )
    return source.path
