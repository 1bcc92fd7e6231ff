"""The densities of NumPyro programs: site by site, and on unconstrained coordinates."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpyro import distributions as dist  # in this form: ArviZ leaves a lazy numpyro behind, which the other form half loads
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import potential_energy

from inference.programs.tracing import mixture_of, prior_trace
from inference.runtime.programs import memoised
from models.base import Hyper, Pytree, Sites, ZooError

Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes of sites on ℝᵈ, in the order of a vector of them all


def trace_point(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, sites: Sites) -> dict[str, Any]:
    """Log prior, and per row log-likelihood, E[z] and entropy where the program marginalises a mixture, at given sites.

    ``by_site`` has the log-likelihoods of every observed site in the shape of the site. The latents are read off the observed
    `MixtureSameFamily` or `MixtureGeneral`; without one they are None.
    """
    seeded = handlers.seed(handlers.substitute(spec, dict(sites)), jax.random.PRNGKey(0))
    trace = handlers.trace(seeded).get_trace(hyper, rows, marginal=True)
    log_prior, log_likelihood, logits, by_site = jnp.zeros(()), None, None, {}
    for name, site in trace.items():
        if site["type"] != "sample":
            continue
        log_prob = site["fn"].log_prob(site["value"])
        log_prob = _scaled(site, log_prob)
        if not site["is_observed"] or isinstance(site["fn"], dist.Unit):  # a factor is no row of data
            log_prior = log_prior + log_prob.sum()
            continue
        by_site[name] = log_prob
        flat = log_prob.reshape(log_prob.shape[0], -1).sum(1) if log_prob.ndim else log_prob[None]
        if log_likelihood is None:
            log_likelihood = flat
        elif log_likelihood.shape == flat.shape:
            log_likelihood = log_likelihood + flat
        else:
            log_likelihood = jnp.append(log_likelihood, flat)
        mixture = mixture_of(site["fn"])
        if mixture is not None and log_prob.ndim == 1:
            logits = mixture.component_log_probs(site["value"])
    if log_likelihood is None:
        raise ZooError("the program observes nothing: give one of its sample statements obs=")
    latents = None if logits is None else jax.nn.softmax(logits, axis=-1)
    entropy = None if latents is None else jax.scipy.special.entr(latents).sum(-1)
    point = {"log_prior": log_prior, "log_likelihood": log_likelihood, "latents": latents, "entropy": entropy}
    return point | {"by_site": by_site}


@partial(jax.jit, static_argnames=("spec",))
def site_log_densities(
    spec: Callable[..., Any], transforms: Mapping[str, Any], hyper: Hyper, rows: Pytree, z: Sites
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Log density of every sample statement at a point on ℝᵈ, Jacobians left out, and whether its gradient is finite."""

    def densities(z: Sites) -> dict[str, Array]:
        seeded = handlers.seed(handlers.substitute(spec, constrain(transforms, z)), jax.random.PRNGKey(0))
        trace = handlers.trace(seeded).get_trace(hyper, rows, marginal=True)
        sampled = {name: site for name, site in trace.items() if site["type"] == "sample"}
        return {name: _scaled(site, site["fn"].log_prob(site["value"])).sum() for name, site in sampled.items()}

    def is_smooth_at(name: str) -> Array:  # one by one: 0 times a gradient that is NaN is NaN, too
        slope = jax.grad(lambda z: densities(z)[name])(z)
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in slope.values()]).all()

    values = densities(z)
    return values, {name: is_smooth_at(name) for name in values}


def fault_of_density(
    spec: Callable[..., Any], transforms: Mapping[str, Any], hyper: Hyper, rows: Pytree, z: Sites
) -> str | None:
    """The first sample statement whose log density at a point on ℝᵈ, or its gradient, is not finite, in words, or None."""
    densities, slopes = site_log_densities(spec, transforms, hyper, rows, z)
    order = prior_trace(spec, hyper, rows)
    for name in filter(densities.__contains__, order):
        if not np.isfinite(densities[name]):
            return f"site {name!r} has the log density {float(densities[name])}"
    return next(
        (f"the log density of site {name!r} has a gradient that is not finite" for name in order if not slopes.get(name, True)),
        None,
    )


