"""A function that draws: its draws are compared with those of an exact sampler, by means, squares and products."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from inference.lab.parts.calls import AnswerError, called
from inference.lab.parts.lab import Answer, Case, Mistake, Result
from inference.lab.parts.values import MOST_MESSAGES, half_points

DRAWS = 800
TIMES = 2  # as many draws of the exact sampler
# A right sampler with other random numbers exceeds 5.5 standard errors about once in 26 million; a part has a hundred.
LIMIT = 5.5
MOST_PAIRED = 8


def moments(draws: np.ndarray) -> np.ndarray:
    """Entries, and products of pairs of the first eight: (R, …) -> (R, S)."""
    flat = draws.reshape(len(draws), -1).astype(float)
    first, second = np.triu_indices(min(flat.shape[1], MOST_PAIRED))
    return np.concatenate([flat, flat[:, first] * flat[:, second]], axis=1)


def moment_name(number: int, shape: tuple[int, ...]) -> str:
    """What a column of `moments` is, for draws of a shape.

    >>> moment_name(1, (2,)), moment_name(2, (2,)), moment_name(3, (2,))
    ('entry [1]', 'the square of entry [0]', 'the product of entries [0] and [1]')
    """
    places = [[int(index) for index in place] for place in np.ndindex(shape)]
    if number < len(places):
        return f"entry {places[number]}"
    first, second = (int(index[number - len(places)]) for index in np.triu_indices(min(len(places), MOST_PAIRED)))
    if first == second:
        return f"the square of entry {places[first]}"
    return f"the product of entries {places[first]} and {places[second]}"


class Draws(NamedTuple):
    """The function takes a `numpy.random.Generator` first, then the arguments of the case. Cases share the points evenly."""

    function: str
    points: int
    cases: Callable[[np.random.Generator], list[Case]]
    oracle: Callable[..., Any]  # the exact sampler
    mistakes: tuple[Mistake, ...] = ()
    patience: float = 3.0
    number: int = DRAWS  # of the student's draws of every case
    packed: Callable[[Any], Any] = np.asarray  # what one call returns -> one array; raises `AnswerError` for what is not right

    @property
    def name(self) -> str:
        """That of the function."""
        return self.function

    @property
    def functions(self) -> tuple[str, ...]:
        """The one function."""
        return (self.function,)

    def collect(self, student: Any, seed: int) -> Answer:
        """Draws of every case."""
        arrays: dict[str, np.ndarray] = {}
        notes: dict[str, Any] = {}
        for place, case in enumerate(self.cases(np.random.default_rng(seed))):
            try:
                arrays[str(place)] = _drawn(getattr(student, self.function), case, self.number, seed + 1, self)
            except AnswerError as error:
                notes[str(place)] = str(error)
        return Answer(arrays, notes)

    def judge(self, answer: Answer, seed: int) -> Result:
        """Points for every case whose draws are from the right distribution."""
        cases = self.cases(np.random.default_rng(seed))
        drawn = [(case, answer.arrays[str(place)]) for place, case in enumerate(cases) if str(place) in answer.arrays]
        found = [_compared(draws, self.oracle, case, seed, self) for case, draws in drawn]
        right, messages = sum(each.agree for each in found), list(dict.fromkeys(answer.notes.values()))
        if right < len(drawn):
            known = self._nearest(drawn, seed)
            said = [f"{each.says} (case: {case.name})" for (case, _), each in zip(drawn, found, strict=True) if not each.agree]
            messages.append(said[0] if known is None else known.says)
        points = self.points if right == len(cases) else half_points(self.points * right / len(cases))
        return Result(self.name, points, self.points, tuple(messages[:MOST_MESSAGES]))

    def _nearest(self, drawn: list[tuple[Case, np.ndarray]], seed: int) -> Mistake | None:
        """The mistake whose draws are most like those of all cases; None where none is like them."""
        worst = [self._worst(mistake, drawn, seed) for mistake in self.mistakes]
        return self.mistakes[int(np.argmin(worst))] if worst and min(worst) < LIMIT else None

    def _worst(self, mistake: Mistake, drawn: list[tuple[Case, np.ndarray]], seed: int) -> float:
        """The largest deviation from a mistake; the first that is too large will do."""
        worst = 0.0
        for case, draws in drawn:
            worst = max(worst, _compared(draws, mistake.formula, case, seed, self).deviation)
            if worst >= LIMIT:
                break
        return worst


class _Compared(NamedTuple):
    """Draws beside those of a sampler."""

    deviation: float  # the largest, in standard errors
    says: str

    @property
    def agree(self) -> bool:
        """Whether they can be of one distribution."""
        return self.deviation < LIMIT


def _compared(draws: np.ndarray, sampler: Callable[..., Any], case: Case, seed: int, part: Draws) -> _Compared:
    """How far moments of the draws are from those of a sampler."""
    with np.errstate(all="ignore"):
        wanted = _drawn(sampler, case, TIMES * len(draws), seed + 2, part)
        if wanted.shape[1:] != draws.shape[1:]:
            return _Compared(np.inf, f"a draw has shape {draws.shape[1:]}, and should have {wanted.shape[1:]}")
        if not np.isfinite(draws).all():
            return _Compared(np.inf, "a draw is NaN or infinite")
        if (draws == draws[0]).all() and not (wanted == wanted[0]).all():
            return _Compared(np.inf, "every call gives the same draw: take random numbers from the generator `rng`")
        centre = wanted.mean(0)  # squares about it are much less noisy than squares about 0
        found, right = moments(draws - centre), moments(wanted - centre)
        gap = found.mean(0) - right.mean(0)
        error = np.sqrt(found.var(0) / len(found) + right.var(0) / len(right))
        deviation = np.abs(np.where(np.abs(gap) < 1e-9, 0.0, np.nan_to_num(gap / error, nan=np.inf)))
    worst = int(deviation.argmax())
    entries = centre.size
    about = "" if worst < entries else "about the right mean, "
    shift = float(np.ravel(centre)[worst]) if worst < entries else 0.0
    return _Compared(
        float(deviation[worst]),
        f"the draws are from another distribution: {about}{moment_name(worst, draws.shape[1:])} is "
        f"{found[:, worst].mean() + shift:.3g} on average and should be {right[:, worst].mean() + shift:.3g} "
        f"({deviation[worst]:.0f} standard errors away)",
    )


def _drawn(sampler: Callable[..., Any], case: Case, number: int, seed: int, part: Draws) -> np.ndarray:
    """(number, …): draws of one case, all by one generator. Raises `AnswerError` for a sampler that does not draw."""

    def draws(*given: Any) -> np.ndarray | None:
        rng = np.random.default_rng(seed)
        found = [sampler(rng, *given) for _ in range(number)]
        return None if any(each is None for each in found) else np.stack([part.packed(each) for each in found])

    return called(draws, case.arguments, ("draw",), part.function)["draw"]
