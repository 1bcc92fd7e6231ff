"""How often diagnostics raise an alarm where nothing is wrong, by results that are drawn; what they take for one thing."""

import numpy as np
import pytest
import xarray as xr
from drawn_results import drawn, failed, normal, optimised
from scipy import stats
from scipy.signal import lfilter
from two_stage import assert_standard_normal

from inference.diagnostics.starts import starts_at_best
from inference.diagnostics.verdicts import Finding, smallest_size

RNG = np.random.default_rng


def autoregressive(chains: int, draws: int, quantities: int, seed: int, carried: float = 0.5) -> np.ndarray:
    """AR(1) chains of unit variance in their stationary law, whose effective size is draws (1 − ρ) / (1 + ρ)."""
    rng = RNG(seed)
    noise = rng.normal(size=(chains, draws, quantities)) * np.sqrt(1 - carried**2)
    noise[:, 0] = rng.normal(size=(chains, quantities))
    return lfilter([1.0], [1.0, -carried], noise, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("quantities", [1, 100])
def test_healthy_chains_fail_as_rarely_as_they_should(quantities):
    """Runs of AR(1) chains of effective size 800: R-hat raises an alarm in one of a hundred at most, the size in hardly any."""

    def deviations(seed, times):
        runs = 100 * times
        found = [failed(drawn(autoregressive(4, 600, quantities, 10_000 * seed + run))) for run in range(runs)]
        alarms = np.array([sum(name in each for each in found) for name in ("R-hat", "effective sample size")])
        upper = stats.binom(runs, 0.01).sf(alarms - 1)  # more alarms than one in a hundred
        return stats.norm.isf(np.maximum(upper, 1e-300)).clip(0)

    assert_standard_normal(deviations)


@pytest.mark.parametrize(("size", "fails"), [(533, False), (200, True)])
def test_the_smallest_of_many_effective_sizes_is_no_alarm(size, fails):
    """150 quantities of the same true size: the smallest estimate is a quarter below it by chance alone."""
    for seed in range(4):
        found = failed(drawn(autoregressive(4, 3 * size // 4, 150, seed)))
        assert ("effective sample size" in found) == fails


def test_the_required_effective_size_of_one_quantity():
    """400; that of many is lower by what the smallest of so many normal errors falls, by simulation."""
    for number in (1, 10, 150):
        limit = float(smallest_size(Finding(np.zeros(number))))
        lowest = np.median((400 + 40 * RNG(number).normal(size=(4000, number))).min(1))
        assert limit == pytest.approx(lowest, abs=5)  # a median of 4000 is known to 1
    assert float(smallest_size(Finding(np.zeros(1)))) == 400


def test_the_halves_of_one_chain_are_compared():
    """A chain that wanders off has an R-hat; one that stays has none to speak of."""
    assert failed(drawn(normal(1, 2000))) == {"number of chains"}
    assert "R-hat" in failed(drawn(normal(1, 2000) + np.linspace(-2, 2, 2000)))


@pytest.mark.parametrize("moved", [0.0, 1e6, -1e9])
def test_the_units_of_the_data_change_nothing_about_starts(moved):
    """Other units move all log joints by a constant: starts that are nats apart stay so."""
    tree = optimised(list(np.array([0.0, -1e-9, -0.5, -3.0]) + moved), total_weight=100.0)
    trace = np.linspace(-200.0, 0.0, 5) + moved
    traces = (("start", "iteration"), np.stack([trace] * 4))
    tree["optimization"] = xr.DataTree(tree["optimization"].to_dataset().assign(objective=traces))
    assert starts_at_best(tree) == (2, 4)
    assert starts_at_best(optimised([0.0, -2e-6])) == (1, 2)
