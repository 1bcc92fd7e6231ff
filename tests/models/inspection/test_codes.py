"""Missing cells that are spelt by a word or a number: each is proposed with its counts, and nothing that is a value."""

import numpy as np
import pandas as pd
import pytest
from pasted import pasted, require_cells

from models.inspection.codes import code_problems
from models.inspection.table import inspect_table

ROWS = 150


def scales(rng, number=5, first=1, last=5, rows=ROWS):
    """Answers of three groups of people; every answer is given in every column."""
    levels = rng.permuted(np.tile(np.linspace(first, last, 3)[:, None], number), axis=0)[rng.integers(3, size=rows)]
    answers = np.clip(np.round(rng.normal(levels, 0.8)), first, last)
    answers[: last - first + 1] = np.arange(first, last + 1)[:, None]
    return pd.DataFrame(answers.astype(int), columns=[f"q{place}" for place in range(number)])


def ages(rng):
    return pd.DataFrame({"age": rng.integers(18, 97, ROWS), "pulse": rng.integers(50, 110, ROWS)})


def with_codes(rng, frame, codes, share=0.06):
    """(the table with codes, the table with missing cells in their place); every column has every code."""
    coded, missing = frame.copy(), frame.astype(float)
    for name in frame:
        rows = rng.permutation(len(frame))[5:]
        for code in codes:
            here, rows = np.split(rows, [max(2, round(share * len(frame)))])
            coded.loc[here, name], missing.loc[here, name] = code, np.nan
    return coded, missing


CODED = {
    "99": (scales, (99,)),
    "88 and 99": (scales, (88, 99)),
    "77, 88 and 99": (scales, (77, 88, 99)),
    "98 and 99": (scales, (98, 99)),
    "96, 97 and 98": (scales, (96, 97, 98)),
    "998 and 999": (scales, (998, 999)),
    "888 and 999": (ages, (888, 999)),
    "997 and 998": (ages, (997, 998)),
    "9998 and 9999": (ages, (9998, 9999)),
    "-8 and -9": (scales, (-8, -9)),
    "-9": (scales, (-9,)),
    "-7, -8 and -9": (ages, (-7, -8, -9)),
    "-98 and -99": (ages, (-98, -99)),
    "-88": (ages, (-88,)),
    "-1": (scales, (-1,)),
    "-1 and -9": (scales, (-1, -9)),
    "8 and 9": (scales, (8, 9)),
    "9": (scales, (9,)),
    "9 and 99": (scales, (9, 99)),
    "9 of zeros and ones": (lambda rng: scales(rng, 3, 0, 1), (9,)),
    "9 of ones and twos": (lambda rng: scales(rng, 1, 1, 2), (9,)),
    "99 of many answers": (lambda rng: scales(rng, 4, 1, 7), (88, 99)),
    "0 below a scale": (lambda rng: scales(rng, 8, 1, 5, 500), (0,)),
    "-1 below a scale from 0": (lambda rng: scales(rng, 8, 0, 4, 500), (-1,)),
}


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("seed", range(3))
def test_codes_are_read_as_missing_cells(tmp_path, name, seed):
    """All codes of a table at once: none hides another, each is listed with its counts, and the command reads the values."""
    make, codes = CODED[name]
    rng = np.random.default_rng([seed, 7])
    coded, missing = with_codes(rng, make(rng), codes)
    coded.to_csv(tmp_path / "table.csv", index=False)
    found, data, options = pasted(tmp_path / "table.csv")
    require_cells(data, missing)
    assert set(options) == {"missing"}
    assert set(options["missing"]) == set(codes)
    for problem in found.problems:
        (code,) = problem.remedies[0].value
        for column in coded:
            count = (coded[column] == code).sum()
            assert f"{column} {count}" in problem.what or f"{count} cell" in problem.what


@pytest.mark.parametrize("code", [9, 99])
def test_a_code_that_is_a_number_elsewhere_is_left_empty_in_its_columns(tmp_path, code):
    rng = np.random.default_rng(3)
    coded, missing = with_codes(rng, scales(rng), (code,))
    other = rng.integers(0, 130, ROWS)
    other[:2] = 9, 99
    coded["steps"] = missing["steps"] = other
    coded.to_csv(tmp_path / "table.csv", index=False)
    found, data, options = pasted(tmp_path / "table.csv")
    require_cells(data, missing)
    assert options == {"merge": {f"q{place}": {str(code): ""} for place in range(5)}}
    assert f"steps has {code} as a number" in found.problems[0].advice


def zero_inflated(rng, size):
    return np.where(rng.random(size) < 0.4, 0, rng.integers(1, 6, size))