def innermost(support: Any) -> Any:
    """The support of one of independent entries: of one number, one vector or one matrix."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support


def _scaled(site: Mapping[str, Any], log_prob: Array) -> Array:
    return log_prob if site["scale"] is None else site["scale"] * log_prob


class Site(NamedTuple):
    """An unobserved sample statement of a program."""

    support: Any
    shape: tuple[int, ...]
    discrete: bool


def latent_sites(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> dict[str, Site]:
    """Name -> site of every unobserved sample statement.

    The program is run on shapes only, once for equal shapes; on values where the support of a site depends on them.
    """
    leaves, structure = jax.tree.flatten((dict(hyper), rows))
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    sites = memoised("sites", spec, (str(structure), shapes), lambda: _sites_of_shapes(spec, structure, shapes))
    return _sites(prior_trace(spec, hyper, rows)) if sites is None else sites


@cache
def _sites_of_shapes(spec: Callable[..., Any], structure: Any, shapes: tuple[Any, ...]) -> dict[str, Site] | None:
    """The sites, or None where a support depends on values."""
    sites: dict[str, Site] = {}

    def visit(hyper: Hyper, rows: Pytree) -> None:
        sites.update(_sites(prior_trace(spec, hyper, rows)))

    jax.eval_shape(visit, *jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*leaf) for leaf in shapes]))
    supports = [leaf for site in sites.values() for leaf in jax.tree.leaves(site.support)]
    return None if any(isinstance(leaf, jax.core.Tracer) for leaf in supports) else sites


def _sites(trace: Mapping[str, Any]) -> dict[str, Site]:
    return {
        name: Site(site["fn"].support, jnp.shape(site["value"]), site["fn"].is_discrete)
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }


def transforms(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> dict[str, Any]:
    """Site -> transform from ℝᵈ to its support. A pytree: jitted code takes it as a traced argument."""
    return {name: biject_to(site.support) for name, site in latent_sites(spec, hyper, rows).items()}


def num_parameters(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> int:
    """The number of free parameters: a vector of K probabilities has K − 1."""
    sites = latent_sites(spec, hyper, rows).values()
    return sum(math.prod(biject_to(site.support).inverse_shape(site.shape)) for site in sites)


def constrain(transforms: Mapping[str, Any], z: Sites) -> dict[str, Array]:
    """ℝᵈ -> sites."""
    return {name: transform(z[name]) for name, transform in transforms.items()}


def unconstrain(transforms: Mapping[str, Any], sites: Sites) -> dict[str, Array]:
    """Sites -> ℝᵈ."""
    return {name: transform.inv(sites[name]) for name, transform in transforms.items()}


@jax.jit
def constrain_draws(transforms: Mapping[str, Any], z: Sites) -> dict[str, Array]:
    """ℝᵈ -> sites, over leading axes (chain, draw)."""
    return jax.vmap(jax.vmap(partial(constrain, transforms)))(z)


@jax.jit
def log_jacobians(transforms: Mapping[str, Any], z: Sites) -> Array:
    """(chain, draw): log |det ∂sites/∂z|, summed over the sites."""

    def at(z: Sites) -> Array:
        terms = [t.log_abs_det_jacobian(z[name], t(z[name])).sum() for name, t in transforms.items()]
        return sum(terms, jnp.zeros(()))

    return jax.vmap(jax.vmap(at))(dict(z))


@jax.jit
def constrain_starts(transforms: Mapping[str, Any], z: Sites) -> dict[str, Array]:
    """ℝᵈ -> sites, over a leading axis."""
    return jax.vmap(partial(constrain, transforms))(z)


@jax.jit
def unconstrain_chains(transforms: Mapping[str, Any], sites: Sites) -> dict[str, Array]:
    """Sites -> ℝᵈ, over a leading axis."""
    return jax.vmap(partial(unconstrain, transforms))(sites)


def unravel(shapes: Shapes, flat: ArrayLike) -> dict[str, Array]:
    """Vectors (…, d) as sites of these shapes, over the same leading axes.

    >>> {name: leaf.shape for name, leaf in unravel((("a", ()), ("b", (2, 1))), jnp.arange(3.0)).items()}
    {'a': (), 'b': (2, 1)}
    """
    ends = np.cumsum([int(np.prod(shape, dtype=int)) for _, shape in shapes])
    parts = jnp.split(jnp.asarray(flat), ends[:-1], axis=-1)
    return {name: part.reshape(*part.shape[:-1], *shape) for (name, shape), part in zip(shapes, parts, strict=True)}


def ravel_chains(z: Sites) -> tuple[Shapes, np.ndarray]:
    """(names and shapes of sites on ℝᵈ, the sites as vectors (chain, d)), over a leading axis."""
    flat = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in z.values()]
    return tuple((name, leaf.shape[1:]) for name, leaf in z.items()), np.concatenate(flat, axis=1)


@partial(jax.jit, static_argnames=("spec",))
def potential(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, z: Sites) -> Array:
    """−log p(x, z) on ℝᵈ, with the Jacobian of the transforms: the potential of NUTS and Laplace.

    Jitted, so that the program is traced once for any number of calls by a sampler.
    """
    return potential_energy(spec, (hyper, rows), {}, z)


@partial(jax.jit, static_argnames=("spec",))
def prior_and_rest(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, z: Sites) -> tuple[Array, Array]:
    """(the log density of draws from the prior, the rest of log p(x, z)) on ℝᵈ.

    The rest has the observed sites and the factors, and what a scale adds to the density of a parameter: no draw follows these.
    Both add up to minus `potential`, but for parameters that are scaled and transformed, of which NumPyro scales the Jacobian.
    """
    supports = transforms(spec, hyper, rows)
    sites = constrain(supports, z)
    trace = handlers.trace(handlers.seed(handlers.substitute(spec, sites), jax.random.PRNGKey(0))).get_trace(hyper, rows)
    prior = sum((t.log_abs_det_jacobian(z[name], sites[name]).sum() for name, t in supports.items()), jnp.zeros(()))
    rest = jnp.zeros(())
    for site in trace.values():
        if site["type"] == "sample":
            log_prob = site["fn"].log_prob(site["value"])
            own = 0.0 if site["is_observed"] else log_prob.sum()
            prior, rest = prior + own, rest + _scaled(site, log_prob).sum() - own
    return prior, rest


def draw_of_prior(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, key: Array) -> dict[str, Array]:
    """A draw of the sites from the prior of the program, on ℝᵈ."""
    trace = handlers.trace(handlers.seed(spec, key)).get_trace(hyper, rows)
    supports = transforms(spec, hyper, rows)
    return unconstrain(supports, {name: trace[name]["value"] for name in supports})


def is_smooth(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, z: Sites) -> bool:
    """Whether the potential at a point on ℝᵈ and its gradient are finite."""
    leaves = jax.tree.leaves(_potential_and_slopes(spec, hyper, rows, dict(z)))
    return all(bool(np.isfinite(leaf).all()) for leaf in leaves)


@partial(jax.jit, static_argnames=("spec",))
def _potential_and_slopes(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, z: dict[str, Array]) -> Any:
    return jax.value_and_grad(partial(potential, spec, hyper, rows))(z)
