"""Fits of a program: right draws are calibrated, wrong ones fail, and hints say in which direction they are off.

`fit` is replaced by draws from the posterior of a conjugate program, in closed form; so are, in most tests, the quantities at
the parameters. The slow tests run NUTS.
"""

import json

import numpy as np
import numpyro
import pytest
import xarray as xr
from numpyro import distributions as dist
from scipy import stats

from inference import certify
from inference.certificates.checks.calibration import rank_deviations
from inference.certificates.checks.figure import MOST, Check, Figure
from inference.certificates.checks.pipeline import found_of
from inference.samplers.programs import calibration
from inference.samplers.programs.calibration import DENSITIES, TABLES, hints_of
from models.errors import ZooError

ROWS = 3
X = np.array([1.0, 2.0, -1.0])


def program(x):
    """x_n ~ Normal(mean, 1) and mean ~ Normal(0, 1): given x, mean ~ Normal(Σ x / (N + 1), 1 / (N + 1))."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def result(table, mean, divergent=False, kind="independent"):
    """A result of draws (chain, draw) of the mean; the densities by SciPy."""
    log_likelihood = stats.norm.logpdf(np.asarray(table), mean[..., None], 1.0).sum(-1)
    dims = ("chain", "draw")
    functionals = {"log_joint": log_likelihood + stats.norm.logpdf(mean), "log_likelihood": log_likelihood}
    groups = {
        "/posterior": xr.Dataset({"mean": (dims, mean)}),
        "/functionals": xr.Dataset({name: (dims, value) for name, value in functionals.items()}),
        "/sample_stats": xr.Dataset({"diverging": (dims, np.full(mean.shape, divergent))}),
    }
    found = xr.DataTree.from_dict(groups)
    found.attrs = {"draws": kind}
    return found


@pytest.fixture
def draws(monkeypatch):
    """`fit` by a stand-in: independent draws, off by a shift in standard deviations and of another spread."""

    def of(shift=0.0, spread=1.0, prior=False, own=True, **more):
        def fit(model, table, method, *, seed, num_chains, num_samples):
            table = np.asarray(table)
            noise = np.random.default_rng(seed).normal(size=(num_chains, num_samples))
            if prior:
                return result(table, noise, **more)
            return result(table, table.sum() / (ROWS + 1) + (shift + spread * noise) / np.sqrt(ROWS + 1), **more)

        monkeypatch.setattr(calibration, "fit", fit)
        if own:
            monkeypatch.setattr(calibration, "as_result", lambda model, table, sites, method: result(table, sites["mean"]))

    return of


def test_exact_draws_are_calibrated(draws):
    """Densities at the parameters are those of the zoo, densities at the draws those of SciPy."""
    draws(own=False)
    found = certify(program, data=X)
    assert found.verdict == "calibrated", found
    assert repr(found).startswith("nuts on program: calibrated (a right fit fails with probability ")
    assert max(map(len, repr(found).splitlines())) <= 100
    assert (found.hints, found.notes) == ((), ())
    (check,) = found.checks
    kinds = [name + spread for name in (*DENSITIES, "mean") for spread in ("", ", spread")]
    assert [figure.name for figure in check.figures if figure.unit == "deviation"] == kinds
    kept = json.loads(found.to_json())
    assert (kept["verdict"], kept["seed"], kept["replicates"], kept["steps"]) == ("calibrated", 0, 120, None)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"spread": 0.4}, "draws of mean are too narrow"),
        ({"spread": 2.5}, "draws of mean are too wide"),
        ({"shift": 1.0}, "draws of mean are too high"),
        ({"shift": -1.0}, "draws of mean are too low"),
        ({"shift": np.nan}, "draws of mean are NaN or infinite"),
        ({"prior": True}, "draws of log_likelihood are too low"),  # ranks of the mean itself are uniform
    ],
)
def test_wrong_draws_fail_and_a_hint_says_how(wrong, hint, draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    draws(**wrong)
    found = certify(program, data=X, name="mine")
    assert found.verdict == "fails", found
    assert repr(found).startswith("nuts on mine: fails")
    assert hint in found.hints, found
    if "prior" in wrong:
        assert not any("mean" in each for each in found.hints)


def test_few_tables_are_inconclusive(draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 10)
    draws()
    found = certify(program, data=X)
    assert found.verdict == "inconclusive", found
    assert found.notes == ("half the spread of the same draws would not be seen: give budget='full'",)


def test_notes_say_what_casts_doubt(draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    draws(divergent=True, kind="approximation")
    found = certify(program, data=X, method="laplace")
    assert found.notes == (
        "60 of 60 fits had divergent transitions",
        "laplace approximates the posterior: a failure says that its error shows",
    )


def test_a_seed_gives_its_figures_again(draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    draws()
    first, again, other = (certify(program, data=X, seed=seed).checks[0].figures for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "spread", "of_quick", "of_full"),
    [(0.5, 1.0, 0.88, 0.99), (0.3, 1.0, 0.25, 0.57), (0.0, 0.7, 0.68, 0.94), (0.0, 0.8, 0.18, 0.41)],
)
def test_errors_are_seen_as_often_as_the_page_says(shift, spread, of_quick, of_full):
    """Of docs/samplers.md: in the conjugate program, at the first look."""

    def is_seen(tables, rng):
        mean = rng.normal(size=tables)
        x = mean[:, None] + rng.normal(size=(tables, ROWS))
        noise = shift + spread * rng.normal(size=(tables, calibration.CHAINS))
        drawn = x.sum(1, keepdims=True) / (ROWS + 1) + noise / np.sqrt(ROWS + 1)
        found = {"mean": found_of(mean, drawn, rng)}
        for name in DENSITIES:
            at, of = (result(x[:, None], each)["functionals"][name].values for each in (mean[:, None], drawn))
            found[name] = found_of(at[:, 0], of, rng)
        return max(map(abs, rank_deviations(found).values())) > MOST

    rng, looks = np.random.default_rng(0), 400
    for tables, said in ((TABLES["quick"], of_quick), (TABLES["full"], of_full)):
        share = np.mean([is_seen(tables, rng) for _ in range(looks)])
        assert abs(share - said) < 4 * np.sqrt(said * (1 - said) / looks) + 0.01


def test_constants_are_not_ranked_and_densities_always_are():
    """The first entry of a Cholesky factor is 1 up to rounding; a mean of 1e9 with deviation 1 is no constant."""
    rng = np.random.default_rng(0)
    found = [
        {
            "log_joint": rng.normal(),
            "log_likelihood": rng.normal(),
            "factor[0, 0]": 1 + 2e-16 * place,
            "year": 1e9 + rng.normal(),
        }
        for place in range(5)
    ]
    assert calibration._chosen(found) == (("log_joint", "log_likelihood", "year"), 0)
    many = [{"log_joint": rng.normal()} | {f"b[{entry}]": rng.normal() for entry in range(250)} for _ in range(5)]
    names, left_out = calibration._chosen(many)
    assert (len(names), names[0], left_out) == (calibration.MOST, "log_joint", 151)


def test_hints_begin_with_the_largest_deviation():
    figures = [Figure("a", 4.0, MOST, "deviation", 9.0), Figure("b, spread", -8.0, MOST, "deviation", -9.0)]
    figures += [Figure("c", np.nan, MOST, "deviation", np.nan), Figure("d", 1.0, MOST, "deviation")]
    assert hints_of(Check("ranks", "", False, tuple(figures), None)) == [
        "draws of c are NaN or infinite",
        "draws of b are too wide",
        "draws of a are too low",
    ]


def test_progress_is_told(draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    draws()
    told = []
    certify(program, data=X, say=told.append)
    assert told == ["table 1 of 60", "table 21 of 60", "table 41 of 60"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "em"}, "method='em' gives a point and no draws"),
        ({"method": "map"}, "method='map' gives a point and no draws"),
        ({"method": "gibbs"}, "method='gibbs' takes models of the zoo, and no NumPyro programs; use nuts"),
        ({"method": "nots"}, "did you mean nuts"),
        ({"method": object()}, "method= is the name of a method of the zoo"),
        ({"num_samples": 100}, "num_samples= cannot be chosen here: every fit has 8 chains of 50 draws"),
        ({"num_chains": 2}, "num_chains= cannot be chosen here"),
        ({"folder": "runs"}, "folder= cannot be chosen here"),
        ({"num_warmpup": 3}, "did you mean num_warmup"),
        ({"num_warmup": -1}, "num_warmup must be"),
        ({"y": X}, "the program program takes x"),
        ({"budget": "huge"}, "budget='huge' is not one of quick, full"),
        ({"model": "gmm_simple"}, "model=, compiled=, steps= and require= are for kernels"),
        ({"compiled": False}, "are for kernels"),
        ({"steps": 5}, "are for kernels"),
        ({"require": "z"}, "are for kernels"),
        ({"model": X}, r"the data of a program are given by name, as in certify\(program, data=x\)"),
        ({"data": None}, r"data= is missing: certify\(program, data=…\)"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ZooError, match=message):
        certify(program, **({"data": X} | options))


def test_data_are_for_programs():
    with pytest.raises(ZooError, match="data= is for NumPyro programs, and 'gibbs' is none"):
        certify("gibbs", model="gmm_simple", data=X)
    with pytest.raises(ZooError, match="method= is for NumPyro programs, and a object is none"):
        certify(object(), method="nuts")


def test_what_fit_refuses_says_which_table(draws, monkeypatch):
    draws()

    def refused(*_, **__):
        raise ZooError("too wide")

    monkeypatch.setattr(calibration, "fit", refused)
    with pytest.raises(ZooError, match=r"too wide \(table 1 that the program drew\)"):
        certify(program, data=X)


@pytest.mark.slow
def test_nuts_is_calibrated():
    found = certify(program, data=X)
    assert found.verdict == "calibrated", found


def two_modes(x):
    """The sign of the mean is not seen."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0))
    numpyro.sample("x", dist.Normal(abs(mean), 1.0), obs=x)


