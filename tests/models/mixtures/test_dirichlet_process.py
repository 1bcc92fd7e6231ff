"""Weights by stick-breaking: against naive sticks, SciPy's densities, scikit-learn's updates and all latents enumerated."""

import warnings
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from identities import agree, climbed, values_of
from naive import build, log_likelihood, log_local, log_prior, near, neighbours_increase, random_sites, table
from scipy import stats
from scipy.special import betaln, digamma, logsumexp
from sklearn.mixture import BayesianGaussianMixture
from two_stage import assert_standard_normal, of_batch_means

from inference import fit
from inference.engine.sweep import Updates, responsibilities, sweep
from inference.methods import cavi, em
from models import MODELS, ZooError, load_data
from models.algebra import add, at_mean
from models.mixtures.named_weights import WEIGHTS

K = 3
RNG = np.random.default_rng(2)
X = np.concatenate([RNG.normal(size=(7, 2)), RNG.normal(size=(5, 2)) + 2.5])
Z = np.eye(K)[RNG.integers(K, size=len(X))]
PRIOR = {
    "dirichlet_process": {"sticks": {"concentration": 1.7}},
    "dirichlet_process_learned": {"concentration": {"shape": 2.5, "rate": 0.8}},
}
both = pytest.mark.parametrize("weights", PRIOR)


def model_of(weights, covariance="diag", x=X, size=K, **component):
    prior = PRIOR[weights] | ({"component": component} if component else {})
    return build(x, covariance, size, weights=weights, prior=prior)


def sites_of(weights, covariance="diag", seed=1):
    rng = np.random.default_rng(seed)
    sites = random_sites(covariance, K, X, seed, "uniform") | {"sticks": rng.beta(1.0, 2.0, K - 1)}
    return sites | ({"concentration": rng.gamma(2.0)} if weights == "dirichlet_process_learned" else {})


def naive_probs(sticks):
    """One stick after another: a share of what is left of 1."""
    left, probs = 1.0, []
    for stick in sticks:
        probs.append(left * stick)
        left -= left * stick
    return np.array([*probs, left])


def naive_log_prior(model, sites, covariance="diag"):
    """SciPy's densities of sticks and concentration, and those of the components."""
    hyper, concentration = dict(model.hyper), sites.get("concentration", model.hyper.get("concentration"))
    total = stats.beta(1.0, concentration).logpdf(sites["sticks"]).sum()
    if "concentration" in sites:
        gamma = stats.gamma(hyper["concentration_shape"], scale=1 / hyper["concentration_rate"])
        total += gamma.logpdf(concentration)
    return total + log_prior(covariance, hyper, sites)


@both
def test_sticks_make_probs(weights):
    """Probs, their logarithm by T, the bias of a discriminant and the mean of q are those of sticks broken one by one."""
    block, sites = WEIGHTS[weights], sites_of(weights)
    wanted = naive_probs(sites["sticks"])

    @jax.jit
    def updates(sites, counts):
        T, nu = block.natural(sites), block.statistics(counts)
        logs = block.log_probs(T, K), block.bias(sites)
        return block.probs(sites, K), logs, block.sites(T), nu["sticks"], block.predictive(nu, K)

    probs, logs, back, sticks, predictive = updates(sites, np.array([4.0, 2.0, 5.0]))
    assert near(probs, wanted, rtol=1e-12)
    assert all(near(found, np.log(wanted), rtol=1e-12) for found in logs)
    assert all(near(value, sites[name], rtol=1e-12) for name, value in back.items())
    assert near(sticks, [[4.0, 7.0], [2.0, 5.0]])
    assert near(predictive, np.log(naive_probs([5 / 13, 3 / 9])), rtol=1e-12)


def test_means_of_sticks_are_slopes():
    family = dict(WEIGHTS["dirichlet_process"].families)["sticks"]
    slope, mean = jax.jit(lambda nu: (jax.grad(family.log_partition)(nu), family.mean(nu)))(np.array([[4.0, 7.0], [2.0, 5.0]]))
    assert near(slope, mean, rtol=1e-9)


@both
def test_the_program_is_the_algebra(weights):
    """Log p(x, θ) and log p(x, z, θ): program, algebra and SciPy; statistics are the gradient."""
    model, sites = model_of(weights), sites_of(weights)
    found = values_of(model, model.rows(table(X)), sites, Z)
    seen = sites | {"mixture_probs": naive_probs(sites["sticks"])}
    naive = naive_log_prior(model, sites)
    assert near(found.log_prior, naive, rtol=1e-10)
    assert near(found.local, log_local("diag", seen, X), rtol=1e-10)
    assert near(found.marginal, naive + log_likelihood("diag", seen, X).sum(), rtol=1e-10)
    assert near(found.complete, naive + found.energy.sum(), rtol=1e-10)
    assert agree(found.gradient, found.statistics, 1e-11)
    assert model.symmetry is None


