"""Run the prepare stage."""

from __future__ import annotations

import logging
from pathlib import Path

from mtp_trainer.checkpoints import VerifierInspection, inspect_verifier, load_inspection
from mtp_trainer.contract.configs import DatasetConfig, PrepareConfig, SourceConfig
from mtp_trainer.contract.exits import Stage
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.contract.results import PrepareResult
from mtp_trainer.data import PackedRows, Renderer, pack, read_samples, save_rows, split
from mtp_trainer.data.readers import dataset_files
from mtp_trainer.prepare.conversations import Made, make_documents
from mtp_trainer.prepare.finished import inputs_digest, record, reusable
from mtp_trainer.prepare.prompts import Prompt, held_out_prompts, save_prompts
from mtp_trainer.prepare.regeneration import Regenerate, engine_regenerate
from mtp_trainer.sources import resolve
from mtp_trainer.storage import FileDigest, digest_of, folder_digests, storage_errors

log = logging.getLogger(__name__)

TRAINING, DOMAIN, GENERAL = "dataset", "evaluation.domain", "evaluation.general"


def run(config: PrepareConfig, regenerate: Regenerate = engine_regenerate) -> PrepareResult:
    """Check the verifier, then write packed rows, held-out prompts and the inspection into the workspace.

    A repeated run with the same inputs reuses what it finds. No output is written before the verifier and all datasets
    have been read and found good.

    Args:
        regenerate: how the verifier writes answers; by default through an engine that is started for it.

    Raises:
        StageError: a bad verifier, dataset or source, each naming field or file; what the engine raises; ``DiskFull``
            and ``OutputNotWritable``.
    """
    workspace = Workspace(config.workspace)
    verifier = resolve(config.verifier, "verifier", "model", workspace.downloaded_verifier)
    log.info("checking the verifier in %s", verifier.path)
    inspection = inspect_verifier(verifier.path, verifier.revision, config.trust_remote_code)

    sets = {TRAINING: config.dataset, DOMAIN: config.evaluation.domain}
    if config.evaluation.general is not None:
        sets[GENERAL] = config.evaluation.general
    paths = {role: dataset_path(workspace, role, dataset) for role, dataset in sets.items()}
    files = {role: dataset_files(path, sets[role].subset, sets[role].split) for role, path in paths.items()}
    inputs = inputs_digest(config, inspection.digest, files)
    if (earlier := reusable(workspace.stage(Stage.PREPARE), inputs)) is not None:
        log.info("the inputs are unchanged: %s is reused", workspace.stage(Stage.PREPARE))
        return earlier

    renderer = Renderer.load(verifier.path, config.trust_remote_code)
    domain = held_out_prompts(paths[DOMAIN], config.evaluation.domain, renderer)
    general = held_out_prompts(paths[GENERAL], sets[GENERAL], renderer) if GENERAL in paths else []
    samples = read_samples(paths[TRAINING], config.dataset.subset, config.dataset.split, config.dataset.max_samples)
    held_out = {prompt.key for prompt in [*domain, *general]}
    keep_inspection(workspace, inspection)
    made = make_documents(samples, held_out, config, renderer, verifier.path, regenerate)
    training, validating = split(made.documents, config.validation_fraction, config.seed)
    rows, validation = pack(training, config.sequence_length), pack(validating, config.sequence_length)

    outputs = write(workspace, rows, validation, domain, general)
    result = summary(inspection, outputs, len(samples), made, rows, validation, len(domain), len(general))
    record(workspace.stage(Stage.PREPARE), inputs, outputs, result)
    return result


def keep_inspection(workspace: Workspace, inspection: VerifierInspection) -> None:
    """Save the inspection, and forget answers that another verifier wrote, which resuming would take for this one's."""
    earlier = load_inspection(workspace.inspection) if workspace.inspection.exists() else None
    if earlier is None or earlier.digest != inspection.digest:
        with storage_errors(workspace.regenerated):
            workspace.regenerated.unlink(missing_ok=True)
    inspection.save(workspace.inspection)


def dataset_path(workspace: Workspace, role: str, dataset: DatasetConfig) -> Path:
    """Where a dataset is, downloaded if need be; two roles that name the same repository share a folder."""
    return resolve(dataset.source, role, "dataset", workspace.downloaded_datasets / folder_name(dataset.source)).path


def folder_name(source: SourceConfig) -> str:
    """A folder's name for a repository and revision."""
    name = source.uri.partition("://")[2]
    return "--".join([*name.split("/"), *([source.revision.replace("/", "--")] if source.revision else [])])


def write(
    workspace: Workspace,
    rows: PackedRows,
    validation: PackedRows,
    domain: list[Prompt],
    general: list[Prompt],
) -> dict[str, FileDigest]:
    """Write the stage's outputs, each whole or not at all, and hash them."""
    save_rows(rows, workspace.train_rows)
    save_rows(validation, workspace.validation_rows)
    save_prompts(domain, workspace.domain_prompts)
    if general:
        save_prompts(general, workspace.general_prompts)
    else:
        workspace.general_prompts.unlink(missing_ok=True)
    names = [workspace.train_rows, workspace.validation_rows, workspace.domain_prompts, workspace.inspection]
    names += [workspace.general_prompts] if general else []
    return folder_digests(workspace.stage(Stage.PREPARE), [path.name for path in names])


def summary(
    inspection: VerifierInspection,
    outputs: dict[str, FileDigest],
    read: int,
    made: Made,
    rows: PackedRows,
    validation: PackedRows,
    domain_prompts: int,
    general_prompts: int,
) -> PrepareResult:
    """The stage's result."""
    data = {name: digest for name, digest in outputs.items() if not name.startswith("verifier")}
    return PrepareResult(
        family=inspection.family,
        verifier_revision=inspection.revision,
        verifier_digest=inspection.digest,
        head_tensors=len(inspection.head_tensors),
        head_parameters=inspection.head_parameters,
        data_digest=digest_of(data),
        read=read,
        kept=len(made.documents),
        dropped={reason: count for reason, count in sorted(made.dropped.items()) if count},
        train_documents=rows.document_count,
        validation_documents=validation.document_count,
        train_tokens=rows.token_count,
        trained_tokens=rows.trained_token_count,
        rows=len(rows),
        domain_prompts=domain_prompts,
        general_prompts=general_prompts,
        warnings=tuple(made.warnings),
    )
