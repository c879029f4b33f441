"""What a verifier's checkpoint says about its MTP head, checked against what its files hold.

Nothing downstream notices a damaged head: vLLM starts with linear weights missing and drafts garbage, and transformers
drops the head when it saves, while the configuration goes on declaring it. So both directions are compared here, before
anything is spent on training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from mtp_trainer.checkpoints.header import FLOATING, TensorInfo
from mtp_trainer.checkpoints.weights import CONFIG, INDEX, Weights, listing, read_config, read_json, read_weights
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.families import Family, family_for
from mtp_trainer.storage import FileDigest, digest_of, folder_digests, write_file

SCALES = ("_scale", "_scale_inv", "_scale_2", ".scales", ".qweight", ".qzeros", "_packed", ".g_idx", ".SCB", ".absmax")
"""Ends of the names of tensors that accompany a quantised one (FP8, NVFP4, AWQ and GPTQ, bitsandbytes)."""


class VerifierInspection(BaseModel):
    """A verifier whose MTP head is whole."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    path: Path
    family: str
    """Name of the family in :mod:`mtp_trainer.families`."""
    config: dict[str, Any]
    """``config.json``, of a composite checkpoint the whole of it."""
    head_tensors: dict[str, TensorInfo]
    head_parameters: int
    digest: str
    """Of weights, index and configuration."""
    revision: str | None = None
    shards: tuple[str, ...]
    files: dict[str, FileDigest]
    """Weights, index and configuration, so that nobody has to hash them again."""

    def save(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        write_file(path, self.model_dump_json(by_alias=True, indent=1) + "\n")


def load_inspection(path: Path) -> VerifierInspection:
    """Read what :meth:`VerifierInspection.save` wrote.

    Raises:
        StageError: ``ConfigInvalid`` when the file is absent or not an inspection.
    """
    try:
        return VerifierInspection.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: not the result of an inspection ({error}); run the prepare stage first"
        ) from error


def inspect_verifier(folder: Path, revision: str | None = None, trust_remote_code: bool = False) -> VerifierInspection:
    """Check a verifier's checkpoint and its MTP head; hashes all its weights.

    Raises:
        StageError: ``UnsupportedFamily``; ``NoMTPHead``, ``IncompleteMTPHead`` or ``QuantizedHead``, naming tensors or
            the configuration key; ``CheckpointCorrupt``, naming the file; ``ConfigInvalid`` when the checkpoint brings
            its own code and that is not trusted.
    """
    config, family, weights, head = inspect_head(folder, trust_remote_code)
    names = [CONFIG, *weights.shards, *([INDEX] if (folder / INDEX).exists() else [])]
    files = folder_digests(folder, names)
    return VerifierInspection(
        path=folder,
        family=family.name,
        config=config,
        head_tensors=head,
        head_parameters=sum(tensor.elements for tensor in head.values()),
        digest=digest_of(files),
        revision=revision,
        shards=weights.shards,
        files=files,
    )


def inspect_head(
    folder: Path, trust_remote_code: bool = False
) -> tuple[dict[str, Any], Family, Weights, dict[str, TensorInfo]]:
    """As :func:`inspect_verifier`, from headers only: configuration, family, all tensors, the head's tensors."""
    config = read_config(folder)
    refuse_remote_code(folder, config, trust_remote_code)
    family = family_for(config)
    weights = read_weights(folder)
    head = {name: tensor for name, tensor in weights.tensors.items() if name.startswith(family.head_prefix)}
    check_declaration(folder, family, config, head)
    check_quantisation(folder, head)
    check_completeness(folder, family, config, head)
    return config, family, weights, head


def refuse_remote_code(folder: Path, config: dict[str, Any], trusted: bool) -> None:
    """A checkpoint whose configuration names Python files would have them executed."""
    tokenizer = folder / "tokenizer_config.json"
    settings = {CONFIG: config, tokenizer.name: read_json(tokenizer) if tokenizer.exists() else {}}
    for name, values in settings.items():
        if values.get("auto_map") and not trusted:
            raise StageError(
                Reason.CONFIG_INVALID,
                f"{folder / name}: auto_map names Python code of the checkpoint's author; read it, then set "
                "trustRemoteCode: true, or use a checkpoint without it",
            )


def check_declaration(folder: Path, family: Family, config: dict[str, Any], head: dict[str, TensorInfo]) -> None:
    """How many heads the configuration declares, against whether there are any tensors."""
    declared, key = family.num_heads(config), heads_key(family, config)
    if not head and not declared:
        raise StageError(
            Reason.NO_MTP_HEAD,
            f"{folder}: no tensor is named {family.head_prefix}* and {CONFIG} has no {key}; this model was published "
            "without an MTP head, use one that has it",
        )
    if not head:
        raise StageError(
            Reason.NO_MTP_HEAD,
            f"{folder}: {CONFIG} says {key}: {declared}, but no tensor is named {family.head_prefix}*; saving with "
            "transformers drops them, so take the weights of the original checkpoint",
        )
    if not declared:
        raise StageError(
            Reason.INCOMPLETE_MTP_HEAD,
            f"{folder}: {len(head)} tensors are named {family.head_prefix}*, but {CONFIG} declares no head, so no "
            f"server would load it; set {key} to 1 there",
        )
    if declared > 1:
        raise StageError(
            Reason.UNSUPPORTED_FAMILY,
            f"{folder}: {CONFIG} says {key}: {declared}; this trainer knows checkpoints with one MTP head",
        )


def heads_key(family: Family, config: dict[str, Any]) -> str:
    """Where the number of heads is, or belongs, in this configuration: as a path of keys."""
    inside = family.text_config(config) is not config and family.heads_key not in config
    return f"text_config.{family.heads_key}" if inside else family.heads_key


def check_quantisation(folder: Path, head: dict[str, TensorInfo]) -> None:
    """A quantised head, told by its dtypes and by the scales beside its tensors."""
    quantised = [
        f"{name} ({tensor.dtype})"
        for name, tensor in sorted(head.items())
        if tensor.dtype not in FLOATING or name.endswith(SCALES)
    ]
    if quantised:
        raise StageError(
            Reason.QUANTIZED_HEAD,
            f"{folder}: the MTP head is quantised: {listing(quantised)}; use the checkpoint in bfloat16, or one whose "
            "quantisation leaves the head out",
        )


def check_completeness(folder: Path, family: Family, config: dict[str, Any], head: dict[str, TensorInfo]) -> None:
    """Names and shapes of the head's tensors, against those that the configuration implies."""
    expected = family.expected_head_tensors(config)
    missing, extra = sorted(expected.keys() - head.keys()), sorted(head.keys() - expected.keys())
    shapes = [
        f"{name} has shape {list(head[name].shape)}, not {list(shape)}"
        for name, shape in sorted(expected.items())
        if name in head and head[name].shape != shape
    ]
    problems = [
        *([f"missing {listing(missing)}"] if missing else []),
        *([f"unknown {listing(extra)}"] if extra else []),
        *([listing(shapes)] if shapes else []),
    ]
    if problems:
        raise StageError(
            Reason.INCOMPLETE_MTP_HEAD,
            f"{folder}: the MTP head differs from what {CONFIG} implies for {family.name}: {'; '.join(problems)}; use "
            "the model's own checkpoint and configuration",
        )
