"""Mixtures: one categorical latent a row and an emission block a component; what `gmm` and the classifiers are made of.

    probs ~ Dirichlet(concentration), or uniform 1 / K                                           (K,)
    θ     ~ the emission's conjugate prior
    z_n   ~ Categorical(probs),    x_n | z_n ~ emission(θ_{z_n})                                 (N,)

A row may allow some values of z_n only: one is an observed label, several are a set of candidates, all are a missing label.
The density is then that of what was seen, p(x_n, z_n ∈ A_n | θ) = Σ_{k ∈ A_n} probs_k p(x_n | θ_k), in program and algebra
alike: a classifier is a mixture whose latents are observed, and a partly labelled one lies between the two.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.base import (
    Algebra,
    Data,
    Discriminant,
    Expected,
    Hyper,
    Linear,
    Model,
    Permutation,
    Sites,
    Stats,
    Table,
)
from models.columns import Layout
from models.data import has_missing_cell
from models.distributions import observed_part
from models.emissions import Emission
from models.families import dirichlet, log_mean
from models.hyperparameters import check_hyper, given_numbers
from models.latents import Completed, component_of, hidden_cells, on_component, restrict
from models.latents import cells as cells_given_component
from models.missing import partly_observed
from models.mixture_cells import completed, expected, explained, observed
from models.rows import Rows, witnesses


class Features(NamedTuple):
    """u(x) of the emission, and the values allowed."""

    observed: Any
    allowed: Array | None


class Shape(NamedTuple):
    """What tells one mixture from another: names of its two blocks, its size, whether its labels are exchangeable.

    ``probs=None`` stands for uniform weights; ``block`` is also the name of the dimension of the components.
    """

    probs: str | None
    block: str
    proper: bool
    size: int
    exchangeable: bool


class Structure(NamedTuple):
    """The static half of a mixture: one object for equal arguments, so that jitted code recognises it."""

    algebra: Algebra
    program: Callable[..., Any]
    functionals: Callable[..., dict[str, Array]]
    discriminant: Discriminant
    completed: Callable[..., Array]
    expected: Callable[..., tuple[Expected, ...]]


@cache
def structure(emission: Emission, shape: Shape) -> Structure:
    """A mixture of ``emission`` blocks of a given ``shape``."""
    learned = ((shape.probs, dirichlet),) if shape.probs else ()
    algebra = Algebra(
        families=(*learned, (shape.block, emission.family)),
        latent=emission.latent,
        proper=shape.proper,
        features=lambda hyper, rows: Features(emission.features(hyper, rows.x), rows.allowed),
        local=partial(local, emission, shape),
        statistics=partial(statistics, emission, shape),
        sites=partial(sites, emission, shape),
        natural=partial(natural, emission, shape),
        coordinates=lambda hyper, rows: emission.coordinates(hyper, rows.x),
        num_groups=shape.size,
        predictive=partial(predictive, emission, shape) if emission.predictive is not None else None,
    )
    return Structure(
        algebra,
        partial(program, emission, shape),
        partial(functionals, shape),
        discriminant(emission, shape),
        partial(completed, emission, algebra),
        partial(expected, emission, algebra),
    )


def model(
    name: str,
    data: Data,
    emission: Emission,
    shape: Shape,
    labels: Sequence[Any],
    prior: Any,
    rows: Callable[[Any], Rows],
    options: Mapping[str, Any],
    warnings: tuple[str, ...] = (),
    layout: Layout | None = None,
) -> Model:
    """A mixture on checked data, its components named by ``labels``; raises `ZooError` for a prior outside its support.

    ``layout`` is for columns of several kinds; without one all are of the emission's.
    """
    if emission.latent is cells_given_component and has_missing_cell(data):
        emission = emission._replace(latent=hidden_cells)
    static = structure(emission, shape)
    columns = data.columns
    cells = layout or Layout(columns, (emission.kind,) * len(columns), emission.levels or ((),) * len(columns))
    hyper = hyperparameters(data, emission, shape, prior)
    named = {site: tuple(shape.block if dim == "component" else dim for dim in dims) for site, dims in emission.dims}
    weights = {shape.probs: (shape.block,)} if shape.probs else {}
    return Model(
        name=name,
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=pseudo_statistics(hyper, static.algebra, emission, shape, data, rows),
        rows=rows,
        functionals=static.functionals,
        witnesses=witnesses,
        symmetry=Permutation(shape.block) if shape.exchangeable and shape.size > 1 else None,
        simulate=partial(simulate, emission, shape),
        dims=named
        | weights
        | {
            "sorted_probs": ("rank",),
            "co_clustering": ("pair",),
            "concentration": (shape.block,),
            "responsibilities": ("row", shape.block),
        },
        coords={
            shape.block: list(labels),
            "rank": list(range(1, shape.size + 1)),
            "pair": pairs(data.num_rows),
        }
        | emission.coords(data),
        options=options,
        explains=explained(emission.explains, cells, None if shape.exchangeable else shape.block),
        discriminant=static.discriminant,
        warnings=warnings,
        table=Table(cells, partial(observed, emission), static.completed, static.expected) if emission.missing else None,
        layout=layout,
        profile=emission.profile,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(emission: Emission, shape: Shape, hyper: Hyper, rows: Rows, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with z summed out when ``marginal``."""
    probs = _sample_probs(shape, hyper)
    x = emission.observation(rows.x)
    components = emission.program(hyper, x, shape.size, shape.proper)
    if partly_observed(rows.x):
        components = observed_part(components)
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", x.shape[0]), numpyro.handlers.scale(scale=scale):
        if not marginal:
            component = numpyro.sample("component", dist.Categorical(probs), infer={"enumerate": "parallel"})
            logits = jnp.log(jax.nn.one_hot(component, shape.size))  # all mass on component z_n
            if rows.allowed is not None:
                seen = jnp.take_along_axis(rows.allowed, component[..., None], axis=-1)[..., 0]
                numpyro.factor("label", jnp.where(seen, 0.0, -jnp.inf))
        else:
            logits = jnp.log(probs)
            if rows.allowed is not None:
                logits = restrict(logits[None, :], rows.allowed)
                numpyro.factor("label", jax.nn.logsumexp(logits, axis=-1))  # log p(z_n ∈ A_n)
        mixing = dist.Categorical(logits=logits, validate_args=False)  # −∞ where z_n is not allowed
        numpyro.sample("x", dist.MixtureSameFamily(mixing, components), obs=x)


