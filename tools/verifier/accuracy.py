"""Greedy answers of the trained verifier, and how many end in the right line."""

from __future__ import annotations

from collections import defaultdict

import torch
from tokenizers import Tokenizer

from verifier.corpus import END, PAD, Split, prompt_text
from verifier.layers import packing
from verifier.model import Verifier
from verifier.precision import autocast
from verifier.tasks import Task, final_answer


@torch.no_grad()
def greedy(verifier: Verifier, tokenizer: Tokenizer, tasks: list[Task], limit: int) -> list[str]:
    """At most ``limit`` tokens of answer for each task. It runs the whole row for each token, which is quick enough."""
    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    prompts = [tokenizer.encode(prompt_text(task)).ids for task in tasks]
    width = -(-(max(map(len, prompts)) + limit) // 64) * 64
    tokens = torch.full((len(tasks), width), pad)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt)
    rows, done = torch.arange(len(tasks)), torch.zeros(len(tasks), dtype=torch.bool)
    for _ in range(limit):
        used = -(-int(lengths.max() + 1) // 64) * 64
        view = tokens[:, :used]
        packed = packing(torch.zeros_like(view), torch.arange(used).expand_as(view), verifier.shape)
        with autocast():
            states = verifier.model(view, packed)[rows, lengths - 1]
            chosen = verifier.logits(states).argmax(-1)
        done |= chosen == end
        if done.all():
            break
        tokens[rows[~done], lengths[~done]] = chosen[~done]
        lengths += (~done).long()
    return [
        tokenizer.decode(tokens[row, len(prompt) : int(lengths[row])].tolist(), skip_special_tokens=False)
        for row, prompt in enumerate(prompts)
    ]


def measure(verifier: Verifier, tokenizer: Tokenizer, parts: Split, limit: int = 112) -> dict[str, float]:
    """Share of held-out questions whose answer's last line is right, per family (the domain's too)."""
    groups: dict[str, list[Task]] = defaultdict(list)
    for task in [*parts.general, *parts.heldout[:30]]:
        groups[task.family].append(task)
    result = {}
    for family, tasks in sorted(groups.items()):
        answers = greedy(verifier, tokenizer, tasks, limit)
        pairs = zip(answers, tasks, strict=True)
        right = sum(final_answer(answer) == final_answer(task.answer) for answer, task in pairs)
        result[family] = round(right / len(tasks), 3)
        print(f"{family}: {right} of {len(tasks)}; {tasks[0].question!r} -> {answers[0]!r}", flush=True)
    return result
