"""Viterbi: the most probable path, and how it differs from the most probable states."""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from labs.parts.chains import DAYS, WEATHER, best_of_all, best_to_each, diary, model, sequences
from labs.parts.chains import backward as log_backward
from labs.parts.chains import forward as log_forward
from labs.parts.lab import Case, Iterations, Lab, Mistake, State
from labs.parts.values import Values

STORY = """\
Which weather explains a diary of ice creams best: not day by day, but as one story from the first day to the
last? A symbol is the number of ice creams of a day less one: 0, 1 or 2. State 0 is cold weather, state 1 is hot.
Viterbi's table finds the most probable path among 2³³. For each day and each weather it keeps only the best way
to get there. It is the same recursion as forward, with a maximum for the sum, and the usual mistakes are the same:
forgetting the first emission or the stop.
"""
MATHS = """\
The joint probability of a path z and symbols x is

    start(z_1) emit(z_1, x_1) · step(z_1, z_2) emit(z_2, x_2) · … · step(z_{T−1}, z_T) emit(z_T, x_T) · stop(z_T).

The best path to state j at time t + 1 comes from some state i at time t. Its beginning must be the best path to
state i at time t: a better one would improve the whole. So one number and one pointer are enough for each time and
state. Taking the most probable state of each day instead makes fewer single errors, and its path may have
probability 0.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles: all paths, see parts/chains.py


def log_joint(path: Any, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """Factor by factor."""
    total = math.log(start[path[0]]) + math.log(stop[path[-1]])
    total += sum(math.log(emit[state, symbol]) for state, symbol in zip(path, x, strict=True))
    return total + sum(math.log(step[i, j]) for i, j in pairwise(path))


def best_scores(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Of short sequences the best of all paths to each entry; of long ones state by state."""
    return (best_to_each if len(x) <= LISTED else _best_by_state)(x, start, step, emit)


