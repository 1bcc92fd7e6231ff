"""What a fitted chain says of sequences: states step by step, whole paths, and how surprising every step is.

Two questions have two answers (document 002): the most probable state of every step, each by itself (``assignment``, which gets
most steps right), and the most probable path as a whole (``viterbi``, which gets most sequences right, and never makes an
impossible step). Both are averaged over the draws θ_s of a posterior, which new rows x weigh by p(x | θ_s). Rows that the
posterior is of have weighed them already: there every draw counts alike (``fitted``). For one long sequence that matters, as
its weights would else leave a few draws.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.assembly import data_of
from inference.fitting import as_arrays, check_seed, require_model, x64
from inference.prediction import draws_of, forget_labels
from inference.sweep import block_map
from models.base import Algebra, Hyper, Model, Pytree, Sites, ZooError
from models.chain import Filtered, chain, k_best, path_of, sample_states, viterbi, within
from models.documents import Sequences
from models.lanes import row_by_row
from models.padding import padded
from models.rows import spread
from models.steps import steps_of

CANDIDATES = 20  # draws, evenly spread, whose best paths are weighed against each other
SCORED = 200  # draws, evenly spread, over which a path is weighed
TIED = 9  # digits behind the point to which log probabilities of paths are compared
HOW = ("viterbi", "max_prob_tag", "sample", "k_best")


def is_sequential(model: Model) -> bool:
    """Whether a row of the model is a sequence, with a state at every step."""
    return model.algebra is not None and model.algebra.latent is chain


def require_sequential(model: Model) -> Algebra:
    """The algebra of a model of sequences; raises `ZooError`."""
    require_model(model)
    if model.algebra is None or not is_sequential(model):
        raise ZooError(f"{model.name} has no states that follow each other, so there are no paths to decode")
    return model.algebra


def states(model: Model, source: xr.DataTree | Sites, data: Any, precision: int = 64, fitted: bool | None = None) -> xr.Dataset:
    """`predict` of sequences, averaged over the draws of a result, or at a dict of sites.

    ``probs`` (row, time, state) = p(z_t = i | x) and ``assignment`` (row, time), its largest; ``viterbi`` (row, time), the most
    probable path, and its ``viterbi_log_prob`` (row) = log p(path | x); ``log_density`` (row) = log p(x), and
    ``step_log_density`` (row, time) = log p(x_t | x_1 … x_{t−1}), which sum to it but for the stop at the boundary. Beyond the
    end of a sequence NaN, and −1 for a state. ``fitted`` says whether the result is of these very sequences, whose states are
    then averaged over its draws as they are; None: if they are all that it is of. Densities are of a repetition in any case.
    Raises `ZooError` for a sequence of probability 0.
    """
    algebra = require_sequential(model)
    given = _which_fitted(model, source, data, fitted)
    with x64(precision):
        hyper, rows, draws = as_arrays((dict(model.hyper), _new_rows(model, data), draws_of(source)))
        found = _average(algebra, hyper, rows, draws, given)
        total, probs, steps = (np.asarray(leaf, dtype=np.float64) for leaf in found)
        _refuse_impossible(total)
        paths, log_prob = _best_paths(algebra, hyper, side_by_side(rows), draws, 1, given)
    there = _within(rows)
    length = there.shape[1]
    values = {
        "probs": np.where(there[..., None], probs[:, :length], np.nan),
        "assignment": np.where(there, probs[:, :length].argmax(-1), -1),
        "viterbi": np.where(there, paths[0, :, :length], -1),
        "viterbi_log_prob": log_prob[0],
        "log_density": total,
        "step_log_density": np.where(there, steps[:, :length], np.nan),
    }
    return _with_dims(model, values)


def decode(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    how: str = "viterbi",
    num_paths: int = 1,
    seed: int = 0,
    precision: int = 64,
    fitted: bool | None = None,
) -> xr.Dataset:
    """Paths of states through every sequence: ``states`` (path, row, time), −1 beyond the end, and ``log_prob`` (path, row).

    ``how`` is "viterbi", the most probable path; "max_prob_tag", the most probable state of every step; "k_best", the
    ``num_paths`` most probable paths; or "sample", so many drawn from p(path | x). ``log_prob`` is log p(path | x), averaged
    over the draws of a result, at most `SCORED` of them; −∞ for an impossible path. The best paths of a posterior are looked
    for among those of `CANDIDATES` draws. ``fitted`` as in `states`. Raises `ZooError` for an unknown ``how``, and for a
    sequence of probability 0.
    """
    algebra = require_sequential(model)
    if how not in HOW:
        raise ZooError(f"how={how!r} is not one of {', '.join(HOW)}")
    if isinstance(num_paths, bool) or not isinstance(num_paths, int) or num_paths < 1:
        raise ZooError(f"num_paths must be a whole number above 0, got {num_paths!r}")
    if num_paths > 1 and how not in ("sample", "k_best"):
        raise ZooError(f"how={how} is one path; num_paths={num_paths} is for sample and k_best")
    check_seed(seed)
    given = _which_fitted(model, source, data, fitted)
    with x64(precision):
        hyper, rows, draws = as_arrays((dict(model.hyper), side_by_side(_new_rows(model, data)), draws_of(source)))
        total, probs, _ = (np.asarray(leaf) for leaf in _average(algebra, hyper, rows, draws, given))
        _refuse_impossible(total)
        if how in ("viterbi", "k_best"):
            paths, log_prob = _best_paths(algebra, hyper, rows, draws, num_paths, given)
        else:
            drawn = how == "sample"
            paths = _drawn_paths(algebra, hyper, rows, draws, num_paths, seed, given) if drawn else probs.argmax(-1)[None]
            log_prob = _log_probs(algebra, hyper, rows, _some(draws, SCORED), paths, given)
    there = _within(rows)
    kept = np.where(there[None], paths[:, :, : there.shape[1]], -1)
    return _with_dims(model, {"states": kept, "log_prob": log_prob}, ("path",)).assign_coords(path=np.arange(len(paths)))


def stepwise(model: Model, tree: xr.DataTree, data: Any) -> xr.DataTree:
    """A copy of a result whose ``log_likelihood`` is log p(x_t | x_1 … x_{t−1}, θ) of every step, for `arviz.loo` over time.

    The group has the dimensions (chain, draw, row), a row for every step of all sequences, with ``sequence`` and ``time``. Of
    the last step it is also that the boundary follows. What is left out is the term of a step: the step itself stays among
    what the later ones are given, so that elpd is on the scale of forecasts one step ahead, made by parameters that have seen
    what came later. Real forecasts leave all of that out (Bürkner, Gabry and Vehtari 2020). Raises `ZooError` for a result
    without draws.
    """
    algebra = require_sequential(model)
    if "posterior" not in tree:
        raise ZooError("stepwise needs the draws of a result; predict(…)['step_log_density'] is of a point")
    posterior = {str(name): np.asarray(value) for name, value in tree["posterior"].to_dataset().data_vars.items()}
    shape = next(iter(posterior.values())).shape[:2]
    with x64(int(tree.attrs.get("precision", 64))):
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in posterior.items()}
        hyper, rows, draws = as_arrays((dict(model.hyper), model.rows(data), flat))
        found = np.asarray(_step_densities(algebra, hyper, rows, draws))  # (draws, N, L)
    length = np.asarray(rows.length)
    sequence, time = np.nonzero(np.arange(found.shape[2])[None, :] < length[:, None])
    values = found[:, sequence, time].reshape(*shape, -1)
    coords = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
        "row": np.arange(values.shape[2]),
        "sequence": ("row", sequence),
        "time": ("row", time + 1),
    }
    copied = tree.copy()
    copied["log_likelihood"] = xr.DataTree(xr.Dataset({"x": (("chain", "draw", "row"), values)}, coords=coords))
    return copied


def _new_rows(model: Model, data: Any) -> Pytree:
    """Rows without their labels, of a length that others share."""
    return padded(model.rows(forget_labels(model, data)))


def _within(rows: Pytree) -> np.ndarray:
    """(N, L): which steps there are, of the longest sequence."""
    length = np.asarray(rows.length)
    return np.asarray(np.arange(length.max())[None, :] < length[:, None])


def _which_fitted(model: Model, source: xr.DataTree | Sites, data: Any, fitted: bool | None) -> np.ndarray:
    """(N,): which sequences the draws are given. Unless the user says so, those of the data of the result, no less and no
    more, without those of weight 0.
    """
    theirs = model.read(data)
    steps = steps_of(theirs)
    every = np.ones(len(steps.starts) - 1, bool)
    if fitted is not None or not (isinstance(source, xr.DataTree) and "posterior" in source and "observed_data" in source):
        return every & bool(fitted)
    own = data_of(source)
    others = steps_of(own)
    same = (
        np.array_equal(steps.starts, others.starts)
        and steps.table.columns == others.table.columns
        and steps.table.categories == others.table.categories
        and np.array_equal(steps.table.x, others.table.x, equal_nan=True)
    )
    if own.weight is None or not same:
        return every & same
    return np.asarray(own.weight if isinstance(own.x, Sequences) else own.weight[steps.starts[:-1]]) > 0


def _with_dims(model: Model, values: Mapping[str, np.ndarray], lead: tuple[str, ...] = ()) -> xr.Dataset:
    """Arrays by (row, time, state), as many as they have, after ``lead``."""
    dims = (*lead, *model.dims[model.reports])
    coords = {dim: model.coords.get(dim) for dim in dims}
    variables = {name: (dims[: value.ndim], value) for name, value in values.items()}
    sizes = {dim: size for names, value in variables.values() for dim, size in zip(names, value.shape, strict=True)}
    labels = {dim: list(coords[dim] or range(size))[:size] for dim, size in sizes.items()}
    # Sequences that are longer than any that the model was built on have more steps than names.
    return xr.Dataset(
        variables,
        coords={dim: names if len(names) == sizes[dim] else np.arange(1, sizes[dim] + 1) for dim, names in labels.items()},
    )


def side_by_side(rows: Pytree) -> Pytree:
    """The same sequences, a path through each of which is read by itself."""
    return rows._replace(packing=None)


def _refuse_impossible(log_density: np.ndarray) -> None:
    finite = np.isfinite(log_density)
    if not finite.all():
        raise ZooError(
            f"sequence {int(np.argmin(finite)) + 1} has probability 0: no path of states can emit it, for it has a symbol "
            "never seen, or a step that never happened; under prior=default nothing is impossible"
        )


def _some(draws: Sites, most: int) -> dict[str, Array]:
    """At most so many of the draws, evenly spread."""
    size = len(next(iter(draws.values())))
    return {name: leaf[spread(size, most)] for name, leaf in draws.items()}


def _local(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Pytree) -> Filtered:
    found: Filtered = algebra.local(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    return found


@partial(jax.jit, static_argnames=("algebra",))
def _average(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, given: Array) -> tuple[Array, Array, Array]:
    """(log mean density (N,), state probabilities (N, L, S) and log densities of steps (N, L)), averaged over draws.

    ``given`` (N,): sequences for which every draw counts alike.
    """
    number = jax.tree.leaves(draws)[0].shape[0]

    def at(sites: Sites) -> tuple[Array, ...]:
        def block(rows: Pytree) -> tuple[Array, ...]:
            local = _local(algebra, hyper, sites, rows)
            until = jnp.cumsum(row_by_row(local.chain.lanes, local.density), axis=1)
            probs = chain.report(chain.mean(jax.random.PRNGKey(0), local))
            return chain.log_partition(local), probs, until

        return block_map(block, rows)

    def one(sums: tuple[Array, ...], inputs: tuple[Array, Sites]) -> tuple[tuple[Array, ...], None]:
        index, sites = inputs
        log_density, probs, until = at(sites)
        total = jnp.logaddexp(sums[0], log_density)
        share = jnp.where(total > -jnp.inf, jnp.exp(log_density - total), 0.0)
        share = jnp.where(given, 1 / (index + 1), share)[:, None, None]
        return (total, sums[1] + share * (probs - sums[1]), jnp.logaddexp(sums[2], until)), None

    shapes = jax.eval_shape(lambda: at(jax.tree.map(lambda leaf: leaf[0], draws)))
    none = [jnp.full(shape.shape, fill, shape.dtype) for shape, fill in zip(shapes, (-jnp.inf, 0.0, -jnp.inf), strict=True)]
    (total, probs, until), _ = jax.lax.scan(one, tuple(none), (jnp.arange(number), draws))
    return total - jnp.log(number), probs, jnp.diff(until - jnp.log(number), axis=1, prepend=0.0)


@partial(jax.jit, static_argnames=("algebra",))
def _step_densities(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites) -> Array:
    """(draws, N, L); what the boundary says is of the last step."""

    def one(sites: Sites) -> Array:
        known = _local(algebra, hyper, sites, rows)
        steps = row_by_row(known.chain.lanes, known.density)
        last = jnp.arange(steps.shape[1])[None, :] == rows.length[:, None] - 1
        return steps + jnp.where(last, known.end[:, None], 0.0)

    return jax.lax.map(one, draws)


# ---------------------------------------------------------------------------------------------------------------------
# Paths


def _best_paths(
    algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, number: int, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(paths (number, N, L), log p(path | x) (number, N)): the best among the best of some draws, the best first."""
    found = np.asarray(_candidates(algebra, number, hyper, rows, _some(draws, CANDIDATES)))  # (candidates, N, L)
    worth = _log_probs(algebra, hyper, rows, _some(draws, SCORED), found, given)
    paths, values = [], []
    for n in range(found.shape[1]):
        _, first = np.unique(found[:, n], axis=0, return_index=True)  # a path that several draws propose counts once
        # Paths that are as probable as each other come in the order of their states, however their sums were rounded.
        order = first[np.argsort(-worth[first, n].round(TIED), kind="stable")][:number]
        order = np.append(order, np.repeat(order[:1], number - len(order)))  # fewer paths than asked for: the best again,
        paths.append(found[order, n])
        values.append(np.where(np.arange(number) < len(first), worth[order, n], -np.inf))  # with probability 0
    return np.stack(paths, axis=1), np.stack(values, axis=1)


