"""Symmetric matrices in results: every entry is stored once, and what reads a result sees them whole."""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import xarray as xr
from naive import SHORT, build, table, two_groups
from numpyro import distributions as dist

from inference import fit, full_matrices, identify, predict
from inference.results import load, save
from inference.results.draws import draws_of
from inference.results.triangles import packed, pair_labels, whole
from models import ZooError

X = two_groups(40)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_packing_keeps_every_entry_once(size):
    """D (D + 1) / 2 numbers, named by row and column, which give the matrix back."""
    factor = np.random.default_rng(0).normal(size=(3, 2, size, size))
    matrix = factor + np.swapaxes(factor, -1, -2)
    triangle, labels = packed(matrix), pair_labels(range(size))
    assert triangle.shape == (3, 2, size * (size + 1) // 2)
    np.testing.assert_array_equal(whole(triangle), matrix)
    for place, label in enumerate(labels):
        row, column = map(int, label.split(" × "))
        np.testing.assert_array_equal(triangle[..., place], matrix[..., row, column])


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "lead"), [("full", ("component",)), ("tied", ())])
def test_results_store_the_lower_triangle(covariance, lead, tmp_path):
    """`draws_of`, `full_matrices` and `identify` bring whole matrices back, from memory and from disk."""
    model = build(X, covariance)
    tree = fit(model, table(X), method="gibbs", **SHORT["gibbs"])
    for group in ("posterior", "posterior_raw"):
        assert tree[group]["precision"].dims == ("chain", "draw", *lead, "feature_pair")
    assert list(tree["posterior"]["feature_pair"].values) == ["a × a", "b × a", "b × b"]
    save(tree, tmp_path / "results.nc")
    back = load(tmp_path)
    full = full_matrices(back)["precision"]
    assert full.dims == ("chain", "draw", *lead, "feature", "feature_")
    assert list(full["feature_"].values) == ["a", "b"]
    np.testing.assert_array_equal(full, np.swapaxes(full, -1, -2))
    np.testing.assert_array_equal(full.sel(feature="b", feature_="a"), tree["posterior"]["precision"].sel(feature_pair="b × a"))
    assert draws_of(model, back)["precision"].shape == (full.sizes["chain"] * full.sizes["draw"], *full.shape[2:])
    again = identify(back, model, table(X))
    xr.testing.assert_equal(again["posterior"].to_dataset(), back["posterior"].to_dataset())
    some = draws_of(model, back)
    assert np.isfinite(predict(model, {name: value[0] for name, value in some.items()}, table(X))["log_density"]).all()
    with pytest.raises(ZooError, match="'prior'"):
        full_matrices(tree, "prior")


def correlated(x):
    """A user's program with a correlation matrix, whose dimensions nobody has named."""
    correlation = numpyro.sample("correlation", dist.LKJ(2, 2.0))
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("y", dist.MultivariateNormal(mean, covariance_matrix=correlation), obs=x)


@pytest.mark.slow
def test_a_programs_own_matrices_are_known_by_their_support():
    tree = fit(correlated, X, method="nuts", num_warmup=50, num_samples=20, num_chains=2)
    assert tree["posterior"]["correlation"].shape == (2, 20, 3)
    full = full_matrices(tree)["correlation"].values
    np.testing.assert_allclose(full[..., [0, 1], [0, 1]], 1, atol=1e-12)
    np.testing.assert_array_equal(full[..., 0, 1], full[..., 1, 0])
