"""The one initial state, shared by every method: k-means++-seeded latents.

Seeds are drawn by k-means++ (Arthur and Vassilvitskii 2007) on the standardised coordinates of the model. Every row joins its
nearest seed, with a small share in every other component, so that no component starts on a single point. Each start has another
key, so that starts and chains are overdispersed. Where rows have labels, a component with labelled rows starts at their mean,
and no row joins a component that it is not allowed. A model without groups to seed (``Initial.draw``) draws every start.
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

from inference.engine.driver import vmap_or_call
from inference.engine.program import constrain_starts, fault_of_density, is_smooth, potential, transforms, unconstrain
from inference.engine.sweep import ParameterUpdate, block_sum, num_rows, rows_weight
from inference.engine.task import Task
from inference.runtime.programs import cached_jit
from models.algebra import add, at_mean, at_mode, at_sample
from models.base import Algebra, Hyper, Pytree, Stats, ZooError
from models.rows.row_info import row_info

SEED_ROWS = 4096  # seeds are chosen among at most so many rows, evenly spread
PRIOR_DRAWS = 50  # candidates of a chain that starts from the prior of a program: it takes the first that is sound
TRIES = 20  # at most so many times that number, where none of them has a finite density
AROUND = 2.0  # in every second try candidates are uniform on ℝᵈ, between −AROUND and AROUND
HOPELESS = 1e6  # nats below the best candidate of a chain: warm-up may never come from there, and modes differ by far less
OVERFLOWS = "the change of variables overflows"
SHARE = 0.1  # share of every row's membership that is spread over all components


def seeds(key: Array, points: Array, weight: Array, num_seeds: int) -> Array:
    """(K, F): rows of ``points`` (N, F), the first drawn by ``weight``, each further one by weight × squared distance."""

    def body(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        chosen, distance = state
        apart = jnp.where((weight * distance).sum() > 0, distance, 1.0)  # all rows alike: any of them
        logits = jnp.log(weight * apart)
        row = points[jax.random.categorical(jax.random.fold_in(key, index), logits)]
        return chosen.at[index].set(row), jnp.minimum(distance, ((points - row[None, :]) ** 2).sum(-1))

    chosen = jnp.zeros((num_seeds, points.shape[1]), points.dtype)
    distance = jnp.ones(points.shape[0], points.dtype)
    first = body(jnp.zeros((), int), (chosen, distance))
    first = (first[0], ((points - first[0][:1]) ** 2).sum(-1))
    return lax.fori_loop(1, num_seeds, body, first)[0]


def latents_observed(rows: Pytree) -> bool:
    """Whether every row allows one value of its latent only. All starts are then the same."""
    allowed_states = row_info(rows).allowed_states
    return (
        allowed_states is not None
        and np.asarray(allowed_states).ndim == 2
        and bool((np.asarray(allowed_states).sum(-1) == 1).all())
    )


@cached_jit(static_argnames=("algebra",))
def _local_at_prior(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree) -> Pytree:
    """Natural parameters of the latents; jitted only for their shapes, which are traced once."""
    T = at_mean(algebra, jax.random.PRNGKey(0), prior)
    return algebra.local_natural_parameters(T)(algebra.features(hyper, rows))


def finite_latents(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree) -> bool:
    """Whether the latents of these rows take finitely many values, and no missing cells are among the latents.

    A model that was built on complete rows may be given rows with missing cells.
    """
    shapes = _local_at_prior.eval_shape(algebra, hyper, dict(prior), rows)
    return algebra.latent.enumerable and len(jax.tree.leaves(shapes)) == 1


def num_starts(task: Task, wanted: int) -> int:
    """The number of starts of an optimiser: 1 where all would be the same."""
    return 1 if task.start is not None or latents_observed(task.rows) else wanted


@cached_jit(static_argnames=("algebra", "size"))
def observed(algebra: Algebra, size: int, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree) -> Stats:
    """Nu of ``size`` equal starts where all latents are observed: the conjugate update itself."""

    def block(key: Array, rows: Pytree, weight: Array) -> Any:
        features = algebra.features(hyper, rows)
        assert algebra.latent.independent is not None
        return algebra.statistics(weight, algebra.latent.independent(key, rows.allowed_states.astype(weight.dtype)), features)

    nu = add(dict(prior), block_sum(block, jax.random.PRNGKey(0), rows))
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], size, axis=0), nu)


@cached_jit(static_argnames=("algebra", "num_starts"))
def seeded(algebra: Algebra, num_starts: int, hyper: Hyper, prior: Mapping[str, Stats], key: Array, rows: Pytree) -> Stats:
    """Nu of ``num_starts`` starts, stacked along a leading axis."""
    coordinates, independent = algebra.initial.coordinates, algebra.latent.independent
    assert coordinates is not None  # a model without groups draws its starts
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
        centres = seeds(key, points / scale, weight, algebra.initial.num_groups)
        if known is not None:
            centres = jnp.where(jnp.isnan(known), centres, known)

        def block(key: Array, rows: Pytree, weight: Array) -> Any:
            distances = _squared_distances(coordinates(hyper, rows) / scale, centres)
            nearest = jax.nn.one_hot(jnp.argmin(distances, axis=-1), distances.shape[-1], dtype=distances.dtype)
            probs = (1 - SHARE) * nearest + SHARE / algebra.initial.num_groups
            probs = jnp.where(jnp.isnan(distances), 0.0, probs)  # of a missing point
            if known is not None:
                probs = jnp.where(rows.allowed_states, probs, 0)
                probs = probs / jnp.maximum(probs.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
            return algebra.statistics(weight, independent(key_z, probs), algebra.features(hyper, rows))

        key_z = jax.random.fold_in(key, algebra.initial.num_groups)  # one for all blocks of rows, and not one of the seeds'
        return add(dict(prior), block_sum(block, key, rows))

    return vmap_or_call(one, jax.random.split(key, num_starts))


def _places(points: Array, weight: Array) -> tuple[Array, Array]:
    """Points (N, …, F) of rows as (P, F), with the weights of their rows; missing points become 0 with weight 0."""
    weights = jnp.broadcast_to(weight.reshape(-1, *(1,) * (points.ndim - 2)), points.shape[:-1]).reshape(-1)
    points = points.reshape(-1, points.shape[-1])
    there = ~jnp.isnan(points).any(-1)
    return jnp.where(there[:, None], points, 0.0), jnp.where(there, weights, 0.0)


def _squared_distances(points: Array, centres: Array) -> Array:
    """(…, K), by one matrix product, whose rounding does not matter for choosing the nearest."""
    both = (centres**2).sum(1).reshape(*(1,) * (points.ndim - 1), -1) - 2 * points @ centres.T
    return (points**2).sum(-1, keepdims=True) + both


def _labelled_centres(coordinates: Callable[[Hyper, Pytree], Array], hyper: Hyper, rows: Pytree, scale: Array) -> Array | None:
    """(K, F): means of the rows that allow one component only, NaN for a component without any; None without labels."""
    if row_info(rows).allowed_states is None:
        return None

    def block(key: Array, rows: Pytree, weight: Array) -> tuple[Array, Array]:
        points, weights = _places(coordinates(hyper, rows), weight)
        allowed_states = rows.allowed_states.reshape(-1, rows.allowed_states.shape[-1])
        labelled = jnp.where(allowed_states.sum(-1, keepdims=True) == 1, allowed_states, False) * weights[:, None]
        return labelled.sum(0), labelled.T @ (points / scale)

    count, total = block_sum(block, jax.random.PRNGKey(0), rows)
    return total / jnp.where(count > 0, count, jnp.nan)[:, None]


@cached_jit(static_argnames=("algebra", "num_starts"))
def drawn(algebra: Algebra, num_starts: int, hyper: Hyper, key: Array) -> Stats:
    """Nu of ``num_starts`` starts of a model without groups, stacked along a leading axis."""
    assert algebra.initial.draw is not None
    return jax.vmap(partial(algebra.initial.draw, hyper))(jax.random.split(key, num_starts))


@cached_jit(static_argnames=("algebra", "update"))
def parameters_of(algebra: Algebra, update: ParameterUpdate, nu: Stats) -> Stats:
    """T of every start (the leading axis of nu), by an update that needs no key."""
    return jax.vmap(lambda nu: update(algebra, jax.random.PRNGKey(0), nu))(nu)


@cached_jit(static_argnames=("algebra",))
def natural_of(algebra: Algebra, hyper: Hyper, sites: Mapping[str, Any]) -> Stats:
    """Sites -> T, over a leading axis."""
    return jax.vmap(partial(algebra.natural, hyper))(sites)


@cached_jit(static_argnames=("algebra",))
def sites_at(algebra: Algebra, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T of points -> sites, over a leading axis."""
    return jax.vmap(partial(algebra.sites, hyper))(T)


