"""The same yardstick for every method: log joint, log-likelihood a row, functionals and latents at given sites."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from inference.program import trace_point
from inference.sweep import BLOCK, num_rows, responsibilities, weighted_sum
from models.base import Algebra, Hyper, Model, Pytree, Sites, Stats, log_prior
from models.rows import spread

STORED = 5e7  # numbers kept of draws × rows of log-likelihood; beyond it, evenly thinned draws
SUBSET = 1000  # rows on which draws are relabelled
TOGETHER = 8  # draws evaluated at a time, on blocks of as many rows fewer: where rows enter by products, one large one
WHOLE = 100_000  # cells of rows in one block, from which draws are evaluated one by one


class Evaluation(NamedTuple):
    """At S draws: what does not depend on labels, and the latents averaged over the draws."""

    log_joint: np.ndarray  # (S,)
    log_likelihood: np.ndarray  # (S // thin, N), of every ``thin``-th draw
    thin: int
    functionals: dict[str, np.ndarray]  # (S, ...), with log_joint, log_likelihood (total) and entropy
    latents: np.ndarray | None  # (N, ...): E[z_n], averaged over the draws


class Static(NamedTuple):
    """The hashable half of a model that evaluation needs."""

    algebra: Algebra | None
    spec: Callable[..., Any]
    functionals: Callable[..., dict[str, Array]]


def static_of(model: Model) -> Static:
    return Static(model.algebra, model.spec, model.functionals)


def point(
    static: Static,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    rows: Pytree,
    sites: Sites,
    dtype: Any = None,
    block_size: int = BLOCK,
) -> dict[str, Any]:
    """Log prior, and per row log-likelihood, E[z] and entropy, at one θ: by the algebra, or from the program alone."""
    if static.algebra is None:
        return trace_point(static.spec, hyper, rows, sites)
    T = static.algebra.natural(hyper, sites)
    found = responsibilities(static.algebra, hyper, T, rows, dtype, block_size)
    return {"log_prior": log_prior(static.algebra, prior, T)} | found


def together(static: Static, draws: Sites, rows: Pytree) -> int:
    """How many draws are evaluated at a time: a divisor of their number; one where a program sees all rows at once.

    And where all rows are one large block, as sequences that lie together.
    """
    size, cells = int(jax.tree.leaves(draws)[0].shape[0]), jax.tree.leaves(rows)[0].size
    alone = static.algebra is None or (getattr(rows, "whole", False) and cells > WHOLE)
    return 1 if alone else max(d for d in range(1, min(size, TOGETHER) + 1) if size % d == 0)


def in_groups(draws: Sites, group: int) -> Sites:
    """Draws (S, ...) as (S // group, group, ...)."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] // group, group, *leaf.shape[1:]), draws)


@partial(jax.jit, static_argnames=("static",))
def _latents(
    static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, picked: ArrayLike, draws: Sites
) -> Array | None:
    def one(sites: Sites) -> Array | None:
        latents = point(static, hyper, prior, rows, sites)["latents"]
        return None if latents is None else latents.reshape(-1, latents.shape[-1])[jnp.asarray(picked)]

    return jax.lax.map(one, draws)


@partial(jax.jit, static_argnames=("static",))
def _chunk(
    static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, witnesses: ArrayLike, draws: Sites
) -> dict[str, Any]:
    """One chunk of draws: per draw the log joint, log-likelihoods and functionals; latents summed over the draws."""
    weight = getattr(rows, "weight", None)
    group = together(static, draws, rows)

    def one(sites: Sites) -> tuple[Array | None, dict[str, Any]]:
        at = point(static, hyper, prior, rows, sites, jnp.float32, BLOCK // group)
        each = at["log_likelihood"]
        log_likelihood = each.sum() if weight is None else weighted_sum(weight, each)
        functionals = dict(static.functionals(hyper, sites, witnessed(at["latents"], sites)))
        if at["entropy"] is not None:
            functionals["entropy"] = jnp.average(at["entropy"], weights=weight)
        out = {
            "log_joint": at["log_prior"] + log_likelihood,
            "rows": at["log_likelihood"],
            "functionals": {"log_likelihood": log_likelihood} | functionals,
        }
        return at["latents"], out

    def witnessed(latents: Array | None, sites: Sites) -> Array | None:
        if latents is None or static.algebra is None:
            return None if latents is None else latents[jnp.asarray(witnesses)]
        few = jax.tree.map(lambda leaf: leaf[jnp.asarray(witnesses)], rows)
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
) -> Evaluation:
    """Evaluate the model at S draws of its sites (S, ...), in chunks of draws that keep memory flat.

    The draws are chains of ``chain_length`` one after another (one chain by default): each is thinned from its own start.
    """
    size = len(next(iter(draws.values())))
    total_rows = row_count(model, hyper, prior, rows, draws)
    thin = int(np.ceil(size * total_rows / STORED))
    chunk = _chunk_size(size, int(np.clip(2**24 // total_rows, 1, 256)))
    witnesses = model.witnesses(total_rows)
    parts, latents = [], None
    for first in range(0, size, chunk):
        piece = {name: jnp.asarray(leaf[first : first + chunk]) for name, leaf in draws.items()}
        out = _chunk(static_of(model), hyper, prior, rows, witnesses, piece)
        total = np.asarray(out.pop("latents"))
        latents = total if latents is None else latents + total
        out = jax.tree.map(np.asarray, out)
        place = (first + np.arange(len(out["rows"]))) % (chain_length or size)
        parts.append(out | {"rows": out["rows"][place % thin == 0]})
    merged = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    assert latents is not None
    functionals = {"log_joint": merged["log_joint"]} | merged["functionals"]
    mean = (latents if size == 1 else latents / size) if latents.ndim else None
    return Evaluation(merged["log_joint"], merged["rows"], thin, functionals, mean)


def row_count(model: Model, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Mapping[str, np.ndarray]) -> int:
    """N: of the rows, or of what a program observes."""
    if model.algebra is not None:
        return num_rows(rows)
    one = {name: jnp.asarray(leaf[0]) for name, leaf in draws.items()}
    return int(jax.eval_shape(lambda: point(static_of(model), hyper, prior, rows, one))["log_likelihood"].shape[0])


def _chunk_size(size: int, largest: int) -> int:
    """A number of draws near ``largest`` that divides ``size``, so that all chunks share one compilation, if there is one."""
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

    Of rows with several latents, as the steps of a sequence, on so many of these.
    """
    picked = spread(row_count(model, hyper, prior, rows, draws), most)
    # A program's arguments need not be rows: it is evaluated whole, draw by draw, and its result is picked from.
    some = rows if model.algebra is None else jax.tree.map(lambda leaf: np.asarray(leaf)[picked], rows)
    size = len(next(iter(draws.values())))
    places = picked
    if model.algebra is not None:
        there = places_of(model, some)
        places = there[spread(len(there), most)]
    parts = []
    chunk = _chunk_size(size, 512)
    for first in range(0, size, chunk):
        piece = {name: jnp.asarray(leaf[first : first + chunk]) for name, leaf in draws.items()}
        out = _latents(static_of(model), hyper, prior, some, places, piece)
        if out is None:
            return None
        parts.append(np.asarray(out, dtype=np.float32))
    return np.concatenate(parts)


def num_latents(model: Model, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Mapping[str, np.ndarray]) -> int:
    """How many latents there are: one a row, or one a step of all sequences."""
    return row_count(model, hyper, prior, rows, draws) if model.algebra is None else len(places_of(model, rows))


def places_of(model: Model, rows: Pytree) -> np.ndarray:
    """Which latents of the rows there are, those of a row one after another: none beyond the end of a sequence."""
    if len(model.dims.get(model.reports, ())) < 3:
        return np.arange(num_rows(rows))
    length = np.asarray(rows.length)
    return np.flatnonzero(np.arange(jax.tree.leaves(rows.x)[0].shape[1])[None, :] < length[:, None])
