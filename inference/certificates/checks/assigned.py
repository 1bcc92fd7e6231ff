"""Methods that set every latent to one value: is the point of `hard_em` a fixed point, and is a step of `stochastic_em` right?

The oracle lists all assignments z of a small table, and has argmax p(θ, x, z) for each in closed form. The point of
`hard_em` must be the mode of the assignment that is most probable at it. A step of `stochastic_em` from θ₀ draws z from p(z |
x, θ₀) and goes to its mode, so that statistics of a step have exact means: sums over all z. Where few steps reach an assignment
that matters, means of steps are not normal. So how often right steps would fail is simulated from the law that the sum has, and
statistics that fail too often are left out.

The loop of `fit` around the steps is not checked. Its point is the best that it has visited, which may be its start, so that
only its density is known.
"""

from collections.abc import Mapping

import jax
import numpy as np
from jax import Array
from scipy.special import softmax
from scipy.stats import chi2

from inference.certificates.checks.cases import built, small_table, stacked_rows
from inference.certificates.checks.figure import (
    MOST,
    POWER,
    TIMES,
    Check,
    Deviations,
    Figure,
    answer,
    control,
    large_stage,
    rejection,
    summary,
    two_stages,
    worst,
)
from inference.certificates.checks.parity import ROUNDING
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.oracle import Oracle, Sites, Tables
from inference.engine.sweep import Updates, sweep
from inference.fitting.fit import fit
from inference.methods import stochastic_em
from inference.results.triangles import sites_of
from models.base import Model

EQUAL = 1e-9  # nats by which assignments may differ that count as equally probable
SIMULATED = 4_000  # means of right steps
BLOCK = 250  # of them at a time
OFTEN = 1e-5  # probability with which a statistic of right steps may fail
SAME = 1e-8  # relative difference of modes that are equal: `fit` stops when the density gains nothing


def fixed_point(oracle: Oracle, seed: int, mutated: bool = False) -> Figure:
    """How far the point of `hard_em` on a small table is from the mode given the assignment that is most probable at it."""
    latents, table = oracle.enumeration, small_table(oracle, seed)
    assert latents is not None
    sites = point_of("hard_em", oracle, table, seed, mutated)[0]
    z = latents.assignments(table)
    heights = latents.complete(repeated(sites, len(z)), table, z)
    likely = z[heights > heights.max() - EQUAL]
    distance = distances(latents.mode(table, likely), sites)
    return Figure("from the mode given the most probable assignment", float(distance.min()), SAME, "relative")


def density(method: str, oracle: Oracle, seed: int) -> Figure:
    """How far the log density that a method reports of its point is from the oracle's."""
    table = small_table(oracle, seed)
    sites, reported = point_of(method, oracle, table, seed, False)
    wanted = float((oracle.log_prior(sites) + oracle.log_likelihood(sites, table))[0])
    return Figure(
        "reported density, difference from the oracle's", abs(reported - wanted) / (1 + abs(wanted)), ROUNDING, "relative"
    )


def point_of(method: str, oracle: Oracle, table: Tables, seed: int, mutated: bool) -> tuple[dict[str, np.ndarray], float]:
    """The sites (1, …) where a method ends, and the log density that it reports."""
    tree = fit(built(oracle, mutated), oracle.table(table, 0), method, seed=seed)
    sites = {name: np.asarray(value)[None] for name, value in sites_of(tree, "point_estimate").items()}
    return sites, float(tree["functionals"]["log_joint"])


def distances(modes: Sites, sites: Sites) -> np.ndarray:
    """(A,): the largest difference of any entry, relative to the size of its site."""
    each = [
        np.abs(value - sites[name]).reshape(len(value), -1).max(1) / np.abs(sites[name]).max() for name, value in modes.items()
    ]
    return np.max(each, axis=0)


