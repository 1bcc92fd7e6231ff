"""When a search has ended: its verdict is in units of the curvature, where it ended."""

from types import SimpleNamespace

import numpy as np
import pytest

from inference import fit
from inference.engine.quasi_newton import STALLED, _settled
from models import MODELS, load_data


def ended(gradient: float, status: int = 2) -> SimpleNamespace:
    return SimpleNamespace(status=status, jac=np.array([gradient, 0.0]), fun=-3.0)


@pytest.mark.parametrize("growth", [1.0, 1e2, 1e8])
def test_a_line_search_that_failed_is_judged_by_the_curvature_at_its_end(growth):
    """A curvature that has grown by a factor hides a gradient that is its root as large."""
    units = np.array([growth**-0.5, 1.0])
    assert _settled(ended(0.9 * STALLED * growth**0.5), lambda: units)
    assert not _settled(ended(1.1 * STALLED * growth**0.5), lambda: units)


@pytest.mark.parametrize("unit", [np.nan, 1e3])
def test_where_there_is_no_curvature_that_of_the_start_counts(unit):
    """As at a kink, which is no mode."""
    assert not _settled(ended(1.1 * STALLED), lambda: np.array([unit, unit]))
    assert _settled(ended(0.9 * STALLED), lambda: np.array([unit, unit]))


def test_other_ends_need_no_curvature():
    def never() -> np.ndarray:
        raise AssertionError

    assert _settled(ended(1.0, status=0), never)
    assert not _settled(ended(0.0, status=1), never)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 120])
def test_covariances_and_their_correlations_have_one_verdict(seed):
    """Of the same optimum, where the noise of a column goes to 0 (a Heywood case): log densities differ by the units alone."""
    random = np.random.default_rng(seed)
    size = {101: (9, 3), 120: (6, 2)}[seed]
    rows = int(random.choice([40, 145, 1000]))
    loading = random.normal(size=size) * random.choice([0.3, 0.8, 2])
    x = random.normal(size=(rows, size[1])) @ loading.T + random.normal(size=(rows, size[0])) * random.uniform(
        0.3, 1.2, size[0]
    )
    covariance = np.cov((x * np.exp(random.uniform(-6, 8, size[0]))).T, bias=True)
    scale = np.sqrt(np.diag(covariance))
    found = []
    for units in (np.ones(size[0]), scale):
        matrix = covariance / np.outer(units, units)
        data = load_data((matrix + matrix.T) / 2, kind="covariance", num_rows=rows)
        tree = fit(MODELS["factor_analysis"](data, num_factors=size[1], prior="flat"), data, "map")
        log_joint = float(tree["functionals"]["log_joint"]) - rows * np.log(units).sum()
        found.append((tree.attrs["exit_status"], log_joint))
    assert found[0][0] == found[1][0] == 0
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-3)
