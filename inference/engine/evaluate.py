"""Log joint, log-likelihood per row, functionals and latents at given sites, by the same code for every method."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from inference.engine.program import trace_point
from inference.engine.sweep import block_size, num_rows, responsibilities, weighted_sum
from inference.runtime.programs import cached_jit
from models.algebra import is_sequential, log_prior
from models.base import Algebra, Hyper, Model, Pytree, Sites, Stats
from models.rows.encoded import spread
from models.rows.row_info import row_info

STORED = 5e7  # numbers stored of draws × rows, of log-likelihoods and of data drawn; beyond it, evenly thinned draws
SUBSET = 1000  # rows on which draws are relabelled
DRAWS_AT_ONCE = 8  # draws evaluated at a time, on blocks with that many times fewer rows: their products with rows become one
PART = 2**16  # rows on the device at a time, where they stay on the host; a multiple of `block_size`
WHOLE = 100_000  # beyond so many cells in one block, draws are evaluated one by one


class Evaluation(NamedTuple):
    """Quantities evaluated at S draws: per draw those that do not depend on labels, and latents averaged over the draws."""

    log_joint: np.ndarray  # (S,)
    log_likelihood: np.ndarray  # (S // thin, N), of every ``thin``-th draw
    thin: int
    functionals: dict[str, np.ndarray]  # (S, ...), with log_joint, log_likelihood (total) and entropy
    latents: np.ndarray | None  # (N, ...): E[z_n], averaged over the draws
    by_site: dict[str, np.ndarray]  # of a program: observed site -> log-likelihoods (S // thin, ...) in the shape of the site
    share: np.ndarray | None  # (S, K): expected share of the rows in each component; None: not one component per row


class Static(NamedTuple):
    """The hashable part of a model for evaluation."""

    algebra: Algebra | None
    spec: Callable[..., Any]
    functionals: Callable[..., dict[str, Array]]


def static_of(model: Model) -> Static:
    return Static(model.algebra, model.spec, model.summaries.functionals)


def point(
    static: Static,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    rows: Pytree,
    sites: Sites,
    dtype: Any = None,
    size: int | None = None,
) -> dict[str, Any]:
    """Log prior, and per row log-likelihood, E[z] and entropy, at one θ: by the algebra, or from the program alone."""
    if static.algebra is None:
        return trace_point(static.spec, hyper, rows, sites)
    T = static.algebra.natural(hyper, sites)
    by_row = responsibilities(static.algebra, hyper, T, rows, dtype, size)
    return {"log_prior": log_prior(static.algebra, prior, T)} | by_row


def draws_at_once(static: Static, draws: Sites, rows: Pytree) -> int:
    """The number of draws evaluated at a time: a divisor of their number.

    One for a program, which sees all rows at once, and for rows that are one large block, as packed sequences are.
    """
    size, cells = int(jax.tree.leaves(draws)[0].shape[0]), jax.tree.leaves(rows)[0].size
    alone = static.algebra is None or (row_info(rows).atomic and cells > WHOLE)
    return 1 if alone else max(d for d in range(1, min(size, DRAWS_AT_ONCE) + 1) if size % d == 0)


def in_groups(draws: Sites, group: int) -> Sites:
    """Draws (S, ...) as (S // group, group, ...)."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] // group, group, *leaf.shape[1:]), draws)


@cached_jit(static_argnames=("static",))
def _latents(
    static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, picked: ArrayLike, draws: Sites
) -> Array | None:
    def one(sites: Sites) -> Array | None:
        latents = point(static, hyper, prior, rows, sites)["latents"]
        return None if latents is None else latents.reshape(-1, latents.shape[-1])[jnp.asarray(picked)]

    return jax.lax.map(one, draws)


def _summaries(
    static: Static, hyper: Hyper, weight: Array | None, at: dict[str, Any], few: Array | None, sites: Sites
) -> dict[str, Any]:
    """The sums and averages of `point` over all rows at one θ; ``few`` are the latents at the probe rows."""
    latent = None if static.algebra is None else static.algebra.latent
    one_per_row = latent is not None and latent.unit == "row" and latent.values != "real"
    log_likelihoods = at["log_likelihood"]
    log_likelihood = log_likelihoods.sum() if weight is None else weighted_sum(weight, log_likelihoods)
    functionals = dict(static.functionals(hyper, sites, few))
    if at["entropy"] is not None:
        functionals["entropy"] = jnp.average(at["entropy"], weights=weight)
    share = jnp.average(at["latents"].astype(log_likelihoods.dtype), axis=0, weights=weight) if one_per_row else None
    return {
        "share": share,
        "log_joint": at["log_prior"] + log_likelihood,
        "rows": at["log_likelihood"],
        "by_site": at.get("by_site", {}),
        "functionals": {"log_likelihood": log_likelihood} | functionals,
    }


@cached_jit(static_argnames=("static",))
def _part(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, sites: Sites) -> dict[str, Any]:
    return point(static, hyper, prior, rows, sites, jnp.float32)


@cached_jit(static_argnames=("static",))
def _summaries_of_parts(
    static: Static,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    weight: Array | None,
    at: dict[str, Any],
    probe_rows: Pytree,
    sites: Sites,
) -> dict[str, Any]:
    return _summaries(static, hyper, weight, at, point(static, hyper, prior, probe_rows, sites)["latents"], sites)


def evaluate_in_parts(
    model: Model, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, sites: Mapping[str, np.ndarray]
) -> Evaluation:
    """`evaluate` at one point (1, ...) for rows on the host, of which at most `PART` at a time are on the device."""
    total, static = num_rows(rows), static_of(model)
    if total <= PART or row_info(rows).atomic:
        return evaluate(model, hyper, prior, jax.tree.map(jnp.asarray, rows), sites)
    theta = jax.device_put({name: leaf[0] for name, leaf in sites.items()})
    parts = []
    for first in range(0, total, PART):
        begin = min(first, total - PART)  # the last part slides back, so that all share a compilation
        part = jax.tree.map(lambda leaf, begin=begin: leaf[begin : begin + PART], rows)
        evaluated = _part(static, hyper, prior, part, theta)
        log_prior = evaluated.pop("log_prior")
        parts.append(jax.tree.map(lambda leaf, over=first - begin: np.asarray(leaf)[over:], evaluated))
    at = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts) | {"log_prior": log_prior}
    few = jax.tree.map(lambda leaf: leaf[model.summaries.probe_rows(total)], rows)
    out = _summaries_of_parts(static, hyper, prior, row_info(rows).weight, at, few, theta)
    out = jax.tree.map(lambda leaf: np.asarray(leaf)[None], out)
    functionals = {"log_joint": out["log_joint"]} | out["functionals"]
    return Evaluation(out["log_joint"], out["rows"], 1, functionals, at["latents"], out["by_site"], out["share"])


