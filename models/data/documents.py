"""Documents as sequences of tokens, splitting texts into tokens, vocabularies, and bags of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from models.data.table import Data, ZooError

WORD = re.compile(r"\w+|[^\w\s]")
SOME = 10  # a vocabulary of more single characters than this was read by character, not by word
UNKNOWN = -1  # the code of a token outside the vocabulary


@dataclass(frozen=True)
class Sequences:
    """N concatenated sequences of codes into a vocabulary: row n is tokens[starts[n] : starts[n + 1]]."""

    tokens: np.ndarray  # (total,)
    starts: np.ndarray  # (N + 1,)

    @property
    def shape(self) -> tuple[int]:
        """(N,)."""
        return (len(self.starts) - 1,)

    @property
    def lengths(self) -> np.ndarray:
        """(N,): number of tokens per row."""
        return np.diff(self.starts)

    def __getitem__(self, rows: Any) -> Sequences:
        """Select rows by index, slice or mask."""
        chosen = np.arange(self.shape[0])[rows]
        return joined([self.tokens[self.starts[n] : self.starts[n + 1]] for n in chosen])


def joined(rows: Sequence[np.ndarray]) -> Sequences:
    """Rows of codes as `Sequences`."""
    tokens = np.concatenate(rows) if rows else np.zeros(0)
    return Sequences(tokens.astype(np.int32), np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64))


def tokenise(text: str, unit: str) -> list[str]:
    """Split a text into characters, kinds of characters, or lower-case words and punctuation marks."""
    if unit not in ("character", "kind", "word"):
        raise ZooError(f"unit={unit!r} is not one of character, kind, word")
    if unit == "kind":
        return [kind_of(character) for character in text]
    return list(text) if unit == "character" else WORD.findall(text.lower())


def kind_of(character: str) -> str:
    """The kind of a character: lower, upper, digit, space, quote, bracket, stop, operator or other."""
    if character.isalpha():
        return "upper" if character.isupper() else "lower"
    if character.isdigit():
        return "digit"
    if character.isspace():
        return "space"
    kinds = {"quote": "\"'`“”‘’", "bracket": "()[]{}", "stop": ".,:;!?", "operator": "+-*/=<>%&|^~@"}
    return next((kind for kind, members in kinds.items() if character in members), "other")


def documents(rows: Iterable[Sequence[Any]], vocabulary: Sequence[str] | None = None, name: str = "documents") -> Data:
    """Convert lists of tokens to `Data`; the default vocabulary are the sorted tokens of all rows.

    Tokens outside a given vocabulary become unknown. Raises `ZooError` if no vocabulary is given and there are no tokens.
    """
    rows = [list(map(str, row)) for row in rows]
    words = tuple(sorted(set(chain.from_iterable(rows)))) if vocabulary is None else tuple(map(str, vocabulary))
    if vocabulary is None:
        require_tokens(name, words)
    codes = {word: code for code, word in enumerate(words)}
    coded = [np.array([codes.get(token, UNKNOWN) for token in row], dtype=np.int32) for row in rows]
    return Data(name, joined(coded), words)


def require_tokens(name: str, words: tuple[str, ...]) -> None:
    """Raise `ZooError` if the vocabulary is empty."""
    if not words:
        raise ZooError(f"{name}: these documents contain no tokens")


def without_absent_tokens(data: Data) -> Data:
    """Reduce the vocabulary to the tokens that occur, for example after a split; tables are returned unchanged."""
    if not isinstance(data.x, Sequences):
        return data
    return with_vocabulary(data, tuple(data.columns[token] for token in np.unique(data.x.tokens[data.x.tokens >= 0])))


def with_vocabulary(data: Data, words: tuple[str, ...]) -> Data:
    """Recode documents with another vocabulary; tokens that it lacks become unknown.

    Raises `ZooError` if one vocabulary consists of characters and the other of words.
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
    """Count the words of documents: sparse (N, V), without unknown words; tables are returned unchanged."""
    if not isinstance(data.x, Sequences):
        return data
    row = np.repeat(np.arange(data.num_rows), data.x.lengths)
    known = data.x.tokens >= 0
    cells = (np.ones(int(known.sum())), (row[known], data.x.tokens[known]))
    return data._replace(x=sparse.csr_array(cells, shape=(data.num_rows, len(data.columns))))
