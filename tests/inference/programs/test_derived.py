"""What a program names by `numpyro.deterministic` is in its results, and is the same function of the sites at every draw."""

from functools import cache

import numpy as np
import numpyro
import pytest
from naive import SHORT, near
from numpyro import distributions as dist

from inference import as_result, fit, identify, log_likelihood, program_model
from inference.identification.invariants import summaries_of
from inference.programs.derived import derived_shapes
from inference.results import load, save
from inference.results.triangles import sites_of
from models import ZooError

X = np.arange(6.0)
Y = 2 * X + np.array([0.3, -0.1, 0.2, 0.0, -0.4, 0.1])
DIMS = {"fitted": ("row",)}


def line(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    fitted = numpyro.deterministic("fitted", slope * x)
    numpyro.deterministic("double", 2 * slope)
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(fitted, 1.0), obs=y)


@cache
def drawn():
    draws = np.random.default_rng(0).normal(2.0, 0.1, (2, 30))
    return as_result(line, (X, Y), {"slope": draws}, dims=DIMS), draws


def test_names_and_shapes():
    assert derived_shapes(program_model(line, (X, Y)).spec, {}, (X, Y)) == {"fitted": (6,), "double": ()}


def test_derived_quantities_are_functions_of_the_sites(tmp_path):
    """At every draw, with the dimensions that the user names, also back from the disk; and they are no sites."""
    tree, draws = drawn()
    save(tree, tmp_path / "results.nc")
    for found in (tree, load(tmp_path)):
        assert near(found["posterior"]["fitted"], draws[..., None] * X, rtol=1e-14)
        assert near(found["posterior"]["double"], 2 * draws, rtol=1e-14)
        assert found["posterior"]["fitted"].dims == ("chain", "draw", "row")
        assert list(sites_of(found, "posterior")) == ["slope"]
        assert summaries_of(found).names == ["slope"]


def test_a_result_is_draws_and_sites_again():
    """Derived quantities are computed anew, and are not asked for."""
    tree, draws = drawn()
    again = as_result(line, (X, Y), tree, dims=DIMS)
    assert near(again["posterior"]["fitted"], tree["posterior"]["fitted"])
    one = tree["posterior"].isel(chain=0, draw=0).to_dataset()
    by_hand = -0.5 * (Y - draws[0, 0] * X) ** 2 - 0.5 * np.log(2 * np.pi)
    assert near(log_likelihood(program_model(line, (X, Y)), one, (X, Y)), by_hand, rtol=1e-12)


def test_dims_of_derived_quantities_are_checked():
    with pytest.raises(ZooError, match=r"dims of 'fitted': .* names 2 dimensions, but the site has shape \(6,\)"):
        program_model(line, (X, Y), dims={"fitted": ("a", "b")})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["map", "laplace", "advi", "nuts"])
def test_every_method_has_them(method):
    tree = fit(line, (X, Y), method, **SHORT[method])
    group = tree["point_estimate" if method == "map" else "posterior"].to_dataset()
    assert near(group["fitted"], group["slope"].values[..., None] * X, rtol=1e-12)


@pytest.mark.slow
def test_they_follow_the_labels():
    """Relabelled sites, and what is computed of these; labelled anew as well."""

    def mixture(x):
        mean = numpyro.sample("mean", dist.Normal(np.zeros(2), 10.0).to_event(1))
        numpyro.deterministic("square", mean**2)
        with numpyro.plate("row", len(x)):
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(probs=np.full(2, 0.5)), dist.Normal(mean, 1.0)), obs=x)

    x = np.concatenate([X, X + 20])
    dims = {"mean": ("component",), "square": ("component",)}
    tree = fit(mixture, x, "nuts", symmetry="component", dims=dims, **SHORT["nuts"])
    model = program_model(mixture, x, symmetry="component", dims=dims)
    for found in (tree, identify(tree, model, x)):
        assert near(found["posterior"]["square"], found["posterior"]["mean"] ** 2, rtol=1e-12)
