"""The verdicts on a result: one table of diagnostics, the results they apply to, their thresholds and their messages.

`inference.diagnostics.checks` measures; this file judges, both for ``run`` and for ``compare``.

R-hat. Split m chains into 2m halves with effective sizes S / 2m. The means of the halves then have variance 2m / S, relative
to the variance within, so for chains from one distribution

    R-hat² ≈ 1 + (2m / S) χ² / (2m − 1),    χ² with 2m − 1 degrees of freedom

(the R-hat of S draws is about √(1 + 2m / S): Vats and Knudson 2021). The largest of many R-hats, of Q quantities in two forms
each, is above 1.01 by chance alone. A quantity therefore fails above 1.01 (Vehtari et al. 2021) or above the value that
agreeing chains exceed in any of the Q quantities with probability `BY_CHANCE`, if that is larger (Bonferroni, for any
dependence). S comes from autocorrelations within chains, which disagreement between chains does not reduce, and counts as at
least the required 400.

Effective sample sizes. An estimate of an effective size has a relative error of about a tenth, so the smallest of Q estimates
lies below the true sizes: for independent normal errors its median is isf(1 − 2^(−1/Q)) standard deviations below, 0 for one
quantity and 2.6 for 150. The required 400 is lowered by this amount. Quantities with a true size of 400 then pass half the
time, however many there are.

The tail size is the smaller of those of the indicators of the 5 % and the 95 % quantile, on which intervals stand (Vehtari et
al. 2021). Its estimates have a relative error of 0.15.

E-BFMI, the mean squared change of the energy of chains over its variance within them, fails below 0.3 (Betancourt 2016): new
momenta then change the energy too little to bring a chain into the tails. All chains count together, as that of one short chain
is known to a third at best; of fewer than 100 draws a chain it is not asked.

Trees that reach max_tree_depth are right, and effective sizes count what they cost: a remark. Chains that disagree are told the
first cause: divergences, energy, cut trees. Several modes are named first where chains stay apart, and else last.

Pareto k-hat of S weights fails above min(0.7, 1 − 1 / log10 S) (Vehtari et al. 2024).

Single precision. The log joint of the run is compared with double precision at the same sites. A gap fails above 1e-3 nats
plus a millionth of the log joint, which allows for rounding sums of many rows to 24 bits.

Unvisited modes. A mode counts as unvisited if none of 200 draws leads to it. Where it has 5 % of the mass, the threshold, draws
that come to all modes miss it with probability 0.95²⁰⁰ = 4e-5 (`inference.fitting.modes`).

Starts. If k of n starts reached the best optimum, then an optimum that is as easy to find is missed by all starts with
probability (1 − k / n)^n: 25 to 37 % for k = 1, at most 14 % for k = 2. Where draws cover several modes, k is that of the mode
which fewest starts reached.

Modes are compared by their masses, height + d/2 log 2π − ½ log det of the negative Hessian, or by evidence lower bounds,
which bound the mass of one mode. A mode that is 3 nats lower has e⁻³ = 5 % of the mass. The optimum that `map` reports is the
highest, with any mass: a remark follows if another one has more by 1 nat.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import special  # `scipy.stats` takes half a second to import

from inference.engine.task import Kind

RHAT = 1.01
ESS = 400
NOISE, TAIL_NOISE = 0.1, 0.15  # relative standard deviations of estimates of a bulk and a tail size of about `ESS`
BFMI, FEWEST_ENERGIES = 0.3, 100  # the smallest E-BFMI, and the draws from which it is asked
CUT = 0.1  # share of trees that reach max_tree_depth
APART = 3.0  # standard deviations within chains, between the means of chains that have hardly a draw in common
PARETO_K = 0.7
WITHIN, SUMMED = 1e-3, 1e-6  # nats, and a share of the log joint: the rounding of a sum of many rows in 24 bits
UNVISITED = 0.05  # of the mass of the posterior, by an estimate
FEWEST_ANCESTORS = 5  # of a run of sequential Monte Carlo: fewer draws from the prior say nothing of modes
HEAVIER = 1.0  # nats by which the mass of another optimum is clearly larger, as Laplace's approximation errs by less
BY_CHANCE = 0.01  # probability of a false alarm of R-hat in one result, over all its quantities
FINISHED, FAILED, INTERRUPTED = 0, 3, 130
ABOVE, BELOW = "above", "below"
NAMED = 3  # quantities that a message names


class Finding(NamedTuple):
    """A measurement: one value per quantity, and the inputs of the threshold and of the message."""

    values: np.ndarray  # (Q,)
    names: Sequence[str] = ()  # Q
    size: Any = 0  # effective sizes (Q,), or the number of draws
    num_chains: int = 0
    details: Mapping[str, Any] = MappingProxyType({})  # for the message


class Verdict(NamedTuple):
    """One line of the table: results of the kinds ``applies`` fail if a value is ``fails`` (above, below) ``threshold``."""

    diagnostic: str
    applies: tuple[Kind, ...]
    fails: str
    threshold: float | Callable[[Finding], np.ndarray]
    sentence: str  # {value}: the worst; {limit}: its threshold; {names}: quantities that fail; and ``Finding.details``
    exit: int = FAILED


EXPLAINED = "docs/reference/results.md"  # every verdict, under an `anchor`


class Problem(NamedTuple):
    """A failed verdict, or a remark if ``exit`` is 0."""

    diagnostic: str
    sentence: str
    exit: int


def anchor(diagnostic: str) -> str:
    """The anchor of a diagnostic in `EXPLAINED`.

    >>> anchor("R-hat")
    'warning-r-hat'
    """
    return "warning-" + re.sub(r"[^a-z0-9]+", "-", diagnostic.lower()).strip("-")


def largest_rhat(finding: Finding) -> np.ndarray:
    """(Q,): the R-hat that agreeing chains exceed in any quantity with probability `BY_CHANCE`; at least `RHAT`."""
    halves, forms = 2 * finding.num_chains, 2
    quantile = special.chdtri(halves - 1, BY_CHANCE / (forms * max(len(finding.values), 1)))  # of χ²
    by_chance = np.sqrt(1 + halves / np.maximum(finding.size, ESS) * quantile / (halves - 1))
    return np.maximum(RHAT, by_chance)


def smallest_size(finding: Finding, noise: float = NOISE) -> np.ndarray:
    """The limit for the smallest of Q estimates with relative error ``noise``, to tell whether all true sizes reach `ESS`."""
    number = max(len(finding.values), 1)
    return np.asarray(ESS * (1 - noise * -special.ndtri(1 - 0.5 ** (1 / number))))


def smallest_tail_size(finding: Finding) -> np.ndarray:
    """The limit of `smallest_size` for tail sizes."""
    return smallest_size(finding, TAIL_NOISE)


def largest_k(finding: Finding) -> np.ndarray:
    """The largest Pareto k-hat of ``size`` weights at which their averages are reliable."""
    return np.asarray(min(PARETO_K, 1 - 1 / np.log10(max(finding.size, 2))))


def largest_gap(finding: Finding) -> np.ndarray:
    """The tolerated error of a log joint of ``size`` nats in single precision, including that of rounding sums."""
    return WITHIN + SUMMED * np.abs(np.asarray(finding.size, dtype=float))


EVERY = tuple(Kind)
DRAWN = (Kind.CHAINS, Kind.INDEPENDENT, Kind.APPROXIMATION)
CHAINS, APPROXIMATION, OPTIMISED = (Kind.CHAINS,), (Kind.APPROXIMATION,), (Kind.POINT, Kind.APPROXIMATION)

VERDICTS = (
    Verdict("interrupted", EVERY, ABOVE, 0, "interrupted after {so_far}", INTERRUPTED),
    Verdict(
        "log joint",
        EVERY,
        ABOVE,
        0,
        "{value:.0f} of {total} values of the log joint are not finite: the parameters have overflowed or underflowed. Use a "
        "prior that keeps them away from 0 and infinity, or rescale the data",
    ),
    Verdict(
        "single precision",
        EVERY,
        ABOVE,
        largest_gap,
        "precision=32: the run saw log joints that are {off}; rounding alone explains at most {limit:.2g} nats. The cause is "
        "often groups very far apart for their width. Use precision=64",
    ),
    Verdict(
        "number of chains",
        CHAINS,
        BELOW,
        2,
        "one chain cannot show that it has missed a mode: its R-hat only compares its two halves. Run more (num_chains=4)",
    ),
    Verdict("number of draws", CHAINS, BELOW, 4, "too few draws for any diagnostic: take more (num_samples)"),
    Verdict(
        "chains that stand still",
        CHAINS,
        ABOVE,
        0,
        "{names} never moved: every draw is the same. Try another seed, or rescale the program's parameters",
    ),
    Verdict(
        "divergences",
        CHAINS,
        ABOVE,
        0,
        "{value:.0f} divergent transitions: the chains miss a region of high curvature. Raise target_accept, or reparametrise "
        "the program",
    ),
    Verdict(
        "energy",
        CHAINS,
        BELOW,
        BFMI,
        "E-BFMI {value:.2f} < {limit:.1f}: trajectories hardly reach the tails, as in a funnel, so means and "
        "intervals may be off. Reparametrise the program (a scale times standard normals), or use gibbs where the model has it",
    ),
    Verdict(
        "tree depth",
        CHAINS,
        ABOVE,
        CUT,
        "{value:.0%} of the trees reach max_tree_depth{depth}, and may have ended before they turned back: draws are right, "
        "but alike. Raise max_tree_depth, or rescale or reparametrise the program",
        FINISHED,
    ),
    Verdict(
        "R-hat",
        CHAINS,
        ABOVE,
        largest_rhat,
        "R-hat {value:.3f} > {limit:.3f} for {names}: the chains disagree. {apart}{advice}",
    ),
    Verdict(
        "unvisited mode",
        CHAINS,
        ABOVE,
        UNVISITED,
        "another mode has about {value:.0%} of the mass, and no chain has visited it ({where}). Whatever this result says is "
        "of the visited part alone: {remedy}",
    ),
    Verdict("other modes", CHAINS, ABOVE, 0, "{why}. All chains may be at one mode and agree. {remedy}", FINISHED),
    Verdict(
        "effective sample size",
        CHAINS,
        BELOW,
        smallest_size,
        "effective sample size {value:.0f} < {limit:.0f} for {names}: take more draws (num_samples)",
    ),
    Verdict(
        "tail effective sample size",
        CHAINS,
        BELOW,
        smallest_tail_size,
        "tail effective sample size {value:.0f} < {limit:.0f} for {names}: the ends of intervals are not known well. Take more "
        "draws (num_samples)",
    ),
    Verdict("iterations", OPTIMISED, ABOVE, 0, "the best start has not converged after {taken} iterations{advice}"),
    Verdict(
        "gradient",
        OPTIMISED,
        ABOVE,
        0,
        "the best start stopped after {taken} iterations, but its gradient is not 0: the optimum may lie on the boundary of "
        "the support, or the log joint may not be smooth there",
    ),
    Verdict(
        "few ancestors",
        CHAINS,
        BELOW,
        FEWEST_ANCESTORS,
        "all particles of a run descend from effectively {value:.1f} draws of the prior, and {limit:g} are needed: modes "
        "between which no move crosses may have been lost by chance, and the error of the evidence is unknown. Raise "
        "num_samples, or use another method",
    ),
    Verdict(
        "Pareto k-hat",
        APPROXIMATION,
        ABOVE,
        largest_k,
        "Pareto k-hat {value:.2f} > {limit:.2f}: this approximation does not fit the posterior, so do not rely on its "
        "intervals. Use nuts, or gibbs where the model has it",
    ),
    Verdict(
        "no Pareto k-hat",
        APPROXIMATION,
        ABOVE,
        0,
        "this approximation was not checked: {why}. Its intervals may be far too short. Compare it with gibbs or nuts",
    ),
    Verdict(
        "parts alike",
        APPROXIMATION,
        ABOVE,
        0.5,
        "{what} overlap in {value:.0%} of the draws: the approximation cannot tell some of them apart. Use fewer {what}, or "
        "other starts (seed)",
    ),
    Verdict(
        "another mode",
        APPROXIMATION,
        BELOW,
        3,
        "{number} of {total} starts ended at another mode, with up to {share} of the mass of the best ({value:.1f} nats below "
        "it), and the draws leave it out. Use nuts, or gibbs where the model has it, with several chains",
    ),
    Verdict(
        "heavier optimum",
        (Kind.POINT,),
        ABOVE,
        HEAVIER,
        "this optimum is the highest, but it has {here} of the mass that was found, and one that is {lower} nats lower has "
        "{there}: a high peak may be narrow. Use method=laplace, which compares optima by their masses, or method=nuts",
        FINISHED,
    ),
    Verdict(
        "starts at the best objective",
        OPTIMISED,
        BELOW,
        2,
        "only {value:.0f} of {total} starts reached {best}, so there may be {others}: raise num_starts until several agree",
    ),
    Verdict(
        "Pareto k-hat of rows",
        DRAWN,
        ABOVE,
        largest_k,
        "{number} of {total} rows have a Pareto k-hat above {limit:.2f} (the largest {value:.2f}), so elpd is not valid. "
        "inference.refit_rows(model, data, result) refits without each of these rows; more draws (num_samples) may also help",
        FINISHED,
    ),
)


def problem_of(verdict: Verdict, finding: Finding) -> Problem | None:
    """The problem that a verdict finds, or None if every value is on the good side of its threshold.

    NaN counts as good: it stands for a value that is not defined.
    """
    limit = verdict.threshold(finding) if callable(verdict.threshold) else verdict.threshold
    limits = np.broadcast_to(np.asarray(limit, dtype=float), np.shape(finding.values))
    bad = finding.values > limits if verdict.fails == ABOVE else finding.values < limits
    if not bad.any():
        return None
    worst_first = -finding.values[bad] if verdict.fails == ABOVE else finding.values[bad]
    order = np.flatnonzero(bad)[np.argsort(worst_first, kind="stable")]
    worst = order[0]
    names = [str(finding.names[place]) for place in (order if len(finding.names) else [])]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    details = {"value": finding.values[worst], "limit": limits[worst], "number": int(bad.sum())}
    words = details | {"names": ", ".join(names[:NAMED]) + more} | dict(finding.details)
    return Problem(verdict.diagnostic, verdict.sentence.format(**words), verdict.exit)


def judge(kind: Kind, findings: Mapping[str, Finding]) -> list[Problem]:
    """All problems of a result, in the order of the table, from its measurements."""
    lines = [each for each in VERDICTS if kind in each.applies and each.diagnostic in findings]
    problems = [problem_of(each, findings[each.diagnostic]) for each in lines]
    return [problem for problem in problems if problem is not None]


def verdict_on(diagnostic: str) -> Verdict:
    """The line of the table on one diagnostic."""
    return next(each for each in VERDICTS if each.diagnostic == diagnostic)
