"""A function that returns numbers: compared with a naive oracle on several cases, and with what known mistakes would give."""

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np

from labs.parts.calls import AnswerError, as_fields, called
from labs.parts.lab import Answer, Case, Mistake, Result
from labs.parts.likeness import Pair, agreeing, close, description, no_probability, where

MOST_MESSAGES = 3
MOST_TRIES = 20  # draws of cases
MOST_WHOLE = 2**53  # floats beyond are no longer all whole numbers


class Values(NamedTuple):
    """Points are shared evenly by the returned values and by the cases."""

    function: str
    points: int
    cases: Callable[[np.random.Generator], list[Case]]
    oracle: Callable[..., Any]
    mistakes: tuple[Mistake, ...] = ()
    returns: tuple[str, ...] = ("result",)
    # field -> (value, arguments of the case) -> what is compared, as W -> W Wᵀ where W is known up to a rotation
    compared: Mapping[str, Callable[[np.ndarray, Mapping[str, Any]], np.ndarray]] = {}
    # field -> (all returned values by field, *arguments) -> what this field should be beside the student's other fields,
    # as variances about the student's own means: who has the means wrong does not lose the variances, too
    follows: Mapping[str, Callable[..., Any]] = {}
    # field -> (found, right, arguments of the case) -> what is wrong, where entries of what is compared would mean nothing
    told: Mapping[str, Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], str]] = {}
    patience: float = 1.0
    plural: tuple[str, ...] = ()  # returned values whose names are plurals
    shares: tuple[str, ...] = ()  # returned values that are probabilities: none is below 0 or above 1

    @property
    def name(self) -> str:
        """That of the function."""
        return self.function

    @property
    def functions(self) -> tuple[str, ...]:
        """The one function."""
        return (self.function,)

    def drawn(self, seed: int) -> list[Case]:
        """Cases on which every mistake is wrong, and no two mistakes are the same: by chance they may agree on the first."""
        rng = np.random.default_rng(seed)
        for _ in range(MOST_TRIES):
            cases = self.cases(rng)
            if all(self._tells(field, cases) for field in self.returns):
                break
        return cases

    def _tells(self, field: str, cases: list[Case]) -> bool:
        """Whether the cases tell the right value and the values of all mistakes apart."""
        right = [as_fields(self.oracle(*case.arguments.values()), self.returns)[field] for case in cases]
        columns = [[self.pair(field, value, value, case)[0] for value, case in zip(right, cases, strict=True)]]
        for mistake in self.mistakes_of(field):
            columns.append([self.by_mistake(mistake, field, value, case) for value, case in zip(right, cases, strict=True)])
        return not any(all(map(close, first, second)) for first, second in combinations(columns, 2))

    def mistakes_of(self, field: str) -> list[Mistake]:
        """Known mistakes of one returned value."""
        return [mistake for mistake in self.mistakes if mistake.field in ("", field)]

    def by_mistake(self, mistake: Mistake, field: str, right: np.ndarray, case: Case) -> np.ndarray:
        """What a mistake gives, as it is compared."""
        with np.errstate(all="ignore"):
            return self.pair(field, np.asarray(mistake.formula(*case.arguments.values())), right, case)[0]

    def pair(self, field: str, found: np.ndarray, right: np.ndarray, case: Case) -> Pair:
        """Both as they are compared. As they are where the shape, or an index out of range, does not allow that."""
        whole = right.dtype.kind != "f" and found.dtype.kind == "f" and bool((np.abs(found) < MOST_WHOLE).all())
        whole = whole and bool((found == np.round(found)).all())
        found = found.astype(int) if whole else found  # labels and paths may be held as floats
        compare = self.compared.get(field)
        if compare is None or found.shape != right.shape:
            return found, right
        try:
            with np.errstate(all="ignore"):
                return np.asarray(compare(found, case.arguments)), np.asarray(compare(right, case.arguments))
        except (ValueError, IndexError, np.linalg.LinAlgError):
            return found, right

    def collect(self, student: Any, seed: int) -> Answer:
        """Call the function on every case."""
        arrays: dict[str, np.ndarray] = {}
        notes: dict[str, Any] = {}
        for place, case in enumerate(self.drawn(seed)):
            try:
                found = called(getattr(student, self.function), case.arguments, self.returns, self.function)
                arrays |= {f"{place}/{field}": value for field, value in found.items()}
            except AnswerError as error:
                notes[str(place)] = str(error)
        return Answer(arrays, notes)

    def judge(self, answer: Answer, seed: int) -> Result:
        """Points for every value that is right on every case, and what the wrong ones are."""
        cases = self.drawn(seed)
        judged = [_Field(self, field, cases, answer) for field in self.returns]
        won = sum(field.share for field in judged) / len(self.returns)
        order = self._order_of(cases, answer) if won < 1 - 1e-9 else None
        messages = [order] if order is not None else [text for field in judged for text in field.messages()]
        stopped = {text: cases[int(place)].name for place, text in answer.notes.items()}
        raised = [f"{text}{_on(case, stopped, cases, answer.notes)}" for text, case in stopped.items()]
        points = float(self.points) if won > 1 - 1e-9 else half_points(self.points * won)
        return Result(self.name, points, self.points, tuple([*raised, *messages][:MOST_MESSAGES]))

    def _order_of(self, cases: list[Case], answer: Answer) -> str | None:
        """The order in which the values are returned, where they are right in another one than asked for."""
        if answer.notes or len(self.returns) == 1:
            return None
        right = [as_fields(self.oracle(*case.arguments.values()), self.returns) for case in cases]

        def are_right(order: tuple[str, ...]) -> bool:
            """Whether the values are right if they are those of these fields."""
            return all(
                close(*self.pair(name, answer.arrays[f"{place}/{returned}"], right[place][name], case))
                for place, case in enumerate(cases)
                for returned, name in zip(self.returns, order, strict=True)
            )

        for order in permutations(self.returns):
            if order != self.returns and are_right(order):
                return f"`{self.function}` returns {', '.join(order)}; the order should be {', '.join(self.returns)}"
        return None


