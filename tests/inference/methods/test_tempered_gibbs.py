"""Parallel tempering: the joint density of all replicas by enumeration, modes far apart, and runs that go on."""

from functools import cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_summaries import ROWS, informative
from interrupting import Interrupting
from naive import build, distances_of_moments, draws_of, equal, log_local, near, table, two_groups
from two_stage import assert_standard_normal, in_blocks, of_batch_means, of_counts, of_distributions
from wrong_exchanges import always, backwards

from inference import fit
from inference.engine.sweep import tempered_latents, tempered_parameters
from inference.methods import gibbs, tempered_gibbs
from inference.methods.tempered_gibbs import (
    Replicas,
)
from models.algebra import add, at_sample, log_partition

# ---------------------------------------------------------------------------------------------------------------------
# Latents at a temperature


def test_latents_at_a_temperature():
    """Every row by itself: p(z_n = k) ∝ p(x_n, k | θ)^t, and U = Σ_n log p(x_n, z_n | θ) of the draw."""
    model, x = informative("unit"), two_groups(ROWS)
    hyper, rows = dict(model.hyper), jax.tree.map(jnp.asarray, model.rows(table(x)))
    sites = {"mixture_probs": np.array([0.3, 0.7]), "mean": np.array([[0.5, 1.0], [2.0, 1.5]])}
    local = log_local("unit", sites, x)
    T = model.algebra.natural(hyper, sites)

    def of_row(key: Any, n: Any) -> Any:
        alone = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, n, 1), rows)
        return tempered_latents(model.algebra, hyper, jnp.asarray(0.3), key, T, alone)[1]

    many = jax.jit(jax.vmap(jax.vmap(of_row, (0, None)), (None, 0)))
    probs = np.exp(0.3 * local) / np.exp(0.3 * local).sum(1, keepdims=True)

    def deviations(seed: int, times: int) -> np.ndarray:
        energy = in_blocks(lambda seed: np.asarray(many(jax.random.split(jax.random.PRNGKey(seed), 1000), jnp.arange(ROWS))).T,
                           seed, times)  # fmt: skip
        first, second = (np.abs(energy - local[:, k]) < 1e-9 for k in (0, 1))
        assert (first ^ second).all()
        return of_counts(first.sum(0), len(energy), probs[:, 0])

    assert_standard_normal(deviations)


# ---------------------------------------------------------------------------------------------------------------------
# One temperature


@pytest.mark.slow
def test_one_temperature_is_gibbs():
    """The same random numbers, sweep by sweep: equal but for the order of rounding."""
    model = informative("unit")
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)

    @jax.jit
    def both(rows, keys):
        T = at_sample(algebra, keys[0], prior)
        plain = jax.lax.scan(lambda T, key: (gibbs.step(algebra, (hyper, prior, rows), key, T)[0],) * 2, T, keys)[1]
        state = replicas(jax.tree.map(lambda leaf: leaf[None], T), jnp.zeros(1))
        sweep = partial(tempered_gibbs.step, algebra, (hyper, prior, rows, jnp.asarray(4)))
        state, record = jax.lax.scan(lambda state, key: sweep(key, state)[:2], state, keys)
        return jax.vmap(partial(algebra.sites, hyper))(plain), state, record

    keys = jax.random.split(jax.random.PRNGKey(2), 6)
    sites, state, record = both(model.rows(table(two_groups(ROWS))), keys)
    for name, value in sites.items():
        assert near(record.sites[name], value, rtol=1e-12)
    assert record.acceptance.shape == (6, 0)
    assert int(state.round_trips) == 0


def replicas(T: Any, log_temperature: Any) -> Replicas:
    """The state of one chain that begins at T."""
    size = len(log_temperature)
    nothing, no = jnp.zeros(size - 1), jnp.zeros((), jnp.int32)
    number = jnp.zeros(size - 1, jnp.int32)
    return Replicas(T, log_temperature, no, nothing, number, jnp.arange(size, dtype=jnp.int32), jnp.zeros(size, bool), no)


