"""Decoding of sequences: states of steps, whole paths, and how surprising each step is.

There are two kinds of decoding (document 002): the most probable state of each step (``assignment``, which gets most steps
right), and the most probable path as a whole (``viterbi``, which gets most sequences right and never makes an impossible
step). Both are averaged over the draws θ_s of a posterior. For new sequences x, the draws are reweighted by p(x | θ_s); the
fitted sequences weight all draws equally (`inference.results.draws`). This matters for one long sequence: reweighting it would
leave only a few draws.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.engine.driver import num_cores
from inference.engine.sweep import block_map
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.methods.options import check_seed
from inference.results.averages import AtDraw, averaged
from inference.results.draws import draws_of, fitted_rows, forget_labels, log_weight, thinned
from models.algebra import has_paths
from models.base import Algebra, Hyper, Model, Pytree, Sites, ZooError
from models.chains.compiled.paths import best_paths
from models.chains.emitting import path_part
from models.chains.latent import Chain, Filtered, chain, k_best, path_of, sample_states, viterbi, within
from models.chains.padding import padded
from models.data.arguments import require_whole
from models.rows.packing import row_by_row

CANDIDATES = 20  # draws, evenly spread, whose best paths are compared
SCORED = 200  # draws, evenly spread, over which the probability of a path is averaged
TIED = 9  # decimals to which log probabilities of paths are compared
HOW = ("viterbi", "max_prob_tag", "sample", "k_best")


def require_sequential(model: Model) -> Algebra:
    """The algebra of a model of sequences of states; raises `ZooError` for other models."""
    require_model(model)
    if model.algebra is None or not has_paths(model):
        raise ZooError(f"{model.name} has no states that follow each other, so it has no paths to decode")
    return model.algebra


def states(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    fitted: bool | np.ndarray | None = None,
) -> xr.Dataset:
    """Predictions of `inference.predict` for sequences, averaged over the draws of a result, or at a dict of sites.

    - ``probs`` (row, time, state): p(z_t = i | x); ``assignment`` (row, time): the most probable state of each step
    - ``viterbi`` (row, time): the most probable path; ``viterbi_log_prob`` (row): log p(path | x)
    - ``log_density`` (row): log p(x); ``step_log_density`` (row, time): log p(x_t | x_1 … x_{t−1}). The steps sum to
      ``log_density``, except for the stop at the boundary

    Beyond the end of a sequence, states are −1 and the rest is NaN. ``fitted`` is whether the sequences are the fitted ones: a
    bool, or one per sequence; by default they are if the data equal the result's. Densities always treat a sequence as new.
    Raises `ZooError` for a sequence with probability 0.
    """
    algebra = require_sequential(model)
    data = forget_labels(model, data)
    given = fitted_rows(model, source, data, fitted)
    with x64(64):
        hyper, rows, draws = as_arrays((dict(model.hyper), _new_rows(model, data), draws_of(model, source)))
        averages = _average(algebra, hyper, rows, draws, given)
        total, probs, steps = (np.asarray(leaf, dtype=np.float64) for leaf in averages)
        _require_possible(total)
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
    fitted: bool | np.ndarray | None = None,
) -> xr.Dataset:
    """Paths of states through every sequence.

    Returns a Dataset with ``states`` (path, row, time), −1 beyond the end of a sequence, and ``log_prob`` (path, row) =
    log p(path | x), −∞ for an impossible path. ``how`` is one of

    - "viterbi": the most probable path
    - "max_prob_tag": the most probable state of each step
    - "k_best": the ``num_paths`` most probable paths
    - "sample": ``num_paths`` draws from p(path | x), from ``seed``

    For a posterior, probabilities are averaged over at most `SCORED` draws, and the best paths are sought among the best paths
    of `CANDIDATES` draws. ``fitted`` is whether the sequences are the fitted ones: a bool, or one per sequence; by default they
    are if the data equal the result's. Raises `ZooError` for a model without sequences, an unknown ``how``, and a
    sequence with probability 0.

    >>> data = load_data("ice_cream")
    >>> model = MODELS["hmm"](data, num_states=2)
    >>> decode(model, fit(model, data, "em"), data, how="k_best", num_paths=3)["states"].dims
    ('path', 'row', 'time')
    """
    algebra = require_sequential(model)
    if how not in HOW:
        raise ZooError(f"how={how!r} is not one of {', '.join(HOW)}")
    require_whole("num_paths", num_paths)
    if num_paths > 1 and how not in ("sample", "k_best"):
        raise ZooError(f"how={how} is one path; num_paths={num_paths} goes with how=sample or how=k_best")
    check_seed(seed)
    data = forget_labels(model, data)
    given = fitted_rows(model, source, data, fitted)
    with x64(64):
        hyper, rows, draws = as_arrays((dict(model.hyper), side_by_side(_new_rows(model, data)), draws_of(model, source)))
        total, probs, _ = (np.asarray(leaf) for leaf in _average(algebra, hyper, rows, draws, given))
        _require_possible(total)
        if how in ("viterbi", "k_best"):
            paths, log_prob = _best_paths(algebra, hyper, rows, draws, num_paths, given)
        else:
            drawn = how == "sample"
            paths = _drawn_paths(algebra, hyper, rows, draws, num_paths, seed, given) if drawn else probs.argmax(-1)[None]
            log_prob = _log_probs(algebra, hyper, rows, thinned(draws, SCORED), paths, given)
    there = _within(rows)
    filled = np.where(there[None], paths[:, :, : there.shape[1]], -1)
    return _with_dims(model, {"states": filled, "log_prob": log_prob}, ("path",)).assign_coords(path=np.arange(len(paths)))


def _new_rows(model: Model, data: Any) -> Pytree:
    """Rows padded to a common length, so that new data mostly share a compilation."""
    return padded(model.rows(data))


def _within(rows: Pytree) -> np.ndarray:
    """(N, L): which steps exist; L is the length of the longest sequence."""
    length = np.asarray(rows.length)
    return np.asarray(np.arange(length.max())[None, :] < length[:, None])


def _with_dims(model: Model, values: Mapping[str, np.ndarray], lead: tuple[str, ...] = ()) -> xr.Dataset:
    """Arrays with the dimensions ``lead``, then as many of (row, time, state) as they have."""
    dims = (*lead, *model.naming.dims[model.naming.reports])
    coords = {dim: model.naming.coords.get(dim) for dim in dims}
    variables = {name: (dims[: value.ndim], value) for name, value in values.items()}
    sizes = {dim: size for names, value in variables.values() for dim, size in zip(names, value.shape, strict=True)}
    labels = {dim: list(coords[dim] or range(size))[:size] for dim, size in sizes.items()}
    # A sequence longer than all that the model was built on has more steps than names.
    return xr.Dataset(
        variables,
        coords={dim: names if len(names) == sizes[dim] else np.arange(1, sizes[dim] + 1) for dim, names in labels.items()},
    )


def side_by_side(rows: Pytree) -> Pytree:
    """The same sequences without packing, so that a path through each can be read by itself."""
    return rows._replace(packing=None)


def _require_possible(log_density: np.ndarray) -> None:
    finite = np.isfinite(log_density)
    if not finite.all():
        raise ZooError(
            f"sequence {int(np.argmin(finite)) + 1} has probability 0: it has a symbol or a transition that the fit never saw. "
            "Under prior=default nothing is impossible"
        )


def local_of(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Pytree) -> Filtered:
    result: Filtered = path_part(algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows)))
    return result


@partial(jax.jit, static_argnames=("algebra",))
def _average(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, given: Array) -> tuple[Array, Array, Array]:
    """(log mean density (N,), state probabilities (N, L, S) and log densities of steps (N, L)), averaged over draws.

    ``given`` (N,): which sequences are fitted.
    """

    def at(sites: Sites) -> AtDraw:
        def block(rows: Pytree) -> AtDraw:
            local = local_of(algebra, hyper, sites, rows)
            until = jnp.cumsum(row_by_row(local.chain.packing, local.density), axis=1)
            probs = chain.reported.part(chain.mean(jax.random.PRNGKey(0), local))
            return AtDraw(chain.log_partition(local), values=(probs,), log_values=(until,))

        result: AtDraw = block_map(block, rows)
        return result

    result = averaged(at, draws, given)
    return result.log_density, result.values[0], jnp.diff(result.log_values[0], axis=1, prepend=0.0)


# ---------------------------------------------------------------------------------------------------------------------
# Paths


def _best_paths(
    algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, number: int, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(paths (number, N, L), log p(path | x) (number, N)): the best among the best of some draws, the best first."""
    candidates = _candidates(algebra, number, hyper, rows, thinned(draws, CANDIDATES))  # (candidates, N, L)
    worth = _log_probs(algebra, hyper, rows, thinned(draws, SCORED), candidates, given)
    paths, values = [], []
    for n in range(candidates.shape[1]):
        _, first = np.unique(candidates[:, n], axis=0, return_index=True)  # a path proposed by several draws counts once
        # Equally probable paths come in the order of their states, so that rounding does not decide.
        order = first[np.argsort(-worth[first, n].round(TIED), kind="stable")][:number]
        order = np.append(order, np.repeat(order[:1], number - len(order)))  # fewer paths than requested: repeat the best,
        paths.append(candidates[order, n])
        values.append(np.where(np.arange(number) < len(first), worth[order, n], -np.inf))  # with probability 0
    return np.stack(paths, axis=1), np.stack(values, axis=1)


