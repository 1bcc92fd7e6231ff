"""What the labs of hidden Markov models share: oracles that go over all paths, random models, a diary of ice creams."""

import math
from itertools import pairwise, product
from typing import Any

import numpy as np

from labs.parts.lab import Case, made_once

SHORT = 6  # symbols of a sequence whose paths are all listed

# ---------------------------------------------------------------------------------------------------------------------
# One path, and all paths


def probability(path: Any, x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Of a path that need not stop, and its symbols, factor by factor."""
    moves = math.prod(step[i, j] for i, j in pairwise(path))
    return start[path[0]] * moves * math.prod(emit[i, w] for i, w in zip(path, x, strict=True))


def best_of_all(x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """The most probable of all paths; of two the first."""
    paths = product(range(len(start)), repeat=len(x))
    return np.array(max(paths, key=lambda path: probability(path, x, start, step, emit) * stop[path[-1]]))


def best_to_each(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """For each time and state the log probability of the best of all paths that end there, and its last state but one."""
    scores, pointers = np.zeros((len(x), len(start))), np.zeros((len(x), len(start)), int)
    for t, j in np.ndindex(scores.shape):
        paths = [(*before, j) for before in product(range(len(start)), repeat=t)]
        weights = [probability(path, x[: t + 1], start, step, emit) for path in paths]
        best = int(np.argmax(weights))
        scores[t, j], pointers[t, j] = np.log(weights[best]), paths[best][-2] if t else 0
    return scores, pointers


def log_sum(values: Any, axis: Any) -> Any:
    """NumPy's own, two at a time."""
    return np.logaddexp.reduce(values, axis)


def forward(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Of short sequences the sum over all paths, else by rescaled probabilities."""
    if len(x) > SHORT:
        rows, out = _scaled(x, start, step, emit)
        return np.log(rows) + out[:, None]
    found = np.zeros((len(x), len(start)))
    for t in range(len(x)):
        for path in product(range(len(start)), repeat=t + 1):
            found[t, path[-1]] += probability(path, x[: t + 1], start, step, emit)
    return np.log(found)


def backward(x: Any, step: Any, stop: Any, emit: Any) -> Any:
    """The same from the end: of what comes after each symbol."""
    if len(x) > SHORT:
        return _scaled_backward(x, step, stop, emit)
    found = np.zeros((len(x), len(stop)))
    for t in range(len(x)):
        for path in product(range(len(stop)), repeat=len(x) - t):
            later = probability(path[1:], x[t + 1 :], step[path[0]], step, emit) if path[1:] else 1.0
            found[t, path[0]] += later * stop[path[-1]]
    return np.log(found)


def transition_counts(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
    """Step by step: the shares of all pairs of states, which sum to 1."""
    counts = np.zeros(step.shape)
    for t in range(len(x) - 1):
        logs = alpha[t][:, None] + np.log(step) + np.log(emit[:, x[t + 1]]) + beta[t + 1]
        counts += np.exp(logs - log_sum(np.ravel(logs), 0))
    return counts


def _scaled(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Probabilities that are rescaled at every step: (T, S) of scaled values, (T,) of the logarithms taken out."""
    row, rows, out, total = start * emit[:, x[0]], [], [], 0.0
    for t in range(len(x)):
        if t:
            row = np.array([sum(row[i] * step[i, j] for i in range(len(row))) for j in range(len(row))]) * emit[:, x[t]]
        total += math.log(row.sum())
        row = row / row.sum()
        rows.append(row)
        out.append(total)
    return np.array(rows), np.array(out)


def _scaled_backward(x: Any, step: Any, stop: Any, emit: Any) -> Any:
    """Of the reversed sequence with transposed steps, which starts at ``stop`` and emits later."""
    rows, row, total = [], stop, 0.0
    for t in range(len(x) - 1, -1, -1):
        rows.append(np.log(row) + total)
        row = step @ (emit[:, x[t]] * row)
        total += math.log(row.sum())
        row = row / row.sum()
    return np.array(rows[::-1])


# ---------------------------------------------------------------------------------------------------------------------
# Cases


def model(rng: np.random.Generator, states: int, words: int) -> dict[str, np.ndarray]:
    """Random probabilities."""
    rows = rng.dirichlet(np.full(states + 1, 2.0), states)
    emit = rng.dirichlet(np.full(words, 2.0), states)
    return {"start": rng.dirichlet(np.full(states, 2.0)), "step": rows[:, :-1], "stop": rows[:, -1], "emit": emit}


def sequences(rng: np.random.Generator, *names: str) -> list[Case]:
    """A short sequence and one of 600 symbols."""
    found = []
    for words, states, length in (("five symbols", 3, 5), ("600 symbols, whose probability underflows", 2, 600)):
        given = {"x": rng.integers(4, size=length)} | model(rng, states, 4)
        found.append(Case(words, {name: given[name] for name in ("x", *names)}, extreme=length > SHORT))
    return found


# ---------------------------------------------------------------------------------------------------------------------
# A diary

DIARY = {
    "start": np.array([0.7, 0.3]),
    "step": np.array([[0.6, 0.3], [0.2, 0.75]]),
    "stop": np.array([0.1, 0.05]),
    "emit": np.array([[0.5, 0.4, 0.1], [0.2, 0.3, 0.5]]),
}
DAYS = 33
WEATHER = ("cold", "hot")


@made_once
def diary() -> dict[str, np.ndarray]:
    """The diary: ice creams less one on each day (`x`), and probabilities of a model of the weather."""
    from models.datasets.sequences import ice_cream

    return {"x": np.asarray(ice_cream().x)[:, 0].astype(int)} | DIARY
