"""Hints at the error of a rejected kernel: the prior for which it would be right, and the parameters that moved."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro import distributions, handlers, infer

from inference.certificates.checks.cases import built, stacked_rows
from inference.certificates.checks.figure import MOST, TIMES, Check
from inference.certificates.laws.kernel_law import Move, StatisticPairs
from inference.certificates.oracles.oracle import Oracle, Sites, site_statistics
from inference.samplers.latents import KernelLaw
from models.base import Hyper, Model, Pytree

FACTORS = (0.5, 2.0)  # by which numbers of a prior are most often wrong
COUNTED = ("concentration", "dof")  # numbers that an update adds counts to: one too few or too many is a usual slip
COUNTS = ("a", "b", "shape")
SUMMANDS = (-1.0, 1.0)
WIDTHS = ("scale", "strength")  # a precision for a variance, a variance for a standard deviation
SEEN_FROM = ("origin", "spread")  # of the rows: from where, and on which scale, they are looked at; no numbers of a prior
FEW = 10  # times fewer replicates, at first
LARGEST = 3  # statistics that are named


class Prior(NamedTuple):
    """A prior with one number changed."""

    what: str  # in words
    hyper: Hyper


def other_priors(hyper: Hyper) -> list[Prior]:
    """Every number of a prior times and divided by 2; scales and strengths also inverted, squared and as a root.

    Concentrations and degrees of freedom also one more and one less, where that is positive, and numbers that are 0.

    >>> [prior.what for prior in other_priors({"scatter": np.array(4.0)})]
    ['scatter × 0.5', 'scatter × 2']
    """
    priors = []
    for name, value in hyper.items():
        if name not in SEEN_FROM:
            others = [(what, other) for what, other in _others(name, value) if not np.array_equal(other, value)]
            priors += [Prior(f"{name} {what}", {**hyper, name: other}) for what, other in others]
    return priors


def _others(name: str, value: Any) -> list[tuple[str, Any]]:
    """A number as it is written by mistake, with the name of the mistake."""
    changed = [(f"× {factor:g}", factor * value) for factor in FACTORS]
    if name in COUNTS or name.endswith(COUNTED) or not np.any(value):
        signs = not np.any(value)
        changed += [(f"{summand:+g}", value + summand) for summand in SUMMANDS if signs or np.all(value + summand > 0)]
    if name.endswith(WIDTHS):
        changed += [("inverted", 1 / value), ("squared", value**2), ("as a square root", value**0.5)]
    return changed


def number_notes(hyper: Hyper) -> list[str]:
    """Numbers of a prior that hide errors: 1 equals its inverse and square, and 0 may be left out."""
    ones = [name for name, value in hyper.items() if name not in SEEN_FROM and np.all(np.equal(value, 1))]
    zeros = [name for name, value in hyper.items() if name not in SEEN_FROM and not np.any(value)]
    notes = [f"{name} is 1: a kernel that leaves it out, or inverts or squares it, looks the same" for name in ones]
    return notes + [f"{name} is 0: a kernel that leaves it out looks the same" for name in zeros]


class Priors:
    """The program of a model under other priors: draws of its parameters, and its density.

    The oracle has the same prior, and parity has compared both; but its numbers are fixed.
    """

    def __init__(self, model: Model, rows: Pytree) -> None:
        """``rows`` add the same to the density under every prior."""

        def draw(key: Any, hyper: Hyper) -> dict[str, Any]:
            trace = handlers.trace(handlers.seed(model.spec, key)).get_trace(hyper, rows, marginal=True)
            return {name: s["value"] for name, s in trace.items() if s["type"] == "sample" and not s["is_observed"]}

        def log_densities(hyper: Hyper, sites: Sites) -> dict[str, Any]:
            return infer.util.compute_log_probs(model.spec, (hyper, rows), {"marginal": True}, sites)[0]

        self.own = dict(model.hyper)
        self._log_densities = jax.jit(jax.vmap(log_densities, in_axes=(None, 0)))
        self._draw = jax.jit(jax.vmap(draw, in_axes=(0, None)))

    def draw(self, hyper: Hyper, seed: int, number: int) -> dict[str, np.ndarray]:
        """Parameters (R, …)."""
        sites = self._draw(jax.random.split(jax.random.PRNGKey(seed), number), dict(hyper))
        return {name: np.asarray(value) for name, value in sites.items()}

    def log_densities(self, hyper: Hyper, sites: Sites) -> dict[str, np.ndarray]:
        """Of every site given those that it depends on, and of the rows: (R,)."""
        densities = self._log_densities(dict(hyper), dict(sites))
        return {name: np.asarray(value) for name, value in densities.items()}

    def log_ratio(self, hyper: Hyper, sites: Sites) -> np.ndarray:
        """(R,): log p'(θ) − log p(θ), of another prior and that of the model."""
        here, there = (np.sum(list(self.log_densities(each, sites).values()), axis=0) for each in (self.own, hyper))
        difference: np.ndarray = there - here
        return difference


def priors_of(oracle: Oracle) -> Priors:
    """Of the model of an oracle, on one table."""
    rng, model = np.random.default_rng(0), built(oracle)
    table = oracle.table(oracle.draw_tables(rng, oracle.draw_parameters(rng, 1)), 0)
    return Priors(model, jax.tree.map(lambda leaf: leaf[0], stacked_rows(model, [table])))


