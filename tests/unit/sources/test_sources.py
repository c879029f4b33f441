"""Sources become paths that exist, or errors that say what to write; the Hub is played by a server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

from mtp_trainer.contract import ExitCode, Reason, SourceConfig, StageError, Workspace
from mtp_trainer.sources import resolve, verifier_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Answers as the Hub does: an organisation's name decides with which status."""

    def do_GET(self) -> None:
        owner = self.path.removeprefix("/api/datasets/").removeprefix("/api/models/").split("/")[0]
        status, header = {
            "private": (401, ("X-Error-Code", "RepoNotFound")),
            "gated": (403, ("X-Error-Code", "GatedRepo")),
            "busy": (429, ("Retry-After", "0")),
            "old": (404, ("X-Error-Code", "RevisionNotFound")),
            "ill": (500, ("X-Error-Code", "")),
        }[owner]
        self.send_response(status)
        self.send_header(*header)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Point the Hub's client at the server here."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


ANSWERS = {
    "private": (Reason.HUB_UNAUTHORIZED, ExitCode.BAD_INPUT, "HF_TOKEN"),
    "gated": (Reason.HUB_UNAUTHORIZED, ExitCode.BAD_INPUT, "accept the repository's terms"),
    "busy": (Reason.HUB_RATE_LIMITED, ExitCode.FAILED, "429"),
    "old": (Reason.CONFIG_INVALID, ExitCode.BAD_INPUT, "no revision v9"),
    "ill": (Reason.UNEXPECTED, ExitCode.FAILED, "try again later"),
}


@pytest.mark.parametrize(("owner", "expected"), ANSWERS.items(), ids=ANSWERS.keys())
@pytest.mark.usefixtures("hub")
def test_what_the_hub_answers_becomes_a_reason(
    tmp_path: Path, owner: str, expected: tuple[Reason, ExitCode, str]
) -> None:
    source = SourceConfig(uri=f"hf://{owner}/model", revision="v9")
    with pytest.raises(StageError) as caught:
        resolve(source, "verifier", "model", tmp_path / "verifier")
    assert (caught.value.reason, caught.value.exit_code) == expected[:2]
    assert expected[2] in caught.value.message
    assert f"verifier.uri: hf://{owner}/model" in caught.value.message


def test_a_hub_that_cannot_be_reached_is_worth_another_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(StageError, match="cannot be reached") as caught:
        resolve(SourceConfig(uri="hf://team/model"), "verifier", "model", tmp_path / "verifier")
    assert caught.value.exit_code is ExitCode.FAILED


def test_a_malformed_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="write hf://ORGANISATION/NAME") as caught:
        resolve(SourceConfig(uri="hf://a/b/c"), "dataset", "dataset", tmp_path)
    assert caught.value.reason is Reason.CONFIG_INVALID


def test_a_mounted_source_is_used_where_it_is(tmp_path: Path) -> None:
    found = resolve(SourceConfig(uri="pvc://models/a", path=tmp_path), "verifier", "model", tmp_path / "unused")
    assert (found.path, found.revision) == (tmp_path, None)
    assert not (tmp_path / "unused").exists()


MOUNTED = {
    "absent": ("pvc://models/a", "absent", Reason.VOLUME_MISSING, "copy it there"),
    "outside": ("pvc://models/../a", ".", Reason.CONFIG_INVALID, "without '..'"),
    "not mounted": ("pvc://models/a", None, Reason.CONFIG_INVALID, "verifier.path: missing"),
    "another scheme": (
        "s3://bucket/a",
        None,
        Reason.CONFIG_INVALID,
        "write hf://ORGANISATION/NAME or pvc://CLAIM/PATH",
    ),
    "no scheme": ("models/a", None, Reason.CONFIG_INVALID, "write hf://"),
}


@pytest.mark.parametrize(("uri", "path", "reason", "part"), MOUNTED.values(), ids=MOUNTED.keys())
def test_a_source_that_leads_nowhere_is_named(
    tmp_path: Path, uri: str, path: str | None, reason: Reason, part: str
) -> None:
    source = SourceConfig(uri=uri, path=tmp_path / path if path else None)
    with pytest.raises(StageError) as caught:
        resolve(source, "verifier", "model", tmp_path)
    assert caught.value.reason is reason
    assert caught.value.message.startswith("verifier.")
    assert part in caught.value.message


def test_later_stages_find_a_downloaded_verifier_in_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    source = SourceConfig(uri="hf://team/model")
    with pytest.raises(StageError, match="run the prepare stage first"):
        verifier_folder(source, workspace)
    workspace.downloaded_verifier.mkdir()
    assert verifier_folder(source, workspace) == workspace.downloaded_verifier
    assert verifier_folder(SourceConfig(uri="pvc://models/a", path=tmp_path), workspace) == tmp_path