@pytest.mark.slow
def test_a_gaussian_about_one_of_two_modes_fails(monkeypatch):
    """All draws are on one side, where half of the parameters are not."""
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    found = certify(two_modes, data=X, method="laplace")
    assert found.verdict == "fails", found
    assert "draws of mean are too narrow" in found.hints, found


def groups(x, group, z):
    """Two covariates of which one is an index, a scale, and effects of groups."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("group", 3):
        effect = numpyro.sample("effect", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("z", dist.Poisson(np.e ** (0.3 * slope * x + scale * effect[group])), obs=z)


@pytest.mark.slow
def test_nuts_on_groups_with_data_by_name_is_calibrated():
    x, group = np.linspace(-1, 1, 9), np.arange(9) % 3
    found = certify(groups, data=x, group=group, z=np.arange(9))
    assert found.verdict == "calibrated", found


def mixture(x):
    """Two components without an order."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(np.full(2, 0.5)), dist.Normal(mean, 1.0)), obs=x)


@pytest.mark.slow
def test_labels_that_are_exchangeable_are_ranked_in_order(monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    found = certify(mixture, data=np.array([-2.0, 0.0, 1.0, 2.0]), symmetry="component", max_tree_depth=5)
    names = [figure.name for figure in found.checks[0].figures]
    assert found.verdict == "calibrated", found
    assert "sorted mean[1]" in names
    assert "mean[0]" not in names