def _best_by_state(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """By the table, one entry after the other."""
    states = range(len(start))
    scores, pointers = np.zeros((len(x), len(start))), np.zeros((len(x), len(start)), int)
    scores[0] = [math.log(start[j] * emit[j, x[0]]) for j in states]
    for t in range(1, len(x)):
        for j in states:
            ways = [scores[t - 1, i] + math.log(step[i, j]) for i in states]
            pointers[t, j] = ways.index(max(ways))
            scores[t, j] = max(ways) + math.log(emit[j, x[t]])
    return scores, pointers


def best_path(x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """The best of all S^T paths; of long sequences by the table."""
    if len(x) <= LISTED:
        return best_of_all(x, start, step, stop, emit)
    return _path_with(True, True, x, start, step, stop, emit)


def tags(alpha: Any, beta: Any) -> Any:
    """Step by step."""
    return np.array([max(range(len(a)), key=lambda i: a[i] + b[i]) for a, b in zip(alpha, beta, strict=True)])


LISTED = 8


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _joint_cases(rng: np.random.Generator) -> list[Case]:
    """Both paths of several symbols end where they do not start."""
    found = []
    for name, length in (("1 symbol", 1), ("6 symbols", 6), (LONG, 900)):
        path = rng.integers(3, size=length)
        path[0] = (path[-1] + (length > 1)) % 3
        given = {"path": path, "x": rng.integers(4, size=length)} | model(rng, 3, 4)
        found.append(Case(name, given, name == LONG))
    return found


def _path_cases(rng: np.random.Generator) -> list[Case]:
    """Sequences on which slips change the path, and a long one."""
    found: list[Case] = []
    while len(found) < 3:
        given = {"x": rng.integers(4, size=5)} | model(rng, 3, 4)
        right = _path_with(True, True, *given.values())
        others = [_path_with(False, True, *given.values()), _path_with(True, False, *given.values())]
        others += [_greedy(*given.values()), _decoded(*given.values())]
        if not any(np.array_equal(right, other) for other in others):
            found.append(Case(f"five symbols, {len(found) + 1}", given))
    return [
        *found,
        Case(LONG, {"x": rng.integers(4, size=900)} | model(rng, 2, 4), True),
    ]


def _tag_cases(rng: np.random.Generator) -> list[Case]:
    """Sequences whose best states are clearly the best, also in single precision."""
    found: list[Case] = []
    for name, length in (("30 symbols, 1", 30), ("30 symbols, 2", 30), (LONG, 900)):
        while True:
            x, (start, step, stop, emit) = rng.integers(4, size=length), model(rng, 3, 4).values()
            given = {"alpha": log_forward(x, start, step, emit), "beta": log_backward(x, step, stop, emit)}
            best = np.sort(given["alpha"] + given["beta"], axis=1)
            if (best[:, -1] - best[:, -2]).min() > CLEAR:
                break
        found.append(Case(name, given, name == LONG))
    return found


CLEAR = 1e-3
LONG = "900 symbols, whose probability underflows"


def _decoded(x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """The most probable state of each day: posterior decoding."""
    return tags(log_forward(x, start, step, emit), log_backward(x, step, stop, emit))


def _path_with(first: bool, stops: bool, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """Viterbi without the first emission, or without the end."""
    scores = np.log(start) + (np.log(emit[:, x[0]]) if first else 0.0)
    pointers = []
    for symbol in x[1:]:
        reached = scores[:, None] + np.log(step)
        pointers.append(reached.argmax(0))
        scores = reached.max(0) + np.log(emit[:, symbol])
    path = [int((scores + (np.log(stop) if stops else 0.0)).argmax())]
    for pointer in pointers[::-1]:
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1])


def _greedy(x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    return _scores_with(True, 1, x, start, step, emit).argmax(1)


def _scores_with(first: bool, emits: int, x: Any, start: Any, step: Any, emit: Any) -> Any:
    scores = [np.log(start) + (np.log(emit[:, x[0]]) if first else 0.0)]
    for t in range(len(x) - 1):
        scores.append((scores[-1][:, None] + np.log(step)).max(0) + np.log(emit[:, x[t + emits]]))
    return np.array(scores)


def _reached(pointers: Any, x: Any, start: Any, step: Any, emit: Any) -> Any:
    """(T − 1, S): the log probabilities that pointers lead to. Two pointers may be equally good."""
    if pointers[1:].min(initial=0) < 0:
        raise IndexError("states go from 0 to S − 1")
    scores = best_scores(x, start, step, emit)[0]
    return np.array([scores[t - 1, pointers[t]] + np.log(step[pointers[t], range(len(start))]) for t in range(1, len(x))])


def _pointers_of(scores: Any, x: Any, start: Any, step: Any, emit: Any) -> Any:
    """The pointers that belong to the student's scores."""
    first = np.zeros((1, len(start)), int)
    return np.concatenate([first, [(scores[t - 1][:, None] + np.log(step)).argmax(0) for t in range(1, len(x))]])


def _weight_of(path: Any, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """The log probability of a path; raises IndexError for states that do not exist."""
    if path.min() < 0:
        raise IndexError("states go from 0 to S − 1")
    return np.array([log_joint(path, x, start, step, stop, emit)])


def _transposed(x: Any, start: Any, step: Any, emit: Any) -> Any:
    return best_scores(x, start, step.T, emit)


def _products(x: Any, start: Any, step: Any, emit: Any) -> Any:
    scores = [start * emit[:, x[0]]]
    for symbol in x[1:]:
        scores.append((scores[-1][:, None] * step).max(0) * emit[:, symbol])
    return np.log(scores)


def _pointer_in_words(found: Any, right: Any, given: Any) -> str:
    """``pointer [2, 1] names state 0, which gives -8.049; state 2 gives -7.201``."""
    gaps = _reached(right, **given) - _reached(found, **given)
    t, j = np.unravel_index(int(gaps.argmax()), gaps.shape)
    own, best = _reached(found, **given)[t, j], _reached(right, **given)[t, j]
    named = f"pointer [{t + 1}, {j}] names state {found[t + 1, j]}, which gives {own:.3f}"
    return f"{named}; state {right[t + 1, j]} gives {best:.3f}"


def _path_in_words(found: Any, right: Any, given: Any) -> str:
    """``your path has log probability -16.02; the best has -13.82``."""
    own, best = _weight_of(found, **given)[0], _weight_of(right, **given)[0]
    return f"your path has log probability {own:.2f}; the best has {best:.2f}"


def _joint_product(path: Any, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    moves = np.prod([step[i, j] for i, j in pairwise(path)])
    return np.log(start[path[0]] * moves * np.prod([emit[i, w] for i, w in zip(path, x, strict=True)]) * stop[path[-1]])


def _joint_transposed(path: Any, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    return log_joint(path, x, start, step.T, stop, emit)


def _joint_without(what: str, path: Any, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    parts = {"start": start[path[0]], "stop": stop[path[-1]], "first": emit[path[0], x[0]]}
    return log_joint(path, x, start, step, stop, emit) - math.log(parts[what])


JOINT = Values(
    "log_joint",
    4,
    _joint_cases,
    log_joint,
    (
        Mistake("`log_joint` forgets that the sequence stops", lambda *given: _joint_without("stop", *given)),
        Mistake("`log_joint` forgets where the path starts", lambda *given: _joint_without("start", *given)),
        Mistake("`log_joint` leaves out the emission of the first symbol", lambda *given: _joint_without("first", *given)),
        Mistake("`log_joint` steps backwards: step[i, j] has the old state first", _joint_transposed),
        Mistake(
            "`log_joint` stops at the first state of the path; it stops at the last",
            lambda path, x, start, step, stop, emit: (
                _joint_without("stop", path, x, start, step, stop, emit) + math.log(stop[path[0]])
            ),
        ),
        Mistake("`log_joint` takes the logarithm of a product, which underflows: add logarithms", _joint_product),
    ),
    ("log p(path, x)",),
)
SCORES = Values(
    "best_scores",
    6,
    lambda rng: sequences(rng, "start", "step", "emit"),
    best_scores,
    (
        Mistake("`best_scores` leaves out the first emission", lambda *given: _scores_with(False, 1, *given), "scores"),
        Mistake("`best_scores` emits x_t where x_{t+1} belongs", lambda *given: _scores_with(True, 0, *given), "scores"),
        Mistake("`best_scores` sums over the states before, as forward does; take the maximum", log_forward, "scores"),
        Mistake("`best_scores` multiplies probabilities, which underflow: add logarithms", _products, "scores"),
        Mistake(
            "`best_scores` steps backwards: step[i, j] has the old state first (step, not its transpose)",
            lambda *given: _transposed(*given)[0],
            "scores",
        ),
        Mistake(
            "`best_scores` forgets where the path starts",
            lambda x, start, step, emit: best_scores(x, np.ones(len(start)), step, emit)[0],
            "scores",
        ),
        Mistake(
            "`best_scores` returns probabilities; their logarithms are asked for",
            lambda *given: np.exp(best_scores(*given)[0]),
            "scores",
        ),
        Mistake(
            "the pointers of `best_scores` step backwards, too: step[i, j] has the old state first",
            lambda *given: _transposed(*given)[1],
            "pointers",
        ),
        Mistake(
            "the pointers of `best_scores` are one row early: row t says where the path to t came from",
            lambda *given: np.roll(best_scores(*given)[1], -1, 0),
            "pointers",
        ),
        Mistake(
            "the pointers of `best_scores` count states from 1; they go from 0 to S − 1",
            lambda *given: best_scores(*given)[1] + 1,
            "pointers",
        ),
    ),
    ("scores", "pointers"),
    {"pointers": lambda pointers, given: _reached(pointers, *given.values())},
    {"pointers": lambda found, *given: _pointers_of(found["scores"], *given)},
    {"pointers": _pointer_in_words},
    plural=("scores", "pointers"),
)
PATH = Values(
    "best_path",
    7,
    _path_cases,
    best_path,
    (
        Mistake(
            "`best_path` does not see the first symbol: its emission is missing", lambda *given: _path_with(False, True, *given)
        ),
        Mistake(
            "`best_path` forgets that the sequence stops: add log stop to the last scores",
            lambda *given: _path_with(True, False, *given),
        ),
        Mistake("`best_path` takes the best score of each step; go back along the pointers from the last one", _greedy),
        Mistake("`best_path` takes the most probable state of each step; the most probable path is asked for", _decoded),
        Mistake("`best_path` counts states from 1; they go from 0 to S − 1", lambda *given: best_path(*given) + 1),
        Mistake("`best_path` is backwards: you have collected it from its end", lambda *given: best_path(*given)[::-1]),
    ),
    ("path",),
    {"path": lambda path, given: _weight_of(path, *given.values())},  # two paths may be equally good
    told={"path": _path_in_words},
)
TAGS = Values(
    "tags",
    3,
    _tag_cases,
    tags,
    (
        Mistake("`tags` uses α alone: later symbols count, too", lambda alpha, beta: alpha.argmax(1)),
        Mistake("`tags` uses β alone: earlier symbols count, too", lambda alpha, beta: beta.argmax(1)),
        Mistake("`tags` multiplies logarithms: add them", lambda alpha, beta: (alpha * beta).argmax(1)),
        Mistake(
            "`tags` multiplies probabilities, which underflow: add their logarithms",
            lambda alpha, beta: (np.exp(alpha) * np.exp(beta)).argmax(1),
        ),
    ),
    ("states",),
    plural=("states",),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run: day after day


def _advance(student: Any, state: State, iteration: int) -> State:
    x, *given = diary().values()
    path = np.full(len(x), np.nan)
    path[: iteration + 1] = student.best_path(x[: iteration + 1], *given)
    return {"path": path}


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import steps

    steps(axes, state["path"], WEATHER)
    axes.set(xlabel="day")


ITERATIONS = Iterations(lambda: {"path": np.full(DAYS, np.nan)}, _advance, DAYS, panels=_panels)
LAB = Lab(
    "viterbi", "Viterbi's most probable path", 50, STORY, MATHS, (JOINT, SCORES, PATH, TAGS), diary, iterations=ITERATIONS
)
