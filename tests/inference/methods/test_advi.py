"""Variational inference by a Gaussian: what it finds where the answer is known, its bound, its weights, and its refusals."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers, infer
from scipy import stats
from two_stage import assert_standard_normal, of_means

from inference import compare, fit
from inference.comparison.criteria import criteria
from inference.engine.task import Kind, kind_of
from inference.methods import advi
from inference.methods.guides import Guide, PathwiseELBO, density_of, fitter, target
from inference.report.remarks import remarks
from models import ZooError

# Two pairs of columns that are nearly the same: one direction does not describe both.
RNG = np.random.default_rng(0)
BASE = RNG.normal(size=(20, 2))
X = np.repeat(BASE, 2, axis=1) + 0.3 * RNG.normal(size=(20, 4))
Y = X @ np.array([1.0, -2.0, 0.5, 1.0]) + RNG.normal(size=20)
PRECISION = X.T @ X + np.eye(4) / 4
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ X.T @ Y
EVIDENCE = stats.multivariate_normal(np.zeros(20), np.eye(20) + 4 * X @ X.T).logpdf(Y)
SHORT = {"num_starts": 2, "num_samples": 1000, "num_chains": 2}


def regression(x, y):
    """A Normal prior and noise of known scale: the posterior is a Gaussian with the precision above."""
    weight = numpyro.sample("weight", dist.Normal(0.0, 2.0).expand([4]).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x @ weight, 1.0), obs=y)


@cache
def fitted(guide="full_rank", seed=0, **options):
    return fit(regression, (X, Y), "advi", guide=guide, seed=seed, **(SHORT | options))


def weights_of(tree):
    return tree["posterior"]["weight"].values.reshape(-1, 4)


def log_ratios(tree):
    return tree["sample_stats"]["log_weight"].values.ravel()


def moments(draws, mean, covariance):
    """Standard normal deviations of means and of all products of independent draws of a Gaussian."""
    away = draws - mean
    products = away[:, :, None] * away[:, None, :]
    return np.concatenate([of_means(draws, mean), of_means(products.reshape(len(draws), -1), covariance.ravel())])


def deviations(seed, times):
    """Of the posterior's own moments."""
    draws = [weights_of(fitted(seed=seed + 1_009 * place)) for place in range(times)]
    return moments(np.concatenate(draws), MEAN, COVARIANCE)


@pytest.mark.slow
def test_full_rank_is_the_posterior_of_a_gaussian():
    """The gap of the bound is KL(q | p), which is below 1e-6 nats: of q's error, 2,000 draws show nothing."""
    assert abs(EVIDENCE - fitted().attrs["elbo"]) < 1e-6
    assert_standard_normal(deviations)
    assert fitted().attrs["pareto_k"] < 0.5
    assert fitted().attrs["log_evidence_importance"] == pytest.approx(EVIDENCE, abs=1e-6)
    assert kind_of(fitted()) is Kind.APPROXIMATION
    assert fitted().attrs["exit_status"] == 0


@pytest.mark.slow
def test_results_say_what_the_bound_is_worth():
    """The bound is the mean of log p / q, with its standard error; tables and reports show it."""
    tree = fitted()
    ratios = log_ratios(tree)
    assert tree.attrs["elbo"] == pytest.approx(ratios.mean(), abs=1e-12)
    assert tree.attrs["elbo_se"] == pytest.approx(ratios.std() / np.sqrt(len(ratios)))
    assert criteria(tree)["ELBO"] == tree.attrs["elbo"]
    assert any(line.startswith("evidence lower bound") and "±" in line for line in remarks(tree))
    assert np.isfinite(compare({"advi": tree}).table["elpd"]["advi"])


@pytest.mark.slow
def test_too_few_steps_are_told():
    tree = fitted(max_iter=1)
    assert list(tree["optimization"]["iterations"].values) == [advi.WINDOW, advi.WINDOW]
    assert "has not converged after 100 iterations: raise max_iter" in tree.attrs["problems"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"guide": "flow"}, "guide='flow' is not one of full_rank, low_rank, mean_field"),
        ({"rank": 2}, "rank=2 is of guide=low_rank, but the guide is full_rank; leave rank out"),
        ({"guide": "low_rank", "rank": 5}, "rank=5 is more than the 4 free parameters; use guide=full_rank"),
        ({"guide": "low_rank", "rank": -1}, "rank must be at least 0"),
    ],
)
def test_refused_options(options, words):
    with pytest.raises(ZooError, match=words):
        fit(regression, (X, Y), "advi", **(SHORT | options))


