"""Reading corpora from files: word counts in the formats of Blei's lda-c and the UCI repository, and plain texts.

    lda_c   one line per document: ``N term:count term:count …``, N distinct terms, numbered from 0
    uci     three lines D, W, NNZ, then NNZ lines ``document term count``, both numbered from 1
    texts   a folder with one text file per document, or one file with one document per line

The first two need a vocabulary file with one word per line. Files that end in .gz are decompressed.
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

from models.data.table import Data, ZooError
from models.errors import exists

FILE = "file"  # the column with the names of a folder's files, if it is kept
FORMATS = ("lda_c", "uci", "texts")
OPTIONS = {"lda_c": ("vocabulary",), "uci": ("vocabulary",), "texts": ("min_documents", "stop_words")}
HEADER = ("D, the number of documents", "W, the number of words", "NNZ, the number of lines that follow")
SHOWN = 60  # characters of a line in a message
LDA_C = re.compile(r"\s*[0-9]+(\s+[0-9]+:[0-9]+)*\s*")
MOST_TIMES = 10**8  # largest count of a word in a document: such a text would take a gigabyte
DIGITS = 18  # of numbers that fit into 64 bits
MANY, SPARSE = 10_000_000, 100  # documents, and documents per count: more cannot be meant, as nearly all would be empty


class CorpusCounts(NamedTuple):
    """The non-zero entries of a table of counts, and its size."""

    row: np.ndarray  # document, from 0
    word: np.ndarray  # from 0
    times: np.ndarray  # counts
    line: np.ndarray  # line in the file, from 1
    documents: int  # number of documents
    words: int | None  # number of words, if the file states it


def read_corpus(source: Any, format: str, options: Mapping[str, Any], name: str | None = None) -> Data:
    """Read a file, or a folder of texts, as word counts (M, V); empty documents stay.

    Documents of a folder have the names of their files as a kept column named `FILE`.
    ``options``: for lda_c and uci ``vocabulary``, a file with one word per line (default: a file next to ``source``); for texts
    ``min_documents`` and ``stop_words`` (`models.datasets.corpora.bags_of_texts`). Raises `ZooError` naming file and line.
    """
    if format not in FORMATS:
        raise ZooError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in OPTIONS[format]:
            raise ZooError(f"{key} does not go with format={format}, whose options are {', '.join(OPTIONS[format])}")
    if not (isinstance(source, str | Path) and exists(source)):
        raise ZooError(f"data: there is no file or folder {str(source)!r} to read with format={format}")
    path, title = Path(source), name or str(source)
    if format == "texts":
        from models.datasets.corpora import bags_of_texts

        if not path.is_dir():
            return bags_of_texts([line for line in _lines(path) if line.strip()], title, **given)
        files = _files(path)
        names = np.array([file.relative_to(path).as_posix() for file in files], dtype=str)
        return bags_of_texts(["".join(_lines(file)) for file in files], title, **given)._replace(kept_columns=((FILE, names),))
    if path.is_dir():
        raise ZooError(f"{path} is a folder: format={format} reads one file")
    words = _vocabulary(path, given.get("vocabulary"))
    cells = _lda_c(path) if format == "lda_c" else _uci(path)
    return _counts(path, cells, words, title)


def _counts(path: Path, cells: CorpusCounts, words: tuple[str, ...], title: str) -> Data:
    if cells.words is not None and cells.words != len(words):
        raise ZooError(
            f"{path} has {cells.words} words (its second line), but the vocabulary {len(words)}: name its own with vocabulary="
        )
    many = np.flatnonzero(cells.times > MOST_TIMES)
    if len(many):
        times, line = int(cells.times[many[0]]), int(cells.line[many[0]])
        _raise(path, line, f"a word is counted {times} times in one document; more than {MOST_TIMES} is taken for an error")
    beyond = np.flatnonzero(cells.word >= len(words))
    if len(beyond):
        first = 1 if cells.words is not None else 0
        missing = cells.word[beyond[0]] + first
        _raise(path, int(cells.line[beyond[0]]), f"the vocabulary of {len(words)} words has no word number {missing}")
    both = cells.row * len(words) + cells.word
    order = np.argsort(both, kind="stable")
    twice = np.flatnonzero(np.diff(both[order]) == 0)
    if len(twice):
        place = order[twice + 1].min()
        _raise(path, int(cells.line[place]), f"the word {words[cells.word[place]]!r} is counted twice in one document")
    shape = (cells.documents, len(words))
    x = sparse.csr_array((cells.times.astype(np.float64), (cells.row, cells.word)), shape=shape)
    x.eliminate_zeros()
    return Data(title, x, words)


def _raise(path: Path, line: int, why: str, text: str = "") -> NoReturn:
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


def _lda_c(path: Path) -> CorpusCounts:
    rows, numbers = [], []
    for line, text in enumerate(_lines(path), start=1):
        if not text.strip():
            _raise(path, line, "the line is empty; write 0 for a document without words")
        if LDA_C.fullmatch(text) is None:
            _raise(path, line, "expected N term:count term:count …, whole numbers", text)
        try:
            numbers_in_line = np.array(text.replace(":", " ").split(), dtype=np.int64)
        except (ValueError, OverflowError):
            _raise(path, line, "a number in it is too large", text)
        pairs = numbers_in_line[1:].reshape(-1, 2)
        if numbers_in_line[0] != len(pairs):
            _raise(path, line, f"it announces {numbers_in_line[0]} words, but has {len(pairs)}", text)
        rows.append(len(pairs))
        numbers.append(pairs)
    if not rows:
        raise ZooError(f"{path} is empty")
    cells = np.concatenate(numbers)
    row = np.repeat(np.arange(len(rows)), rows)
    return CorpusCounts(row, cells[:, 0], cells[:, 1], row + 1, len(rows), None)


def _uci(path: Path) -> CorpusCounts:
    header = []
    for line, text in enumerate(_lines(path), start=1):
        if not text.strip().isdecimal() or len(text.strip()) > DIGITS:
            _raise(path, line, f"expected {HEADER[line - 1]}, a whole number of at most {DIGITS} digits", text)
        header.append(int(text))
        if len(header) == 3:
            break
    if len(header) < 3:
        raise ZooError(f"{path} does not begin with the three lines D, W, NNZ of format=uci")
    documents, words, filled = header
    cells = _triples(path)
    for column, name, least, most in ((0, "document", 1, documents), (1, "word", 1, words), (2, "count", 0, None)):
        bad = np.flatnonzero((cells[:, column] < least) | (most is not None and cells[:, column] > most))
        if len(bad):
            upper = f" and at most {most}" if most is not None else ""
            _raise(path, int(bad[0]) + 4, f"the {name} is {cells[bad[0], column]}; it must be at least {least}{upper}")
    if documents > max(MANY, SPARSE * len(cells)):
        _raise(path, 1, f"nearly all of the {documents} documents would be empty, as only {len(cells)} lines of counts follow")
    if len(cells) != filled:
        raise ZooError(f"{path} announces {filled} lines of counts on line 3, but has {len(cells)}: it may be truncated")
    return CorpusCounts(cells[:, 0] - 1, cells[:, 1] - 1, cells[:, 2], np.arange(len(cells)) + 4, documents, words)


def _triples(path: Path) -> np.ndarray:
    """(lines, 3): whole numbers from the fourth line on, read at once; if that fails, line by line to find the error."""
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
            _raise(path, line, "expected document word count, three whole numbers", text)
    raise ZooError(f"{path} cannot be read as lines of document word count")


def _vocabulary(path: Path, given: Any) -> tuple[str, ...]:
    file = Path(given) if given is not None else _vocabulary_file(path)
    if not (exists(file) and file.is_file()):
        raise ZooError(f"vocabulary: there is no file {str(file)!r}")
    words = [line.strip() for line in _lines(file)]
    while words and not words[-1]:
        words.pop()
    seen: dict[str, int] = {}
    for line, word in enumerate(words, start=1):
        if not word:
            _raise(file, line, "the line has no word")
        if word in seen:
            _raise(file, line, f"the word {word!r} is already on line {seen[word]}")
        seen[word] = line
    if not words:
        raise ZooError(f"{file} has no words")
    return tuple(words)


def _vocabulary_file(path: Path) -> Path:
    """Find the vocabulary file: vocab.<name>.txt for docword.<name>.txt, otherwise <name>.vocab or vocab.txt."""
    name = path.name.removesuffix(".gz")
    stem = Path(name).stem
    candidates = [stem.replace("docword", "vocab", 1) + ".txt"] if "docword" in stem else []
    candidates += [f"{stem}.vocab", "vocab.txt", "vocabulary.txt"]
    vocabulary = next((path.with_name(each) for each in candidates if path.with_name(each).is_file()), None)
    if vocabulary is None:
        raise ZooError(f"there is no vocabulary file next to {path} ({', '.join(candidates)}): name it with vocabulary=")
    return vocabulary


# ---------------------------------------------------------------------------------------------------------------------
# Texts


def _files(path: Path) -> list[Path]:
    """The files of a folder and its subfolders, sorted by name."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
    if not files:
        raise ZooError(f"{path} holds no files: format=texts reads a folder of texts, or a file with one text per line")
    return files


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
