"""Are topics found again? Those of chains, of draws within a chain, and of several results, matched and compared.

Two topics are as similar as their words overlap: Σ_v min(p_v, q_v), which is 1 − their total variation distance, 1 for equal
ones and 0 for such without a common word. Sets of topics are matched one to one by the assignment of the largest total overlap
(as Greene, O'Callaghan and Cunningham 2014 do for lists of words).
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linear_sum_assignment

from inference.results import values
from inference.topic_sites import OF_WORDS, require_topics
from models.base import Model, Permutation, ZooError
from models.rows import spread

THRESHOLD = 0.7
WITHIN = 100  # draws of a chain, evenly spread, that are matched: fewer where K²V is large
FEWEST, WORK = 10, 2e9
ROUNDS = 10


class Run(NamedTuple):
    """The topics of one chain, or of one result."""

    name: str
    word_probs: np.ndarray  # (K, V): mean over its draws after they are matched
    within: np.ndarray | None  # (K,): mean overlap of its draws with that mean; None at a point
    log_joint: float


def overlap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Σ_v min(p_v, q_v) of every two rows of (K, V) and (L, V): (K, L)."""
    return np.stack([np.minimum(row, right).sum(1) for row in left])


def matched_to(reference: np.ndarray, probs: np.ndarray, free: bool = True) -> np.ndarray:
    """The topics (K, V) in the order in which they overlap most with the reference's; as they are where names are fixed."""
    return probs[linear_sum_assignment(-overlap(reference, probs))[1]] if free else probs


def topic_stability(
    model: Model, source: xr.DataTree | Mapping[str, xr.DataTree], threshold: float = THRESHOLD
) -> pd.DataFrame:
    """Which topics every chain of a result finds, or every one of several results: a row a topic.

    ``source`` is a result with draws, whose chains are compared by their raw draws, or a dict of results, by methods, seeds or
    whatever, of which each is one run: its point, or the chain with the highest mean log joint density. Topics are named as in
    the run where that is highest. Columns:

    - ``agreement``: the least overlap of the topic between two runs, and ``mean_agreement`` the mean over all pairs of runs
    - ``within``: mean overlap of single draws with the mean of their chain, the least of all runs; NaN for points
    - ``nearest_other``: overlap with the most similar other topic of the same run: what an overlap is worth here
    - ``stable``: whether ``agreement`` reaches ``threshold``, a convention, and is above ``nearest_other``

    ``attrs["summary"]`` says it in words. Where symmetry does not permute topics, as with seeds, none is matched to another.
    Runs that agree may be wrong together: started alike they can miss the same mode. Of a method with several starts the result
    holds the best alone, so that fits with several seeds have to be compared. Raises `ZooError` for less than two runs.
    """
    require_topics(model)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise ZooError(f"threshold must be a number above 0 and at most 1, got {threshold!r}")
    single = isinstance(source, xr.DataTree)
    # hyperparameters that were learnt may have told topics apart that the model has alike: a result knows
    free = "posterior_raw" in source if single else isinstance(model.symmetry, Permutation)
    if isinstance(source, xr.DataTree) and _of_one_optimum(source):
        raise ZooError("the chains of this result are draws from one approximation: give a dict of results with several seeds")
    runs = _chains(source, free) if isinstance(source, xr.DataTree) else _results(model, source, free)
    if len(runs) < 2:
        raise ZooError(
            "there is only one chain to look at: take num_chains=2 or more, or give a dict of results with several seeds"
            if single
            else "give at least two results to compare"
        )
    return _compared(list(model.coords["topic"]), runs, free, float(threshold), single)


def agreement_of_chains(tree: xr.DataTree) -> pd.DataFrame | None:
    """`topic_stability` of the chains of a result by itself; None where it has no topics, or no two chains that ran apart."""
    site = topic_site(tree)
    if site is None or "posterior" not in tree or tree["posterior"].sizes["chain"] < 2 or _of_one_optimum(tree):
        return None
    free = "posterior_raw" in tree
    return _compared(list(tree["posterior"].to_dataset()["topic"].values), _chains(tree, free), free, THRESHOLD, True)


def _of_one_optimum(tree: xr.DataTree) -> bool:
    """Whether draws are from an approximation around the best start: then chains agree, whatever the posterior is like."""
    return "posterior" in tree and "optimization" in tree


def _compared(names: list[Any], runs: list[Run], free: bool, threshold: float, single: bool) -> pd.DataFrame:
    base = max(runs, key=lambda run: run.log_joint).word_probs
    aligned = [_in_order(base, run, free) for run in runs]
    within = [run.within for run in aligned if run.within is not None]
    pairs = np.stack([_overlap_of_pairs(a.word_probs, b.word_probs) for a, b in combinations(aligned, 2)])
    other = overlap(base, base)
    np.fill_diagonal(other, 0.0)
    frame = pd.DataFrame(
        {
            "topic": names,
            "agreement": pairs.min(0),
            "mean_agreement": pairs.mean(0),
            "within": np.min(within, axis=0) if within else np.nan,
            "nearest_other": other.max(1),
        }
    )
    frame["stable"] = (frame["agreement"] >= threshold) & (frame["agreement"] > frame["nearest_other"])
    frame.attrs["summary"] = _in_words(frame, [run.name for run in runs], threshold, single)
    return frame