def _on(case: str, stopped: Mapping[str, str], cases: list[Case], notes: Mapping[str, Any]) -> str:
    """Which case it was, unless it was all of them."""
    return "" if len(stopped) == 1 and len(notes) == len(cases) else f" (case: {case})"


def half_points(points: float) -> float:
    """Down to half a point. Shares are sums of fractions, so 1.5 may be computed as 1.4999999999999998."""
    return float(np.floor(2 * points + 1e-9) / 2)


class _Field:
    """One returned value over all cases."""

    def __init__(self, part: Values, field: str, cases: list[Case], answer: Answer) -> None:
        self.part, self.field = part, field
        held = [(place, case) for place, case in enumerate(cases) if f"{place}/{field}" in answer.arrays]
        self.cases = [case for _, case in held]
        self.oracle = [as_fields(part.oracle(*case.arguments.values()), part.returns) for case in self.cases]
        found = [{name: answer.arrays[f"{place}/{name}"] for name in part.returns} for place, _ in held]
        pairs = [self._beside_the_rest(*each) for each in zip(found, self.oracle, self.cases, strict=True)]
        self.returned = [each[field] for each in found]
        self.found, self.wanted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self.right = [close(*pair) for pair in pairs]
        ordinary = all(right for right, case in zip(self.right, self.cases, strict=True) if not case.extreme)
        paid = [right and (ordinary or not case.extreme) for right, case in zip(self.right, self.cases, strict=True)]
        self.share = sum(paid) / len(cases)

    def _beside_the_rest(self, found: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray], case: Case) -> Pair:
        """What was found and what is wanted: the right value, or the value that follows from the student's other fields."""
        pair = self.part.pair(self.field, found[self.field], right[self.field], case)
        others = [name for name in self.part.returns if name != self.field]
        if close(*pair) or self.field not in self.part.follows or not all(np.isfinite(found[name]).all() for name in others):
            return pair
        if all(close(found[name], right[name]) for name in others):
            return pair
        try:
            with np.errstate(all="ignore"):
                wanted = np.asarray(self.part.follows[self.field](found, *case.arguments.values()))
        except (ArithmeticError, LookupError, ValueError):  # the other fields have other shapes
            return pair
        following = self.part.pair(self.field, found[self.field], wanted, case)
        return following if close(*following) else pair

    def messages(self) -> list[str]:
        """Nothing where all is right; else the one sentence that says most."""
        if all(self.right):
            return []
        wrong = [place for place, right in enumerate(self.right) if not right]
        if (known := self._known(wrong)) is not None:
            return [known]
        case = f" (case: {self.cases[wrong[0]].name})"
        if (told := self._told()) is not None:
            return [f"{told}{case}"]
        if (text := self._described(wrong)) is not None:
            return [f"{self._subject(text)}{case if any(self.right) else ''}"]
        if self.field in self.part.shares and (text := no_probability(self._pair(wrong[0])[0])) is not None:
            return [f"{self._subject('is wrong')}: {text}{case}"]
        return [f"{self._subject('is wrong')}: {where(*self._pair(wrong[0]))}{case}"]

    def _pair(self, place: int) -> Pair:
        """What was found in a case, and what was wanted."""
        return self.found[place], self.wanted[place]

    def _ordinary(self, places: Iterable[int]) -> list[int]:
        """Those of the cases whose numbers are not extreme."""
        return [place for place in places if not self.cases[place].extreme]

    def _known(self, wrong: list[int]) -> str | None:
        """The mistake whose values these are on all cases. Else on ordinary ones: where it underflows, the rest shows it."""
        ordinary = self._ordinary(range(len(self.cases))) if self._ordinary(wrong) else []
        for places in (list(range(len(self.cases))), ordinary):
            for mistake in self.part.mistakes_of(self.field) if places else ():
                if self._is(mistake, places):
                    return mistake.says
        return None

    def _described(self, wrong: list[int]) -> str | None:
        """What the wrong values are on all cases, or on ordinary ones."""
        for places in (wrong, self._ordinary(wrong)):
            if places and (text := description([self._pair(place) for place in places])) is not None:
                return text
        return None

    def _subject(self, text: str) -> str:
        """The name of the value, before what is said of it."""
        name = self.field if len(self.part.returns) > 1 else f"the {self.field}"
        return agreeing(name, text, self.field in self.part.plural)

    def _told(self) -> str | None:
        """What the part says of the first wrong value; None where it says nothing, or where the value makes no sense."""
        if self.field not in self.part.told:
            return None
        place = self.right.index(False)
        found, right = self.returned[place], self.oracle[place][self.field]
        if found.shape != right.shape or not (np.abs(found) < MOST_WHOLE).all() or (found != np.round(found)).any():
            return None  # NaN is not below either
        try:
            return self.part.told[self.field](found.astype(int), right, self.cases[place].arguments)
        except IndexError:  # of states that do not exist
            return None

    def _is(self, mistake: Mistake, places: list[int]) -> bool:
        """Whether the values are those of the mistake on these cases."""
        for place in places:
            right = self.oracle[place][self.field]
            if not close(self.found[place], self.part.by_mistake(mistake, self.field, right, self.cases[place])):
                return False
        return True
