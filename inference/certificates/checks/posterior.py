"""Are the draws of `fit` draws from the posterior? The whole pipeline, against the posterior that the oracle has of one table.

The oracle sums over all latents of a small table, or has long importance sampling (`inference.certificates.oracles.posterior`).
`fit` runs warm-up, thinning and relabelling. Of every statistic that labels do not enter, four means are compared: that of its
rank among the oracle's draws, of the distance of this rank from ½, and the shares of draws below its 5 % and its 95 % quantile.
So location, spread and both tails are compared; all are bounded, so that their standard errors exist for tails of any weight.
The unit is the standard error of both sides, with the effective sample size of the chains (Vehtari et al. 2021).

Neither side may have too few draws for a standard error to mean anything: chains that are stuck have a large one, and would
pass. So the smallest effective sample size of the chains, that of the oracle's draws, and their largest weight have limits.

The log densities in the result are compared at a thousand draws, and the evidence where the method has one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from inference.certificates.checks.cases import built, small_table
from inference.certificates.checks.figure import (
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
    worst,
)
from inference.certificates.checks.parity import ROUNDING
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.oracle import Oracle
from inference.certificates.oracles.posterior import Posterior
from inference.engine.sweep import has_temperatures
from inference.evidence.thermodynamic import thermodynamic_evidence
from inference.fitting.fit import fit
from inference.results.draws import one_axis
from inference.results.tree import values
from inference.results.triangles import sites_of
from models.base import Model

REFERENCE = 40_000  # draws of the oracle
CHAINS = 4
LADDERS = 32  # chains of thermodynamic integration
DENSITIES = 1_000  # draws whose log density is compared: the oracle's takes a while
TAILS = (0.05, 0.95)
LEAST = 400  # effective draws of the chains: below it their size is not known, either (Vehtari et al. 2021)
LEAST_REFERENCE = 2_000  # effective draws of the oracle
HEAVIEST = 0.01  # share of the oracle's weight that one draw may have
INTEGRATED = "log evidence by thermodynamic integration"
ESTIMATED = "log evidence by sequential Monte Carlo"
OF_EVIDENCE = {INTEGRATED, ESTIMATED}  # the deviations that are none of draws
SAME = 1e-12  # difference of two means, of functions up to 1, that rounding makes


Bounded = Mapping[str, tuple[np.ndarray, np.ndarray]]  # functions up to 1: of independent draws (S,), of chains (chain, draw)


class FitSpec(NamedTuple):
    """A method that `fit` runs, and whether the evidence by its sweeps is compared, too."""

    method: str
    integrates: bool = False  # whether it has the sweeps of thermodynamic integration
    sums: bool = False  # whether its result has the evidence in closed form
    estimates: bool = False  # whether its result has an estimate of the evidence, with an error


SAMPLERS: dict[str, FitSpec] = {  # of methods whose `FitSpec` is not `FitSpec(name)`
    "gibbs": FitSpec("gibbs", integrates=True),
    "exact": FitSpec("exact", sums=True),
    "smc": FitSpec("smc", estimates=True),
}


class Pipeline:
    """Fits of one table that the oracle draws; stores the worst of all figures that are no deviations."""

    def __init__(self, sampler: FitSpec, oracle: Oracle, seed: int, draws: int, mutated: bool = False) -> None:
        self.sampler, self.oracle, self.draws = sampler, oracle, draws
        self.table = small_table(oracle, seed)
        self.model: Model = built(oracle, mutated)
        self.worst: dict[str, Figure] = {}

    def __call__(self, seed: int, times: int) -> Deviations:
        """Deviations of every statistic with ``times`` the draws."""
        options: dict[str, Any] = {"num_samples": self.draws * times, "num_chains": CHAINS, "seed": seed}
        data = self.oracle.table(self.table, 0)
        tree = fit(self.model, data, self.sampler.method, **options)
        wanted = self.oracle.posterior(np.random.default_rng(seed), self.table, REFERENCE)
        drawn = one_axis(sites_of(tree, "posterior"))
        both = (self._statistics(wanted.sites), self._statistics({name: drawn[name] for name in wanted.sites}))
        deviations: Deviations = {}
        for name, reference in both[0].items():
            pairs = bounded(name, reference, wanted.weights, both[1][name].reshape(CHAINS, -1))
            deviations |= deviations_of(pairs, wanted.weights)
            self.keep_sizes(pairs, wanted)
        reported = {name: values(tree, "functionals", name).reshape(-1) for name in ("log_joint", "log_likelihood")}
        self.compare_densities(drawn, reported)
        self.compare_evidence(wanted, tree.attrs)
        return deviations | self._integrated(wanted, seed, times) | self._estimated(wanted, tree.attrs)

    def _keep(self, name: str, value: float, limit: float, unit: str) -> None:
        """The worst value of a figure over all looks."""
        figure = Figure(name, value, limit, unit)
        self.worst[name] = worst([figure, self.worst.get(name, figure)])

    def keep_sizes(self, pairs: Bounded, wanted: Posterior) -> None:
        smallest = min(effective_size(drawn) for _, drawn in pairs.values())
        self._keep(f"{LEAST} over the effective draws of the chains", LEAST / smallest, 1.0, NEEDED)
        few = LEAST_REFERENCE / wanted.effective_size
        self._keep(f"{LEAST_REFERENCE} over the effective draws of the oracle", few, 1.0, NEEDED)
        self._keep("largest weight of the oracle's draws", float(wanted.weights.max()), HEAVIEST, NEEDED)

    def _statistics(self, sites: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.oracle.invariants(sites, repeated(self.table, len(next(iter(sites.values())))))

    def compare_densities(self, drawn: Mapping[str, np.ndarray], reported: Mapping[str, np.ndarray]) -> None:
        """At draws from the whole run."""
        number = len(next(iter(drawn.values())))
        places = np.linspace(0, number - 1, min(number, DENSITIES)).astype(int)
        sites = {name: value[places] for name, value in drawn.items()}
        likelihood = self.oracle.log_likelihood(sites, repeated(self.table, len(places)))
        wanted = {"log_joint": self.oracle.log_prior(sites) + likelihood, "log_likelihood": likelihood}
        for name, value in wanted.items():
            off = np.abs(reported[name][places] - value) / (1 + np.abs(value))
            self._keep(f"{name} of the draws, difference from the oracle's", float(off.max()), ROUNDING, "relative")

    def compare_evidence(self, wanted: Posterior, attrs: Mapping[Any, Any]) -> None:
        """Infinitely far off where the result lacks it; not compared where the oracle samples its own."""
        if self.sampler.sums and not wanted.error:
            log_evidence_of = float(attrs.get("log_evidence", np.inf))
            off = abs(log_evidence_of - wanted.log_evidence) / (1 + abs(wanted.log_evidence))
            self._keep("log evidence, difference from the oracle's", off, ROUNDING, "relative")

    def _integrated(self, wanted: Posterior, seed: int, times: int) -> Deviations:
        """The error is that of a mean of chains, so that the difference has a t distribution."""
        assert self.model.algebra is not None
        if not self.sampler.integrates or not has_temperatures(self.model.algebra):
            return {}
        number = LADDERS * times
        table = self.oracle.table(self.table, 0)
        estimate = thermodynamic_evidence(self.model, table, num_chains=number, seed=seed, reference=0.0)
        off = (estimate.log_evidence - wanted.log_evidence) / np.hypot(estimate.standard_error, wanted.error)
        return {INTEGRATED: as_normal(float(off), number - 1)}

    def _estimated(self, wanted: Posterior, attrs: Mapping[Any, Any]) -> Deviations:
        """The error is mostly that of the families of thousands of particles, so that the difference is normal."""
        if not self.sampler.estimates:
            return {}
        error = np.hypot(attrs["log_evidence_smc_se"], wanted.error)
        return {ESTIMATED: float((attrs["log_evidence_smc"] - wanted.log_evidence) / error)}


def as_normal(value: float, dof: int) -> float:
    """The standard normal deviation that is as rare as a value of a t distribution."""
    return float(np.copysign(stats.norm.isf(stats.t.sf(abs(value), dof)), value))


def bounded(name: str, reference: np.ndarray, weights: np.ndarray, drawn: np.ndarray) -> Bounded:
    """The summaries of a statistic: location, spread and both tails, of weighted independent draws, and of chains."""
    order = np.argsort(reference, kind="stable")
    ordered = reference[order]
    cumulative = np.concatenate([[0.0], np.cumsum(weights[order])])

    def rank(values: np.ndarray) -> np.ndarray:
        """Midway between the weight below and the weight up to a value."""
        below, upto = (cumulative[np.searchsorted(ordered, values, side=side)] for side in ("left", "right"))
        return (below + upto) / 2

    ranks = rank(reference), rank(drawn)
    low, high = (ordered[np.searchsorted(cumulative[1:], level).clip(max=len(ordered) - 1)] for level in TAILS)
    return {
        name: ranks,
        f"{name}, spread": (np.abs(ranks[0] - 0.5), np.abs(ranks[1] - 0.5)),
        f"{name}, lower tail": (1.0 * (reference < low), 1.0 * (drawn < low)),
        f"{name}, upper tail": (1.0 * (reference > high), 1.0 * (drawn > high)),
    }


def deviations_of(pairs: Bounded, weights: np.ndarray) -> Deviations:
    """The deviations of all summaries of a statistic."""
    return {what: deviation(one, weights, other) for what, (one, other) in pairs.items()}


def compared(name: str, reference: np.ndarray, weights: np.ndarray, drawn: np.ndarray) -> Deviations:
    """Location, spread and both tails of a statistic: of weighted independent draws (S,), and of chains (chain, draw)."""
    return deviations_of(bounded(name, reference, weights, drawn), weights)


def effective_size(drawn: np.ndarray) -> float:
    """Effective sample size of the mean of chains (chain, draw); infinite where all draws are equal."""
    from arviz_stats.base import array_stats

    return float(array_stats.ess(drawn, chain_axis=0, draw_axis=1, method="mean")) if drawn.var() > 0 else np.inf


def deviation(reference: np.ndarray, weights: np.ndarray, drawn: np.ndarray) -> float:
    """Difference of two means in units of its standard error; 0 where both are equal.

    The larger of both variances: few draws in a tail have a small variance, and would seem to be far too few.
    """
    wanted = float(weights @ reference)
    of_reference = float((weights**2) @ (reference - wanted) ** 2)
    variance = max(float(drawn.var()), float(weights @ (reference - wanted) ** 2))
    error = float(np.sqrt(of_reference + variance / effective_size(drawn)))
    difference = float(drawn.mean()) - wanted
    if abs(difference) <= SAME:
        return 0.0
    return difference / error if error > SAME else float(np.copysign(np.inf, difference))


def posterior_check(sampler: FitSpec, oracle: Oracle, seed: int, draws: int) -> Check:
    """Whether the draws of `fit` are draws from the posterior of a small table."""
    pipeline = Pipeline(sampler, oracle, seed, draws)
    figures = two_stages(pipeline, seed)
    others = tuple(pipeline.worst.values())
    says = f"{summary(figures)} of {CHAINS} × {draws:,} draws of fit{_wrong(others)}"
    return answer("posterior", says, (*figures, *others), FALSE_ALARM * len(figures))


def _wrong(figures: tuple[Figure, ...]) -> str:
    """Those that failed, in words."""
    return "".join(f"; {figure.name}: {figure.value:.1g}" for figure in figures if not figure.passed)


def posterior_control(sampler: FitSpec, oracle: Oracle, seed: int, draws: int) -> Check:
    """Whether the draws of a model whose prior is wrong are rejected: they themselves, not the evidence."""
    figures = large_stage(Pipeline(sampler, oracle, seed, draws, mutated=True), seed)
    of_draws = [figure for figure in figures if figure.name not in OF_EVIDENCE]
    return rejection("posterior", oracle.mutant.what, of_draws, POWER)
