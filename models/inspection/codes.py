"""Numbers that stand for missing cells: 99 far from all others, 8 and 9 with a scale from 1 to 5, −1 or 0 below a scale.

A code is one of the `CODES` that is not where its column's other numbers are. Small ones need more evidence, as counts may have
a long tail: several columns with the same scale, or several cells. A code at the very end of a scale, such as 0 before 1 to 5,
is one if the rows that have it answer the other columns as rows do on average, and not as rows at that end do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from models.inspection.problem import Problem, Remedy, in_words

LARGE = tuple(10**k // 9 * digit for k in (2, 3, 4, 5) for digit in (6, 7, 8, 9))  # 66, 77, 88, 99, 666, …
BEFORE = tuple(10**k - left for k in (2, 3, 4) for left in (2, 3, 4))  # 98, 97, 96, 998, …
SMALL = (7, 8, 9)
USUAL = frozenset(sign * code for code in (99, 999, 9999, 99999) for sign in (1, -1))  # one cell is enough
HIGH = frozenset((*SMALL, *LARGE, *BEFORE))
LOW = frozenset((*range(-9, 0), *(-code for code in (*LARGE, *BEFORE))))
CODES = HIGH | LOW
LONGEST = 11  # numbers in a scale
SHORT = 5  # the end of a scale, from which a code in one column alone is seen
SHARE = 0.05  # of rows at the end of a scale; the tail of counts has fewer
SURE = 3.0  # standard errors by which the rows with a code differ from those at the end of the scale
ROWS_EACH = 8  # rows for each column that predicts another
MOST = 0.3  # share of cells with a code
SIDE = 0.5  # how far from the end of the scale to the average the rows with a code must be


class Scale(NamedTuple):
    """A column of whole numbers without gaps from ``first`` to ``last``, and its other numbers, the codes."""

    first: int
    last: int
    codes: frozenset[int]


def code_problems(columns: Mapping[str, np.ndarray], spared: Collection[str] = ()) -> list[Problem]:
    """Numbers that may stand for missing cells, each with its columns; ``columns`` (N,) have NaN for a missing cell.

    A number is a value of the ``spared`` columns.

    >>> answers = {"first": np.array([1.0, 2, 5, 3, 4, 99]), "second": np.array([4.0, 5, 98, 1, 2, 3])}
    >>> [problem.what for problem in code_problems(answers | {"third": np.array([98.0, 98, 5, 1, 3, 2])})]
    ['99 may stand for a missing cell: 1 cell, the first in row 6', '98 may stand for a missing cell: second 1, third 2 cells']
    """
    looked_at = {name: values for name, values in columns.items() if name not in spared}
    columns_with: dict[int, list[str]] = {}
    for name, codes in _codes_of(looked_at).items():
        for code in codes:
            columns_with.setdefault(code, []).append(name)
    ordered = sorted(columns_with, key=lambda code: (-abs(code), code))
    return [_problem(code, columns_with[code], columns) for code in ordered]


def _problem(code: int, names: list[str], columns: Mapping[str, np.ndarray]) -> Problem:
    counts = {name: int((columns[name] == code).sum()) for name in names}
    row = min(int(np.argmax(columns[name] == code)) for name in names) + 1
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    how_many = f"{in_words(counts[names[0]])}, the first in row {row}" if len(names) == 1 else f"{listed} cells"
    what = f"{code} may stand for a missing cell: {how_many}"
    column = names[0] if len(names) == 1 else None
    elsewhere = [name for name, values in columns.items() if name not in names and (values == code).any()]
    if not elsewhere:
        return Problem(what, (Remedy("missing", [code]),), "count it as missing; leave this out if it is a number", column)
    advice = f"leave these cells empty: {elsewhere[0]} has {code} as a number, so that it cannot be missing in all columns"
    return Problem(what, tuple(Remedy("merge", {str(code): ""}, name) for name in names), advice, column)


def _codes_of(columns: Mapping[str, np.ndarray]) -> dict[str, set[int]]:
    """Column -> its codes."""
    alone = {name: _far(values) for name, values in columns.items()}
    scales = {name: scale for name, values in columns.items() if (scale := _scale(values)) is not None}
    codes = {}
    for name, values in columns.items():
        others = [far for other, far in alone.items() if other != name]
        sure = {code for code in alone[name] if _is_supported(code, values, alone[name], others)}
        if name in scales:
            other_scales = [scale for other, scale in scales.items() if other != name]
            sure |= {code for code in scales[name].codes if _is_code_next_to(code, scales[name], values, other_scales)}
        if min(sure, default=0) < -1 and (values == -1).any() and not ((values < 0) & ~np.isin(values, [-1, *sure])).any():
            sure.add(-1)
        codes[name] = sure
    for name, code in _at_ends(columns, scales):
        codes[name].add(code)
    return codes


def _far(values: np.ndarray) -> set[int]:
    """Codes that are further from all other numbers than twice the range of these, or that alone are below 0."""
    distinct = np.unique(values[~np.isnan(values)])
    rest = distinct[~np.isin(distinct, list(CODES))]
    codes = [int(code) for code in distinct if code in CODES]
    if len(rest) < 2 or not codes:
        return set()
    span, whole = rest[-1] - rest[0], bool((rest == np.floor(rest)).all())
    numbers = any(-7 < code < -1 for code in codes)  # so small ones are numbers below 0, not codes
    large = [code for code in codes if abs(code) > LONGEST or (-9 <= code < -6 and not numbers)]
    below = {code for code in large if code < 0 and (code < -9 or whole)} if rest[0] >= 0 else set()
    return below | {code for code in large if np.abs(rest - code).min() > 2 * span}


def _is_supported(code: int, values: np.ndarray, far: set[int], others: list[set[int]]) -> bool:
    """Whether a code that is far away occurs more than once, together with another code, or in another column, too."""
    if code == -9:  # one cell is enough if it is far from all others
        rest = values[~np.isin(values, list(CODES)) & ~np.isnan(values)]
        return bool((values == code).sum() > 1 or len(far) > 1 or rest.min() + 9 > 2 * np.ptp(rest))
    return code in USUAL or (values == code).sum() > 1 or len(far) > 1 or any(code in one for one in others)


def _scale(values: np.ndarray) -> Scale | None:
    """The scale from 0 or 1 of a column of whole numbers in which all others are codes; None for another column."""
    seen = values[~np.isnan(values)]
    distinct = np.unique(seen)
    if not 2 <= len(distinct) <= LONGEST + 8 or (distinct != np.floor(distinct)).any():
        return None
    first = 0 if 0 in distinct else 1
    steps = distinct[distinct >= first]
    size = int((steps == first + np.arange(len(steps))).cumprod().sum())
    outside = {int(number) for number in distinct if not first <= number < first + size}
    if not 2 <= size <= LONGEST or outside - CODES or any(-7 < number < -1 for number in outside):
        return None
    last = first + size - 1
    return Scale(first, last, frozenset(code for code in outside if code > last + 1 or code < first - 1))


def _is_code_next_to(code: int, scale: Scale, values: np.ndarray, others: list[Scale]) -> bool:
    """Whether a number next to a scale is a code, and no large count."""
    cells, size = int((values == code).sum()), scale.last - scale.first + 1
    if (values == scale.last).sum() < SHARE * (~np.isnan(values)).sum() and cells <= (values == scale.last).sum():
        return False
    if any((one.first, one.last) == (scale.first, scale.last) and code in one.codes for one in others):
        return True
    if code < 0:
        return scale.first == 1 and size > 2
    few = scale.last <= SHORT and (scale.first == 1 or size == 2) and (~np.isnan(values)).sum() >= 10 * size
    return (scale.first == 1 and size == 2) or (few and cells > 2 and code > scale.last + 2)


def _at_ends(columns: Mapping[str, np.ndarray], scales: Mapping[str, Scale]) -> list[tuple[str, int]]:
    """Columns with a code right before a scale: 0 before 1 to 5, or −1 before 0 to 4."""
    ends = []
    for code in (0, -1):
        blocks: dict[int, list[str]] = {}
        for name, scale in scales.items():
            if scale.first in (code, code + 1) and scale.last >= code + 3:
                blocks.setdefault(scale.last, []).append(name)
        for names in blocks.values():
            table = np.column_stack([columns[name] for name in names])
            if code == -1:  # the scale from 0 is the one of the numbers from 0
                table = np.where(table < -1, np.nan, table)
            table = np.where(table > scales[names[0]].last, np.nan, table)
            if len(names) > 2 and (table == code).any() and _answers_as_others(table, code):
                ends += [(name, code) for place, name in enumerate(names) if (table[:, place] == code).any()]
    return ends


def _answers_as_others(table: np.ndarray, code: int) -> bool:
    """Whether rows with the code answer the other columns as rows do on average, and not as those at its end of the scale do.

    The other columns predict each column, and rows with the code are compared with the predictions of the next two answers.
    """
    if (table == code).sum() > MOST * (~np.isnan(table)).sum():
        return False
    answers = np.where(table == code, np.nan, table)
    scores = np.nan_to_num(answers - np.nanmean(answers, axis=0))
    above = between = error = 0.0
    for place in range(table.shape[1]):
        column, others = table[:, place], np.delete(scores, place, axis=1)
        coded, low, higher = column == code, (column == code + 1) | (column == code + 2), column > code
        if not coded.any() or low.sum() < 2 or higher.sum() < ROWS_EACH * others.shape[1]:
            continue
        predicted_answers = _predicted(others, column, higher)
        number, at_end = coded.sum(), predicted_answers[low].mean()
        above += float(number * (predicted_answers[coded].mean() - at_end))
        between += float(number * (predicted_answers[higher].mean() - at_end))
        error += float(number * predicted_answers[higher].var() + number**2 * predicted_answers[low].var() / low.sum())
    return bool(above > max(SURE * np.sqrt(error), SIDE * between) and between > 2 * np.sqrt(error))


def _predicted(others: np.ndarray, answers: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """(N,): a column by a linear regression on others (N, D); of the rows ``fitted`` (N,) each by a regression without it."""
    design = np.column_stack([np.ones(len(answers)), others])
    inverse = np.linalg.pinv(design[fitted])
    predicted = design @ (inverse @ answers[fitted])
    lever = np.einsum("nd,dn->n", design[fitted], inverse)
    predicted[fitted] = answers[fitted] - (answers[fitted] - predicted[fitted]) / np.maximum(1 - lever, 1e-6)
    return np.asarray(predicted)
