"""The data container, and tables read into it: CSV and Parquet files, DataFrames and arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class ZooError(ValueError):
    """Something the user can mend: the message says what is wrong, where, and what to do. The shell exits with 2."""


# What `pandas` reads as a missing cell by default ("", NA, NaN, null, None, …) is missing here too.


class Data(NamedTuple):
    """A table of N rows on the host: real columns, and at most one label column.

    ``x`` is (N, D) float64 with NaN for a missing cell; ``labels`` is (N,) with codes into ``levels``, −1 for a missing
    label or a set of candidates, or None; ``candidates`` is (N, levels), true where a row's label may be that level, or None
    where no row has a set; ``weight`` is (N,), non-negative, or None for one each.
    """

    name: str
    x: np.ndarray
    columns: tuple[str, ...]
    labels: np.ndarray | None = None
    label: str | None = None
    levels: tuple[str, ...] = ()
    weight: np.ndarray | None = None
    candidates: np.ndarray | None = None

    @property
    def num_rows(self) -> int:
        return int(self.x.shape[0])


def load_data(
    source: Any,
    *,
    label: str | None = None,
    columns: list[str] | str | None = None,
    drop_constant: bool = False,
    weight: np.ndarray | None = None,
    name: str | None = None,
    **options: Any,
) -> Data:
    """Read a named data set, a CSV or Parquet file, a DataFrame or an array into `Data`.

    ``label`` names the column that is set aside as the label, ``columns`` the real columns to keep, in order;
    ``drop_constant`` leaves out columns with a single value; ``weight`` is one non-negative number a row. Further
    ``options`` go to the generator of a named data set. Raises `ZooError` naming file, column, row and value.
    """
    from models.datasets import DATASETS

    if isinstance(source, Data):
        data = source
    elif isinstance(source, str) and source in DATASETS:
        known = _known_options(source, DATASETS[source], options)
        try:
            data = DATASETS[source](**known)
        except (TypeError, ValueError) as error:
            given = ", ".join(f"{key}={value}" for key, value in known.items())
            raise ZooError(f"data set {source} cannot be made with {given}: {error}") from error
    else:
        if options:
            raise ZooError(f"unknown data option {sorted(options)[0]!r}: a table takes label, columns and drop_constant")
        data = _table(source, label, columns, name)
        columns = label = None
    data = _select(data, label, columns, drop_constant)
    if data.x.shape[0] == 0:
        raise ZooError(f"{data.name} has no rows")
    if np.isinf(data.x).any():
        row, column = np.argwhere(np.isinf(data.x))[0]
        raise ZooError(
            f"{data.name}: column {data.columns[column]!r}, row {row + 1}: the value is infinite; correct or remove it"
        )
    return data._replace(name=name or data.name, weight=_checked_weight(weight, data))


def take(data: Data, rows: np.ndarray) -> Data:
    """Some rows of a table, by index or by mask."""
    weight, labels, candidates = (
        None if column is None else column[rows] for column in (data.weight, data.labels, data.candidates)
    )
    return data._replace(x=data.x[rows], weight=weight, labels=labels, candidates=candidates)


def split(data: Data, test_fraction: float, seed: int) -> tuple[Data, Data | None]:
    """(training rows, test rows or None where ``test_fraction`` is 0), drawn at random by ``seed``, in the table's order."""
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, int | float) or not 0 <= test_fraction < 1:
        raise ZooError(f"data.test_fraction must be at least 0 and below 1, got {test_fraction!r}")
    size = round(test_fraction * data.num_rows)
    if size == data.num_rows:
        raise ZooError(f"data.test_fraction={test_fraction} leaves no row of {data.name} to fit")
    held_out = np.isin(np.arange(data.num_rows), np.random.default_rng(seed).permutation(data.num_rows)[:size])
    return (take(data, ~held_out), take(data, held_out)) if size else (data, None)


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; no for a text that cannot be a path, such as one that is too long."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def as_data(source: Any) -> Data:
    """`Data` as it is, and whatever else `load_data` reads."""
    return source if isinstance(source, Data) else load_data(source)


def missing_cell(data: Data) -> str | None:
    """Where the first missing cell is, in words, or None."""
    holes = np.argwhere(np.isnan(data.x))
    if not len(holes):
        return None
    row, column = holes[0]
    return f"{data.name}: column {data.columns[column]!r}, row {row + 1}: the cell is missing ({len(holes)} missing in all)"


