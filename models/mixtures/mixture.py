"""Mixtures: one categorical latent a row and an emission block a component; what `gmm` and the classifiers are made of.

    probs ~ the weights' prior, as Dirichlet(concentration), or uniform 1 / K                    (K,)
    θ     ~ the emission's conjugate prior
    z_n   ~ Categorical(probs),    x_n | z_n ~ emission(θ_{z_n})                                 (N,)

A row may allow some values of z_n only: one is an observed label, several are a set of candidates, all are a missing label.
The density is then that of what was seen, p(x_n, z_n ∈ A_n | θ) = Σ_{k ∈ A_n} probs_k p(x_n | θ_k), in program and algebra
alike: a classifier is a mixture whose latents are observed, and a partly labelled one lies between the two.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.abilities import Abilities, Discriminant, Expected, Linear, Table
from models.base import Algebra, Data, Hyper, Initial, Model, Naming, Reading, Sites, Stats, Structure, Summaries, ZooError
from models.data.classes import empty_groups, unlabelled
from models.data.columns import Layout
from models.data.table import has_missing_cell, take
from models.distributions.observed import observed_part
from models.emissions.block import Emission, translation
from models.families.user_prior import check_hyper, given_numbers
from models.latents.categorical import restrict
from models.mixtures.cells import completed, expected, explained, observed
from models.mixtures.collapsed import with_collapsed
from models.mixtures.on_host import host_step
from models.mixtures.weights import Weights
from models.reading.load import as_data
from models.rows.encoded import Rows, pairs, probe_rows
from models.rows.masks import partly_observed
from models.rows.scales import scale_doubts
from models.symmetries import Permutation

NO_DENSITY = "a Gaussian has no finite density there"


class Features(NamedTuple):
    """u(x) of the emission, and the values allowed."""

    observed: Any
    allowed_states: Array | None


class Shape(NamedTuple):
    """What tells one mixture from another: weights, name of the emission's block, size, whether labels are exchangeable.

    ``block`` is also the name of the dimension of the components.
    """

    weights: Weights
    block: str
    proper: bool
    size: int
    exchangeable: bool


class Parts(NamedTuple):
    """The static half of a mixture: one object for equal arguments, so that jitted code recognises it."""

    algebra: Algebra
    program: Callable[..., Any]
    functionals: Callable[..., dict[str, Array]]
    discriminant: Discriminant | None
    completed: Callable[..., Array]
    expected: Callable[..., tuple[Expected, ...]]


@cache
def structure(emission: Emission, shape: Shape) -> Parts:
    """A mixture of ``emission`` blocks of a given ``shape``."""
    algebra = Algebra(
        families=(*shape.weights.families, (shape.block, emission.family)),
        latent=emission.hidden.latent,
        proper=shape.proper,
        features=lambda hyper, rows: Features(emission.likelihood.features(hyper, rows.x), rows.allowed_states),
        local_natural_parameters=partial(local, emission, shape),
        statistics=partial(statistics, emission, shape),
        sites=partial(sites, emission, shape),
        natural=partial(natural, emission, shape),
        initial=Initial(lambda hyper, rows: emission.coordinates(hyper, rows.x), shape.size),
        structure=Structure(
            coupling=shape.weights.coupling,
            predictive=partial(predictive, emission, shape) if has_predictive(emission, shape.weights) else None,
            host_step=host_step(emission, shape.weights, shape.block, shape.size),
        ),
    )
    if shape.exchangeable:
        algebra = with_collapsed(algebra, shape.size, partial(proper_prior, emission, shape))
    return Parts(
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
    """A mixture on checked data, its components named by ``labels``; ``layout`` is for columns of several kinds.

    Raises `ZooError` for a prior outside its support, and where there are no such weights (`Weights.why_impossible`).
    """
    if emission.hidden.latent_if_missing is not None and has_missing_cell(data):
        emission = emission._replace(hidden=emission.hidden._replace(latent=emission.hidden.latent_if_missing))
    if (why := shape.weights.why_impossible(shape.size, shape.proper, shape.exchangeable)) is not None:
        raise ZooError(f"weights={shape.weights.name}: {why}")
    static = structure(emission, shape)
    columns = data.columns
    prior_warnings = scale_doubts(data, emission.encoding.unscaled(data), prior, NO_DENSITY)
    warnings = (*warnings, *empty_groups(data, shape.size), *prior_warnings)
    cells = layout or Layout(columns, (emission.naming.kind,) * len(columns), emission.naming.levels or ((),) * len(columns))
    hyper = hyperparameters(data, emission, shape, prior)
    of_blocks = (*emission.naming.dims, *shape.weights.naming.dims)
    named = {site: tuple(shape.block if dim == "component" else dim for dim in dims) for site, dims in of_blocks}
    symmetric = shape.exchangeable and shape.weights.exchangeable and shape.size > 1
    return Model(
        name=name,
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=pseudo_statistics(hyper, static.algebra, emission, shape, data, rows),
        reading=Reading(rows=rows, read=as_data, layout=layout, translation=translation(emission)),
        summaries=Summaries(functionals=static.functionals, probe_rows=probe_rows, warnings=warnings),
        symmetry=Permutation(shape.block) if symmetric else None,
        abilities=Abilities(
            simulate=partial(simulate, emission, shape),
            discriminant=static.discriminant,
            table=Table(cells, partial(observed, emission), static.completed, static.expected)
            if emission.encoding.missing
            else None,
            profile=emission.profile,
            replicated=partial(replicated, emission),
            may_be_zero=emission.naming.may_be_zero,
            harmless_zeros=emission.naming.harmless_zeros,
        ),
        naming=Naming(
            dims=named | {"co_clustering": ("pair",), "responsibilities": ("row", shape.block)},
            coords={
                shape.block: list(labels),
                "rank": list(range(1, shape.size + 1)),
                "pair": pairs(data.num_rows),
            }
            | shape.weights.naming.coords(list(labels))
            | emission.naming.coords(data),
            levels={column: names for column, names in zip(cells.columns, cells.categories, strict=True) if names},
            density_of=explained(
                emission.naming.density_of, cells, None if shape.exchangeable or unlabelled(data) else shape.block
            ),
        ),
        options=options,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(emission: Emission, shape: Shape, hyper: Hyper, rows: Rows, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with z summed out when ``marginal``."""
    probs = shape.weights.program(hyper, shape.size, shape.proper)
    x = emission.encoding.observation(rows.x)
    components = emission.likelihood.program(hyper, x, shape.size, shape.proper)
    if partly_observed(rows.x):
        components = observed_part(components)
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", x.shape[0]), numpyro.handlers.scale(scale=scale):
        if not marginal:
            component = numpyro.sample("component", dist.Categorical(probs), infer={"enumerate": "parallel"})
            logits = jnp.log(jax.nn.one_hot(component, shape.size))  # all mass on component z_n
            if rows.allowed_states is not None:
                seen = jnp.take_along_axis(rows.allowed_states, component[..., None], axis=-1)[..., 0]
                numpyro.factor("label", jnp.where(seen, 0.0, -jnp.inf))
        else:
            logits = jnp.log(probs)
            if rows.allowed_states is not None:
                logits = restrict(logits[None, :], rows.allowed_states)
                numpyro.factor("label", jax.nn.logsumexp(logits, axis=-1))  # log p(z_n ∈ A_n)
        mixing = dist.Categorical(logits=logits, validate_args=False)  # −∞ where z_n is not allowed
        numpyro.sample("x", dist.MixtureSameFamily(mixing, components), obs=x)


