"""Take packed rows apart into documents, and group documents of like length for a padded forward pass."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Span(NamedTuple):
    """A document's place: positions ``start`` to ``end`` (exclusive) of ``row``; ``document`` is its number."""

    row: int
    start: int
    end: int
    document: int

    @property
    def length(self) -> int:
        return self.end - self.start


def spans(documents: Tensor) -> list[Span]:
    """The documents of ``documents[R, T]``, padding (-1) left out."""
    found = []
    for row, numbers in enumerate(documents.tolist()):
        start = 0
        for place in range(1, len(numbers) + 1):
            if place == len(numbers) or numbers[place] != numbers[start]:
                if numbers[start] >= 0:
                    found.append(Span(row, start, place, numbers[start]))
                start = place
    return found


def batches(found: list[Span], batch_tokens: int) -> list[list[Span]]:
    """Longest first, in groups of at most ``batch_tokens`` tokens when padded to the group's longest; at least one."""
    groups: list[list[Span]] = []
    for span in sorted(found, key=lambda s: s.length, reverse=True):
        if groups and (len(groups[-1]) + 1) * groups[-1][0].length <= batch_tokens:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups
