"""The exact posterior: one conjugate update where latents are observed, and a sum over all assignments where they are few.

With every label given, q(θ) = p(θ | x, z) is the conjugate family at nu = prior + statistics, and

    log p(x, z) = log p(x, z, θ) − log p(θ | x, z)    at any θ.

With missing labels the posterior is a mixture of such families over all assignments z, weighted by p(x, z); up to `MOST`
assignments are enumerated. Draws are independent, so that R-hat and effective sample size do not apply.

A model under a flat prior has no posterior, but may have the maximum of its likelihood in closed form (``Abilities.maximum``).
"""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.evaluate import evaluate
from inference.engine.initialise import finite_latents, start_states
from inference.engine.requirements import Support, require_algebra, require_proper, require_single_rows
from inference.engine.sweep import block_map, local_step, rows_weight
from inference.engine.task import Draws, Kind, Points, Task, timing
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples
from inference.runtime.progress import Reporter
from models.algebra import STRUCTURES, add, at_mean, at_sample, inner, log_partition, log_prior
from models.base import Algebra, Hyper, Model, Pytree, Stats, ZooError
from models.rows.row_info import row_info

MOST = 2**20  # assignments that are enumerated
ASSIGNMENTS_AT_ONCE = 256  # of them at a time
# Few shapes, so that another number of labels compiles nothing: numbers of assignments per call, and of open rows, filled up
# with rows of weight 0
CALLS = (256, 4096)
ROOMS = (1, 4, 8, 20)
CONTINUOUS = (
    "exact needs latents that labels observe, or that can be enumerated; this model's are continuous and never observed, as "
    "are missing cells under a covariance matrix, or follow each other in time, so that its posterior has no closed form; use "
    "method=gibbs or nuts"
)


class NotSummableError(ZooError):
    """The latents of these rows cannot be summed over: they are continuous, or have too many assignments."""


class Options(NamedTuple):
    """``num_chains`` × ``num_samples`` independent draws."""

    num_samples: NumSamples = 1000
    num_chains: NumChains = 4


def where(model: Model, rows: Pytree) -> str | None:
    """The data of the method, in words for the table of methods, or None: they depend on whether rows observe the latents."""
    if model.abilities.maximum is not None:
        return "flat prior"
    if model.algebra is None or METHOD.support.why_not(model.algebra) is not None:
        return None
    return "small data" if row_info(rows).allowed_states is None else "labelled"


def run(task: Task, options: Options) -> Draws | Points:
    """Independent draws of every site, and the log evidence; or the maximum of the likelihood, where that has a closed form."""
    if task.model.abilities.maximum is not None:
        return _maximum(task)
    algebra = require_algebra(task, METHOD.support)
    require_proper(task)
    if not finite_latents(algebra, task.hyper, task.prior, task.rows):
        raise NotSummableError(f"{task.model.name}: {CONTINUOUS}")
    require_single_rows(task, algebra)
    task.reporter.phase("summing over the latents", None)
    clock = time.perf_counter()
    arrays, z = _enumerated(task, algebra)
    evidence = _summed(algebra, arrays, z, task.reporter)
    size = options.num_chains * options.num_samples
    cumulative = np.cumsum(np.exp(evidence - evidence.max()))
    share = np.asarray(jax.random.uniform(jax.random.fold_in(task.key, 2), (size,)))
    chosen = np.searchsorted(cumulative, share * cumulative[-1], side="right")
    sites, at_draws = _draws(algebra, *arrays, jax.random.split(jax.random.fold_in(task.key, 1), size), z[chosen])
    shape = (options.num_chains, options.num_samples)
    draws = Draws(
        Kind.INDEPENDENT,
        {name: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]) for name, leaf in sites.items()},
        {},
        timing(time.perf_counter() - clock),
        attrs={"log_evidence": float(evidence.max() + np.log(cumulative[-1]))},
        log_prior=np.asarray(at_draws).reshape(shape),
    )
    return draws._replace(
        recompute_in_double=lambda double: draws._replace(attrs={"log_evidence": _log_evidence(double, algebra)})
    )