@pytest.mark.slow
def test_a_matrix_beyond_reason_is_refused(monkeypatch):
    monkeypatch.setattr(advi, "MOST", 3)
    with pytest.raises(ZooError, match="free parameters, 4, and 3 are the most that are taken; use guide=low_rank"):
        fit(regression, (X, Y), "advi", **SHORT)


def gaussian_energy(z):
    return 0.5 * (z - MEAN) @ PRECISION @ (z - MEAN)


def gradient(loss, guide, params):
    """Of −ELBO, for the Gaussian posterior as the target."""
    auto = fitter(guide).auto

    def at(params):
        return loss.loss(jax.random.PRNGKey(1), params, target, auto, guide.size, gaussian_energy)

    return jax.jit(jax.grad(at))(params)


@pytest.mark.slow
def test_nothing_shakes_off_an_exact_q():
    """The gradient is 0 in a single draw. That of NumPyro's own estimator is 0 on average only."""
    with jax.enable_x64(True):
        guide = Guide("full_rank", 4, 0, "float64")
        exact = {"auto_loc": jnp.asarray(MEAN), "auto_scale_tril": jnp.linalg.cholesky(jnp.asarray(COVARIANCE))}
        path, plain = (gradient(loss(1), guide, exact)["auto_loc"] for loss in (PathwiseELBO, infer.Trace_ELBO))
        assert np.abs(path).max() < 1e-10
        assert np.abs(plain).max() > 1e-2


@pytest.mark.slow
def test_both_gradients_have_one_mean():
    """Away from the optimum, over 20,000 draws: means of either are within 5 % of the known slope, − precision (loc − mean)."""
    with jax.enable_x64(True):
        guide = Guide("full_rank", 4, 0, "float64")
        away = {"auto_loc": jnp.asarray(MEAN + 1.0), "auto_scale_tril": 0.3 * jnp.eye(4)}
        slope = PRECISION @ np.ones(4)
        for loss in (PathwiseELBO, infer.Trace_ELBO):
            np.testing.assert_allclose(gradient(loss(20_000), guide, away)["auto_loc"], slope, rtol=0.05)


@pytest.mark.slow
def test_the_sites_of_the_energy_are_not_those_of_the_guide():
    """The energy may run a program, whose sites no handler outside may see: they would be counted, and leak."""

    def energy(z):
        numpyro.sample("inner", dist.Normal(), obs=0.0)
        return z.sum()

    program = handlers.substitute(handlers.seed(target, 0), data={"z": np.zeros(2)})
    assert list(handlers.trace(program).get_trace(2, energy)) == ["z", "log_density"]


@pytest.mark.slow
def test_mean_field_has_variances_of_one_over_the_precision():
    """Known in closed form. A gap of δ nats allows an error of 2 √δ in a log variance;
    0.02 nats and 2,000 draws are granted.
    """
    tree = fitted("mean_field")
    variances = 1 / np.diag(PRECISION)
    gap = 0.5 * (np.log(np.diag(PRECISION)).sum() - np.linalg.slogdet(PRECISION)[1])
    assert EVIDENCE - gap - 0.02 < tree.attrs["elbo"] + 4 * tree.attrs["elbo_se"]
    assert tree.attrs["elbo"] - 4 * tree.attrs["elbo_se"] < EVIDENCE - gap
    draws = weights_of(tree)
    log_error = 2 * np.sqrt(0.02) + 4 * np.sqrt(2 / len(draws))
    assert np.abs(np.log(draws.var(0) / variances)).max() < log_error
    assert np.abs(np.corrcoef(draws.T) - np.eye(4)).max() < 4 / np.sqrt(len(draws))
    assert (variances < 0.5 * np.diag(COVARIANCE)).all()  # so that a covariance of full rank would be noticed


@pytest.mark.slow
def test_richer_guides_have_higher_bounds():
    """A diagonal, one direction beside it, any covariance, the evidence. One direction does not describe both pairs."""
    trees = [fitted("mean_field"), fitted("low_rank", rank=1), fitted("full_rank")]
    bounds = [tree.attrs["elbo"] for tree in trees]
    errors = [tree.attrs["elbo_se"] for tree in trees]
    assert bounds[0] + 4 * errors[0] < bounds[1] - 4 * errors[1]
    assert bounds[1] + 4 * errors[1] < bounds[2] - 4 * errors[2]
    assert bounds[2] < EVIDENCE + 1e-6
    assert fitted("low_rank", rank=4).attrs["elbo"] == pytest.approx(EVIDENCE, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("guide", "rank"), [("mean_field", 0), ("low_rank", 1)])
