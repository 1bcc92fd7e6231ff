"""Functionals of logistic regression mean the same in all units."""

import numpy as np
import pytest

from inference import fit
from models import MODELS, load_data


@pytest.mark.slow
def test_weight_norm_has_no_unit():
    """The length of weight × standard deviation, class by class; other units and a constant column leave it as it is."""
    iris = load_data("iris")
    unit = np.array([1e3, 1.0, 1e-2, 7.0])
    scaled = iris._replace(x=iris.x * unit + [1.0, 2.0, 3.0, 4.0])
    longer = iris._replace(x=np.column_stack([iris.x, np.ones(150)]), columns=(*iris.columns, "same"))
    trees = [fit(MODELS["logistic_regression"](data), data, method="em", tol=1e-14) for data in (iris, scaled, longer)]
    here, there, wider = (tree["functionals"]["weight_norm"].values for tree in trees)
    weight = trees[0]["point_estimate"]["weight"].values
    np.testing.assert_allclose(here, np.sqrt(((weight * iris.x.std(0)) ** 2).sum(1)), rtol=1e-12)
    np.testing.assert_allclose(there, here, rtol=1e-5)  # both climbs end within their tolerance of the same maximum
    np.testing.assert_allclose(wider, here, rtol=1e-5)


@pytest.mark.slow
def test_draws_on_a_constant_column_do_not_enter():
    """Their weights are the prior's: no more noise in the functional than without the column."""
    iris = load_data("iris")
    longer = iris._replace(x=np.column_stack([iris.x, np.ones(150)]), columns=(*iris.columns, "same"))
    tree = fit(MODELS["logistic_regression"](longer), longer, method="gibbs", num_warmup=5, num_samples=5, num_chains=2)
    weight = tree["posterior"]["weight"].values[..., :4]
    norm = np.sqrt(((weight * iris.x.std(0)) ** 2).sum(-1))
    np.testing.assert_allclose(tree["functionals"]["weight_norm"], norm, rtol=1e-12)
