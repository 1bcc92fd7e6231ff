"""Forward and backward in a hidden Markov model with a boundary state."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labs.parts.chains import DAYS, WEATHER, backward, diary, forward, log_sum, sequences, transition_counts
from labs.parts.lab import Case, Iterations, Lab, Mistake, State
from labs.parts.naive import softmax
from labs.parts.values import Values

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
# Naive oracles, beside those of parts/chains.py


def log_likelihood(alpha: Any, stop: Any) -> Any:
    """One state after the other."""
    return log_sum(np.array([value + math.log(end) for value, end in zip(alpha[-1], stop, strict=True)]), 0)


def state_probs(alpha: Any, beta: Any) -> Any:
    """Step by step."""
    return softmax(alpha + beta)


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _summed(rng: np.random.Generator, *names: str) -> list[Case]:
    """The same sequences with α and β."""
    found = []
    for case in sequences(rng, "start", "step", "stop", "emit"):
        x, start, step, stop, emit = case.arguments.values()
        given = dict(case.arguments) | {"alpha": forward(x, start, step, emit), "beta": backward(x, step, stop, emit)}
        found.append(case._replace(arguments={name: given[name] for name in names}))
    return found


def _sum_cases(rng: np.random.Generator) -> list[Case]:
    """Of numbers too small for exp, some columns are far below others: the largest of all values is no help for them."""
    values = rng.normal(size=(3, 4))
    impossible = np.where(np.arange(3)[:, None] == 1, -np.inf, rng.normal(size=(3, 4)))
    return [
        Case("rows", {"values": values, "axis": 1}),
        Case("too small for exp", {"values": values - 1_000 * (1 + np.arange(4) % 2), "axis": 0}, True),
        Case("a row of −infinity, which sums to probability 0", {"values": impossible, "axis": 1}, True),
    ]


def _forward_with(first: bool, emits: int, x: Any, start: Any, step: Any, emit: Any, *, total: Any = log_sum) -> Any:
    """Forward that leaves out the first emission, emits symbol ``emits`` after t (1 is right), or takes another ``total``."""
    alpha = [np.log(start) + (np.log(emit[:, x[0]]) if first else 0.0)]
    for t in range(len(x) - 1):
        alpha.append(total(alpha[-1][:, None] + np.log(step), 0) + np.log(emit[:, x[t + emits]]))
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


def _backward_by(update: Callable[..., Any]) -> Callable[..., Any]:
    """Backward with an update of its own of (log step, log emit of the symbol, log stop, β): log_sum(step + emit + β, 1)."""

    def found(x: Any, step: Any, stop: Any, emit: Any) -> Any:
        beta = [np.log(stop)]
        for symbol in x[:0:-1]:
            beta.append(update(np.log(step), np.log(emit[:, symbol]), np.log(stop), beta[-1]))
        return np.array(beta[::-1])

    return found


def _later_probabilities(x: Any, step: Any, stop: Any, emit: Any) -> Any:
    beta = [stop]
    for symbol in x[:0:-1]:
        beta.append(step @ (emit[:, symbol] * beta[-1]))
    return np.log(np.array(beta[::-1]))


def _counts_by(term: Callable[..., Any]) -> Callable[..., Any]:
    """Counts with a term of its own of (α_t, log step, log emit of x_{t+1}, β_{t+1})."""

    def found(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
        total = log_sum(alpha[-1] + beta[-1], 0)
        terms = [term(alpha[t], np.log(step), np.log(emit[:, x[t + 1]]), beta[t + 1]) for t in range(len(x) - 1)]
        return np.exp(np.array(terms) - total).sum(0)

    return found


def _counts_with(first: int, unseen: int, later: int, emits: int, x: Any, *given: Any) -> Any:
    """Counts from step ``first`` on, without the last ``unseen``; β and the emission are so many steps after t (1 is right)."""
    alpha, beta, step, emit = given
    total, counts = log_sum(alpha[-1] + beta[-1], 0), np.zeros(step.shape)
    for t in range(first, len(x) - 1 - unseen):
        counts += np.exp(alpha[t][:, None] + np.log(step) + np.log(emit[:, x[t + emits]]) + beta[t + later] - total)
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
        Mistake(
            "`log_sum` is −infinity for values far below others: take the largest along the axis out, not that of all",
            lambda v, axis: v.max() + np.log(np.exp(v - v.max()).sum(axis)),
        ),
        Mistake("`log_sum` forgets to add the largest value again", lambda v, axis: log_sum(v, axis) - v.max(axis)),
        Mistake(
            "`log_sum` adds the largest value to the sum: take the logarithm of the sum first",
            lambda v, axis: np.exp(log_sum(v, axis) - v.max(axis)) + v.max(axis),
        ),
        Mistake("`log_sum` adds the logarithms; it is the logarithm of a sum", lambda v, axis: v.sum(axis)),
        Mistake("`log_sum` returns the largest value alone", lambda v, axis: v.max(axis)),
        Mistake(
            "`log_sum` is NaN where all values are −infinity: −∞ − (−∞) is no number, so take out 0 there",
            lambda v, axis: v.max(axis) + log_sum(v - v.max(axis, keepdims=True), axis),
        ),
    ),
    ("logarithm",),
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
        Mistake(
            "`forward` sums over the new state j; sum over the old state i",
            lambda x, start, *given: _forward_with(True, 1, x, start, *given, total=lambda values, axis: log_sum(values, 1)),
        ),
        Mistake(
            "`forward` makes every row sum to 1: α_t also has the probability of the symbols so far",
            lambda *given: (found := forward(*given)) - log_sum(found, 1)[:, None],
        ),
        Mistake(
            "`forward` takes start, step and emit for logarithms: they are probabilities",
            lambda x, start, step, emit: _forward_with(True, 1, x, np.exp(start), np.exp(step), np.exp(emit)),
        ),
        Mistake(
            "`forward` takes the best state before, as Viterbi's algorithm does: sum over all states before",
            lambda *given: _forward_with(True, 1, *given, total=np.max),
        ),
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
        Mistake(
            "`backward` underflows on long sequences: use log_sum instead of the logarithm at the end", _later_probabilities
        ),
        Mistake(
            "`backward` also emits x_t: β_t has the symbols after t alone",
            lambda x, step, stop, emit: backward(x, step, stop, emit) + np.log(emit[:, x]).T,
        ),
        Mistake(
            "`backward` takes step, stop and emit for logarithms: they are probabilities",
            lambda x, step, stop, emit: _backward_with(True, 1, x, np.exp(step), np.exp(stop), np.exp(emit)),
        ),
        Mistake(
            "`backward` sums over the old state i; sum over the new state j",
            _backward_by(lambda step, emit, stop, beta: log_sum(step + emit + beta, 0)),
        ),
        Mistake(
            "`backward` takes the emission and β_{t+1} of the old state i; they are those of the new state j",
            _backward_by(lambda step, emit, stop, beta: log_sum(step + (emit + beta)[:, None], 1)),
        ),
        Mistake(
            "`backward` leaves out the emission of x_{t+1}",
            _backward_by(lambda step, emit, stop, beta: log_sum(step + beta, 1)),
        ),
        Mistake(
            "`backward` stops at every step; a sequence stops once, at its end",
            _backward_by(lambda step, emit, stop, beta: log_sum(step + emit + beta, 1) + stop),
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
        Mistake("`log_likelihood` takes the first row of α; take the last", lambda a, stop: log_sum(a[0] + np.log(stop), 0)),
        Mistake("`log_likelihood` adds stop to log α; add its logarithm", lambda a, stop: log_sum(a[-1] + stop, 0)),
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
        Mistake("`state_probs` is not divided by p(x): every row should sum to 1", lambda a, b: np.exp(a + b)),
        Mistake(
            "`state_probs` divides 0 by 0 on long sequences: take the largest out before exp",
            lambda a, b: np.exp(a + b) / np.exp(a + b).sum(1, keepdims=True),
        ),
    ),
    ("probabilities",),
    shares=("probabilities",),
    plural=("probabilities",),
)
COUNTS = Values(
    "transition_counts",
    4,
    lambda rng: _summed(rng, "x", "alpha", "beta", "step", "emit"),
    transition_counts,
    (
        Mistake(
            "`transition_counts` takes α_t of the next state j; it is α_t(i)",
            _counts_by(lambda alpha, step, emit, beta: alpha + step + emit + beta),
        ),
        Mistake(
            "`transition_counts` leaves out the emission of x_{t+1}",
            _counts_by(lambda alpha, step, emit, beta: alpha[:, None] + step + beta),
        ),
        Mistake("`transition_counts` is not divided by p(x): its sum should be T − 1", _counts_not_divided),
        Mistake(
            "`transition_counts` steps from j to i: use step, not its transpose",
            lambda x, a, b, step, emit: _counts_with(0, 0, 1, 1, x, a, b, step.T, emit),
        ),
        Mistake(
            "`transition_counts` takes β_t; it is β_{t+1}, of what comes after the step",
            lambda *given: _counts_with(0, 0, 0, 1, *given),
        ),
        Mistake(
            "`transition_counts` emits x_t; a step from t leads to the emission of x_{t+1}",
            lambda *given: _counts_with(0, 0, 1, 0, *given),
        ),
        Mistake(
            "`transition_counts` leaves out the last step: there are T − 1", lambda *given: _counts_with(0, 1, 1, 1, *given)
        ),
        Mistake(
            "`transition_counts` leaves out the first step: t goes from 1 to T − 1",
            lambda *given: _counts_with(1, 0, 1, 1, *given),
        ),
        Mistake(
            "`transition_counts` makes every row sum to 1: counts are asked for, not probabilities",
            lambda *given: (found := transition_counts(*given)) / found.sum(1, keepdims=True),
        ),
    ),
    ("counts",),
    plural=("counts",),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run: symbol after symbol


def _advance(student: Any, state: State, iteration: int) -> State:
    x, start, step, stop, emit = diary().values()
    known = x[: iteration + 1]
    alpha, beta = student.forward(known, start, step, emit), student.backward(known, step, stop, emit)
    found = np.full((len(x), 2), np.nan)
    found[: iteration + 1] = student.state_probs(alpha, beta)
    return {"probs": found}


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import shares

    shares(axes, state["probs"], WEATHER)
    axes.set(xlabel="day")


ITERATIONS = Iterations(lambda: {"probs": np.full((DAYS, 2), np.nan)}, _advance, DAYS, panels=_panels)
LAB = Lab(
    "forward_backward",
    "Forward and backward",
    75,
    STORY,
    MATHS,
    (SUM, FORWARD, BACKWARD, TOTAL, STATES, COUNTS),
    diary,
    iterations=ITERATIONS,
)
