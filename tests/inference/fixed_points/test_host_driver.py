"""Fixed points whose E-step runs on the host: what the algebra finds, iteration by iteration."""

import numpy as np
import pytest
from naive import two_groups

import inference.fixed_points.host_driver
from inference import fit
from models import MODELS
from models.data.table import Data

X = two_groups(60)
WEIGHT = np.tile([1.0, 2.0, 0.0], 20)
CASES = {
    "em": ("em", {}),
    "flat": ("em", {"prior": "flat"}),
    "cavi": ("cavi", {}),
    "weights learnt": ("em", {"weights": "dirichlet_process_learned"}),
}


@pytest.mark.parametrize("case", CASES)
def test_loops_on_the_host_climb_as_the_algebra_does(monkeypatch, case):
    """Traces, iterations and optima of three starts; sums in another order round differently, at most a thousand times."""
    method, options = CASES[case]
    data = Data("groups", X, ("a", "b"), weight=None if case == "flat" else WEIGHT)
    model = MODELS["gmm"](data, num_components=2, covariance="full", **options)
    trees = []
    for fewest in (len(X) + 1, 1):
        monkeypatch.setattr(inference.fixed_points.host_driver, "FEWEST_LATENTS", fewest)
        trees.append(fit(model, data, method, num_starts=3, max_iter=100, tol=1e-4))
    (by_algebra, by_loops) = (tree["optimization"] for tree in trees)
    np.testing.assert_array_equal(by_loops["iterations"], by_algebra["iterations"])
    assert len(set(by_algebra["iterations"].values.tolist())) > 1, "no start waits for another"
    np.testing.assert_allclose(by_loops["objective"], by_algebra["objective"], rtol=1e-12)
    np.testing.assert_allclose(trees[1]["functionals"]["log_joint"], trees[0]["functionals"]["log_joint"], rtol=1e-12)


def test_rows_that_the_loops_cannot_read_go_to_the_algebra(monkeypatch):
    """Labels and missing cells: each is a model for which the same call must still be right."""
    monkeypatch.setattr(inference.fixed_points.host_driver, "FEWEST_LATENTS", 1)
    monkeypatch.setattr(inference.fixed_points.fixed_point, "drive_on_host", lambda *_: pytest.fail("the loops were asked"))
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    data = Data("holes", holes, ("a", "b"))
    fit(MODELS["gmm"](data, num_components=2, covariance="full"), data, "em", num_starts=1, max_iter=2, tol=0)
    labelled = Data("labels", X, ("a", "b"), np.arange(60) % 2, "y", ("0", "1"))
    fit(MODELS["linear_discriminant"](labelled, covariance="full"), labelled, "em", max_iter=2, tol=0)
