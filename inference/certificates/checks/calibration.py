"""Are the draws of a method calibrated? Simulation-based calibration (Talts et al. 2018), and the size of the bias if not.

An oracle draws parameters θ₀ from the prior, and a table x given θ₀. Among independent draws from the posterior given x, a
statistic of θ₀ and x has a uniform rank. If draws are too narrow, θ₀ is outside of them too often. If they are off to a side,
so are its ranks. `exact` must pass. Of `cavi`, `laplace` and `advi` the bias is measured, in standard deviations of the draws.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.certificates.checks.cases import built, stacked_rows
from inference.certificates.checks.figure import Check, Figure
from inference.certificates.checks.kernel_law import rejection, summary
from inference.certificates.checks.ranks import FALSE_ALARM, POWER, Deviations, large_stage, two_stages
from inference.certificates.oracles.oracle import Oracle
from inference.engine.task import ANY_MODEL, Draws, Points, Takes, Task
from inference.fitting.prepare import as_arrays
from inference.methods import advi, cavi, exact, laplace
from inference.runtime.progress import Silent
from models.base import Model
from models.data.table import Data

DRAWS = 99  # a rank is one of 100 places
INTERVAL = 0.9
FINITE = float(np.finfo(float).max)  # any shift is allowed, but an infinite one: draws that are all equal, and wrong


class DrawsOf(NamedTuple):
    """A method that makes independent draws, and the models that it takes."""

    run: Callable[[Task], Draws | Points]
    takes: Takes


def _options(options: Callable[..., Any], **more: Any) -> Any:
    return options(num_samples=DRAWS, num_chains=1, **more)


EXACT: dict[str, DrawsOf] = {"exact": DrawsOf(lambda task: exact.run(task, _options(exact.Options)), exact.TAKES)}
APPROXIMATE: dict[str, DrawsOf] = {
    "cavi": DrawsOf(lambda task: cavi.run(task, _options(cavi.Options)), cavi.TAKES),
    "laplace": DrawsOf(lambda task: laplace.run(task, _options(laplace.Options)), ANY_MODEL),
    "advi": DrawsOf(lambda task: advi.run(task, _options(advi.Options, num_starts=2)), ANY_MODEL),
}


class Found(NamedTuple):
    """A statistic of R replicates: that of the parameters, and mean, standard deviation and rank (0, 1) among the draws."""

    true: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    rank: np.ndarray


def tasks(model: Model, tables: Sequence[Data], seed: int) -> Iterator[Task]:
    """What a method works on, for every table; rows have equal shapes, so that it is compiled once."""
    hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), stacked_rows(model, tables)))
    for replicate in range(len(tables)):
        own = jax.tree.map(lambda leaf, replicate=replicate: leaf[replicate], rows)
        reduced = model.reading.sufficient_rows
        condensed = own if reduced is None else as_arrays(reduced(jax.tree.map(np.asarray, own)))
        key = jax.random.fold_in(jax.random.PRNGKey(seed), replicate)
        yield Task(model, hyper, prior, own, condensed, key, None, Silent())


def calibrated(oracle: Oracle, model: Model, method: DrawsOf, seed: int, replicates: int) -> dict[str, Found]:
    """Every statistic of the oracle: at the parameters of each replicate, and at draws of the method given its table."""
    rng = np.random.default_rng(seed)
    sites = oracle.draw_parameters(rng, replicates)
    tables = oracle.draw_tables(rng, sites)
    true = oracle.statistics(sites, tables)
    found: dict[str, list[np.ndarray]] = {name: [] for name in true}
    readable = [oracle.table(tables, replicate) for replicate in range(replicates)]
    for replicate, task in enumerate(tasks(model, readable, seed)):
        draws = {name: value[0] for name, value in method.run(task).sites.items()}
        repeated = {name: np.broadcast_to(v[replicate], (DRAWS, *v.shape[1:])) for name, v in tables.items()}
        for name, values in oracle.statistics(draws, repeated).items():
            found[name].append(values)
    return {name: _found(true[name], np.array(values), rng) for name, values in found.items()}


def _found(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> Found:
    """Ranks at random among ties; NaN where a draw is no number."""
    sound = np.where(np.isfinite(drawn).all(1) & np.isfinite(true), 0.0, np.nan)
    below = (drawn < true[:, None]).sum(1) + rng.integers(0, (drawn == true[:, None]).sum(1) + 1)
    return Found(true, drawn.mean(1), drawn.std(1, ddof=1), (below + 0.5) / (DRAWS + 1) + sound)


def rank_deviations(found: Mapping[str, Found]) -> Deviations:
    """Of every statistic: of the mean rank from ½, and of the mean distance from ½ from ¼, as uniform ranks have them."""
    deviations = {}
    for name, each in found.items():
        number = len(each.rank)
        deviations[name] = float((each.rank.mean() - 0.5) * np.sqrt(12 * number))
        deviations[f"{name}, spread"] = float((np.abs(each.rank - 0.5).mean() - 0.25) * np.sqrt(48 * number))
    return deviations


def calibration_check(method: DrawsOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """Whether ranks are uniform."""
    clock = time.perf_counter()
    figures = two_stages(_deviations(oracle, built(oracle), method, replicates), seed)
    says, passed = f"{summary(figures)} of {replicates} replicates", all(figure.passed for figure in figures)
    return Check("calibration", says, passed, figures, FALSE_ALARM * len(figures), time.perf_counter() - clock)


def calibration_control(method: DrawsOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """Whether draws of a model whose prior is wrong are rejected."""
    clock = time.perf_counter()
    figures = large_stage(_deviations(oracle, built(oracle, mutated=True), method, replicates), seed)
    return rejection(oracle, figures, time.perf_counter() - clock, POWER)


def _deviations(oracle: Oracle, model: Model, method: DrawsOf, replicates: int) -> Callable[[int, int], Deviations]:
    return lambda seed, times: rank_deviations(calibrated(oracle, model, method, seed, replicates * times))


def bias_check(method: DrawsOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """How far an approximation is off: how often its 90 % intervals hold the parameters, and how far its means are off.

    Nothing can fail but numbers that are none, or infinite. There is no control, because nothing is claimed of the size. Both
    figures are what they should be, 90 % and 0, for draws of the posterior.
    """
    clock = time.perf_counter()
    found = calibrated(oracle, built(oracle), method, seed, replicates)
    shares = {name: _share(each.rank) for name, each in found.items()}
    shifts = {name: _shift(each) for name, each in found.items()}
    narrow, aside = min(shares, key=lambda name: shares[name]), max(shifts, key=lambda name: abs(shifts[name]))
    figures = (
        *(Figure(f"share of {name} in its {INTERVAL:.0%} interval", value, 1.0, "share") for name, value in shares.items()),
        *(Figure(f"shift of {name}", value, FINITE, "sd") for name, value in shifts.items()),
    )
    says = (
        f"of {replicates} replicates, {INTERVAL:.0%} intervals hold {shares[narrow]:.0%} at worst ({narrow}); means are off by "
        f"up to {abs(shifts[aside]):.2f} standard deviations ({aside})"
    )
    return Check("bias", says, all(f.passed for f in figures), figures, 0.0, time.perf_counter() - clock)


def _shift(found: Found) -> float:
    """How far means are off, in standard deviations of the draws; 0 where all draws are the true value."""
    off = found.mean - found.true
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(off == 0, 0.0, off / found.spread).mean())


def _share(rank: np.ndarray) -> float:
    """Of ranks within the interval; NaN if one is no number."""
    return float(np.mean(np.where(np.isnan(rank), np.nan, np.abs(rank - 0.5) < INTERVAL / 2)))
