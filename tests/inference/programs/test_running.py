"""A user's program meets its data before any method runs: one message says what does not fit, where, and what to do."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

from inference import fit, predict, predictive_checks, program_model
from inference.programs.arguments import name_of
from inference.programs.running import first_run
from models import ZooError

X = np.arange(6.0)
HOLES = np.where(X > 3, np.nan, X)


def line(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def masked_line(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 1.0).mask(~jnp.isnan(y)), obs=jnp.nan_to_num(y))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X, X[:2]), r"does not run on this data: .*\(the data: x \(6,\), y \(2,\)\)"),
        ((X, HOLES), r"density of site 'y'.*y \(6,\) with NaN in 2 of 6 entries, the first at \[4\]; leave .*mask"),
        ((HOLES, X), r"x \(6,\) with NaN in 2 of 6 entries"),
        ((X, ["a"] * 6), "argument y holds text and no numbers.*factorize"),
        ((X, np.array(["a"] * 6)), "argument y holds text"),
        ((X, [1.0, 2.0]), r"y \(2,\) as a list \(numpy.asarray makes an array\)"),
        (X, r"takes the data x, y: missing a required argument: 'y'; .*tuple, fit\(line, \(x, y\)\), .*fit\(line, x, y=…\)"),
        ([X, X], "missing a required argument: 'y'.*a list is one argument"),
    ],
)
def test_data_that_do_not_fit_a_program(data, words):
    with pytest.raises(ZooError, match=words):
        first_run(line, data)


def test_nan_that_a_program_masks_is_none_of_our_business():
    trace, _ = first_run(masked_line, (X, HOLES))
    assert set(trace) >= {"slope", "y"}


def test_every_callable_has_a_name():
    class Program:
        def __call__(self, x):
            return line(x, x)

    assert [name_of(each) for each in (line, partial(line, y=X), Program())] == ["line", "line", "Program"]
    assert "y" in first_run(partial(line, y=X), X)[0]


def test_what_a_program_cannot_be_asked():
    """One line with what to use instead."""
    model = program_model(line, (X, X))
    with pytest.raises(
        ZooError, match=r"no component probabilities.*predictive=True.*Predictive\(program, draws, batch_ndims=2"
    ):
        predict(model, {"slope": 1.0}, (X, X))
    with pytest.raises(ZooError, match=r"no table with columns to check; .*plot_ppc_dist"):
        predictive_checks(model, {"slope": 1.0}, (X, X))


def test_arguments_in_another_order():
    """The word that is wrong, and the order that is right."""
    with pytest.raises(ZooError, match=r"method: ndarray is not one of .*; the order is fit\(model, data, method\).*tuple"):
        fit(line, X, X)
    for call in (predict, predictive_checks):
        with pytest.raises(ZooError, match="model comes first, then the result"):
            call({"slope": 1.0}, "model", X)
