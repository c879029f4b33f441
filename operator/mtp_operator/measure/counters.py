"""vLLM's speculative decoding counters, read from the text of ``/metrics``.

Only the four families that acceptance needs are read, by a parser of our own: an engine that writes one odd line among
its hundreds of others must not stop the measurement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_PREFIX = "vllm:spec_decode_num_"
_DRAFTS = _PREFIX + "drafts_total"
_DRAFT_TOKENS = _PREFIX + "draft_tokens_total"
_ACCEPTED_TOKENS = _PREFIX + "accepted_tokens_total"
_ACCEPTED_PER_POSITION = _PREFIX + "accepted_tokens_per_pos_total"
_FAMILIES = frozenset({_DRAFTS, _DRAFT_TOKENS, _ACCEPTED_TOKENS, _ACCEPTED_PER_POSITION})

_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\S+)?\s*$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Counters:
    """Counts since the engine started.

    ``accepted[i]``: drafts of which at least i+1 tokens were accepted.
    """

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted: tuple[int, ...]


def parse_counters(text: str) -> dict[str, Counters]:
    """Counters per engine (label ``engine``).

    An engine appears once it has a series of drafts; positions after a gap are left out. Lines that aren't samples are
    passed over, so text that isn't Prometheus' gives an empty dictionary.
    """
    totals: dict[tuple[str, str], int] = {}
    positions: dict[str, dict[int, int]] = {}
    for name, labels, value in _samples(text):
        engine = labels.get("engine", "0")
        if name == _ACCEPTED_PER_POSITION:
            position = labels.get("position", "")
            if position.isascii() and position.isdigit():
                counts = positions.setdefault(engine, {})
                counts[int(position)] = counts.get(int(position), 0) + value
        else:
            # One process can serve several model names; the engine's work is their sum.
            totals[engine, name] = totals.get((engine, name), 0) + value
    return {
        engine: Counters(
            drafts=drafts,
            draft_tokens=totals.get((engine, _DRAFT_TOKENS), 0),
            accepted_tokens=totals.get((engine, _ACCEPTED_TOKENS), 0),
            accepted=_without_gap(positions.get(engine, {})),
        )
        for (engine, name), drafts in totals.items()
        if name == _DRAFTS
    }


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], int]]:
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        match = _LINE.match(line)
        if match is None or match["name"] not in _FAMILIES:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:
            yield match["name"], dict(_LABEL.findall(match["labels"] or "")), int(value)


def _without_gap(counts: dict[int, int]) -> tuple[int, ...]:
    accepted: list[int] = []
    while len(accepted) in counts:
        accepted.append(counts[len(accepted)])
    return tuple(accepted)
