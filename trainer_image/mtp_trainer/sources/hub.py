"""Download a repository of the Hugging Face Hub, at one commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mtp_trainer.contract.exits import ExitCode, Reason, StageError
from mtp_trainer.storage import storage_errors

MODEL_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py"]
"""A model's files, with everything that a tokenizer may need; weights in other formats stay behind."""
DATASET_FILES = ["*.jsonl", "*.parquet", "*.arrow"]


def download(repository: str, revision: str | None, kind: str, field: str, into: Path) -> tuple[Path, str]:
    """Download what the trainer reads, resuming what an earlier attempt left; gives the folder and the commit.

    Raises:
        StageError: ``HubUnauthorized`` (no such repository, or none that this token may read), ``HubRateLimited``
            (worth another attempt), ``ConfigInvalid`` (no such revision), ``DiskFull``, ``OutputNotWritable``.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        HTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    options: dict[str, Any] = {"repo_type": kind, "repo_id": repository}
    where = f"{field}.uri: hf://{repository}"
    try:
        commit = str(HfApi().repo_info(revision=revision, **options).sha)
        with storage_errors(into):
            snapshot_download(
                revision=commit,
                local_dir=into,
                allow_patterns=MODEL_FILES if kind == "model" else DATASET_FILES,
                **options,
            )
    except HfHubHTTPError as error:
        raise hub_error(where, revision, error) from error
    except HFValidationError as error:
        raise StageError(Reason.CONFIG_INVALID, f"{where}: {error}; write hf://ORGANISATION/NAME") from error
    except (HTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError) as error:
        raise StageError(
            Reason.UNEXPECTED,
            f"{where}: the Hub cannot be reached ({error}); allow the connection, or copy the files to a volume and "
            "write pvc://CLAIM/PATH",
            ExitCode.FAILED,
        ) from error
    return into, commit


def hub_error(where: str, revision: str | None, error: Any) -> StageError:
    """What a status of the Hub means for the person who wrote the source."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    status = error.response.status_code
    if isinstance(error, RevisionNotFoundError):
        return StageError(Reason.CONFIG_INVALID, f"{where}: no revision {revision}; name a commit, branch or tag of it")
    if status == 429:
        return StageError(
            Reason.HUB_RATE_LIMITED,
            f"{where}: the Hub answers 429, too many requests; wait, set a token (HF_TOKEN), or use a volume",
            ExitCode.FAILED,
        )
    if isinstance(error, GatedRepoError | RepositoryNotFoundError) or status in (401, 403):
        return StageError(
            Reason.HUB_UNAUTHORIZED,
            f"{where}: the Hub answers {status}; correct the name, or give a token that may read it (HF_TOKEN) and "
            "accept the repository's terms",
        )
    return StageError(
        Reason.UNEXPECTED, f"{where}: the Hub answers {status}; try again later, or use a volume", ExitCode.FAILED
    )
