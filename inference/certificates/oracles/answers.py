"""Predictions of rows at draws of the parameters, and their weighted averages, written out.

A row that was fitted weights all draws alike, because they condition on it. A new row x weights draw s by p(x | θ_s), because
Σ_s p(x | θ_s) p(z | x, θ_s) / Σ_s p(x | θ_s) is p(z | x, data). Uncertain values have the mean and the variance of each draw;
the law of total variance makes one standard deviation of them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

Arrays = Mapping[str, np.ndarray]


class AllPaths(NamedTuple):
    """All paths of states through each of N sequences."""

    states: tuple[np.ndarray, ...]  # (P, length) of each sequence
    log_joint: tuple[np.ndarray, ...]  # (S, P) of each sequence: log p(x, path | θ_s)


class Answers(NamedTuple):
    """Predictions of N rows at each of S draws; names are those of `inference.predict`."""

    log_density: np.ndarray | None  # (S, N): log p(x_n | θ_s). None: it has no closed form, and is not compared
    values: Arrays = MappingProxyType({})  # (S, N, …): their means are compared
    uncertain: Mapping[str, tuple[np.ndarray, np.ndarray]] = MappingProxyType({})  # mean and variance, (S, N, …) each
    log_until: np.ndarray | None = None  # (S, N, L): log p(x_1 … x_t | θ_s) of sequences
    paths: AllPaths | None = None
    cells: Arrays = MappingProxyType({})  # as values, of (row, column): only those of missing cells are compared
    uncertain_cells: Mapping[str, tuple[np.ndarray, np.ndarray]] = MappingProxyType({})
    undefined: frozenset[str] = frozenset()  # averages that are NaN where a row has no such entry
    stored: frozenset[str] = frozenset()  # averages that results have in their group `latent` alone, and predictions lack
    reported: str = "probs"  # which of them a result has in its group `latent`


def shares(answers: Answers, fitted: bool) -> np.ndarray:
    """(S, N): the weight of every draw for every row."""
    if answers.log_density is None:
        number = len(next(iter(answers.values.values())))
        return np.full((number, 1), 1 / number)
    return softmax(0 * answers.log_density if fitted else answers.log_density, axis=0)


def mean(share: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Σ_s share_sn value_sn…: (N, …)."""
    return (share.reshape(*share.shape, *[1] * (value.ndim - 2)) * value).sum(0)


def spread(share: np.ndarray, centre: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """(N, …): the standard deviation within and between draws."""
    return np.sqrt(mean(share, variance + (centre - mean(share, centre)) ** 2))


def averages(answers: Answers, fitted: bool) -> dict[str, np.ndarray]:
    """All averages over the draws, by the name of the variable in a prediction, (N, …)."""
    share = shares(answers, fitted)
    averages_of = {name: mean(share, value) for name, value in {**answers.values, **answers.cells}.items()}
    for name, (centre, variance) in answers.uncertain.items():
        averages_of |= {name: mean(share, centre), f"{name}_sd": spread(share, centre, variance)}
    for name, (centre, variance) in answers.uncertain_cells.items():
        averages_of |= {f"{name}_mean": mean(share, centre), f"{name}_sd": spread(share, centre, variance)}
    if answers.log_density is not None:
        averages_of["log_density"] = log_mean(answers.log_density)
    if answers.log_until is not None:
        averages_of["step_log_density"] = np.diff(log_mean(answers.log_until), axis=1, prepend=0.0)
    return averages_of


def log_mean(logs: np.ndarray) -> np.ndarray:
    """Log of the mean of densities over the first axis."""
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(logs)))


def best_paths(answers: Answers, fitted: bool, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log p(path | x), averaged over draws: of the best among the paths that are the best of a draw, and of the ``shown`` ones.

    ``shown`` (N, L) are states. Both are (N,).
    """
    assert answers.paths is not None
    best, of_best = [], []
    for row, (states, logs) in enumerate(zip(*answers.paths, strict=True)):
        share = shares(answers, fitted)[:, row, None]
        assert answers.log_density is not None
        probs = (share * np.exp(logs - answers.log_density[:, row, None])).sum(0)  # (P,)
        best.append(np.log(probs[np.unique(logs.argmax(1))].max()))
        here = (states == shown[row, : states.shape[1]]).all(1)
        of_best.append(np.log(probs[here].sum()))
    return np.array(best), np.array(of_best)
