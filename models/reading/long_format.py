"""Tables in long format: columns that name rows or sequences of rows, and columns with the times of rows.

Such a column carries no information about groups of rows, but a model would take it as a number or a category. The user gets a
warning and decides. A sorted column, or a design with every pair of levels, looks the same as subjects and days, so that the
name of a column must support it, or more blocks than a category has levels.
"""

import re
from typing import NamedTuple

import numpy as np

from models.cells.overrides import proposed
from models.data.column_kinds import CAMEL, SCALE, TELLING, ColumnKind, kind_of
from models.data.columns import LOST, categories_of
from models.data.table import BOOLEAN, Data, is_sparse, is_table

FEWEST_PAIRS = 5  # of successive steps, from which a column may be seen to number them
COUNTS = "it changes by the same amount at every step of every sequence"
SHOWN = 100  # rows whose numbers nearly always show that a column is no identifier, which spares sorting it
FEWEST_BLOCKS, FEWEST_ROWS = 3, 2  # of a column that names groups, and rows of each on average
UNITS = (
    "subject|subj|patient|person|participant|respondent|pupil|student|child|infant|mother|worker|customer|user|player|animal|pig|"
    "cow|calf|sheep|horse|dog|cat|rat|mouse|bird|fish|plant|tree|plot|site|station|centre|center|clinic|hospital|ward|school|"
    "household|family|firm|company|sensor|device|machine|batch|litter|cage|tank|case|record|sample|specimen"
)
NAMES_UNITS = re.compile(rf"(.*[\W_])?({UNITS})s?([\W_]*(id|no|nr|num|number|code|key))?\d?", re.IGNORECASE)
MOMENTS = "time|date|day|visit|week|month|year|hour|minute|second|wave|session|trial|round|occasion|period|step|epoch|tick|t"
NAMES_TIMES = re.compile(rf"(.*[\W_])?({MOMENTS})s?([\W_]*(no|nr|num|number|index))?", re.IGNORECASE)


class Times(NamedTuple):
    """A column that rises within every block of rows."""

    column: str
    least: float  # step from one row to the next
    most: float

    @property
    def steps(self) -> str:
        """How it rises, in words."""
        return (
            f"by {self.least:g} at every step"
            if self.least == self.most
            else f"in uneven steps, {self.least:g} to {self.most:g}"
        )


class Blocks(NamedTuple):
    """A column each of whose values stands in one block of consecutive rows."""

    column: str
    number: int  # of blocks
    times: tuple[Times, ...]

    @property
    def why(self) -> str:
        """The evidence for it, in words."""
        rising = f", in each of which {' and '.join(one.column for one in self.times)} rises" if self.times else ""
        return f"each of its {self.number} values stands in one block of rows{rising}"


def blocks_in(data: Data) -> list[Blocks]:
    """Columns that may name subjects, sites or sequences, and those that may be the time of their rows; [] for other tables.

    A column whose kind the user has declared is none.

    >>> import pandas as pd
    >>> from models import load_data
    >>> pigs = {"pig": np.repeat([4601, 4602, 4605], 3), "week": [1, 2, 4] * 3, "weight": [24, 32, 39, 22, 30, 40, 26, 31, 36]}
    >>> [(one.column, one.times[0].column, one.times[0].steps) for one in blocks_in(load_data(pd.DataFrame(pigs)))]
    [('pig', 'week', 'in uneven steps, 1 to 2')]
    """
    if not is_table(data) or is_sparse(data.x) or data.moments or data.starts is not None:
        return []
    blocks = []
    for place in _undecided(data):
        starts = _starts(data, place)
        if starts is None:
            continue
        name, levels, number = data.columns[place], categories_of(data)[place], len(starts) - 1
        named = not levels and number >= FEWEST_BLOCKS and _names_units(name)
        counted = not levels and number > SCALE and _counts_blocks(data.x[:, place], starts)
        times = times_in(data, starts, sure=named or counted, but=place)
        if times or named or counted:
            blocks.append(Blocks(name, number, tuple(times)))
    return blocks


def _undecided(data: Data) -> list[int]:
    return [place for place in range(len(data.columns)) if not (data.kinds and data.kinds[place])]


def _names_units(name: str) -> bool:
    return any(form.fullmatch(name.strip()) for form in (TELLING, CAMEL, NAMES_UNITS))


def _starts(data: Data, place: int) -> np.ndarray | None:
    """Where the blocks of equal cells start, and the number of rows; None unless every value has one block, of several rows."""
    values, levels = data.x[:, place], categories_of(data)[place]
    if np.isnan(values).any() or levels == BOOLEAN or (not levels and ((values % 1 != 0) | (values < 0)).any()):
        return None
    edges = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    if not 1 < len(edges) <= len(values) / FEWEST_ROWS or len(edges) != len(np.unique(values)):
        return None
    return np.append(edges, len(values))


def _counts_blocks(values: np.ndarray, starts: np.ndarray) -> bool:
    """Whether blocks of equal length are numbered from 0 or 1."""
    names = values[starts[:-1]]
    return bool(names[0] in (0, 1) and (np.diff(names) == 1).all() and len(set(np.diff(starts))) == 1)


