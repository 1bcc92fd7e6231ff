"""Imputed cells of mixtures: the conditional mixture at given sites, all of the posterior, calibration, the command line."""

import naive_missing
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from identities import climbed
from naive import build, matrices, random_sites, table
from naive_missing import WHOLE, X
from scipy import stats
from scipy.special import entr, softmax
from two_stage import assert_standard_normal, beyond, of_counts, of_means

from inference import impute
from inference.cli.main import guarded, run_main
from inference.results import load
from models import MODELS, load_data
from models.datasets.tables import MARTIAN_COVARIANCES, MARTIAN_MEANS, MARTIAN_PROBS, SURVEY_MOONS, SURVEY_PROBS
from models.reading.readers import to_frame

# ---------------------------------------------------------------------------------------------------------------------
# At given sites


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_cells_come_from_the_conditional_mixture(covariance):
    """Two components 12 apart in the first column: mean and second moments of a row's cells, by textbook conditionals.

    Rows whose component is certain have the moments of that one; the row without cells has those of the mixture.
    """
    sites = random_sites(covariance, 2, WHOLE)
    sites["mean"] = sites["mean"] + [[-6.0, 0.0, 0.0], [6.0, 0.0, 0.0]]
    pairs = list(zip(sites["mean"], matrices(covariance, sites), strict=True))
    x = np.where(np.isnan(X), np.nan, X + 6.0 * np.array([-1.0, 1.0] * 6)[:, None] * [1.0, 0.0, 0.0])
    r = naive_missing.responsibilities(covariance, sites, x)
    assert set(r.argmax(1)[r.max(1) > 0.99]) == {0, 1}

    def deviations(seed, times):
        found = impute(build(x, covariance), sites, table(x), num_draws=4000 * times, seed=seed)
        row, drawn, scores = found["cell_row"].values, found["imputed"].values, []
        for n in np.unique(row):
            hidden, draws = np.isnan(x[n]), drawn[:, row == n]
            parts = [naive_missing.conditional(mean, precision, x[n]) for mean, precision in pairs]
            mean = sum(share * whole for share, (whole, _) in zip(r[n], parts, strict=True))
            second = sum(share * (np.outer(whole, whole) + left) for share, (whole, left) in zip(r[n], parts, strict=True))
            products, upper = np.einsum("si,sj->sij", draws, draws), np.triu_indices(hidden.sum())
            scores.append(of_means(draws, mean[hidden]))
            scores.append(of_means(products[:, *upper], second[np.ix_(hidden, hidden)][upper]))
        assert sum(map(len, scores)) == 40
        return np.concatenate(scores)

    assert_standard_normal(deviations, 1)


def posterior(size):
    """A result of two chains, draw s of which has its one component at s, as good as without spread."""
    mean = np.arange(float(size)).reshape(2, -1, 1, 1)
    sites = {"mean": mean, "precision": np.full(mean.shape, 1e12), "mixture_probs": np.ones(mean.shape[:3])}
    found = {name: (("chain", "draw", *(f"{name}_{i}" for i in range(v.ndim - 2))), v) for name, v in sites.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(found)})


@pytest.mark.slow
@pytest.mark.parametrize(("size", "num_draws"), [(100, 10), (10, 10), (4, 10)])
def test_draws_are_spread_over_the_posterior(size, num_draws):
    """Each imputation by parameters of its own, evenly spread over all chains; fewer of them come equally often."""
    x = np.array([[0.0], [3.0], [np.nan]])
    model = MODELS["gmm"](table(x), num_components=1, covariance="diag")
    found = impute(model, posterior(size), table(x), num_draws=num_draws)["imputed"].values[:, 0]
    draws = found.round().astype(int)
    assert np.abs(found - draws).max() < 1e-4
    if size >= num_draws:
        assert draws[0] < size / num_draws
        assert draws[-1] >= size - size / num_draws
        assert np.ptp(np.diff(draws)) <= 1
    else:
        assert np.ptp(np.bincount(draws, minlength=size)) <= 1


# ---------------------------------------------------------------------------------------------------------------------
# Calibration: cells hidden from a model that is true, its parameters estimated from 2000 rows


