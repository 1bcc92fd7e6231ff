"""Stability of topics: those of chains, of draws within a chain, and of several results are matched and compared.

The similarity of two topics is the overlap of their word probabilities, Σ_v min(p_v, q_v) = 1 − total variation distance: 1
for equal topics, 0 for topics without a common word. Sets of topics are matched one to one by the assignment with the largest
total overlap, as Greene, O'Callaghan and Cunningham (2014) match lists of words.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.engine.task import Kind, kind_of
from inference.results.tree import values
from inference.topics.access import OF_WORDS, require_topics
from models.base import Model, ZooError
from models.rows.encoded import spread

THRESHOLD = 0.7
WITHIN = 100  # draws per chain, evenly spread, that are matched: fewer if K²V is large
FEWEST, WORK = 10, 2e9
ROUNDS = 10


class ResultRun(NamedTuple):
    """The topics of one chain, or of one result."""

    name: str
    word_probs: np.ndarray  # (K, V): mean over its draws after they are matched
    within: np.ndarray | None  # (K,): mean overlap of its draws with that mean; None at a point
    log_joint: float


def overlap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Σ_v min(p_v, q_v) of every two rows of (K, V) and (L, V): (K, L)."""
    return np.stack([np.minimum(row, right).sum(1) for row in left])


def matched_to(reference: np.ndarray, probs: np.ndarray, free: bool = True) -> np.ndarray:
    """The topics (K, V) matched to those of the reference by overlap; unchanged unless ``free`` (labels may be permuted)."""
    return probs[_order(reference, probs)] if free else probs


