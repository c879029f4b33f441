"""Container paths in arguments, environment and files."""

from pathlib import Path

import pytest

from mtp_operator.local.paths import Translation, expand_variables

TRANSLATE = Translation(
    {
        "/mnt/mtp/workspace": Path("/home/me/ws"),
        "/mnt/mtp/claims/models": Path("/tmp/models"),
        "/tmp": Path("/home/me/tmp"),
        "/dev/termination-log": Path("/home/me/log"),
    }
)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("/mnt/mtp/workspace/run/x", "/home/me/ws/run/x"),
        ('{"path": "/mnt/mtp/claims/models"}', '{"path": "/tmp/models"}'),
        ("--model=/mnt/mtp/claims/models/a", "--model=/tmp/models/a"),
        ("/tmp", "/home/me/tmp"),
        ("/mnt/tmp/x", "/mnt/tmp/x"),
        ("/tmpfs/x", "/tmpfs/x"),
        ("/mnt/mtp/workspaces", "/mnt/mtp/workspaces"),
        ("/tmp/a:/tmp/b", "/home/me/tmp/a:/home/me/tmp/b"),
        ("pvc://models/tmp/x", "pvc://models/tmp/x"),
        ("/dev/termination-log", "/home/me/log"),
    ],
)
def test_only_whole_path_prefixes_are_replaced_and_only_once(text: str, local: str) -> None:
    assert TRANSLATE(text) == local


@pytest.mark.parametrize(
    ("local", "text"),
    [
        ('{"path": "/tmp/models/head"}', '{"path": "/mnt/mtp/claims/models/head"}'),
        ("/home/me/ws/run/x", "/mnt/mtp/workspace/run/x"),
        ("/home/me/wsx", "/home/me/wsx"),
    ],
)
def test_folders_become_mount_paths_again(local: str, text: str) -> None:
    assert TRANSLATE.reversed()(local) == text


def test_a_folder_that_is_mounted_twice_becomes_the_first_mount() -> None:
    both = Translation({"/mnt/a": Path("/home/me/x"), "/mnt/b": Path("/home/me/x")})
    assert both.reversed()("/home/me/x/y") == "/mnt/a/y"


def test_without_mounts_nothing_is_replaced() -> None:
    assert Translation({})("/mnt/x") == "/mnt/x"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("$(A)", "1"), ("x$(A)y$(B)", "x1y2"), ("$(C)", "$(C)"), ("$$(A)", "$(A)"), ("$A", "$A")],
)
def test_variables_expand_as_in_a_pod(text: str, expanded: str) -> None:
    assert expand_variables(text, {"A": "1", "B": "2"}) == expanded
