"""With a proper prior every model fits one row, and more components than rows; a flat one is refused for its own reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from naive import SHORT, distances, is_finite, table, two_groups
from release import some
from two_stage import assert_standard_normal

from inference import fit
from models import MODELS, Data, ZooError, load_data
from models.base import Model

ONE = np.array([[1.5, -2.0, 0.25]])


def labelled(x: Any) -> Data:
    """One row of class a; there is a class b."""
    return load_data(x, labels=["a"])._replace(levels=("a", "b"))


CASES: dict[str, Callable[[], tuple[Model, Data]]] = {
    name: (lambda name=name, data=data, options=options: (MODELS[name](data, **options), data))
    for name, data, options in [
        ("gmm", table(ONE), {"num_components": 2}),
        ("mixed_mixture", load_data(ONE[:, :1], types={"x0": "number"}), {"num_components": 2}),
        ("linear_discriminant", labelled(ONE), {}),
        ("logistic_regression", labelled(ONE), {}),
        ("factor_analysis", table(ONE), {"num_factors": 1}),
        ("ppca", table(ONE), {"num_factors": 1}),
        ("hmm", table(ONE[:, :1]), {"emission": "gaussian"}),
        ("latent_dirichlet", load_data(["a b a"]), {"num_topics": 2}),
        ("markov_naive_bayes", labelled([["p", "q"]]), {}),
    ]
} | {
    f"naive_bayes {emission}": (
        lambda emission=emission: (MODELS["naive_bayes"](data := labelled([[1.0, 0.0]]), emission=emission), data)
    )
    for emission in ("bernoulli", "multinomial", "categorical", "poisson", "gaussian")
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_row_is_enough_for_a_proper_prior(name):
    """And where a Gaussian has no scale to take its default prior from, that is said."""
    model, data = CASES[name]()
    tree = fit(model, data, "em", num_starts=1, max_iter=20)
    assert is_finite(tree)
    scaled = "scatter" in model.hyper
    assert scaled == any("one row has no variance" in line for line in model.summaries.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("method", some(SHORT))
def test_more_components_than_rows(method):
    """Empty components have their prior; only the sum over all assignments is for few rows, and here they are."""
    x = two_groups(3)
    tree = fit(MODELS["gmm"](table(x), num_components=4, covariance="spherical"), table(x), method, seed=0, **SHORT[method])
    assert is_finite(tree)
    assert tree["latent"]["responsibilities"].shape == (3, 4)


@pytest.mark.slow
def test_empty_components_are_drawn_from_the_prior():
    """Two rows, four components: Gibbs has the exact posterior of everything that no label enters."""
    x = two_groups(2)
    model = MODELS["gmm"](table(x), num_components=4, covariance="spherical")

    def deviations(seed: int, times: int) -> np.ndarray:
        options = {"num_chains": 4, "num_samples": 1280 * times, "seed": seed}
        exact, gibbs = (fit(model, table(x), method, **options) for method in ("exact", "gibbs"))
        return distances(gibbs, exact, ("log_likelihood", "sorted_probs", "co_clustering"))

    assert_standard_normal(deviations)


@pytest.mark.slow
def test_columns_without_a_scale_take_the_users():
    """A constant column has no variance to scale a prior by: numbers do, and the message says so."""
    x = np.column_stack([np.ones(6), two_groups(6)[:, 0]])
    with pytest.raises(ZooError, match=r"column 'a' has the same value.*cannot take its scale from them.*or give the scatter"):
        MODELS["gmm"](table(x), covariance="diag")
    model = MODELS["gmm"](table(x), covariance="diag", prior={"component": {"scatter": [1.0, 2.0]}})
    assert is_finite(fit(model, table(x), "em", num_starts=1, max_iter=20))
    with pytest.raises(ZooError, match=r"column 'a' has the same value.*no finite density there.*drop_constant=true$"):
        MODELS["gmm"](table(x), covariance="diag", prior="flat")


@pytest.mark.slow
def test_a_flat_prior_names_what_it_lacks():
    """More components than rows collapse; one row has no variance."""
    with pytest.raises(ZooError, match="collapses: the component is empty or has too few distinct rows"):
        fit(MODELS["gmm"](table(two_groups(3)), num_components=4, covariance="diag", prior="flat"), table(two_groups(3)), "em")
    with pytest.raises(ZooError, match="no finite density"):
        MODELS["gmm"](table(ONE), num_components=1, prior="flat")
