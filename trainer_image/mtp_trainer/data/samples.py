"""What one line of a dataset may be, and what it becomes.

Three forms: ``messages`` (role and content), ``prompt`` and ``completion`` (text, or lists of messages), ``text``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtp_trainer.contract.exits import Reason, StageError

Message = dict[str, Any]
"""``role``, ``content``, and whatever else the model's chat template reads (``tool_calls``, ...)."""

FORMS = '{"messages": [{"role": "user", "content": ...}, ...]}, {"prompt": ..., "completion": ...} or {"text": ...}'


@dataclass(frozen=True)
class Sample:
    """One conversation, or one plain text."""

    where: str
    """File and line (or row), for messages to people."""
    messages: tuple[Message, ...] = ()
    text: str | None = None

    @property
    def prompt(self) -> list[Message]:
        """The messages that the last answer answers; empty for plain text and for conversations nobody asked in."""
        last = max((i for i, message in enumerate(self.messages) if message["role"] in ("user", "tool")), default=-1)
        return list(self.messages[: last + 1])

    @property
    def has_answer(self) -> bool:
        """Whether there is anything that the model wrote."""
        return self.text is not None or any(message["role"] == "assistant" for message in self.messages)

    def content_key(self) -> str:
        """Hash of the whole content; two samples with the same one are duplicates."""
        return key_of(self.text if self.text is not None else list(self.messages))

    def prompt_key(self) -> str:
        """Hash of what is asked, or of a plain text's content."""
        return prompt_key(self.prompt) if self.text is None else self.content_key()

    def asked_keys(self) -> set[str]:
        """Hash of the prompt of every answer in the conversation."""
        prompts = [self.messages[:i] for i, message in enumerate(self.messages) if message["role"] == "assistant"]
        return {prompt_key(prompt) for prompt in [*prompts, self.prompt] if prompt}


def prompt_key(prompt: Sequence[Message]) -> str:
    """Hash of a prompt, whatever its white space and system message: what counts is the question."""
    asked = [
        [message["role"], " ".join(content.split()) if isinstance(content := message.get("content"), str) else content]
        for message in prompt
        if message["role"] not in ("system", "developer")
    ]
    return key_of(asked)


def key_of(value: Any) -> str:
    """Hash of a JSON value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()).hexdigest()


def sample_from(record: Mapping[str, Any], where: str) -> Sample:
    """Read one record.

    Raises:
        StageError: ``DatasetInvalid``, naming the place, the field, and what to write instead.
    """
    if record.get("messages") is not None:
        return Sample(where, messages=messages_from(record["messages"], "messages", where))
    if record.get("prompt") is not None and record.get("completion") is not None:
        parts: list[Message] = []
        for field, role in (("prompt", "user"), ("completion", "assistant")):
            value = record[field]
            turns = [{"role": role, "content": value}] if isinstance(value, str) else value
            parts += messages_from(turns, field, where)
        return Sample(where, messages=tuple(parts))
    if record.get("text") is not None:
        if not isinstance(record["text"], str) or not record["text"].strip():
            raise invalid(where, "text is not a string with something in it")
        return Sample(where, text=record["text"])
    raise invalid(where, f"has the fields {', '.join(map(str, record)) or '(none)'}")


def messages_from(value: Any, field: str, where: str) -> tuple[Message, ...]:
    """Check a list of messages; keys without a value (parquet fills them in) are left out."""
    if not isinstance(value, list) or not value:
        raise invalid(where, f"{field} is not a list of messages with something in it")
    messages = []
    for index, item in enumerate(value):
        place = f"{field}[{index}]"
        if not isinstance(item, Mapping):
            raise invalid(where, f"{place} is not an object")
        message = {key: part for key, part in item.items() if part is not None}
        if not isinstance(message.get("role"), str) or not message["role"]:
            raise invalid(where, f"{place}.role is not a string")
        if not isinstance(message.get("content"), str | list) and "tool_calls" not in message:
            raise invalid(where, f"{place}.content is not a string")
        messages.append(message)
    return tuple(messages)


def invalid(where: str, problem: str) -> StageError:
    """The error for one bad record."""
    return StageError(Reason.DATASET_INVALID, f"{where}: {problem}; write {FORMS}")