def times_in(data: Data, starts: np.ndarray, sure: bool, but: int = -1) -> list[Times]:
    """Columns of numbers that rise within every block of rows and begin anew, and have the name of a time.

    Where the blocks are ``sure`` to be of subjects or sequences, whole numbers that recur are times by any name.
    """
    within = np.ones(data.num_rows - 1, dtype=bool)
    within[np.asarray(starts[1:-1]) - 1] = False
    if within.sum() < FEWEST_PAIRS:
        return []
    times = []
    for place in _undecided(data):
        values, levels = data.x[:, place], categories_of(data)[place]
        steps = np.diff(values)
        if place == but or levels or np.isnan(values).any() or not (steps[within] > 0).all():
            continue
        recurs = (values % 1 == 0).all() and len(np.unique(values)) <= 2 * np.diff(starts).max() < data.num_rows
        if NAMES_TIMES.fullmatch(data.columns[place].strip()) or (sure and recurs and (steps[~within] <= 0).any()):
            least, most = float(steps[within].min()), float(steps[within].max())
            alike = most - least <= 1e-6 * abs(least) + 8 * np.spacing(np.abs(values).max())
            times.append(Times(data.columns[place], least, least if alike else most))
    return times


def doubted_groups(data: Data, columns: tuple[str, ...] | None = None) -> list[str]:
    """A warning for every column that may name subjects or be a time, but is modelled; ``columns``: those of the model."""
    warnings = []
    for one in blocks_in(data):
        named = [(one.column, f"name groups of rows ({one.why})", "identifier")]
        named += [
            (time.column, f"be the time of the rows of each {one.column} (it rises {time.steps})", "ignore")
            for time in one.times
        ]
        for column, what, kind in named:
            if columns is None or column in columns:
                leave = proposed("types", kind, column)
                steps = f"; where its rows are steps, {proposed('sequence', column)}" if kind == "identifier" else ""
                warnings.append(f"column {column!r} may only {what}, but it is modelled: leave it out by {leave}{steps}")
    return list(dict.fromkeys(warnings))


def doubted_identifiers(data: Data) -> list[str]:
    """A warning for every column that a model of numbers takes as a number, though it may only name the rows or steps."""
    if not is_table(data) or is_sparse(data.x) or data.moments:
        return []
    if data.starts is not None:
        uneven = [
            f"column {one.column!r} may be the time of the steps (it rises {one.steps}), but the model takes it as a number: "
            f"leave it out by {proposed('types', 'ignore', one.column)}, or say "
            f"{proposed('types', 'number', one.column)}"
            for one in uneven_times(data)
        ]
        return [
            f"column {column!r} may only number the steps ({COUNTS}), but the model takes it as a number: leave it out by "
            f"{proposed('types', 'ignore', column)}, or say {proposed('types', 'number', column)}"
            for column in step_counters(data)
        ] + uneven
    kinds = data.kinds or ("",) * len(data.columns)
    lost = {note.column for note in data.notes if note.why == LOST}
    warnings = []
    for place, (column, kind, levels) in enumerate(zip(data.columns, kinds, categories_of(data), strict=True)):
        if kind or levels or not (column in lost or _may_name_rows(data.x[:SHOWN, place])):
            continue
        judgement = ColumnKind("identifier", LOST) if column in lost else kind_of(column, data.x[:, place], ())
        if judgement.kind == "identifier":
            leave, take = (proposed("types", kind, column) for kind in ("identifier", "number"))
            remedy = f"leave it out by {leave}, or say {take}"
            warnings.append(
                f"column {column!r} may only name the rows ({judgement.why}), but the model takes it as a number: {remedy}"
            )
    return [*warnings, *doubted_groups(data)]


def _may_name_rows(first: np.ndarray) -> bool:
    """Whether the first rows leave it open that a column of numbers is an identifier: whole numbers, none of them twice."""
    seen = first[~np.isnan(first)]
    return bool((seen == np.floor(seen)).all()) and len(np.unique(seen)) == len(seen)


def step_counters(data: Data) -> list[str]:
    """Columns of numbers that rise, or fall, by the same amount from each step to the next, in every sequence alike.

    Columns that the user has declared to be numbers are none, and neither is any where all sequences together have fewer than
    `FEWEST_PAIRS` pairs of successive steps.

    >>> import pandas as pd
    >>> from models import load_data
    >>> table = {"person": [1, 1, 1, 2, 2, 2, 2], "day": [1, 2, 3, 1, 2, 3, 4], "score": [5, 5, 4, 2, 3, 1, 2]}
    >>> step_counters(load_data(pd.DataFrame(table), sequence="person"))
    ['day']
    """
    assert data.starts is not None
    within = np.ones(data.num_rows - 1, dtype=bool)
    within[np.asarray(data.starts[1:-1]) - 1] = False
    if within.sum() < FEWEST_PAIRS:
        return []
    kinds = data.kinds or ("",) * len(data.columns)
    steps = np.diff(data.x, axis=0)[within]
    rounding = 4 * np.spacing(np.abs(data.x).max(axis=0))  # of a difference of two numbers of this size
    return [
        column
        for place, (column, kind, levels) in enumerate(zip(data.columns, kinds, categories_of(data), strict=True))
        if not kind and not levels and _is_constant(steps[:, place], float(rounding[place]))
    ]


def _is_constant(steps: np.ndarray, rounding: float) -> bool:
    """Whether all steps are the same but 0, up to the rounding of the numbers and of their decimals."""
    return bool(abs(steps[0]) > 2 * rounding and np.ptp(steps) <= 1e-6 * abs(steps[0]) + 2 * rounding)


def uneven_times(data: Data) -> list[Times]:
    """Columns of a table of sequences that rise in every sequence, but not by the same amount at every step."""
    assert data.starts is not None
    return [one for one in times_in(data, data.starts, sure=True) if one.column not in step_counters(data)]
