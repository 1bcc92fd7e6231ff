"""A function that draws: its draws are compared with those of an exact sampler, by moments and by ranks.

Means, variances and covariances say most about what is wrong. Noise of the right variance and another law has the same ones.
So the ranks of single numbers among the draws of both samplers are compared, too. Legendre polynomials of the ranks have equal
means if both laws are the same (after Neyman 1937, "Smooth test for goodness of fit").
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy import stats

from labs.parts.calls import AnswerError, called
from labs.parts.lab import Answer, Case, Mistake, Result
from labs.parts.values import MOST_MESSAGES, half_points

DRAWS = 800
TIMES = 2  # as many draws of the exact sampler
# A normal mean of a right sampler exceeds 5.5 standard errors about once in 26 million; a part has a hundred. Polynomials in
# ranks are bounded, and their means nearly normal. Squares and products are skewed, so their means exceed the limit more often.
LIMIT = 5.5
ORDERS = 4  # of polynomials in ranks: the first four see location, spread, skewness and tails
MOST_PAIRED = 8
REPEATED = 6  # draws that are drawn twice: whole numbers may agree by chance
OTHER_LAW = "the draws are from another distribution"
SHAPE = "the averages are right, and the shape is not: is the noise of the right kind?"
OTHER_NUMBERS = "does not draw from `rng` alone: from one state of the generator, two calls give different draws"


def moments(draws: np.ndarray) -> np.ndarray:
    """Entries, and products of pairs of the first eight: (R, …) -> (R, S)."""
    flat = draws.reshape(len(draws), -1).astype(float)
    first, second = np.triu_indices(min(flat.shape[1], MOST_PAIRED))
    return np.concatenate([flat, flat[:, first] * flat[:, second]], axis=1)


def smooth_ranks(found: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials (R, ORDERS) in the ranks of draws (R, …) of two samplers among all of them, averaged over the entries.

    So what is wrong with all entries adds up; the draws of one sampler stay independent of each other.
    """
    both = np.concatenate([each.reshape(len(each), -1).astype(float) for each in (found, right)])
    ranks = (stats.rankdata(both, axis=0) - 0.5) / len(both)
    smooth = legvander(2 * ranks - 1, ORDERS)[..., 1:].mean(1)
    return smooth[: len(found)], smooth[len(found) :]


class Entries(NamedTuple):
    """What the numbers of a draw are called, alone and in pairs."""

    names: tuple[str, ...]
    one: str = ""  # before the name of one
    both: str = ""  # before the names of two


def entries_of(shape: tuple[int, ...]) -> Entries:
    """Those of an array are called by their places.

    >>> entries_of((2,)), entries_of(()).names
    (Entries(names=('[0]', '[1]'), one='entry ', both='entries '), ('the draw',))
    """
    if not shape:
        return Entries(("the draw",))
    return Entries(tuple(str([int(index) for index in place]) for place in np.ndindex(shape)), "entry ", "entries ")


class Moment(NamedTuple):
    """One column of `moments`."""

    kind: Literal["mean", "variance", "covariance"]
    of: str  # the number, or the two of a covariance


def moment_of(number: int, entries: Entries) -> Moment:
    """The column of this number.

    >>> moment_of(1, entries_of((2,))), moment_of(2, entries_of((2,))).kind
    (Moment(kind='mean', of='entry [1]'), 'variance')
    >>> moment_of(3, entries_of((2,)))
    Moment(kind='covariance', of='entries [0] and [1]')
    """
    if number < len(entries.names):
        return Moment("mean", f"{entries.one}{entries.names[number]}")
    pairs = np.triu_indices(min(len(entries.names), MOST_PAIRED))
    first, second = (entries.names[index[number - len(entries.names)]] for index in pairs)
    if first == second:
        return Moment("variance", f"{entries.one}{first}")
    return Moment("covariance", f"{entries.both}{first} and {second}")


def in_words(moment: Moment, found: float, wanted: float) -> str:
    """What is wrong with a moment.

    >>> in_words(Moment("mean", "means[0]"), 1.0, 0.0)
    'means[0] is 1 on average and should be 0'
    >>> in_words(Moment("variance", "means[0]"), 1.0, 0.5)
    'the variance of means[0] is 1 and should be 0.5'
    """
    if moment.kind == "mean":
        return f"{moment.of} is {found:.3g} on average and should be {wanted:.3g}"
    return f"the {moment.kind} of {moment.of} is {found:.3g} and should be {wanted:.3g}"


def together(moment: Moment) -> str:
    """What is wrong where two numbers should be independent.

    >>> together(moment_of(3, entries_of((2,))))
    'entries [0] and [1] vary together: draw noise for each of them'
    """
    return f"{moment.of} vary together: draw noise for each of them"


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
    entries: tuple[str, ...] = ()  # names of the numbers of that array, where places in it say little

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
                function = getattr(student, self.function)
                draws = _drawn(function, case, self.number, seed + 1, self)
                _require_rng(function, case, self)
                arrays[str(place)] = draws
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
    """How far moments and ranks of the draws are from those of a sampler."""
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
        deviation, of_ranks = _deviations(found, right), float(_deviations(*smooth_ranks(draws, wanted)).max())
    if deviation.max() < LIMIT <= of_ranks:
        return _Compared(of_ranks, f"{OTHER_LAW}: {SHAPE} ({of_ranks:.0f} standard errors away)")
    worst = _worst_of(deviation, centre.size)
    shift = float(np.ravel(centre)[worst]) if worst < centre.size else 0.0
    moment = moment_of(worst, Entries(part.entries) if part.entries else entries_of(draws.shape[1:]))
    is_zero = abs(right[:, worst].mean()) < LIMIT * right[:, worst].std() / len(right) ** 0.5
    if moment.kind == "covariance" and is_zero:
        said = together(moment)
    else:
        said = in_words(moment, found[:, worst].mean() + shift, right[:, worst].mean() + shift)
    away = f"({deviation[worst]:.0f} standard errors away)"
    return _Compared(max(float(deviation.max()), of_ranks), f"{OTHER_LAW}: {said} {away}")


def _deviations(found: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Sizes of the differences of column means, in standard errors."""
    gap = found.mean(0) - right.mean(0)
    error = np.sqrt(found.var(0) / len(found) + right.var(0) / len(right))
    return np.abs(np.where(np.abs(gap) < 1e-9, 0.0, np.nan_to_num(gap / error, nan=np.inf)))


def _worst_of(deviation: np.ndarray, entries: int) -> int:
    """The moment to name: a mean that is wrong makes squares wrong, too, and a variance products."""
    means = deviation[:entries]
    return int(means.argmax()) if means.max(initial=0.0) >= LIMIT else int(deviation.argmax())


def _drawn(sampler: Callable[..., Any], case: Case, number: int, seed: int, part: Draws) -> np.ndarray:
    """(number, …): draws of one case, all by one generator. Raises `AnswerError` for a sampler that does not draw."""

    def draws(*given: Any) -> np.ndarray | None:
        rng = np.random.default_rng(seed)
        found = [sampler(rng, *given) for _ in range(number)]
        return None if any(each is None for each in found) else np.stack([part.packed(each) for each in found])

    return called(draws, case.arguments, ("draw",), part.function)["draw"]


def _require_rng(sampler: Callable[..., Any], case: Case, part: Draws) -> None:
    """Raise `AnswerError` for a sampler that takes random numbers from elsewhere."""
    first, second = ([_drawn(sampler, case, 1, seed, part) for seed in range(REPEATED)] for _ in range(2))
    if not np.array_equal(first, second, equal_nan=True):
        raise AnswerError(OTHER_NUMBERS)