def _enumerated(task: Task, algebra: Algebra) -> tuple[tuple[Any, ...], np.ndarray]:
    """(arguments that all assignments share, all assignments (A, F) of the F rows that allow several values)."""
    T = jax.tree.map(lambda leaf: leaf[0], start_states(task, algebra, at_mean, 1)[0])
    allowed_states = np.asarray(_allowed(algebra, task.hyper, task.rows, T))
    rows, weight, z = _with_room(*_open_rows(task.rows, allowed_states))
    weight = weight.astype(np.dtype(jnp.result_type(float)))
    fixed = _fixed(algebra, task.hyper, task.prior, T, task.rows, jnp.asarray(allowed_states.sum(1) == 1))
    return (task.hyper, task.prior, T, fixed, rows, weight), z


def _log_evidence(task: Task, algebra: Algebra) -> float:
    arrays, z = _enumerated(task, algebra)
    return float(np.logaddexp.reduce(_summed(algebra, arrays, z, task.reporter)))


def _maximum(task: Task) -> Points:
    assert task.model.abilities.maximum is not None
    clock = time.perf_counter()
    maximum = task.model.abilities.maximum(jax.tree.map(np.asarray, task.sufficient_rows))
    sites = {name: np.asarray(leaf)[None] for name, leaf in maximum.items()}
    one = np.ones(1)
    return Points(
        sites=sites,
        objective=evaluate(task.model, task.hyper, task.prior, task.sufficient_rows, sites).log_joint[None],
        iterations=one.astype(int),
        converged=one.astype(bool),
        failure=[None],
        timing=timing(time.perf_counter() - clock),
    )


class Fixed(NamedTuple):
    """The rows whose latent is observed: nu = prior + their statistics, and their log p(x, z | θ) at the point T."""

    nu: Stats
    energy: Array


def _open_rows(rows: Pytree, allowed_states: np.ndarray) -> tuple[Pytree, np.ndarray, np.ndarray]:
    """(the F rows that allow several values, their weights, all assignments (A, F)). Raises `ZooError` for too many.

    On the host, because every number of rows is another shape. Where every latent is observed, this is the first row with
    weight 0 and one assignment.
    """
    choices = allowed_states.sum(1)
    weights = row_info(rows).weight
    weight = np.ones(len(allowed_states)) if weights is None else np.asarray(weights)
    several = np.flatnonzero((choices > 1) & (weight > 0))  # rows of weight 0 need no sum
    bits = float(np.log2(choices[several]).sum())
    if bits > np.log2(MOST):
        raise NotSummableError(
            f"method=exact sums over all assignments of the {len(several)} rows without a label: there are 2^{bits:.0f}, and "
            f"at most 2^{np.log2(MOST):.0f} can be summed. Give labels or fewer rows, or use gibbs or nuts"
        )
    if not len(several):
        return _picked(rows, np.zeros(1, dtype=int)), np.zeros(1), allowed_states[:1].argmax(1)[None].astype(np.int8)
    digits = np.stack(np.unravel_index(np.arange(int(choices[several].prod())), choices[several]), axis=1).astype(np.int8)
    values = np.argsort(~allowed_states[several], axis=1, kind="stable").astype(np.int8)  # each row's allowed values first
    return _picked(rows, several), weight[several], values[np.arange(len(several))[None, :], digits]


