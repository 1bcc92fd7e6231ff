"""The law of a kernel, tested without convergence (Gandy and Scott 2020, "Unit testing for MCMC").

Parameters θ₀ from the prior and a table x from the model, given θ₀, have the joint law p(θ, x), and θ₀ is a draw of p(θ | x).
A kernel that leaves p(θ | x) alone makes θ₃ of it in three steps, so that (θ₃, x) has the law of (θ₀, x): exactly, for any
table and any number of steps. Statistics of both are compared by their ranks,
in location and in spread. Both values of a pair depend on each other, so the mean difference of their ranks is compared with
its standard error: a standard normal deviation in the limit of many pairs.

Each block may have the right law, and all of them together a wrong one: two blocks that are drawn with the same random numbers
depend on each other. So products of entries of two blocks are statistics, too. The same is true of the rows. So the latents of
the last step are compared, too, where a kernel draws any: whether those of each two rows are alike.

A kernel that stands still has the right law, too. So the shares that did not move are figures, too: of parameters, and of the
latents of every row. A block may move, and a combination of its entries never. So another figure is the
correlation of before and after in the direction in which a block changes least.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from inference.certificates.checks.cases import built
from inference.certificates.checks.figure import (
    FALSE_ALARM,
    MOST,
    POWER,
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
from inference.certificates.laws.kernels import KernelOf, Ran, as_the_oracle, still_place, twin_latents, with_latents
from inference.certificates.oracles.oracle import Oracle, Sites, Statistics, Tables, drawn_rows, pairs_of_rows
from models.base import Model

STEPS = 3
UNSEEN = 1  # rows that the second mutant does not see
MUTANT = "deviation of a mutant"  # the unit of figures that the picture of the cell leaves out
STILL = 0.95  # share of replicates that may stay where they are
NEVER = 0.995  # the same for rare moves: their absence alone is a fault
FIXED = 1 - 1e-8  # correlation of before and after in a direction that never changes, but for rounding
FLAT = 1e-8  # variance of a direction, relative to the largest, that is rounding: of probabilities that sum to 1, say
TWINS = 3_000  # tables of which two rows have latents by the same numbers

Move = Callable[[Sites, Tables, int], Ran]  # (parameters (R, …), R tables, seed) -> the parameters after the steps


class StatisticPairs(NamedTuple):
    """Parameters (R, …) before the steps with tables that were drawn given them, and statistics before and after."""

    sites: Sites
    tables: Tables
    before: Statistics
    after: Statistics
    moved: Sites  # parameters after the steps, and latents of a kernel that draws them


class Law:
    """Runs of a kernel on replicates that an oracle draws; stores the shares that it left unchanged."""

    def __init__(self, oracle: Oracle, move: Move, replicates: int, last_rows: int | None = None) -> None:
        """``last_rows``: how many rows of each table the kernel is run on; None: all."""
        self.oracle, self.move, self.replicates, self.last_rows = oracle, move, replicates, last_rows
        self.still: dict[str, float] = {}
        self.rare: frozenset[str] = frozenset()
        self.least: dict[str, float] = {}  # site -> correlation of before and after where it changes least

    def __call__(self, seed: int, times: int) -> Deviations:
        """Deviations of every statistic after the steps of ``times`` the replicates."""
        pairs = self.pairs(seed, times)
        return deviations(pairs.before, pairs.after)

    def pairs(self, seed: int, times: int) -> StatisticPairs:
        """Statistics before and after the steps."""
        rng = np.random.default_rng(seed)
        sites = self.oracle.draw_parameters(rng, self.replicates * times)
        tables = last_rows(self.oracle.draw_tables(rng, sites), self.last_rows)
        ran = self.move(sites, tables, seed)
        self.still, self.rare = ran.still, ran.rare
        after = {name: ran.sites[name] for name in sites}
        self.least = {name: least_changed(sites[name], value) for name, value in after.items()}
        before, later = (self.oracle.statistics(one, tables) for one in (sites, after))
        return self.with_dependence(StatisticPairs(sites, tables, before, later, ran.sites), after)

    def still_figures(self) -> tuple[Figure, ...]:
        """The shares that stood still at the last look, and the directions that changed least, with their limits."""
        shares = tuple(
            Figure(f"share of {name} left unchanged", value, NEVER if name in self.rare else STILL, "share")
            for name, value in self.still.items()
        )
        return shares + tuple(
            Figure(f"{name} before and after", value, FIXED, "correlation") for name, value in self.least.items()
        )

    def with_dependence(self, pairs: StatisticPairs, after: Sites) -> StatisticPairs:
        """With statistics of dependence: products of the first entries of each two sites, and latents of each two rows."""
        before, later = ({name: first(value) for name, value in sites.items()} for sites in (pairs.sites, after))
        centre = {name: float(np.median(value)) for name, value in before.items()}
        of_rows, rows_later, latent = {}, {}, self.oracle.latent
        if latent is not None and latent in pairs.moved:
            of_rows = pairs_of_rows(latent, pairs.tables)
            rows_later = pairs_of_rows(latent, {**pairs.tables, latent: pairs.moved[latent]})
        return pairs._replace(
            before=pairs.before | products(before, centre) | of_rows,
            after=pairs.after | products(later, centre) | rows_later,
        )


def first(value: np.ndarray) -> np.ndarray:
    """(R,): the first entry of a site (R, …)."""
    return value.reshape(len(value), -1)[:, 0]


def products(entries: Statistics, centre: Mapping[str, float]) -> Statistics:
    """Products (R,) of each two entries about a centre: blocks and rows that share random numbers show there."""
    away = {name: value - centre[name] for name, value in entries.items()}
    return {f"{one} × {other}": away[one] * away[other] for one, other in combinations(away, 2)}


def last_rows(tables: Tables, number: int | None) -> Tables:
    """The last rows of every table; all of them for None."""
    return tables if number is None else {name: value[:, -number:] for name, value in tables.items()}


def without_last_rows(tables: Tables, number: int) -> Tables:
    """All rows of every table but the last ones."""
    return {name: value[:, : value.shape[1] - number] for name, value in tables.items()}


def law_of(oracle: Oracle, model: Model, kernel: KernelOf, replicates: int, unseen: int = 0) -> Law:
    """The law of the kernel of a method on a model of the zoo; of a mutant that does not see the last ``unseen`` rows."""

    def move(sites: Sites, tables: Tables, seed: int) -> Ran:
        seen = without_last_rows(tables, unseen)
        readable = [oracle.table(seen, replicate) for replicate in range(len(next(iter(sites.values()))))]
        result = kernel.kernel(model, sites, readable, seed, STEPS)
        if oracle.latent is None or result.latents is None or unseen:
            return result
        return with_latents(oracle, tables, result, as_the_oracle(oracle, tables, result.latents))

    return Law(oracle, move, replicates, kernel.last_rows)


def law_check(kernel: KernelOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """Whether the kernel leaves the posterior alone, and moves."""
    law = law_of(oracle, built(oracle), kernel, replicates)
    return checked_law(law, seed, STEPS)


def checked_law(law: Law, seed: int, steps: int) -> Check:
    """Whether ``steps`` steps leave the law alone, and move."""
    figures = two_stages(law, seed)
    still = law.still_figures()
    says = f"{summary(figures)}; {law.replicates:,} replicates, {steps} step{'s' * (steps > 1)}{_lazy(still)}"
    return answer("kernel law", says, (*figures, *still), FALSE_ALARM * len(figures))


def _lazy(still: Sequence[Figure]) -> str:
    """The parameters that move too little, in words."""
    lazy = [figure for figure in still if not figure.passed and math.isfinite(figure.value)]
    return "".join(
        f"; {figure.name}: {figure.value:.0%}, so that it hardly moves"
        if figure.unit == "share"
        else f"; {figure.name}: a combination of entries never changes"
        for figure in lazy
    )


def law_control(kernel: KernelOf, oracle: Oracle, seed: int, replicates: int) -> Check:
    """Whether mutants are rejected: a kernel of a model whose prior is wrong, and others that are further off.

    One does not see the last row; it is run at the size of the check itself, and left out where every row has a parameter.
    Of a kernel that draws latents: two rows by the same random numbers, and a row whose latents stay (`of_latents`).
    """
    figures = large_stage(law_of(oracle, built(oracle, mutated=True), kernel, replicates), seed)
    controls = [rejection("kernel law", oracle.mutant.what, figures, POWER)]
    if not oracle.contracts.by_row:
        unseen = law_of(oracle, built(oracle), kernel, replicates, UNSEEN)(seed, 1)
        controls.append(further("a kernel that does not see the last row", "without the last row", unseen))
    if oracle.latent is not None and kernel.draws_latents:
        controls += of_latents(kernel, oracle, seed)
    says = "; ".join(each.says for each in controls)
    figures_kept = tuple(figure for each in controls for figure in each.figures)
    return controls[0]._replace(says=says, passed=all(each.passed for each in controls), figures=figures_kept)


def further(what: str, name: str, deviations_of_mutant: Deviations) -> Check:
    """Whether a mutant is rejected at one look, and the figure that deviates most, by a name of the mutant."""
    deviating = [Figure(name, value, MOST, "deviation", value) for name, value in deviations_of_mutant.items()]
    check = rejection("kernel law", what, deviating, MOST + 1)
    return check._replace(figures=(worst(deviating)._replace(name=name, unit=MUTANT),))


def of_latents(kernel: KernelOf, oracle: Oracle, seed: int) -> list[Check]:
    """Whether two faults in latents alone are rejected, which are drawn given the parameters that the tables are drawn from.

    Two rows are drawn by the same random numbers: statistics of pairs of rows must deviate. A row does not move: its unchanged
    share must be too large.
    """
    rng, name = np.random.default_rng(seed), oracle.latent
    assert name is not None
    sites = oracle.draw_parameters(rng, TWINS)
    tables = last_rows(oracle.draw_tables(rng, sites), kernel.last_rows)
    rows = drawn_rows(tables)
    readable = [oracle.table(tables, replicate) for replicate in range(TWINS)]
    drawn = twin_latents(built(oracle), sites, readable, seed, (rows[0], rows[1]))
    right, twins = (as_the_oracle(oracle, tables, latents) for latents in drawn)
    both = (pairs_of_rows(name, {**tables, name: latents}) for latents in (right, twins))
    right[:, rows[-1]] = tables[name][:, rows[-1]]
    place = still_place(name)
    share = with_latents(oracle, tables, Ran({}, {}), right).still[place]
    still = Figure("frozen row", share, NEVER, "share", share)
    says = f"a row that stays is {'' if still.rejects else 'NOT '}rejected: {share:.1%} unchanged"
    shared = further("one random number for two rows", "shared numbers", deviations(*both))
    return [shared, control("kernel law", says, still.rejects, [still])]


def least_changed(before: np.ndarray, after: np.ndarray) -> float:
    """The correlation of before and after in the direction of a site (R, …) that changes least; 0 for one that never varies.

    In coordinates in which entries are uncorrelated before, with variances of 1, that is 1 − λ / 2, where λ is the smallest
    eigenvalue of the covariance of the changes. Logarithms are entries, too, where all are positive. Directions that do not
    vary are left out: probabilities sum to 1, matrices are symmetric. NaN where an entry is not finite.
    """
    positive = bool((before > 0).all() and (after > 0).all())
    one, other = (_coordinates(value, positive) for value in (before, after))
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return math.nan
    spread = one.std(0)
    varied = spread > FLAT * np.abs(one).max(0)
    if not varied.any():
        return 0.0
    centred = (one - one.mean(0))[:, varied] / spread[varied]
    sizes, vectors = np.linalg.eigh(centred.T @ centred / len(one))
    varying = sizes > FLAT * sizes[-1]
    change = (other - one)[:, varied] / spread[varied] @ (vectors[:, varying] / np.sqrt(sizes[varying]))
    change -= change.mean(0)
    return 1 - float(np.linalg.eigvalsh(change.T @ change / len(change))[0]) / 2


def _coordinates(value: np.ndarray, positive: bool) -> np.ndarray:
    """(R, D) or (R, 2 D): entries of a site, and their logarithms if they are positive."""
    flat = value.reshape(len(value), -1)
    return np.concatenate([flat, np.log(flat)], axis=1) if positive else flat


def deviations(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> Deviations:
    """Of every statistic (R,) in location and in spread: positive if it is larger, or wider, after.

    A truth value has no spread apart from its location.
    """
    deviations_of = {}
    for name, values in before.items():
        ranks = pooled_ranks(values, after[name])
        deviations_of[name] = paired(*ranks)
        if values.dtype != bool:
            deviations_of[f"{name}, spread"] = paired(*(np.abs(rank - 0.5) for rank in ranks))
    return deviations_of


def pooled_ranks(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks in (0, 1) of both samples among all their values; ties share a rank."""
    ranks = (stats.rankdata(np.concatenate([one, other])) - 0.5) / (len(one) + len(other))
    return ranks[: len(one)], ranks[len(one) :]


def paired(before: np.ndarray, after: np.ndarray) -> float:
    """Mean difference in units of its standard error; 0 where nothing differs."""
    difference = after - before
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    mean = float(difference.mean())
    return mean / float(error) if error > 0 or math.isnan(error) else math.copysign(math.inf, mean) if mean else 0.0
