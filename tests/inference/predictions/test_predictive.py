"""The short forms of the posterior predictive: the same as ratios of partition functions, row by row."""

import jax
import numpy as np
import pytest

from inference import posterior_predictive
from inference.engine.initialise import observed
from inference.fitting.prepare import as_arrays
from inference.predictions.exact_predictive import by_partitions
from models import MODELS, load_data
from models.data import Data

RNG = np.random.default_rng(0)
NUMBERS = Data("numbers", RNG.normal(3.0, 2.0, (40, 3)), ("a", "b", "c"), np.arange(40) % 3, "y", ("u", "v", "w"))
BITS = NUMBERS._replace(name="bits", x=(RNG.random((40, 5)) < 0.3).astype(float), columns=tuple("abcde"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("linear_discriminant", NUMBERS, {"covariance": "tied"}),
        ("linear_discriminant", NUMBERS, {"covariance": "full"}),
        ("naive_bayes", NUMBERS, {"emission": "gaussian"}),
        ("naive_bayes", BITS, {"emission": "bernoulli"}),
        ("naive_bayes", BITS, {"emission": "categorical"}),
    ],
)
def test_short_forms_of_the_predictive(name, data, options):
    """Rounding is that of log partitions of 40 rows, a few hundred in size: 1e-13 of them, and 1e-10 is a wide margin."""
    model = MODELS[name](data, **options)
    with jax.enable_x64(True):
        hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
        nu = jax.tree.map(lambda leaf: leaf[0], observed(model.algebra, 1, hyper, prior, rows))
        new = rows._replace(allowed_states=None)
        log_joint = np.asarray(by_partitions(model.algebra, hyper, nu, new))
    found = posterior_predictive(model, data, data)
    density = np.logaddexp.reduce(log_joint, axis=1)
    assert model.algebra.structure.predictive is not None
    np.testing.assert_allclose(found["log_density"], density, atol=1e-10)
    np.testing.assert_allclose(found["probs"], np.exp(log_joint - density[:, None]), atol=1e-10)


def test_the_predictive_of_a_row_with_a_missing_cell_sums_it_out():
    """Independent columns: leaving a column out of the model is the same as leaving its cell out of the row."""
    holed = NUMBERS._replace(x=np.where(np.arange(3)[None, :] == 1, np.nan, NUMBERS.x))
    model = MODELS["naive_bayes"](NUMBERS, emission="gaussian")
    without = load_data(NUMBERS, columns=["a", "c"])
    numbers = {"class": {name: model.hyper[name] for name in ("strength", "dof")}}
    numbers["class"] |= {name: model.hyper[name][[0, 2]] for name in ("location", "scatter")}
    smaller = MODELS["naive_bayes"](without, emission="gaussian", prior=numbers)
    left, right = posterior_predictive(model, NUMBERS, holed), posterior_predictive(smaller, without, without)
    np.testing.assert_allclose(left["log_density"], right["log_density"], atol=1e-10)
    np.testing.assert_allclose(left["probs"], right["probs"], atol=1e-10)
