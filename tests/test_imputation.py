"""Missing cells under the posterior, Rubin's rules, the evidence, and criteria of size."""

import numpy as np
import pytest

from inference import completed_table, fit, impute, pooled, predict
from inference.evidence import log_evidence
from inference.selection import alarms, criteria
from models import MODELS, ZooError, load_data
from models.data import Data

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 1, (30, 2)), RNG.normal(4, 1, (30, 2))])
HOLED = np.where((np.arange(60)[:, None] + np.arange(2)[None, :]) % 7 == 0, np.nan, X)
NUMBERS = Data("numbers", HOLED, ("u", "v"))


def test_gaussian_cells_are_imputed_by_the_conditional():
    """One component, full covariance, at given sites: draws have mean and sd of the regression on the other cell.

    16 cells of 4000 draws each: |z| < 5 for the mean fails by chance with probability 16 × 6e-7 = 1e-5; the sd of 4000 draws is
    known to 1.1 %, so that 6 % is more than five of its standard errors.
    """
    precision = np.array([[[1.5, -0.6], [-0.6, 0.8]]])
    sites = {"mean": np.array([[1.0, 2.0]]), "precision": precision, "mixture_probs": np.ones(1)}
    model = MODELS["gmm"](NUMBERS, num_components=1)
    found = impute(model, sites, NUMBERS, num_draws=4000, seed=3)
    row, place = found["cell_row"].values, np.array([("u", "v").index(name) for name in found["cell_column"].values])
    own = precision[0, place, place]
    mean = sites["mean"][0, place] - precision[0, 0, 1] / own * (HOLED[row, 1 - place] - sites["mean"][0, 1 - place])
    assert np.isnan(HOLED[row, place]).all()
    assert np.abs((found["imputed_mean"] - mean) * np.sqrt(4000 * own)).max() < 5
    np.testing.assert_allclose(found["imputed_sd"], 1 / np.sqrt(own), rtol=0.06)


def test_intervals_cover_hidden_cells():
    """Cells hidden from a mixture that is true: 50 % and 90 % intervals hold the share they should.

    400 hidden cells; a share differs from its expectation by more than 4.5 binomial standard errors with probability 7e-6,
    plus what estimating the parameters from 2000 rows adds, which is below one of these standard errors.
    """
    complete = load_data("martians_survey", num_rows=2000, missing=0.0, seed=5, correlated=False)
    complete = complete._replace(labels=None, label=None, levels=())
    hidden = np.zeros(complete.x.shape, dtype=bool)
    hidden[np.random.default_rng(1).choice(2000, 400, replace=False), 0] = True
    data = complete._replace(x=np.where(hidden, np.nan, complete.x))
    model = MODELS["mixed_mixture"](data, num_components=3)
    tree = fit(model, data, "gibbs", seed=2, num_warmup=100, num_samples=200, num_chains=2)
    draws = impute(model, tree, data, num_draws=400)["imputed"].values
    truth = complete.x[hidden]
    for share in (0.5, 0.9):
        low, high = np.quantile(draws, [(1 - share) / 2, (1 + share) / 2], axis=0)
        inside = ((low <= truth) & (truth <= high)).mean()
        assert abs(inside - share) < 5.5 * np.sqrt(share * (1 - share) / 400)


