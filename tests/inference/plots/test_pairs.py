"""Pairs of columns: points are the cells, ellipses the covariances of the model, doubt grows with uncertainty."""

import numpy as np
import pytest
import xarray as xr

from inference import plot_pairs
from inference.plots.components import profile
from inference.plots.pairs import MOST_COLUMNS, NEVER, RADII, covariance_of, has_pairs
from inference.results.table import observed_data
from inference.results.tree import SCHEMA
from models import MODELS, ZooError, load_data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
MEAN = RNG.normal(size=(2, 3))
FACTOR = RNG.normal(size=(2, 3, 3))
PRECISION = FACTOR @ FACTOR.transpose(0, 2, 1) + np.eye(3)
RATES = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]])
PROBS = np.column_stack([np.linspace(0, 1, 30), np.linspace(1, 0, 30)])


def result(data, sites, dims, probs=PROBS):
    """A result at one point, by hand."""
    latent = {"responsibilities": (("row", "component"), probs), "decode": ("row", probs.argmax(1))}
    groups = {
        "point_estimate": xr.Dataset({name: (dims[name], np.asarray(value)) for name, value in sites.items()}),
        "latent": xr.Dataset(latent),
        "observed_data": observed_data(data),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"schema": SCHEMA, "warnings": "", "whatever": "the labels"}
    return tree


def gmm(covariance, precision):
    data = load_data(X)
    model = MODELS["gmm"](data, num_components=2, covariance=covariance)
    sites = {"mixture_probs": np.ones(2) / 2, "mean": MEAN, "precision": precision}
    return model, result(data, sites, model.naming.dims)


CASES = {
    "full": (PRECISION, np.linalg.inv(PRECISION)),
    "tied": (PRECISION[0], np.stack([np.linalg.inv(PRECISION[0])] * 2)),
    "diag": (
        np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]]),
        np.stack([np.diag([1, 1 / 2, 1 / 4]), np.diag([1 / 3, 1 / 5, 1 / 6])]),
    ),
    "spherical": (np.array([2.0, 4.0]), np.stack([np.eye(3) / 2, np.eye(3) / 4])),
}


@pytest.mark.parametrize("covariance", CASES)
def test_covariances_are_those_of_the_model(covariance):
    precision, expected = CASES[covariance]
    columns = profile(*gmm(covariance, precision))
    for k in range(2):
        for d, e in ((0, 1), (2, 0), (1, 2)):
            np.testing.assert_allclose(
                covariance_of(columns[d], columns[e], k), expected[k][np.ix_([d, e], [d, e])], atol=1e-12
            )


def test_points_are_cells_and_ellipses_are_standard_deviations():
    model, tree = gmm("full", PRECISION)
    axes = np.array(plot_pairs(model, tree).axes).reshape(3, 3)
    columns = profile(model, tree)
    for row in range(3):
        for column in range(row):
            below = axes[row, column]
            drawn = np.concatenate([points.get_offsets() for points in below.collections])
            np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(X[:, [column, row]], axis=0))
            for number, ellipse in enumerate(below.patches):
                k, radius = divmod(number, len(RADII))
                away = np.asarray(ellipse.get_corners())
                matrix = covariance_of(columns[column], columns[row], k)
                apart = away - MEAN[k, [column, row]]  # the corners of the box around an ellipse: r √2 away
                distance = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(matrix), apart)
                np.testing.assert_allclose(distance, 2 * RADII[radius] ** 2)


def test_rows_in_doubt_are_large():
    model, tree = gmm("full", PRECISION)
    certain, doubtful = np.array(plot_pairs(model, tree).axes).reshape(3, 3)[0, 1].collections
    doubt = 1 - PROBS.max(1)
    assert len(certain.get_offsets()) == (doubt < NEVER).sum()
    sizes = {tuple(place): size for place, size in zip(doubtful.get_offsets().data, doubtful.get_sizes(), strict=True)}
    order = np.argsort(doubt)[int((doubt < NEVER).sum()) :]
    assert (np.diff([sizes[tuple(X[row, [1, 0]])] for row in order]) >= -1e-9).all()


def test_one_column_is_its_distribution():
    data = load_data(X[:, :1])
    model = MODELS["gmm"](data, num_components=2, covariance="diag")
    sites = {"mixture_probs": np.ones(2) / 2, "mean": MEAN[:, :1], "precision": np.ones((2, 1))}
    tree = result(data, sites, model.naming.dims)
    above, below = plot_pairs(model, tree).axes
    counts = sum(patch.get_data().values.sum() for patch in above.patches if patch.get_fill())
    assert counts == pytest.approx(30)
    assert below.get_xlabel() == "x0"


def test_columns_that_tell_most_are_drawn():
    x = np.column_stack([X, X + 1e-3, X[:, 0]])
    data = load_data(x)
    model = MODELS["gmm"](data, num_components=2, covariance="spherical")
    mean = np.vstack([np.zeros(7), np.arange(7.0)])
    sites = {"mixture_probs": np.ones(2) / 2, "mean": mean, "precision": np.ones(2)}
    figure = plot_pairs(model, result(data, sites, model.naming.dims))
    labels = [axis.get_xlabel() for axis in figure.axes[-MOST_COLUMNS:]]
    assert labels == ["x3", "x4", "x5", "x6"]
    assert f"{MOST_COLUMNS} of 7 columns" in figure.get_suptitle()


def test_results_without_groups_or_numbers_are_refused():
    data = load_data((X > 0) * 1.0)
    model = MODELS["naive_bayes"](data, num_classes=2)
    sites = {"class_probs": np.ones(2) / 2, "feature_probs": np.full((2, 3), 0.5)}
    tree = result(data, sites, model.naming.dims)
    assert not has_pairs(tree, profile(model, tree))
    with pytest.raises(ZooError, match="no column of this table holds numbers"):
        plot_pairs(model, tree)
    model, tree = gmm("full", PRECISION)
    with pytest.raises(ZooError, match="no groups"):
        plot_pairs(model, xr.DataTree.from_dict({"point_estimate": tree["point_estimate"].to_dataset()}))