def _picked(rows: Pytree, places: np.ndarray) -> Pytree:
    """Rows at ``places``, on the host."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[places], rows)


def _with_room(rows: Pytree, weight: np.ndarray, z: np.ndarray) -> tuple[Pytree, np.ndarray, np.ndarray]:
    """The result of `_open_rows`, filled up to one of `ROOMS` with copies of the first row of weight 0."""
    number = z.shape[1]
    room = next((size for size in ROOMS if size >= number), number)
    places = np.concatenate([np.arange(number), np.zeros(room - number, dtype=int)])
    return _picked(rows, places), np.where(np.arange(room) < number, weight[places], 0.0), z[:, places]


def _summed(algebra: Algebra, arrays: tuple[Any, ...], z: np.ndarray, reporter: Reporter) -> np.ndarray:
    """Log p(x, z) of every assignment (A,), by calls of equal shapes; the last one is filled up with the first assignment."""
    size = next((size for size in CALLS if size >= len(z)), CALLS[-1])
    parts = []
    reporter.phase("summing over the latents", len(z))
    for first in range(0, len(z), size):
        part = z[first : first + size]
        filled = np.concatenate([part, np.broadcast_to(z[:1], (size - len(part), z.shape[1]))])
        parts.append(np.asarray(_evidences(algebra, *arrays, filled), dtype=np.float64)[: len(part)])
        reporter.update(first + len(part), "", {})
    return np.concatenate(parts)


@partial(jax.jit, static_argnames=("algebra",))
def _allowed(algebra: Algebra, hyper: Hyper, rows: Pytree, T: Stats) -> Array:
    """(N, K): the values of a row's latent that have a density at all."""
    natural_parameters = algebra.local_natural_parameters(T)
    return block_map(lambda rows: natural_parameters(algebra.features(hyper, rows)) > -jnp.inf, rows)


@partial(jax.jit, static_argnames=("algebra",))
def _fixed(algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, rows: Pytree, observed: Array) -> Fixed:
    """The rows with a single possible value, which is then the most probable one."""
    counted = rows._replace(weight=jnp.where(observed, rows_weight(rows), 0))
    local = local_step(algebra, "mode", hyper, jax.random.PRNGKey(0), T, counted)
    return Fixed(add(dict(prior), local.stats), local.energy)


def _complete(
    algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, fixed: Fixed, rows: Pytree, weight: Array, z: Array
) -> tuple[Array, Any]:
    """(log p(x, z), nu) at one assignment (F,) of the open rows: log p(x, z, θ) − log p(θ | x, z) at the point T."""
    features = algebra.features(hyper, rows)
    local = algebra.local_natural_parameters(T)(features)
    latents = jax.nn.one_hot(z, local.shape[1], dtype=local.dtype)
    nu = add(fixed.nu, algebra.statistics(weight, latents, features))
    energy = fixed.energy + (weight * algebra.latent.energy(latents, local)).sum()
    return energy + log_prior(algebra, prior, T) - inner(T, nu) + log_partition(algebra, nu), nu


@partial(jax.jit, static_argnames=("algebra",))
def _evidences(
    algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, fixed: Fixed, rows: Pytree, weight: Array, z: Array
) -> Array:
    """Log p(x, z) of every assignment (A, F)."""
    one = partial(_complete, algebra, hyper, prior, T, fixed, rows, weight)
    return block_map(jax.vmap(lambda z: one(z)[0]), z, ASSIGNMENTS_AT_ONCE)


@partial(jax.jit, static_argnames=("algebra",))
def _draws(
    algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, fixed: Fixed, rows: Pytree, weight: Array, keys: Array, z: Array
) -> tuple[dict[str, Array], Array]:
    """(sites, their log prior): one draw from p(θ | x, z) for every key and assignment."""

    def one(pair: tuple[Array, Array]) -> tuple[dict[str, Array], Array]:
        key, assignment = pair
        nu = _complete(algebra, hyper, prior, T, fixed, rows, weight, assignment)[1]
        drawn = at_sample(algebra, key, nu)
        return algebra.sites(hyper, drawn), log_prior(algebra, prior, drawn)

    return jax.lax.map(one, (keys, z))


METHOD = Method(
    name="exact",
    summary="the exact posterior: every row has a label, or few rows have none",
    options=Options,
    run=run,
    claim="exact",
    evidence=("calibration", "posterior", "predictions"),
    support=Support(
        "exact",
        STRUCTURES - {"coupled", "cycle"},
        consequence="the posterior given the latents has no closed form",
        remedy="use method=gibbs or nuts",
        why_no_latents=lambda latent: None if latent.enumerable else CONTINUOUS,
    ),
    updates=("sample", "observed, or all summed over"),
    where=where,
)
