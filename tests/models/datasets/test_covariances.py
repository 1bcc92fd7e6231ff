"""A covariance matrix in the place of rows, and the generator of factors."""

import numpy as np
import pandas as pd
import pytest
from two_stage import assert_standard_normal

from inference import compare, fit, impute, predict
from inference.cli.main import guarded, run_main
from inference.results.table import data_of
from models import MODELS, ZooError, load_data
from models.data import split
from models.datasets.tables import factor_loadings

X = load_data("factors", num_rows=200).x
CENTRED = X - X.mean(0)
COVARIANCE = CENTRED.T @ CENTRED / len(X)
NAMES = [f"x{d}" for d in range(12)]


def matrix(values=COVARIANCE):
    return pd.DataFrame(values, columns=NAMES)


@pytest.mark.slow
def test_a_covariance_is_as_good_as_its_rows():
    """Maximum likelihood and the default posterior of centred rows, from their covariance and number."""
    rows, moments = load_data(CENTRED), load_data(matrix(), kind="covariance", num_rows=200)
    for name in ("factor_analysis", "ppca"):
        for method, prior in (("em", "flat"), ("em", "default"), ("map", "default")):
            found = [
                fit(MODELS[name](data, num_factors=3, prior=prior), data, method, num_starts=1, tol=1e-13)
                for data in (rows, moments)
            ]
            log_joint = [float(tree["functionals"]["log_joint"]) for tree in found]
            assert log_joint[0] == pytest.approx(log_joint[1], rel=1e-9)
            np.testing.assert_allclose(*(tree["functionals"]["communality"] for tree in found), atol=1e-5)
    exact = [fit(MODELS["ppca"](data, num_factors=3, prior="flat"), data, "exact") for data in (rows, moments)]
    np.testing.assert_allclose(*(tree["point_estimate"]["loading"] for tree in exact), atol=1e-9)
    assert exact[0].attrs["sample_size"] == exact[1].attrs["sample_size"] == 200


@pytest.mark.slow
def test_a_correlation_matrix_from_a_file(tmp_path, capsys):
    """With a column of names, on the command line; elpd needs rows, and is not there."""
    spread = np.sqrt(np.diag(COVARIANCE))
    table = matrix(COVARIANCE / np.outer(spread, spread).round(9))
    table.insert(0, "name", NAMES)
    table.to_csv(tmp_path / "r.csv", index=False)
    arguments = [
        "model=factor_analysis",
        "model.num_factors=3",
        "method=nuts",
        "num_samples=50",
        "num_warmup=50",
        "num_chains=2",
    ]
    source = [
        f"data={tmp_path}/r.csv",
        "data.kind=covariance",
        "data.num_rows=200",
        "progress=false",
        "pictures=false",
        f"out={tmp_path / 'run'}",
    ]
    assert guarded(run_main, [*arguments, *source]) in (0, 3)
    assert "covariance of 200 rows" in " ".join(capsys.readouterr().out.split())
    data = load_data(str(tmp_path / "r.csv"), kind="covariance", num_rows=200)
    tree = fit(MODELS["factor_analysis"](data), data, "cavi", num_samples=50)
    assert np.isnan(compare({"cavi": tree}).table["elpd"].iloc[0])


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (COVARIANCE, {}, "needs num_rows"),
        (COVARIANCE, {"num_rows": 1}, "needs num_rows"),
        (COVARIANCE[:5], {"num_rows": 9}, "must be square, this one has 5 rows and 12 columns"),
        (COVARIANCE + np.triu(np.ones((12, 12)), 1), {"num_rows": 9}, "the covariances of 'x0' and 'x1' differ"),
        (COVARIANCE - 5 * np.eye(12), {"num_rows": 9}, "is not above 0"),
        (np.where(np.eye(12), np.nan, COVARIANCE), {"num_rows": 9}, "row 1 of the covariance matrix has an empty cell"),
    ],
)
def test_what_is_no_covariance(values, options, words):
    with pytest.raises(ZooError, match=words):
        load_data(matrix(values), kind="covariance", **options)