@partial(jax.jit, static_argnames=("algebra", "number"))
def _candidates(algebra: Algebra, number: int, hyper: Hyper, rows: Pytree, draws: Sites) -> Array:
    """(draws · number, N, L)."""

    def one(sites: Sites) -> Array:
        local = _local(algebra, hyper, sites, rows).chain
        paths = k_best(local, number)[0] if number > 1 else viterbi(local)[0][None]
        return jnp.where(within(local)[None], paths, 0)

    found = jax.lax.map(one, draws)  # (draws, number, L, N)
    return jnp.swapaxes(found.reshape(-1, *found.shape[2:]), 1, 2)


def _log_probs(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, paths: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Log p(path | x) over the draws: (paths, N), for paths (paths, N, L)."""
    return np.asarray(_log_probs_of_paths(algebra, hyper, rows, draws, np.swapaxes(paths, 1, 2), given))


@partial(jax.jit, static_argnames=("algebra",))
def _log_probs_of_paths(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, paths: Array, given: Array) -> Array:
    """(paths, N), of paths (paths, L, N). Their probabilities sum to one, whatever the draws: p(x) is of the same ones."""

    def one(sites: Sites) -> tuple[Array, Array]:
        local = _local(algebra, hyper, sites, rows)
        joint = jax.lax.map(lambda states: chain.energy(path_of(local.chain, states), local), paths)
        return joint, chain.log_partition(local)

    joint, total = jax.lax.map(one, draws)  # (draws, paths, N), (draws, N)
    overall = jnp.where(given, total + jnp.log(len(total)), jax.nn.logsumexp(total, axis=0))[:, None, :]
    return jax.nn.logsumexp(jnp.where(joint > -jnp.inf, joint - overall, -jnp.inf), axis=0)


@partial(jax.jit, static_argnames=("algebra", "number"))
def _drawn(algebra: Algebra, number: int, hyper: Hyper, rows: Pytree, draws: Sites, key: Array, given: Array) -> Array:
    """(number, L, N): each path of each row from a draw of θ of its own, chosen by p(x | θ), or any if that chose the draws."""
    log_density = jax.lax.map(lambda sites: chain.log_partition(_local(algebra, hyper, sites, rows)), draws)  # (draws, N)
    log_density = jnp.where(given, 0.0, log_density)

    def one(key: Array) -> Array:
        key_theta, key_z = jax.random.split(key)
        chosen = jax.random.categorical(key_theta, log_density, axis=0)  # (N,)

        def at(row: tuple[Array, Array, Pytree]) -> Array:
            key, place, own = row
            sites = {name: leaf[place] for name, leaf in draws.items()}
            return sample_states(key, _local(algebra, hyper, sites, jax.tree.map(lambda leaf: leaf[None], own)))[:, 0]

        return jax.lax.map(at, (jax.random.split(key_z, len(chosen)), chosen, rows)).T

    return jax.lax.map(one, jax.random.split(key, number))


def _drawn_paths(
    algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, number: int, seed: int, given: np.ndarray
) -> np.ndarray:
    """(number, N, L)."""
    return np.swapaxes(np.asarray(_drawn(algebra, number, hyper, rows, draws, jax.random.PRNGKey(seed), given)), 1, 2)
