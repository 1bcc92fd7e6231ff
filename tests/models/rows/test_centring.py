"""Moments of columns against NumPy on rows that are repeated."""

import numpy as np
import pytest
from naive import near, table

from models.rows import centring

X = np.random.default_rng(0).normal(size=(9, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, -2.0]
X[[0, 4, 7], [1, 0, 1]] = np.nan
TIMES = np.array([1, 0, 2, 3, 1, 1, 4, 2, 1])


@pytest.mark.parametrize("block", [4, 2**16])
@pytest.mark.parametrize("times", [None, TIMES], ids=["unweighted", "weighted"])
def test_moments_are_those_of_rows_that_are_repeated(monkeypatch, block, times):
    """Weight w is w times the row: means and variances with divisor n of what is observed, however rows are cut in blocks."""
    monkeypatch.setattr(centring, "BLOCK", block)
    mean, variance = centring.moments(table(X, None if times is None else times.astype(float)))
    repeated = X if times is None else np.repeat(X, times, axis=0)
    assert near(mean, np.nanmean(repeated, axis=0), rtol=1e-13)
    assert near(variance, np.nanvar(repeated, axis=0), rtol=1e-12)