# What numbers without codes look like: (rng, shape) -> a table
GENUINE = {
    "counts": lambda rng, shape: rng.poisson(rng.uniform(0.5, 6, shape[1]), shape),
    "long tails": lambda rng, shape: rng.negative_binomial(1, 0.4, shape),
    "zeros and ones": lambda rng, shape: rng.integers(0, 2, shape),
    "ages": lambda rng, shape: rng.integers(18, 100, shape),
    "years": lambda rng, shape: rng.integers(1950, 2000, shape),
    "scores": lambda rng, shape: rng.integers(0, 101, shape),
    "small scores": lambda rng, shape: rng.binomial(5, rng.uniform(0.2, 0.95, shape[1]), shape),
    "differences": lambda rng, shape: np.round(rng.normal(1, 2, shape)),
    "temperatures": lambda rng, shape: np.round(rng.normal(5, 6, shape)),
    "few below zero": lambda rng, shape: rng.poisson(2, shape) - 1,
    "answers": lambda rng, shape: scales(rng, shape[1], 1, 5, shape[0]).to_numpy(),
    "answers from 0": lambda rng, shape: scales(rng, shape[1], 0, 5, shape[0]).to_numpy(),
    "answers up to 9": lambda rng, shape: scales(rng, shape[1], 1, 9, shape[0]).to_numpy(),
    "pain": lambda rng, shape: zero_inflated(rng, shape),
    "incomes": lambda rng, shape: np.round(np.exp(rng.normal(7, 1, shape))),
    "signs": lambda rng, shape: rng.choice([-1, 0, 1], shape),
    "people": lambda rng, shape: 1 + rng.poisson(1.2, shape),
    "percentages": lambda rng, shape: rng.uniform(0, 100, shape).round(1),
    "ranks": lambda rng, shape: np.argsort(rng.random(shape), axis=1) + 1,
    "waits": lambda rng, shape: np.round(rng.exponential(20, shape)),
}


@pytest.mark.parametrize("name", GENUINE)
def test_genuine_numbers_are_no_codes(name):
    """Over many tables of each kind and size, where 99, 0 and −1 are numbers."""
    for seed in range(25):
        rng = np.random.default_rng([seed, 11])
        table = np.asarray(GENUINE[name](rng, (int(rng.integers(20, 300)), 5)), float)
        assert code_problems({str(place): table[:, place] for place in range(5)}) == [], seed


SPELT = ["k.A.", "keine Angabe", "n.d.", "not recorded", "refused", "sin dato", "non renseigné", "fehlt", "#DIV/0!", "no data",
         "unspecified", "don't know", "weiß nicht", "s/d", "prefer not to say", "No Answer", "onbekend", "not applicable",
         "K.A.", "zzz"]  # fmt: skip


@pytest.mark.parametrize("word", SPELT)
def test_a_word_for_missing_cells_is_one_of_all_columns(tmp_path, word):
    """In columns of numbers, whole numbers, dates and words: no column is lost, and each count is said."""
    rng = np.random.default_rng(len(word))
    frame = pd.DataFrame(
        {
            "mass": rng.normal(70, 9, ROWS).round(1),
            "steps": rng.integers(100, 9000, ROWS),
            "town": rng.choice(["Bern", "Basel", "Chur"], ROWS),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, ROWS), unit="D"),
        }
    )
    gone = rng.random(frame.shape) < 0.05
    text = frame.assign(day=frame["day"].dt.strftime("%Y-%m-%d")).astype(str).mask(gone, word)
    text.to_csv(tmp_path / "table.csv", index=False)
    found, data, options = pasted(tmp_path / "table.csv")
    since = (frame["day"] - pd.Timestamp("1970-01-01")).dt.days
    require_cells(data, frame.assign(day=since).mask(gone))
    assert set(options) == {"missing", "dates"}
    assert options["missing"] == [word]
    (problem,) = [problem for problem in found.problems if problem.column is None]
    for place, name in enumerate(frame):
        assert f"{name} {gone[:, place].sum()}" in problem.what


@pytest.mark.parametrize("seed", range(20))
def test_a_value_of_one_column_is_a_slip_of_another(tmp_path, seed):
    """Whatever the words are: the column of numbers loses these cells alone, the column of words none."""
    rng = np.random.default_rng(seed)
    groups = list(rng.choice(["A", "B", "AB", "red", "north", "low", "x", "M", "Paris", "on", "k"], 3, replace=False))
    frame = pd.DataFrame({"n": rng.normal(size=60).round(2), "m": rng.normal(size=60).round(3)})
    frame["group"] = rng.choice(groups, 60)
    slips = rng.choice(60, rng.integers(1, 6), replace=False)
    frame.astype({"n": str}).assign(n=lambda one: one["n"].where(~one.index.isin(slips), groups[0])).to_csv(
        tmp_path / "table.csv", index=False
    )
    found, data, options = pasted(tmp_path / "table.csv")
    require_cells(data, frame.assign(n=frame["n"].where(~frame.index.isin(slips))))
    assert options["merge"]["n"] == {groups[0]: ""}
    assert f"'{groups[0]}' is a value of column 'group', too" in found.problems[0].advice


def test_a_code_of_the_user_is_no_problem():
    rng = np.random.default_rng(0)
    coded, _ = with_codes(rng, scales(rng), (88, 99))
    assert inspect_table(coded, missing=[88, 99]).problems == ()
    assert inspect_table(coded, types=dict.fromkeys(coded, "number")).problems == ()
