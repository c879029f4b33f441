"""Whether an earlier attempt finished with the same inputs, so that nothing has to be done again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from mtp_trainer.contract.configs import PrepareConfig
from mtp_trainer.contract.results import PrepareResult
from mtp_trainer.storage import FileDigest, folder_digests, write_file

FILE = "finished.json"


class Finished(BaseModel):
    """What a finished attempt leaves."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    inputs: str
    outputs: dict[str, FileDigest]
    result: PrepareResult


def inputs_digest(config: PrepareConfig, verifier_digest: str, datasets: dict[str, list[Path]]) -> str:
    """Digest of everything that the outputs depend on; neither the workspace's place nor how the engine is run."""
    settings = config.model_dump(mode="json", by_alias=True, exclude={"workspace", "engine"})
    contents = {
        role: [
            [path.name, digest.sha256] for path in files for digest in folder_digests(path.parent, [path.name]).values()
        ]
        for role, files in datasets.items()
    }
    return "sha256:" + hashlib.sha256(json.dumps([settings, verifier_digest, contents]).encode()).hexdigest()


def reusable(stage: Path, inputs: str) -> PrepareResult | None:
    """The earlier result, when it had the same inputs and its outputs are still as they were."""
    try:
        finished = Finished.model_validate_json((stage / FILE).read_text(encoding="utf-8"))
        same = finished.inputs == inputs and folder_digests(stage, finished.outputs) == finished.outputs
    except (OSError, ValueError):
        return None
    return finished.result if same else None


def record(stage: Path, inputs: str, outputs: dict[str, FileDigest], result: PrepareResult) -> None:
    """Leave what :func:`reusable` looks for; written last."""
    finished = Finished(inputs=inputs, outputs=outputs, result=result)
    write_file(stage / FILE, finished.model_dump_json(by_alias=True, indent=1) + "\n")
