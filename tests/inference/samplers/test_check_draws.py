"""Draws beside a reference: those of the posterior agree; narrow ones and those of another prior do not."""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from scipy import stats

from inference import check_draws, fit, full_matrices, target
from inference.results.triangles import sites_of
from inference.samplers.draws import _table
from models import MODELS, load_data
from models.errors import ZooError

pytestmark = pytest.mark.slow
POSTERIOR = target("gmm_simple")


@pytest.fixture(scope="module")
def reference():
    return fit(POSTERIOR.model, POSTERIOR.table, "exact", num_samples=2_000, num_chains=4)


def test_draws_of_the_posterior_agree(reference):
    own = fit(POSTERIOR.model, POSTERIOR.table, "exact", seed=1, num_samples=1_000, num_chains=2)
    found = check_draws(POSTERIOR.model, POSTERIOR.table, own, reference)
    assert found.passed, found
    summaries = {"location by ranks", "spread by ranks", "share below the 5 % quantile", "share above the 95 % quantile"}
    assert set(found.table.index.get_level_values("summary")) == summaries
    assert not found.notes
    assert "log_joint" in found.table.index.get_level_values("quantity")


def test_a_few_wild_draws_are_named():
    """One in a thousand at 1,000: no rank sees it, and the mean is off by a standard deviation."""
    rng, model = np.random.default_rng(0), POSTERIOR.model
    rows = POSTERIOR.table
    one, other = (fit(model, rows, "exact", seed=seed, num_samples=2_000, num_chains=4) for seed in (1, 2))
    sites = sites_of(one, "posterior")
    right = check_draws(model, rows, sites, other)
    assert right.verdict == "draws agree"
    assert not right.notes
    sites["mean"][:, rng.choice(2_000, 2, replace=False)] = 1e3
    found = check_draws(model, rows, sites, other)
    assert found.verdict == "draws agree"
    (note,) = found.notes
    assert "although ranks agree" in note
    assert f"note: {note}" in repr(found)
    tree = found.marked(POSTERIOR.result(sites=sites))
    assert tree.attrs["warnings"].split("\n")[-1] == f"draws given by the user: {note}"
    assert found.marked(tree).attrs["warnings"] == tree.attrs["warnings"]


def test_narrow_draws_differ(reference):
    drawn = reference.posterior["mean"].values
    narrow = drawn.mean((0, 1)) + 0.7 * (drawn - drawn.mean((0, 1)))
    found = check_draws(POSTERIOR.model, POSTERIOR.table, {"mean": narrow}, reference)
    assert not found.passed
    assert found.failed["deviation"].abs().is_monotonic_decreasing
    assert found.verdict == "draws differ"
    assert not found.hints, "no number of the prior makes draws narrow about the same mean"


def test_a_wrong_number_of_the_prior_explains_the_draws(reference):
    """Draws of another prior, made of those of the reference by their weights."""
    drawn = reference.posterior["mean"].values
    strength = float(POSTERIOR.prior["strength"])
    flat = drawn.reshape(-1, *drawn.shape[2:])
    weights = np.exp(-0.5 * strength * (flat**2).sum((1, 2)))  # strength 2 for 1, location 0
    chosen = np.random.default_rng(0).choice(len(flat), 2_000, p=weights / weights.sum())
    found = check_draws(POSTERIOR.model, POSTERIOR.table, {"mean": flat[chosen].reshape(4, 500, 2, 2)}, reference)
    assert not found.passed
    assert "the draws fit another prior: strength × 2. Is that number wrong?" in found.hints


def test_chains_at_different_places_are_named(reference):
    drawn = reference.posterior["mean"].values.copy()
    drawn[0] += 3.0
    found = check_draws(POSTERIOR.model, POSTERIOR.table, {"mean": drawn}, reference)
    assert found.verdict == "inconclusive"
    assert "chains of your draws disagree (R-hat" in found.says


def test_identical_chains_are_named(reference):
    drawn = reference.posterior["mean"].values.copy()
    drawn[2] = drawn[0]
    found = check_draws(POSTERIOR.model, POSTERIOR.table, {"mean": drawn}, reference)
    assert found.verdict == "inconclusive"
    assert "chains 1 and 3 of your draws are identical" in found.says


@pytest.mark.parametrize(
    ("covariance", "what", "change"),
    [
        ("full", "covariances in place of precisions", np.linalg.inv),
        ("diag", "variances in place of precisions", lambda precision: 1 / precision),
        ("diag", "standard deviations in place of precisions", lambda precision: precision**-0.5),
    ],
)
def test_covariances_in_place_of_precisions_are_named(covariance, what, change):
    rows = np.random.default_rng(0).normal([[0.0, 3.0]], [[1.0, 2.0]], (8, 2))
    model = MODELS["gmm"](rows, num_components=2, covariance=covariance)
    one, other = (fit(model, rows, "exact", seed=seed, num_samples=500, num_chains=4) for seed in (1, 2))
    sites = {name: value.values for name, value in full_matrices(one).data_vars.items()}
    assert check_draws(model, rows, sites, other).passed
    found = check_draws(model, rows, sites | {"precision": change(sites["precision"])}, other)
    assert f"the draws agree if precision holds {what}, which the model does not" in found.hints, found


