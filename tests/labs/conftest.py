"""What parts of labs compare with is computed once: the cases under a seed, and draws of the exact sampler and of mistakes."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from labs.parts import draws
from labs.parts.values import Values


@pytest.fixture(scope="session", autouse=True)
def computed_once() -> Iterator[None]:
    """Both depend on nothing but their arguments, and every function is called with copies of these.

    The draws of a student are half as many as those that they are compared with, and are made anew each time.
    """
    kept: dict[Any, Any] = {}  # with the part or the sampler, so that no other object takes its identity
    cases, drawn = Values.drawn, draws._drawn

    def cases_once(self: Values, seed: int) -> Any:
        key = id(self), seed
        if key not in kept:
            kept[key] = self, cases(self, seed)
        return kept[key][1]

    def drawn_once(sampler: Any, case: Any, number: int, seed: int, part: Any) -> Any:
        if number != draws.TIMES * part.number:
            return drawn(sampler, case, number, seed, part)
        key = id(sampler), pickle.dumps(case.arguments), seed
        if key not in kept:
            kept[key] = sampler, drawn(sampler, case, number, seed, part)
        return kept[key][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Values, "drawn", cases_once)
        patch.setattr(draws, "_drawn", drawn_once)
        yield
