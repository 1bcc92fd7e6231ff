"""Is `fit` calibrated over many tables? Simulation-based calibration (Talts et al. 2018) of the whole pipeline of a sampler.

An oracle draws parameters θ₀ from the prior, and a table x given θ₀. `fit` warms up with its defaults, samples and relabels.
Among independent draws from the posterior given x, a statistic of θ₀ and x that does not depend on labels has a uniform rank.
So labels themselves are not checked. The check of one table (`inference.certificates.checks.posterior`) sees smaller faults;
this one sees faults that other tables have. Of 200 tables it sees with a probability of 0.94 or more: draws of half the spread,
draws that are off by half a standard deviation, and a quarter of the tables with all draws on the same side of θ₀.

Draws of one chain depend on each other, those of several chains do not. So one draw of each chain is ranked: the first after
the warm-up in some tables, the last in others, and in most tables one between them.
"""

import zlib

import numpy as np

from inference.certificates.checks.calibration import Found, rank_deviations
from inference.certificates.checks.cases import built
from inference.certificates.checks.figure import FALSE_ALARM, MOST, NEEDED, Check, Deviations, Figure, answer, two_stages
from inference.certificates.checks.kernel_law import summary
from inference.certificates.checks.posterior import CHAINS
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.oracle import Oracle, Tables
from inference.fitting.fit import fit
from inference.fitting.options import Every
from inference.results.draws import one_axis
from inference.results.triangles import sites_of
from models.base import Model

DRAWS = 50  # of a chain, behind its warm-up
POWER = MOST + 1  # by how much draws with half their spread must deviate, in the statistic where they deviate most


def generator(model: str, method: str, seed: int) -> np.random.Generator:
    """Random numbers of one cell: the tables of each are others."""
    return np.random.default_rng([seed, zlib.crc32(f"{model} {method}".encode())])


class Fits:
    """Fits of tables that an oracle draws."""

    def __init__(self, method: str, oracle: Oracle, tables: int) -> None:
        self.method, self.oracle, self.tables = method, oracle, tables
        self.of_half_spread: Deviations = {}  # of the first tables

    def __call__(self, seed: int, times: int) -> Deviations:
        """Deviations of every statistic over ``times`` the tables."""
        rng = generator(self.oracle.model, self.method, seed)
        model, number = built(self.oracle), times * self.tables
        sites = self.oracle.draw_parameters(rng, number)
        drawn = self.oracle.draw_tables(rng, sites)
        true = self.oracle.invariants(sites, drawn)
        each = [self._draws(model, drawn, place, int(rng.integers(2**31))) for place in range(number)]
        of = {name: np.stack([found[name] for found in each]) for name in true}
        found = {name: found_of(true[name], value, rng) for name, value in of.items()}
        if not self.of_half_spread:
            narrow = {name: each._replace(rank=each.narrow_rank) for name, each in found.items()}
            self.of_half_spread = rank_deviations(narrow)
        return rank_deviations(found)

    def _draws(self, model: Model, tables: Tables, place: int, seed: int) -> dict[str, np.ndarray]:
        """Statistics (chain,) of the draws that are ranked, of `fit` given one table."""
        options: Every = {"num_samples": DRAWS, "num_chains": CHAINS, "seed": seed}
        tree = fit(model, self.oracle.table(tables, place), self.method, **options)
        sites = one_axis(sites_of(tree, "posterior"))
        own = {name: value[place : place + 1] for name, value in tables.items()}
        found = self.oracle.invariants(sites, repeated(own, CHAINS * DRAWS))
        return {name: value.reshape(CHAINS, DRAWS)[:, place % DRAWS] for name, value in found.items()}


def found_of(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> Found:
    """A statistic of R tables: at their parameters (R,), and at the draws (R, K) that are ranked."""
    narrow = (drawn + drawn.mean(1, keepdims=True)) / 2
    return Found(true, drawn.mean(1), drawn.std(1, ddof=1), ranks(true, drawn, rng), ranks(true, narrow, rng))


def ranks(true: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ranks in (0, 1) of values (R,) among K draws (R, K) each, at random within their place: uniform however few draws.

    NaN where a value is NaN or infinite.
    """
    sound = np.isfinite(drawn).all(1) & np.isfinite(true)
    places = (drawn < true[:, None]).sum(1), (drawn == true[:, None]).sum(1) + 1
    return np.where(sound, (places[0] + places[1] * rng.random(len(true))) / (drawn.shape[1] + 1), np.nan)


def pipeline_check(method: str, oracle: Oracle, seed: int, tables: int) -> Check:
    """Whether ranks are uniform, and would not be with half the spread of the same draws."""
    fits = Fits(method, oracle, tables)
    figures = two_stages(fits, seed)
    seen = max(map(abs, fits.of_half_spread.values()))
    control = Figure(f"{POWER} over the deviation of draws with half the spread", POWER / seen, 1.0, NEEDED)
    says = (
        f"{summary(figures)} of {tables} tables, with one draw of each of {CHAINS} chains of fit; half the spread: {seen:.1f}"
    )
    return answer("pipeline", says, (*figures, control), FALSE_ALARM * len(figures))
