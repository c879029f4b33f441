"""Let the verifier write the responses that its head learns from.

A head is asked to foresee what *this* verifier writes, so the best data are its own answers. Every finished answer is
appended to a file at once; after a kill the next call asks only for what is missing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mtp_trainer.contract import EngineConfig, SamplingConfig
from mtp_trainer.engine.client import Answer, Completions
from mtp_trainer.engine.server import VLLMServer
from mtp_trainer.storage import storage_errors, write_file

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SAY_SECONDS = 10.0


class RegeneratedResponse(NamedTuple):
    """One answer of the verifier."""

    index: int
    """Of its prompt in the list that was given."""
    prompt_token_ids: list[int]
    response_token_ids: list[int]
    """With the end-of-turn token when the verifier ended its turn: the head must learn to foresee that too."""
    text: str
    finish_reason: str


def regenerate(
    verifier: Path,
    prompts: list[list[dict[str, Any]]],
    out: Path,
    sampling: SamplingConfig,
    engine: EngineConfig,
    seed: int,
    trust_remote_code: bool = False,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
) -> list[RegeneratedResponse]:
    """Answer every prompt, resuming ``out`` if it was written with the same settings.

    Args:
        verifier: checkpoint folder with its tokenizer.
        prompts: chat messages up to where the assistant answers.
        out: jsonl; its first line records the settings.
        sampling: temperature and longest answer.
        engine: the vLLM to start; its log is written beside ``out``.
        seed: of the first request; request i uses seed + i.

    Returns:
        The responses in the order of ``prompts``; a prompt that leaves no room for an answer has none.

    Raises:
        StageError: what the engine or the storage raises; the finished answers stay in ``out``.
    """
    # Here, since it brings torch along, which the rest of this package does without.
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(verifier, local_files_only=True, trust_remote_code=trust_remote_code)
    encoded = [prompt_ids(tokenizer, messages) for messages in prompts]
    header = {
        "verifier": str(verifier),
        "temperature": sampling.temperature,
        "maxTokens": sampling.max_tokens,
        "seed": seed,
        "prompts": len(prompts),
    }
    found = _resume(out, header, encoded)
    missing = [(i, ids) for i, ids in enumerate(encoded) if i not in found]
    if missing:
        if found:
            say(f"{out.name}: {len(found)} responses are there, {len(missing)} to go")
        with (
            VLLMServer(verifier, out.with_name("regenerate-vllm.log"), engine, None, trust_remote_code, say) as server,
            Completions(
                server.url, engine.concurrency, engine.request_timeout_seconds, server.raise_if_crashed
            ) as client,
            storage_errors(out),
            out.open("a", encoding="utf-8") as file,
        ):
            answers = client.complete(missing, sampling.max_tokens, sampling.temperature, seed)
            pace = _Pace(len(missing), say)
            for answer in answers:
                response = _response(answer, encoded[answer.index], tokenizer)
                file.write(json.dumps(response._asdict(), ensure_ascii=False) + "\n")
                # Flushed, it survives this process's death; synced now and then, also the machine's.
                file.flush()
                found[answer.index] = response
                if pace.done():
                    os.fsync(file.fileno())
            os.fsync(file.fileno())
    return [found[i] for i in sorted(found)]


def prompt_ids(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]]) -> list[int]:
    """Token ids of the chat template up to where the assistant begins."""
    encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)
    return [int(i) for i in encoded["input_ids"]]


def _response(answer: Answer, prompt: list[int], tokenizer: PreTrainedTokenizerBase) -> RegeneratedResponse:
    ids = list(answer.token_ids)
    end = tokenizer.eos_token_id
    if answer.finish_reason == "stop" and end is not None and ids[-1] != end:
        ids.append(int(end))
    return RegeneratedResponse(answer.index, prompt, ids, answer.text, answer.finish_reason)


def _resume(out: Path, header: dict[str, Any], prompts: list[list[int]]) -> dict[int, RegeneratedResponse]:
    """Read what an earlier call finished, cutting a half-written last line; start anew if the settings differ."""
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        *whole, cut = out.read_bytes().split(b"\n") if out.is_file() else [b""]
        if not whole or _record(whole[0]) != header:
            write_file(out, json.dumps(header) + "\n")
            return {}
        if cut:
            os.truncate(out, sum(len(line) + 1 for line in whole))
    found: dict[int, RegeneratedResponse] = {}
    for line in whole[1:]:
        try:
            response = RegeneratedResponse(**(_record(line) or {}))
            # A prompt that changed since (another chat template, say) is asked again.
            if prompts[response.index] == response.prompt_token_ids:
                found[response.index] = response
        except (TypeError, IndexError):
            continue  # A line that a crash of the machine left in pieces is asked again, too.
    return found


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


class _Pace:
    """Says now and then how far it is and how long it will take."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total, self._say = total, say
        self._count, self._began = 0, time.monotonic()
        self._said = self._began

    def done(self) -> bool:
        """Count one more; whether it was time to say so."""
        self._count += 1
        now = time.monotonic()
        if now - self._said >= SAY_SECONDS or self._count == self._total:
            left = (now - self._began) / self._count * (self._total - self._count)
            self._say(f"regenerated {self._count} of {self._total} responses, about {left:.0f} s left")
            self._said = now
            return True
        return False