def hide(x, columns, size, seed):
    """As many cells of each of some columns, each in a row of its own, so that they are independent."""
    order, holed = np.random.default_rng(seed).permutation(len(x)), x.copy()
    for place, column in enumerate(columns):
        holed[order[place * size : (place + 1) * size], column] = np.nan
    return holed


def coverage(draws, truth, seed):
    """How far the cells that the intervals of 50 % and 90 % hold are from as many as they should be.

    By the randomised probability integral transform (Czado, Gneiting and Held 2009), which is uniform for counts also.
    """
    v = np.random.default_rng(seed).random(len(truth))
    u = (draws < truth).mean(0) + v * (draws == truth).mean(0)
    return [of_counts((np.abs(u - 0.5) < share / 2).sum(), len(truth), share) for share in (0.5, 0.9)]


def sharpness(found, truth, variance):
    """How far squared errors of the means are from what the true conditional variances say."""
    excess = (found - truth) ** 2 - variance
    return excess.sum() / np.sqrt((excess**2).sum())


@pytest.mark.slow
def test_levels_and_counts_are_calibrated():
    """Cells of planet and of moons hidden: log score, coverage and squared errors, against the truth's own expectation.

    Estimating 29 parameters from five rows a cell costs 29 / 2 nats in all, of which the cells see 3; and 1000 draws cost 1 nat
    in 400 cells.
    """

    def deviations(seed, times):
        size = 400 * times
        data = load_data("martians_survey", num_rows=5 * size, missing=0.0, seed=seed, correlated=False)
        data = data._replace(labels=None, label=None, levels=())
        holed = data._replace(x=hide(data.x, (2, 4), size, seed))
        spread = np.diagonal(MARTIAN_COVARIANCES, axis1=1, axis2=2)
        truth = {"mixture_probs": MARTIAN_PROBS, "mean": MARTIAN_MEANS, "precision": 1 / spread, "rate": SURVEY_MOONS[:, None]}
        truth |= {f"probs_{name}": probs for name, probs in SURVEY_PROBS.items()}
        model = MODELS["mixed_mixture"](holed, num_components=3)
        fitted = {name: value[0] for name, value in climbed(model, holed, truth, 20).sites.items()}
        found = impute(model, fitted, holed, num_draws=1000, seed=seed)

        levels, moons = holed.x[:, 2:4], holed.x[:, 4]
        local = np.log(MARTIAN_PROBS) + stats.norm(MARTIAN_MEANS, np.sqrt(spread)).logpdf(holed.x[:, None, :2]).sum(2)
        for codes, probs in zip(levels.T, SURVEY_PROBS.values(), strict=True):
            local += np.where(np.isnan(codes)[:, None], 0.0, np.log(probs.T[np.nan_to_num(codes).astype(int)]))
        local += np.where(np.isnan(moons)[:, None], 0.0, stats.poisson(SURVEY_MOONS).logpmf(np.nan_to_num(moons)[:, None]))
        r = softmax(local, axis=1)

        place = found["cell_column"].values == "planet"
        rows = found["cell_row"].values[place]
        wanted, level = (r @ SURVEY_PROBS["planet"])[rows], data.x[rows, 2].astype(int)
        probs = (1000 * found["imputed_probs"].values[place] + 1) / 1003  # no level is impossible for want of draws
        entropy = entr(wanted).sum(1)
        error = np.sqrt(((wanted * np.log(wanted) ** 2).sum(1) - entropy**2).sum())
        score = beyond((-np.log(probs[np.arange(size), level]) - entropy).sum(), 3 + times) / error

        place = found["cell_column"].values == "moons"
        rows = found["cell_row"].values[place]
        count, mean = data.x[rows, 4], r[rows] @ SURVEY_MOONS
        variance = mean + r[rows] @ SURVEY_MOONS**2 - mean**2
        covered = coverage(found["imputed"].values[:, place], count, seed + 1)
        return [score, *covered, sharpness(found["imputed_mean"].values[place], count, variance)]

    assert_standard_normal(deviations, 5)