def _sample_probs(shape: Shape, hyper: Hyper) -> Array:
    if shape.probs is None:
        return jnp.full(shape.size, 1 / shape.size)
    flat = dist.ImproperUniform(dist.constraints.simplex, (), (shape.size,))
    return numpyro.sample(shape.probs, dist.Dirichlet(hyper["concentration"]) if shape.proper else flat)


# ---------------------------------------------------------------------------------------------------------------------
# Prior


def hyperparameters(data: Data, emission: Emission, shape: Shape, prior: Any) -> dict[str, np.ndarray]:
    """The prior in textbook terms, as numbers: the emission's defaults with the user's over them; raises `ZooError`.

    For a flat prior, which is ``shape.proper = False``, only the constants that the statistics need.
    """
    constants = emission.constants(data)
    if not shape.proper:
        return constants
    blocks = {shape.block: {name: name for name in emission.parameters}}
    blocks |= {shape.probs: {"concentration": "concentration"}} if shape.probs else {}
    hyper = {"concentration": 2.0} | emission.defaults(data, shape.size) | given_numbers(prior, blocks)
    columns = len(data.columns)
    shapes = emission.shapes(columns) | ({"concentration": (shape.size,)} if shape.probs else {})
    return check_hyper(hyper, shapes, emission.bounds(columns)) | constants


def pseudo_statistics(
    hyper: Hyper, algebra: Algebra, emission: Emission, shape: Shape, data: Data, rows: Callable[[Any], Rows]
) -> dict[str, Stats]:
    """The prior as pseudo-statistics: Dirichlet nu = concentration − 1, and the emission's block; flat: nu = 0."""
    if shape.proper:
        learned = {shape.probs: hyper["concentration"] - 1} if shape.probs else {}
        return learned | {shape.block: emission.prior(hyper, shape.size)}
    with jax.enable_x64(True):
        x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), rows(data).x)
        z = jax.ShapeDtypeStruct((1, shape.size), np.float64)
        shapes = jax.eval_shape(lambda x, z: algebra.statistics(z[:, 0], z, algebra.features(hyper, Rows(x))), x, z)
    return dict(jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes))