@cached_jit(static_argnames=("static",))
def _chunk(
    static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, probe_rows: ArrayLike, draws: Sites
) -> dict[str, Any]:
    """One chunk of draws: per draw the log joint, log-likelihoods and functionals; latents summed over the draws."""
    weight = row_info(rows).weight
    group = draws_at_once(static, draws, rows)

    def one(sites: Sites) -> tuple[Array | None, dict[str, Any]]:
        at = point(static, hyper, prior, rows, sites, jnp.float32, block_size() // group)
        return at["latents"], _summaries(static, hyper, weight, at, at_probe_rows(at["latents"], sites), sites)

    def at_probe_rows(latents: Array | None, sites: Sites) -> Array | None:
        if latents is None or static.algebra is None:
            return None if latents is None else latents[jnp.asarray(probe_rows)]
        few = jax.tree.map(lambda leaf: leaf[jnp.asarray(probe_rows)], rows)
        return point(static, hyper, prior, few, sites)["latents"]

    if jax.tree.leaves(draws)[0].shape[0] == 1:  # a point: no second N × K array to sum into
        latents, out = one(jax.tree.map(lambda leaf: leaf[0], draws))
        return jax.tree.map(lambda leaf: leaf[None], out) | {"latents": jnp.zeros(()) if latents is None else latents}

    def accumulate(total: Array, sites: Sites) -> tuple[Array, dict[str, Any]]:
        latents, out = jax.vmap(one)(sites)
        return (total if latents is None else total + latents.sum(0)), out

    shape = jax.eval_shape(lambda: one(jax.tree.map(lambda leaf: leaf[0], draws))[0])
    start = jnp.zeros(()) if shape is None else jnp.zeros(shape.shape)
    total, out = jax.lax.scan(accumulate, start, in_groups(draws, group))
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * group, *leaf.shape[2:]), out) | {"latents": total}


