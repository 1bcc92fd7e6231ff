"""``precision=32`` far from 0: rows, prior and sites are seen from an origin, results are evaluated in double precision."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from naive import two_groups

from inference import fit
from inference.engine.evaluate import evaluate
from inference.engine.task import Points
from inference.fitting.prepare import make_task
from inference.fitting.roughness import roughness
from inference.runtime.progress import Silent
from models import MODELS, ZooError
from models.data import Data, as_data

OFFSETS = (0.0, 1e3, 1e5, 1e8)
X = np.round(two_groups(40, 3) * 2**10) / 2**10  # with every offset a number that double precision holds as it is
LABELS = np.arange(40) % 2
WITHIN = 1e-3  # nats


def numbers(offset, labels=None, starts=None):
    levels = () if labels is None else ("u", "v")
    label = None if labels is None else "y"
    return Data("table", X + offset, ("a", "b", "c"), labels=labels, label=label, levels=levels, starts=starts)


def holed(offset):
    x = X + offset
    x[::7, 1] = np.nan
    return numbers(offset)._replace(x=x)


def mixed(offset):
    words = np.where(X[:, 1] > 1.5, "high", "low")
    return as_data(pd.DataFrame({"a": X[:, 0] + offset, "word": words, "c": X[:, 2] + offset}))


def labelled(offset):
    return numbers(offset, LABELS)


def steps(offset):
    return numbers(offset, starts=np.array([0, 25, 40]))


CASES = {
    "full": (numbers, "gmm", {"num_components": 2, "covariance": "full"}),
    "tied": (numbers, "gmm", {"num_components": 2, "covariance": "tied"}),
    "diag": (holed, "gmm", {"num_components": 2, "covariance": "diag"}),
    "spherical": (numbers, "gmm", {"num_components": 2, "covariance": "spherical"}),
    "flat": (numbers, "gmm", {"num_components": 2, "covariance": "tied", "prior": "flat"}),
    "unit": (numbers, "gmm_simple", {"num_components": 2}),
    "mixed": (mixed, "mixed_mixture", {"num_components": 2}),
    "bayes": (labelled, "naive_bayes", {"emission": "gaussian"}),
    "discriminant": (labelled, "linear_discriminant", {}),
    "quadratic": (labelled, "linear_discriminant", {"covariance": "full"}),
    "logistic": (labelled, "logistic_regression", {}),
    "ppca": (numbers, "ppca", {"num_factors": 1}),
    "factors": (holed, "factor_analysis", {"num_factors": 1}),
    "states": (steps, "hmm", {"emission": "gaussian"}),
}
QUICK = ("logistic",)
MOVES = ("mean",)


def moved(sites, offset):
    return {name: value + offset * (name in MOVES) for name, value in sites.items()}


def built(case, offset):
    """(model, data); a prior of its own place, as that of `gmm_simple`, moves with the rows."""
    make, name, options = CASES[case]
    prior = {"prior": {"component": {"location": offset}}} if case == "unit" else {}
    return MODELS[name](make(offset), **options, **prior), make(offset)


@cache
def at_zero(case):
    """(sites to start from, the sites and the log joint three steps of EM later), in double precision without an offset."""
    model, data = built(case, 0.0)
    first = fit(model, data, method="em", max_iter=2, num_starts=1)
    start = {str(k): v.values for k, v in first["point_estimate"].to_dataset().data_vars.items()}
    tree = fit(model, data, method="em", start=start, max_iter=3, tol=0)
    return start, tree["point_estimate"].to_dataset(), float(tree["functionals"]["log_joint"])


@pytest.mark.parametrize("case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES])
def test_an_offset_changes_nothing_in_single_precision(case):
    """Three steps of EM from one start: log joint to 1e-3 nats at any offset, and sites that have moved with the rows.

    What is reported is the log joint in double precision at the sites that are reported.
    """
    start, wanted, log_joint = at_zero(case)
    for offset in OFFSETS:
        model, data = built(case, offset)
        tree = fit(model, data, method="em", start=moved(start, offset), max_iter=3, tol=0, precision=32)
        found = float(tree["functionals"]["log_joint"])
        assert found == pytest.approx(log_joint, abs=WITHIN)
        sites = {str(k): v.values for k, v in tree["point_estimate"].to_dataset().data_vars.items()}
        for site, value in sites.items():
            assert value.dtype == np.float64
            away = value - offset * (site in MOVES)
            np.testing.assert_allclose(away, wanted[site].values, rtol=1e-3, atol=1e-4, err_msg=f"{site} at {offset}")
        task = make_task(model, data, 0, None, Silent())
        one = {site: value[None] for site, value in sites.items()}
        double = evaluate(model, task.hyper, task.prior, task.rows, one).log_joint[0]
        assert found == pytest.approx(float(double), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["map", "nuts"])
def test_programs_of_the_zoo_see_rows_from_their_origin(method):
    """Methods that run on the program, which reads rows as they are: the mode of double precision, draws about it."""
    model, data = built("full", 1e8)
    start = moved({k: v.values for k, v in at_zero("full")[1].items()}, 1e8)
    settings = {"num_warmup": 100, "num_samples": 50, "num_chains": 2} if method == "nuts" else {"max_iter": 30}
    tree = fit(model, data, method=method, start=start, precision=32, **settings)
    mean = tree["posterior" if method == "nuts" else "point_estimate"]["mean"]
    assert np.abs(mean.values - 1e8).max() < 10
    # Draws of d parameters lie about d / 2 nats below the mode, here less than 10; rows that are rounded at 1e8 cost hundreds
    below = 20 if method == "nuts" else 5
    assert float(tree["functionals"]["log_joint"].max()) > at_zero("full")[2] - below


def apart(gap):
    """(model, data, start): two groups of unit width so far apart, under next to no prior."""
    data = numbers(0.0)._replace(x=X + gap * (np.arange(40) % 2)[:, None])
    prior = {"component": {"scatter": np.eye(3), "strength": 1e-12}}
    centres = np.stack([data.x[0::2].mean(0), data.x[1::2].mean(0)])
    start = {"mixture_probs": np.full(2, 0.5), "mean": centres, "precision": np.stack([np.eye(3)] * 2)}
    return MODELS["gmm"](data, num_components=2, covariance="full", prior=prior), data, start


@pytest.mark.slow
@pytest.mark.parametrize("gap", [3.0, 500.0])
def test_what_a_run_cannot_see_fails(gap):
    """Two groups 500 widths apart: no origin helps, and the log joint of the run is far off; near groups pass.

    Rounding of squares, 250² · 6e-8 each, leaves the covariances positive, so that the run ends on every machine.
    """
    model, data, start = apart(gap)
    tree = fit(model, data, method="em", start=start, max_iter=1, tol=0, precision=32)
    assert ("precision=32: the run saw log joints that are" in tree.attrs["problems"]) == (gap > 100)
    assert (tree.attrs["precision_gap"] > WITHIN) == (gap > 100)


def test_the_best_start_is_the_one_that_is_looked_at():
    """Not the first ones; and a log joint that is no number is one that a run has not seen."""
    model, data, start = apart(3e3)
    with jax.enable_x64(True):
        double = make_task(model, data, 0, None, Silent())
    with jax.enable_x64(False):
        single = make_task(model, data, 0, None, Silent())
    broad = start | {"precision": 1e-6 * start["precision"]}
    origin = np.asarray(model.hyper["origin"])
    sites = {name: np.stack([broad[name], start[name]]).astype(np.float32) for name in start}
    sites["mean"] = (np.stack([start["mean"]] * 2) - origin).astype(np.float32)
    none = np.zeros(2)
    points = Points(sites, none[:, None], none, none, [None, None], {})
    with jax.enable_x64(True):
        near, far = (roughness(single, double, points, best)["precision_gap"] for best in (0, 1))
        lost = single._replace(rows=single.rows._replace(x=single.rows.x * jnp.nan))
        assert roughness(lost, double, points, 0)["precision_gap"] == np.inf
    assert near < WITHIN < far


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "cavi", "laplace"])
def test_the_evidence_is_of_double_precision(method):
    """Sums over 5,000 rows, which are off by 0.03 nats in single precision, are made again at what was found there."""
    rng = np.random.default_rng(0)
    labels = np.arange(5000) % 2
    x = rng.normal(size=(5000, 6)) + labels[:, None]
    data = Data("table", x, tuple("abcdef"), labels=labels, label="y", levels=("u", "v"))
    model = MODELS["linear_discriminant"](data)
    found = [fit(model, data, method, num_samples=50, num_chains=1, precision=bits).attrs for bits in (32, 64)]
    names = {"exact": ["log_evidence"], "cavi": ["elbo"], "laplace": ["log_evidence_laplace"]}[method]
    rough = 5e-3 if method == "laplace" else WITHIN  # its matrix of curvatures is taken where single precision has the mode
    for name in names:
        assert found[0][name] == pytest.approx(found[1][name], abs=rough)
    assert "precision=32" not in found[0]["problems"]


def normal(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1e9))
    scale = numpyro.sample("scale", dist.HalfNormal(10.0))
    numpyro.sample("x", dist.Normal(mean, scale).expand((x.shape[0],)).to_event(1), obs=x)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [float, np.int64])
def test_a_users_program_is_refused_where_digits_are_lost(kind):
    """Its rows cannot be moved: 1e8 away it says which column, how far and what to do; 100 away it is fitted."""
    x = np.arange(40).astype(kind)
    with pytest.raises(
        ZooError, match=r"precision=32: column 1 is 8\.66e\+06 standard deviations from 0.*precision=64, or sub"
    ):
        fit(normal, x + kind(1e8), method="map", precision=32, num_starts=1)
    tree = fit(normal, x + kind(100), method="map", precision=32, num_starts=1)
    sites = {k: jnp.asarray(v.values) for k, v in tree["point_estimate"].to_dataset().data_vars.items()}
    with jax.enable_x64(True):
        wanted = dist.Normal(0.0, 1e9).log_prob(sites["mean"]) + dist.HalfNormal(10.0).log_prob(sites["scale"])
        wanted += dist.Normal(sites["mean"], sites["scale"]).log_prob(x + 100.0).sum()
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(float(wanted), abs=1e-9)


def test_the_column_of_several_arguments_is_named():
    def program(x, y):
        weight = numpyro.sample("weight", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
        numpyro.sample("y", dist.Normal(x @ weight, 1.0).to_event(1), obs=y)

    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ZooError, match=r"column 2 of data\[0\] is"):
        fit(program, (x + [0, 1e6], x[:, 0]), method="map", precision=32)


def test_counts_too_large_for_their_density_are_refused():
    data = as_data(pd.DataFrame({"a": [1e7, 2e7, 1.5e7], "b": [1.0, 2.0, 3.0], "y": list("uvu")}))
    data = data._replace(
        x=data.x[:, :2], columns=data.columns[:2], categories=(), labels=np.array([0, 1, 0]), levels=("u", "v")
    )
    model = MODELS["poisson_naive_bayes"](data._replace(label="y"))
    with pytest.raises(ZooError, match=r"precision=32: a count of 2e\+07 is too large.*use precision=64"):
        fit(model, data._replace(label="y"), method="em", precision=32)


def test_rows_far_from_those_of_the_model_are_refused():
    """A model is fitted to other rows than it was built on: its origin is of no help to these."""
    model = MODELS["gmm"](numbers(0.0), num_components=2)
    with pytest.raises(ZooError, match=r"precision=32: column 'a' is .* standard deviations from 0"):
        fit(model, numbers(1e8), method="em", precision=32)


def test_units_beyond_single_precision_are_refused():
    data = numbers(0.0)._replace(x=X * 1e-25)
    with pytest.raises(ZooError, match=r"precision=32: .*, in the prior's scatter, is beyond single precision"):
        fit(MODELS["gmm"](data, num_components=2), data, method="em", precision=32)
