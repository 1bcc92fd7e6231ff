"""The scan of rows in files: their number, and a sample of them, for building a model and for starts.

Every row, or sequence, gets a random number, and those with the smallest make the sample: a reservoir, without replacement. The
first row with a word that no row of the sample has is added, so that a model built on the sample knows all levels.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inference.runtime.files import read, write
from inference.streaming.source.files import Known, Weighing, cut, files_of, style_at, table_of, wanted_columns
from inference.streaming.source.names import SAMPLE, SCAN
from models.base import Data, ZooError
from models.cells.style import Style, cell_name
from models.data.missing_spellings import number_of
from models.reading.files import is_text
from models.reading.repairs import is_missing

if TYPE_CHECKING:
    import pandas as pd

SAMPLE_ROWS = 100_000  # of a sample by default
MOST_LEVELS = 10_000  # distinct words of a column; more are no categories
REMEDY = "remove it, and the files are scanned again"


class Scan(NamedTuple):
    """The result of reading all rows once."""

    rows: dict[str, tuple[int, ...]]  # file -> rows of its blocks
    sample: "pd.DataFrame"  # in the order of the rows
    numbers: np.ndarray  # the numbers of its rows among all
    digest: str  # of all cells
    weighing: Weighing | None = None  # the meaning of the weights of all rows; None: they have none
    words: tuple[str, ...] = ()  # columns with numbers in some blocks of text, and words in others

    def data(self, path: str | Path, options: Mapping[str, Any]) -> Data:
        """The sample as a table."""
        return table_of(self.sample, str(path), options, style_at(path, options), Known(weighing=self.weighing))


def scanned(path: str | Path, options: Mapping[str, Any], block_rows: int, sample_rows: int, seed: int) -> Scan:
    """Read all rows once, or twice where columns of text have numbers in some blocks and words in others.

    Such a column is text in all blocks, as in a table that is read at once. Raises `ZooError` for files that cannot be read.
    """
    scan = _one_scan(path, options, block_rows, sample_rows, seed, ())
    return _one_scan(path, options, block_rows, sample_rows, seed, scan.words) if scan.words else scan


def _one_scan(
    path: str | Path, options: Mapping[str, Any], block_rows: int, sample_rows: int, seed: int, words: tuple[str, ...]
) -> Scan:
    """One pass over all rows, with the columns of ``words`` as text."""
    sequence, several = options.get("sequence"), len(files_of(path)) > 1
    reservoir, levels = _Reservoir(sample_rows, sequence), _Levels(_categories(options), sequence, _without_levels(options))
    weights = _Weights()
    rows: dict[str, list[int]] = {}
    digest, first = hashlib.sha256(), None
    for number, (name, frame) in enumerate(_numbered(path, options, block_rows, words)):
        columns = _columns_of(frame, f"{Path(path) / name}", options)
        first = first or columns
        _require_same(first, columns)
        digest.update(_hashes(frame).tobytes())
        if sequence is not None and several:  # each file may number its sequences from 1
            frame = frame.assign(**{sequence: f"{name}: " + frame[sequence].astype(str)})
        reservoir.add(frame, np.random.default_rng([seed, number]))
        levels.add(frame)
        weights.add(frame, options.get("weight"))
        rows.setdefault(name, []).append(len(frame))
    if not rows:
        raise ZooError(f"{path} has no rows")
    sample = _of_one_type(levels.completed(reservoir.rows()))
    sizes = {name: tuple(blocks) for name, blocks in rows.items()}
    weighing = weights.weighing(options.get("weights"))
    if is_text(files_of(path)[0]):
        words = (*words, *levels.mixed(style_at(path, options)))
    return Scan(sizes, sample.reset_index(drop=True), sample.index.to_numpy(), digest.hexdigest()[:16], weighing, words)


def _categories(options: Mapping[str, Any]) -> frozenset[str]:
    """The columns whose numbers are levels: the label, and those that are declared to be categories."""
    kinds = options.get("types") or {}
    declared = {name for name, kind in kinds.items() if kind in ("category", "label")}
    label = options.get("label")
    return frozenset(declared | ({label} if isinstance(label, str) else set()))


def _without_levels(options: Mapping[str, Any]) -> frozenset[str]:
    """The columns whose words are no levels: they are read as numbers, or left out."""
    out = {name for name, kind in (options.get("types") or {}).items() if kind in ("identifier", "ignore")}
    return frozenset(out | {*(options.get("units") or {}), *(options.get("dates") or {}), *(options.get("keep") or ())})


def _hashes(frame: "pd.DataFrame") -> np.ndarray:
    """(rows,): a number for the cells of each row."""
    import pandas as pd

    return pd.util.hash_pandas_object(frame, index=False).to_numpy()


def _numbered(
    path: str | Path, options: Mapping[str, Any], block_rows: int, words: tuple[str, ...]
) -> Iterator[tuple[str, "pd.DataFrame"]]:
    """(file, block) of all blocks; the index of a frame is the number of the row among all."""
    begin = 0
    for file in files_of(path):
        for frame in cut(file, options, block_rows, words=words):
            frame.index = np.arange(begin, begin + len(frame))
            begin += len(frame)
            yield file.name, frame


class _Columns(NamedTuple):
    """The columns of a file that are read."""

    file: str
    names: frozenset[str]


def _columns_of(frame: "pd.DataFrame", file: str, options: Mapping[str, Any]) -> _Columns:
    wanted, kinds = wanted_columns(options) or frame.columns, options.get("types") or {}
    return _Columns(file, frozenset(name for name in frame.columns if name in wanted and kinds.get(name) != "ignore"))


def _require_same(one: _Columns, other: _Columns) -> None:
    """Raise `ZooError` where two files have not the same columns."""
    for there, lacking in ((one, other), (other, one)):
        if absent := there.names - lacking.names:
            raise ZooError(
                f"{lacking.file} has no column {min(absent)!r}, which {there.file} has: the tables of a folder must have the "
                "same columns; rename it, or name the columns to read by data.columns=[…]"
            )


def _of_one_type(sample: "pd.DataFrame") -> "pd.DataFrame":
    """The sample, with texts where some blocks have numbers and others words, such as a spelling of a missing cell."""
    from pandas.api.types import infer_dtype

    mixed = [name for name in sample if infer_dtype(sample[name], skipna=True).startswith("mixed")]
    return sample.assign(**{str(name): sample[name].map(str, na_action="ignore") for name in mixed})


class _Weights:
    """The sum of the weights of all rows, and whether they are whole: only all blocks have these."""

    def __init__(self) -> None:
        self._total, self._above, self._whole = 0.0, 0, True

    def add(self, frame: "pd.DataFrame", column: str | None) -> None:
        """Some more rows. A cell that is no weight is refused where its block is read."""
        import pandas as pd

        if column is not None and column in frame:
            weights = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
            above = weights[np.isfinite(weights) & (weights > 0)]
            self._total, self._above = self._total + float(above.sum()), self._above + len(above)
            self._whole &= bool((above == np.floor(above)).all())

    def weighing(self, meaning: str | None) -> Weighing | None:
        """As `models.data.beside.weighed` decides it for a table in memory."""
        if not self._above:
            return None
        kind = meaning or ("counts" if self._whole else "relative")
        return Weighing(kind, self._above / self._total if kind == "relative" else 1.0)


class _Reservoir:
    """The rows, or sequences, with the smallest random numbers."""

    def __init__(self, size: int, sequence: str | None) -> None:
        self._size, self._sequence, self._limit = size, sequence, np.inf
        self._frames: list[pd.DataFrame] = []
        self._numbers: list[np.ndarray] = []

    def add(self, frame: "pd.DataFrame", random: np.random.Generator) -> None:
        """Some more rows."""
        if self._sequence is None:
            number = random.random(len(frame))
        else:
            names = frame[self._sequence].astype(str).to_numpy()
            place = np.cumsum(np.append(False, names[1:] != names[:-1]))
            number = random.random(int(place[-1]) + 1)[place]
        small = number <= self._limit
        self._frames.append(frame[small])
        self._numbers.append(number[small])
        if sum(map(len, self._numbers)) > 2 * self._size:
            self._shrink()

    def _shrink(self) -> None:
        """Keep the smallest; of sequences, whole ones with so many steps or somewhat more."""
        import pandas as pd

        frame, number = pd.concat(self._frames), np.concatenate(self._numbers)
        if len(number) > self._size:
            self._limit = np.partition(number, self._size - 1)[self._size - 1]
            frame, number = frame[number <= self._limit], number[number <= self._limit]
        self._frames, self._numbers = [frame], [number]

    def rows(self) -> "pd.DataFrame":
        """The sample, in the order of the rows."""
        self._shrink()
        return self._frames[0].sort_index()


class _Levels:
    """The first row, or the first sequence, with every word of the columns of words, and every level of ``categories``.

    A column may have numbers in one block, and texts in another, because one of its cells is no number. Numbers in these texts
    are no levels.
    """

    def __init__(self, categories: frozenset[str], sequence: str | None, without: frozenset[str]) -> None:
        self._categories, self._sequence, self._without = categories, sequence, without
        self._words: dict[str, dict[Any, pd.DataFrame]] = {}
        self._spelt_numbers: dict[str, dict[Any, pd.DataFrame]] = {}
        self._numeric: set[str] = set()  # columns that have numbers in some block

    def add(self, frame: "pd.DataFrame") -> None:
        """Some more rows."""
        for name in frame.columns:
            if name == self._sequence or name in self._without:
                continue
            if frame[name].dtype.kind in "biufM":
                if frame[name].notna().any():
                    self._numeric.add(name)
                if name not in self._categories:
                    continue
            words, numbers = self._words.setdefault(name, {}), self._spelt_numbers.setdefault(name, {})
            new = frame[~frame[name].duplicated() & ~frame[name].isin([*words, *numbers]) & frame[name].notna()]
            for index, word in zip(new.index, new[name], strict=True):
                known = words if np.isnan(number_of(str(word))) else numbers
                if len(known) < MOST_LEVELS:
                    known[word] = self._whole(frame, index)

    def _whole(self, frame: "pd.DataFrame", index: int) -> "pd.DataFrame":
        return frame.loc[[index]] if self._sequence is None else frame[frame[self._sequence] == frame[self._sequence][index]]

    def mixed(self, style: Style) -> list[str]:
        """The columns with numbers in some blocks, and in others words that are no missing cells."""
        return [name for name in sorted(self._numeric & set(self._words)) if self._has_words(name, style)]

    def _has_words(self, name: str, style: Style) -> bool:
        """Whether some word is no missing cell: of a label, no missing cell everywhere."""
        names = [cell_name(word, style.thousands) for word in self._words[name] if isinstance(word, str)]
        if name in self._categories:
            return not {"", *style.words}.issuperset(names)
        return not all(is_missing(word, style) for word in names)

    def completed(self, sample: "pd.DataFrame") -> "pd.DataFrame":
        """The sample, and rows that bring a word which it lacks."""
        import pandas as pd

        added = [row for name in self._words for row in self._lacking(name, sample[name])]
        whole = pd.concat([sample, *added]) if added else sample
        return whole[~whole.index.duplicated()].sort_index()

    def _lacking(self, name: str, cells: "pd.Series[Any]") -> list["pd.DataFrame"]:
        """Rows with the levels of a column that ``cells`` lack; none where there are too many words to be levels."""
        words, there = self._words[name], set(cells.dropna())
        levels = words | ({} if name in self._numeric - self._categories else self._spelt_numbers[name])
        levels = levels if len(levels) < MOST_LEVELS else words if len(words) < MOST_LEVELS else {}
        return [row for word, row in levels.items() if word not in there]


def stored_scan(folder: Path, path: str | Path, requested: Mapping[str, Any], same_host: bool = True) -> Scan | None:
    """The scan that a run stored in its folder; None where there is none. Raises `ZooError` where it is of other files.

    Unless it is of the ``same_host``, the times of files do not count: a copy of the files has other times.
    """
    import pandas as pd

    if not (folder / SCAN).is_file():
        return None
    stored = _stored(folder / SCAN)
    wanted = _inputs(path, requested)
    if not same_host:
        for inputs in (stored["asked"], wanted):
            inputs["files"] = [[name, size] for name, size, _ in inputs["files"]]
    if stored["asked"] != wanted:
        raise ZooError(f"{folder / SCAN} is of other files, or these have changed since; {REMEDY}, or use another folder")
    rows = {name: tuple(sizes) for name, sizes in stored["rows"].items()}
    content = read(folder / SAMPLE, remedy=f"remove {SCAN}, and the files are scanned again")
    if hashlib.sha256(content).hexdigest() != stored["sample"]:
        raise ZooError(
            f"{folder / SAMPLE} is damaged: {SCAN} has another checksum; remove both, and the files are scanned again"
        )
    sample = pd.read_parquet(io.BytesIO(content))
    weighing = None if stored["weighing"] is None else Weighing(*stored["weighing"])
    return Scan(rows, sample, np.array(stored["numbers"]), stored["digest"], weighing, tuple(stored["words"]))


def _stored(path: Path) -> dict[str, Any]:
    """The file of `store_scan`. Raises `ZooError` for any other."""
    content = read(path, require_seal=True, remedy=REMEDY)
    try:
        stored = dict(json.loads(content))
        if {"asked", "rows", "numbers", "digest", "sample", "weighing", "words"} <= stored.keys():
            return stored
    except (ValueError, TypeError, RecursionError):
        pass
    raise ZooError(f"{path} is of another version of the zoo, or none of its files; {REMEDY}")


def store_scan(folder: Path, path: str | Path, requested: Mapping[str, Any], scan: Scan) -> None:
    """Store a scan in the folder of a run, so that a resumed run does not read all files again.

    The checksum of the sample is in the scan: a seal at the end of a Parquet file would hide its footer from other readers.
    """
    buffer = io.BytesIO()
    scan.sample.to_parquet(buffer)
    write(folder / SAMPLE, buffer.getvalue())
    stored = {"asked": _inputs(path, requested), "rows": scan.rows, "numbers": scan.numbers.tolist(), "digest": scan.digest}
    stored |= {"weighing": scan.weighing, "words": scan.words}
    stored["sample"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    write(folder / SCAN, json.dumps(stored).encode(), seal=True)


def _inputs(path: str | Path, requested: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a scan as JSON: the files with sizes and times, and the options."""
    files = [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files_of(path)]
    return dict(json.loads(json.dumps({"files": files} | dict(requested), default=str)))