def evaluate(
    model: Model,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    rows: Pytree,
    draws: Mapping[str, np.ndarray],
    chain_length: int | None = None,
    at_draws: np.ndarray | None = None,
) -> Evaluation:
    """Evaluate the model at S draws of its sites (S, ...), in chunks of draws that keep memory flat.

    The draws are chains of ``chain_length`` one after another (one chain by default), and each chain is thinned from its start.
    ``at_draws`` (S,) is the log prior that the sampler computed at its draws. It is used where a site has underflowed: a
    probability of exp(−1000) is stored as 0, whose logarithm is lost.
    """
    size = len(next(iter(draws.values())))
    total_rows = row_count(model, hyper, prior, rows, draws)
    rows = jax.tree.map(jnp.asarray, rows)  # once, and not for every chunk
    thin = thinning(size * total_rows)
    chunk = _chunk_size(size, int(np.clip(2**24 // total_rows, 1, 256)))
    probe_rows = model.summaries.probe_rows(total_rows)
    parts, latents = [], None
    for first in range(0, size, chunk):
        piece = jax.device_put({name: leaf[first : first + chunk] for name, leaf in draws.items()})
        out = _chunk(static_of(model), hyper, prior, rows, probe_rows, piece)
        total = np.asarray(out.pop("latents"))
        latents = total if latents is None else latents + total
        out = jax.tree.map(np.asarray, out)
        place = (first + np.arange(len(out["rows"]))) % (chain_length or size)
        stored = place % thin == 0
        thinned = {name: leaf[stored] for name, leaf in out["by_site"].items()}
        parts.append(out | {"rows": out["rows"][stored], "by_site": thinned})
    merged = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    assert latents is not None
    log_joint = merged["log_joint"]
    if at_draws is not None:
        log_joint = np.where(underflowed(draws), at_draws + merged["functionals"]["log_likelihood"], log_joint)
    functionals = {"log_joint": log_joint} | merged["functionals"]
    mean = (latents if size == 1 else latents / size) if latents.ndim else None
    return Evaluation(log_joint, merged["rows"], thin, functionals, mean, merged["by_site"], merged["share"])


def thinning(numbers: int) -> int:
    """The step by which draws are thinned, so that of so many ``numbers`` in all at most `STORED` remain."""
    return int(np.ceil(numbers / STORED))


def underflowed(draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """(S,): whether an entry of a site is below the smallest normal number, so that digits of it are lost."""
    small = [np.abs(leaf) < np.finfo(leaf.dtype).tiny for leaf in map(np.asarray, draws.values())]
    return np.any([leaf.reshape(len(leaf), -1).any(1) for leaf in small], axis=0)


def row_count(model: Model, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Mapping[str, np.ndarray]) -> int:
    """N, the number of rows, or of observations of a program."""
    if model.algebra is not None:
        return num_rows(rows)
    one = {name: jnp.asarray(leaf[0]) for name, leaf in draws.items()}
    return int(jax.eval_shape(lambda: point(static_of(model), hyper, prior, rows, one))["log_likelihood"].shape[0])


def _chunk_size(size: int, largest: int) -> int:
    """A number of draws near ``largest`` that divides ``size``, if there is one, so that all chunks share one compilation."""
    divisors = [d for d in range(1, min(size, largest) + 1) if size % d == 0]
    return divisors[-1] if 4 * divisors[-1] >= min(size, largest) else largest


def latents_of_draws(
    model: Model,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    rows: Pytree,
    draws: Mapping[str, np.ndarray],
    most: int = SUBSET,
) -> np.ndarray | None:
    """E[z_n] per draw on at most ``most`` evenly spread rows: (S, n, K) float32, or None where a program hides its latents.

    Where rows have several latents, as the steps of a sequence, ``most`` counts these.
    """
    picked = spread(row_count(model, hyper, prior, rows, draws), most)
    # A program's arguments need not be rows: it is evaluated whole, draw by draw, and its result is picked from.
    some = rows if model.algebra is None else jax.tree.map(lambda leaf: np.asarray(leaf)[picked], rows)
    size = len(next(iter(draws.values())))
    places = picked
    if model.algebra is not None:
        all_places = places_of(model, some)
        places = all_places[spread(len(all_places), most)]
    parts = []
    chunk = _chunk_size(size, 512)
    for first in range(0, size, chunk):
        piece = jax.device_put({name: leaf[first : first + chunk] for name, leaf in draws.items()})
        out = _latents(static_of(model), hyper, prior, some, places, piece)
        if out is None:
            return None
        parts.append(np.asarray(out, dtype=np.float32))
    return np.concatenate(parts)


def num_latents(model: Model, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Mapping[str, np.ndarray]) -> int:
    """The number of latents: one per row, or one per step of all sequences."""
    return row_count(model, hyper, prior, rows, draws) if model.algebra is None else len(places_of(model, rows))


def places_of(model: Model, rows: Pytree) -> np.ndarray:
    """Places of the latents, row after row; steps beyond the end of a sequence have none."""
    if not is_sequential(model):
        return np.arange(num_rows(rows))
    length = np.asarray(rows.length)
    return np.flatnonzero(np.arange(jax.tree.leaves(rows.x)[0].shape[1])[None, :] < length[:, None])