def test_weights_are_p_over_a_density(guide, rank):
    """The log joint minus log p / q is a quadratic of the draws: a Gaussian with the moments of the draws, of total mass 1."""
    tree = fitted(guide, rank=rank)
    draws = weights_of(tree)
    log_q = tree["sample_stats"]["lp"].values.ravel() - log_ratios(tree)
    rows, columns = np.triu_indices(4)
    terms = np.column_stack([np.ones(len(draws)), draws, draws[:, rows] * draws[:, columns]])
    found, *_ = np.linalg.lstsq(terms, log_q, rcond=None)
    assert np.abs(terms @ found - log_q).max() < 1e-6
    precision = np.zeros((4, 4))
    precision[rows, columns] = -found[5:]
    precision += precision.T
    covariance = np.linalg.inv(precision)
    middle = covariance @ found[1:5]
    height = found[0] + 0.5 * found[1:5] @ middle
    assert height == pytest.approx(-0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1], abs=1e-6)
    assert np.abs(moments(draws, middle, covariance)).max() < 4.5  # of 20 statistics: once in 7,000


def counts(x):
    """A Gamma prior of a Poisson rate: on ℝ the logarithm, with its Jacobian."""
    rate = numpyro.sample("rate", dist.Gamma(3.0, 2.0))
    numpyro.sample("x", dist.Poisson(rate).expand([len(x)]).to_event(1), obs=x)


@pytest.mark.slow
def test_the_jacobian_is_part_of_the_weights():
    """The evidence in closed form, from importance sampling: 4 standard errors of the weights."""
    x = np.array([1, 0, 2, 4])
    tree = fit(counts, x, "advi", **SHORT)
    shape, rate = 3 + x.sum(), 2 + len(x)
    exact = 3 * np.log(2) - shape * np.log(rate) + np.log(np.prod(np.arange(3, shape), dtype=float))
    exact -= np.log(np.prod([float(np.prod(np.arange(1, each + 1))) for each in x]))
    weights = np.exp(log_ratios(tree) - exact)
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(len(weights))
    assert tree.attrs["elbo"] < exact
    draws = tree["posterior"]["rate"].values.ravel()
    assert draws.min() > 0
    corrected = (weights * draws).sum() / weights.sum()
    assert corrected == pytest.approx(shape / rate, abs=4 * draws.std() / np.sqrt(len(draws)))


def funnel(x):
    """Neal's: the scale of four numbers is a number itself, over orders of magnitude."""
    log_scale = numpyro.sample("log_scale", dist.Normal(0.0, 3.0))
    numpyro.sample("inside", dist.Normal(0.0, jnp.exp(log_scale / 2)).expand([4]).to_event(1))
    numpyro.sample("x", dist.Normal(0.0, 1.0), obs=x)


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["full_rank", "mean_field"])
def test_a_funnel_is_no_gaussian(guide):
    tree = fit(funnel, np.array(0.3), "advi", guide=guide, **SHORT)
    assert tree.attrs["pareto_k"] > 0.7
    assert "Pareto k-hat" in tree.attrs["problems"]
    assert tree.attrs["exit_status"] == 3
    assert tree.attrs["elbo"] < stats.norm.logpdf(0.3)


def far_away(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1e7))
    numpyro.sample("x", dist.Normal(mean, 1e-3).expand([len(x)]).to_event(1), obs=x)


@pytest.mark.slow
def test_units_do_not_matter():
    """Ten orders of magnitude between the prior and the posterior: the bound is the evidence to the rounding of the density."""
    x = 1e6 + 1e-3 * np.array([-1.0, 0.5, 2.0])
    tree = fit(far_away, x, "advi", **SHORT)
    scale = np.sqrt(1 / (3 / 1e-6 + 1e-14))
    assert abs(tree["posterior"]["mean"].values.mean() - x.mean()) < 4 * scale / np.sqrt(2000)
    assert tree["posterior"]["mean"].values.std() == pytest.approx(scale, rel=4 / np.sqrt(2 * 2000))
    assert tree.attrs["pareto_k"] < 0.5


@pytest.mark.slow
def test_single_precision_is_weighed_in_double():
    """The bound is computed anew: 1e-3 nats off at most, where single precision has rounding of log p of some 1e-5."""
    tree = fitted(precision=32)
    assert tree.attrs["elbo"] == pytest.approx(EVIDENCE, abs=1e-3)
    assert "precision=32" not in tree.attrs["problems"]


@pytest.mark.slow
def test_the_density_of_a_guide_is_that_of_its_parameters():
    """Names of NumPyro's parameters: a Normal by hand."""
    params = {"z_auto_loc": jnp.array([1.0, 2.0]), "z_auto_scale": jnp.array([0.5, 3.0])}
    found = density_of(Guide("mean_field", 2, 0, "float32"), params).log_prob(jnp.array([0.0, 0.0]))
    assert float(found) == pytest.approx(stats.norm([1, 2], [0.5, 3]).logpdf(0).sum(), rel=1e-5)
