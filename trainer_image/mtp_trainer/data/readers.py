"""Records from files: jsonl, parquet, the arrow files of a saved ``datasets`` folder, or a folder of any of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.data.samples import Sample, sample_from
from mtp_trainer.storage import folder_files

SUFFIXES = (".jsonl", ".parquet", ".arrow")
SPLITS = ("train", "test", "validation", "valid", "val", "dev", "eval", "heldout")


def read_samples(path: Path, subset: str | None, split: str, max_samples: int | None) -> list[Sample]:
    """The first ``max_samples`` samples of a file or folder, in the order of file names and lines.

    Raises:
        StageError: ``DatasetInvalid``, naming file and line; ``DatasetEmpty`` without any sample; ``VolumeMissing``
            when there is no such path.
    """
    files = dataset_files(path, subset, split)
    samples = list(islice((sample_from(*pair) for file in files for pair in records(file)), max_samples))
    if not samples:
        raise StageError(
            Reason.DATASET_EMPTY, f"{path}: no sample in {', '.join(file.name for file in files)}; write one per line"
        )
    return samples


def dataset_files(path: Path, subset: str | None, split: str) -> list[Path]:
    """Files to read. In a folder, a file whose path names a split is only read for that split, likewise a subset."""
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise StageError(Reason.DATASET_INVALID, f"{path}: not one of {', '.join(SUFFIXES)}; convert it to jsonl")
        return [path]
    if not path.is_dir():
        raise StageError(Reason.VOLUME_MISSING, f"{path}: no such file or folder; name one that is on the volume")
    names = [name for name in folder_files(path) if Path(name).suffix in SUFFIXES]
    if not names:
        raise StageError(Reason.DATASET_EMPTY, f"{path}: no {', '.join(SUFFIXES)} file in it; name another folder")
    if subset is not None:
        names = named_by(path, names, "subset", subset, lambda name: subset if subset in path_words(name) else None)
    names = named_by(path, names, "split", split, lambda name: split_of(name, split))
    return [path / name for name in names]


def named_by(path: Path, names: list[str], field: str, wanted: str, read: Any) -> list[str]:
    """Names whose ``read(name)`` is ``wanted``; all of them where no name says anything about it and it's the split."""
    values = {name: read(name) for name in names}
    if field == "split" and not any(values.values()):
        return names
    chosen = [name for name, value in values.items() if value == wanted]
    if not chosen:
        raise StageError(
            Reason.DATASET_INVALID,
            f"{path}: no file of the {field} {wanted!r} among {', '.join(names[:6])}; set {field} to one that is there",
        )
    return chosen


def split_of(name: str, wanted: str) -> str | None:
    """The split that a file's path names, if any."""
    return next((word for word in reversed(path_words(name)) if word == wanted or word in SPLITS), None)


def path_words(name: str) -> list[str]:
    """Words of a path, folders whole and in parts: ``main/train-00000-of-00001.parquet`` -> main, train, 00000, ..."""
    path = Path(name).with_suffix("")
    return [*path.parts[:-1], *(word for part in path.parts for word in re.split(r"[^A-Za-z0-9]+", part) if word)]


def records(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Every record of a file with its place.

    Raises:
        StageError: ``DatasetInvalid``, naming file and line.
    """
    try:
        yield from jsonl_records(path) if path.suffix == ".jsonl" else table_records(path)
    except OSError as error:
        raise StageError(
            Reason.DATASET_INVALID, f"{path}: cannot be read ({error.strerror or error}); make it readable"
        ) from error


def jsonl_records(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """One JSON object per line; empty lines are skipped."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                record = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise StageError(
                    Reason.DATASET_INVALID, f"{where}: not JSON ({error}); write one JSON object per line, in UTF-8"
                ) from error
            if not isinstance(record, dict):
                raise StageError(Reason.DATASET_INVALID, f"{where}: not a JSON object; write one object per line")
            yield record, where


def table_records(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows of a parquet file, or of an arrow file as ``datasets`` saves it, batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        row = 0
        with path.open("rb") as file:
            if path.suffix == ".parquet":
                batches: Any = parquet.ParquetFile(file).iter_batches(batch_size=1024)
            else:
                batches = pa.ipc.open_stream(file)
            for batch in batches:
                for record in batch.to_pylist():
                    row += 1
                    yield record, f"{path}: row {row}"
    except pa.ArrowException as error:
        raise StageError(
            Reason.DATASET_INVALID, f"{path}: not a readable {path.suffix[1:]} file ({error}); write it again"
        ) from error
