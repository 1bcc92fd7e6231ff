"""Samplers against what is exact: Geweke's joint-distribution test, and the posterior by enumeration of all assignments."""

from functools import cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import COVARIANCES, Sites, batch_error, build, table, two_groups
from scipy import stats

from inference import fit, gibbs
from inference.evaluate import evaluate
from models.base import Model, add, at_sample

CHAINS = 20000
ROWS = 6
SWEEPS = 8


def informative(covariance: str) -> Model:
    """A prior with moments, off the column means, so that every term of the algebra is at work."""
    dimension = 2
    component: dict[str, Any] = {"location": [0.3, -0.2], "strength": 0.5}
    if covariance != "unit":
        component |= {"dof": dimension + 8.0, "scatter": 6.0 if covariance == "spherical" else [6.0, 9.0]}
    prior = {"component": component} | {"mixture_probs": {"concentration": [2.0, 3.0]}}
    return build(two_groups(ROWS), covariance, prior=prior)


def prior_draws(covariance: str, hyper: Any, rng: np.random.Generator, size: int) -> Sites:
    """θ from the prior, by SciPy and NumPy."""
    dof = float(hyper.get("dof", np.nan))
    gamma = partial(rng.gamma, dof / 2)
    eye = np.eye(2)
    if covariance in {"full", "tied"}:
        each = 2 * size if covariance == "full" else size
        drawn = stats.wishart.rvs(dof, np.linalg.inv(hyper["scatter"]), size=each, random_state=rng)
        precision = drawn.reshape(size, 2, 2, 2) if covariance == "full" else drawn
        matrix = precision if covariance == "full" else precision[:, None].repeat(2, 1)
    elif covariance == "diag":
        precision = gamma(2 / hyper["scatter"], (size, 2, 2))
        matrix = precision[..., None] * eye
    else:
        precision = gamma(2 / hyper["scatter"], (size, 2)) if covariance == "spherical" else np.ones((size, 2))
        matrix = precision[..., None, None] * eye
    roots = np.linalg.cholesky(np.linalg.inv(float(hyper["strength"]) * matrix))
    mean = hyper["location"] + np.einsum("ckij,ckj->cki", roots, rng.normal(size=(size, 2, 2)))
    sites = {"mixture_probs": rng.dirichlet(hyper["concentration"], size), "mean": mean}
    return sites if covariance == "unit" else sites | {"precision": precision}


def summaries(sites: Sites, x: np.ndarray, location: np.ndarray) -> dict[str, np.ndarray]:
    """Functions of θ and x that catch a wrong location, shape, rate, strength or coupling."""
    found = {"prob": sites["mixture_probs"][:, 0], "mean": sites["mean"][:, 0, 0], "other": sites["mean"][:, 1, 1]}
    found |= {"first": x[:, 0, 0], "last": x[:, -1, 1], "square": (x**2).mean((1, 2)), "spread": x.std(1).mean(1)}
    found["distance"] = ((sites["mean"] - location) ** 2).sum((1, 2))
    if "precision" in sites:
        precision = sites["precision"].reshape(len(x), -1)
        found |= {"first precision": precision[:, 0], "last precision": precision[:, -1], "inner precision": precision[:, 1]}
        found["coupling"] = (sites["mean"][:, 0, 0] - location[0]) ** 2 * precision[:, 0]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_geweke(covariance):
    """Started from the prior, sweeps of "rows given θ, then θ given rows by Gibbs" leave θ and the rows at the prior.

    Every chain gives one independent draw. Kolmogorov-Smirnov on at most 12 functions for 5 covariance types, each at a
    p-value of 1e-6: false alarms below 6e-5.
    """
    model = informative(covariance)
    rng = np.random.default_rng(0)
    start, reference_sites = (prior_draws(covariance, model.hyper, rng, CHAINS) for _ in range(2))
    hyper, prior = dict(model.hyper), dict(model.prior)

    def simulate(key: Any, T: Any) -> Any:
        return model.simulate(key, hyper, model.algebra.sites(hyper, T), ROWS)

    def sweep(T: Any, key: Any) -> tuple[Any, None]:
        key_rows, key_step = jax.random.split(key)
        return gibbs.step(model.algebra, (hyper, prior, simulate(key_rows, T)), key_step, T)[0], None

    def chain(sites: Any, key: Any, count: int) -> tuple[Any, Any]:
        keys = jax.random.split(key, count + 1)
        T, _ = jax.lax.scan(sweep, model.algebra.natural(hyper, sites), keys[1:])
        return model.algebra.sites(hyper, T), simulate(keys[0], T).x

    keys = jax.random.split(jax.random.PRNGKey(1), CHAINS)
    after = jax.tree.map(np.asarray, jax.jit(jax.vmap(partial(chain, count=SWEEPS)))(start, keys))
    x = naive_rows(covariance, reference_sites, rng)
    reference, found = summaries(reference_sites, x, hyper["location"]), summaries(*after, hyper["location"])
    p_values = {name: stats.ks_2samp(found[name], reference[name]).pvalue for name in reference}
    assert min(p_values.values()) > 1e-6, p_values


