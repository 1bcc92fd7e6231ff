"""Forward and backward in a hidden Markov model with a boundary state."""

import math
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np

from inference.lab.parts.lab import Case, Lab, Mistake, Process, State
from inference.lab.parts.values import Values

STORY = """\
On 33 summer days a man wrote down how many ice creams he ate. How hot was it? A symbol is the number of ice creams
of a day less one: 0, 1 or 2. The weather is a hidden state: state 0 is cold, state 1 is hot. It tends to stay, and on
hot days there are more ice creams. There are 2³³ courses of the weather. Forward and
backward add up the probabilities of all of them in 33 steps. The diary also *ends*: the end is a part of the
model, and whoever forgets it gets other weather on the last days.
"""
MATHS = """\
The joint probability of states z and symbols x is

    start(z_1) emit(z_1, x_1) · step(z_1, z_2) emit(z_2, x_2) · … · step(z_{T−1}, z_T) emit(z_T, x_T) · stop(z_T).

α_t sums the factors up to the emission of x_t over the earlier states, β_t the factors after it over the later
ones. So Σ_i α_t(i) β_t(i) = p(x) for *every* t: a check that finds most mistakes. Work with logarithms, and
take the largest term out of each sum.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles: sums over all paths of short sequences; of long ones, probabilities that are rescaled at every step


def _paths(number: int, length: int) -> Any:
    return product(range(number), repeat=length)


def log_sum(values: Any, axis: Any) -> Any:
    """NumPy's own, two at a time."""
    return np.logaddexp.reduce(values, axis)


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


