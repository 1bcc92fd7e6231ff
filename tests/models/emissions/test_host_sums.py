"""The compiled E-step of Gaussian mixtures against sums over rows, one by one."""

import numpy as np
import pytest

from models.emissions.gaussians import host_sums
from models.emissions.gaussians.host_sums import Coefficients, sums


def coefficients(dimension: int, num_components: int, seed: int = 0) -> Coefficients:
    rng = np.random.default_rng(seed)
    roots = np.tril(rng.normal(size=(num_components, dimension, dimension))) + 2 * np.eye(dimension)
    return Coefficients(roots, rng.normal(size=(num_components, dimension)), rng.normal(size=num_components))


def row_by_row(x: np.ndarray, weight: np.ndarray, origin: np.ndarray, given: Coefficients) -> host_sums.Sums:
    """The definition."""
    num_components, dimension = given.shifts.shape
    count, total = np.zeros(num_components), np.zeros((num_components, dimension))
    square, log_partition = np.zeros((num_components, dimension, dimension)), 0.0
    for row, own in zip(x - origin, weight, strict=True):
        away = np.einsum("kji,j->ki", given.roots, row) - given.shifts
        log_local = given.constant - (away**2).sum(1)
        log_row = np.logaddexp.reduce(log_local)
        r = own * np.exp(log_local - log_row)
        count, total, square = count + r, total + r[:, None] * row, square + r[:, None, None] * np.outer(row, row)
        log_partition += own * log_row
    return host_sums.Sums(count, total, square, np.asarray(log_partition))


@pytest.mark.parametrize(("dimension", "num_components"), [(1, 1), (2, 3), (4, 2), (5, 3), (9, 2)])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_sums_are_those_of_the_rows(monkeypatch, dimension, num_components, num_threads):
    """Blocks of eight rows, with a rest in every thread; columns that fill a tile of four, or do not; some weights are 0."""
    monkeypatch.setattr(host_sums, "FEWEST", 8)
    monkeypatch.setattr(host_sums, "MOST", 8)
    rng = np.random.default_rng(1)
    x, origin = rng.normal(size=(37, dimension)) + 5, rng.normal(size=dimension) + 5
    weight = rng.integers(0, 3, 37).astype(float)
    given = coefficients(dimension, num_components)
    for own in (weight, None):
        found = sums(x, own, origin, num_threads, given)
        wanted = row_by_row(x, np.ones(37) if own is None else own, origin, given)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_single_precision_rounds_and_no_more():
    """Sums of 37 terms of size one: an error of a hundred roundings at most."""
    rng = np.random.default_rng(2)
    x, given = rng.normal(size=(37, 3)), coefficients(3, 2)
    found = sums(x.astype(np.float32), None, np.zeros(3), 2, given)
    wanted = row_by_row(x, np.ones(37), np.zeros(3), given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=100 * np.finfo(np.float32).eps)


def test_components_that_cannot_be_and_rows_that_do_not_count():
    """A component of probability 0 has no rows. A row that no component explains counts if it has a weight, and only then."""
    given = coefficients(2, 2)
    x = np.random.default_rng(3).normal(size=(20, 2))
    without = sums(x, None, np.zeros(2), 1, given._replace(constant=np.array([0.0, -np.inf])))
    assert without.weight.tolist() == [20, 0]
    assert np.isfinite(without.log_partition)
    impossible = given._replace(constant=np.full(2, -np.inf))
    assert sums(x, None, np.zeros(2), 1, impossible).log_partition == -np.inf
    assert sums(x, np.zeros(20), np.zeros(2), 1, impossible).log_partition == 0