def test_every_mixture_takes_them():
    table_of_kinds = load_data(pd.DataFrame({"size": X[:, 0], "seen": RNG.poisson(3, len(X))}), types={"seen": "count"})
    model = MODELS["mixed_mixture"](table_of_kinds, num_components=K, weights="dirichlet_process")
    assert [name for name, _ in model.algebra.families] == ["sticks", "component"]
    assert model.options["weights"] == "dirichlet_process"
    assert MODELS["mixed_mixture"](table_of_kinds, weights="uniform").algebra.families[0][0] == "component"


def test_the_conditional_of_a_learned_concentration():
    """One sweep by expectations: sticks see E[α], and α is Gamma(shape + K − 1, rate − Σ E[log(1 − sticks)]) of these."""
    model = model_of("dirichlet_process_learned")
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)

    @jax.jit
    def swept(hyper, prior, key, sites, rows):
        T = algebra.natural(hyper, sites)
        _, nu, local = sweep(algebra, Updates(at_mean, "mean"), hyper, prior, key, T, rows)
        return nu, local, responsibilities(algebra, hyper, T, rows)["latents"]

    given = jax.random.PRNGKey(0), sites_of("dirichlet_process_learned"), model.rows(table(X))
    nu, local, latents = jax.tree.map(np.asarray, swept(hyper, prior, *given))
    counts = latents.sum(0)
    passing = np.array([counts[k + 1 :].sum() for k in range(K - 1)])
    concentration = sites_of("dirichlet_process_learned")["concentration"]
    beta = np.column_stack([1 + counts[:-1], concentration + passing])
    assert near(np.asarray(nu["sticks"]) + 1, beta, rtol=1e-9)
    assert near(local.stats["sticks"], np.column_stack([counts[:-1], passing]), rtol=1e-9)
    passed = digamma(beta[:, 1]) - digamma(beta.sum(1))  # E[log(1 − sticks)]
    assert near(nu["concentration"].events + 1, 2.5 + K - 1, rtol=1e-12)
    assert near(nu["concentration"].exposure, 0.8 - passed.sum(), rtol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# scikit-learn


COMPONENT = {"location": [0.3, -0.2], "strength": 0.6, "dof": 4.5, "scatter": [[2.0, 0.3], [0.3, 1.5]]}
STEPS = 12


def theirs(begun):
    """scikit-learn's responsibilities and weights after as many iterations from given responsibilities."""
    peer = BayesianGaussianMixture(
        n_components=K,
        covariance_type="full",
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=1.7,
        mean_prior=COMPONENT["location"],
        mean_precision_prior=COMPONENT["strength"],
        degrees_of_freedom_prior=COMPONENT["dof"],
        covariance_prior=COMPONENT["scatter"],
        reg_covar=0.0,
        max_iter=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one iteration is not convergence; it sets the priors
        peer.fit(X)
    peer._initialize(X, begun)
    for _ in range(STEPS):
        peer._m_step(X, peer._e_step(X)[1])
    peer._set_parameters(peer._get_parameters())
    return np.exp(peer._e_step(X)[1]), peer.weights_


@pytest.mark.slow
def test_cavi_is_scikit_learns():
    """Theirs of K components are ours of K + 1, the last of which no row may take.

    scikit-learn keeps a Beta for the last stick, so that what it leaves of 1 is nobody's; ours is 1. It reports the means of
    probs, divided by their sum. The Gaussian parts are the same but for 10 ε rows more in every component.
    """
    model = model_of("dirichlet_process", "full", size=K + 1, **COMPONENT)
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)
    rows = model.rows(table(X))._replace(allowed_states=np.tile(np.arange(K + 1) < K, (len(X), 1)))
    begun = np.random.default_rng(5).dirichlet(np.full(K, 0.5), len(X))
    one = jax.jit(partial(sweep, algebra, Updates(at_mean, "mean")))
    key, last = jax.random.PRNGKey(0), np.zeros((len(X), 1))
    counted = algebra.statistics(jnp.ones(len(X)), jnp.asarray(np.append(begun, last, 1)), algebra.features(hyper, rows))
    nu = add(prior, counted)
    T = at_mean(algebra, key, nu)
    for _ in range(STEPS):
        T, nu, _ = one(hyper, prior, key, T, rows)
    probs, weights = theirs(begun)
    found = np.asarray(responsibilities(algebra, hyper, T, rows)["latents"])[:, :K]
    shares = np.exp(np.asarray(WEIGHTS["dirichlet_process"].predictive(nu, K + 1)))[:K]
    assert np.abs(probs - begun).max() > 0.1  # it went somewhere
    assert np.abs(found - probs).max() < 1e-6
    assert np.abs(shares / shares.sum() - weights).max() < 1e-6


# ---------------------------------------------------------------------------------------------------------------------
# Methods


@pytest.mark.slow
@both
def test_bounds_and_log_joints_never_fall(weights):
    model, data = model_of(weights), table(X)
    bound = climbed(model, data, sites_of(weights), method=cavi.FIXED_POINT)
    assert neighbours_increase(bound.criterion[0, 1:], 1e-9)
    joint = climbed(model, data, sites_of(weights), 50, 0.0, method=em.FIXED_POINT)
    assert neighbours_increase(joint.objective[0], 1e-9)


def marginal(x, z, alpha):
    """Log p(x, z | α), unit covariances with mean_k ~ Normal(0, 1 / 0.5), sticks integrated out one by one."""
    counts = np.array([(z == k).sum() for k in range(K)])
    passing = np.array([counts[k + 1 :].sum() for k in range(K)])
    weight = sum(betaln(1 + counts[k], alpha + passing[k]) - betaln(1, alpha) for k in range(K - 1))
    rows = [x[z == k] for k in range(K)]
    of = [stats.multivariate_normal(np.zeros(n := len(r)), np.eye(n) + 2.0).logpdf(r[:, 0]) for r in rows if len(r)]
    return weight + sum(of)


@cache
def enumerated(weights):
    """(log evidence, P(z_n = z_{n+1}), E[sticks], E[α]) of five rows: all 3⁵ latents, and α on a fine grid."""
    x = FEW
    grid = np.array([1.7]) if weights == "dirichlet_process" else np.exp(np.linspace(-9, 4, 400))
    log_alpha = np.zeros(1)
    if weights == "dirichlet_process_learned":
        log_alpha = stats.gamma(2.5, scale=1 / 0.8).logpdf(grid) + np.log(grid) + np.log(13 / 399)
    all_z = np.array(list(product(range(K), repeat=len(x))))
    joint = np.array([marginal(x, z, grid) for z in all_z]) + log_alpha  # (Z, α)
    evidence = logsumexp(joint)
    p = np.exp(joint - evidence)
    counts = (all_z[:, :, None] == np.arange(K)).sum(1)
    passing = counts[:, ::-1].cumsum(1)[:, ::-1][:, 1:]
    sticks = (1 + counts[:, :-1, None]) / (1 + counts[:, :-1, None] + grid + passing[:, :, None])
    together = (all_z[:, 1:] == all_z[:, :-1]).astype(float)
    return evidence, p.sum(1) @ together, np.einsum("za,zka->k", p, sticks), float((p * grid).sum())


FEW = np.array([[-1.2], [-0.9], [0.1], [1.4], [1.9]])


def few_rows(weights):
    return model_of(weights, "unit", FEW, location=[0.0], strength=0.5)


@pytest.mark.slow
def test_exact_sums_over_all_latents():
    tree = fit(few_rows("dirichlet_process"), table(FEW), "exact", num_samples=10, num_chains=1)
    assert tree.attrs["log_evidence"] == pytest.approx(enumerated("dirichlet_process")[0], rel=1e-10)


@pytest.mark.slow
@both
def test_gibbs_draws_the_posterior(weights):
    """Sticks, α and which neighbours are together, against the enumeration."""
    _, together, sticks, concentration = enumerated(weights)

    def deviations(seed, times):
        tree = fit(few_rows(weights), table(FEW), "gibbs", num_samples=3000 * times, num_warmup=100, num_chains=1, seed=seed)
        found = [of_batch_means(tree["posterior"]["sticks"].values[0], sticks)]
        found.append(of_batch_means(tree["functionals"]["co_clustering"].values[0], together))
        if weights == "dirichlet_process_learned":
            found.append(of_batch_means(tree["posterior"]["concentration"].values[0], concentration))
        return np.concatenate(found)

    assert_standard_normal(deviations)


# ---------------------------------------------------------------------------------------------------------------------
# Refusals


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ZooError, match="weights=dirichlet_process: it is a prior on the weights"):
        build(X, "diag", K, weights="dirichlet_process", prior="flat")
    with pytest.raises(ZooError, match="must be 2 or more"):
        build(X, "diag", 1, weights="dirichlet_process_learned")
    with pytest.raises(ZooError, match=r"prior sticks\.shape: the only name in this block is concentration"):
        build(X, "diag", K, weights="dirichlet_process", prior={"sticks": {"shape": 2.0}})
    labelled = load_data(pd.DataFrame({"size": X[:, 0]}), labels=list("ab" * 6))
    with pytest.raises(ZooError, match="classes with names have none"):
        MODELS["mixed_mixture"](labelled, labelled=True, weights="dirichlet_process")
    with pytest.raises(ZooError, match="joined by their prior"):
        fit(few_rows("dirichlet_process_learned"), table(FEW), "exact")
