"""Both artefacts hold the tuned head and nothing else that is new."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mtp_trainer.checkpoints import (
    artefact_digest,
    as_stored,
    inspect_verifier,
    read_manifest,
    read_tensors,
    stitch,
    tensors_digest,
    verify_stitched,
    write_head_overlay,
)
from mtp_trainer.contract import ArtifactRef, Reason, StageError

Head = dict[str, torch.Tensor]
Write = Callable[[Path, Head, Path, dict[str, Any]], ArtifactRef]
QUERY = "mtp.layers.0.self_attn.q_proj.weight"
LAYOUTS = ["Single", "Sharded", "Composite"]
WRITERS = pytest.mark.parametrize("write", [write_head_overlay, stitch])


def tuned_head(verifier: Path) -> Head:
    """A head with other values in every tensor."""
    stored = read_tensors(verifier, inspect_verifier(verifier).head_tensors)
    return {name: (tensor.float() * 1.5 + 0.25).to(tensor.dtype) for name, tensor in stored.items()}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_overlay_is_the_head_and_the_verifiers_own_configuration(
    make_checkpoint: Callable[..., Path], tmp_path: Path, layout: str
) -> None:
    verifier = make_checkpoint(layout)
    head = tuned_head(verifier)
    ref = write_head_overlay(verifier, head, tmp_path / "head", {"steps": 3})
    assert sorted(contents(tmp_path / "head")) == ["config.json", "manifest.json", "model.safetensors"]
    assert (tmp_path / "head" / "config.json").read_bytes() == (verifier / "config.json").read_bytes()
    loaded = load_file(tmp_path / "head" / "model.safetensors")
    assert loaded.keys() == head.keys()
    assert all(torch.equal(loaded[name], head[name]) for name in head)
    assert ref.digest == artefact_digest(tmp_path / "head")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stitched_checkpoint_differs_only_in_the_heads_bytes(
    make_checkpoint: Callable[..., Path], tmp_path: Path, layout: str
) -> None:
    verifier = make_checkpoint(layout)
    before, inspection, head = contents(verifier), inspect_verifier(verifier), tuned_head(verifier)
    stitch(verifier, head, tmp_path / "out", {})
    after = contents(tmp_path / "out")
    assert contents(verifier) == before
    assert after.keys() - before.keys() == {"manifest.json"}
    for name, old in before.items():
        expected = bytearray(old)
        for tensor, info in inspection.head_tensors.items():
            if info.file == name:
                expected[info.begin : info.end] = head[tensor].view(torch.uint8).numpy().tobytes()
        assert after[name] == bytes(expected), name
    loaded = read_tensors(tmp_path / "out", head)
    assert all(torch.equal(loaded[name], head[name]) for name in head)


def test_only_shards_without_head_tensors_are_shared(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    verifier = make_checkpoint("Sharded")
    stitch(verifier, tuned_head(verifier), tmp_path / "out", {})
    shared = {
        path.name for path in verifier.glob("*") if path.is_file() and (tmp_path / "out" / path.name).samefile(path)
    }
    assert shared == {"model-00001-of-00003.safetensors"}


def test_a_download_cache_of_links_gives_a_checkpoint_of_files(
    make_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    real = make_checkpoint("Sharded", name="blobs")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for path in real.iterdir():
        (snapshot / path.name).symlink_to(path)
    head = tuned_head(snapshot)
    stitch(snapshot, head, tmp_path / "out", {})
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    assert (tmp_path / "out" / "templates" / "tool.jinja").read_text() == "{{ tools }}"
    verify_stitched(real, tmp_path / "out", head)


def test_copies_of_the_old_head_in_other_formats_stay_behind(
    make_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    verifier = make_checkpoint()
    for name in ("pytorch_model.bin", "model.gguf", "other.safetensors", ".gitattributes"):
        (verifier / name).write_bytes(b"old")
    stitch(verifier, tuned_head(verifier), tmp_path / "out", {})
    assert (
        not {"pytorch_model.bin", "model.gguf", "other.safetensors", ".gitattributes"}
        & contents(tmp_path / "out").keys()
    )


def test_the_known_digests_give_the_same_as_reading_everything(
    make_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    verifier = make_checkpoint("Sharded")
    ref = stitch(verifier, tuned_head(verifier), tmp_path / "out", {}, inspect_verifier(verifier).files)
    assert ref.digest == artefact_digest(tmp_path / "out")


def test_a_stitched_checkpoint_can_be_stitched_again(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    verifier = make_checkpoint()
    head = tuned_head(verifier)
    first = stitch(verifier, head, tmp_path / "one", {"run": "one"})
    again = {name: tensor * 2 for name, tensor in head.items()}
    second = stitch(tmp_path / "one", again, tmp_path / "two", {"run": "two"})
    assert first.digest != second.digest
    assert read_manifest(tmp_path / "two")["run"] == "two"


@WRITERS
def test_the_manifest_names_every_file_and_the_head(
    make_checkpoint: Callable[..., Path], tmp_path: Path, write: Write
) -> None:
    verifier = make_checkpoint("Sharded")
    head = tuned_head(verifier)
    ref = write(verifier, head, tmp_path / "out", {"training": {"steps": 3}})
    manifest = read_manifest(tmp_path / "out")
    assert manifest["training"] == {"steps": 3}
    assert manifest["digest"] == ref.digest
    assert manifest["headDigest"] == tensors_digest(head)
    assert manifest["files"].keys() == contents(tmp_path / "out").keys() - {"manifest.json"}
    assert ref.size_bytes == sum(file["size"] for file in manifest["files"].values())


@WRITERS
def test_writing_the_same_again_changes_nothing(
    make_checkpoint: Callable[..., Path], tmp_path: Path, write: Write
) -> None:
    verifier = make_checkpoint()
    head = tuned_head(verifier)
    first = write(verifier, head, tmp_path / "out", {})
    inode = (tmp_path / "out" / "model.safetensors").stat().st_ino
    assert write(verifier, head, tmp_path / "out", {}) == first
    assert (tmp_path / "out" / "model.safetensors").stat().st_ino == inode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "verifier"]


@WRITERS
def test_other_content_is_never_replaced(make_checkpoint: Callable[..., Path], tmp_path: Path, write: Write) -> None:
    verifier = make_checkpoint()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("1")
    with pytest.raises(StageError, match="exists already with other content") as caught:
        write(verifier, tuned_head(verifier), tmp_path / "out", {})
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE
    assert list(contents(tmp_path / "out")) == ["mine"]


def half(head: Head) -> Any:
    return head.pop(QUERY)


def foreign(head: Head) -> None:
    head["mtp.new.weight"] = torch.ones(1)


def reshaped(head: Head) -> None:
    head[QUERY] = head[QUERY].T.contiguous()


def wider(head: Head) -> None:
    head[QUERY] = head[QUERY].float()


def not_a_number(head: Head) -> None:
    head[QUERY][3, 3] = float("nan")


def infinite(head: Head) -> None:
    head[QUERY][3, 3] = float("inf")


UNFIT = {
    "half a head": (half, Reason.INCOMPLETE_MTP_HEAD, f"{QUERY} is missing"),
    "a foreign tensor": (foreign, Reason.INCOMPLETE_MTP_HEAD, "mtp.new.weight is not in the verifier's head"),
    "another shape": (reshaped, Reason.INCOMPLETE_MTP_HEAD, "BF16 [8, 16], the verifier's BF16 [16, 8]"),
    "another dtype": (wider, Reason.INCOMPLETE_MTP_HEAD, "F32 [16, 8], the verifier's BF16 [16, 8]"),
    "not a number": (not_a_number, Reason.LOSS_NOT_FINITE, QUERY),
    "infinity": (infinite, Reason.LOSS_NOT_FINITE, QUERY),
}


@WRITERS
@pytest.mark.parametrize(("spoil", "reason", "problem"), UNFIT.values(), ids=UNFIT.keys())
def test_a_head_that_does_not_fit_is_not_written(
    make_checkpoint: Callable[..., Path],
    tmp_path: Path,
    write: Write,
    spoil: Callable[[Head], Any],
    reason: Reason,
    problem: str,
) -> None:
    verifier = make_checkpoint()
    head = tuned_head(verifier)
    spoil(head)
    with pytest.raises(StageError) as caught:
        write(verifier, head, tmp_path / "out", {})
    assert caught.value.reason is reason
    assert problem in caught.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["verifier"]


@WRITERS
@pytest.mark.parametrize("room", [0, 100, 2000])
def test_a_full_disk_leaves_nothing(
    make_checkpoint: Callable[..., Path],
    tmp_path: Path,
    full_disk: Callable[[int], Any],
    write: Write,
    room: int,
) -> None:
    verifier = make_checkpoint("Sharded")
    before, head = contents(verifier), tuned_head(verifier)
    with pytest.raises(StageError, match="no space") as caught, full_disk(room):
        write(verifier, head, tmp_path / "out", {})
    assert caught.value.reason is Reason.DISK_FULL
    assert [path.name for path in tmp_path.iterdir()] == ["verifier"]
    assert contents(verifier) == before


@WRITERS
def test_a_folder_that_may_not_be_written_is_named(
    make_checkpoint: Callable[..., Path], read_only_folder: Path, unprivileged: Callable[[], Any], write: Write
) -> None:
    verifier = read_only_folder.parent / "verifier"
    shutil.copytree(make_checkpoint(), verifier)
    (verifier / "model.safetensors").chmod(0o644)
    head = tuned_head(verifier)
    with pytest.raises(StageError, match="make the folder writable") as caught, unprivileged():
        write(verifier, head, read_only_folder / "out", {})
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE
    assert list(read_only_folder.iterdir()) == []


@pytest.mark.parametrize("place", ["verifier/out", "."])
def test_the_verifier_is_no_place_for_its_copy(
    make_checkpoint: Callable[..., Path], tmp_path: Path, place: str
) -> None:
    verifier = make_checkpoint()
    with pytest.raises(StageError, match="overlaps the verifier"):
        stitch(verifier, tuned_head(verifier), tmp_path / place, {})


def spoil_trunk(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    first_data = 8 + int.from_bytes(data[:8], "little")
    data[first_data] ^= 1
    path.write_bytes(data)


def spoil_head(folder: Path) -> None:
    path = folder / "model.safetensors"
    info = inspect_verifier(folder).head_tensors[QUERY]
    data = bytearray(path.read_bytes())
    data[info.begin] ^= 1
    path.write_bytes(data)


def lose_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def change_file(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"temperature": 0.7}')


def add_file(folder: Path) -> None:
    (folder / "more.json").write_text("{}")


def own_file(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").hardlink_to(folder.parent / "verifier" / "model.safetensors")


WRONG = {
    "a bit of the trunk": (spoil_trunk, "differs from"),
    "a bit of the head": (spoil_head, f"does not hold the tuned {QUERY}"),
    "a lost file": (lose_file, "tokenizer.json"),
    "a changed file": (change_file, "generation_config.json"),
    "a file more": (add_file, "more.json"),
    "the verifier's own file": (own_file, "is the verifier's own file"),
}


@pytest.mark.parametrize(("spoil", "problem"), WRONG.values(), ids=WRONG.keys())
def test_verification_finds_every_difference(
    make_checkpoint: Callable[..., Path], tmp_path: Path, spoil: Callable[[Path], None], problem: str
) -> None:
    verifier = make_checkpoint()
    head = tuned_head(verifier)
    stitch(verifier, head, tmp_path / "out", {})
    spoil(tmp_path / "out")
    with pytest.raises(StageError) as caught:
        verify_stitched(verifier, tmp_path / "out", head)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT
    assert problem in caught.value.message


def test_masters_are_rounded_to_the_dtypes_that_the_checkpoint_stores(make_checkpoint: Callable[..., Path]) -> None:
    def mixed(config: Any, trunk: Head, head: Head) -> None:
        head["mtp.norm.weight"] = head["mtp.norm.weight"].float()

    inspection = inspect_verifier(make_checkpoint(change=mixed))
    masters = {name: torch.full(info.shape, 1.0009765625) for name, info in inspection.head_tensors.items()}
    stored = as_stored(masters, inspection.head_tensors)
    assert stored["mtp.norm.weight"].dtype == torch.float32
    assert torch.equal(stored["mtp.norm.weight"], masters["mtp.norm.weight"])
    assert stored[QUERY].dtype == torch.bfloat16
    assert bool((stored[QUERY] == 1).all())


def test_a_manifest_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps([]))
    with pytest.raises(StageError, match=r"manifest\.json is not a JSON object"):
        read_manifest(tmp_path)