def test_completed_tables_keep_what_was_there():
    """Names of levels, order of columns, observed cells; levels come as the most probable, and from one draw as drawn."""
    data = load_data("martians_survey", num_rows=60, seed=1)
    model = MODELS["mixed_mixture"](data, num_components=2)
    tree = fit(model, data, "em", num_starts=2)
    found = impute(model, tree, data, num_draws=20)
    before, after = load_data(data), completed_table(model, found, data)
    assert list(after.columns[:5]) == list(before.columns)
    assert not after.isna().any(axis=None)
    seen = ~np.isnan(data.x)
    np.testing.assert_array_equal(after["weight"].to_numpy()[seen[:, 0]], data.x[seen[:, 0], 0])
    names = np.array(data.categories[2])[data.x[seen[:, 2], 2].astype(int)]
    np.testing.assert_array_equal(after["planet"].astype(str).to_numpy()[seen[:, 2]], names)
    place = (found["cell_column"] == "planet").values
    probs = found["imputed_probs"].values[place]
    np.testing.assert_allclose(probs.sum(1), 1.0)
    np.testing.assert_array_equal(probs.argmax(1), found["imputed_mode"].values[place])
    assert set(predict(model, tree, data)) >= {"probs", "imputed", "imputed_probs"}
    assert "imputed" not in predict(model, tree, data._replace(x=np.nan_to_num(data.x)))


def test_models_of_complete_rows_have_nothing_to_impute():
    data = load_data("iris")
    model = MODELS["logistic_regression"](data)
    with pytest.raises(ZooError, match="complete rows"):
        impute(model, {}, data)


def test_rubins_rules():
    """By hand, for two tables: W = 2.5, B = 2, total 2.5 + 1.5 · 2; and a law: equal estimates add nothing."""
    found = pooled([1.0, 3.0], [2.0, 3.0])
    assert (found.estimate, found.standard_error) == (2.0, np.sqrt(5.5))
    assert found.missing_information == pytest.approx(3 / 5.5)
    assert found.dof == pytest.approx(1 / (3 / 5.5) ** 2)
    assert pooled([[1.0, 2.0]] * 3, [[0.5, 0.25]] * 3).standard_error == pytest.approx(np.sqrt([0.5, 0.25]))
    with pytest.raises(ZooError, match="2 tables"):
        pooled([1.0], [1.0])


@pytest.mark.parametrize("num_components", [1, 2])
def test_the_evidence_is_the_sum_over_assignments(num_components):
    """Within six of its standard errors, which eight chains tell within a factor of two: a false alarm in a thousand seeds."""
    data = Data("few", HOLED[24:36], ("u", "v"))
    model = MODELS["gmm"](data, num_components=num_components, covariance="diag")
    exact = fit(model, data, "exact", num_samples=4).attrs["log_evidence"]
    found = log_evidence(model, data, num_temperatures=100, seed=1)
    assert found.standard_error < 0.5
    assert abs(found.log_evidence - exact) < 6 * found.standard_error


def test_criteria_by_hand():
    """Two components in two columns, diagonal: 1 + 4 + 4 free numbers; the entropy is that of the responsibilities."""
    model = MODELS["gmm"](NUMBERS, num_components=2, covariance="diag", prior="flat")
    tree = fit(model, NUMBERS, "em", num_starts=4)
    found = criteria(tree)
    total = float(tree["functionals"]["log_likelihood"])
    probs = tree["latent"]["responsibilities"].values.astype(float)
    entropy = -np.where(probs > 0, probs * np.log(np.maximum(probs, 1e-300)), 0).sum()
    assert found["parameters"] == 9
    assert found["AIC"] == pytest.approx(18 - 2 * total)
    assert found["BIC"] == pytest.approx(9 * np.log(60) - 2 * total)
    assert found["ICL"] == pytest.approx(found["BIC"] + 2 * entropy, abs=1e-3)  # kept in single precision: 60 rows × 1e-6


def test_a_lone_best_start_raises_an_alarm():
    model = MODELS["gmm"](NUMBERS, num_components=2, covariance="diag")
    tree = fit(model, NUMBERS, "em", num_starts=3)
    assert alarms({"em": tree}) == []
    final = tree["optimization"]["final_objective"].values.copy()
    lone = tree.copy()
    lone["optimization"] = tree["optimization"].to_dataset().assign(final_objective=("start", final - [0.0, 5.0, 9.0]))
    assert "only 1 of 3 starts" in alarms({"em": lone})[0]
