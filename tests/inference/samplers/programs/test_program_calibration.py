"""Fits of a program: right draws are calibrated, wrong ones fail, and hints say in which direction they are off.

`fit` is replaced by draws from the posterior of a conjugate program, in closed form; so are, in most tests, the tables and the
quantities at the parameters. The slow tests run NUTS.
"""

import json
import re
from pathlib import Path

import numpy as np
import numpyro
import pytest
import xarray as xr
from numpyro import distributions as dist
from scipy import stats

from inference import certify
from inference.certificates.checks.figure import MOST, Check, Figure
from inference.certificates.sensitivity import of_ranks
from inference.methods import laplace
from inference.samplers.programs import calibration
from inference.samplers.programs.calibration import DENSITIES, TABLES, hints_of
from inference.samplers.programs.simulator import Simulated, Simulator
from models.errors import ZooError

PAGE = Path(__file__).parents[4] / "docs" / "samplers.md"
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


def table_of_place(_, seed, place):
    """A draw of the program, by NumPy."""
    rng = np.random.default_rng([seed, place])
    mean = rng.normal()
    return Simulated({"mean": np.array(mean)}, mean + rng.normal(size=ROWS))


@pytest.fixture
def draws(monkeypatch):
    """`fit` by a stand-in: independent draws, off by a shift in standard deviations and of another spread."""

    def of(shift=0.0, spread=1.0, prior=False, own=True, last=None, **more):
        def fit(model, table, method, *, seed, num_chains, num_samples):
            table = np.asarray(table)
            noise = np.random.default_rng(seed).normal(size=(num_chains, num_samples))
            if last is not None:
                noise[0, -1] = last
            if prior:
                return result(table, noise, **more)
            return result(table, table.sum() / (ROWS + 1) + (shift + spread * noise) / np.sqrt(ROWS + 1), **more)

        monkeypatch.setattr(calibration, "fit", fit)
        if own:
            monkeypatch.setattr(Simulator, "draw", table_of_place)
            monkeypatch.setattr(calibration, "as_result", lambda model, table, sites, method: result(table, sites["mean"]))

    return of


def test_exact_draws_are_calibrated(draws, monkeypatch):
    """Densities at the parameters are those of the zoo, densities at the draws those of SciPy."""
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
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
    assert (kept["verdict"], kept["seed"], kept["replicates"], kept["steps"]) == ("calibrated", 0, 60, None)


@pytest.mark.parametrize(
    ("wrong", "hints"),
    [
        ({"spread": 0.4}, ("mean are too narrow", "log_joint are too high", "log_likelihood are too high")),
        ({"spread": 2.5}, ("mean are too wide", "log_joint are too low", "log_likelihood are too low")),
        # a shift moves ranks away from ½, too: they are not too narrow
        ({"shift": 2.0}, ("mean are too high", "log_joint are too low", "log_likelihood are too low")),
        ({"shift": -2.0}, ("mean are too low", "log_joint are too low", "log_likelihood are too low")),
        # ranks of the mean itself are uniform
        ({"prior": True}, ("log_joint are too low", "log_likelihood are too low")),
    ],
)
def test_wrong_draws_fail_and_hints_say_how(wrong, hints, draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    draws(**wrong)
    found = certify(program, data=X, name="mine")
    assert found.verdict == "fails", found
    assert repr(found).startswith("nuts on mine: fails")
    assert "at both looks of 60 and 240 tables" in " ".join(repr(found).split())
    assert set(found.hints) == {f"draws of {hint}" for hint in hints}, found


def test_draws_that_are_not_finite_fail_at_once(draws, monkeypatch):
    """Draws of table 50 end the check; up to then the last draw was not ranked, and what it is did not matter."""
    draws(last=np.inf)
    found = certify(program, data=X)
    assert (found.verdict, found.false_alarm) == ("fails", None)
    assert found.hints == tuple(f"draws of {name} are NaN or infinite" for name in (*DENSITIES, "mean"))
    assert found.checks[0].says == "3 of 3 quantities are NaN or infinite at table 50, and no more tables were fitted"
    assert json.loads(found.to_json())["checks"][0]["figures"][0]["value"] == "nan"
    monkeypatch.setitem(calibration.TABLES, "quick", 49)
    assert certify(program, data=X).verdict == "calibrated"


def test_tables_of_both_looks_are_drawn_before_the_first_fit(draws, monkeypatch):
    draws()

    def draw(self, seed, place):
        if place == 5 * TABLES["quick"] - 1:
            raise ZooError("no number")
        return table_of_place(self, seed, place)

    def fit(*_, **__):
        raise AssertionError

    monkeypatch.setattr(Simulator, "draw", draw)
    monkeypatch.setattr(calibration, "fit", fit)
    with pytest.raises(ZooError, match="no number"):
        certify(program, data=X)


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
        "laplace approximates the posterior: a failure means that its error shows",
    )


def test_a_seed_gives_its_figures_again(draws, monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 60)
    draws()
    first, again, other = (certify(program, data=X, seed=seed).checks[0].figures for seed in (0, 0, 1))
    assert first == again != other


ROW = re.compile(r"\| (off by|of) ([\d.]+) (?:standard deviations|times the spread) \| ([\d.]+) \| ([\d.]+) \|")


def test_one_quantity_is_seen_as_often_as_the_page_says():
    """Of a Normal quantity: the mean rank, or its mean distance from ½, is Normal about what `of_ranks` says."""
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) == 7
    for kind, size, *said in rows:
        shift, spread = (float(size), 1.0) if kind == "off by" else (0.0, float(size))
        rank, away = of_ranks(calibration.CHAINS, -shift, 1 / spread)
        for tables, share in zip(TABLES.values(), said, strict=True):
            moved = abs(rank - 0.5) * np.sqrt(12 * tables) if shift else (away - 0.25) * np.sqrt(48 * tables)
            seen = stats.norm.sf(MOST - moved) + stats.norm.sf(MOST + moved)
            assert f"{seen:.2f}" == share, (kind, size, tables)


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
    assert (len(names), names[0], left_out) == (calibration.MOST_QUANTITIES, "log_joint", 151)


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
    assert told == ["300 tables are drawn", "table 1 of 60", "table 21 of 60", "table 41 of 60"]


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
    monkeypatch.setattr(laplace, "mixture_of", lambda _model, found: laplace.Mixture(found[:1], np.zeros(1)))
    found = certify(two_modes, data=X, method="laplace")
    assert found.verdict == "fails", found
    assert "draws of mean are too narrow" in found.hints, found


def groups(x, group, z):
    """Two covariates of which one is an index, a scale, and effects of groups."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.LogNormal(-1.0, 0.3))  # a mild funnel: a steep one has divergent transitions
    with numpyro.plate("group", 3):
        effect = numpyro.sample("effect", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("z", dist.Poisson(np.e ** (0.3 * slope * x + scale * effect[group])), obs=z)


@pytest.mark.slow
def test_nuts_on_groups_with_data_by_name_is_calibrated(monkeypatch):
    monkeypatch.setitem(calibration.TABLES, "quick", 40)
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