def test_kinds_of_sources():
    with pytest.raises(ZooError, match="kind='rows' is not one of table, covariance"):
        load_data(matrix(), kind="rows")
    with pytest.raises(ZooError, match="num_rows is only for kind=covariance"):
        load_data(matrix(), num_rows=5)


def test_mixtures_need_rows():
    data = load_data(matrix(), kind="covariance", num_rows=200)
    model = MODELS["gmm"](data)
    with pytest.raises(ZooError, match="enough for models of factors, not for gmm"):
        fit(model, data, "em")
    factors = MODELS["ppca"](data)
    with pytest.raises(ZooError, match="needs individual rows"):
        fit(factors, data, "gibbs")


@pytest.mark.slow
def test_the_generator_has_the_loadings_that_it_states():
    """78 covariances of rows, of which each is Normal with variance (σ_d² σ_e² + σ_de²) / N."""
    loading = factor_loadings(12, 3)
    wanted = loading @ loading.T
    np.fill_diagonal(wanted, 1.0)

    def deviations(seed, times):
        data = load_data("factors", num_rows=50_000 * times, num_columns=12, num_factors=3, seed=seed)
        return ((np.cov(data.x.T) - wanted) / np.sqrt((1 + wanted**2) / data.num_rows))[np.triu_indices(12)]

    assert_standard_normal(deviations, 4)


@pytest.mark.slow
def test_em_finds_the_loadings_of_the_generator():
    """0.03 is six standard errors of a loading, which is 1.5 / √N at most."""
    data, loading = load_data("factors", num_rows=100_000, num_columns=12, num_factors=3, seed=4), factor_loadings(12, 3)
    tree = fit(MODELS["factor_analysis"](data, num_factors=3), data, "em", num_starts=1)
    np.testing.assert_allclose(np.abs(tree["point_estimate"]["loading"]), np.abs(loading)[:, [0, 1, 2]], atol=0.03)


@pytest.mark.slow
def test_moments_are_no_rows():
    """None can be held out, and none has a latent to draw."""
    data = load_data(matrix(), kind="covariance", num_rows=np.int64(200))
    with pytest.raises(ZooError, match="no rows can be held out"):
        split(data, 0.25, 0)
    with pytest.raises(ZooError, match="needs individual rows"):
        fit(MODELS["ppca"](data), data, "stochastic_em")
    options = {"kind": "covariance", "num_rows": 13}  # as many as the rows that stand for them, each of weight 1
    few = load_data(matrix(), **options)
    model = MODELS["ppca"](few)
    with pytest.raises(ZooError, match="needs individual rows"):
        fit(model, few, "gibbs")
    tree = fit(model, few, "cavi", num_samples=50, num_starts=1)
    assert not {"log_likelihood", "latent"} & set(tree.children)  # nothing is said row by row
    assert np.isnan(compare({"cavi": tree}).table["elpd"].iloc[0])
    again = data_of(tree)
    assert again.moments
    for asked in (lambda: predict(model, tree, again), lambda: impute(model, tree, again)):
        with pytest.raises(ZooError, match="no individual rows"):
            asked()
    assert predict(model, tree, X[:4])["scores"].shape == (4, 2)
    for wrong in ({"threshold": 0.5}, {"labels": [0] * 13}, {"weight": np.ones(13)}, {"types": {"x0": "category"}}):
        with pytest.raises(ZooError):
            load_data(matrix(), **options, **wrong)
    wide = COVARIANCE * np.outer(*[np.where(np.arange(12) == 0, 1e7, 1.0)] * 2)
    wide[0, 1] = wide[1, 0] = 2e7  # a correlation of 2
    with pytest.raises(ZooError, match="correlations have the negative eigenvalue"):
        load_data(matrix(wide), kind="covariance", num_rows=200)