def naive_rows(covariance: str, sites: Sites, rng: np.random.Generator) -> np.ndarray:
    """Rows of every θ by NumPy: one component, then one Normal, at a time (through the covariance's own square root)."""
    size = len(sites["mean"])
    component = (rng.random((size, ROWS)) >= sites["mixture_probs"][:, :1]).astype(int)
    chain = np.arange(size)[:, None]
    noise = rng.normal(size=(size, ROWS, 2))
    mean = sites["mean"][chain, component]
    if covariance == "unit":
        return mean + noise
    precision = sites["precision"]
    if covariance == "diag":
        return mean + noise / np.sqrt(precision[chain, component])
    if covariance == "spherical":
        return mean + noise / np.sqrt(precision[chain, component])[..., None]
    roots = np.linalg.cholesky(np.linalg.inv(precision))
    chosen = roots[chain, component] if covariance == "full" else roots[:, None].repeat(ROWS, 1)
    return mean + np.einsum("cnij,cnj->cni", chosen, noise)


# ---------------------------------------------------------------------------------------------------------------------
# The posterior by enumeration

X = two_groups(8, gap=2.0)


@cache
def small_model() -> Model:
    prior = {"component": {"strength": 0.5, "dof": 6.0}}
    return build(X, "diag", prior=prior)


@cache
def exact_functionals() -> dict[str, np.ndarray]:
    """Independent draws from the exact posterior: an assignment by its evidence, then θ given that assignment."""
    model = small_model()
    algebra, prior, rows = model.algebra, dict(model.prior), model.rows(table(X))
    assignments = np.eye(2)[np.array(list(product(range(2), repeat=len(X))))]

    def nu_of(z: Any) -> Any:
        return add(prior, algebra.statistics(jnp.ones(len(X)), z, algebra.features(model.hyper, rows)))

    def log_evidence(z: Any) -> Any:
        nu = nu_of(z)
        return sum(family.log_partition(nu[name]) for name, family in algebra.families)

    weights = jax.jit(jax.vmap(log_evidence))(assignments)
    picked = jax.random.categorical(jax.random.PRNGKey(2), weights, shape=(20000,))

    def draw(z: Any, key: Any) -> Any:
        return algebra.sites(model.hyper, at_sample(algebra, key, nu_of(z)))

    sites = jax.jit(jax.vmap(draw))(assignments[picked], jax.random.split(jax.random.PRNGKey(3), 20000))
    draws = jax.tree.map(np.asarray, sites)
    return evaluate(model, dict(model.hyper), prior, rows, draws).functionals


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_sampler_finds_the_exact_posterior(method):
    """Means of 9 functionals and their squares; |z| < 5.5 at 39 degrees of freedom gives 36 numbers 1e-4 false alarms."""
    size = 5000 if method == "gibbs" else 2000
    tree = fit(small_model(), table(X), method=method, num_warmup=500, num_samples=size, num_chains=4)
    exact, scores = exact_functionals(), {}
    assert set(exact) == set(tree["functionals"].data_vars)
    for name, reference in exact.items():
        values = tree["functionals"][name].values.reshape(*tree["functionals"][name].shape[:2], -1)
        for column, expected in zip(np.moveaxis(values, 2, 0), reference.reshape(len(reference), -1).T, strict=True):
            for power in (1, 2):
                found, wanted = (column - expected.mean()) ** power, (expected - expected.mean()) ** power
                error = np.hypot(batch_error(found), wanted.std() / np.sqrt(len(wanted)))
                scores[name, len(scores)] = abs(found.mean() - wanted.mean()) / error
    assert max(scores.values()) < 5.5, scores
