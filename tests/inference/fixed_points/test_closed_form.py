"""Where all latents are observed, the closed form is what EM iterates to, and it is used nowhere else."""

import numpy as np
import pytest
from scipy import sparse

from inference import fit
from models import MODELS, Data

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 60)
NUMBERS = RNG.normal(size=(60, 2)) + LABELS[:, None]
BITS = (RNG.random((60, 40)) < 0.04 + 0.02 * LABELS[:, None]).astype(float)


def table(x, labels=LABELS):
    return Data("table", x, tuple(f"x{d}" for d in range(x.shape[1])), labels, "y", ("a", "b", "c"))


CASES = {
    "bernoulli, sparse": ("naive_bayes", {}, sparse.csr_array(BITS), "em"),
    "gaussian": ("naive_bayes", {"emission": "gaussian"}, NUMBERS, "em"),
    "tied": ("linear_discriminant", {"prior": "flat"}, NUMBERS, "hard_em"),
}


@pytest.mark.parametrize("case", CASES)
def test_closed_form_is_the_fixed_point(case):
    """Iterations from the same update stay where they begin; the objective is the log joint of the result."""
    name, options, x, method = CASES[case]
    model = MODELS[name](table(x), **options)
    closed = fit(model, table(x), method)
    iterated = fit(model, table(x), method, tol=0, max_iter=3)
    for site, value in iterated["point_estimate"].data_vars.items():
        # Sums in another order round differently: 60 rows, about 1e-14 of the largest.
        np.testing.assert_allclose(closed["point_estimate"][site], value, rtol=1e-12, atol=1e-13)
    found, wanted = (tree["optimization"].to_dataset() for tree in (closed, iterated))
    assert set(found) == set(wanted)
    assert found["objective"].shape == (1, 1)
    assert wanted["objective"].shape == (1, 3)
    assert found["objective"].item() == closed["functionals"]["log_joint"].item()
    np.testing.assert_allclose(found["objective"].item(), wanted["objective"].values[0, -1], rtol=1e-12)
    assert found["converged"].all()
    assert found["iterations"].item() == 1


@pytest.mark.slow
def test_a_missing_label_or_cell_is_iterated():
    """Neither a missing label nor a missing cell of a full covariance leaves a closed form, and sites given are a start."""
    data = table(NUMBERS, np.where(np.arange(60) == 0, -1, LABELS))
    assert fit(MODELS["linear_discriminant"](data), data, "em", num_starts=1)["optimization"]["iterations"].item() > 1
    holed = NUMBERS.copy()
    holed[3, 1] = np.nan
    data = table(holed)
    assert fit(MODELS["linear_discriminant"](data), data, "em")["optimization"]["iterations"].item() > 1
    data = table(NUMBERS)
    model = MODELS["linear_discriminant"](data)
    point = {name: value.values for name, value in fit(model, data, "em")["point_estimate"].data_vars.items()}
    moved = fit(model, data, "em", start=point | {"mean": point["mean"] + 1.0})
    np.testing.assert_allclose(moved["point_estimate"]["mean"], point["mean"], rtol=1e-9, atol=1e-12)
    assert moved["optimization"]["iterations"].item() > 1
