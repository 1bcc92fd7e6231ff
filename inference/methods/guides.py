"""Gaussian guides of `inference.methods.advi`: NumPyro's autoguides, SVI and Adam, on one vector of unconstrained parameters.

A guide approximates the density of u (d,), where z = shift + scale ⊙ u are the parameters on ℝᵈ. A first fit chooses shift and
scale, so that neither the step length of Adam nor the place where a guide begins depends on the units of the data.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpyro import distributions as dist
from numpyro import factor, handlers, infer, optim, sample
from numpyro.infer.util import log_density

from inference.engine.program import potential, unravel
from inference.engine.sweep import block_map
from inference.runtime.programs import cached_jit
from models.base import Pytree

GUIDES = ("full_rank", "low_rank", "mean_field")
RATE, DECAY, NUM_RATES = 0.1, 0.3, 4  # of Adam, in units of the first fit's standard deviations
LONGEST = 10**8  # steps of Adam's clock for each rate
PARTICLES = 8  # draws of q behind every gradient
PROBES = 256  # products with the Hessian
DRAWS_AT_ONCE = 64  # draws whose densities are computed at a time


class Guide(NamedTuple):
    """A family of Gaussians: one of `GUIDES` on ℝᵈ, with d = ``size``."""

    name: str
    size: int
    rank: int  # of low_rank; 0 for the others
    dtype: str


class Program(NamedTuple):
    """The static half of a run: a program, the unconstrained shapes of its sites by name, and the guide."""

    spec: Callable[..., Any]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    guide: Guide


class Fitter(NamedTuple):
    """NumPyro's SVI of a guide, and the tree structure of its state."""

    svi: infer.SVI
    auto: Any  # the autoguide
    structure: Any


class PathwiseELBO(infer.Trace_ELBO):  # type: ignore[misc]  # NumPyro has no types
    """`Trace_ELBO` whose gradient goes through the draws alone (Roeder, Wu and Duvenaud 2017).

    The parameters inside log q have a gradient of mean 0, which is left out. The gradient of an exact q is then 0 in every
    draw, so that no noise moves it.
    """

    def loss(self, rng_key: Array, param_map: Any, model: Any, guide: Any, *args: Any, **kwargs: Any) -> Array:
        """−ELBO, from ``num_particles`` draws."""

        def one(key: Array) -> Array:
            seeded = handlers.seed(handlers.substitute(guide, param_map), key)
            trace = handlers.trace(seeded).get_trace(*args, **kwargs)
            drawn = {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}
            log_q = log_density(guide, args, kwargs, lax.stop_gradient(param_map) | drawn)[0]
            return log_q - log_density(model, args, kwargs, drawn)[0]

        return jax.vmap(one)(jax.random.split(rng_key, self.num_particles)).mean()


def target(size: int, energy: Callable[[Array], Array] | None = None) -> None:
    """A program with one site, z (d,), of log density −``energy``(z); without ``energy``, it only has the site."""
    z = sample("z", dist.ImproperUniform(dist.constraints.real_vector, (), (size,)))
    if energy is not None:
        with handlers.block():  # the energy may run another program, whose sites are not of this one
            value = energy(z)
        factor("log_density", -value)