def _table(source: Any, label: str | None, columns: list[str] | str | None, name: str | None) -> Data:
    import pandas as pd

    if isinstance(source, str | Path):
        frame, title = _read(Path(source)), str(source)
    elif isinstance(source, pd.DataFrame):
        frame, title = source, name or "table"
    else:
        frame, title = _frame_of_array(source), name or "array"
    frame = frame.rename(columns=str)
    twice = [str(c) for c in frame.columns[frame.columns.duplicated()]]
    if twice:
        raise ZooError(f"{title} has several columns named {twice[0]!r}: rename them")
    chosen = [columns] if isinstance(columns, str) else columns
    for wanted in [label, *(chosen or [])]:
        if wanted is not None and wanted not in frame.columns:
            raise ZooError(f"{title} has no column {wanted!r}; its columns are {', '.join(frame.columns)}")
    real = [c for c in frame.columns if c != label] if chosen is None else [c for c in chosen if c != label]
    if not real:
        raise ZooError(f"{title} has no columns to model")
    x = np.column_stack([_numbers(frame[c], title, label) for c in real])
    if label is None:
        return Data(title, x, tuple(real))
    codes, levels, candidates = _codes(frame[label], title)
    return Data(title, x, tuple(real), codes, label, levels, candidates=candidates)


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    from models.datasets import DATASETS

    if not (exists(path) and path.is_file()):
        raise ZooError(f"data: {str(path)!r} is neither a file nor a named data set ({', '.join(DATASETS)})")
    try:
        return pd.read_parquet(path) if path.suffix in {".parquet", ".pq"} else pd.read_csv(path, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError, ImportError, ValueError) as error:
        raise ZooError(f"{path} cannot be read as a table: {str(error).strip()}") from error


def _frame_of_array(source: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        array = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ZooError(
            f"data: expected a named data set, a file, a DataFrame or numbers, not {type(source).__name__}: {error}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ZooError(f"data: an array must have rows and columns, but it has shape {array.shape}")
    return pd.DataFrame(array, columns=[f"x{d}" for d in range(array.shape[1])])


def _numbers(column: pd.Series[Any], title: str, label: str | None) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise ZooError(f"{title}: column {column.name!r} holds dates; turn them into numbers, or leave the column out")
    numbers = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero(numbers.isna() & ~column.isna())
    if len(bad):
        hint = "correct the cell" if len(bad) < len(column) / 2 else "leave the column out with data.columns=[…]"
        if label is None and len(bad) >= len(column) / 2:
            hint += f" or mark it as the label with data.label='{column.name}'"
        raise ZooError(f"{title}: column {column.name!r}, row {bad[0] + 1}: {column.iloc[bad[0]]!r} is not a number; {hint}")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _codes(column: pd.Series[Any], title: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
    """(codes, levels, candidates) of a label column; ``a|b`` in a cell is a set of candidates."""
    import pandas as pd

    sets = {row: cell.split("|") for row, cell in enumerate(column) if isinstance(cell, str) and "|" in cell}
    single = column.copy()
    single.iloc[list(sets)] = None
    codes, found = pd.factorize(single, sort=True)
    levels = tuple(str(level) for level in found)
    if not sets:
        return np.asarray(codes), levels, None
    candidates = np.where(codes[:, None] >= 0, codes[:, None] == np.arange(len(levels)), True)
    for row, names in sets.items():
        known = [name.strip() in levels for name in names]
        if not all(known):
            raise ZooError(
                f"{title}: column {column.name!r}, row {row + 1}: {names[known.index(False)].strip()!r} is a candidate here, "
                f"but no row has it as its label; the labels are {', '.join(levels)}"
            )
        candidates[row] = np.isin(levels, [name.strip() for name in names])
    return np.asarray(codes), levels, candidates


def allowed_labels(data: Data) -> np.ndarray:
    """(N, levels): true where a row's label may be that level; a missing one may be any."""
    if data.candidates is not None:
        return data.candidates
    labels = np.full(data.num_rows, -1) if data.labels is None else data.labels
    return np.where(labels[:, None] >= 0, labels[:, None] == np.arange(len(data.levels)), True)


def _select(data: Data, label: str | None, columns: list[str] | str | None, drop_constant: bool) -> Data:
    """Keep ``columns`` of a data set already read, and its label only under its own name."""
    if label is not None and label != data.label:
        raise ZooError(f"{data.name} has no label {label!r}; its label is {data.label!r}")
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        for wanted in chosen:
            if wanted not in data.columns:
                raise ZooError(f"{data.name} has no column {wanted!r}; its columns are {', '.join(data.columns)}")
        data = data._replace(x=data.x[:, [data.columns.index(c) for c in chosen]], columns=tuple(chosen))
    if drop_constant:
        keep = [d for d in range(data.x.shape[1]) if len(np.unique(data.x[~np.isnan(data.x[:, d]), d])) > 1]
        data = data._replace(x=data.x[:, keep], columns=tuple(data.columns[d] for d in keep))
    if not data.columns:
        raise ZooError(f"{data.name} has no columns to model")
    return data


def _known_options(name: str, loader: Any, options: dict[str, Any]) -> dict[str, Any]:
    import inspect

    known = list(inspect.signature(loader).parameters)
    unknown = sorted(set(options) - set(known))
    if unknown:
        takes = ", ".join(known) if known else "none of its own"
        raise ZooError(f"unknown option {unknown[0]!r} of data set {name}: it takes {takes}")
    return options


def _checked_weight(weight: np.ndarray | None, data: Data) -> np.ndarray | None:
    if weight is None:
        return data.weight
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (data.num_rows,) or not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ZooError(f"weight: expected {data.num_rows} finite, non-negative numbers, not all zero, one a row")
    return weight
