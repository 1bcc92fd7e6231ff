"""The cells of a table as they are written, before they are read as numbers or levels; and problems of the whole file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.cells.style import OPTIONS, Style, cell_name, style_of
from models.errors import ZooError
from models.inspection.problem import ColumnText, Problem, Remedy, with_remedies
from models.reading.files import (
    head_and_marks,
    is_text,
    names_in,
    no_table,
    oddities_of,
    other_separator,
    reader_input,
    refused_tables,
    require_file,
    unpacked,
)
from models.reading.lines.below import oddity_below
from models.reading.lines.encodings import examples, likely_encoding
from models.reading.readers import Wanted, source_frame

if TYPE_CHECKING:
    import pandas as pd

    from models.reading.lines.oddity import Oddity

STYLE = OPTIONS  # of how cells are written


class Raw(NamedTuple):
    """A table before it is read."""

    frame: pd.DataFrame
    title: str
    options: dict[str, Any]  # of `load_data`, with the proposed encoding and separator
    problems: list[Problem]  # of the whole file
    ready: bool  # whether the file can be read once the options are pasted
    plain: bool  # whether it is a text file


def raw_table(source: Any, options: Mapping[str, Any]) -> Raw:
    """The cells of a file as text, or those of a frame; raises `ZooError` for a source that is not a table."""
    options = {name: value for name, value in options.items() if value is not None}
    style_options: dict[str, Any] = {name: options[name] for name in STYLE if name in options}
    if not isinstance(source, str | Path) or not is_text(Path(source)):
        frame, title, _ = source_frame(source, Wanted(), style_options)
        return Raw(frame.rename(columns=str), title, options, [], True, False)
    path = Path(source)
    require_file(path)
    with refused_tables(path, style_of(style_options, plain=True)):
        problems = [*_encoding(path, options)]
    options = with_remedies(options, problems)
    problems += _first_lines(path, options)
    options = with_remedies(options, problems)
    problems += _separator(path, options)
    options = with_remedies(options, problems)
    problems += _first_lines(path, options)  # where they could not be told apart before
    options = with_remedies(options, problems)
    header = _names(path, options)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        listed = ", ".join(map(repr, twice))
        problems.append(Problem(f"several columns named {listed}", advice="rename them in the file"))
    frame = _as_text(path, options)
    if frame.empty:
        raise ZooError(f"{path} has no rows")
    if doubtful := oddity_below(frame, _style(options)):
        problems.append(_problem_of(doubtful))
        options = with_remedies(options, problems)
        frame = _as_text(path, options)
    return Raw(frame, str(source), options, problems, not twice, True)


def _encoding(path: Path, options: Mapping[str, Any]) -> list[Problem]:
    if "encoding" in options:
        return []
    content = unpacked(path)
    likely = likely_encoding(content)
    if likely is None:
        return []
    if not likely:
        raise ZooError(f"{path} is no text file: it is written neither in utf-8 nor in another encoding that is known")
    some = examples(content, likely)
    advice = f"with it the file has {some}: look at these letters" if some else "look at what it reads"
    advice += "; another encoding may be the right one"
    return [Problem("the file is not written in utf-8", (Remedy("encoding", likely),), advice)]


def _style(options: Mapping[str, Any]) -> Style:
    return style_of({name: options[name] for name in STYLE if name in options}, plain=True)


def _first_lines(path: Path, options: Mapping[str, Any]) -> list[Problem]:
    """Titles above the table, and lines of names that are none, or more than one."""
    with _reading_errors(path):
        return [_problem_of(doubtful) for doubtful in oddities_of(path, _style(options))]


def _problem_of(doubtful: Oddity) -> Problem:
    remedies = tuple(Remedy(option, value) for option, value in doubtful.options.items())
    return Problem(doubtful.what, remedies, f"read it so, or {doubtful.otherwise}")


def _separator(path: Path, options: Mapping[str, Any]) -> list[Problem]:
    """One column with a mark in its name that may stand between columns."""
    if "separator" in options:
        return []
    other = other_separator(_names(path, options))
    return [Problem(f"its columns are separated by a {other}", (Remedy("separator", other),))] if other else []


@contextmanager
def _reading_errors(path: Path) -> Iterator[None]:
    """A context that raises `ZooError` where pandas cannot read the lines of a file."""
    import pandas as pd

    try:
        yield
    except ZooError:
        raise
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise ZooError(no_table(path, error)) from error


def _names(path: Path, options: Mapping[str, Any]) -> list[str]:
    with _reading_errors(path):
        return names_in(path, _style(options))


def _as_text(path: Path, options: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    style = _style(options)
    plain: dict[str, Any] = {"dtype": str, "decimal": ".", "thousands": None}
    with _reading_errors(path), reader_input(path, style) as file:
        return pd.read_csv(file, **(head_and_marks(path, style) | plain))


def written(column: pd.Series[Any], style: Style) -> ColumnText | None:
    """The words of a column of text; None for a column that pandas or Arrow know to be numbers, dates or categories."""
    import pandas as pd

    if not (column.dtype == object or pd.api.types.is_string_dtype(column)) or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return None
    places, distinct = pd.factorize(column.astype(object))
    same, words = pd.factorize(np.array([cell_name(word, style.thousands) for word in distinct], dtype=object))
    places = np.append(same, -1)[places]  # " yes" and "yes " are one word
    counts = np.bincount(places[places >= 0], minlength=len(words)) if len(words) else np.zeros(0, int)
    filled = np.flatnonzero(places >= 0)
    rows = filled[np.unique(places[filled], return_index=True)[1]]
    chosen = ~np.isin(words, ("", *style.words)) if len(words) else np.zeros(0, bool)
    return ColumnText(str(column.name), tuple(words), counts, rows).of(chosen)