def replicated(emission: Emission, rows: Rows, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows that the program drew as a table like the one observed, with labels if that has some."""
    labels = {} if rows.allowed_states is None else {"label": drawn["component"]}
    return emission.encoding.replicated(rows.x, drawn["x"]) | labels


# ---------------------------------------------------------------------------------------------------------------------
# Prior


def hyperparameters(data: Data, emission: Emission, shape: Shape, prior: Any) -> dict[str, np.ndarray]:
    """The prior in textbook terms, as numbers: the defaults of both blocks with the user's over them; raises `ZooError`.

    For a flat prior, which is ``shape.proper = False``, only the constants that the statistics need.
    """
    constants = emission.prior.constants(data)
    if not shape.proper:
        return constants
    blocks = {shape.block: {name: name for name in emission.prior.parameters}}
    weights = shape.weights.prior
    blocks |= {block: dict(names) for block, names in weights.parameters}
    hyper = dict(weights.defaults) | emission.prior.defaults(data, shape.size) | given_numbers(prior, blocks)
    columns = len(data.columns)
    shapes = emission.prior.shapes(columns) | weights.shapes(shape.size)
    return check_hyper(hyper, shapes, emission.prior.bounds(columns)) | constants


def proper_prior(emission: Emission, shape: Shape, hyper: Hyper) -> dict[str, Stats]:
    """The pseudo-statistics of numbers for a prior."""
    return shape.weights.prior.nu(hyper, shape.size) | {shape.block: emission.prior.nu(hyper, shape.size)}


def pseudo_statistics(
    hyper: Hyper, algebra: Algebra, emission: Emission, shape: Shape, data: Data, rows: Callable[[Any], Rows]
) -> dict[str, Stats]:
    """The prior as pseudo-statistics, of the weights and of the emission's block; flat: nu = 0."""
    if shape.proper:
        return proper_prior(emission, shape, hyper)
    with jax.enable_x64(True):
        x = rows(take(data._replace(starts=None), np.arange(1))).x  # their shapes are those of one row's
        z = jax.ShapeDtypeStruct((1, shape.size), np.float64)
        shapes = jax.eval_shape(lambda x, z: _unweighted(algebra, hyper, x, z), x, z)
    return dict(jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes))