# ---------------------------------------------------------------------------------------------------------------------
# All replicas, by enumeration of all assignments

CHAINS, SWEEPS = 4_000, 5
BETAS = jnp.array([1.0, 0.4, 0.1])


def at_own_temperature(*arguments: Any) -> Any:
    """A wrong step: θ of every replica from the statistics as they are."""
    algebra, prior, _, key, stats = arguments
    return tempered_parameters(algebra, prior, 1.0, key, stats)


MUTANTS = {
    "sign": ("acceptance", backwards),
    "always": ("acceptance", always),
    "untempered": ("tempered_parameters", at_own_temperature),
}


def joint_draws(after: bool) -> Any:
    """A program: seed -> functions of θ, replica by replica, of exact draws of the joint density, or after sweeps from there.

    An assignment z has weight ∫ p(θ) p(x, z | θ)^β dθ, and θ given z is of the family at prior + β statistics.
    """
    model = informative("unit")
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)
    rows = jax.tree.map(jnp.asarray, model.rows(table(two_groups(ROWS))))
    assignments = jnp.eye(2)[np.array(list(product(range(2), repeat=ROWS)))]
    features = algebra.features(hyper, rows)

    def nu_of(beta: Any, z: Any) -> Any:
        return add(prior, jax.tree.map(lambda leaf: beta * leaf, algebra.statistics(jnp.ones(ROWS), z, features)))

    def exact(key: Any) -> Any:
        def one(beta: Any, key: Any) -> Any:
            key_z, key_theta = jax.random.split(key)
            weights = jax.vmap(lambda z: log_partition(algebra, nu_of(beta, z)))(assignments)
            z = assignments[jax.random.categorical(key_z, weights)]
            return at_sample(algebra, key_theta, nu_of(beta, z))

        return jax.vmap(one)(BETAS, jax.random.split(key, len(BETAS)))

    def chain(key: Any) -> Any:
        keys = jax.random.split(key, SWEEPS + 1)
        state = replicas(exact(keys[0]), jnp.log(BETAS))
        arrays = (hyper, prior, rows, jnp.asarray(0))
        if after:
            sweep = partial(tempered_gibbs.step, algebra, arrays)
            state = jax.lax.scan(lambda state, key: (sweep(key, state)[0], None), state, keys[1:])[0]
        sites = jax.vmap(partial(algebra.sites, hyper))(state.T)
        mean, first = sites["mean"], sites["mixture_probs"][:, 0]
        return {"prob": first, "mean": mean[:, 0, 0], "apart": (mean[:, 0] - mean[:, 1]).sum(-1), "size": (mean**2).sum((1, 2))}

    run = jax.jit(jax.vmap(chain))

    def summaries(seed: int) -> dict[str, np.ndarray]:
        found = jax.tree.map(np.asarray, run(jax.random.split(jax.random.PRNGKey(seed), CHAINS)))
        return {f"{name} {r}": value[:, r] for name, value in found.items() for r in range(len(BETAS))}

    return summaries


def deviations_of_joint(swept: Any, exact: Any) -> Any:
    def both(seed: int) -> Any:
        return swept(seed), exact(seed + 500_000)

    return lambda seed, times: of_distributions(*in_blocks(both, seed, times))


@pytest.mark.slow
def test_sweeps_keep_the_joint_density_of_all_replicas():
    """Chains that start at it are there after sweeps: Kolmogorov-Smirnov on 4 functions of θ in each of 3 replicas.

    It holds neither with a wrong formula for the exchange nor with parameters that are not tempered.
    """
    exact = joint_draws(after=False)
    assert_standard_normal(deviations_of_joint(joint_draws(after=True), exact))
    for name, (place, wrong) in MUTANTS.items():
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tempered_gibbs, place, wrong)
            assert np.max(deviations_of_joint(joint_draws(after=True), exact)(0, 1)) > 6, name


