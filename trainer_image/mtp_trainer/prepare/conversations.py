"""From the samples of a dataset to the documents that train, with a count of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from mtp_trainer.contract.configs import PrepareConfig
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.data import Document, Dropped, Renderer, Sample, select
from mtp_trainer.prepare.regeneration import Regenerate, regenerated_documents

MIN_TOKENS_BEFORE_TARGET = 2
"""The first token that a draft can propose is the third of a document: one state, one committed token, then it."""


@dataclass
class Made:
    """Documents, and what became of the other samples."""

    documents: list[Document] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)
    """An example for each reason for which samples were left out."""
    warnings: list[str] = field(default_factory=list)


def make_documents(
    samples: list[Sample],
    held_out: Set[str],
    config: PrepareConfig,
    renderer: Renderer,
    verifier: Path,
    regenerate: Regenerate,
) -> Made:
    """Documents that fit a row, each with something to learn.

    Args:
        held_out: keys of evaluation's prompts, which must not train.

    Raises:
        StageError: ``DatasetInvalid`` when nothing is left, with counts, an example and what to set; what the engine
            raises.
    """
    made = Made()
    anew = config.responses == "Regenerate"
    chosen = select(samples, held_out, anew, made.dropped)
    if anew:
        found = regenerated_documents(chosen, renderer, regenerate, verifier, config, made.dropped, made.warnings)
    else:
        found = documents_as_is(chosen, renderer, made)
    made.documents = fitting(found, config.sequence_length, made)
    if not made.documents:
        raise nothing_left(len(samples), made)
    if renderer.last_turn_only:
        made.warnings.append(
            f"{renderer.last_turn_only} conversations train on their last answer only: the chat template changes the "
            "earlier ones"
        )
    if len(made.documents) * 2 < len(samples):
        made.warnings.append(f"only {len(made.documents)} of {len(samples)} samples are used: {counts(made.dropped)}")
    return made


def documents_as_is(samples: list[Sample], renderer: Renderer, made: Made) -> list[Document]:
    """Conversations with the answers that they have."""
    documents = []
    for sample in samples:
        document = renderer.document(sample)
        if isinstance(document, Dropped):
            made.dropped[document.reason] += 1
            made.details.setdefault(document.reason, document.detail)
        else:
            documents.append(document)
    return documents


def fitting(documents: list[Document], sequence_length: int, made: Made) -> list[Document]:
    """Documents that fit a row and hold a token that a draft could propose. None is cut: half an answer misleads."""
    kept = []
    for document in documents:
        if len(document.tokens) > sequence_length:
            made.dropped["tooLong"] += 1
        elif not any(document.mask[MIN_TOKENS_BEFORE_TARGET:]):
            made.dropped["tooShort"] += 1
        else:
            kept.append(document)
    if made.dropped["tooLong"] and documents:
        lengths = [len(document.tokens) for document in documents]
        made.details["tooLong"] = (
            f"lengths are {min(lengths)} to {max(lengths)} tokens, a row has {sequence_length}: set "
            f"training.sequenceLength to {max(lengths)} or more"
        )
    return kept


def nothing_left(read: int, made: Made) -> StageError:
    """The error for a dataset of which nothing can be used."""
    example = next((made.details[reason] for reason, _ in made.dropped.most_common() if reason in made.details), "")
    advice = {
        "noAssistant": "give messages with the role assistant, or set responses: Regenerate",
        "heldOut": "training and evaluation have the same prompts; name different datasets or splits",
        "regenerationFailed": "the verifier answered nothing; look into the engine's log",
        "noPrompt": "give messages with the role user, or prompt and completion",
        "tooLong": "set training.sequenceLength above the longest prompt",
        "templateRefused": "give messages as the verifier's chat template expects them",
        "tooShort": "give longer texts",
    }
    main = made.dropped.most_common(1)[0][0]
    return StageError(
        Reason.DATASET_INVALID,
        f"dataset: none of its {read} samples can be used ({counts(made.dropped)})"
        + "".join(
            f"; {part}" for part in (example, "" if main in ("tooLong",) and example else advice.get(main)) if part
        ),
    )


def counts(dropped: Counter[str]) -> str:
    """Counts by reason, for a message."""
    return ", ".join(f"{reason}: {count}" for reason, count in dropped.most_common() if count)
