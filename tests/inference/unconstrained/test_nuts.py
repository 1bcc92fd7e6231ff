"""NUTS where a potential is too large for its numbers: such points are divergences, and no chain stays at one."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from inference.engine.program import potential
from inference.unconstrained.density import DENSE, FLAT, SETTLED, bounded, curvature_metric
from inference.unconstrained.numpyro_nuts import Kernel, initial, kernels, step

SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in ((3, SETTLED - 1), (65, SETTLED))]

# With r = s (1, 1, 1) the kinetic energy is ½ s² (1.5 + 1.5 − 2), whose last term alone is beyond all numbers at s² = 1.1e308.
PULL = np.array([-2.0, 1.5, 1.5])
INVERSE_MASS = np.outer(PULL, PULL) / PULL.sum() + np.eye(3) - np.ones((3, 3)) / 3
STEP = 0.5
SLOPE = 2 / STEP * np.sqrt(1.1e308)


def walled(hyper, rows, *, marginal=True):
    """Standard normal with a wall at z₁ = ½, so steep that a step behind it takes up a momentum of s (1, 1, 1)."""
    z = numpyro.sample("z", dist.Normal(jnp.zeros(3), 1.0).to_event(1))
    numpyro.factor("wall", jnp.where(z[0] > 0.5, -SLOPE * (z.sum() + 100), 0.0))


def test_no_chain_stays_behind_a_wall_whose_kinetic_energy_overflows():
    """In 200 iterations every chain runs into the wall, which is a divergence each time; none is ever behind it."""
    kernel = Kernel(walled, 0, 0.8, 5)
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    state = initial(kernel, ({}, ()), keys, {"z": jnp.zeros((4, 3))})
    mass = jax.tree.map(lambda leaf: jnp.broadcast_to(INVERSE_MASS, leaf.shape), state.adapt_state.inverse_mass_matrix)
    adapted = state.adapt_state._replace(step_size=jnp.full(4, STEP), inverse_mass_matrix=mass)

    def step(state, _):
        state = jax.vmap(lambda state: kernels(kernel)[1](state, ({}, ())))(state)
        return state, (state.z["z"], state.diverging)

    _, (z, diverging) = jax.lax.scan(step, state._replace(adapt_state=adapted), None, length=200)
    assert (np.asarray(z)[..., 0] <= 0.5).all()
    assert np.asarray(diverging).any(0).all()


@pytest.mark.parametrize("dense", [True, False])
def test_a_step_needs_no_start_in_its_process(dense):
    """Where a kept program starts the chains, NumPyro's init does not run: the program of a step is the same, to the letter."""
    kernel, keys = Kernel(walled, 7, 0.8, 5, dense), jax.random.split(jax.random.PRNGKey(0), 1)
    programs = []
    for _ in range(2):
        if not programs:
            states = initial.eval_shape(kernel, ({}, ()), keys, {"z": jnp.zeros((1, 3))})
            state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), states)
        programs.append(re.sub("0x[0-9a-f]+", "", str(jax.make_jaxpr(partial(step, kernel))(({}, ()), keys[0], state))))
        kernels.cache_clear()  # as in another process
    assert programs[0] == programs[1]


def well(z):
    return (z["a"] ** 2).sum() + jnp.sin(z["b"])


def bad_value(bad, z):
    return well(z) + jax.lax.cond(z["b"] > 1, lambda b: bad * b, jnp.zeros_like, z["b"])


def bad_slope(bad, z):
    """No larger than the well, with any slope."""
    return well(z) + jax.lax.cond(z["b"] > 1, lambda b: bad * (b - jax.lax.stop_gradient(b)), jnp.zeros_like, z["b"])


@partial(jax.jit, static_argnums=0)
def bounded_pair(function, bad, z):
    return jax.value_and_grad(bounded(partial(function, bad)))(z)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e150, -1e150])