def rate(guide: Guide, count: Array) -> Array:
    """Adam's step length at a count of its clock, which is put forward where the rate is to fall.

    A parameter of q moves by about this much in a step. One number of z depends on up to d entries of a covariance, which
    together may move it no further.
    """
    entries = {"full_rank": guide.size, "low_rank": guide.rank, "mean_field": 0}[guide.name]
    return RATE / np.sqrt(1 + entries) * DECAY ** (count // LONGEST)


@cache
def fitter(guide: Guide) -> Fitter:
    """SVI with a guide; one object for equal guides.

    NumPyro's guide learns the site on shapes only, because on numbers its initialisation compiles hundreds of single
    operations. Its values are never read: `initial_states` gives every parameter.
    """
    options = {"init_loc_fn": infer.init_to_value(values={"z": np.zeros(guide.size, guide.dtype)})}
    auto = {
        "full_rank": lambda: infer.autoguide.AutoMultivariateNormal(target, **options),
        "low_rank": lambda: infer.autoguide.AutoLowRankMultivariateNormal(target, rank=guide.rank, **options),
        "mean_field": lambda: infer.autoguide.AutoNormal(target, **options),
    }[guide.name]()
    svi = infer.SVI(target, auto, optim.Adam(partial(rate, guide)), PathwiseELBO(PARTICLES))
    shapes = jax.eval_shape(lambda key: svi.init(key, guide.size), jax.random.PRNGKey(0))
    return Fitter(svi, auto, jax.tree.structure(shapes))


@cached_jit(static_argnames=("guide",))
def initial_states(guide: Guide, keys: Array) -> tuple[list[Array], dict[str, Array]]:
    """(leaves of SVI's state, parameters on ℝ), at about a standard normal, for every key.

    The factor of a low rank starts small and random: at 0 its gradient is 0 on average.
    """
    svi, _, structure = fitter(guide)
    zero, one = jnp.zeros(guide.size, guide.dtype), jnp.ones(guide.size, guide.dtype)

    def start(key: Array) -> tuple[list[Array], dict[str, Array]]:
        params = {
            "full_rank": {"auto_loc": zero, "auto_scale_tril": jnp.diag(one)},
            "low_rank": {
                "auto_loc": zero,
                "auto_cov_factor": 0.1 * jax.random.normal(key, (guide.size, guide.rank), guide.dtype),
                "auto_scale": one,
            },
            "mean_field": {"z_auto_loc": zero, "z_auto_scale": one},
        }[guide.name]
        leaves = jax.tree.leaves(svi.init(key, guide.size, init_params=params))
        return leaves, svi.optim.get_params(jax.tree.unflatten(structure, leaves).optim_state)

    return jax.vmap(start)(keys)


@cached_jit(static_argnames=("guide",))
def constrained(guide: Guide, params: dict[str, Array]) -> dict[str, Array]:
    """Parameters of a guide from ℝ to their supports, as scales above 0, over a leading axis."""
    return jax.vmap(fitter(guide).svi.constrain_fn)(params)


def density_of(guide: Guide, params: Any) -> Any:
    """Q(u) as a NumPyro distribution, from the parameters of its guide."""
    if guide.name == "mean_field":  # NumPyro names these parameters by site, and has no `get_posterior` for them
        return dist.Normal(params["z_auto_loc"], params["z_auto_scale"]).to_event(1)
    return fitter(guide).auto.get_posterior(params)


def energy_at(program: tuple[Any, ...], arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
    """−log p(x, z) at a vector (d,) on ℝᵈ; ``program`` begins with the spec and the shapes."""
    spec, shapes = program[:2]
    return potential(spec, *arrays, unravel(shapes, flat))


@partial(jax.jit, static_argnames=("static",))
def hessian_diagonal(static: tuple[Any, ...], arrays: tuple[Pytree, Pytree], key: Array, flat: Array) -> Array:
    """The diagonal of the Hessian (d,) of −log p(x, z) at a vector; of many parameters, an estimate.

    The estimate is the mean of v ⊙ Hv over random signs v (Hutchinson 1990).
    """
    size = len(flat)
    gradient = jax.grad(lambda flat: energy_at(static, arrays, flat))
    signs = jax.random.rademacher(key, (PROBES, size), flat.dtype)
    vectors = jnp.eye(size, dtype=flat.dtype) if size <= PROBES else signs
    products = block_map(jax.vmap(lambda v: v * jax.jvp(gradient, (flat,), (v,))[1]), vectors, DRAWS_AT_ONCE // 4)
    return products.sum(0) / (1 if size <= PROBES else PROBES)


@cached_jit(static_argnames=("program", "number"))
def drawn(program: Program, number: int, key: Array, params: Any, shift: Array, scale: Array) -> Array:
    """Draws (number, d) of z from a guide."""
    return shift + scale * density_of(program.guide, params).sample(key, (number,))


@cached_jit(static_argnames=("program",))
def log_ratios(program: Program, arrays: tuple[Pytree, Pytree], params: Any, shift: Array, scale: Array, flat: Array) -> Array:
    """Log p(x, z) − log q(z), (S,), at points (S, d) on ℝᵈ."""
    log_q = density_of(program.guide, params).log_prob((flat - shift) / scale) - jnp.log(scale).sum()
    return -block_map(jax.vmap(lambda flat: energy_at(program, arrays, flat)), flat, DRAWS_AT_ONCE) - log_q
