"""Conversations to token ids and the mask of what the model wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.data.samples import Message, Sample

MARKED = re.compile(r"\{%-?\s*generation\b")
"""How a template marks what the model wrote: ``{% generation %}``, an extension of transformers."""


@dataclass(frozen=True)
class Document:
    """A tokenised conversation. ``mask[i]`` says whether the model wrote ``tokens[i]``."""

    tokens: tuple[int, ...]
    mask: tuple[bool, ...]
    key: str
    """What splits and orders it: the hash of its prompt."""


@dataclass(frozen=True)
class Dropped:
    """Why a conversation gives no document; ``reason`` is counted, ``detail`` explains the first one."""

    reason: str
    detail: str


class Renderer:
    """A model's tokenizer with its chat template."""

    def __init__(self, tokenizer: Any, template: str | None) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.last_turn_only = 0
        """Conversations of which only the last answer is under the mask, because the template changes earlier ones."""

    @classmethod
    def load(cls, model: Path, trust_remote_code: bool = False) -> Renderer:
        """The tokenizer of a checkpoint.

        Raises:
            StageError: ``CheckpointCorrupt`` when it has none that gives the place of each token in the text.
        """
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(
                str(model), trust_remote_code=trust_remote_code, local_files_only=True
            )
        except Exception as error:  # the library raises whatever its parts raise
            raise StageError(
                Reason.CHECKPOINT_CORRUPT, f"{model}: its tokenizer cannot be loaded ({error}); add tokenizer.json"
            ) from error
        if not tokenizer.is_fast:
            raise StageError(
                Reason.CHECKPOINT_CORRUPT,
                f"{model}: its tokenizer tells no token's place in a text; add tokenizer.json",
            )
        try:
            template = tokenizer.get_chat_template()
        except ValueError:  # it has none
            template = None
        return cls(tokenizer, template)

    def prompt_tokens(self, prompt: Sequence[Message]) -> list[int]:
        """Token ids of a prompt, up to where the model begins to write.

        Raises:
            StageError: ``DatasetInvalid`` when the template refuses the messages.
        """
        return self.ids(self.render(prompt, add_generation_prompt=True))

    def document(self, sample: Sample) -> Document | Dropped:
        """Token ids and mask of a conversation with its answers, or of a plain text, all of which counts."""
        if not sample.has_answer:
            return Dropped("noAssistant", f"{sample.where}: no message has the role assistant")
        if sample.text is not None:
            tokens = [*self.ids(sample.text), *self.end()]
            return Document(tuple(tokens), (True,) * len(tokens), sample.prompt_key())
        # What follows the last answer is no context of anything that counts.
        last = max(i for i, message in enumerate(sample.messages) if message["role"] == "assistant")
        messages = list(sample.messages[: last + 1])
        try:
            text, spans = self.spans(messages)
        except StageError as error:
            return Dropped("templateRefused", f"{sample.where}: {error.message}")
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        mask = [
            end > begin and any(first <= begin < stop for first, stop in spans)
            for begin, end in encoded["offset_mapping"]
        ]
        if not any(mask):
            return Dropped("noAssistant", f"{sample.where}: the chat template shows no answer")
        # The template's text after the last answer is not served either.
        size = len(mask) - mask[::-1].index(True)
        return Document(tuple(encoded["input_ids"][:size]), tuple(mask[:size]), sample.prompt_key())

    def spans(self, messages: list[Message]) -> tuple[str, list[tuple[int, int]]]:
        """A conversation's text, and the ranges of characters in it that the model wrote."""
        if self.template and MARKED.search(self.template):
            return self.marked_spans(messages)
        text = self.render(messages)
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        found = [self.turn_span(text, messages, turn) for turn in turns]
        if found[-1] is None:
            raise StageError(
                Reason.DATASET_INVALID, "the chat template renders the prompt in another way once the answer is there"
            )
        if None in found:
            # Templates of reasoning models leave earlier answers' thoughts out: those aren't what the model wrote.
            self.last_turn_only += 1
            found = found[-1:]
        return text, [span for span in found if span is not None]

    def turn_span(self, text: str, messages: list[Message], turn: int) -> tuple[int, int] | None:
        """Range of one answer: from where the model begins to write to its end of turn; none where they don't agree."""
        before = self.render(messages[:turn], add_generation_prompt=True)
        until = self.render(messages[: turn + 1])
        if not text.startswith(before) or not text.startswith(until) or len(until) <= len(before):
            return None
        # The template's own text after the end of turn (a line break) is not the model's.
        end = self.tokenizer.eos_token
        place = until.rfind(end, len(before)) if end else -1
        return len(before), place + len(end) if place >= 0 else len(until)

    def marked_spans(self, messages: list[Message]) -> tuple[str, list[tuple[int, int]]]:
        """As :meth:`spans`, for a template that marks what the model wrote."""
        from transformers.utils.chat_template_utils import render_jinja_template

        texts, spans = self.guarded(
            render_jinja_template,
            conversations=[messages],
            chat_template=self.template,
            return_assistant_tokens_mask=True,
            **self.tokenizer.special_tokens_map,
        )
        return texts[0], [tuple(span) for span in spans[0]]

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """A conversation's text by the chat template.

        Raises:
            StageError: ``DatasetInvalid`` when the template refuses it, or there is none.
        """
        return str(
            self.guarded(
                self.tokenizer.apply_chat_template,
                list(messages),
                chat_template=self.template,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
            )
        )

    def guarded(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """Call the chat template; what it raises becomes an error with a remedy."""
        import jinja2

        if not self.template:
            raise StageError(
                Reason.DATASET_INVALID,
                "the verifier's tokenizer has no chat template; add chat_template.jinja to it, or give text samples",
            )
        try:
            return function(*arguments, **options)
        except (jinja2.TemplateError, TypeError, KeyError, ValueError) as error:
            raise StageError(
                Reason.DATASET_INVALID, f"the verifier's chat template refuses the conversation ({error})"
            ) from error

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, exactly as it is."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def end(self) -> list[int]:
        """The token that ends a text, if the tokenizer has one."""
        return [] if self.tokenizer.eos_token_id is None else [int(self.tokenizer.eos_token_id)]
