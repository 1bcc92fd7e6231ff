"""The one initial state, shared by every method: k-means++-seeded latents.

Seeds are drawn by k-means++ (Arthur and Vassilvitskii 2007) on the standardised coordinates of the model; every row joins
its nearest seed, and all keep a little of every other component, so that no component starts on a single point. Each start
has its own key: starts, and chains, are overdispersed because their seeds are. Where rows have labels, a component with
labelled rows starts at their mean, and no row joins a component that it is not allowed. A model without groups to seed
(``algebra.start``) draws every start instead.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpyro import handlers
from numpyro.infer import init_to_sample

from inference.chains import each
from inference.outcome import Task
from inference.program import constrain, potential, transforms, unconstrain
from inference.sweep import ParameterVerb, block_sum, num_rows, rows_weight
from models.base import Algebra, Hyper, Pytree, Stats, add, at_mean, at_mode, at_sample

SEED_ROWS = 4096  # seeds are chosen among at most so many rows, evenly spread
PRIOR_DRAWS = 50  # candidates of a chain that starts from the prior of a program
SHARE = 0.1  # of every row's membership is spread over all components


def seeds(key: Array, points: Array, weight: Array, num_seeds: int) -> Array:
    """(K, F): rows of ``points`` (N, F), the first drawn by ``weight``, each further one by weight × squared distance."""

    def body(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        chosen, distance = state
        apart = jnp.where((weight * distance).sum() > 0, distance, 1.0)  # all rows alike: any row will do
        logits = jnp.log(weight * apart)
        row = points[jax.random.categorical(jax.random.fold_in(key, index), logits)]
        return chosen.at[index].set(row), jnp.minimum(distance, ((points - row[None, :]) ** 2).sum(-1))

    chosen = jnp.zeros((num_seeds, points.shape[1]), points.dtype)
    distance = jnp.ones(points.shape[0], points.dtype)
    first = body(jnp.zeros((), int), (chosen, distance))
    first = (first[0], ((points - first[0][:1]) ** 2).sum(-1))
    return lax.fori_loop(1, num_seeds, body, first)[0]


def latents_observed(rows: Pytree) -> bool:
    """Whether every row allows one value of its latent only: there is then one start, and it is the answer."""
    allowed = getattr(rows, "allowed", None)
    return allowed is not None and np.asarray(allowed).ndim == 2 and bool((np.asarray(allowed).sum(-1) == 1).all())


def finite_latents(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree) -> bool:
    """Whether the latents of these rows take finitely many values: not where values of their missing cells are among them.

    A model that was built on complete rows may be given others.
    """

    def local(hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree) -> Pytree:
        T = at_mean(algebra, jax.random.PRNGKey(0), prior)
        return algebra.local(T)(algebra.features(hyper, rows))

    return algebra.latent.discrete and len(jax.tree.leaves(jax.eval_shape(local, hyper, dict(prior), rows))) == 1


def num_starts(task: Task, wanted: int) -> int:
    """How many starts an optimiser makes: one where all would be the same."""
    return 1 if task.start is not None or latents_observed(task.rows) else wanted


@partial(jax.jit, static_argnames=("algebra", "size"))
def observed(algebra: Algebra, size: int, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree) -> Stats:
    """Nu of ``size`` equal starts where all latents are observed: the conjugate update itself."""

    def block(key: Array, rows: Pytree, weight: Array) -> Any:
        features = algebra.features(hyper, rows)
        assert algebra.latent.independent is not None
        return algebra.statistics(weight, algebra.latent.independent(key, rows.allowed.astype(weight.dtype)), features)

    nu = add(dict(prior), block_sum(block, jax.random.PRNGKey(0), rows))
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], size, axis=0), nu)


@partial(jax.jit, static_argnames=("algebra", "num_starts"))
def seeded(algebra: Algebra, num_starts: int, hyper: Hyper, prior: Mapping[str, Stats], key: Array, rows: Pytree) -> Stats:
    """Nu of ``num_starts`` starts, stacked along a leading axis."""
    coordinates, independent = algebra.coordinates, algebra.latent.independent
    assert coordinates is not None  # a model without groups has a start of its own
    assert independent is not None
    stride = max(1, num_rows(rows) // SEED_ROWS)
    some = jax.tree.map(lambda leaf: leaf[::stride], rows)
    points, weight = _places(coordinates(hyper, some), rows_weight(some))
    weight = jnp.where(weight.sum() > 0, weight, 1.0)
    share = (weight / weight.sum())[:, None]
    spread = jnp.sqrt((share * (points - (share * points).sum(0)[None, :]) ** 2).sum(0))
    scale = jnp.where(spread > 0, spread, 1.0)[None, :]

    known = _labelled_centres(coordinates, hyper, rows, scale)

    def one(key: Array) -> Stats:
        centres = seeds(key, points / scale, weight, algebra.num_groups)
        if known is not None:
            centres = jnp.where(jnp.isnan(known), centres, known)

        def block(key: Array, rows: Pytree, weight: Array) -> Any:
            distances = _squared_distances(coordinates(hyper, rows) / scale, centres)
            nearest = jax.nn.one_hot(jnp.argmin(distances, axis=-1), distances.shape[-1], dtype=distances.dtype)
            probs = (1 - SHARE) * nearest + SHARE / algebra.num_groups
            probs = jnp.where(jnp.isnan(distances), 0.0, probs)  # where there is no point
            if known is not None:
                probs = jnp.where(rows.allowed, probs, 0)
                probs = probs / jnp.maximum(probs.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
            return algebra.statistics(weight, independent(key_z, probs), algebra.features(hyper, rows))

        key_z = jax.random.fold_in(key, algebra.num_groups)  # one for all blocks of rows, and none of the seeds'
        return add(dict(prior), block_sum(block, key, rows))

    return each(one, jax.random.split(key, num_starts))


def _places(points: Array, weight: Array) -> tuple[Array, Array]:
    """Points (N, …, F) of rows as (P, F), with the weights of their rows; those that are not there at 0, without weight."""
    each = jnp.broadcast_to(weight.reshape(-1, *(1,) * (points.ndim - 2)), points.shape[:-1]).reshape(-1)
    points = points.reshape(-1, points.shape[-1])
    there = ~jnp.isnan(points).any(-1)
    return jnp.where(there[:, None], points, 0.0), jnp.where(there, each, 0.0)


def _squared_distances(points: Array, centres: Array) -> Array:
    """(…, K), by one product: for choosing the nearest, rounding does not matter."""
    both = (centres**2).sum(1).reshape(*(1,) * (points.ndim - 1), -1) - 2 * points @ centres.T
    return (points**2).sum(-1, keepdims=True) + both


def _labelled_centres(coordinates: Callable[[Hyper, Pytree], Array], hyper: Hyper, rows: Pytree, scale: Array) -> Array | None:
    """(K, F): means of the rows that allow one component only, NaN for a component without any; None without labels."""
    if getattr(rows, "allowed", None) is None:
        return None

    def block(key: Array, rows: Pytree, weight: Array) -> tuple[Array, Array]:
        points, weights = _places(coordinates(hyper, rows), weight)
        allowed = rows.allowed.reshape(-1, rows.allowed.shape[-1])
        labelled = jnp.where(allowed.sum(-1, keepdims=True) == 1, allowed, False) * weights[:, None]
        return labelled.sum(0), labelled.T @ (points / scale)

    count, total = block_sum(block, jax.random.PRNGKey(0), rows)
    return total / jnp.where(count > 0, count, jnp.nan)[:, None]


@partial(jax.jit, static_argnames=("algebra", "num_starts"))
def drawn(algebra: Algebra, num_starts: int, hyper: Hyper, key: Array) -> Stats:
    """Nu of ``num_starts`` starts of a model without groups, stacked along a leading axis."""
    assert algebra.start is not None
    return jax.vmap(partial(algebra.start, hyper))(jax.random.split(key, num_starts))


@partial(jax.jit, static_argnames=("algebra", "verb"))
def parameters_of(algebra: Algebra, verb: ParameterVerb, nu: Stats) -> Stats:
    """T of every start (the leading axis of nu), by a verb that needs no key."""
    return jax.vmap(lambda nu: verb(algebra, jax.random.PRNGKey(0), nu))(nu)


@partial(jax.jit, static_argnames=("algebra",))
def natural_of(algebra: Algebra, hyper: Hyper, sites: Mapping[str, Any]) -> Stats:
    """Sites -> T, over a leading axis."""
    return jax.vmap(partial(algebra.natural, hyper))(sites)


@partial(jax.jit, static_argnames=("algebra",))
def sites_of(algebra: Algebra, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T of points -> sites, over a leading axis."""
    return jax.vmap(partial(algebra.sites, hyper))(T)


