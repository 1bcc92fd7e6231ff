"""Mistakes in the form of a kernel give one message each, which says what to do."""

import jax
import numpy as np
import pytest
from own_gibbs import Chains, OwnGibbs

from inference import certify, target
from inference.samplers import certification
from models.errors import ZooError

NAME = "gmm_simple"


def own(**functions):
    """A right kernel with some of its functions replaced."""
    kernel = OwnGibbs(target(NAME).prior)
    for name, function in functions.items():
        setattr(kernel, name, function)
    return kernel


def component_block(function):
    kernel = own(step=lambda rng, state, data: (state, state))
    kernel.blocks = {"component": function}
    return kernel


MISTAKES = {
    "start of OwnGibbs returns nothing": own(start=lambda rng, data, sites: None),
    "step of OwnGibbs returns a dict; it returns two": own(step=lambda rng, state, data: state),
    "step of OwnGibbs returns 3 things": own(step=lambda rng, state, data: (state, state, state)),
    r"returns \(state, a list\)": own(step=lambda rng, state, data: (state, [state["mean"]])),
    "sites of OwnGibbs returns a list": own(sites=lambda state: [state]),
    "block component of OwnGibbs returns a tuple; it returns the new state alone, a dict": component_block(
        lambda rng, state, data: (state, state)
    ),
    "block component of OwnGibbs returns nothing": component_block(lambda rng, state, data: None),
    r"returns component of shape \(6, 1\), and it has \(6,\)": component_block(
        lambda rng, state, data: state | {"component": state["component"][:, None]}
    ),
    "returns component with a 2; they are whole numbers from 0 to 1": component_block(
        lambda rng, state, data: state | {"component": state["component"] + 1}
    ),
    "OwnGibbs writes into data": component_block(lambda rng, state, data: data["x"].sort() or state),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_mistakes_are_named(monkeypatch, said):
    monkeypatch.setitem(certification.SIZES, "quick", 60)
    with pytest.raises(ZooError, match=said):
        certify(MISTAKES[said], NAME, compiled=False)


def test_chains_that_write_into_data_are_named():
    kernel = Chains(own(init=lambda rng, data: data["x"].sort()))
    with pytest.raises(ZooError, match="Chains writes into data"):
        certify(kernel, NAME, compiled=False)


def test_numpy_that_is_compiled_is_named():
    with pytest.raises(ZooError, match="If it is NumPy, give compiled=False"):
        certify(own(), NAME)


def test_other_errors_of_a_kernel_keep_their_traceback(monkeypatch):
    with pytest.raises(ZeroDivisionError) as caught:
        certify(own(step=lambda rng, state, data: (state, 1 // 0)), NAME, compiled=False)
    assert "raised in the step of OwnGibbs" in caught.value.__notes__[0]


def test_a_model_is_a_name():
    with pytest.raises(ZooError, match="model= is a name, such as model='gmm_simple'"):
        certify(own(), target(NAME))


def test_values_that_are_no_number_are_counted(monkeypatch):
    monkeypatch.setitem(certification.SIZES, "quick", 60)
    found = certify(own(step=lambda rng, state, data: (state, state | {"mean": np.nan * state["mean"]})), NAME, compiled=False)
    assert found.verdict == "fails"
    assert any(hint.startswith("mean is NaN or infinite in ") for hint in found.hints), found
    assert ": nan" not in repr(found)  # a figure without a number is "NaN or infinite"


@pytest.mark.parametrize("double", [False, True])
def test_targets_work_in_either_precision(double):
    posterior = target(NAME)
    positions = posterior.start(0)
    with jax.enable_x64(double):
        start = posterior.start(0)
        dtype = np.float64 if double else np.float32
        for value in (start["mean"], posterior.constrain(positions)["mean"], posterior.as_vector(positions)):
            assert value.dtype == dtype
        np.testing.assert_allclose(posterior.unconstrain(posterior.constrain(positions))["mean"], positions["mean"], rtol=1e-5)
        np.testing.assert_allclose(posterior.as_position(posterior.as_vector(start))["mean"], start["mean"])