def _unweighted(algebra: Algebra, hyper: Hyper, x: Any, probs: Array) -> dict[str, Stats]:
    assert algebra.latent.independent is not None
    z = algebra.latent.independent(jax.random.PRNGKey(0), probs)
    return dict(algebra.statistics(probs[:, 0], z, algebra.features(hyper, Rows(x))))


# ---------------------------------------------------------------------------------------------------------------------
# Algebra: one E-step and one M-step, for every method


def local(emission: Emission, shape: Shape, T: Stats) -> Callable[[Features], Any]:
    """E-step: log probs_k + log p(x_n | θ_k), (N, K), −∞ where not allowed; their softmax are the responsibilities r_nk."""
    log_density = emission.likelihood.log_density(T[shape.block])
    log_probs = shape.weights.log_probs(T, shape.size)

    def natural_parameters(features: Features) -> Any:
        def weighted(density: Array) -> Array:
            return restrict(density + log_probs[None, :].astype(density.dtype), features.allowed_states)

        return emission.hidden.on_component(weighted, log_density(features.observed))

    return natural_parameters


def has_predictive(emission: Emission, weights: Weights) -> bool:
    """Whether both blocks have a short form of their predictive."""
    return emission.likelihood.predictive is not None and weights.predictive is not None


def predictive(emission: Emission, shape: Shape, nu: Stats) -> Callable[[Features], Array]:
    """Log p(x_n, z_n = k) with all parameters integrated out under q(θ) = nu: (N, K)."""
    assert emission.likelihood.predictive is not None
    assert shape.weights.predictive is not None
    log_density = emission.likelihood.predictive(nu[shape.block])
    log_probs = shape.weights.predictive(nu, shape.size)
    return lambda features: log_density(features.observed) + log_probs[None, :]


def statistics(emission: Emission, shape: Shape, weight: Array, z: Any, features: Features) -> dict[str, Stats]:
    """Σ_n r_nk (1, u(x_n)), with u of the row completed by z; with ``mode`` the M-step."""
    weighted = weight[:, None] * emission.hidden.component(z)
    completed_rows = emission.hidden.complete(z, features.observed)
    stats: dict[str, Stats] = {shape.block: emission.likelihood.statistics(weighted, completed_rows)}
    return stats | shape.weights.statistics(weighted.sum(0))


def sites(emission: Emission, shape: Shape, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T of a point -> the sites of the program."""
    return shape.weights.sites(T) | emission.sites(hyper, T[shape.block])


def natural(emission: Emission, shape: Shape, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """The sites of the program -> T."""
    return shape.weights.natural(sites) | {shape.block: emission.natural(hyper, sites)}


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, data, simulation


def functionals(shape: Shape, hyper: Hyper, sites: Sites, latents: Array) -> dict[str, Array]:
    """The weights; where labels are exchangeable sorted, and for neighbouring probe rows P(z_i = z_j) = Σ_k r_ik r_jk."""
    weights = shape.weights.functionals(sites, shape.exchangeable)
    return weights | ({"co_clustering": (latents[:-1] * latents[1:]).sum(-1)} if shape.exchangeable else {})


def discriminant(emission: Emission, shape: Shape) -> Discriminant | None:
    """Log p(x, z = k) in features of the row: the emission's, with log probs_k in the bias."""
    if (block := emission.discriminant) is None:
        return None

    def linear(hyper: Hyper, sites: Sites) -> Linear:
        bias_and_weights = block.linear(hyper, sites)
        return bias_and_weights._replace(bias=bias_and_weights.bias + shape.weights.bias(sites))

    return Discriminant(linear, lambda rows: block.features(rows.x), block.dims)


def simulate(emission: Emission, shape: Shape, key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Rows drawn from the mixture at ``sites``, their labels forgotten."""
    key_component, key_x = jax.random.split(key)
    log_probs = jnp.log(shape.weights.probs(sites, shape.size))
    component = jax.random.categorical(key_component, log_probs, shape=(num_rows,))
    return Rows(emission.likelihood.draw(key_x, sites, component))