def repeated(sites: Mapping[str, Any], size: int) -> dict[str, Array]:
    """The sites given, ``size`` times along a new leading axis."""
    return {name: jnp.repeat(jnp.asarray(value)[None], size, axis=0) for name, value in sites.items()}


def start_states(task: Task, algebra: Algebra, verb: ParameterVerb, size: int) -> tuple[Stats, Stats, bool]:
    """(T, nu, whether T came from nu) of ``size`` starts or chains: seeded or drawn, or all at the sites that the user gave."""
    if task.start is not None:
        nu = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], size, axis=0), dict(task.prior))
        return natural_of(algebra, task.hyper, repeated(task.start, size)), nu, False
    if algebra.start is not None:
        nu = drawn(algebra, size, task.hyper, task.key)
    elif latents_observed(task.rows):
        nu = observed(algebra, size, task.hyper, task.prior, task.rows)
    else:
        nu = seeded(algebra, size, task.hyper, task.prior, task.key, task.rows)
    return parameters_of(algebra, verb, nu), nu, True


def start_points(task: Task, algebra: Algebra, size: int) -> Stats:
    """T of ``size`` points inside the support: modes, or draws where some mode does not exist or lies on the boundary."""
    T, nu, known = start_states(task, algebra, at_mode, size)
    inside = all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(T))
    return T if inside or not known else drawn_points(algebra, jax.random.split(task.key, size), nu)


