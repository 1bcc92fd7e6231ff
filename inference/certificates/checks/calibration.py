"""Are the draws of a method calibrated? Simulation-based calibration (Talts et al. 2018), and the size of the bias if not.

An oracle draws parameters θ₀ from the prior, and a table x given θ₀. Among independent draws from the posterior given x, a
statistic of θ₀ and x has a uniform rank. If draws are too narrow, θ₀ is outside of them too often. If they are off to a side,
so are its ranks. `exact` must pass. Of approximations, such as `cavi`, the bias is measured, in standard deviations of the
draws.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from inference.certificates.checks.cases import built, stacked_rows
from inference.certificates.checks.figure import (
    COVERAGE,
    FALSE_ALARM,
    NEEDED,
    POWER,
    Check,
    Deviations,
    Figure,
    answer,
    large_stage,
    rejection,
    summary,
    two_stages,
)
from inference.certificates.oracles.oracle import Oracle
from inference.engine.task import Draws, Points, Task
from inference.fitting.prepare import as_arrays
from inference.methods import METHODS
from inference.methods.method import method_named
from inference.runtime.progress import Silent
from models.base import Model
from models.data.table import Data

DRAWS = 99  # a rank is one of 100 places
INTERVAL = 0.9
# Half the spread holds a Gaussian in 59 % of 90 % intervals: 0.66 times as often, with an error of 0.06 at 100 replicates
NARROW = 0.83
ONE_SD = 0.6827  # probability of a Gaussian within one standard deviation
FINITE = float(np.finfo(float).max)  # any shift is allowed, but an infinite one: draws that are all equal, and wrong


class DrawsOf(NamedTuple):
    """A method that makes independent draws."""

    run: Callable[[Task], Draws | Points]


FEWER_STARTS = {"advi": {"num_starts": 2}}  # a start takes a second


def _draws_of(name: str) -> DrawsOf:
    method = method_named(name)
    options = method.options(num_samples=DRAWS, num_chains=1, **FEWER_STARTS.get(name, {}))
    return DrawsOf(lambda task: method.run(task, options))


EXACT = {name: _draws_of(name) for name in METHODS if "calibration" in method_named(name).evidence}
APPROXIMATE = {name: _draws_of(name) for name in METHODS if "bias" in method_named(name).evidence}


class Replicated(NamedTuple):
    """A statistic of R replicates: of the parameters, mean and standard deviation of the draws, and its rank (0, 1)."""

    true: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    rank: np.ndarray
    narrow_rank: np.ndarray  # among draws of half the spread


def tasks(model: Model, tables: Sequence[Data], seed: int) -> Iterator[Task]:
    """The task of a method, for every table; rows have equal shapes, so that it is compiled once."""
    hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), stacked_rows(model, tables)))
    for replicate in range(len(tables)):
        of_table = jax.tree.map(lambda leaf, replicate=replicate: leaf[replicate], rows)
        reduced = model.reading.sufficient_rows
        sufficient_rows = of_table if reduced is None else as_arrays(reduced(jax.tree.map(np.asarray, of_table)))
        key = jax.random.fold_in(jax.random.PRNGKey(seed), replicate)
        yield Task(model, hyper, prior, of_table, sufficient_rows, key, None, Silent())


def calibrated(oracle: Oracle, model: Model, method: DrawsOf, seed: int, replicates: int) -> dict[str, Replicated]:
    """Every statistic of the oracle: at the parameters of each replicate, and at draws of the method given its table."""
    rng = np.random.default_rng(seed)
    sites = oracle.draw_parameters(rng, replicates)
    tables = oracle.draw_tables(rng, sites)
    true = oracle.statistics(sites, tables)
    values_of: dict[str, list[np.ndarray]] = {name: [] for name in true}
    readable = [oracle.table(tables, replicate) for replicate in range(replicates)]
    for replicate, task in enumerate(tasks(model, readable, seed)):
        draws = {name: value[0] for name, value in method.run(task).sites.items()}
        given = {name: np.broadcast_to(v[replicate], (DRAWS, *v.shape[1:])) for name, v in tables.items()}
        for name, values in oracle.statistics(draws, given).items():
            values_of[name].append(values)
    return {name: replicated_of(true[name], np.array(values), rng) for name, values in values_of.items()}


def replicated_of(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> Replicated:
    """A statistic of R replicates: at their parameters (R,), and at their draws (R, K)."""
    mean = drawn.mean(1)
    narrow = (mean[:, None] + drawn) / 2
    return Replicated(true, mean, drawn.std(1, ddof=1), _ranks(true, drawn, rng), _ranks(true, narrow, rng))


def _ranks(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """At random among ties; NaN where a value is NaN or infinite."""
    sound = np.where(np.isfinite(drawn).all(1) & np.isfinite(true), 0.0, np.nan)
    below = (drawn < true[:, None]).sum(1) + rng.integers(0, (drawn == true[:, None]).sum(1) + 1)
    return np.asarray((below + 0.5) / (drawn.shape[1] + 1) + sound)


def rank_deviations(statistics: Mapping[str, Replicated]) -> Deviations:
    """Of every statistic: of the mean rank from ½, and of the mean distance from ½ from ¼, as uniform ranks have them."""
    deviations = {}
    for name, each in statistics.items():
        number = len(each.rank)
        deviations[name] = float((each.rank.mean() - 0.5) * np.sqrt(12 * number))
        deviations[f"{name}, spread"] = float((np.abs(each.rank - 0.5).mean() - 0.25) * np.sqrt(48 * number))
    return deviations


def calibration_check(method: DrawsOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """Whether ranks are uniform."""
    figures = two_stages(_deviations(oracle, built(oracle), method, replicates), seed)
    return answer("calibration", f"{summary(figures)} of {replicates} replicates", figures, FALSE_ALARM * len(figures))


def calibration_control(method: DrawsOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """Whether draws of a model whose prior is wrong are rejected."""
    figures = large_stage(_deviations(oracle, built(oracle, mutated=True), method, replicates), seed)
    return rejection("calibration", oracle.mutant.what, figures, POWER)


def _deviations(oracle: Oracle, model: Model, method: DrawsOf, replicates: int) -> Callable[[int, int], Deviations]:
    return lambda seed, times: rank_deviations(calibrated(oracle, model, method, seed, replicates * times))


def bias_check(method: DrawsOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """How far an approximation is off: how often its 90 % intervals hold the parameters, its shift, and the spread it needs.

    The sizes have no limits, so there is no mutant to reject. The check fails if a draw is NaN or infinite, if a mean is
    infinitely far off, or if halving the spread of the same draws would not be seen, because intervals are far too wide. For
    draws of a Gaussian posterior the figures are 90 %, 0 and 1.

    The least of many noisy shares is too low. So one half of the replicates selects the worst statistic, the other half
    measures how far off it is.
    """
    statistics = calibrated(oracle, built(oracle), method, seed, replicates)
    shares = {name: _share(each.rank) for name, each in statistics.items()}
    shifts = {name: _shift(each) for name, each in statistics.items()}
    sizes = {name: _size(each) for name, each in statistics.items()}
    halved = min(_share(each.narrow_rank) / max(shares[name], 1 / replicates) for name, each in statistics.items())
    narrow, covered = _worst(statistics, lambda each: -_share(each.rank))
    aside, shift = _worst(statistics, lambda each: abs(_shift(each)))
    tight, size = _worst(statistics, _size)
    figures = (
        Figure(f"share of {narrow} in its {INTERVAL:.0%} interval, in the other half", -covered, 1.0, COVERAGE),
        *(Figure(f"share of {name} in its {INTERVAL:.0%} interval", value, 1.0, "share") for name, value in shares.items()),
        *(Figure(f"shift of {name}", value, FINITE, "sd") for name, value in shifts.items()),
        *(Figure(f"spread that {name} needs", value, FINITE, "sd") for name, value in sizes.items()),
        Figure(
            f"share in the {INTERVAL:.0%} interval of draws with half the spread, over that of the draws: the smallest ratio",
            halved,
            NARROW,
            NEEDED,
        ),
    )
    says = (
        f"the statistics that are furthest off in half of {replicates} replicates, as the other half has them: "
        f"{INTERVAL:.0%} intervals hold {-covered:.0%} ({narrow}); means are off by {shift:.2f} standard deviations ({aside}); "
        f"the spread should be {size:.2f} times as large ({tight})"
    )
    return answer("bias", says, figures, None, "bias")  # nothing is claimed of which the rate could be computed


def _worst(statistics: Mapping[str, Replicated], measure: Callable[[Replicated], float]) -> tuple[str, float]:
    """The statistic of the largest measure in the first half of the replicates, and its measure in the second half."""
    half = len(next(iter(statistics.values())).rank) // 2
    name = max(statistics, key=lambda name: measure(Replicated(*(field[:half] for field in statistics[name]))))
    return name, measure(Replicated(*(field[half:] for field in statistics[name])))


def _shift(statistic: Replicated) -> float:
    """How far means are off, in standard deviations of the draws; 0 where all draws are the true value."""
    off = statistic.mean - statistic.true
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(off == 0, 0.0, off / statistic.spread).mean())


def _size(statistic: Replicated) -> float:
    """How many standard deviations of the draws hold 68 % of the parameters, about their median: 1 where both are Gaussian.

    It is 0 where all draws are the true value.
    """
    off = statistic.mean - statistic.true
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(off == 0, 0.0, off / statistic.spread)
    finite = np.isfinite(deviations)
    middle = np.median(deviations[finite]) if finite.any() else 0.0
    away = np.full(len(deviations), np.inf)
    away[finite] = np.abs(deviations[finite] - middle)
    return float(np.sort(away)[int(ONE_SD * len(away))])


def _share(rank: np.ndarray) -> float:
    """Of ranks within the interval; NaN if one is NaN."""
    return float(np.mean(np.where(np.isnan(rank), np.nan, np.abs(rank - 0.5) < INTERVAL / 2)))
