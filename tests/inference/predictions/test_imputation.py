"""Missing cells under the posterior, Rubin's rules, the evidence, and criteria of size."""

import numpy as np
import pytest
from two_stage import assert_standard_normal, of_counts, of_student

from inference import completed_table, fit, impute, pooled, predict
from inference.comparison.criteria import criteria
from inference.evidence.thermodynamic import thermodynamic_evidence
from models import MODELS, ZooError, load_data
from models.data import Data

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 1, (30, 2)), RNG.normal(4, 1, (30, 2))])
HOLED = np.where((np.arange(60)[:, None] + np.arange(2)[None, :]) % 7 == 0, np.nan, X)
NUMBERS = Data("numbers", HOLED, ("u", "v"))


PRECISION = np.array([[[1.5, -0.6], [-0.6, 0.8]]])
REGRESSION = {"mean": np.array([[1.0, 2.0]]), "precision": PRECISION, "mixture_probs": np.ones(1)}


def regressed(**options):
    """What is imputed by one component with full covariance, and mean and precision by the regression on the other cell."""
    found = impute(MODELS["gmm"](NUMBERS, num_components=1), REGRESSION, NUMBERS, **options)
    row, place = found["cell_row"].values, np.array([("u", "v").index(name) for name in found["cell_column"].values])
    assert np.isnan(HOLED[row, place]).all()
    own, centre = PRECISION[0, place, place], REGRESSION["mean"][0]
    return found, centre[place] - PRECISION[0, 0, 1] / own * (HOLED[row, 1 - place] - centre[1 - place]), own


def test_gaussian_cells_are_imputed_by_the_conditional():
    """Mean and sd of a cell are those of the regression on the other cell."""
    found, mean, precision = regressed(num_draws=2)
    np.testing.assert_allclose(found["imputed_mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(found["imputed_sd"], 1 / np.sqrt(precision), rtol=1e-9)


@pytest.mark.slow
def test_draws_of_gaussian_cells_have_their_moments():
    def deviations(seed, times):
        found, mean, precision = regressed(num_draws=4000 * times, seed=seed)
        away = (found["imputed"].values - mean) * np.sqrt(precision)
        return np.concatenate([away.mean(0) * np.sqrt(len(away)), (away.std(0) - 1) * np.sqrt(2 * len(away))])

    assert_standard_normal(deviations, 3)


@pytest.mark.slow
def test_intervals_cover_hidden_cells():
    """Cells hidden from a mixture that is true: 50 % and 90 % intervals hold the share they should.

    The place of the truth among the draws, with itself at random, is uniform. What estimating the parameters from five times as
    many rows adds is below a standard error, and halves where the rows are four times as many.
    """

    def deviations(seed, times):
        rows, cells = 1000 * times, 200 * times
        complete = load_data("martians_survey", num_rows=rows, missing=0.0, seed=seed, correlated=False)
        complete = complete._replace(labels=None, label=None, levels=())
        rng, hidden = np.random.default_rng(seed + 1), np.zeros(complete.x.shape, dtype=bool)
        hidden[rng.choice(rows, cells, replace=False), 0] = True
        data = complete._replace(x=np.where(hidden, np.nan, complete.x))
        model = MODELS["mixed_mixture"](data, num_components=3)
        tree = fit(model, data, "gibbs", seed=seed + 2, num_warmup=100, num_samples=200, num_chains=2)
        draws = impute(model, tree, data, num_draws=400, seed=seed)["imputed"].values
        place = ((draws < complete.x[hidden]).sum(0) + rng.random(cells)) / 401
        return [of_counts((np.abs(place - 0.5) < share / 2).sum(), cells, share) for share in (0.5, 0.9)]

    assert_standard_normal(deviations, 5)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("num_components", [1, 2])
def test_the_evidence_is_the_sum_over_assignments(num_components):
    """In standard errors of independent chains, of eight or more."""
    data = Data("few", HOLED[24:36], ("u", "v"))
    model = MODELS["gmm"](data, num_components=num_components, covariance="diag")
    exact = fit(model, data, "exact", num_samples=4).attrs["log_evidence"]

    def deviations(seed, times):
        found = thermodynamic_evidence(model, data, num_temperatures=100, num_chains=8 * times, seed=seed)
        assert found.standard_error < 0.5
        return of_student((found.log_evidence - exact) / found.standard_error, 8 * times - 1)

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
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


def test_a_part_of_a_table_is_imputed_as_in_the_whole():
    """The random numbers of a row go with its place in the table, and not with its place in a part of it."""
    model = MODELS["gmm"](NUMBERS, num_components=1)
    whole = impute(model, REGRESSION, NUMBERS, num_draws=2)
    part = impute(model, REGRESSION, NUMBERS._replace(x=HOLED[30:]), num_draws=2, first_row=30)
    later = whole["cell_row"].values >= 30
    np.testing.assert_array_equal(part["cell_row"].values + 30, whole["cell_row"].values[later])
    np.testing.assert_allclose(part["imputed"].values, whole["imputed"].values[:, later], rtol=1e-12)
