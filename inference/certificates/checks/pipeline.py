"""Is `fit` calibrated over many tables? Simulation-based calibration (Talts et al. 2018) of the whole pipeline of a sampler.

An oracle draws parameters θ₀ from the prior, and a table x given θ₀. `fit` warms up with its defaults, samples and relabels.
Among independent draws from the posterior given x, a statistic of θ₀ and x that does not depend on labels has a uniform rank.
So labels themselves are not checked. The check of one table (`inference.certificates.checks.posterior`) sees smaller faults;
this one sees faults that other tables have. Of 200 tables it sees with a probability of 0.94 or more: draws of half the spread,
draws that are off by half a standard deviation, and a quarter of the tables with all draws on the same side of θ₀.

Draws of one chain depend on each other, those of several chains do not. So one draw of each chain is ranked: the first after
the warm-up in some tables, the last in others, and in most tables one between them.

Tables of sequences share few shapes, because `fit` compiles a program for every shape, which takes longer than its draws. They
are those of the oracle's strata, short, middle and long, with as many tables each; other pairs (θ₀, x) are thrown away. This
leaves ranks uniform: the selection is a function of x alone, so that θ₀ given a selected x has the law p(θ₀ | x) that it has
given any x. Only the law of x is another, and the check holds for each x. (A selection of pairs by θ₀ would not.)
"""

import zlib
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from inference.certificates.checks.calibration import Replicated, rank_deviations
from inference.certificates.checks.cases import built, pairs_in_strata
from inference.certificates.checks.figure import (
    FALSE_ALARM,
    MOST,
    NEEDED,
    Check,
    Deviations,
    Figure,
    answer,
    summary,
    two_stages,
)
from inference.certificates.checks.posterior import CHAINS
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.oracle import Oracle, Statistics, Tables
from inference.fitting.fit import fit
from inference.results.draws import one_axis
from inference.results.triangles import sites_of
from models.base import Model

DRAWS = 50  # of a chain, behind its warm-up
POWER = MOST + 1  # by how much draws with half their spread must deviate, in the statistic where they deviate most


def generator(model: str, method: str, seed: int) -> np.random.Generator:
    """Random numbers of one cell: the tables of each are others."""
    return np.random.default_rng([seed, zlib.crc32(f"{model} {method}".encode())])


class Ranked(ABC):
    """Ranks of parameters among draws of `fit`, over many tables."""

    chains = CHAINS  # of a fit, of each of which one draw is ranked

    def __init__(self, tables: int) -> None:
        self.tables = tables
        self.of_half_spread: Deviations = {}  # of the first tables

    def __call__(self, seed: int, times: int) -> Deviations:
        """Deviations of every statistic over ``times`` the tables."""
        rng = self.generator(seed)
        true, of = self.replicates(rng, times * self.tables)
        statistics = {name: ranked_of(true[name], value, rng) for name, value in of.items()}
        if not self.of_half_spread:
            narrow = {name: each._replace(rank=each.narrow_rank) for name, each in statistics.items()}
            self.of_half_spread = rank_deviations(narrow)
        return rank_deviations(statistics)

    @property
    def size(self) -> str:
        """How many tables there were, in words."""
        return f"{self.tables} tables"

    @abstractmethod
    def generator(self, seed: int) -> np.random.Generator:
        """Random numbers of this model and method."""

    @abstractmethod
    def replicates(self, rng: np.random.Generator, number: int) -> tuple[Statistics, Statistics]:
        """Every statistic of ``number`` tables: at their parameters (R,), and at the draws (R, K) that are ranked."""


class Fits(Ranked):
    """Fits of tables that an oracle draws."""

    def __init__(self, method: str, oracle: Oracle, tables: int) -> None:
        super().__init__(tables)
        self.method, self.oracle = method, oracle

    def generator(self, seed: int) -> np.random.Generator:
        """Random numbers of the cell."""
        return generator(self.oracle.name, self.method, seed)

    def replicates(self, rng: np.random.Generator, number: int) -> tuple[Statistics, Statistics]:
        """Statistics of the oracle."""
        model = built(self.oracle)
        sites, drawn = pairs_in_strata(self.oracle, rng, number)
        true = self.oracle.invariants(sites, drawn)
        each = [self._draws(model, drawn, place, int(rng.integers(2**31))) for place in range(number)]
        return true, {name: np.stack([of_table[name] for of_table in each]) for name in true}

    def _draws(self, model: Model, tables: Tables, place: int, seed: int) -> dict[str, np.ndarray]:
        """Statistics (chain,) of the draws that are ranked, of `fit` given one table."""
        options: dict[str, Any] = {"num_samples": DRAWS, "num_chains": CHAINS, "seed": seed}
        tree = fit(model, self.oracle.table(tables, place), self.method, **options)
        sites = one_axis(sites_of(tree, "posterior"))
        table = {name: value[place : place + 1] for name, value in tables.items()}
        statistics = self.oracle.invariants(sites, repeated(table, CHAINS * DRAWS))
        return {name: value.reshape(CHAINS, DRAWS)[:, place % DRAWS] for name, value in statistics.items()}


def ranked_of(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> Replicated:
    """A statistic of R tables: at their parameters (R,), and at the draws (R, K) that are ranked."""
    narrow = (drawn + drawn.mean(1, keepdims=True)) / 2
    return Replicated(true, drawn.mean(1), drawn.std(1, ddof=1), ranks(true, drawn, rng), ranks(true, narrow, rng))


def ranks(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ranks in (0, 1) of values (R,) among K draws (R, K) each, at random within their place: uniform however few draws.

    NaN where a value is NaN or infinite.
    """
    sound = np.isfinite(drawn).all(1) & np.isfinite(true)
    places = (drawn < true[:, None]).sum(1), (drawn == true[:, None]).sum(1) + 1
    return np.where(sound, (places[0] + places[1] * rng.random(len(true))) / (drawn.shape[1] + 1), np.nan)


def pipeline_check(method: str, oracle: Oracle, seed: int, tables: int) -> Check:
    """Whether ranks are uniform, and would not be with half the spread of the same draws."""
    return ranks_check("pipeline", Fits(method, oracle, tables), seed)


def ranks_check(name: str, fits: Ranked, seed: int) -> Check:
    """The check called ``name``: whether ranks are uniform, and would not be with half the spread of the same draws."""
    figures = two_stages(fits, seed)
    seen = max(map(abs, fits.of_half_spread.values()))
    control = Figure(f"{POWER} over the deviation of draws with half the spread", POWER / seen, 1.0, NEEDED)
    says = (
        f"{summary(figures)} of {fits.size}, with one draw of each of {fits.chains} chains of fit; half the spread: {seen:.1f}"
    )
    return answer(name, says, (*figures, control), FALSE_ALARM * len(figures))
