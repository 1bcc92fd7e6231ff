"""Functions put together to a run: does what should climb climb, and where does it stop?"""

import copy
from typing import Any, NamedTuple

import numpy as np

from labs.parts.calls import AnswerError, called
from labs.parts.lab import Answer, Iterations, Result, State
from labs.parts.likeness import close

SLACK = 1e-6  # of the largest bound: single precision rounds sums of a hundred terms by less
ENDS = 3e-6  # of the bound at the end: runs in single precision are off by 1e-7, those that never update the weights by 7e-6


class Run(NamedTuple):
    """Half of the points for a bound that never falls, half for one that ends where the right steps end."""

    functions: tuple[str, ...]
    points: int
    iterations: Iterations
    right: Any  # a namespace of naive functions under the same names
    name: str = "run"
    patience: float = 1.0

    def collect(self, student: Any, seed: int) -> Answer:
        """The state after every iteration."""
        return states_as_answer(student, self.iterations)

    def judge(self, answer: Answer, seed: int) -> Result:
        """Says at which iteration the bound fell, and which update made it fall."""
        if answer.notes:
            return Result(self.name, 0.0, self.points, (str(answer.notes["run"]),))
        states, right = states_from(answer), states_of(self.right, self.iterations)
        if (said := _shapes(states[1], right[1])) is not None:
            return Result(self.name, 0.0, self.points, (said,))
        bounds = np.array([_bound(self.iterations, state) for state in states[1:]])
        wanted = _bound(self.iterations, right[-1])
        fallen = _first_fall(bounds)
        ends = bool(np.isfinite(bounds[-1]) and abs(bounds[-1] - wanted) <= ENDS * max(1.0, abs(wanted)))
        points = self.points / 2 * ((fallen is None) + ends)
        if fallen is not None:
            return Result(self.name, points, self.points, (_fall(self.iterations, states, bounds, fallen),))
        return Result(
            self.name, points, self.points, () if ends else (_elsewhere(self.iterations, states, bounds[-1], wanted),)
        )


def states_of(student: Any, iterations: Iterations) -> list[State]:
    """The start, and the state after every iteration. Raises `AnswerError` for an iteration that fails."""
    states = [iterations.start()]
    for iteration in range(iterations.steps):
        states.append(_next(student, iterations, copy.deepcopy(states[-1]), iteration))
    return states


def states_as_answer(student: Any, iterations: Iterations) -> Answer:
    """The states of a run as an answer."""
    try:
        states = states_of(student, iterations)
    except AnswerError as error:
        return Answer({}, {"run": str(error)})
    return Answer({f"{place}/{name}": value for place, state in enumerate(states) for name, value in state.items()}, {})


def states_from(answer: Answer) -> list[State]:
    """The states that `states_as_answer` has put into an answer."""
    states: dict[int, State] = {}
    for key, value in answer.arrays.items():
        place, name = key.split("/", 1)
        states.setdefault(int(place), {})[name] = value
    return [states[place] for place in sorted(states)]


def _next(student: Any, iterations: Iterations, state: State, iteration: int) -> State:
    found: State = {}

    def advance() -> float:
        after = iterations.advance(student, state, iteration)
        found.update({name: np.asarray(value, dtype=float) for name, value in after.items()})
        return 0.0

    try:
        called(advance, {}, ("state",), "")
    except AnswerError as error:
        raise AnswerError(f"iteration {iteration + 1} {error}") from error
    return found


def _shapes(found: State, right: State) -> str | None:
    """What has another shape than it should have after the first iteration."""
    for name, value in right.items():
        if found[name].shape != value.shape:
            return f"after iteration 1, {name} has shape {found[name].shape}, and should have {value.shape}"
    return None


def _bound(iterations: Iterations, state: State) -> float:
    """The bound of a state; NaN where it has none, as for a negative variance."""
    assert iterations.bound is not None
    try:
        with np.errstate(all="ignore"):
            return float(iterations.bound(state))
    except (ArithmeticError, LookupError, ValueError):  # of math.log, of an index that is no group
        return np.nan


def _wrong_updates(iterations: Iterations, before: State, after: State) -> dict[str, State]:
    """Updates that are not as they should be, given what the student has: name -> the state with this one mended.

    They come in the order of dependence. What cannot be computed from what the student has is left out.
    """
    found = {}
    for name, mend in iterations.updates.items():
        try:
            with np.errstate(all="ignore"):
                mended = mend(before, after)
        except (ArithmeticError, LookupError, ValueError):
            continue
        if not all(close(after[field], np.asarray(mended[field], dtype=float)) for field in after):
            found[name] = mended
    return found


def _first_fall(bounds: np.ndarray) -> int | None:
    """The first iteration (from 0) whose bound is below the one before, or is no number."""
    if not np.isfinite(bounds[0]):
        return 0
    fell = ~(np.diff(bounds) >= -SLACK * np.abs(bounds[:-1]))
    return int(fell.argmax()) + 1 if fell.any() else None


def _fall(iterations: Iterations, states: list[State], bounds: np.ndarray, fallen: int) -> str:
    """``your responsibilities sum to 1, but the log posterior fell at iteration 3 (…): look at the M-step of the means``."""
    before, after = states[fallen], states[fallen + 1]
    least = bounds[fallen - 1] if fallen else -np.inf
    wrong = _wrong_updates(iterations, before, after)
    cures = [name for name, mended in wrong.items() if (bound := _bound(iterations, mended)) >= least - SLACK * abs(bound)]
    culprits = [name for name in wrong if name == iterations.first] or cures or list(wrong)
    if np.isfinite(bounds[fallen]):
        fell = f"the {iterations.bound_name} fell at iteration {fallen + 1} (from {least:.6g} by {least - bounds[fallen]:.2g})"
    else:
        fell = f"the {iterations.bound_name} is no number after iteration {fallen + 1}"
    return _with_laws(iterations, after, fallen + 1, fell + (f": look at {culprits[0]}" if culprits else ""))


def _elsewhere(iterations: Iterations, states: list[State], found: float, wanted: float) -> str:
    """A bound that never falls, and ends where it should not: which update is the first that is not as it should be?"""
    steps = len(states) - 1
    reached = f"{found:.6g} after {steps} iterations; the right steps reach {wanted:.6g}"
    text = f"the {iterations.bound_name} never falls, but is {reached}"
    for iteration in range(steps):
        before, after = states[iteration : iteration + 2]
        for name in _wrong_updates(iterations, before, after):
            return _with_laws(iterations, after, iteration + 1, f"{text}: look at {name}", "and")
    return text


def _with_laws(iterations: Iterations, state: State, iteration: int, text: str, joined: str = "but") -> str:
    """The text after what holds of a state, or what does not. ``joined``: by this word to what holds."""
    with np.errstate(all="ignore"):
        broken = [law for law, holds in iterations.laws.items() if not holds(state)]
    if broken:
        return f"after iteration {iteration} it is not true that {broken[0]}, and {text}"
    return f"{next(iter(iterations.laws))}, {joined} {text}" if iterations.laws else text
