"""Documents: sequences of tokens of any lengths, what a text becomes, and their bags of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from models.data import Data, ZooError

WORD = re.compile(r"\w+|[^\w\s]")
SOME = 10  # different tokens of one character; so many are hardly words
UNKNOWN = -1  # the code of a token outside the vocabulary


@dataclass(frozen=True)
class Sequences:
    """N sequences one after another: row n is tokens[starts[n] : starts[n + 1]], codes into a vocabulary."""

    tokens: np.ndarray  # (total,)
    starts: np.ndarray  # (N + 1,)

    @property
    def shape(self) -> tuple[int]:
        """(N,)."""
        return (len(self.starts) - 1,)

    @property
    def lengths(self) -> np.ndarray:
        """(N,): tokens a row."""
        return np.diff(self.starts)

    def __getitem__(self, rows: Any) -> Sequences:
        """Some rows, by index, slice or mask."""
        chosen = np.arange(self.shape[0])[rows]
        return joined([self.tokens[self.starts[n] : self.starts[n + 1]] for n in chosen])


def joined(rows: Sequence[np.ndarray]) -> Sequences:
    """Rows of codes as `Sequences`."""
    tokens = np.concatenate(rows) if rows else np.zeros(0)
    return Sequences(tokens.astype(np.int32), np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64))


def tokenise(text: str, unit: str) -> list[str]:
    """The tokens of a text: its characters, their kinds, or its lower-case words and punctuation marks."""
    if unit not in ("character", "kind", "word"):
        raise ZooError(f"unit={unit!r} is not one of character, kind, word")
    if unit == "kind":
        return [kind_of(character) for character in text]
    return list(text) if unit == "character" else WORD.findall(text.lower())


def kind_of(character: str) -> str:
    """What a character is: lower, upper, digit, space, quote, bracket, stop, operator or other."""
    if character.isalpha():
        return "upper" if character.isupper() else "lower"
    if character.isdigit():
        return "digit"
    if character.isspace():
        return "space"
    kinds = {"quote": "\"'`“”‘’", "bracket": "()[]{}", "stop": ".,:;!?", "operator": "+-*/=<>%&|^~@"}
    return next((kind for kind, members in kinds.items() if character in members), "other")


def documents(rows: Iterable[Sequence[Any]], vocabulary: Sequence[str] | None = None, name: str = "documents") -> Data:
    """Sequences of tokens as `Data`; the vocabulary is that of the rows, sorted, unless it is given.

    Raises `ZooError` for a vocabulary of nothing, unless that is given. A token outside a given one is kept as unknown.
    """
    rows = [list(map(str, row)) for row in rows]
    words = tuple(sorted(set(chain.from_iterable(rows)))) if vocabulary is None else tuple(map(str, vocabulary))
    if vocabulary is None:
        require_tokens(name, words)
    codes = {word: code for code, word in enumerate(words)}
    coded = [np.array([codes.get(token, UNKNOWN) for token in row], dtype=np.int32) for row in rows]
    return Data(name, joined(coded), words)


def require_tokens(name: str, words: tuple[str, ...]) -> None:
    """A `ZooError` for documents without a vocabulary: nothing can be learnt from them."""
    if not words:
        raise ZooError(f"{name}: there is not a single token in these documents")


def with_own_vocabulary(data: Data) -> Data:
    """Documents whose vocabulary is that of their own tokens, as of training rows split off a table; a table as it is."""
    if not isinstance(data.x, Sequences):
        return data
    return with_vocabulary(data, tuple(data.columns[token] for token in np.unique(data.x.tokens[data.x.tokens >= 0])))


def with_vocabulary(data: Data, words: tuple[str, ...]) -> Data:
    """The same documents in the codes of another vocabulary; tokens that it lacks become unknown.

    Raises `ZooError` where one vocabulary is of characters and the other of words: nothing would be known.
    """
    if data.columns == words:
        return data
    if _are_characters(words) and not _are_characters(data.columns):
        raise ZooError(f"{data.name} was read as words, but the model's tokens are characters: read it with unit=character")
    if _are_characters(data.columns) and not _are_characters(words) and len(data.columns) > SOME:
        raise ZooError(f"{data.name} was read as characters, but the model's tokens are words: read it with unit=word")
    codes = {word: code for code, word in enumerate(words)}
    table = np.array([codes.get(word, UNKNOWN) for word in data.columns] + [UNKNOWN], dtype=np.int32)  # −1 -> the last
    return data._replace(x=Sequences(table[data.x.tokens], data.x.starts), columns=words)


def _are_characters(words: tuple[str, ...]) -> bool:
    return all(len(word) == 1 for word in words)


def bag_of_words(data: Data) -> Data:
    """Documents as sparse counts of words (N, V), unknown ones left out; a table as it is."""
    if not isinstance(data.x, Sequences):
        return data
    row = np.repeat(np.arange(data.num_rows), data.x.lengths)
    known = data.x.tokens >= 0
    cells = (np.ones(int(known.sum())), (row[known], data.x.tokens[known]))
    return data._replace(x=sparse.csr_array(cells, shape=(data.num_rows, len(data.columns))))