def test_a_potential_that_is_no_number_counts_as_infinite(bad):
    """Also where only its gradient is: +∞ with a gradient of zeros, and the plain values beside it."""
    inside, outside = ({"a": np.array([1.0, -2.0]), "b": np.asarray(b)} for b in (0.5, 1.5))
    expected = jax.jit(jax.value_and_grad(well))(inside)
    for function in (bad_value, bad_slope):
        found = bounded_pair(function, bad, inside)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        energy, gradient = bounded_pair(function, bad, outside)
        assert energy == np.inf
        assert not any(np.any(leaf) for leaf in gradient.values())


def test_the_bound_leaves_a_programs_own_potential_as_it_is():
    """Value and gradient at random points, bit by bit, also under vmap."""

    def program(hyper, rows, *, marginal=True):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("x", dist.Normal(0.0, scale).expand((3,)).to_event(1), obs=rows)

    def bare(z):
        return potential(program, {}, jnp.arange(3.0), z)

    z = {"scale": jax.random.normal(jax.random.PRNGKey(1), (20,))}
    found, expected = (jax.jit(jax.vmap(jax.value_and_grad(function)))(z) for function in (bounded(bare), bare))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1]["scale"], expected[1]["scale"])


def metric_of(energy, z):
    return np.asarray(jax.jit(lambda z: curvature_metric(energy, z))(z))


def test_the_first_metric_of_a_gaussian_is_its_covariance():
    """Also where curvatures differ by a factor of 1,000, and at a point far from the mode: those of a Gaussian are constant.

    Differences of a linear gradient are exact but for rounding, of which a step of the cube root of ε leaves ε^(2/3) = 4e-11
    relative to the largest entries, times the ratio of curvatures.
    """
    covariance = np.array([[1.0, 0.02, 0.1], [0.02, 1e-3, 0.0], [0.1, 0.0, 0.5]])
    precision = np.linalg.inv(covariance)

    def energy(z):
        point = jnp.array([*z["b"], z["a"]])
        return 0.5 * point @ precision @ point

    expected = np.roll(np.roll(covariance, 1, 0), 1, 1)  # sites in the order of their names
    found = metric_of(energy, {"a": np.array(7.0), "b": np.array([-3.0, 40.0])})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_first_metric_takes_the_size_of_curvature_and_bounds_flat_directions():
    """A saddle counts by the size of its curvature, a flat direction as `FLAT` beside the steepest."""
    found = metric_of(lambda z: z["a"][0] ** 2 - 0.5 * z["a"][1] ** 2, {"a": np.zeros(3)})
    np.testing.assert_allclose(found, np.diag([0.5, 1.0, 0.5 / FLAT]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_the_first_metric_is_the_identity_where_there_is_no_curvature(bad):
    """Where gradients are not finite, and where all are zero."""
    np.testing.assert_array_equal(metric_of(lambda z: bad * (z["a"] ** 2).sum(), {"a": np.zeros(2)}), np.eye(2))
    np.testing.assert_array_equal(metric_of(lambda z: 0 * z["a"].sum(), {"a": np.zeros(2)}), np.eye(2))


@pytest.mark.parametrize(("size", "num_warmup"), [(3, SETTLED), *SLOW])
def test_chains_begin_with_their_metric(size, num_warmup):
    """Each its own, at its start, over both sites; beyond `DENSE` dimensions, and in short warm-ups, with ones."""

    def program(hyper, rows, *, marginal=True):
        b = numpyro.sample("b", dist.Normal(jnp.zeros(size - 1), 1.0).to_event(1))
        numpyro.sample("a", dist.Normal(0.0, jnp.exp(b[0])))

    z = {"a": jnp.array([0.5, -1.0]), "b": jnp.stack([jnp.full(size - 1, value) for value in (0.3, -0.7)])}
    state = initial(Kernel(program, num_warmup, 0.8, 5, size <= DENSE), ({}, ()), jax.random.split(jax.random.PRNGKey(0), 2), z)
    found = state.adapt_state.inverse_mass_matrix
    if size > DENSE or num_warmup < SETTLED:
        np.testing.assert_array_equal(found, np.ones((2, size)) if size > DENSE else np.stack(2 * [np.eye(size)]))
        return
    expected = jax.jit(jax.vmap(lambda z: curvature_metric(lambda z: potential(program, {}, (), z), z)))(z)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not np.allclose(found[0], found[1], rtol=0.1)
