"""The rules of `models.data.column_kinds` at their boundaries, as its table states them: just inside and just outside."""

import numpy as np
import pytest

from models.data.column_kinds import kind_of


def each(values, times):
    """Every value so many times, in an order that counts nothing."""
    return np.random.default_rng(0).permutation(np.repeat(np.asarray(values, dtype=float), times))


def words(different, rows):
    """(codes, levels): ``rows`` words, ``different`` of them different."""
    return np.arange(rows, dtype=float) % different, tuple(f"word {n}" for n in range(different))


NUMBERS = {
    "5 different, 5 rows each": (each([3, 5, 8, 40, 90], 5), "category"),
    "5 different, 24 rows": (each([3, 5, 8, 40, 90], 5)[1:], "number"),
    "5 different, 4 rows each": (each([3, 5, 8, 40, 90], 4), "number"),
    "5 different, 5 rows each on average": (np.append(each([3, 5, 8, 40], 6), 90.0), "category"),
    "6 different": (each([3, 5, 8, 40, 90, 91], 9), "number"),
    "5 different from 0, 5 rows each": (each([0, 1, 2, 3, 4], 5), "category"),
    "5 different from 0, 24 rows": (each([0, 1, 2, 3, 4], 5)[1:], "count"),
    "6 different from 0": (each([0, 1, 2, 3, 4, 5], 9), "count"),
    "scale to 10": (each(np.arange(1, 11), 5), "category"),
    "scale to 9": (each(np.arange(1, 10), 5), "category"),
    "scale to 10, 49 rows": (each(np.arange(1, 11), 5)[1:], "number"),
    "scale to 10, 4 rows each": (each(np.arange(1, 11), 4), "number"),
    "to 11": (each(np.arange(1, 12), 5), "number"),
    "from 2 to 10": (each(np.arange(2, 11), 5), "number"),
    "from 0 to 10": (each(np.arange(0, 11), 5), "count"),
    "0 and 1, 3 rows": (np.array([1.0, 0.0, 0.0]), "category"),
    "1 and 2, 9 rows": (each([1, 2], 5)[1:], "number"),
    "to 100": (np.append(each([0, 1, 2, 3, 4, 5], 30), 100.0), "count"),
    "to 101": (np.append(each([0, 1, 2, 3, 4, 5], 30), 101.0), "number"),
    "mean 10": (each([0, 4, 8, 12, 16, 20], 1), "count"),
    "mean above 10": (each([0, 4, 8, 12, 16, 21], 1), "number"),
    "from 1, mean 10": (each([1, 5, 8, 11, 15, 20], 1), "number"),
    "below 0": (each([-1, 0, 1, 2, 3], 9), "number"),
    "fractions": (each([0, 0.5, 1], 9), "number"),
    "10 rows counted from 0": (np.arange(10.0), "identifier"),
    "10 rows counted from 1": (np.arange(10.0) + 1, "identifier"),
    "9 rows counted": (np.arange(9.0), "count"),
    "rows counted from 2": (np.arange(10.0) + 2, "number"),
    "rows counted by twos": (2 * np.arange(10.0), "count"),
}
WORDS = {
    "21 different of 42": (words(21, 42), "category"),
    "21 different of 41": (words(21, 41), "identifier"),
    "20 different of 21": (words(20, 21), "category"),
    "3 different of 3": (words(3, 3), "identifier"),
    "2 different of 3": (words(2, 3), "category"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_boundaries_of_numbers(case):
    """Missing cells count as none: the same with as many of them again, but for rows that are counted."""
    values, kind = NUMBERS[case]
    assert kind_of("x", values, ()).kind == kind
    if kind != "identifier":
        assert kind_of("x", np.append(values, np.full(len(values), np.nan)), ()).kind == kind


@pytest.mark.parametrize("case", WORDS)
def test_boundaries_of_words(case):
    (codes, levels), kind = WORDS[case]
    assert kind_of("x", codes, levels).kind == kind
    assert kind_of("x", np.append(codes, np.full(len(codes), np.nan)), levels).kind == kind


@pytest.mark.parametrize("name", ["id", "user_key", "Row index", "PassengerId", "Unnamed: 0"])
def test_telling_names_need_numbers_that_are_all_different(name):
    assert kind_of(name, np.array([7.0, 30.0, 12.0, 5.0]), ()).kind == "identifier"
    assert kind_of(name, np.array([7.0, 30.0, 12.0, 7.0]), ()).kind == "number"
    assert kind_of("x", np.array([7.0, 30.0, 12.0, 5.0]), ()).kind == "number"