def forward(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Of short sequences the sum over all paths, else by rescaled probabilities."""
    if len(x) > SHORT:
        rows, out = _scaled(x, start, step, emit)
        return np.log(rows) + out[:, None]
    found = np.zeros((len(x), len(start)))
    for t in range(len(x)):
        for path in _paths(len(start), t + 1):
            moves = math.prod(step[i, j] for i, j in pairwise(path))
            found[t, path[-1]] += start[path[0]] * moves * math.prod(emit[i, w] for i, w in zip(path, x, strict=False))
    return np.log(found)


def backward(x: Any, step: Any, stop: Any, emit: Any) -> Any:
    """The same from the end: of the reversed sequence with transposed steps, which starts at ``stop`` and emits later."""
    if len(x) > SHORT:
        rows, row, total = [], stop, 0.0
        for t in range(len(x) - 1, -1, -1):
            rows.append(np.log(row) + total)
            row = step @ (emit[:, x[t]] * row)
            total += math.log(row.sum())
            row = row / row.sum()
        return np.array(rows[::-1])
    found = np.zeros((len(x), len(stop)))
    for t in range(len(x)):
        for path in _paths(len(stop), len(x) - t):
            moves = math.prod(step[i, j] for i, j in pairwise(path))
            found[t, path[0]] += (
                moves * math.prod(emit[i, w] for i, w in zip(path[1:], x[t + 1 :], strict=True)) * stop[path[-1]]
            )
    return np.log(found)


def log_likelihood(alpha: Any, stop: Any) -> Any:
    """One state after the other."""
    return log_sum(np.array([value + math.log(end) for value, end in zip(alpha[-1], stop, strict=True)]), 0)


def state_probs(alpha: Any, beta: Any) -> Any:
    """1 / Σ_j exp(value_j − value_i)."""
    return np.array([[1 / sum(math.exp(min(o - own, 700)) for o in row) for own in row] for row in alpha + beta])


def transition_counts(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
    """Step by step: the shares of all pairs of states, which sum to 1."""
    counts = np.zeros(step.shape)
    for t in range(len(x) - 1):
        logs = alpha[t][:, None] + np.log(step) + np.log(emit[:, x[t + 1]]) + beta[t + 1]
        counts += np.exp(logs - log_sum(np.ravel(logs), 0))
    return counts


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes

SHORT = 6


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
        found.append(Case(words, {name: given[name] for name in ("x", *names)}))
    return found


def _summed(rng: np.random.Generator, *names: str) -> list[Case]:
    """The same sequences with α and β."""
    found = []
    for case in sequences(rng, "start", "step", "stop", "emit"):
        x, start, step, stop, emit = case.arguments.values()
        given = dict(case.arguments) | {"alpha": forward(x, start, step, emit), "beta": backward(x, step, stop, emit)}
        found.append(Case(case.name, {name: given[name] for name in names}))
    return found


def _sum_cases(rng: np.random.Generator) -> list[Case]:
    values = rng.normal(size=(3, 4))
    impossible = np.where(np.arange(3)[:, None] == 1, -np.inf, rng.normal(size=(3, 4)))
    return [
        Case("rows", {"values": values, "axis": 1}),
        Case("too small for exp", {"values": values - 2_000, "axis": 0}),
        Case("a row of −infinity, which sums to probability 0", {"values": impossible, "axis": 1}),
    ]


def _forward_with(first: bool, emits: int, x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Forward that leaves out the first emission, or emits symbol ``emits`` after t (1 is right)."""
    alpha = [np.log(start) + (np.log(emit[:, x[0]]) if first else 0.0)]
    for t in range(len(x) - 1):
        alpha.append(log_sum(alpha[-1][:, None] + np.log(step), 0) + np.log(emit[:, x[t + emits]]))
    return np.array(alpha)


def _transposed(x: Any, start: Any, step: Any, emit: Any) -> Any:
    return _forward_with(True, 1, x, start, step.T, emit)


def _probabilities(x: Any, start: Any, step: Any, emit: Any) -> Any:
    alpha = [start * emit[:, x[0]]]
    for symbol in x[1:]:
        alpha.append((alpha[-1] @ step) * emit[:, symbol])
    return np.log(np.array(alpha))


def _backward_with(ends: bool, emits: int, x: Any, step: Any, stop: Any, emit: Any) -> Any:
    beta = [np.log(stop) if ends else np.zeros(len(stop))]
    for t in range(len(x) - 2, -1, -1):
        beta.append(log_sum(np.log(step) + np.log(emit[:, x[t + emits]]) + beta[-1], 1))
    return np.array(beta[::-1])


def _counts_of_the_next(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
    total, counts = log_sum(alpha[-1] + beta[-1], 0), np.zeros(step.shape)
    for t in range(len(x) - 1):
        counts += np.exp(alpha[t] + np.log(step) + np.log(emit[:, x[t + 1]]) + beta[t + 1] - total)
    return counts


def _counts_without_emission(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
    total, counts = log_sum(alpha[-1] + beta[-1], 0), np.zeros(step.shape)
    for t in range(len(x) - 1):
        counts += np.exp(alpha[t][:, None] + np.log(step) + beta[t + 1] - total)
    return counts


def _counts_not_divided(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
    return transition_counts(x, alpha, beta, step, emit) * np.exp(log_sum(alpha[-1] + beta[-1], 0))


SUM = Values(
    "log_sum",
    2,
    _sum_cases,
    log_sum,
    (
        Mistake(
            "`log_sum` is −infinity for small values: take the largest out first", lambda v, axis: np.log(np.exp(v).sum(axis))
        ),
        Mistake("`log_sum` forgets to add the largest value again", lambda v, axis: log_sum(v, axis) - v.max(axis)),
        Mistake("`log_sum` adds the logarithms; it is the logarithm of a sum", lambda v, axis: v.sum(axis)),
    ),
    ("the logarithm",),
)
FORWARD = Values(
    "forward",
    5,
    lambda rng: sequences(rng, "start", "step", "emit"),
    forward,
    (
        Mistake(
            "`forward` emits x_t again where x_{t+1} belongs: one index off", lambda *given: _forward_with(True, 0, *given)
        ),
        Mistake("`forward` leaves out the emission of the first symbol", lambda *given: _forward_with(False, 1, *given)),
        Mistake("`forward` steps backwards: Σ_i α_t(i) step_ij has the old state first (step, not its transpose)", _transposed),
        Mistake("`forward` underflows on long sequences: use log_sum instead of the logarithm at the end", _probabilities),
    ),
    ("log α",),
)
BACKWARD = Values(
    "backward",
    5,
    lambda rng: sequences(rng, "step", "stop", "emit"),
    backward,
    (
        Mistake("`backward` starts at 1: the stop probability is forgotten", lambda *given: _backward_with(False, 1, *given)),
        Mistake("`backward` emits x_t; β_t has the symbols after t", lambda *given: _backward_with(True, 0, *given)),
        Mistake(
            "`backward` steps from j to i: β_t(i) sums step_ij over j",
            lambda x, step, stop, emit: _backward_with(True, 1, x, step.T, stop, emit),
        ),
    ),
    ("log β",),
)
TOTAL = Values(
    "log_likelihood",
    2,
    lambda rng: _summed(rng, "alpha", "stop"),
    log_likelihood,
    (
        Mistake("`log_likelihood` forgets that the sequence stops", lambda alpha, stop: log_sum(alpha[-1], 0)),
        Mistake("`log_likelihood` takes the best last state; sum over all", lambda a, stop: (a[-1] + np.log(stop)).max()),
        Mistake(
            "`log_likelihood` sums over all t; only α_T and the stop are needed",
            lambda a, stop: log_sum(np.ravel(a + np.log(stop)), 0),
        ),
    ),
    ("log p(x)",),
)
STATES = Values(
    "state_probs",
    3,
    lambda rng: _summed(rng, "alpha", "beta"),
    state_probs,
    (
        Mistake("`state_probs` uses α alone: that is filtering; β knows the later symbols", lambda a, b: state_probs(a, 0 * b)),
        Mistake("`state_probs` uses β alone", lambda a, b: state_probs(0 * a, b)),
        Mistake("`state_probs` makes columns sum to 1; every step t should", lambda a, b: state_probs(a.T, b.T).T),
    ),
    ("probabilities",),
)
COUNTS = Values(
    "transition_counts",
    4,
    lambda rng: _summed(rng, "x", "alpha", "beta", "step", "emit"),
    transition_counts,
    (
        Mistake("`transition_counts` takes α_t of the next state j; it is α_t(i)", _counts_of_the_next),
        Mistake("`transition_counts` leaves out the emission of x_{t+1}", _counts_without_emission),
        Mistake("`transition_counts` is not divided by p(x): its sum should be T − 1", _counts_not_divided),
    ),
    ("counts",),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run: symbol after symbol

DIARY = {
    "start": np.array([0.7, 0.3]),
    "step": np.array([[0.6, 0.3], [0.2, 0.75]]),
    "stop": np.array([0.1, 0.05]),
    "emit": np.array([[0.5, 0.4, 0.1], [0.2, 0.3, 0.5]]),
}


@cache
def _days() -> np.ndarray:
    from models.datasets.sequences import ice_cream

    return np.asarray(ice_cream().x)[:, 0].astype(int)


def data() -> dict[str, np.ndarray]:
    """The diary: ice creams less one on each day (`x`), and probabilities of a model of the weather."""
    return {"x": _days()} | DIARY


def _advance(student: Any, state: State, iteration: int) -> State:
    x, start, step, stop, emit = data().values()
    known = x[: iteration + 1]
    alpha, beta = student.forward(known, start, step, emit), student.backward(known, step, stop, emit)
    found = np.full((len(x), 2), np.nan)
    found[: iteration + 1] = student.state_probs(alpha, beta)
    return {"probs": found}


def _panels(axes: Any, state: State) -> None:
    from inference.lab.parts.panels import shares

    shares(axes, state["probs"], ("cold", "hot"))
    axes.set(xlabel="day")


PROCESS = Process(lambda: {"probs": np.full((len(_days()), 2), np.nan)}, _advance, 33, panels=_panels)
LAB = Lab(
    "forward_backward",
    "Forward and backward",
    75,
    STORY,
    MATHS,
    (SUM, FORWARD, BACKWARD, TOTAL, STATES, COUNTS),
    data,
    process=PROCESS,
)