def _candidates(algebra: Algebra, number: int, hyper: Hyper, rows: Pytree, draws: Sites) -> np.ndarray:
    """The ``number`` best paths of each draw: (draws · number, N, L). The single best on a CPU by compiled loops."""
    if number > 1 or jax.default_backend() != "cpu":
        return np.asarray(_k_best_of_draws(algebra, number, hyper, rows, draws))
    length, paths = np.asarray(rows.length), []
    for place in range(len(next(iter(draws.values())))):
        sites = {name: leaf[place] for name, leaf in draws.items()}
        start, step, stop, emission = map(np.asarray, _chain_at(algebra, hyper, sites, rows)[:4])
        paths.append(best_paths(start, step, stop, emission, length, num_cores()).state.T)
    return np.stack(paths)


@partial(jax.jit, static_argnames=("algebra",))
def _chain_at(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Pytree) -> Chain:
    return local_of(algebra, hyper, sites, rows).chain


@partial(jax.jit, static_argnames=("algebra", "number"))
def _k_best_of_draws(algebra: Algebra, number: int, hyper: Hyper, rows: Pytree, draws: Sites) -> Array:
    def one(sites: Sites) -> Array:
        local = local_of(algebra, hyper, sites, rows).chain
        paths = k_best(local, number)[0] if number > 1 else viterbi(local)[0][None]
        return jnp.where(within(local)[None], paths, 0)

    best = jax.lax.map(one, draws)  # (draws, number, L, N)
    return jnp.swapaxes(best.reshape(-1, *best.shape[2:]), 1, 2)


