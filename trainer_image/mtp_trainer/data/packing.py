"""Documents into rows of one length, with little padding.

Best-fit decreasing: each document, longest first, goes into the fullest row that still has room. The result depends on
the documents, not on their order.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import torch

from mtp_trainer.data.documents import Document
from mtp_trainer.data.rows import PackedRows, empty_rows


def pack(documents: list[Document], length: int) -> PackedRows:
    """Put documents of at most ``length`` tokens into rows; none is cut.

    Raises:
        ValueError: a document is longer than a row, or empty.
    """
    ordered = in_order(documents)
    bins = assign([len(document.tokens) for document in ordered], length)
    rows = empty_rows(length)
    if not bins:
        return rows
    shape = (len(bins), length)
    tokens = torch.zeros(shape, dtype=torch.int32)
    mask = torch.zeros(shape, dtype=torch.bool)
    numbers = torch.full(shape, -1, dtype=torch.int32)
    positions = torch.zeros(shape, dtype=torch.int32)
    number = 0
    for row, members in enumerate(bins):
        place = 0
        for member in members:
            document = ordered[member]
            size = len(document.tokens)
            here = slice(place, place + size)
            tokens[row, here] = torch.tensor(document.tokens, dtype=torch.int32)
            mask[row, here] = torch.tensor(document.mask)
            numbers[row, here] = number
            positions[row, here] = torch.arange(size, dtype=torch.int32)
            place += size
            number += 1
    return PackedRows(tokens, mask, numbers, positions)


def in_order(documents: list[Document]) -> list[Document]:
    """Longest first; equal lengths by content, so that the files' order doesn't matter."""
    return sorted(documents, key=lambda document: (-len(document.tokens), document.key, document.tokens))


def assign(lengths: list[int], room: int) -> list[list[int]]:
    """Indices of the documents of each row, for lengths in falling order."""
    bins: list[list[int]] = []
    free: list[tuple[int, int]] = []  # (room left, row), ascending
    for index, length in enumerate(lengths):
        if not 0 < length <= room:
            raise ValueError(f"a document of {length} tokens does not fit a row of {room}")
        at = bisect_left(free, (length, -1))
        if at < len(free):
            left, row = free.pop(at)
        else:
            left, row = room, len(bins)
            bins.append([])
        bins[row].append(index)
        insort(free, (left - length, row))
    return bins