def _overlap_of_pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.minimum(left, right).sum(1)


def topic_site(tree: xr.DataTree) -> str | None:
    """The words by topic among the sites of a result; None where it has none."""
    group = "posterior" if "posterior" in tree else "point_estimate"
    found = tree[group].to_dataset().data_vars if group in tree else {}
    return next((str(name) for name, variable in found.items() if variable.dims[-2:] == OF_WORDS), None)


def _chains(tree: xr.DataTree, free: bool) -> list[Run]:
    """One run a chain, of the draws as the sampler left them, under the names that the relabelled ones have."""
    if "posterior" not in tree:
        raise ZooError(
            "this result is a point, of which the best start alone is kept: give a dict of results with several seeds, or one "
            "with draws"
        )
    group = "posterior_raw" if "posterior_raw" in tree else "posterior"
    draws = values(tree, group, _site(tree))
    log_joint = values(tree, "functionals", "log_joint").mean(1)
    named = values(tree, "posterior", _site(tree)).mean((0, 1))
    runs = [_run(f"chain {c}", chain, float(log_joint[c]), free) for c, chain in enumerate(draws)]
    return [_in_order(named, run, free) for run in runs]


def _in_order(base: np.ndarray, run: Run, free: bool) -> Run:
    """A run with its topics in the order in which they overlap most with those of ``base``; as it is where names are fixed."""
    if not free:
        return run
    order = linear_sum_assignment(-overlap(base, run.word_probs))[1]
    return run._replace(word_probs=run.word_probs[order], within=None if run.within is None else run.within[order])


def _results(model: Model, trees: Mapping[str, xr.DataTree], free: bool) -> list[Run]:
    """One run a result; of several chains that of the highest log joint density."""
    found = []
    shape = tuple(len(model.coords[dim]) for dim in OF_WORDS)
    for name, tree in trees.items():
        if not isinstance(tree, xr.DataTree):
            raise ZooError(f"{name}: expected a result, got {type(tree).__name__}")
        if "posterior" in tree:
            run = max(_chains(tree, free), key=lambda run: run.log_joint)._replace(name=str(name))
        else:
            probs = values(tree, "point_estimate", _site(tree))
            run = Run(str(name), probs, None, float(values(tree, "functionals", "log_joint")))
        if run.word_probs.shape != shape:
            raise ZooError(
                f"{name} has topics of shape {run.word_probs.shape}, and the model {shape}: compare what is of one model"
            )
        found.append(run)
    return found


def _site(tree: xr.DataTree) -> str:
    name = topic_site(tree)
    if name is None:
        raise ZooError("this result has no words by topic; is it one of this model?")
    return name


def _run(name: str, draws: np.ndarray, log_joint: float, free: bool) -> Run:
    """Draws (S, K, V) of one chain, each matched to their mean, which starts as the last draw."""
    size = draws.shape[1] ** 2 * draws.shape[2]
    matched = draws[spread(len(draws), int(np.clip(WORK // size, FEWEST, WITHIN)))]
    mean = matched[-1]
    for _ in range(ROUNDS if free else 0):
        matched = in_one_order(mean, matched)
        before, mean = mean, matched.mean(0)
        if np.array_equal(before, mean):
            break
    mean = matched.mean(0)
    within = np.mean([_overlap_of_pairs(mean, draw) for draw in matched], axis=0)
    return Run(name, mean, within, log_joint)


def in_one_order(reference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Draws (S, K, V) of which each is matched to the reference (K, V).

    A draw whose every topic is nearer to its own of the reference than half the way from there to the nearest other one is in
    order, by the triangle inequality, and not matched.
    """
    between = overlap(reference, reference)
    np.fill_diagonal(between, 0.0)
    half = (1 - between.max(1)) / 2
    settled = [bool((1 - _overlap_of_pairs(reference, draw) < half).all()) for draw in draws]
    return np.stack([draw if kept else matched_to(reference, draw) for draw, kept in zip(draws, settled, strict=True)])


def disagreement(source: Any) -> str:
    """A line where the chains of a result have found different topics, which a mean over all draws mixes; "" elsewhere."""
    found = agreement_of_chains(source) if isinstance(source, xr.DataTree) else None
    if found is None or found["stable"].all():
        return ""
    rest = found[~found["stable"]]["topic"].astype(str)
    few = f" and {len(rest) - 8} more" if len(rest) > 8 else ""
    return f"chains disagree on topic {', '.join(rest[:8])}{few}: what is said of these is a mean of different topics"


def _in_words(frame: pd.DataFrame, runs: list[str], threshold: float, chains: bool) -> str:
    """What was found, in one or two sentences."""
    stable, total = int(frame["stable"].sum()), len(frame)
    what = f"each of {len(runs)} chains" if chains else f"each of {', '.join(runs)}"
    text = f"{stable} of {total} topics are found by {what}, with an overlap of {threshold:g} or more"
    if stable < total:
        rest = frame[~frame["stable"]].sort_values("agreement")
        listed = ", ".join(f"{topic} ({value:.2f})" for topic, value in zip(rest["topic"], rest["agreement"], strict=True))
        text += f"; not so topic {listed}: these are what one run found, and means over runs mix different topics"
    elif frame["within"].min() < threshold:
        text += "; but single draws lie further from their chain's mean: their words are uncertain"
    return text