# ---------------------------------------------------------------------------------------------------------------------
# Modes far apart

# Three rows near each corner of a rectangle that is almost a square: two groups are left and right, or above and below. On
# the way from one to the other stand three corners in one group, 18 nats below either.
CORNERS = np.array(list(product([-3.0, 3.0], [-2.97, 2.97])))
X = (CORNERS[:, None] + np.array([[-0.2, 0.0], [0.0, 0.2], [0.2, -0.2]])).reshape(-1, 2)
OPTIONS = {"num_warmup": 500, "num_chains": 4}
TEMPERED = OPTIONS | {"num_temperatures": 6, "hottest": 0.05}


def rectangle() -> Any:
    return build(X, "unit", prior={"component": {"location": [0.0, 0.0], "strength": 0.1}})


def sideways(tree: Any) -> np.ndarray:
    """(chain, draw): whether the groups are left and right."""
    gap = np.abs(np.diff(tree["posterior"]["mean"].values, axis=2)[:, :, 0])
    return (gap[..., 0] > gap[..., 1]) * 1.0


@cache
def exact_posterior(times: int) -> Any:
    return fit(rectangle(), table(X), "exact", num_samples=5120 * times)


@pytest.mark.slow
def test_both_modes_are_visited_where_gibbs_stays():
    """Draws against exact ones: how often the groups are left and right, and means of all functionals and their squares."""
    plain = sideways(fit(rectangle(), table(X), "gibbs", num_samples=1280, **OPTIONS))
    assert np.ptp(plain, axis=1).max() == 0

    def deviations(seed: int, times: int) -> np.ndarray:
        tree = fit(rectangle(), table(X), "tempered_gibbs", num_samples=2560 * times, seed=seed, **TEMPERED)
        found, wanted = sideways(tree), sideways(exact_posterior(times)).ravel()
        assert 0.5 < wanted.mean() < 0.95
        assert np.ptp(found, axis=1).min() == 1
        assert "temperature" not in tree.attrs["warnings"]
        assert (tree["sample_stats"]["round_trips"].values[:, -1] > 20).all()
        scores = [of_batch_means(found.reshape(-1, 1), wanted.mean(), wanted.std() / np.sqrt(len(wanted)))]
        for name in tree["functionals"].data_vars:
            pair = (draws_of(one, "functionals", str(name)) for one in (tree, exact_posterior(times)))
            scores.append(distances_of_moments(*pair))
        return np.concatenate([np.ravel(score) for score in scores])

    assert_standard_normal(deviations)


# ---------------------------------------------------------------------------------------------------------------------
# Runs

SHORT = {"num_warmup": 60, "num_samples": 64, "num_chains": 2, "num_temperatures": 3, "hottest": 0.2}


def short(**more: Any) -> Any:
    return fit(rectangle(), table(X), "tempered_gibbs", seed=3, **SHORT, **more)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["warm-up", "sampling"])
def test_a_resumed_run_equals_an_unbroken_one(phase, tmp_path):
    """Draws, round trips and the temperatures that were tuned."""
    interrupting = Interrupting(phase)
    if phase == "warm-up":
        with pytest.raises(KeyboardInterrupt, match="before the first draw"):
            short(folder=tmp_path, progress=interrupting)
    else:
        kept = short(folder=tmp_path, progress=interrupting)
        assert 0 < kept["posterior"].sizes["draw"] < SHORT["num_samples"]
    tree, whole = short(folder=tmp_path), short()
    assert equal(tree["posterior_raw"]["mean"].values, whole["posterior_raw"]["mean"].values)
    for name in ("round_trips", "exchange_probability"):
        assert equal(tree["sample_stats"][name].values, whole["sample_stats"][name].values)
    assert tree.attrs["inverse_temperatures"] == whole.attrs["inverse_temperatures"]
    assert tree.attrs["exchange_rates"] == whole.attrs["exchange_rates"]
