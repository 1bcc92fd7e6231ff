"""Examples of the stubs are for every right solution: they hold for the naive oracles, too."""

import doctest

import numpy as np
import pytest

from labs.labs import LABS, lab_of
from labs.parts.draws import Draws
from labs.parts.values import Values
from labs.stub import key_of, stub_text


def failures(lab, names):
    """What the examples of a stub print where they should not, with these names."""
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder().find(key_of(lab), lab.name):
        test.globs = dict(names)
        runner.run(test, out=said.append, clear_globs=False)
    assert runner.tries >= len(lab.functions)
    return "".join(said)


def oracles(lab):
    graded = [part for part in lab.parts if isinstance(part, Values | Draws)]
    return vars(key_of(lab)) | {part.function: part.oracle for part in graded}


def as_numpy(function):
    """The same function, which returns NumPy's numbers in the place of Python's, and floats for whole numbers."""

    def changed(value):
        return value.astype(float) if isinstance(value, np.ndarray) and value.dtype.kind == "i" else np.asarray(value)[()]

    def called(*given):
        found = function(*given)
        return tuple(changed(each) for each in found) if isinstance(found, tuple) else changed(found)

    return called


@pytest.mark.parametrize("lab", LABS)
def test_examples_hold_for_the_oracles(lab):
    assert not failures(lab_of(lab), oracles(lab_of(lab)))


@pytest.mark.parametrize("lab", LABS)
def test_examples_hold_for_numbers_of_numpy(lab):
    lab = lab_of(lab)
    functions = {name: as_numpy(vars(key_of(lab))[name]) for name in lab.functions}
    assert not failures(lab, vars(key_of(lab)) | functions)


def test_examples_of_spot_the_bug_are_those_of_its_key():
    """The stub there is another file."""
    lab = lab_of("spot_the_bug")
    names: dict = {"__name__": "stub"}
    exec(compile(stub_text(lab), "stub", "exec"), names)
    assert all(names[name].__doc__ == vars(key_of(lab))[name].__doc__ for name in lab.functions)