class RandomSteps:
    """Steps of a method from parameters that the prior draws, on a small table, against the sum over all assignments."""

    def __init__(self, updates: Updates, oracle: Oracle, seed: int, steps: int, mutated: bool = False) -> None:
        self.updates, self.oracle, self.steps = updates, oracle, steps
        self.model: Model = built(oracle, mutated)
        self.wanted: dict[str, tuple[float, float]] = {}  # mean and standard deviation of statistics of a step
        while not self.wanted:  # another table where one assignment is all but certain: steps from it are not random
            self.table = small_table(oracle, seed)
            self.start = oracle.draw_parameters(np.random.default_rng(seed), 1)
            self.wanted, self.false_alarm, self.possible = self._wanted(seed)
            seed += 1

    def _wanted(self, seed: int) -> tuple[dict[str, tuple[float, float]], float, int]:
        """Mean and standard deviation of every statistic that seldom fails, and how often one of them does, at most.

        Then the number of all statistics. There are none where no statistic varies.
        """
        latents = self.oracle.enumeration
        assert latents is not None
        z = latents.assignments(self.table)
        probs = softmax(latents.complete(repeated(self.start, len(z)), self.table, z))
        statistics = self._statistics(latents.mode(self.table, z))
        values = np.stack(list(statistics.values()), axis=1)  # (A, statistics)
        mean = probs @ values
        spread = np.sqrt(probs @ (values - mean) ** 2)
        rates = failing(probs, values, self.steps, np.random.default_rng(seed))
        places = [place for place, rate in enumerate(rates) if rate <= OFTEN]
        names = list(statistics)
        moments = {names[place]: (float(mean[place]), float(spread[place])) for place in places}
        random = any(sd > SAME * (1 + abs(middle)) for middle, sd in moments.values())
        return moments if random else {}, float(rates[places].sum()), len(names)

    def _statistics(self, sites: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.oracle.statistics(sites, repeated(self.table, len(next(iter(sites.values())))))

    def __call__(self, seed: int, times: int) -> Deviations:
        """Deviations of the mean of every statistic over ``times`` the steps."""
        keys = jax.random.split(jax.random.PRNGKey(seed), self.steps * times)
        statistics = self._statistics(after_steps(self.oracle, self.model, self.updates, self.table, self.start, keys))
        deviations = {}
        for name, (mean, spread) in self.wanted.items():
            off = float(statistics[name].mean() - mean)
            error = spread / np.sqrt(len(keys))
            same = abs(off) <= SAME * (1 + abs(mean))
            deviations[name] = 0.0 if same else off / error if error > 0 else float(np.copysign(np.inf, off))
        return deviations


def after_steps(
    oracle: Oracle, model: Model, updates: Updates, table: Tables, start: Sites, keys: Array
) -> dict[str, np.ndarray]:
    """Sites (R, …) after one step from ``start`` (1, …) for each of R keys."""
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)
    assert algebra is not None
    rows = jax.tree.map(lambda leaf: leaf[0], stacked_rows(model, [oracle.table(table, 0)]))
    T = algebra.natural(hyper, {name: value[0] for name, value in start.items()})
    step = jax.jit(jax.vmap(lambda key: algebra.sites(hyper, sweep(algebra, updates, hyper, prior, key, T, rows)[0])))
    return {name: np.asarray(value) for name, value in step(keys).items()}


def failing(probs: np.ndarray, values: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """(F,): how often statistics (A, F) of right steps are off at both looks with one sign, by simulation, at most.

    ``probs`` (A,) are those of the assignments. Rates are the upper ends of one-sided 95 % intervals for what was counted.
    """
    mean = probs @ values
    spread = np.sqrt(probs @ (values - mean) ** 2)
    rates: np.ndarray = np.zeros(len(mean))
    stages = [_beyond(probs, values - mean, spread, number, rng) for number in (steps, steps * TIMES)]
    for first, again in zip(*stages, strict=True):
        rates += first * again
    return np.where(spread > SAME * (1 + np.abs(mean)), rates, 0.0)


def _beyond(
    probs: np.ndarray, away: np.ndarray, spread: np.ndarray, number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Shares (F,) of means of ``number`` steps that are too high, and too low."""
    counts = (rng.multinomial(number, probs / probs.sum(), BLOCK) for _ in range(SIMULATED // BLOCK))
    means = np.concatenate([count @ away for count in counts]) / number
    limit = MOST * spread / np.sqrt(number)
    high, low = (_upper((side * means > limit).sum(0)) for side in (1, -1))
    return high, low


def _upper(count: np.ndarray) -> np.ndarray:
    """The rate of a Poisson law of which so many or fewer are seen with a probability of 5 %."""
    return np.asarray(chi2.isf(0.05, 2 * (count + 1)) / 2 / SIMULATED)


def fixed_check(oracle: Oracle, seed: int, tables: int) -> Check:
    """Whether points of `hard_em` are fixed points, and the densities that it reports are right: the worst of some tables."""
    seeds = [seed + 1_000 * table for table in range(tables)]
    off = worst(fixed_point(oracle, one) for one in seeds)
    figures = (off, worst(density("hard_em", oracle, one) for one in seeds))
    says = f"of {tables} tables, points are {off.value:.0e} {off.name}; {SAME:.0e} is allowed"
    return answer("fixed point", says, figures, 0.0)


def fixed_control(oracle: Oracle, seed: int, tables: int) -> Check:
    """Whether the point of a model whose prior is wrong is rejected."""
    off = fixed_point(oracle, seed, mutated=True)
    says = f"{oracle.mutant.what} is {'rejected' if off.rejects else 'NOT rejected'}: its point is {off.value:.0e} {off.name}"
    return control("fixed point", says, off.rejects, [off])


def step_check(oracle: Oracle, seed: int, steps: int) -> Check:
    """Whether steps of `stochastic_em` have the exact means of all assignments, and its point the density that it reports."""
    right = RandomSteps(stochastic_em.FIXED_POINT.updates, oracle, seed, steps)
    figures = two_stages(right, seed)
    says = f"{summary(figures)} of {steps:,} steps; of {right.possible} statistics, those of which means are normal"
    figures_of_all = (*figures, density("stochastic_em", oracle, seed))
    return answer("random step", says, figures_of_all, right.false_alarm)


def step_control(oracle: Oracle, seed: int, steps: int) -> Check:
    """Whether steps of a model whose prior is wrong are rejected."""
    figures = large_stage(RandomSteps(stochastic_em.FIXED_POINT.updates, oracle, seed, steps, mutated=True), seed)
    return rejection("random step", oracle.mutant.what, figures, POWER)
