"""Leave-one-out: draws of an approximation weighed by p / q, rows whose weights fail, and refits without them."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from drawn_results import drawn, normal
from rich.console import Console
from scipy import stats
from two_stage import assert_standard_normal, of_student

from inference import compare, fit, refit_rows
from inference.cli.comparing import print_comparison
from inference.comparison.criteria import best_sizes
from inference.comparison.refitting import Sample, averaged, bridged
from inference.diagnostics.importance import leave_one_out, log_weights, pareto_k, rows_left_out, smoothed_weights
from inference.methods.cavi import why_no_weights
from models import MODELS, Data, Model, ZooError, load_data
from models.data.documents import documents

X = np.random.default_rng(2).normal(size=20)
EXACT = stats.norm.logpdf(X, (X.sum() - X) / 19, np.sqrt(20 / 19))  # log p(x_n | the others): x ~ N(θ, 1) under a flat prior


def of_normal(seed: int, draws: int, centre: float, scale: float) -> np.ndarray:
    """Errors of elpd (N,) by draws of q = N(centre, scale²) where p(θ | x) is N(mean of x, 1/20)."""
    theta = centre + scale * np.random.default_rng(seed).normal(size=(1, draws))
    weights = stats.norm.logpdf(theta, X.mean(), np.sqrt(1 / 20)) - stats.norm.logpdf(theta, centre, scale)
    rows = xr.DataArray(stats.norm.logpdf(X, theta[..., None], 1.0), dims=("chain", "draw", "row"))
    return leave_one_out(rows, weights).elpd - EXACT


def test_draws_of_an_approximation_are_weighed():
    """A q that is off by half a standard deviation, and wider by a half: against the exact answer, in standard errors."""
    q = X.mean() + 0.5 / np.sqrt(20), 1.5 / np.sqrt(20)

    def deviations(seed, times):
        found = np.array([of_normal(1000 * seed + r, 400 * times, *q) for r in range(20)])
        return of_student(found.mean(0) / (found.std(0, ddof=1) / np.sqrt(20)), 19)

    assert_standard_normal(deviations)


def test_k_hat_is_of_the_largest_weights():
    """Weights with a Pareto tail of shape 0.9; with the tail of their inverses, which are bounded, k-hat is below 0."""
    heavy = -0.9 * np.log(np.random.default_rng(0).uniform(size=4000))
    assert pareto_k(heavy) == pytest.approx(0.9, abs=0.25)  # the standard error is about (1 + k) / √(3 √4000) = 0.14
    assert pareto_k(-heavy) < 0.3


def test_equal_weights_are_the_mean():
    assert smoothed_weights(np.full(100, -7.0)) == pytest.approx(np.full(100, 0.01))
    weights = smoothed_weights(np.random.default_rng(0).normal(size=400))
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("spread", [400.0, 1000.0, 1e5])
def test_one_draw_that_outweighs_all_others_is_seen(spread):
    """Normal log weights so far apart that a few only are numbers next to the largest: no tail can be fitted to these."""
    for seed in range(40):
        assert pareto_k(spread * np.random.default_rng(seed).normal(size=4000)) > 0.7


def test_a_weight_of_zero_is_a_weight():
    """As of draws that the posterior holds impossible: they change nothing, unless most of the tail is of them."""
    weights = -0.5 * np.log(np.random.default_rng(0).uniform(size=4000))
    some = np.where(np.arange(4000) % 2, weights, -np.inf)
    assert pareto_k(some) == pytest.approx(pareto_k(weights), abs=0.2)
    assert smoothed_weights(some)[0] == 0
    assert smoothed_weights(some).sum() == pytest.approx(1)
    assert pareto_k(np.where(np.arange(4000) < 100, 0.0, -np.inf)) == np.inf
    assert pareto_k(np.full(4000, -np.inf)) == np.inf
    assert pareto_k(np.where(np.arange(4000) < 1, np.nan, weights)) == np.inf


def test_draws_of_weight_zero_leave_the_others_as_they_are():
    """One that holds a row impossible has weight 0, and counts for no row."""
    each = np.random.default_rng(0).normal(size=(2, 500, 3))
    weights = np.random.default_rng(1).normal(size=(2, 500))
    wanted = leave_one_out(xr.DataArray(each[:, 1:], dims=("chain", "draw", "row")), weights[:, 1:])
    each[:, 0, 1], weights[:, 0] = -np.inf, -np.inf
    found = leave_one_out(xr.DataArray(each, dims=("chain", "draw", "row")), weights)
    np.testing.assert_array_equal(found.elpd, wanted.elpd)
    np.testing.assert_array_equal(found.pareto_k, wanted.pareto_k)
    nothing = leave_one_out(xr.DataArray(each, dims=("chain", "draw", "row")), np.full((2, 500), -np.inf))
    assert (nothing.pareto_k == np.inf).all()


def far_sample(outlier: float, seed: int, draws: int, with_it: bool) -> Sample:
    """What draws of the posterior under θ ~ N(0, 1), of the twenty rows or of these and the outlier, say of the outlier."""
    size, total = (21, X.sum() + outlier) if with_it else (20, X.sum())
    theta = total / (size + 1) + np.random.default_rng(seed).normal(size=(1, draws)) / np.sqrt(size + 1)
    return Sample(stats.norm.logpdf(outlier, theta), np.zeros(theta.shape), False)


def without_outlier(outlier: float) -> float:
    """Log p(outlier | the twenty rows) under θ ~ N(0, 1)."""
    return float(stats.norm.logpdf(outlier, X.sum() / 21, np.sqrt(22 / 21)))


@pytest.mark.parametrize("outlier", [5.0, 20.0])
def test_the_bridge_is_between_both_posteriors(outlier):
    """Of a row 20 standard deviations away, where the average of its density is of a few draws, and k-hat says so."""

    def deviations(seed, times):
        others, everything = (far_sample(outlier, 2 * seed + k, 2000 * times, bool(k)) for k in (0, 1))
        found = bridged(others, everything)
        assert found.pareto_k < 0.7
        assert (averaged(others).pareto_k > 0.7) == (outlier > 10)
        return (found.value - without_outlier(outlier)) / found.se

    assert_standard_normal(deviations)


def test_no_bridge_is_long_enough_for_every_row():
    for outlier in (50.0, 1000.0):
        others, everything = (far_sample(outlier, k, 2000, bool(k)) for k in (0, 1))
        assert bridged(others, everything).pareto_k > 0.7


# ---------------------------------------------------------------------------------------------------------------------
# What compare says of it


def with_rows(tree: xr.DataTree, outlier: float, **attrs) -> xr.DataTree:
    """Twenty rows, and one at ``outlier``, under N(θ, 1), where the draws of θ are a twentieth of those given."""
    theta = tree["posterior"]["theta"].values / np.sqrt(20)
    x = np.append(X, outlier)
    rows = stats.norm.logpdf(x, theta[..., None], 1.0)
    tree["log_likelihood"] = xr.DataTree(
        xr.Dataset(
            {"x": (("chain", "draw", "row"), rows)},
            coords={"chain": np.arange(4), "draw": np.arange(500), "row": np.arange(21)},
        )
    )
    seconds = {f"{phase}_seconds": 1.0 for phase in ("compile", "warmup", "run", "total")}
    tree.attrs |= {"model": "m", "density_of": "x", "num_parameters": 1, "exit_status": 0, "options": "{}", **seconds, **attrs}
    return tree


def test_no_size_is_best_by_an_elpd_that_is_not_valid(capsys):
    """k-hat of one row is above 0.7: a line says so and what to do, and elpd prefers nothing."""
    good, bad = (with_rows(drawn(normal()), outlier, num_parameters=size) for outlier, size in ((0.0, 3), (20.0, 4)))
    found = compare({"good": good, "bad": bad})
    assert found.table["k-hat"]["good"] < 0.7 < found.table["k-hat"]["bad"]
    assert not any(line.startswith("elpd") for line in best_sizes(found.table))
    assert any(line.startswith("elpd") for line in best_sizes(found.table.assign(**{"elpd valid": True})))
    assert [note.split(":")[0] for note in found.notes] == ["bad"]
    assert "1 of 21 rows have a Pareto k-hat above 0.70" in found.notes[0]
    print_comparison(found, Console(width=80))
    printed = capsys.readouterr().out
    assert "inference.refit_rows(model, data, result)" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80


def test_refits_take_the_place_of_the_rows_that_fail():
    """One that has passed its diagnostics, and whose own k-hat is good; any other leaves elpd as it was."""
    tree = with_rows(drawn(normal()), 20.0)
    plain = compare({"a": tree}).table.iloc[0]
    for status, khat in ((0, 0.3), (3, 0.3), (0, 0.8), (0, np.nan), (0, None)):
        given = {"elpd": -9.0, "exit_status": status} | ({} if khat is None else {"pareto_k": khat})
        refitted = tree.copy()
        group = {name: ("row", np.array([value])) for name, value in given.items()}
        refitted["refits"] = xr.DataTree(xr.Dataset(group, coords={"row": [20]}))
        found, sound = compare({"a": refitted}), status == 0 and khat == 0.3
        assert bool(found.table["elpd valid"].iloc[0]) == sound == (not found.notes)
        assert (found.table["k-hat"].iloc[0] < 0.7) == sound
        assert (found.table["elpd"].iloc[0] == pytest.approx(plain["elpd"], abs=1e-9)) != sound


@pytest.mark.parametrize("kind", ["chains", "approximation"])
def test_a_k_hat_that_is_no_number_is_not_good(kind):
    """Of a row at 10,000, whose weights are 0 next to the largest: in either branch elpd is not valid."""
    tree = with_rows(drawn(normal(), kind), 1e4)
    khat = rows_left_out(tree, tree["log_likelihood"]["x"], np.zeros((4, 500)))[1]
    assert khat[20] == np.inf
    assert np.isfinite(khat[:20]).all()
    if kind == "chains":
        assert not compare({"a": tree}).table["elpd valid"].iloc[0]


def test_weights_are_of_the_draws_that_were_kept():
    """Log-likelihoods of many rows are thinned, weights are not."""
    tree = with_rows(drawn(normal(), "approximation"), 0.0)
    every = np.arange(2000.0).reshape(4, 500)
    tree["sample_stats"] = xr.DataTree(
        xr.Dataset({"log_weight": (("chain", "draw"), every)}, coords={"chain": np.arange(4), "draw": np.arange(500)})
    )
    tree["log_likelihood"] = xr.DataTree(tree["log_likelihood"].to_dataset().isel(draw=slice(None, None, 3)))
    np.testing.assert_array_equal(log_weights(tree), every[:, ::3])


def test_an_approximation_without_weights_has_no_elpd():
    tree = with_rows(drawn(normal(), "approximation"), 0.0)
    found = compare({"cavi": tree})
    assert np.isnan(found.table["elpd"].iloc[0])
    assert "weights p / q are not known" in found.notes[0]
    tree["sample_stats"] = xr.DataTree(
        xr.Dataset(
            {"log_weight": (("chain", "draw"), np.zeros((4, 500)))}, coords={"chain": np.arange(4), "draw": np.arange(500)}
        )
    )
    assert np.isfinite(compare({"cavi": tree}).table["elpd"].iloc[0])
    assert compare({"cavi": tree}).table[["R-hat", "ESS", "ESS/s"]].isna().all(axis=None)


# ---------------------------------------------------------------------------------------------------------------------
# Weights of cavi, and refits, where the posterior is known


@cache
def labelled() -> tuple[Model, Data]:
    rng = np.random.default_rng(5)
    data = load_data(rng.normal(size=(12, 2)) + 2 * (np.arange(12) % 2)[:, None], labels=np.array(list("ab" * 6)))
    return MODELS["linear_discriminant"](data), data


def without(row: int | None) -> Data:
    data = labelled()[1]
    return data if row is None else data._replace(weight=(np.arange(12) != row).astype(float))


@cache
def log_evidence(row: int | None) -> float:
    return float(fit(labelled()[0], without(row), "exact", num_samples=2, num_chains=1).attrs["log_evidence"])


@pytest.mark.slow
def test_weights_of_cavi_where_it_is_exact():
    """With every label given q(θ) is the posterior: log p(x, θ) − log q(θ) is log p(x) at every θ, and k-hat is 0."""
    model, data = labelled()
    tree = fit(model, data, "cavi", num_samples=50, num_chains=1)
    weights = tree["sample_stats"]["log_weight"].values
    np.testing.assert_allclose(weights, log_evidence(None), rtol=1e-9)
    assert tree.attrs["pareto_k"] == 0
    assert tree.attrs["draws"] == "approximation"


def test_where_weights_of_cavi_say_nothing():
    """Parameters of every row, and rotations that q does not know of; elsewhere they are there."""
    data = load_data(np.random.default_rng(1).normal(size=(20, 3)))
    assert why_no_weights(MODELS["gmm"](data, num_components=2)) == ""
    assert "every rotation of the factors" in why_no_weights(MODELS["factor_analysis"](data, num_factors=1))
    assert "topic_probs of its own" in why_no_weights(MODELS["latent_dirichlet"](documents([["a", "b"], ["b"]]), num_topics=2))


@pytest.mark.slow
def test_refits_are_leave_one_out():
    """log p(x_n | the others) = log p(x) − log p(the others), both in closed form; errors in those that the refits state."""
    model, data = labelled()

    def deviations(seed, times):
        tree = fit(model, data, "exact", seed=seed, num_samples=500 * times, num_chains=2)
        found = refit_rows(model, data, tree, rows=[0, 7])["refits"].to_dataset()
        wanted = np.array([log_evidence(None) - log_evidence(row) for row in (0, 7)])
        assert (found["exit_status"] == 0).all()
        return (found["elpd"].values - wanted) / found["se"].values

    assert_standard_normal(deviations)


def far(outlier: float) -> tuple[Model, np.ndarray]:
    """One component of unit variance whose mean is N(0, 1), and a row far away among twenty others."""
    data = np.append(X, outlier)[:, None]
    return MODELS["gmm_simple"](data, num_components=1), data


@pytest.mark.slow
def test_a_row_far_away_is_refitted_by_default():
    """In errors that the refit states; a row nearer, asked for as well, stays when more draws are taken of the first."""
    model, data = far(20.0)

    def deviations(seed, times):
        tree = fit(model, data, "gibbs", seed=seed, num_samples=1000 * times, num_chains=4)
        found = refit_rows(model, data, tree)["refits"].to_dataset()
        assert list(found["row"]) == [20]
        assert found["pareto_k"].item() < 0.7
        return (found["elpd"].values - without_outlier(20.0)) / found["se"].values

    assert_standard_normal(deviations)
    tree = refit_rows(model, data, fit(model, data, "gibbs", num_samples=500), np.arange(21) % 20 == 0)
    again = refit_rows(model, data, tree, [20], seed=1, num_samples=2000)["refits"].to_dataset()
    assert list(again["row"]) == [0, 20]
    assert again["elpd"][0] == tree["refits"]["elpd"][0]
    assert again["se"][1] < 0.8 * tree["refits"]["se"][1]


@pytest.mark.slow
@pytest.mark.parametrize("outlier", [50.0, 1000.0])
def test_a_row_too_far_away_stays_invalid(outlier):
    model, data = far(outlier)
    tree = refit_rows(model, data, fit(model, data, "gibbs"), [20])
    assert tree["refits"]["pareto_k"].item() > 0.7
    assert not compare({"a": tree}).table["elpd valid"].iloc[0]


@pytest.mark.slow
def test_rows_that_do_not_fail_are_not_refitted_by_default():
    """Without any one row the mean moves by less than 0.6 posterior standard deviations.

    The largest k-hat is near 0.2; a row fails above 0.7.
    """
    model, data = far(1.0)
    tree = fit(model, data, "exact", num_samples=500)
    assert refit_rows(model, data, tree)["refits"].sizes["row"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([12], "places from 0 to 11"),
        ([-1], "places from 0 to 11"),
        ([1.7], "rows are whole numbers"),
        (["a"], "rows are whole numbers"),
        (np.ones(3, bool), "a mask has 12 entries"),
    ],
)
def test_rows_that_are_not_there(rows, message):
    model, data = labelled()
    with pytest.raises(ZooError, match=message):
        refit_rows(model, data, fit(model, data, "exact", num_samples=500, num_chains=2), rows)


def test_what_cannot_be_refitted():
    model, data = labelled()
    tree = fit(model, data, "exact", num_samples=2, num_chains=1)
    point = tree.copy()
    del point["posterior"], point["log_likelihood"]
    point["point_estimate"] = tree["posterior"].isel(chain=0, draw=0)
    with pytest.raises(ZooError, match="point"):
        refit_rows(model, data, point)
    with pytest.raises(ZooError, match="other data"):
        refit_rows(model, data._replace(x=data.x + 1), tree)
    with pytest.raises(ZooError, match="has no option 'num_sampels'"):
        refit_rows(model, data, tree, [0], num_sampels=10)
    with pytest.raises(ZooError, match="is a program"):
        refit_rows(model._replace(algebra=None), data, tree)