@partial(jax.jit, static_argnames=("algebra",))
def drawn_points(algebra: Algebra, keys: Array, nu: Stats) -> Stats:
    """T drawn from q(θ | nu), over a leading axis."""
    return jax.vmap(partial(at_sample, algebra))(keys, nu)


def start_sites(task: Task, size: int) -> dict[str, Array]:
    """Sites of ``size`` starts or chains, for the methods that run on the program: the same points as with the algebra.

    A program only starts each at the best of several draws from its prior.
    """
    if task.start is not None:
        return repeated(task.start, size)
    if task.model.algebra is not None:
        algebra = task.model.algebra
        return sites_of(algebra, task.hyper, start_points(task, algebra, size))
    spec, keys = task.model.spec, jax.random.split(task.key, size)
    return _best_of_prior(spec, transforms(spec, task.hyper, task.rows), task.hyper, task.rows, keys)


@partial(jax.jit, static_argnames=("spec",))
def _best_of_prior(
    spec: Callable[..., Any], transforms: Mapping[str, Any], hyper: Hyper, rows: Pytree, keys: Array
) -> dict[str, Array]:
    """The draw with the highest density among `PRIOR_DRAWS`, for every key; improper sites are drawn around 0 on ℝᵈ."""

    def draw(key: Array) -> dict[str, Array]:
        seeded_spec = handlers.substitute(handlers.seed(spec, key), substitute_fn=init_to_sample)
        trace = handlers.trace(seeded_spec).get_trace(hyper, rows)
        return unconstrain(transforms, {name: trace[name]["value"] for name in transforms})

    def one(key: Array) -> dict[str, Array]:
        z = jax.vmap(draw)(jax.random.split(key, PRIOR_DRAWS))
        energies = jax.vmap(partial(potential, spec, hyper, rows))(z)
        best = jnp.argmin(jnp.where(jnp.isfinite(energies), energies, jnp.inf))
        return constrain(transforms, jax.tree.map(lambda leaf: leaf[best], z))

    return jax.lax.map(one, keys)
