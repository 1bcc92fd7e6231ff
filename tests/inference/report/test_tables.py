"""Tables in print: digits by Monte Carlo error, names in one piece, 80 columns."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference.report.numbers import format_number, in_digits, printed_columns
from inference.report.reading import site_of
from inference.report.terminal import SHOWN, WIDTH, _fitting, _without_pairs, hanging, table_lines

COLUMNS = ["mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "r_hat", "mcse_mean"]


def summary(names):
    numbers = np.random.default_rng(0).lognormal(sigma=5, size=(len(names), len(COLUMNS)))
    return pd.DataFrame(numbers, index=names, columns=COLUMNS)


@pytest.mark.parametrize("error", [0.004, 0.04, 0.4, 0.0009, 0.5])
def test_the_last_digit_is_the_first_of_the_error(error):
    """The place of the last digit is at most the error, and ten times it is above."""
    text = format_number(123.456789, "mean", error)
    last = 10.0 ** -len(text.partition(".")[2])
    assert last <= error < 10 * last
    assert abs(float(text) - 123.456789) <= last / 2


@pytest.mark.parametrize("error", [1.0, 7.0, 80.0])
def test_large_errors_leave_whole_numbers(error):
    assert format_number(123.456, "mean", error) == "123"


@pytest.mark.parametrize("error", [None, 0.0, np.inf])
def test_without_an_error_four_digits(error):
    assert format_number(1.23456789, "mean", error) == "1.235"


@pytest.mark.parametrize("longest", [5, 20, 60, 120])
def test_names_and_numbers_stay_whole(longest):
    """Every name and every number is in one line; lines are 80 columns wide unless a name alone is longer."""
    names = [f"{'x' * size}[{size}]" for size in (1, 7, longest)]
    frame = summary(names)
    lines = table_lines(frame)
    for name, numbers in zip(names, printed_columns(frame).values, strict=True):
        place = next(index for index, line in enumerate(lines) if line.split()[:1] == [name])
        printed = lines[place].split()[1:] or lines[place + 1].split()
        assert printed == list(numbers)
    assert all(len(line) <= WIDTH or line in names for line in lines)
    assert len({len(line) for line in lines if line not in names}) == 1  # numbers line up


def test_hanging_lines_keep_all_words():
    text = "one sentence that is too long for a line of a terminal, which has eighty columns, and goes on below"
    lines = hanging("· ", text).split("\n")
    assert " ".join(line[2:] for line in lines) == text
    assert all(len(line) <= WIDTH for line in lines)


def test_fractions_have_six_digits_and_no_fewer_than_a_decimal():
    frame = pd.DataFrame({"row": [1, 2], "x": [2 / 3, np.nan], "y": [-123456.789, 12345678.91], "z": [1e-18, 1e300]})
    cells = in_digits(frame, ",")
    assert in_digits(pd.DataFrame({"imputed": [1 / 3, "a.b", 7]}, dtype=object), ",")["imputed"].tolist() == [
        "0,333333",
        "a.b",
        7,
    ]
    assert cells.values.tolist() == [[1, "0,666667", "-123456,8", "1e-18"], [2, "", "12345678,9", "1e+300"]]
    assert cells["row"].tolist() == [1, 2]


def entries(**sizes):
    return pd.DataFrame({"value": 1.0}, index=[f"{name}[{i}]" for name, size in sizes.items() for i in range(size)])


@pytest.mark.parametrize(
    ("sizes", "shown", "said"),
    [
        ({"mean": 8, "precision": 20, "probs": 2}, {"mean": 8, "probs": 2}, "precision (20 entries)"),
        ({"mean": 20, "precision": 50, "probs": 5}, {"mean": 19, "probs": 5}, "mean (1 more entry), precision (50 entries)"),
        ({"mean": 300}, {"mean": SHOWN}, "mean (276 more entries)"),
        ({"mean": 4, "probs": 2}, {"mean": 4, "probs": 2}, ""),
        ({}, {}, ""),
    ],
)
def test_leading_parameters_are_printed_and_the_others_counted(sizes, shown, said):
    """Never more than `SHOWN`, never none where there are some; what is printed and what is said to be elsewhere is all."""
    title, table = _fitting(xr.DataTree(), entries(**sizes))
    assert dict(Counter(map(site_of, table.index))) == shown
    assert title == "parameters" + (f"; in summary.csv: {said}" if said else "")
    assert sum(shown.values()) + sum(map(int, re.findall(r"\((\d+) ", title))) == sum(sizes.values())


def test_pairs_of_rows_are_printed_only_where_nothing_else_is():
    table = entries(log_joint=1, co_clustering=4, correlation=2)
    title, shown = _without_pairs(table)
    assert title == "; in summary.csv: co_clustering (4 entries)"
    assert list(map(site_of, shown.index)) == ["log_joint", "correlation", "correlation"]
    alone = entries(co_occurrence=3)
    assert _without_pairs(alone)[1] is alone
    assert _without_pairs(entries(log_joint=1))[0] == ""
