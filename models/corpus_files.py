"""Corpora in files: counts of words as Blei's lda-c and the UCI repository write them, and texts, a file or a line each.

    lda_c   a line a document: ``N term:count term:count …``, N different terms, numbered from 0
    uci     three lines D, W, NNZ, then NNZ lines ``document term count``, both numbered from 1
    texts   a folder of text files, a document each, or one file with a document a line

The first two have a vocabulary beside them, one word a line. Files that end in .gz are unpacked as they are read.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from models.data import Data, ZooError, exists

FORMATS = ("lda_c", "uci", "texts")
OPTIONS = {"lda_c": ("vocabulary",), "uci": ("vocabulary",), "texts": ("min_documents", "stop_words")}
HEADER = ("D, how many documents there are", "W, how many words", "NNZ, how many lines follow")
SHOWN = 60  # characters of a line in a message
LDA_C = re.compile(r"\s*[0-9]+(\s+[0-9]+:[0-9]+)*\s*")
DIGITS = 18  # of a number that fits into 64 bits
MANY, SPARSE = 10_000_000, 100  # documents, and times as many as there are counts: not so many of them are empty


class Cells(NamedTuple):
    """The filled cells of a table of counts, and its size, where that is known."""

    row: np.ndarray
    word: np.ndarray  # from 0
    times: np.ndarray  # how often it stands there
    line: np.ndarray  # of the file, from 1
    documents: int
    words: int | None


def read_corpus(source: Any, format: str, options: Mapping[str, Any], name: str | None = None) -> Data:
    """A file, or a folder of texts, as counts of words (M, V); documents without a word are kept.

    ``options`` are ``vocabulary``, a file with a word a line, where the format has one (by default it is looked for beside the
    file), and for texts ``min_documents`` and ``stop_words`` (`models.corpora.bags_of_texts`). Raises `ZooError` naming file
    and line.
    """
    if format not in FORMATS:
        raise ZooError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in OPTIONS[format]:
            raise ZooError(f"{key} does not go with format={format}, which takes {', '.join(OPTIONS[format])}")
    if not (isinstance(source, str | Path) and exists(source)):
        raise ZooError(f"data: there is no file or folder {str(source)!r}, which format={format} reads")
    path, title = Path(source), name or str(source)
    if format == "texts":
        from models.corpora import bags_of_texts

        return bags_of_texts(list(_texts(path)), title, **given)
    if path.is_dir():
        raise ZooError(f"{path} is a folder: format={format} reads one file")
    words = _vocabulary(path, given.get("vocabulary"))
    cells = _lda_c(path) if format == "lda_c" else _uci(path)
    return _counts(path, cells, words, title)


def _counts(path: Path, cells: Cells, words: tuple[str, ...], title: str) -> Data:
    if cells.words is not None and cells.words != len(words):
        raise ZooError(
            f"{path} has {cells.words} words (its second line), and its vocabulary {len(words)}: name its own with vocabulary="
        )
    beyond = np.flatnonzero(cells.word >= len(words))
    if len(beyond):
        first = 1 if cells.words is not None else 0
        missing = cells.word[beyond[0]] + first
        _refuse(path, int(cells.line[beyond[0]]), f"the vocabulary of {len(words)} words has none of number {missing}")
    both = cells.row * len(words) + cells.word
    order = np.argsort(both, kind="stable")
    twice = np.flatnonzero(np.diff(both[order]) == 0)
    if len(twice):
        place = order[twice + 1].min()
        _refuse(path, int(cells.line[place]), f"the word {words[cells.word[place]]!r} is counted twice in one document")
    shape = (cells.documents, len(words))
    x = sparse.csr_array((cells.times.astype(np.float64), (cells.row, cells.word)), shape=shape)
    x.eliminate_zeros()
    return Data(title, x, words)


def _refuse(path: Path, line: int, why: str, text: str = "") -> NoReturn:
    shown = f" ({text[:SHOWN].strip()!r})" if text else ""
    raise ZooError(f"{path}, line {line}: {why}{shown}; correct the line, or remove it")


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            yield from file
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ZooError(f"{path} cannot be read as text in UTF-8: {error}") from error


# ---------------------------------------------------------------------------------------------------------------------
# Counts


def _lda_c(path: Path) -> Cells:
    rows, numbers = [], []
    for line, text in enumerate(_lines(path), start=1):
        if not text.strip():
            _refuse(path, line, "there is nothing in it; a document without words is 0")
        if LDA_C.fullmatch(text) is None:
            _refuse(path, line, "expected N term:count term:count …, whole numbers from 0 on", text)
        try:
            found = np.array(text.replace(":", " ").split(), dtype=np.int64)
        except (ValueError, OverflowError):
            _refuse(path, line, "a number in it is too large", text)
        own = found[1:].reshape(-1, 2)
        if found[0] != len(own):
            _refuse(path, line, f"it says {found[0]} words and has {len(own)}", text)
        rows.append(len(own))
        numbers.append(own)
    if not rows:
        raise ZooError(f"{path} is empty")
    cells = np.concatenate(numbers)
    row = np.repeat(np.arange(len(rows)), rows)
    return Cells(row, cells[:, 0], cells[:, 1], row + 1, len(rows), None)


def _uci(path: Path) -> Cells:
    header = []
    for line, text in enumerate(_lines(path), start=1):
        if not text.strip().isdecimal() or len(text.strip()) > DIGITS:
            _refuse(path, line, f"expected {HEADER[line - 1]}, a whole number of at most {DIGITS} digits", text)
        header.append(int(text))
        if len(header) == 3:
            break
    if len(header) < 3:
        raise ZooError(f"{path} has no three lines D, W, NNZ, with which format=uci begins")
    documents, words, filled = header
    cells = _triples(path)
    for column, name, least, most in ((0, "document", 1, documents), (1, "word", 1, words), (2, "count", 0, None)):
        bad = np.flatnonzero((cells[:, column] < least) | (most is not None and cells[:, column] > most))
        if len(bad):
            upper = f" to {most}" if most is not None else " on"
            _refuse(path, int(bad[0]) + 4, f"the {name} is {cells[bad[0], column]}; they are from {least}{upper}")
    if documents > max(MANY, SPARSE * len(cells)):
        _refuse(path, 1, f"of {documents} documents nearly all would be empty, as {len(cells)} lines of counts follow")
    if len(cells) != filled:
        raise ZooError(f"{path} says on its third line that {filled} lines follow, and {len(cells)} do: it may be cut short")
    return Cells(cells[:, 0] - 1, cells[:, 1] - 1, cells[:, 2], np.arange(len(cells)) + 4, documents, words)


def _triples(path: Path) -> np.ndarray:
    """(lines, 3) whole numbers from the fourth line on: at once, and only where that fails line by line, to say where."""
    import pandas as pd

    try:
        table = pd.read_csv(path, sep=r"\s+", header=None, skiprows=3, dtype=np.int64, skip_blank_lines=False, index_col=False)
        if table.shape[1] == 3:
            return table.to_numpy()
    except pd.errors.EmptyDataError:
        return np.zeros((0, 3), np.int64)
    except (ValueError, OverflowError, OSError, EOFError, UnicodeDecodeError):
        pass
    for line, text in enumerate(_lines(path), start=1):
        parts = text.split()
        if line > 3 and not (len(parts) == 3 and all(part.isdecimal() for part in parts)):
            _refuse(path, line, "expected document word count, three whole numbers", text)
    raise ZooError(f"{path} cannot be read as lines of document word count")


def _vocabulary(path: Path, given: Any) -> tuple[str, ...]:
    file = Path(given) if given is not None else _beside(path)
    if not (exists(file) and file.is_file()):
        raise ZooError(f"vocabulary: there is no file {str(file)!r}")
    words = [line.strip() for line in _lines(file)]
    while words and not words[-1]:
        words.pop()
    seen: dict[str, int] = {}
    for line, word in enumerate(words, start=1):
        if not word:
            _refuse(file, line, "there is no word in it")
        if word in seen:
            _refuse(file, line, f"the word {word!r} stands on line {seen[word]} already")
        seen[word] = line
    if not words:
        raise ZooError(f"{file} has no words")
    return tuple(words)


def _beside(path: Path) -> Path:
    """The vocabulary of a file of counts: vocab.<name>.txt of docword.<name>.txt, <name>.vocab, or vocab.txt."""
    name = path.name.removesuffix(".gz")
    stem = Path(name).stem
    candidates = [stem.replace("docword", "vocab", 1) + ".txt"] if "docword" in stem else []
    candidates += [f"{stem}.vocab", "vocab.txt", "vocabulary.txt"]
    found = next((path.with_name(each) for each in candidates if path.with_name(each).is_file()), None)
    if found is None:
        raise ZooError(f"{path} has no vocabulary beside it ({', '.join(candidates)}): name the file of words with vocabulary=")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Texts


def _texts(path: Path) -> Iterator[str]:
    """The texts of a folder, its subfolders too, by the names of their files; or the lines of a file that are not empty."""
    if not path.is_dir():
        yield from (line for line in _lines(path) if line.strip())
        return
    files = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
    if not files:
        raise ZooError(f"{path} holds no files: format=texts reads a folder of texts, or a file with a text a line")
    yield from ("".join(_lines(file)) for file in files)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
