"""From tasks to token rows: the data sets' split, the tokenizer and the packing."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from verifier.tasks import DOMAIN, FAMILIES, Task, generate

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
PROMPT_WEIGHT = 0.2
"""Loss weight of a prompt's tokens; an answer's tokens have weight 1."""

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' %}"
    "{%- generation %}{{- message.content + '<|im_end|>' }}{%- endgeneration %}"
    "{%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}"
    "{{- '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""ChatML. What stands between the generation marks is what the verifier writes, its end mark included."""


@dataclass(frozen=True)
class Split:
    """Tasks with no question in common: for general training, and for the three data sets handed out."""

    training: list[Task]
    train: list[Task]
    heldout: list[Task]
    general: list[Task]


def unique(tasks: list[Task], seen: set[str], limit: int) -> list[Task]:
    """The first ``limit`` tasks whose question isn't in ``seen``, which then holds them too."""
    kept = []
    for task in tasks:
        if len(kept) == limit:
            break
        if task.question not in seen:
            seen.add(task.question)
            kept.append(task)
    return kept


def split(conversations: int, seed: int, train: int = 1800, heldout: int = 200, general: int = 150) -> Split:
    """Draw all tasks from one seed. Small families repeat questions within general training, never across the parts."""
    base = seed * 100_000_000
    reserved: set[str] = set()
    held = unique(list(generate(DOMAIN, 3 * heldout, base)), reserved, heldout)
    domain_train = unique(list(generate(DOMAIN, 2 * train, base + 10_000_000)), reserved, train)
    others = [family for family in FAMILIES if family != DOMAIN]
    mixed: list[Task] = []
    for family in others:
        mixed += unique(list(generate(family, 200, base + 20_000_000)), reserved, general // len(others))
    training: list[Task] = []
    for family, recipe in FAMILIES.items():
        wanted = int(recipe.share * conversations)
        drawn = (task for task in generate(family, 3 * wanted, base + 30_000_000) if task.question not in reserved)
        training += [task for task, _ in zip(drawn, range(wanted), strict=False)]
    shuffler = random.Random(seed)
    shuffler.shuffle(training)
    shuffler.shuffle(mixed)
    return Split(training, domain_train, held, mixed)


def write_jsonl(path: Path, tasks: list[Task]) -> None:
    """One conversation a line, as ``{"messages": [...]}``."""
    lines = (json.dumps({"messages": task.messages()}, ensure_ascii=False) for task in tasks)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def train_tokenizer(tasks: list[Task], vocabulary: int) -> Tokenizer:
    """Byte-level BPE in which every digit is a token of its own, as arithmetic needs."""
    tokenizer = Tokenizer(models.BPE())
    pattern = Regex(r"\d|[^\r\n\p{L}\d]?\p{L}+| ?[^\s\p{L}\d]+[\r\n]*|\s*[\r\n]+|\s+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((f"{task.question}\n{task.answer}" for task in tasks), trainer)
    return tokenizer


def prompt_text(task: Task) -> str:
    """The prompt as the chat template renders it, ready for the answer."""
    return f"{START}user\n{task.question}{END}\n{START}assistant\n"


@dataclass(frozen=True)
class Rows:
    """Packed documents: ``tokens, documents, positions [R, T]`` (int64), loss ``weights [R, T]`` of targets.

    Padding is a document of its own with weight 0.
    """

    tokens: Tensor
    documents: Tensor
    positions: Tensor
    weights: Tensor


def pack(tasks: list[Task], tokenizer: Tokenizer, length: int, open_rows: int = 32) -> Rows:
    """Lay whole conversations into rows of ``length`` tokens, first fit; longer conversations are left out."""
    prompts = tokenizer.encode_batch([prompt_text(task) for task in tasks])
    answers = tokenizer.encode_batch([f"{task.answer}{END}\n" for task in tasks])
    rows: list[list[tuple[list[int], int]]] = []
    pending: list[tuple[int, list[tuple[list[int], int]]]] = []
    for prompt, answer in zip(prompts, answers, strict=True):
        document = (prompt.ids + answer.ids, len(prompt.ids))
        size = len(document[0])
        if size > length:
            continue
        for index, (room, row) in enumerate(pending):
            if room >= size:
                row.append(document)
                pending[index] = (room - size, row)
                break
        else:
            if len(pending) == open_rows:
                fullest = min(range(open_rows), key=lambda i: pending[i][0])
                rows.append(pending.pop(fullest)[1])
            pending.append((length - size, [document]))
    rows += [row for _, row in pending]
    shape = (len(rows), length)
    tokens = torch.full(shape, tokenizer.token_to_id(PAD), dtype=torch.int64)
    documents, positions = torch.full(shape, -2, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    weights = torch.zeros(shape)
    for number, row in enumerate(rows):
        at = 0
        for index, (ids, prompt_size) in enumerate(row):
            end = at + len(ids)
            tokens[number, at:end] = torch.tensor(ids)
            documents[number, at:end] = index
            positions[number, at:end] = torch.arange(len(ids))
            weights[number, at : at + prompt_size] = PROMPT_WEIGHT
            weights[number, at + prompt_size : end] = 1.0
            at = end
    return Rows(tokens, documents, positions, weights)
