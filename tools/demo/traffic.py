"""Held-out prompts as clients would send them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp


class BadAnswer(RuntimeError):
    """The served model answered something that is no answer."""


def read_prompts(file: Path, limit: int) -> list[str]:
    """The first question of each conversation of a jsonl file."""
    prompts = []
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            messages = json.loads(line)["messages"]
            prompts.append(next(message["content"] for message in messages if message["role"] == "user"))
            if len(prompts) == limit:
                break
    return prompts


async def send(url: str, model: str, prompts: list[str], max_tokens: int, concurrency: int = 4) -> int:
    """Ask all of them, greedily; the number of tokens that came back.

    Raises:
        BadAnswer: a request failed, or its answer is empty.
    """
    gate = asyncio.Semaphore(concurrency)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:

        async def ask(prompt: str) -> int:
            body = {
                "model": model,
                "messages": [{"role": "user", "content": prompt}],
                "temperature": 0,
                "max_tokens": max_tokens,
            }
            async with gate, session.post(f"{url}/v1/chat/completions", json=body) as response:
                answer = await response.json(content_type=None)
                if response.status != 200 or not answer.get("choices"):
                    raise BadAnswer(f"{url}: HTTP {response.status}: {str(answer)[:300]}")
                return int(answer["usage"]["completion_tokens"])

        return sum(await asyncio.gather(*map(ask, prompts)))
