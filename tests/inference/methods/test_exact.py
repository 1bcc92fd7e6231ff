"""Samplers against what is exact: Geweke's joint-distribution test, and the posterior by enumeration of all assignments."""

from functools import cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_summaries import ROWS, informative, naive_rows, prior_draws, summaries
from naive import COVARIANCES, Sites, build, distances_of_moments, draws_of, table, two_groups
from two_stage import assert_standard_normal, in_blocks, of_distributions

from inference import fit
from inference.engine.evaluate import evaluate
from inference.methods import gibbs
from models.algebra import add, at_sample
from models.base import Model

CHAINS = 12_000
SWEEPS = 8


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_geweke(covariance):
    """Started from the prior, sweeps of "rows given θ, then θ given rows by Gibbs" leave θ and the rows at the prior.

    Every chain gives one independent draw. Kolmogorov-Smirnov on at most 12 functions.
    """
    model = informative(covariance)
    hyper, prior = dict(model.hyper), dict(model.prior)

    def simulate(key: Any, T: Any) -> Any:
        return model.abilities.simulate(key, hyper, model.algebra.sites(hyper, T), ROWS)

    def sweep(T: Any, key: Any) -> tuple[Any, None]:
        key_rows, key_step = jax.random.split(key)
        return gibbs.step(model.algebra, (hyper, prior, simulate(key_rows, T)), key_step, T)[0], None

    def chain(sites: Any, key: Any, count: int) -> tuple[Any, Any]:
        keys = jax.random.split(key, count + 1)
        T, _ = jax.lax.scan(sweep, model.algebra.natural(hyper, sites), keys[1:])
        return model.algebra.sites(hyper, T), simulate(keys[0], T).x

    run = jax.jit(jax.vmap(partial(chain, count=SWEEPS)))

    def found_and_wanted(seed: int) -> tuple[Sites, Sites]:
        rng = np.random.default_rng(seed)
        start, sites = (prior_draws(covariance, hyper, rng, CHAINS) for _ in range(2))
        after = jax.tree.map(np.asarray, run(start, jax.random.split(jax.random.PRNGKey(seed + 1), CHAINS)))
        return summaries(*after, hyper["location"]), summaries(sites, naive_rows(covariance, sites, rng), hyper["location"])

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))


# ---------------------------------------------------------------------------------------------------------------------
# The posterior by enumeration

X = two_groups(8, gap=2.0)


@cache
def small_model() -> Model:
    prior = {"component": {"strength": 0.5, "dof": 6.0}}
    return build(X, "diag", prior=prior)


def exact_functionals(seed: int, size: int) -> dict[str, np.ndarray]:
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
    key_pick, key_draw = jax.random.split(jax.random.PRNGKey(seed))
    picked = jax.random.categorical(key_pick, weights, shape=(size,))

    def draw(z: Any, key: Any) -> Any:
        return algebra.sites(model.hyper, at_sample(algebra, key, nu_of(z)))

    sites = jax.jit(jax.vmap(draw))(assignments[picked], jax.random.split(key_draw, size))
    draws = jax.tree.map(np.asarray, sites)
    return evaluate(model, dict(model.hyper), prior, rows, draws).functionals


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_sampler_finds_the_exact_posterior(method):
    """Means of 9 functionals and their squares."""
    draws = {"gibbs": 3072, "nuts": 1280}[method]

    def deviations(seed: int, times: int) -> np.ndarray:
        options = {"num_warmup": 500, "num_samples": draws * times, "num_chains": 4, "seed": seed}
        tree = fit(small_model(), table(X), method=method, **options)
        exact = exact_functionals(seed, 20_000 * times)
        assert set(exact) == set(tree["functionals"].data_vars)
        pairs = [(draws_of(tree, "functionals", name), value.reshape(len(value), -1)) for name, value in exact.items()]
        return np.concatenate([distances_of_moments(*pair) for pair in pairs])

    assert_standard_normal(deviations)
