"""`inference.check_draws`: do draws that another sampler made have the location, the spread and the tails of the posterior?

Both the draws and the reference are finite, so that every difference is measured in its Monte Carlo standard error. The
summaries are bounded, so that the error exists for tails of any weight. Location is the mean rank of the draws in the
reference. Spread is the mean distance of this rank from ½. Tails are the shares of draws beyond two quantiles of the reference.

Ranks do not see how far away a few draws are, but means do. So a note names means and standard deviations that are far apart
although the ranks agree.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from inference.certificates.checks.posterior import TAILS, Bounded, bounded, deviations_of
from inference.certificates.sensitivity import of_one_look
from inference.diagnostics.quantities import quantities_of
from inference.engine.program import innermost
from inference.engine.sites import sites_of_model
from inference.engine.task import Kind, kind_of
from inference.fitting.fit import fit, modelled
from inference.fitting.foreign import as_result
from inference.fitting.prepare import as_arrays, x64
from inference.methods import exact, gibbs
from inference.results.draws import draws_of
from inference.results.triangles import sites_of
from inference.samplers.hints import SPELLINGS, Priors, other_priors
from models.base import Model
from models.errors import ZooError

LOCATION = "location by ranks"
SUMMARIES = {  # summary -> its name in `bounded`
    LOCATION: "",
    "spread by ranks": ", spread",
    "share below the 5 % quantile": ", lower tail",
    "share above the 95 % quantile": ", upper tail",
}
FALSE_ALARM = 1e-3  # of all comparisons together, if deviations were independent and normal
ENOUGH = 400  # effective draws of every quantity, of both sides (Vehtari et al. 2021); with fewer, standard errors mislead
APART = 1.01  # R-hat of chains that agree
WORTH = 400  # effective number of weighted draws of a reference, at least
SHOWN = 5
FAR = 10  # standard errors between means of draws whose ranks agree, which a note names
WIDER = 2  # times the standard deviation, likewise
GIVEN = "draws given by the user"
UNCHECKED = f"{GIVEN}: not checked"


@dataclass(frozen=True, repr=False)
class DrawsReport:
    """Quantities of draws and of a reference: a row for each, with deviations in standard errors."""

    table: pd.DataFrame  # by quantity and summary: draws, reference, deviation
    limit: float  # of a deviation
    reference: str  # in words
    inconclusive: tuple[str, ...]  # why the comparison is inconclusive
    hints: tuple[str, ...]  # at what is wrong
    notes: tuple[str, ...] = ()  # on differences that ranks do not show; they do not change the verdict
    sees: str = ""  # the size of an error that would have been detected, of draws that agree

    @property
    def verdict(self) -> str:
        """``draws agree``, ``draws differ``, or ``inconclusive``: the chains of one side disagree, or are too short."""
        if self.inconclusive:
            return "inconclusive"
        return "draws agree" if self.failed.empty else "draws differ"

    @property
    def passed(self) -> bool:
        """Whether the draws agree with the reference."""
        return self.verdict == "draws agree"

    @property
    def failed(self) -> pd.DataFrame:
        """The rows beyond the limit, the largest deviation first."""
        beyond = self.table[~(self.table["deviation"].abs() <= self.limit)]
        return beyond.sort_values("deviation", key=lambda column: -column.abs().fillna(np.inf))

    @property
    def says(self) -> str:
        """How many comparisons are within the limit."""
        number = len(self.table)
        within = f"{number - len(self.failed)} of {number} comparisons within {self.limit:.1f} standard errors"
        return "; ".join([f"{within} of {self.reference}", *self.inconclusive, *filter(None, [self.sees])])

    def marked(self, tree: xr.DataTree) -> xr.DataTree:
        """The result of `inference.target` with this verdict in its attributes; draws that agree have notes as their warnings.

        >>> posterior = target("gmm_simple")
        >>> tree = posterior.result(sites=fit(posterior.model, posterior.table, "exact", seed=1))
        >>> check_draws(posterior.model, posterior.table, tree).marked(tree).attrs["checked"]
        'draws agree'
        """
        warnings = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line and not line.startswith(GIVEN)]
        warnings += [f"{GIVEN}: {line}" for line in (*([] if self.passed else [self.verdict]), *self.notes)]
        return _with_attrs(tree, {"warnings": "\n".join(warnings), "checked": self.verdict})

    def __repr__(self) -> str:
        rows = [] if self.failed.empty else self.failed.head(SHOWN).round(3).to_string().splitlines()
        lines = [*(f"hint: {hint}" for hint in self.hints), *(f"note: {note}" for note in self.notes)]
        return "\n".join([f"{self.verdict}: {self.says}", *(f"  {line}" for line in [*rows, *lines])])


def check_draws(
    model: Model | Any,
    data: Any,
    draws: Any,
    reference: xr.DataTree | None = None,
    *,
    seed: int = 0,
    num_samples: int = 2_000,
    symmetry: Any = None,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    coords: Mapping[str, list[Any]] | None = None,
) -> DrawsReport:
    """Compare draws of a sampler with a reference: location, spread and tails of what no symmetry changes, by ranks.

    ``draws`` are as in `inference.as_result`: arrays (chain, draw, …) by site, a DataTree, or an MCMC that has run.
    ``reference`` is a result of `inference.fit`. Without one, it is four chains of ``num_samples`` draws of exact, gibbs or
    nuts, the first that takes model and table; these have certificates (``python -m inference.certify``). ``model`` may be a
    NumPyro function; ``symmetry``, ``dims`` and ``coords`` are then as in `inference.fit`.

    The verdict is *inconclusive* where chains of either side disagree (R-hat above 1.01), or a quantity has fewer than 400
    effective draws: then standard errors mislead. Else the largest of all deviations of right draws is beyond the limit in
    about one of a thousand comparisons of two samples. Hints name the number of the prior that would explain a difference, or
    the site that holds covariances, variances or standard deviations in place of precisions. A note names means or standard
    deviations that are far apart although the ranks agree, as those of a few wild draws; it does not change the verdict.

    Raises `ZooError` for draws that are not of the sites of the model, that are those of the reference, or a reference that has
    no draws of the posterior.

    >>> posterior = target("gmm_simple")
    >>> draws = fit(posterior.model, posterior.table, "exact", seed=1)
    >>> check_draws(posterior.model, posterior.table, draws).verdict
    'draws agree'
    """
    naming = {"symmetry": symmetry, "dims": dims, "coords": coords}
    result = as_result(model, data, draws, "draws", kind="chains", **naming)
    if reference is None:
        reference = _reference(model, data, seed, num_samples, naming)
    if kind_of(reference) not in (Kind.CHAINS, Kind.INDEPENDENT):
        raise ZooError(
            f"reference: a result of {reference.attrs['method']} is no draws of the posterior; use exact, gibbs or nuts"
        )
    sides = _compared(result, reference)
    if np.array_equal(sides.one, sides.other):
        raise ZooError("draws: they are those of the reference, draw by draw; give another seed=")
    words = f"{sides.other.shape[0]} × {sides.other.shape[1]} draws of {reference.attrs['method']}"
    reasons = (*_inconclusive("your draws", sides.one, sides.names), *_inconclusive("the reference", sides.other, sides.names))
    hints: list[str] = []
    if not sides.agrees:
        hints += _other_scales(model, data, result, reference, naming)
        hints += [] if reasons or hints else _other_priors(model, data, reference, sides)
    sees = _sees(sides) if sides.agrees and not reasons else ""
    return DrawsReport(sides.table, sides.limit, words, reasons, tuple(hints), tuple(_notes(sides)), sees)


class DrawsComparison(NamedTuple):
    """Quantities (chain, draw, Q) that draws and a reference both have, and their summaries."""

    names: list[str]
    one: np.ndarray
    other: np.ndarray
    table: pd.DataFrame
    limit: float

    @property
    def agrees(self) -> bool:
        """Whether every deviation is within the limit."""
        return bool((self.table["deviation"].abs() <= self.limit).all())


def _compared(result: xr.DataTree, reference: xr.DataTree) -> DrawsComparison:
    (mine, names), (theirs, others) = quantities_of(result), quantities_of(reference)
    common = [name for name in others if name in set(names)]
    one, other = (drawn[..., [list(known).index(n) for n in common]] for drawn, known in ((mine, names), (theirs, others)))
    infinite = [name for name in others if name not in set(names)]  # at some draw
    table = _table(one, other, common, infinite)
    return DrawsComparison(common, one, other, table, float(stats.norm.isf(FALSE_ALARM / 2 / len(table))))


def _sees(compared: DrawsComparison) -> str:
    """The error of the quantity with the fewest effective draws that nine of ten runs would detect, in words."""
    sizes = [_effective(drawn) for drawn in (compared.one, compared.other)]
    worst = int(np.argmax(sum(1 / size for size in sizes)))
    shift, narrow = of_one_look(compared.limit, *(float(size[worst]) for size in sizes))
    return (
        f"a shift of {compared.names[worst]} by {shift:.2f} standard deviations, or {narrow:.0%} less spread, would be seen in "
        "nine of ten runs"
    )


def marked(tree: xr.DataTree) -> xr.DataTree:
    """The same result with a warning that its draws are not checked."""
    warnings = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line]
    return _with_attrs(tree, {"warnings": "\n".join([*warnings, UNCHECKED]), "checked": "not checked"})


def _with_attrs(tree: xr.DataTree, attrs: Mapping[str, str]) -> xr.DataTree:
    marked_tree = tree.copy()
    marked_tree.attrs.update(attrs)
    return marked_tree


def _reference(model: Any, data: Any, seed: int, num_samples: int, naming: Mapping[str, Any]) -> xr.DataTree:
    """Draws of the first method that takes the model; ``exact`` takes no tables with too many assignments.

    Their seed is another one than that of `fit` with the same ``seed``: draws are not to be compared with themselves.
    """
    algebra = model.algebra if isinstance(model, Model) else None
    seed_of_method = int(np.random.SeedSequence([seed, num_samples]).generate_state(1)[0] // 2)
    options: dict[str, Any] = {"seed": seed_of_method, "num_samples": num_samples, "num_chains": 4}
    if algebra is not None and exact.METHOD.support.why_not(algebra) is None:
        with suppress(exact.NotSummableError):
            return fit(model, data, "exact", **options)
    sweeps = algebra is not None and gibbs.METHOD.support.why_not(algebra) is None
    return fit(model, data, "gibbs" if sweeps else "nuts", **options, **naming)


def _table(one: np.ndarray, other: np.ndarray, names: list[str], infinite: list[str]) -> pd.DataFrame:
    """Every summary of every quantity (chain, draw, Q); one that is infinite at some draw deviates by infinity."""
    rows = []
    for place, name in enumerate(names):
        shares, pairs = _pairs(other[..., place], one[..., place])
        deviations = deviations_of(pairs, shares)
        for summary, ending in SUMMARIES.items():
            theirs, mine = pairs[ending]
            rows.append((name, summary, float(mine.mean()), float(shares @ theirs), deviations[ending]))
    rows += [(name, LOCATION, np.nan, np.nan, np.inf) for name in infinite]
    columns = ["quantity", "summary", "draws", "reference", "deviation"]
    return pd.DataFrame(rows, columns=columns).set_index(["quantity", "summary"])


def _pairs(reference: np.ndarray, drawn: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, Bounded]:
    """Location, spread and both tails of draws (chain, draw), by ranks in a reference, which may have weights (S,); its shares.

    Draws of the reference are thinned to as many as are independent.
    """
    flat = reference.reshape(-1)
    step = max(1, round(flat.size / _effective(reference[..., None])[0])) if weights is None else 1
    shares = np.full(flat[::step].size, step / flat.size) if weights is None else weights
    shares = shares / shares.sum()
    return shares, bounded("", flat[::step], shares, drawn)


def _effective(drawn: np.ndarray) -> np.ndarray:
    """(Q,): effective draws of (chain, draw, Q), the smaller of bulk and tails; those that never move count in full."""
    from arviz_stats.base import array_stats

    lead: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(divide="ignore", invalid="ignore"):
        bulk = np.asarray(array_stats.ess(drawn, method="bulk", **lead))
        tails = np.asarray(array_stats.ess(drawn, method="tail", prob=TAILS, **lead))
    moving = drawn.std((0, 1)) > 0
    return np.where(moving, np.fmin(bulk, tails), drawn.shape[0] * drawn.shape[1])


def _inconclusive(whose: str, drawn: np.ndarray, names: list[str]) -> list[str]:
    """Why draws (chain, draw, Q) are inconclusive: their chains disagree, or are too short."""
    from arviz_stats.base import array_stats

    warnings = []
    same = [f"{a + 1} and {b + 1}" for a, b in combinations(range(len(drawn)), 2) if np.array_equal(drawn[a], drawn[b])]
    if same:
        return [f"chains {', '.join(same)} of {whose} are identical: each chain needs a seed or key of its own"]
    moving = drawn[..., drawn.std((0, 1)) > 0]
    if len(drawn) > 1 and moving.shape[-1]:
        rhat = float(np.nanmax(array_stats.rhat(moving, chain_axis=0, draw_axis=1)))
        if rhat > APART:
            warnings.append(f"chains of {whose} disagree (R-hat {rhat:.2f}): they are at several modes, or too short")
    sizes = _effective(drawn)
    worst = int(np.argmin(np.nan_to_num(sizes)))
    if not sizes[worst] >= ENOUGH:
        warnings.append(f"{whose} are worth {sizes[worst]:.0f} independent ones for {names[worst]}, and {ENOUGH} are needed")
    return warnings


def _notes(compared: DrawsComparison) -> list[str]:
    """The quantity whose mean, or standard deviation, is furthest apart from that of the reference although its ranks agree."""
    one, other = compared.one, compared.other
    within = (compared.table["deviation"].abs() <= compared.limit).groupby(level="quantity").all()
    deviations = [draws.std((0, 1), ddof=1) for draws in (one, other)]
    errors = deviations[1] * np.sqrt(1 / _effective(one) + 1 / _effective(other))
    with np.errstate(divide="ignore", invalid="ignore"):  # of a quantity that never moves
        apart = np.nan_to_num(np.abs(one.mean((0, 1)) - other.mean((0, 1))) / errors / FAR)
        wider = np.nan_to_num(np.exp(np.abs(np.log(deviations[0] / deviations[1]))) / WIDER)
    size = np.where([within[name] for name in compared.names], np.maximum(apart, wider), 0.0)
    if not (size > 1).any():
        return []
    worst, others = int(np.argmax(size)), int((size > 1).sum()) - 1
    moments = [f"{draws[..., worst].mean():.3g} ± {draws[..., worst].std(ddof=1):.3g}" for draws in (one, other)]
    more = f" (and {others} more)" if others else ""
    return [
        f"mean ± standard deviation of {compared.names[worst]}{more} is {moments[0]}, and {moments[1]} in the reference, "
        f"although ranks agree: a few wild draws, or tails so heavy that means are unreliable"
    ]


def _other_scales(model: Any, data: Any, result: xr.DataTree, reference: xr.DataTree, naming: Mapping[str, Any]) -> list[str]:
    """Whether the draws agree once a site is inverted: covariances in place of precisions, and the like."""
    sites, hints = sites_of(result, "posterior"), []
    with x64(64):
        declared, table = modelled(model, data, 64, **naming)
        supports = {name: innermost(s.support) for name, s in sites_of_model(declared, as_arrays(declared.rows(table))).items()}
    for name, value in sites.items():
        for spelling in SPELLINGS:
            if supports[name] not in spelling.supports:
                continue
            with suppress(ZooError, np.linalg.LinAlgError), np.errstate(divide="ignore"):  # outside the support of the site
                again = as_result(model, data, sites | {name: spelling.change(value)}, "draws", kind="chains", **naming)
                if _compared(again, reference).agrees:
                    hints.append(f"the draws agree if {name} holds {spelling.what}")
    return hints


def _other_priors(model: Any, data: Any, reference: xr.DataTree, comparison: DrawsComparison) -> list[str]:
    """Priors with one number changed under which the reference, reweighted, has the draws' location, spread and tails."""
    if not isinstance(model, Model):
        return []
    with x64(64):
        rows = as_arrays(model.rows(model.read(data)))
        sites = {name: np.asarray(value) for name, value in draws_of(model, reference, rows).items()}
        priors = Priors(model, rows)
        ratios = [(prior.what, priors.log_ratio(prior.hyper, sites)) for prior in other_priors(priors.own)]
    one, other, number = comparison.one, comparison.other, len(comparison.names)
    step = max(1, round(other[..., 0].size / _effective(other).min()))  # as many as are independent
    flat, fitting = other.reshape(-1, 1, number)[::step], []
    for what, log_ratio in ratios:
        weights = np.exp(log_ratio[::step] - log_ratio[::step].max())
        if not (log_ratio.any() and weights.sum() ** 2 / (weights**2).sum() >= WORTH):
            continue
        compared = [_pairs(flat[..., q], one[..., q], weights) for q in range(number)]
        deviations = [value for shares, pairs in compared for value in deviations_of(pairs, shares).values()]
        if np.all(np.abs(deviations) <= comparison.limit):
            fitting.append(what)
    return [f"the draws fit another prior: {' or '.join(fitting)}. Is that number wrong?"] if fitting else []
