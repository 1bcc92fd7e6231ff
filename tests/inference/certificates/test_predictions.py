"""Averages over draws: small cases by hand, mutants that the check of predictions rejects, and cells that it passes."""

from importlib import import_module

import numpy as np
import pytest
import xarray as xr

from inference.certificates.cell import PLANS
from inference.certificates.checks import predictions
from inference.certificates.checks.cases import small_table
from inference.certificates.checks.figure import Figure
from inference.certificates.checks.predictions import Asking, Result, at_cells, compared, distance, shortfall
from inference.certificates.oracles import ORACLES, oracle_of
from inference.certificates.oracles.answers import Answers, averages, best_paths
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.mixing import WrongJoint
from inference.fitting.prepare import x64
from models import MODELS

LIMIT = 1e-9


def test_new_rows_weight_draws_by_their_density_and_fitted_rows_do_not():
    """Two draws, one row: densities 1 and 3, values 0 and 1, variances 1 and 2."""
    logs, value = np.log([[1.0], [3.0]]), np.array([[[0.0]], [[1.0]]])
    answers = Answers(logs, {"probs": value}, {"scores": (value, np.array([[[1.0]], [[2.0]]]))})
    new, fitted = averages(answers, False), averages(answers, True)
    assert (float(new["probs"][0, 0]), float(fitted["probs"][0, 0])) == pytest.approx((0.75, 0.5))
    assert float(new["scores_sd"][0, 0]) ** 2 == pytest.approx(0.25 * 1 + 0.75 * 2 + 0.75 * 0.25)
    assert float(np.exp(new["log_density"][0])) == float(np.exp(fitted["log_density"][0])) == pytest.approx(2)


@pytest.mark.parametrize("name", ORACLES)
def test_answers_of_an_oracle_add_up(name):
    """Densities of the rows of a table are its likelihood, probabilities sum to 1, and every slip says something else."""
    oracle = oracle_of(name)
    table, sites = small_table(oracle, 0), oracle.draw_parameters(np.random.default_rng(1), 7)
    answers = oracle.answers(sites, table, True)
    if answers.log_density is not None:
        wanted = oracle.log_likelihood(sites, repeated(table, 7))
        np.testing.assert_allclose(answers.log_density.sum(1), wanted, rtol=1e-11)
    if "probs" in answers.values:
        total = answers.values["probs"].sum(-1)
        np.testing.assert_allclose(total[~np.isnan(total)], 1.0, rtol=1e-12)
    right = averages(oracle.answers(sites, table, False), False)
    for slip in oracle.slips:
        wrong = slip.answers(sites, table, False)
        moved = [distance(value, right[what], what in wrong.undefined) for what, value in averages(wrong, False).items()]
        if wrong.paths is not None:
            shown = np.full(table["length"].shape[1:] + (table["length"].max(),), 0)
            both = [best_paths(each, False, shown)[1] for each in (wrong, oracle.answers(sites, table, False))]
            moved.append(distance(*both))
        assert max(value for value in moved if np.isfinite(value)) > 1e-3, slip.what


def test_paths_are_averaged_over_draws():
    """The most probable path of one state and one symbol is the only one; a state that is shown wrongly has less."""
    oracle = oracle_of("hmm")
    table, sites = small_table(oracle, 3), oracle.draw_parameters(np.random.default_rng(1), 5)
    answers = oracle.answers(sites, table, False)
    steps = [states.shape[1] for states in answers.paths.states]
    shown = np.zeros((len(steps), max(steps)), int)
    best, zero = best_paths(answers, True, shown)
    _, one = best_paths(answers, True, 1 - shown)
    assert (np.minimum(zero, one) < 0).all()
    assert (best <= 0).all()


def found_of(answers, fitted=False, **changed):
    """A prediction that says what the draws say."""
    own = averages(answers, fitted)
    values = own | {"assignment": own["probs"].argmax(1)} | changed
    variables = {name: ([f"{name}{axis}" for axis in range(value.ndim)], value) for name, value in values.items()}
    return xr.Dataset(variables)


def test_wrong_predictions_are_far_off():
    """A right one is not; nor are densities with a sign that is wrong, all draws alike, or another class chosen, right."""
    oracle = oracle_of("gmm_simple")
    table, sites = small_table(oracle, 0), oracle.draw_parameters(np.random.default_rng(1), 9)
    answers = oracle.answers(sites, table, False)
    own = averages(answers, False)
    chosen = own["probs"].argmax(1)
    right = found_of(answers)
    assert max(compared(right, answers, False, None).values()) == 0
    assert compared(found_of(answers, log_density=-own["log_density"]), answers, False, None)["log_density"] > LIMIT
    assert compared(found_of(answers, fitted=True), answers, False, None)["probs"] > LIMIT
    assert compared(found_of(answers, assignment=1 - chosen), answers, False, None)["assignment"] > LIMIT
    assert compared(found_of(answers, probs=own["probs"] * np.nan), answers, False, None)["probs"] == np.inf


def test_missing_cells_are_found_by_row_and_column():
    oracle = oracle_of("mixed_mixture")
    table = small_table(oracle, 0)
    found = xr.Dataset(coords={"cell_row": ("cell", [1, 2]), "cell_column": ("cell", ["size", "kind"])})
    wanted = np.arange(18.0).reshape(6, 3)
    assert at_cells(found, wanted, oracle.table(table, 0)).tolist() == [3.0, 7.0]


