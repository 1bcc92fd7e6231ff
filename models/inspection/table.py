"""`inspect_table`: every problem of a table, and the options of `models.load_data` that read it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.cells.overrides import proposed
from models.cells.style import Style, style_of
from models.data.arguments import column_names
from models.data.column_kinds import CAMEL, LEFT_OUT, TELLING, kind_of
from models.data.columns import EXACT, LOST, MOMENTS, checked_types, typed
from models.data.missing_spellings import ParsedColumn, read_cells
from models.data.table import BOOLEAN, Data, ZooError
from models.errors import did_you_mean, some_of
from models.inspection.codes import code_problems
from models.inspection.levels import level_problems
from models.inspection.marks import mark_problems
from models.inspection.numbers import number_problems
from models.inspection.problem import ColumnText, Problem, Remedy, in_words, with_remedies
from models.inspection.source import STYLE, Raw, raw_table, written
from models.inspection.spellings import shared_spellings
from models.inspection.ticks import tick_problems
from models.reading.load import load_data
from models.reading.long_format import COUNTS, blocks_in, step_counters, uneven_times
from models.reading.repairs import Repairs, checked_repairs, repaired

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 80  # columns of the display
SEVERAL, FEW_EACH = 3, 5  # names of groups of rows, and rows in each
LONG = 5  # words in a cell, on average, from which a column may hold texts
WHY = {
    "identifier": "it may name the rows",
    "constant": "it has the same value in every row",
    "empty": "it has no value",
}


class Inspection(NamedTuple):
    """An inspected table; made by `inspect_table`."""

    title: str
    problems: tuple[Problem, ...]
    options: dict[str, Any]  # of `load_data`: those that were given, and the proposed ones
    data: Data | None  # the table as these options read it, with kinds by the rules; None if it cannot be read

    @property
    def is_readable(self) -> bool:
        """Whether the proposed options read the table."""
        return self.data is not None

    def __repr__(self) -> str:
        """All problems with their remedies, and the options, in lines of 80 columns."""
        number = in_words(len(self.problems), "problem") if self.problems else "no problem"
        reads = "" if self.is_readable else "; the table must be corrected before it can be read"
        lines = [f"{self.title}: {number}{reads}"]
        for problem in self.problems:
            lines.append(_folded(f"{problem.column}: {problem.what}" if problem.column else problem.what, "- ", "  "))
            lines.append(_folded(problem.advice or "read it so", "  → ", "    "))
        return "\n".join([*lines, _folded(f"options: {self.options}", "", "  ")])


def _folded(text: str, start: str, indent: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)


def inspect_table(source: Any, **options: Any) -> Inspection:
    """Find all problems of a table, and propose options of `load_data` as remedies. The source stays as it is.

    Args:
        source: Path of a CSV, Parquet or Arrow file, a DataFrame, or any other table that `load_data` reads.
        **options: Options of `load_data` that are already known; the problems that they solve are left out.

    Raises:
        ZooError: The source is no table, or an option is wrong.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"weight": ["59.4 kg", "140 lb", "71 kg"], "height": [1.6, 1.7, 1.8]})
    >>> inspection = inspect_table(frame)
    >>> inspection.options, inspection.data.x[:, 0].round(1)
    ({'units': {'weight': 'kg'}}, array([59.4, 63.5, 71. ]))
    """
    raw = raw_table(source, options)
    _require_named_columns(raw)
    problems = [*raw.problems, *_blank_texts(raw)]
    columns, failed = _columns(raw)
    problems += [problem for problem in failed if problem.column not in _skipped(raw.options)]
    texts = [text for text in columns.values() if text is not None]
    problems += mark_problems(texts, raw.options)
    style = _style(with_remedies(raw.options, problems), raw)
    problems += shared_spellings(texts, style)
    style = _style(with_remedies(raw.options, problems), raw)
    columns = {name: None if text is None else text.without(style.words) for name, text in columns.items()}
    texts = [text for text in columns.values() if text is not None]
    for name, text in columns.items():
        problems += [] if text is None else _of_words(text, style, name, raw.options)
    problems = [_without_values(problem, problems, texts) for problem in problems]
    proposal = with_remedies(raw.options, problems)
    cells, failed = _parsed(raw, proposal)
    problems += failed
    numbers = {name: one.values for name, one in cells.items() if not one.levels}
    problems += code_problems(numbers, proposal.get("types", {}))
    problems += tick_problems(
        cells, [*proposal.get("types", {}), *proposal.get("merge", {}), proposal.get("label"), proposal.get("weight")]
    )
    problems += _lost_digits(columns, cells, proposal)
    proposal = with_remedies(proposal, problems)
    problems += _left_out(raw, cells, proposal)
    problems += _group_names(columns, cells, with_remedies(proposal, problems))
    return _tried(raw, source, problems)


def _without_values(problem: Problem, problems: Sequence[Problem], texts: Sequence[ColumnText]) -> Problem:
    """The problem with these cells left empty in its column alone, where its remedy counts values of another column as missing.

    A spelling of a missing cell holds for the whole table. A column that proposes the same spelling has it as no value.
    """
    words = [word for remedy in problem.remedies if remedy.option == "missing" for word in remedy.value]
    proposed = {(other.column, word) for other in problems for r in other.remedies if r.option == "missing" for word in r.value}
    values = {
        word: text.column
        for text in texts
        if text.column != problem.column
        for word in text.words
        if word in words and (text.column, word) not in proposed
    }
    if not values:
        return problem
    word, other = next(iter(values.items()))
    advice = f"leave these cells empty: {word!r} is a value of column {other!r}, too, so it cannot be missing in all columns"
    remedies = tuple(remedy for remedy in problem.remedies if remedy.option != "missing")
    emptied = Remedy("merge", dict.fromkeys(words, ""), problem.column)
    return problem._replace(remedies=(*remedies, emptied), advice=advice)


def _require_named_columns(raw: Raw) -> None:
    """Raises `ZooError` for an option of a column that the table lacks: a mistake in the command, no problem of the table."""
    known = [str(name) for name in raw.frame.columns]
    named = [*checked_types(raw.options.get("types"), None)[0], *_repairs(raw.options).columns]
    for option in ("label", "weight", "sequence", "text", "columns", "keep"):
        given = raw.options.get(option)
        named += [] if given is None else [*given] if isinstance(given, list | tuple) else [given]
    absent = [str(column) for column in named if str(column) not in known]
    if absent:
        near = did_you_mean(absent[0], known)
        raise ZooError(f"{raw.title} has no column {absent[0]!r}{near}; its columns are {some_of(known)}")


def _blank_texts(raw: Raw) -> list[Problem]:
    """Rows without a text, where the user has named the column of texts."""
    text = raw.options.get("text")
    if text is None or raw.options.get("empty") is not None or not (blank := raw.frame[str(text)].isna().to_numpy()).any():
        return []
    what = f"{in_words(int(blank.sum()), 'text')} missing, the first in row {int(np.argmax(blank)) + 1}"
    advice = "leave these rows out; data.empty=keep takes them as documents without words"
    return [Problem(what, (Remedy("empty", "drop"),), advice, str(text))]


def _skipped(options: Mapping[str, Any]) -> set[str]:
    """Columns that are not read as numbers or levels, or that the user has already decided on."""
    types, _ = checked_types(options.get("types"), options.get("label"))
    out = {column for column, kind in types.items() if kind in ("identifier", "ignore")}
    named = [options.get("text"), options.get("sequence"), *(column_names(options.get("keep"), "keep") or [])]
    return out | {str(column) for column in named if column is not None}


def _repairs(options: Mapping[str, Any]) -> Repairs:
    return checked_repairs(options.get("units"), options.get("dates"), options.get("merge"))


def _style(options: Mapping[str, Any], raw: Raw) -> Style:
    return style_of({name: options[name] for name in STYLE if name in options}, plain=raw.plain)


def _columns(raw: Raw) -> tuple[dict[str, ColumnText | None], list[Problem]]:
    """Column -> how its cells are written, after the repairs that the user has declared; and repairs that fail."""
    skipped, wanted = _skipped(raw.options), column_names(raw.options.get("columns"))
    chosen = set(raw.frame.columns) if wanted is None else {*wanted, raw.options.get("label")}
    style, repairs = _style(raw.options, raw), _repairs(raw.options)
    columns: dict[str, ColumnText | None] = {}
    problems = []
    for name in raw.frame.columns:
        if name in skipped or name not in chosen:
            continue
        columns[name] = written(raw.frame[name], style)
        if name in repairs.columns:
            try:
                fixed = _repaired_column(raw, name, repairs, style)
                columns[name] = written(fixed, style)
            except ZooError as error:
                columns[name] = None
                problems.append(
                    Problem(str(error).removeprefix(f"{raw.title}: "), (Remedy("types", "ignore", name),), LEAVE, name)
                )
    return columns, problems


LEAVE = "leave the column out until it is corrected"


def _repaired_column(raw: Raw, name: str, repairs: Repairs, style: Style) -> pd.Series[Any]:
    others = [column for column in repairs.columns if column != name]
    return repaired(raw.frame[[name]], repairs.without(others), style, raw.title)[name]


def _of_words(text: ColumnText, style: Style, name: str, options: Mapping[str, Any]) -> list[Problem]:
    """Problems of one column of text."""
    kind = (options.get("types") or {}).get(name, "label" if name == options.get("label") else "")
    if kind not in ("category", "label"):
        problems = number_problems(text, style)
        if problems is not None:
            return problems
    if kind == "" and _are_texts(text):
        what = f"texts: {text.examples}"
        advice = f"leave it out; or model its words alone by {proposed('text', name)}"
        return [Problem(what, (Remedy("types", "ignore", name),), advice, name)]
    problems = level_problems(text)
    if options.get("missing") == []:  # the user declares all words to be levels
        return [problem for problem in problems if not any(remedy.option == "missing" for remedy in problem.remedies)]
    return problems


def _are_texts(text: ColumnText) -> bool:
    """Whether most cells are different, and of several words."""
    return 2 * len(text.words) > text.total and float(np.mean([word.count(" ") + 1 for word in text.words] or [0])) >= LONG


def _parsed(raw: Raw, options: Mapping[str, Any]) -> tuple[dict[str, ParsedColumn], list[Problem]]:
    """Every column that can be read under the proposed options, and a problem for every other."""
    style, repairs, skipped = _style(options, raw), _repairs(options), _skipped(options)
    types, label = options.get("types") or {}, options.get("label")
    cells, problems = {}, []
    for name in raw.frame.columns:
        if name in skipped:
            continue
        try:
            column = _repaired_column(raw, name, repairs, style) if name in repairs.columns else raw.frame[name]
            cells[name] = read_cells(column, raw.title, style, types.get(name, "category" if name == label else ""))
        except ZooError as error:
            what = str(error).removeprefix(f"{raw.title}: ")
            problems.append(Problem(what, (Remedy("types", "ignore", name),), LEAVE, name))
    return cells, problems


def _left_out(raw: Raw, cells: Mapping[str, ParsedColumn], options: Mapping[str, Any]) -> list[Problem]:
    """Columns that carry no information, name the rows, or hold infinite numbers."""
    spared = {*(options.get("types") or {}), *_repairs(options).columns, options.get("label"), options.get("weight")}
    problems = []
    for name, one in cells.items():
        if np.isinf(one.values).any():
            row = int(np.argmax(np.isinf(one.values)))
            code = "inf" if one.values[row] > 0 else "-inf"
            words = sorted({"inf" if value > 0 else "-inf" for value in one.values[np.isinf(one.values)]})
            what = f"{code} is no number to model (row {row + 1})"
            problems.append(Problem(what, (Remedy("missing", words),), "count it as missing", name))
        if name in spared:
            continue
        judged = kind_of(name, np.where(np.isinf(one.values), np.nan, one.values), () if one.levels == BOOLEAN else one.levels)
        if judged.kind in MOMENTS:
            what = f"{MOMENTS[judged.kind]} that cannot be read as they are written ({judged.why})"
            problems.append(Problem(what, (Remedy("types", "ignore", name),), LEAVE, name))
        if judged.kind in LEFT_OUT:
            kind = "identifier" if judged.kind == "identifier" else "ignore"
            advice = "leave it out"
            if kind == "identifier":
                advice += f"; {proposed('keep', [name])} also keeps it with each row's result"
            what = f"{WHY[judged.kind]} ({judged.why})"
            problems.append(Problem(what, (Remedy("types", kind, name),), advice, name))
    return problems


def _group_names(
    columns: Mapping[str, ColumnText | None], cells: Mapping[str, ParsedColumn], options: Mapping[str, Any]
) -> list[Problem]:
    """Columns of words that name groups of a few rows each, such as replicates of a sample."""
    spared = {*(options.get("types") or {}), *_repairs(options).columns, options.get("label")}
    problems = []
    for name, one in cells.items():
        text = columns.get(name)
        if name in spared or text is None or not one.levels or len(one.levels) < SEVERAL:
            continue
        each = (~np.isnan(one.values)).sum() / len(one.levels)
        shapes = {re.sub(r"\d+", "0", level) for level in one.levels}
        numbered = len(shapes) == 1 and all(re.search(r"\d\d", level) for level in one.levels)
        if each <= FEW_EACH and (numbered or TELLING.fullmatch(name.strip()) or CAMEL.fullmatch(name.strip())):
            what = f"it may name groups of rows: {len(one.levels)} names, each in {each:.2g} rows, such as {one.levels[0]}"
            advice = f"leave it out; where its rows are steps in time, {proposed('sequence', name)}"
            problems.append(Problem(what, (Remedy("types", "identifier", name),), advice, name))
    return problems


def _lost_digits(
    columns: Mapping[str, ColumnText | None], cells: Mapping[str, ParsedColumn], options: Mapping[str, Any]
) -> list[Problem]:
    """Columns of whole numbers that a float cannot tell apart, such as long identifiers."""
    spared = {*(options.get("types") or {}), *_repairs(options).columns, options.get("label"), options.get("weight")}
    problems = []
    for name, text in columns.items():
        if name in spared or text is None or name not in cells or cells[name].levels:
            continue
        long = text.of(np.array([word.lstrip("+-").isdecimal() and abs(int(word)) > EXACT for word in text.words], dtype=bool))
        if long.total:
            what, advice = f"{LOST}: {long.examples}", f"leave it out; {proposed('keep', [name])} keeps it as it is"
            problems.append(Problem(what, (Remedy("types", "identifier", name),), advice, name))
    return problems


def _tried(raw: Raw, source: Any, problems: Sequence[Problem]) -> Inspection:
    """The table as the proposed options read it; an error that remains is a problem, too."""
    all_problems = list(problems)
    options = with_remedies(raw.options, all_problems)
    if not raw.ready:
        return Inspection(raw.title, tuple(all_problems), options, None)
    try:
        data = load_data(source, **options)
    except ZooError as error:
        all_problems.append(Problem(str(error).removeprefix(f"{raw.title}: "), (), "correct the table"))
        return Inspection(raw.title, tuple(all_problems), options, None)
    of_groups = _of_long_format(data)
    if 0 < len({problem.column for problem in of_groups}) < len(data.columns):
        return _tried(raw, source, [*problems, *of_groups])
    try:
        return Inspection(raw.title, tuple(all_problems), options, typed(data))
    except ZooError as error:
        all_problems.append(Problem(str(error).removeprefix(f"{raw.title}: ")))
        return Inspection(raw.title, tuple(all_problems), options, data)


def _of_long_format(data: Data) -> list[Problem]:
    """Columns that name subjects or sequences, or hold the time of a row, of a table as the options read it."""
    unless = "leave it out, unless its value matters"
    if data.starts is not None:
        counters = [(column, f"it may number the steps ({COUNTS})") for column in step_counters(data)]
        times = [(one.column, f"it may be the time of the steps: it rises {one.steps}") for one in uneven_times(data)]
        return [Problem(what, (Remedy("types", "ignore", name),), unless, name) for name, what in (*counters, *times)]
    problems: dict[str, Problem] = {}
    for one in blocks_in(data):
        name = one.column
        advice = f"leave it out; where its rows are steps in time, {proposed('sequence', name)}"
        problems[name] = Problem(f"it may name groups of rows: {one.why}", (Remedy("types", "identifier", name),), advice, name)
        for time in one.times:
            what = f"it may be the time of the rows of each {name}: it rises {time.steps}"
            problems.setdefault(time.column, Problem(what, (Remedy("types", "ignore", time.column),), unless, time.column))
    return list(problems.values())
