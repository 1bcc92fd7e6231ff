"""The cells of a table as they are written, before they are read as numbers or levels; and problems of the whole file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.data.missing_spellings import MARKS, Style, cell_name, style_of
from models.errors import ZooError
from models.inspection.problem import Problem, Remedy, Written, with_remedies
from models.reading.files import ARROW, PACKED, PARQUET, TABBED, no_table, other_separator, require_file
from models.reading.readers import Wanted, source_frame

if TYPE_CHECKING:
    import pandas as pd

STYLE = ("missing", "separator", "decimal", "thousands", "encoding")  # options of how cells are written
ENCODINGS = ("utf-8", "cp1252")  # tried in turn; the second reads any Western European text


class Raw(NamedTuple):
    """A table before it is read."""

    frame: pd.DataFrame
    title: str
    options: dict[str, Any]  # of `load_data`, with the proposed encoding and separator
    problems: list[Problem]  # of the whole file
    ready: bool  # whether the file can be read once the options are pasted


def raw_table(source: Any, options: Mapping[str, Any]) -> Raw:
    """The cells of a file as text, or those of a frame; raises `ZooError` for a source that is not a table."""
    options = {name: value for name, value in options.items() if value is not None}
    style_options: dict[str, Any] = {name: options[name] for name in STYLE if name in options}
    if not isinstance(source, str | Path) or Path(source).suffix in (*PARQUET, *ARROW):
        frame, title, _ = source_frame(source, Wanted(), style_options)
        return Raw(frame.rename(columns=str), title, options, [], True)
    path = Path(source)
    require_file(path)
    if path.suffix.lower() in PACKED:
        raise ZooError(f"{path} is packed: unpack it, and inspect the table in it")
    style_of(style_options, plain=True)
    problems = [*_encoding(path, options)]
    options = with_remedies(options, problems)
    problems += _separator(path, options)
    options = with_remedies(options, problems)
    header = _names(path, options)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        listed = ", ".join(map(repr, twice))
        problems.append(Problem(f"several columns are named {listed}", advice="rename them in the file"))
    frame = _as_text(path, options)
    if frame.empty:
        raise ZooError(f"{path} has no rows")
    return Raw(frame, str(source), options, problems, not twice)


def _encoding(path: Path, options: Mapping[str, Any]) -> list[Problem]:
    if "encoding" in options:
        return []
    content = path.read_bytes()
    for encoding in ENCODINGS:
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == ENCODINGS[0]:
            return []
        advice = "look at letters with accents: another encoding may be the right one"
        return [Problem(f"the file is not written in {ENCODINGS[0]}", (Remedy("encoding", encoding),), advice)]
    raise ZooError(f"{path} is no text file: it is written neither in {' nor in '.join(ENCODINGS)}")


def _separator(path: Path, options: Mapping[str, Any]) -> list[Problem]:
    """One column with a mark in its name that may stand between columns."""
    if "separator" in options:
        return []
    other = other_separator(_names(path, options))
    return [Problem(f"its columns are separated by a {other}", (Remedy("separator", other),))] if other else []


def _mark(path: Path, options: Mapping[str, Any]) -> str:
    given = options.get("separator")
    return MARKS.get(given, given) if given is not None else "\t" if path.suffix in TABBED else ","


def _names(path: Path, options: Mapping[str, Any]) -> list[str]:
    import pandas as pd

    try:
        header = pd.read_csv(
            path, sep=_mark(path, options), skipinitialspace=True, header=None, nrows=1, dtype=str, encoding=_spelt(options)
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise ZooError(no_table(path, error)) from error
    return [str(name) for name in header.iloc[0] if not pd.isna(name)]


def _spelt(options: Mapping[str, Any]) -> str:
    return style_of({"encoding": options.get("encoding")}, plain=True).encoding


def _as_text(path: Path, options: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(
            path,
            sep=_mark(path, options),
            skipinitialspace=True,
            keep_default_na=False,
            na_values=[""],
            index_col=False,
            dtype=str,
            encoding=_spelt(options),
        )
    except (pd.errors.ParserError, ValueError) as error:
        raise ZooError(no_table(path, error)) from error


def written(column: pd.Series[Any], style: Style) -> Written | None:
    """The words of a column of text; None for a column that pandas or Arrow know to be numbers, dates or categories."""
    import pandas as pd

    if not (column.dtype == object or pd.api.types.is_string_dtype(column)) or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return None
    places, found = pd.factorize(column.astype(object))
    words = np.array([cell_name(word) for word in found], dtype=object)
    counts = np.bincount(places[places >= 0], minlength=len(words)) if len(words) else np.zeros(0, int)
    filled = np.flatnonzero(places >= 0)
    rows = filled[np.unique(places[filled], return_index=True)[1]]
    chosen = ~np.isin(words, ("", *style.words)) if len(words) else np.zeros(0, bool)
    return Written(str(column.name), tuple(words), counts, rows).of(chosen)