@pytest.mark.slow
def test_gaussian_cells_of_several_components_are_calibrated():
    """Weights and heights hidden from three kinds with full covariances: coverage and squared errors.

    Means are known to a thirtieth of the spread of a cell.
    """
    truth = {"mixture_probs": MARTIAN_PROBS, "mean": MARTIAN_MEANS, "precision": np.linalg.inv(MARTIAN_COVARIANCES)}
    pairs = list(zip(truth["mean"], truth["precision"], strict=True))

    def deviations(seed, times):
        data = load_data("martians", num_rows=2000 * times, seed=seed)
        x = hide(data.x, (0, 1), 400 * times, seed)
        model = build(x, "full", 3)
        fitted = {name: value[0] for name, value in climbed(model, table(x), truth, 20).sites.items()}
        found = impute(model, fitted, table(x), num_draws=1000, seed=seed)
        row, column = found["cell_row"].values, np.array(["ab".index(name) for name in found["cell_column"].values])
        r, variance = naive_missing.responsibilities("full", truth, x), np.zeros(len(row))
        for cell, (n, d) in enumerate(zip(row, column, strict=True)):
            parts = [naive_missing.conditional(mean, precision, x[n]) for mean, precision in pairs]
            means, spreads = np.array([(whole[d], left[d, d]) for whole, left in parts]).T
            variance[cell] = r[n] @ (spreads + means**2) - (r[n] @ means) ** 2
        assert len(row) == 800 * times
        covered = coverage(found["imputed"].values, data.x[row, column], seed + 1)
        return [*covered, sharpness(found["imputed_mean"].values, data.x[row, column], variance)]

    assert_standard_normal(deviations, 5)


# ---------------------------------------------------------------------------------------------------------------------
# The command line


@pytest.mark.slow
def test_impute_on_the_command_line(tmp_path, capsys):
    """imputed.csv is the table with all cells there, those that were as they were; imputed.nc has the draws they sum up."""
    frame = to_frame(load_data("martians_survey", num_rows=60, seed=1)).drop(columns=["kind", "diet"])
    frame.to_csv(tmp_path / "survey.csv", index=False)
    arguments = [f"data={tmp_path}/survey.csv", "method=em", "num_starts=1", "progress=false", "pictures=false"]
    out = tmp_path / "run"
    assert guarded(run_main, [*arguments, "model=mixed_mixture", "impute=true", f"out={out}"]) == 0
    before, after = pd.read_csv(tmp_path / "survey.csv"), pd.read_csv(out / "imputed.csv")
    holes = before.isna()
    pd.testing.assert_frame_equal(pd.read_csv(out / "imputed_mask.csv") == 1, holes)
    listed = pd.read_csv(out / "imputed_cells.csv")
    assert len(listed) == holes.to_numpy().sum()
    assert holes.to_numpy()[listed["row"] - 1, [before.columns.get_loc(name) for name in listed["column"]]].all()
    assert holes.to_numpy().sum() == load(out).attrs["imputed_cells"] > 10
    assert not after.isna().any(axis=None)
    pd.testing.assert_frame_equal(after.where(~holes), before, check_dtype=False)
    cells = xr.open_dataset(out / "imputed.nc").load()
    assert {(n, name) for n, name in zip(cells["cell_row"].values, cells["cell_column"].values, strict=True)} == {
        (n, name) for name in before for n in np.flatnonzero(holes[name])
    }
    for cell, name in enumerate(cells["cell_column"].values):
        filled, draws = after[name][int(cells["cell_row"][cell])], cells["imputed"].values[:, cell]
        if name == "planet":
            assert filled == str(cells["imputed_level"].values[cell])
        elif name == "moons":
            assert (draws == filled).mean() == max((draws == other).mean() for other in draws)
        else:  # with as many decimals as the rest of the column
            decimals = before[name].dropna().map(lambda value: len(repr(value).partition(".")[2].rstrip("0"))).max()
            assert filled == pytest.approx(round(float(cells["imputed_mean"][cell]), decimals), rel=1e-12)
            assert abs(filled - draws.mean()) < draws.std()  # the mean of these, not of other cells


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=mixed_mixture", "impute=perhaps"], "impute must be true or false"),
        (["model=logistic_regression", "data.label=planet", "data.columns=[height]", "impute=true"], "needs complete rows"),
    ],
)
def test_imputing_what_cannot_be_is_said_before_the_run(tmp_path, capsys, arguments, words):
    frame = pd.DataFrame({"height": np.arange(40) / 7, "planet": ["mars", "venus"] * 20})
    frame.to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "run"
    assert guarded(run_main, [*arguments, f"data={tmp_path}/table.csv", "method=em", f"out={out}"]) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()