def law_under(priors: Priors, hyper: Hyper, oracle: Oracle, move: Move, replicates: int) -> KernelLaw:
    """The law of a kernel whose parameters and tables are drawn under another prior."""

    def draw(rng: np.random.Generator, number: int) -> dict[str, np.ndarray]:
        return priors.draw(hyper, int(rng.integers(2**31)), number)

    return KernelLaw(oracle._replace(draw_parameters=draw), move, replicates)


def prior_hints(oracle: Oracle, move: Move, replicates: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Other priors whose posterior the kernel leaves alone."""
    priors, hints = priors_of(oracle), []
    sites = oracle.draw_parameters(np.random.default_rng(seed), 2)
    for prior in other_priors(priors.own):
        if not priors.log_ratio(prior.hyper, sites).any():
            continue  # a number that the density does not depend on
        say(f"is it right for {prior.what}?")
        sizes = ((max(2, replicates // FEW), 1), (replicates, 1), (replicates, TIMES))  # most are rejected by a few replicates
        laws = ((law_under(priors, prior.hyper, oracle, move, size), times) for size, times in sizes)
        if all(_holds(law, seed + place, times) for place, (law, times) in enumerate(laws)):
            hints.append(f"no fault was found under another prior: {prior.what}. Is that number wrong?")
    return hints


def _holds(law: KernelLaw, seed: int, times: int) -> bool:
    return bool(np.all(np.abs(list(law(seed, times).values())) <= MOST))


def block_hints(checks: Mapping[str, Check], idle: Sequence[str]) -> list[str]:
    """Which of the checked blocks are wrong, which do nothing, and which are right."""
    wrong = [name for name, check in checks.items() if not check.passed and name not in idle]
    right = [name for name, check in checks.items() if check.passed]
    others = f"; no fault was found in that of {', '.join(right)}" if right else ""
    hints = [f"the update of {', '.join(wrong)} is wrong, given all others{others}"] if wrong else []
    return hints + [f"block {name} changes nothing: does it return the new state?" for name in idle]


def sites_of_block(name: str, oracle: Oracle, law: KernelLaw, check: Check) -> list[str]:
    """The sites among those that a block changes whose statistics deviate."""
    sites = oracle.draw_parameters(np.random.default_rng(0), 2)
    changed = [site for site in sites if law.still[site] < 1.0]
    hints = [f"block {name}: {site} {fault}" for site, fault in law.faults.items()]
    if len(changed) < 2 or hints:
        return hints
    figures = {figure.name: figure for figure in check.figures}
    largest, failed = {}, []
    for site in changed:
        names = site_statistics(site, sites[site], site in oracle.simplices)
        figures_of_site = [figures[f"{each}{ending}"] for each in names for ending in ("", ", spread")]
        largest[site] = max(abs(figure.value) for figure in figures_of_site)
        failed += [site] if not all(figure.passed for figure in figures_of_site) else []
    if not failed:
        return []
    listed = " and ".join(f"{site} (up to {largest[site]:.1f})" for site in failed)
    right = [f"{site} ({largest[site]:.1f})" for site in changed if site not in failed]
    others = f", and none of {', '.join(right)}: look at {failed[0]} first" if right else ""
    return [f"block {name}: statistics of {listed} deviate{others}"]


def site_hints(pairs: StatisticPairs, failed: Mapping[str, float]) -> list[str]:
    """How parameters of failed statistics moved: as ratios, or in standard deviations; those that deviate most."""
    names = dict.fromkeys(each.removesuffix(", spread") for each in sorted(failed, key=lambda name: -abs(failed[name])))
    return [_moved(name, pairs.before[name], pairs.after[name]) for name in list(names)[:LARGEST]]


def _moved(name: str, before: np.ndarray, after: np.ndarray) -> str:
    if not (np.isfinite(before).all() and np.isfinite(after).all() and before.std() > 0):
        return f"{name} is not finite after the steps, or always the same before"
    spread = f"its standard deviation {after.std() / before.std():.2g} times"
    if (before > 0).all() and (after > 0).all() and np.log(after).std() > 0:
        ratio = np.exp(np.mean(np.log(after)) - np.mean(np.log(before)))
        return f"{name} is {ratio:.2g} times what it should be, {spread}"
    shift = (after.mean() - before.mean()) / before.std()
    return f"{name} is off by {shift:+.2g} standard deviations, {spread}"


class Spelling(NamedTuple):
    """Another way to write a site."""

    what: str  # the draws hold
    supports: tuple[Any, ...]  # of sites that are written so
    change: Callable[[np.ndarray], np.ndarray]  # to what the model holds


SUPPORTS = distributions.constraints
MATRICES = (SUPPORTS.positive_definite, SUPPORTS.positive_semidefinite)
NUMBERS = (SUPPORTS.positive, SUPPORTS.nonnegative, SUPPORTS.softplus_positive)
SPELLINGS = (
    Spelling("covariances in place of precisions, which the model does not", MATRICES, np.linalg.inv),
    Spelling("variances in place of precisions, which the model does not", NUMBERS, lambda value: value**-1.0),
    Spelling("standard deviations in place of precisions, which the model does not", NUMBERS, lambda value: value**-2.0),
    Spelling("square roots of what the model holds", NUMBERS, lambda value: value**2.0),
)