def repeated(sites: Mapping[str, Any], size: int) -> dict[str, Array]:
    """The sites given, ``size`` times along a new leading axis."""
    return {name: jax.device_put(np.repeat(np.asarray(value)[None], size, axis=0)) for name, value in sites.items()}


def start_states(task: Task, algebra: Algebra, update: ParameterUpdate, size: int) -> tuple[Stats, Stats, bool]:
    """(T, nu, whether T came from nu) of ``size`` starts or chains: seeded or drawn, or all at the sites that the user gave."""
    if task.start is not None:
        nu = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], size, axis=0), dict(task.prior))
        return natural_of(algebra, task.hyper, repeated(task.start, size)), nu, False
    if algebra.initial.draw is not None:
        nu = drawn(algebra, size, task.hyper, task.key)
    elif latents_observed(task.rows):
        nu = observed(algebra, size, task.hyper, task.prior, task.rows)
    else:
        nu = seeded(algebra, size, task.hyper, task.prior, task.key, task.rows)
    return parameters_of(algebra, update, nu), nu, True


def start_points(task: Task, algebra: Algebra, size: int) -> Stats:
    """T of ``size`` points inside the support: modes, or draws where some mode does not exist or lies on the boundary."""
    T, nu, known = start_states(task, algebra, at_mode, size)
    inside = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(T))
    return T if inside or not known else drawn_points(algebra, jax.random.split(task.key, size), nu)