def _order(reference: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """(K,): for each topic of the reference the one that overlaps most with it, in a matching of all."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and most results have no topics

    return linear_sum_assignment(-overlap(reference, probs))[1]


def topic_stability(
    model: Model, source: xr.DataTree | Mapping[str, xr.DataTree], threshold: float = THRESHOLD
) -> pd.DataFrame:
    """Which topics do all chains of a result find, or all of several results?

    ``source`` is a result with draws, whose chains are compared before relabelling, or a dict of results, for example by method
    or seed. Each result of a dict is one run: its point, or its chain with the highest mean log joint. Topics are named as in
    the run with the highest mean log joint. Returns a DataFrame with one row per topic:

    - ``agreement``: the smallest overlap of the topic between two runs; ``mean_agreement``: the mean over all pairs of runs
    - ``within``: mean overlap of single draws with the mean of their chain, the smallest over the runs; NaN for points
    - ``nearest_other``: overlap with the most similar other topic of the same run, for comparison
    - ``stable``: whether ``agreement`` is at least ``threshold`` (0.7 is a convention) and above ``nearest_other``

    ``attrs["summary"]`` is the table in words. Topics with fixed names, as with ``seeds``, are not matched to one another. Runs
    that agree may all be wrong: with similar starts they can miss the same mode. A result of a method with several starts keeps
    only the best start, so compare fits with several seeds. Raises `ZooError` for fewer than two runs, or results of another
    model.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> topic_stability(model, fit(model, data, "collapsed_gibbs")).attrs["summary"]
    '2 of 2 topics are found by each of 4 chains, with an overlap of 0.7 or more'
    """
    require_topics(model)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise ZooError(f"threshold must be a number above 0 and at most 1, got {threshold!r}")
    single = isinstance(source, xr.DataTree)
    # learnt hyperparameters may distinguish topics that are exchangeable in the model: only the result knows
    free = "posterior_raw" in source if single else model.symmetry is not None
    if isinstance(source, xr.DataTree) and _of_one_optimum(source):
        raise ZooError("the chains of this result are draws from one approximation: give a dict of results with several seeds")
    runs = _chains(source, free) if isinstance(source, xr.DataTree) else _results(model, source, free)
    if len(runs) < 2:
        raise ZooError(
            "there is only one chain: use num_chains=2 or more, or give a dict of results with several seeds"
            if single
            else "give at least two results to compare"
        )
    return _compared(list(model.naming.coords["topic"]), runs, free, float(threshold), single)


def agreement_of_chains(tree: xr.DataTree) -> pd.DataFrame | None:
    """`topic_stability` of the chains of a result, without its model; None without topics or without independent chains."""
    site = topic_site(tree)
    if site is None or "posterior" not in tree or tree["posterior"].sizes["chain"] < 2 or _of_one_optimum(tree):
        return None
    free = "posterior_raw" in tree
    return _compared(list(tree["posterior"].to_dataset()["topic"].values), _chains(tree, free), free, THRESHOLD, True)


def _of_one_optimum(tree: xr.DataTree) -> bool:
    """Whether draws are from an approximation around the best start: then chains always agree."""
    return kind_of(tree) is Kind.APPROXIMATION


def _compared(names: list[Any], runs: list[ResultRun], free: bool, threshold: float, single: bool) -> pd.DataFrame:
    base = max(runs, key=lambda run: run.log_joint).word_probs
    aligned = [_match_run(base, run, free) for run in runs]
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
    """The site of a result with the dimensions (topic, word); None if there is none."""
    group = "posterior" if "posterior" in tree else "point_estimate"
    variables = tree[group].to_dataset().data_vars if group in tree else {}
    return next((str(name) for name, variable in variables.items() if variable.dims[-2:] == OF_WORDS), None)


def _chains(tree: xr.DataTree, free: bool) -> list[ResultRun]:
    """One run per chain, from the draws before relabelling, with topics named as after relabelling."""
    if "posterior" not in tree:
        raise ZooError(
            "this result is a point, which keeps the best start alone: give a dict of results with several seeds, or a result "
            "with draws"
        )
    group = "posterior_raw" if "posterior_raw" in tree else "posterior"
    draws = values(tree, group, _site(tree))
    log_joint = values(tree, "functionals", "log_joint").mean(1)
    named = values(tree, "posterior", _site(tree)).mean((0, 1))
    runs = [_run(f"chain {c}", chain, float(log_joint[c]), free) for c, chain in enumerate(draws)]
    return [_match_run(named, run, free) for run in runs]


def _match_run(base: np.ndarray, run: ResultRun, free: bool) -> ResultRun:
    """A run with its topics matched to those of ``base`` by overlap; unchanged unless ``free``."""
    if not free:
        return run
    order = _order(base, run.word_probs)
    return run._replace(word_probs=run.word_probs[order], within=None if run.within is None else run.within[order])


def _results(model: Model, trees: Mapping[str, xr.DataTree], free: bool) -> list[ResultRun]:
    """One run per result: of several chains, the one with the highest log joint."""
    runs = []
    shape = tuple(len(model.naming.coords[dim]) for dim in OF_WORDS)
    for name, tree in trees.items():
        if not isinstance(tree, xr.DataTree):
            raise ZooError(f"{name}: expected a result, got {type(tree).__name__}")
        if "posterior" in tree:
            run = max(_chains(tree, free), key=lambda run: run.log_joint)._replace(name=str(name))
        else:
            probs = values(tree, "point_estimate", _site(tree))
            run = ResultRun(str(name), probs, None, float(values(tree, "functionals", "log_joint")))
        if run.word_probs.shape != shape:
            raise ZooError(
                f"{name} has topics of shape {run.word_probs.shape}, but the model {shape}: compare results of one model"
            )
        runs.append(run)
    return runs


def _site(tree: xr.DataTree) -> str:
    name = topic_site(tree)
    if name is None:
        raise ZooError("this result has no word probabilities of topics; is it a result of this model?")
    return name


def _run(name: str, draws: np.ndarray, log_joint: float, free: bool) -> ResultRun:
    """Draws (S, K, V) of one chain, each matched to their running mean, which starts as the last draw."""
    size = draws.shape[1] ** 2 * draws.shape[2]
    matched = draws[spread(len(draws), int(np.clip(WORK // size, FEWEST, WITHIN)))]
    mean = matched[-1]
    for _ in range(ROUNDS if free else 0):
        matched = match_draws(mean, matched)
        before, mean = mean, matched.mean(0)
        if np.array_equal(before, mean):
            break
    mean = matched.mean(0)
    within = np.mean([_overlap_of_pairs(mean, draw) for draw in matched], axis=0)
    return ResultRun(name, mean, within, log_joint)


def match_draws(reference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Draws (S, K, V), each matched to the reference (K, V).

    A draw is already in order, by the triangle inequality, if each of its topics is closer to its reference topic than half the
    distance from there to the nearest other one. Such draws are not matched.
    """
    between = overlap(reference, reference)
    np.fill_diagonal(between, 0.0)
    half = (1 - between.max(1)) / 2
    settled = [bool((1 - _overlap_of_pairs(reference, draw) < half).all()) for draw in draws]
    return np.stack([draw if done else matched_to(reference, draw) for draw, done in zip(draws, settled, strict=True)])


def disagreement(source: Any) -> str:
    """A warning if the chains of a result have different topics, which means over all draws would mix; otherwise ""."""
    agreement = agreement_of_chains(source) if isinstance(source, xr.DataTree) else None
    if agreement is None or agreement["stable"].all():
        return ""
    rest = agreement[~agreement["stable"]]["topic"].astype(str)
    few = f" and {len(rest) - 8} more" if len(rest) > 8 else ""
    return f"chains disagree on topic {', '.join(rest[:8])}{few}: figures on these are means over different topics"


def _unstable(topic: Any, agreement: float, nearest: float, close: bool) -> str:
    """An unstable topic with its agreement, and its overlap with another topic if that is the reason."""
    return f"{topic} ({agreement:.2f}, and {nearest:.2f} with another topic)" if close else f"{topic} ({agreement:.2f})"


def _in_words(frame: pd.DataFrame, runs: list[str], threshold: float, chains: bool) -> str:
    """A summary in one or two sentences."""
    stable, total = int(frame["stable"].sum()), len(frame)
    what = f"each of {len(runs)} chains" if chains else f"each of {', '.join(runs)}"
    text = f"{stable} of {total} topics are found by {what}, with an overlap of {threshold:g} or more"
    close = (frame["agreement"] >= threshold) & ~frame["stable"]
    if close.any():
        text += " that is above the overlap with any other topic"
    if stable < total:
        rest = frame.assign(close=close)[~frame["stable"]].sort_values("agreement")
        listed = ", ".join(map(_unstable, rest["topic"], rest["agreement"], rest["nearest_other"], rest["close"]))
        text += f"; but not topic {listed}: not every run finds these, and means over runs mix different topics"
    elif frame["within"].min() < threshold:
        text += "; single draws overlap less with their chain's mean: their words are uncertain"
    return text
