"""What a lab is made of: parts with points, the mistakes that each part knows, and what comes out of a student's file."""

from collections.abc import Callable, Mapping
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

State = dict[str, np.ndarray]  # of a run: name of a parameter or of latents -> array


Slips = tuple[tuple[str, str], ...]


class Case(NamedTuple):
    """Arguments to call a function with. They are passed by place, so that a student may name parameters freely."""

    name: str  # in words, as "two clusters far apart"
    arguments: Mapping[str, Any]
    extreme: bool = (
        False  # numbers so large that real errors drown in the tolerance: it counts only if ordinary cases are right
    )


class Mistake(NamedTuple):
    """A typical wrong solution: where a student's numbers are those of this formula, the message says which slip it is."""

    says: str
    formula: Callable[..., Any]  # the arguments of a case -> what the wrong solution returns for `field`
    field: str = ""  # which of the returned values; "": the only one


class Answer(NamedTuple):
    """What came out of the student's functions."""

    arrays: dict[str, np.ndarray]
    notes: dict[str, Any]  # problems in words, by case


class Result(NamedTuple):
    """The grade of one part."""

    part: str
    points: float
    out_of: int
    messages: tuple[str, ...]

    @property
    def is_full(self) -> bool:
        """Whether all points were won."""
        return self.points == self.out_of


class Part(Protocol):
    """One gradable part."""

    @property
    def name(self) -> str:
        """The name in the grade: that of its function, if it is of one."""

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the student's file that it calls."""

    @property
    def points(self) -> int:
        """What it is worth."""

    @property
    def patience(self) -> float:
        """How many times the usual time it may take."""

    def collect(self, student: Any, seed: int) -> Answer:
        """Call the functions, which are attributes of ``student``. Raises nothing: what goes wrong is in the notes."""

    def judge(self, answer: Answer, seed: int) -> Result:
        """Points and messages for the answer that ``collect`` gave under the same seed."""


def made_once(data: Callable[[], Mapping[str, np.ndarray]]) -> Callable[[], Mapping[str, np.ndarray]]:
    """The data of a lab, made at the first call. Nobody can write into them: every iteration sees the same."""

    @cache
    @wraps(data)
    def held() -> Mapping[str, np.ndarray]:
        found = {name: np.array(value) for name, value in data().items()}
        for value in found.values():
            value.setflags(write=False)
        return MappingProxyType(found)

    return held


class Iterations(NamedTuple):
    """Functions of a lab put together to a run, one iteration after the other."""

    start: Callable[[], State]
    advance: Callable[[Any, State, int], State]  # (namespace of functions, state, number of the iteration) -> the next state
    steps: int
    bound: Callable[[State], float] | None = None  # what must not fall
    bound_name: str = ""
    # what an iteration updates, in words and in the order of dependence -> (state before, state after) -> the state after with
    # this update as it should be, given what the student's updates before it made
    updates: Mapping[str, Callable[[State, State], State]] = {}
    first: str = ""  # the update on which all others depend: if it is wrong, no other is blamed
    # laws of a state that hold -> whether they do: said before what is wrong
    laws: Mapping[str, Callable[[State], bool]] = {}
    panels: Callable[[Any, State], None] | None = None  # (matplotlib axes, state): draws one state
    random: bool = False  # a sampler: right runs with other random numbers differ


class Lab(NamedTuple):
    """One lab: what the student reads, writes and is graded by."""

    name: str
    title: str
    minutes: int  # that it takes
    story: str  # Markdown
    maths: str  # Markdown: what has to be known
    parts: tuple[Part, ...]
    data: Callable[[], Mapping[str, np.ndarray]]
    given: tuple[str, ...] = ()  # functions of the solution that the stub has whole
    iterations: Iterations | None = None  # what `trace` draws
    afterwards: str = ""  # Markdown: what can be done with the finished functions
    # (a line of the key, what stands in its place): the stub is then the key with these slips, to be repaired
    slips: Slips = ()

    @property
    def out_of(self) -> int:
        """All points."""
        return sum(part.points for part in self.parts)

    @property
    def functions(self) -> tuple[str, ...]:
        """What the student writes, in order."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.functions))

    def part(self, name: str) -> Part:
        """The part of this name."""
        return next(part for part in self.parts if part.name == name)


def slipped(source: str, slips: Slips) -> str:
    """The text of a key with its slips; raises `ValueError` for a line that is not there exactly once."""
    for right, wrong in slips:
        if source.count(right) != 1:
            raise ValueError(f"the key has {source.count(right)} times: {right}")
        source = source.replace(right, wrong)
    return source