@cached_jit(static_argnames=("algebra",))
def drawn_points(algebra: Algebra, keys: Array, nu: Stats) -> Stats:
    """T drawn from q(θ | nu), over a leading axis."""
    return jax.vmap(partial(at_sample, algebra))(keys, nu)


@cached_jit(static_argnames=("algebra",))
def prior_points(algebra: Algebra, prior: Mapping[str, Stats], keys: Array) -> Stats:
    """T(θ) with θ drawn from the prior, one per key."""
    return jax.vmap(lambda key: at_sample(algebra, key, dict(prior)))(keys)


def start_sites(task: Task, size: int) -> dict[str, Array]:
    """Sites of ``size`` starts or chains, for the methods that run on the program: the same points as with the algebra.

    A user's program starts each chain at a draw from its prior, the first at which log density and gradient are finite and that
    is not `HOPELESS`. The best of several draws would put all chains at the highest mode, even one of little mass, and they
    would agree. Raises `ZooError` with the name of the site where the log density or its gradient is not finite at the given
    start, or at all points tried.
    """
    spec, arrays = task.model.spec, (task.hyper, task.rows)
    if task.start is not None:
        supports = transforms(spec, *arrays)
        z = unconstrain(supports, task.start)
        if not is_smooth(spec, *arrays, z):
            why = fault_of_density(spec, supports, *arrays, z) or OVERFLOWS
            raise ZooError(f"start: {why} there; give sites at which the data are possible and the log density is smooth")
        return repeated(task.start, size)
    if task.model.algebra is not None:
        algebra = task.model.algebra
        return sites_at(algebra, task.hyper, start_points(task, algebra, size))
    return _program_starts(task, jax.random.split(task.key, size))


def _program_starts(task: Task, keys: Array) -> dict[str, Array]:
    """A point of finite log density for every key; a `ZooError` where there is none among all candidates."""
    spec, arrays = task.model.spec, (task.hyper, task.rows)
    supports = transforms(spec, *arrays)
    z, sound = _first_of_prior(spec, supports, *arrays, keys, np.asarray(False))
    for attempt in range(1, TRIES):
        if sound.all():
            break
        again = jax.vmap(lambda key, attempt=attempt: jax.random.fold_in(key, attempt))(keys)
        others, sound_too = _first_of_prior(spec, supports, *arrays, again, np.asarray(attempt % 2 == 1))
        z = {name: _where(sound, leaf, others[name]) for name, leaf in z.items()}
        sound = sound | sound_too
    if sound.all():
        return constrain_starts(supports, z)
    lost = int(np.argmin(sound))
    why = fault_of_density(spec, supports, *arrays, {name: leaf[lost] for name, leaf in z.items()})
    raise ZooError(
        f"{task.model.name}: start {lost + 1} of {len(sound)} found no point of finite log density in {TRIES * PRIOR_DRAWS} "
        f"tries; at the last {why or OVERFLOWS}. Check that statement and the data, or give start="
    )


def _where(sound: Array, value: Array, other: Array) -> Array:
    return jnp.where(sound.reshape(-1, *(1,) * (value.ndim - 1)), value, other)


@cached_jit(static_argnames=("spec",))
def _first_of_prior(
    spec: Callable[..., Any], transforms: Mapping[str, Any], hyper: Hyper, rows: Pytree, keys: Array, around: Array
) -> tuple[dict[str, Array], Array]:
    """For every key: the first sound one of `PRIOR_DRAWS` draws, and whether there is one.

    A draw is sound if its density on ℝᵈ and the gradient are finite, and if it is not `HOPELESS` relative to the best of them.
    Improper sites are drawn around 0; with ``around`` all sites are.
    """

    def draw(key: Array) -> dict[str, Array]:
        seeded_spec = handlers.substitute(handlers.seed(spec, key), substitute_fn=init_to_sample)
        trace = handlers.trace(seeded_spec).get_trace(hyper, rows)
        z = unconstrain(transforms, {name: trace[name]["value"] for name in transforms})
        keys = jax.random.split(jax.random.fold_in(key, 1), len(z))
        near = (
            jax.random.uniform(k, leaf.shape, leaf.dtype, -AROUND, AROUND) for k, leaf in zip(keys, z.values(), strict=True)
        )
        return {name: jnp.where(around, other, leaf) for (name, leaf), other in zip(z.items(), near, strict=True)}

    def one(key: Array) -> tuple[dict[str, Array], Array]:
        z = jax.vmap(draw)(jax.random.split(key, PRIOR_DRAWS))
        energies, slopes = jax.vmap(jax.value_and_grad(partial(potential, spec, hyper, rows)))(z)
        flat = [leaf.reshape(PRIOR_DRAWS, -1) for leaf in (energies, *slopes.values())]
        sound = jnp.stack([jnp.isfinite(leaf).all(1) for leaf in flat]).all(0)
        near = sound & (energies <= jnp.where(sound, energies, jnp.inf).min() + HOPELESS)
        first = jnp.argmax(near)
        return jax.tree.map(lambda leaf: leaf[first], z), near[first]

    return jax.lax.map(one, keys)
