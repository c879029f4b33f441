"""Answers written anew by the verifier, as documents.

A head learns to predict what its verifier writes, so answers of another model teach it the wrong thing. Answers stay
token ids from the engine to the rows: text tokenised again may come out differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mtp_trainer.contract.configs import EngineConfig, PrepareConfig, SamplingConfig
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.data import Document, Renderer, Sample
from mtp_trainer.data.samples import Message


class Response(Protocol):
    """What the verifier wrote for one prompt."""

    @property
    def index(self) -> int:
        """Place of the prompt in the list that was given."""
        ...

    @property
    def prompt_token_ids(self) -> Sequence[int]: ...

    @property
    def response_token_ids(self) -> Sequence[int]: ...

    @property
    def finish_reason(self) -> str:
        """``stop``, or ``length`` where ``maxTokens`` cut it."""
        ...


class Regenerate(Protocol):
    """Let a verifier answer prompts; prompts that fail for good are missing from the answer."""

    def __call__(
        self,
        verifier: Path,
        prompts: list[list[Message]],
        out: Path,
        sampling: SamplingConfig,
        engine: EngineConfig,
        seed: int,
        trust_remote_code: bool,
    ) -> Sequence[Response]:
        """Answers are also appended to ``out``, from which a repeated call takes those that it has."""
        ...


def engine_regenerate(
    verifier: Path,
    prompts: list[list[Message]],
    out: Path,
    sampling: SamplingConfig,
    engine: EngineConfig,
    seed: int,
    trust_remote_code: bool,
) -> Sequence[Response]:
    """Let an engine that is started for it answer; imported late, since answers that are there need none."""
    from mtp_trainer.engine import regenerate

    return regenerate(verifier, prompts, out, sampling, engine, seed, trust_remote_code)


def regenerated_documents(
    samples: list[Sample],
    renderer: Renderer,
    regenerate: Regenerate,
    verifier: Path,
    config: PrepareConfig,
    dropped: Counter[str],
    warnings: list[str],
) -> list[Document]:
    """Documents of prompt and new answer.

    ``dropped`` gets ``noPrompt``, ``tooLong`` (the prompt alone fills a row) and ``regenerationFailed``.

    Raises:
        StageError: ``DatasetInvalid`` for plain text, which asks nothing; and what the engine raises.
    """
    asking = []
    for sample in samples:
        if sample.text is not None:
            raise StageError(
                Reason.DATASET_INVALID,
                f"{sample.where}: plain text has no prompt that the verifier could answer; set responses: AsIs, or "
                "give messages, or prompt and completion",
            )
        if not sample.prompt:
            dropped["noPrompt"] += 1
        elif len(renderer.prompt_tokens(sample.prompt)) >= config.sequence_length:
            dropped["tooLong"] += 1
        else:
            asking.append(sample)
    if not asking:
        return []
    responses = regenerate(
        verifier=verifier,
        prompts=[sample.prompt for sample in asking],
        out=Workspace(config.workspace).regenerated,
        sampling=config.sampling,
        engine=config.engine,
        seed=config.seed,
        trust_remote_code=config.trust_remote_code,
    )
    answered = {response.index: response for response in responses if response.response_token_ids}
    dropped["regenerationFailed"] += len(asking) - len(answered)
    if cut := sum(response.finish_reason == "length" for response in answered.values()):
        warnings.append(f"{cut} of {len(answered)} answers reached sampling.maxTokens ({config.sampling.max_tokens})")
    return [
        Document(
            (*answered[index].prompt_token_ids, *answered[index].response_token_ids),
            (False,) * len(answered[index].prompt_token_ids) + (True,) * len(answered[index].response_token_ids),
            asking[index].prompt_key(),
        )
        for index in sorted(answered)
    ]
