"""Tables in print: digits by Monte Carlo error, names in one piece, 80 columns."""

import numpy as np
import pandas as pd
import pytest

from inference.report.numbers import format_number, in_print
from inference.report.terminal import WIDTH, hanging, table_lines

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
    for name, numbers in zip(names, in_print(frame).values, strict=True):
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