def test_nothing_is_chosen_exactly_where_there_are_no_probabilities():
    """Rows of three: a step that is there, one that is not, and a choice that is 0.6 less probable."""
    probs = np.array([[0.2, 0.8], [np.nan, np.nan]])
    assert shortfall(probs, np.array([1, -1])) == 0
    assert shortfall(probs, np.array([0, -1])) == pytest.approx(0.6)
    for wrong in ([-1, -1], [1, 0], [1, 1], [2, -1]):
        assert shortfall(probs, np.array(wrong)) == np.inf
    assert shortfall(probs[1:], np.array([-1])) == 0


def test_what_is_no_number_is_equal_to_itself_alone():
    """An infinity to one of its sign, and NaN to NaN only where entries may be missing and others are there."""
    inf, nan = np.inf, np.nan
    assert distance(np.array([inf, 1.0]), np.array([inf, 1.0])) == 0
    for found, wanted in [(3.0, inf), (-inf, inf), (nan, nan), (inf, 1.0), (nan, 1.0), (1.0, nan)]:
        assert distance(np.array([found, 1.0]), np.array([wanted, 1.0])) == inf, (found, wanted)
    assert distance(np.array([nan, 1.0]), np.array([nan, 2.0]), undefined=True) == pytest.approx(1 / 3)
    assert distance(np.array([nan, nan]), np.array([nan, nan]), undefined=True) == inf
    assert distance(np.array([nan, 1.0]), np.array([1.0, nan]), undefined=True) == inf


def test_a_prediction_that_lacks_a_variable_is_infinitely_far_off():
    """Each of those that it must have, also the choice, which is no average."""
    oracle = oracle_of("gmm_simple")
    sites = oracle.draw_parameters(np.random.default_rng(1), 5)
    answers = oracle.answers(sites, small_table(oracle, 0), False)
    full = found_of(answers)
    for name in ("probs", "log_density", "assignment"):
        assert compared(full.drop_vars(name), answers, False, None) == {name: np.inf}


@pytest.mark.parametrize("name", ["naive_bayes", "poisson_naive_bayes", "linear_discriminant", "annotators"])
def test_a_right_formula_is_no_slip(name, monkeypatch):
    """The oracle's own formula in the place of the slip says the same, with labels and without: nothing else differs."""
    module = import_module(ORACLES[name])
    made = module.mixture_oracle

    def right(model, weights, parts, options, mutant):
        slip = WrongJoint("right", lambda log_probs, sites, x: log_probs + parts.densities(sites, x))
        return made(model, weights, parts._replace(slip=slip), options, mutant)

    monkeypatch.setattr(module, "mixture_oracle", right)
    oracle = getattr(module, name)()
    table, sites = small_table(oracle, 0), oracle.draw_parameters(np.random.default_rng(1), 7)
    for with_label in (True, False):
        own, slip = (averages(answer(sites, table, with_label), True) for answer in (oracle.answers, oracle.slips[0].answers))
        assert all(distance(slip[what], value) < LIMIT for what, value in own.items())


@pytest.mark.parametrize("name", [name for name in ORACLES if oracle_of(name).far is not None])
def test_far_rows_are_far(name):
    """The last row is beyond all others, by more than two standard deviations of them, in a column of numbers."""
    oracle = oracle_of(name)
    table = small_table(oracle, 0)
    before, after = table["x"][0], oracle.far(table)["x"][0]
    assert ((after[-1] - np.nanmean(before, axis=0)) > 2 * np.nanstd(before, axis=0)).any()
    np.testing.assert_array_equal(after[:-1], before[:-1])


def test_every_way_has_predictions():
    assert all("predictions" in {check.name for check in plan.checks} for plan in PLANS.values())
    assert set(ORACLES) == set(MODELS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method", "draws"), [("gmm_simple", "gibbs", True), ("hmm", "em", False)])
def test_results_are_averages_and_those_of_slips_are_not(name, method, draws):
    """All figures pass; with draws that all count alike for new rows, those of new rows fail."""
    oracle = oracle_of(name)
    with x64(64):
        result = Result(Asking(method, draws), oracle, 3, 100)
        assert all(figure.passed for figure in result.figures(oracle.answers)), result.figures(oracle.answers)
        for slip in oracle.slips:
            assert not all(figure.passed for figure in result.figures(slip.answers))
    if draws:
        alike = result.answered["new"].copy()
        sites = {"mean": np.concatenate(list(result.few["posterior"]["mean"].values))}
        answers = oracle.answers(sites, result.other, False)
        assert compared(alike, answers, True, None)["probs"] > LIMIT


def test_a_control_without_slips_rejects_nothing(monkeypatch):
    """And a slip of which every figure is infinite may be of another mistake."""

    class Empty:
        def __init__(self, *_):
            pass

        def figures(self, answers):
            return [Figure("x", np.inf, 1.0, "relative")]

    monkeypatch.setattr(predictions, "Result", Empty)
    for slips in ((), oracle_of("gmm").slips[:1]):
        assert not predictions.predictions_control(Asking("gibbs", True), oracle_of("gmm")._replace(slips=slips), 0, 1).passed
