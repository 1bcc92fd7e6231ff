"""Padding of documents to a few standard numbers of words, so that blocks of similar documents share a compilation."""

from dataclasses import replace
from typing import Any

import numpy as np

from models.base import on_host
from models.rows.packing import rounded_up
from models.topics.documents import Documents, Words

FEWEST = 8  # cells: the smallest padded length


def padded_documents(rows: Any) -> Any:
    """Pad documents with cells of count 0, to one of four lengths per doubling; other rows are returned unchanged."""
    if not isinstance(rows, Documents):
        return rows
    return rows._replace(words=_longer(rows.words), tokens=_longer(rows.tokens))


def _longer(words: Words) -> Words:
    """The same words in rows of a standard length."""
    length = np.shape(words.word)[1]
    longest = rounded_up(max(length, FEWEST))
    word, times = (on_host(np.pad(np.asarray(leaf), [(0, 0), (0, longest - length)])) for leaf in (words.word, words.times))
    packing = words.packing
    if packing is not None:
        extent = replace(packing.extent, steps=max(longest, rounded_up(packing.extent.steps)), longest=longest)
        packing = packing._replace(extent=extent)
    return Words(word, times, packing)