# ---------------------------------------------------------------------------------------------------------------------
# Algebra: one E-step and one M-step, for every method


def local(emission: Emission, shape: Shape, T: Stats) -> Callable[[Features], Any]:
    """E-step: log probs_k + log p(x_n | θ_k), (N, K), −∞ where not allowed; their softmax are the responsibilities r_nk."""
    log_density = emission.log_density(T[shape.block])
    log_probs = T[shape.probs] if shape.probs else jnp.full(shape.size, -np.log(shape.size))

    def natural_parameters(features: Features) -> Any:
        def weighted(density: Array) -> Array:
            return restrict(density + log_probs[None, :].astype(density.dtype), features.allowed)

        return on_component(weighted, log_density(features.observed))

    return natural_parameters


def predictive(emission: Emission, shape: Shape, nu: Stats) -> Callable[[Features], Array]:
    """Log p(x_n, z_n = k) with all parameters integrated out under q(θ) = nu: (N, K)."""
    assert emission.predictive is not None
    log_density = emission.predictive(nu[shape.block])
    log_probs = log_mean(nu[shape.probs]) if shape.probs else jnp.full(shape.size, -np.log(shape.size))
    return lambda features: log_density(features.observed) + log_probs[None, :]


def statistics(emission: Emission, shape: Shape, weight: Array, z: Any, features: Features) -> dict[str, Stats]:
    """Σ_n r_nk (1, u(x_n)), with u of the completed row where z brings its missing cells.

    With the families' ``mode`` this is the M-step: probs_k ∝ concentration_k − 1 + Σ_n r_nk, ...
    """
    weighted = weight[:, None] * component_of(z)
    seen = z if isinstance(z, Completed) else features.observed
    stats: dict[str, Stats] = {shape.block: emission.statistics(weighted, seen)}
    return stats | ({shape.probs: weighted.sum(0)} if shape.probs else {})


def sites(emission: Emission, shape: Shape, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T of a point -> the sites of the program."""
    probs = {shape.probs: jnp.exp(T[shape.probs])} if shape.probs else {}
    return probs | emission.sites(hyper, T[shape.block])


def natural(emission: Emission, shape: Shape, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """The sites of the program -> T."""
    probs = {shape.probs: jnp.log(jnp.asarray(sites[shape.probs]))} if shape.probs else {}
    return probs | {shape.block: emission.natural(hyper, sites)}


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, data, simulation


def functionals(shape: Shape, hyper: Hyper, sites: Sites, latents: Array) -> dict[str, Array]:
    """The weights; where labels are exchangeable sorted, and for neighbouring witnesses P(z_i = z_j) = Σ_k r_ik r_jk."""
    if not shape.exchangeable:
        return {shape.probs: sites[shape.probs]} if shape.probs else {}
    weights = {"sorted_probs": -jnp.sort(-sites[shape.probs])} if shape.probs else {}
    return weights | {"co_clustering": (latents[:-1] * latents[1:]).sum(-1)}


def discriminant(emission: Emission, shape: Shape) -> Discriminant:
    """Log p(x, z = k) in features of the row: the emission's, with log probs_k in the bias."""

    def linear(hyper: Hyper, sites: Sites) -> Linear:
        found = emission.discriminant.linear(hyper, sites)
        return found._replace(bias=found.bias + (jnp.log(sites[shape.probs]) if shape.probs else 0.0))

    return Discriminant(linear, lambda rows: emission.discriminant.features(rows.x), emission.discriminant.dims)


def pairs(num_rows: int) -> list[str]:
    """Names of the pairs of neighbouring witnesses."""
    return [f"rows {i + 1}, {j + 1}" for i, j in pairwise(witnesses(num_rows))]


def simulate(emission: Emission, shape: Shape, key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Rows drawn from the mixture at ``sites``, their labels forgotten."""
    key_component, key_x = jax.random.split(key)
    probs = sites[shape.probs] if shape.probs else jnp.full(shape.size, 1 / shape.size)
    component = jax.random.categorical(key_component, jnp.log(probs), shape=(num_rows,))
    return Rows(emission.draw(key_x, sites, component))
