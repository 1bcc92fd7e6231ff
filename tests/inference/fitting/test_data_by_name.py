"""The data of a user's program: a tuple of its arguments, or arguments by name."""

from functools import cache

import numpy as np
import numpyro
import pytest
from naive import near
from numpyro import distributions as dist

from inference import as_result, fit, log_likelihood, program_model
from inference.fitting.fit import fingerprint_of
from inference.programs.arguments import as_arguments
from inference.results import load, save
from models import ZooError

X = np.arange(6.0)
Y = 2 * X + np.array([0.3, -0.1, 0.2, 0.0, -0.4, 0.1])
SLOPE = X @ Y / (X @ X + 1 / 25)  # of the prior Normal(0, 5), in closed form
SHORT = {"num_starts": 1}


def line(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def line_by_name(x, *, y):
    line(x, y)


WAYS = {
    "tuple": lambda **options: fit(line, (X, Y), "map", **SHORT, **options),
    "name": lambda **options: fit(line, X, "map", y=Y, **SHORT, **options),
    "only by name": lambda **options: fit(line_by_name, X, "map", y=Y, **SHORT, **options),
    "nothing but names": lambda **options: fit(line, (), "map", y=Y, x=X, **SHORT, **options),
}


@cache
def fitted(way):
    return WAYS[way](predictive=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", [name if name == "name" else pytest.param(name, marks=pytest.mark.slow) for name in WAYS])
def test_data_by_any_way(way, tmp_path):
    """The mode in closed form, densities by hand, data drawn anew, and all of it back from the disk."""
    tree = fitted(way)
    assert near(tree["point_estimate"]["slope"], SLOPE, rtol=1e-6)
    by_hand = -0.5 * (Y - float(tree["point_estimate"]["slope"]) * X) ** 2 - 0.5 * np.log(2 * np.pi)
    assert near(tree["log_likelihood"]["y"], by_hand, rtol=1e-9)
    assert tree["posterior_predictive"]["y"].shape[-1] == len(Y)
    assert near(tree["observed_data"]["y"], Y)
    if way != "tuple":
        assert near(tree["constant_data"]["x"], X)
        assert tree["constant_data"].attrs["observed"] == ["y"]
    save(tree, tmp_path / "results.nc")
    assert near(load(tmp_path)["log_likelihood"]["y"], tree["log_likelihood"]["y"])


def test_densities_of_data_in_any_form():
    """Of a model made with names: names, a dict, or one after another."""
    model = program_model(line_by_name, as_arguments(line_by_name, X, {"y": Y}))
    wanted = log_likelihood(program_model(line, (X, Y)), {"slope": 1.5}, (X, Y))
    assert near(wanted, -0.5 * (Y - 1.5 * X) ** 2 - 0.5 * np.log(2 * np.pi), rtol=1e-12)
    for data in (as_arguments(line_by_name, X, {"y": Y}), {"x": X, "y": Y}):
        assert near(log_likelihood(model, {"slope": 1.5}, data), wanted, rtol=1e-12)
    named = program_model(line, as_arguments(line, (), {"x": X, "y": Y}))
    assert near(log_likelihood(named, {"slope": 1.5}, (X, Y)), wanted, rtol=1e-12)
    draws = as_result(named, (X, Y), {"slope": np.full((1, 30), 1.5)})
    assert near(draws["log_likelihood"]["y"][0, 3], wanted, rtol=1e-12)


def test_fingerprints_know_data_by_name():
    assert fingerprint_of(line, X, "map", y=Y) != fingerprint_of(line, X, "map", y=Y + 1)
    assert fingerprint_of(line, X, "map", y=Y) == fingerprint_of(line, X, "map", y=Y.copy())


@pytest.mark.parametrize(
    ("data", "named", "words"),
    [
        (
            X,
            {"yy": Y},
            "method=map has no option 'yy'; it takes max_iter.*; the program line takes x, y",
        ),
        (X, {"num_start": 1}, "has no option 'num_start' .*num_starts.*the program line takes x, y"),
        (X, {"x": X}, "program line takes the data x, y: multiple values for argument 'x'"),
        ((), {"y": Y}, "program line takes the data x, y: missing a required argument: 'x'"),
        ((X, Y, Y), {}, r"takes the data x, y: too many positional arguments; .*tuple, fit\(line, \(x, y\)\)"),
    ],
)
def test_wrong_names(data, named, words):
    with pytest.raises(ZooError, match=words):
        fit(line, data, "map", **named)