def _log_probs(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, paths: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Log p(path | x), averaged over the draws: (paths, N), for paths (paths, N, L)."""
    return np.asarray(_log_probs_of_paths(algebra, hyper, rows, draws, np.swapaxes(paths, 1, 2), given))


@partial(jax.jit, static_argnames=("algebra",))
def _log_probs_of_paths(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, paths: Array, given: Array) -> Array:
    """(paths, N), for paths (paths, L, N). p(x) uses the same draws, so the probabilities of all paths sum to one."""

    def one(sites: Sites) -> tuple[Array, Array]:
        local = local_of(algebra, hyper, sites, rows)
        joint = jax.lax.map(lambda states: chain.energy(path_of(local.chain, states), local), paths)
        return joint, chain.log_partition(local)

    joint, total = jax.lax.map(one, draws)  # (draws, paths, N), (draws, N)
    share = jax.nn.log_softmax(log_weight(given, total), axis=0)
    return jax.nn.logsumexp(jnp.where(joint > -jnp.inf, joint + (share - total)[:, None, :], -jnp.inf), axis=0)


@partial(jax.jit, static_argnames=("algebra", "number"))
def _drawn(algebra: Algebra, number: int, hyper: Hyper, rows: Pytree, draws: Sites, key: Array, given: Array) -> Array:
    """(number, L, N): each path of each row uses another draw of θ, chosen by p(x | θ), or uniformly for fitted rows."""
    log_density = jax.lax.map(lambda sites: chain.log_partition(local_of(algebra, hyper, sites, rows)), draws)  # (draws, N)
    log_weights = log_weight(given, log_density)

    def one(key: Array) -> Array:
        key_theta, key_z = jax.random.split(key)
        chosen = jax.random.categorical(key_theta, log_weights, axis=0)  # (N,)

        def at(row: tuple[Array, Array, Pytree]) -> Array:
            key, place, one_row = row
            sites = {name: leaf[place] for name, leaf in draws.items()}
            return sample_states(key, local_of(algebra, hyper, sites, jax.tree.map(lambda leaf: leaf[None], one_row)))[:, 0]

        return jax.lax.map(at, (jax.random.split(key_z, len(chosen)), chosen, rows)).T

    return jax.lax.map(one, jax.random.split(key, number))


def _drawn_paths(
    algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites, number: int, seed: int, given: np.ndarray
) -> np.ndarray:
    """Paths drawn from p(path | x): (number, N, L)."""
    return np.swapaxes(np.asarray(_drawn(algebra, number, hyper, rows, draws, jax.random.PRNGKey(seed), given)), 1, 2)