def rates(x):
    """Sites whose values look like something else: a positive definite matrix, and probabilities."""
    rate = numpyro.sample("rate", dist.Gamma(jnp.array([[9.0]]), 3.0).to_event(2))
    scale = numpyro.sample("scale", dist.Gamma(2.0, 1.0))
    numpyro.sample("x", dist.Normal(0.0, scale / jnp.sqrt(rate[0, 0])), obs=x)


@pytest.mark.parametrize(
    ("site", "change", "what"),
    [
        ("rate", lambda value: 1 / value, "variances in place of precisions, which the model does not"),
        ("rate", lambda value: value**0.5, "square roots of what the model holds"),
        ("scale", lambda value: value**0.5, "square roots of what the model holds"),
    ],
)
def test_the_program_says_what_a_site_is(site, change, what):
    """A site (1, 1) of a positive number is no matrix, though its values look like one."""
    x = np.array([0.5, -1.0, 2.0, 0.3])
    one, other = (fit(rates, x, "nuts", seed=seed, num_samples=1_500, num_chains=4) for seed in (1, 2))
    sites = {name: value.values for name, value in one.posterior.data_vars.items()}
    found = check_draws(rates, x, sites | {site: change(sites[site])}, other)
    assert found.hints == (f"the draws agree if {site} holds {what}",)


def test_wrong_draws_that_no_other_scale_explains_are_reported():
    """Each site is tried on other scales; on most of them its draws are outside the support of a probability."""
    rows = load_data(np.array([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1], [0, 1]]), labels=["a", "b", "a", "b", "b", "a"])
    model = MODELS["naive_bayes"](rows, emission="bernoulli")
    one, other = (fit(model, rows, "exact", seed=seed, num_samples=500, num_chains=4) for seed in (1, 2))
    sites = {name: value.values for name, value in one.posterior.data_vars.items()}
    assert check_draws(model, rows, sites, other).passed
    found = check_draws(model, rows, sites | {"feature_probs": sites["feature_probs"] ** 3}, other)
    assert found.verdict == "draws differ"


def test_too_few_draws_are_refused(reference):
    drawn = reference.posterior["mean"].values[:, :50]
    found = check_draws(POSTERIOR.model, POSTERIOR.table, {"mean": drawn}, reference)
    assert found.verdict == "inconclusive"
    assert "and 400 are needed" in found.says


def test_draws_are_not_compared_with_themselves(reference):
    with pytest.raises(ZooError, match="they are those of the reference, draw by draw"):
        check_draws(POSTERIOR.model, POSTERIOR.table, reference, reference)
    same_seed = fit(POSTERIOR.model, POSTERIOR.table, "exact", num_samples=500, num_chains=4)
    assert check_draws(POSTERIOR.model, POSTERIOR.table, same_seed, num_samples=500).table["deviation"].abs().max() > 0


def test_a_reference_is_draws_of_the_posterior(reference):
    point = fit(POSTERIOR.model, POSTERIOR.table, "em", num_starts=1)
    with pytest.raises(ZooError, match="a result of em is no draws of the posterior"):
        check_draws(POSTERIOR.model, POSTERIOR.table, reference, point)


def test_draws_without_a_density_do_not_agree():
    """One draw of zero probability: what is infinite there cannot be left out."""
    posterior = target("gmm")
    one, other = (fit(posterior.model, posterior.table, "exact", seed=seed, num_samples=500, num_chains=4) for seed in (0, 1))
    draws = sites_of(one, "posterior")
    draws["mixture_probs"][0, 0] = [0.0, 0.5, 0.5]
    found = check_draws(posterior.model, posterior.table, draws, other)
    assert not found.passed
    assert found.table.loc[("log_joint", "location by ranks"), "deviation"] == np.inf


@pytest.mark.parametrize("heavy", [False, True])
def test_right_draws_are_rarely_accused(heavy):
    """Chains with autocorrelation .9 against independent draws, 11 quantities in 100 pairs: at .1 %, never 4."""
    rng, accused = np.random.default_rng(0), 0
    for _ in range(100):
        noise = rng.normal(size=(2_000, 4, 11)) * np.sqrt(1 - 0.9**2)
        chain = np.empty_like(noise)
        chain[0] = rng.normal(size=(4, 11))
        for step in range(1, len(noise)):
            chain[step] = 0.9 * chain[step - 1] + noise[step]
        one, other = chain.swapaxes(0, 1), rng.normal(size=(4, 2_000, 11))
        if heavy:
            one, other = np.exp(one), np.exp(other)
        table = _table(one, other, [str(q) for q in range(11)], [])
        accused += bool((table["deviation"].abs() > stats.norm.isf(1e-3 / 2 / len(table))).any())
    assert accused <= 3
