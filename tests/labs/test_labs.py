"""Every lab: the key and another style win all points, every known mistake gets a message of its own, stubs can be solved."""

import doctest
from types import SimpleNamespace

import numpy as np
import pytest

from labs.labs import LABS, lab_of
from labs.parts.draws import Draws
from labs.parts.kernel import Kernel
from labs.parts.values import Values
from labs.stub import key_of, stub_text

PARTS = [(name, part) for name in LABS for part in lab_of(name).parts if not isinstance(part, Kernel)]
GRADED = [(name, part.name) for name, part in PARTS]
VALUES = [(name, part.name) for name, part in PARTS if isinstance(part, Values)]
QUICK = [(name, part.name) for name, part in PARTS if not isinstance(part, Draws)]  # thousands of draws take seconds
MISTAKES = [
    pytest.param(name, part.name, place, marks=[pytest.mark.slow] if isinstance(part, Draws) else [])
    for name, part in PARTS
    if isinstance(part, Values | Draws)
    for place in range(len(part.mistakes))
]


def judged(part, student, seed=0):
    return part.judge(part.collect(student, seed), seed)


def single(function):
    """The same function with all its numbers in single precision."""

    def low(value):
        return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

    def called(*given):
        found = function(*(low(value) for value in given))
        return tuple(low(np.asarray(each)) for each in found) if isinstance(found, tuple) else low(np.asarray(found))

    return called


def in_single_precision(student):
    return SimpleNamespace(**{name: single(value) for name, value in vars(student).items() if callable(value)})


def test_there_are_labs_and_mistakes_enough():
    assert len(LABS) >= 12
    assert len(MISTAKES) >= 40
    assert min(sum(each.values[0] == name for each in MISTAKES) for name in LABS) >= 3


@pytest.mark.parametrize(("lab", "part"), GRADED)
def test_the_key_wins_all_points(lab, part):
    result = judged(lab_of(lab).part(part), key_of(lab_of(lab)))
    assert result.is_full, result.messages


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "part"), GRADED)
def test_the_key_wins_all_points_under_another_seed(lab, part):
    result = judged(lab_of(lab).part(part), key_of(lab_of(lab)), seed=11)
    assert result.is_full, result.messages


@pytest.mark.parametrize(("lab", "part"), QUICK)
def test_single_precision_wins_all_points(lab, part):
    result = judged(lab_of(lab).part(part), in_single_precision(key_of(lab_of(lab))))
    assert result.is_full, result.messages


def as_loops(function):
    """The same function, which returns lists in the place of arrays, as loops make them."""

    def called(*given):
        found = function(*given)
        return tuple(np.asarray(each).tolist() for each in found) if isinstance(found, tuple) else np.asarray(found).tolist()

    return called


@pytest.mark.parametrize(("lab", "part"), VALUES)
def test_loops_and_lists_win_all_points(lab, part):
    """Returned values may be lists: the key's numbers, in another container than the oracle's."""
    found = lab_of(lab).part(part)
    result = judged(found, SimpleNamespace(**{found.function: as_loops(vars(key_of(lab_of(lab)))[found.function])}))
    assert result.is_full, result.messages


ODDITIES = [
    np.array(1.5),
    np.array([]),
    np.full((3, 2), np.nan),
    np.zeros((2, 2, 2)),
    np.array([True, False]),
    np.arange(5),
    np.array([np.inf, -np.inf, 0.0]),
    [1, 2, 3],
    "words",
    None,
    (1.0, np.zeros(2)),
    {"a": 1},
    [[1], [2, 3]],
]


@pytest.mark.parametrize("value", [*ODDITIES, np.full(3, 1e300), np.zeros((3, 2)), np.zeros(5)])
def test_no_draw_breaks_the_grader(value):
    for name in ("draw_means", "draw_components"):
        result = judged(lab_of("gibbs_gmm").part(name), SimpleNamespace(**{name: lambda *given: value}))
        assert result.points < result.out_of
        assert result.messages


@pytest.mark.slow  # the oracles are slow on purpose
@pytest.mark.parametrize(("lab", "part"), VALUES)
def test_no_answer_breaks_the_grader(lab, part):
    """Whatever a function returns: also right shapes with numbers from nowhere, and NaN among right ones."""
    part = lab_of(lab).part(part)

    def spoilt(change):
        def function(*given):
            found = part.oracle(*given)
            changed = [change(np.array(each, dtype=float)) for each in (found if isinstance(found, tuple) else (found,))]
            return tuple(changed) if isinstance(found, tuple) else changed[0]

        return function

    functions = [lambda *given, value=value: value for value in ODDITIES]
    functions += [spoilt(lambda v: 0 * v - 3), spoilt(lambda v: v * np.nan), spoilt(lambda v: v + 1e300)]
    functions += [spoilt(lambda v: v[None]), spoilt(lambda v: np.where(np.arange(v.size).reshape(v.shape) == 0, np.nan, v))]
    for function in functions:
        result = judged(part, SimpleNamespace(**{part.function: function}))
        assert result.points < result.out_of
        assert result.messages
        assert all(result.messages)


def wrong(part, mistake):
    """What a student with one mistake returns: the right values, and in the place of one field the wrong one."""

    def function(*given):
        if isinstance(part, Draws) or len(part.returns) == 1:
            return mistake.formula(*given)
        values = list(part.oracle(*given))
        values[part.returns.index(mistake.field)] = mistake.formula(*given)
        return tuple(values)

    return SimpleNamespace(**{part.function: function})


@pytest.mark.parametrize(("lab", "part", "place"), MISTAKES)
def test_a_mistake_gets_its_own_message(lab, part, place):
    part = lab_of(lab).part(part)
    mistake = part.mistakes[place]
    result = judged(part, wrong(part, mistake))
    assert result.points < result.out_of
    assert list(result.messages) == [mistake.says]


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "part", "place"), MISTAKES)
def test_a_mistake_gets_its_own_message_under_other_seeds(lab, part, place):
    """An instructor grades with a seed of their own."""
    part = lab_of(lab).part(part)
    mistake = part.mistakes[place]
    for seed in (3, 4):
        result = judged(part, wrong(part, mistake), seed)
        assert result.points < result.out_of
        assert list(result.messages) == [mistake.says]


@pytest.mark.parametrize("lab", LABS)
def test_messages_of_a_lab_differ_and_name_their_part(lab):
    said = [
        (mistake.says, part.function)
        for part in lab_of(lab).parts
        if isinstance(part, Values | Draws)
        for mistake in part.mistakes
    ]
    assert len({text for text, _ in said}) == len(said)
    assert not [text for text, function in said if f"`{function}`" not in text]


@pytest.mark.parametrize("lab", LABS)
def test_examples_of_the_key_run(lab):
    found = doctest.testmod(key_of(lab_of(lab)))
    assert found.attempted >= len(lab_of(lab).functions)
    assert not found.failed


@pytest.mark.parametrize("lab", LABS)
def test_a_stub_is_python_without_answers(lab):
    lab = lab_of(lab)
    names: dict = {}
    exec(compile(stub_text(lab), "stub", "exec"), names)
    student = SimpleNamespace(**names)
    for part in lab.parts:
        if not isinstance(part, Kernel):
            assert judged(part, student).points < part.points
    assert all(names[function].__doc__ for function in lab.functions)
