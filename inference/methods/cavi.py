"""Coordinate-ascent variational inference: mean-field variational Bayes, q(θ) q(z), each the best given the other.

Latents and parameters are both replaced by means: q(z) comes from E_q[T(θ)], and q(θ) = nu from E_q[z]. The evidence lower
bound (ELBO) never decreases. The result holds independent draws from q(θ). q is too narrow where components overlap, and it
covers one labelling only. A large Pareto k-hat of the weights p(x, θ) / q(θ), latents summed out, shows that q does not fit
(Yao, Vehtari, Simpson and Gelman 2018). A small one does not show that the widths are right.
"""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.requirements import Support, require_algebra, require_proper
from inference.engine.row_source import StepSize
from inference.engine.sweep import Updates, block_map, local_step
from inference.engine.task import Draws, Kind, Points, Task
from inference.fixed_points.climbing import climb
from inference.fixed_points.fixed_point import Climb, FixedPoint, elbo
from inference.methods.method import Method, OverBlocks
from inference.methods.options import Accelerate, MaxIter, NumChains, NumSamples, NumStarts, Setting, Tol
from inference.minibatches import by_blocks
from inference.minibatches import svi as minibatch
from inference.runtime.programs import cached_jit
from models.algebra import STRUCTURES, at_mean, at_sample, inner, log_partition, log_prior, negative_divergence, structures
from models.base import Algebra, Hyper, Model, Pytree, Stats, ZooError

ACCELERATES = Support("accelerate", STRUCTURES - {"cycle", "local"}, remedy="use accelerate=false")
FIXED_POINT = FixedPoint(Updates(parameters=at_mean, latents="mean"), criterion=elbo)
MOST_DRAWS = 200  # of rows that are not in memory: the log joint of each costs as much as an iteration of a start
DRAWS_AT_ONCE = 128  # draws at a time: sampling a gamma variate takes some twenty times its memory


class Options(NamedTuple):
    """Stop when the ELBO gains less than ``tol`` (N + its gain so far); then ``num_chains`` × ``num_samples`` draws from q(θ).

    With ``batch_size`` an iteration takes that many rows instead of all (`inference.minibatches.svi`), with a step of length
    (``delay`` + iteration)^−``forgetting``. There are then ``max_iter`` iterations for any bound. ``accelerate``
    extrapolates between iterations over all rows (`inference.convergence.acceleration`), to the same fixed points.
    """

    max_iter: MaxIter = 2000
    tol: Tol = 1e-10
    num_starts: NumStarts = 10
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4
    batch_size: Annotated[
        int,
        Setting("rows per iteration; 0: all rows. Then max_iter steps of length (delay + step)^-forgetting are taken", low=0),
    ] = 0
    delay: Annotated[float, Setting("of minibatches: how late step lengths begin to fall", low=0)] = 1.0
    forgetting: Annotated[float, Setting("of minibatches: how fast step lengths fall, from 0.5 to 1", low=0.5, high=1)] = 0.7
    accelerate: Accelerate = False


@cached_jit(static_argnames=("algebra",))
def draws(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], keys: Array, nu: Stats
) -> tuple[dict[str, Array], Array, Array]:
    """(sites, their log prior, log q in the coordinates of the sites): one draw from q(θ) = nu for every key."""
    constant = log_partition(algebra, nu)

    def one(key: Array) -> tuple[dict[str, Array], Array, Array]:
        T = at_sample(algebra, key, nu)
        return algebra.sites(hyper, T), log_prior(algebra, prior, T), inner(T, nu) - constant

    return block_map(jax.vmap(one), keys, DRAWS_AT_ONCE)


@cached_jit(static_argnames=("algebra", "latents"))
def lower_bound(algebra: Algebra, latents: str, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, nu: Stats) -> Array:
    """The ELBO of q(θ) = nu and the optimal q(z); with ``latents`` = "mode", of the most probable z."""
    key = jax.random.PRNGKey(0)
    T = at_mean(algebra, key, nu)
    return local_step(algebra, latents, hyper, key, T, rows).energy + negative_divergence(algebra, prior, T, nu)


def why_no_weights(model: Model) -> str:
    """Why weights p(x, θ) / q(θ) do not measure the fit of q, in words, or ""."""
    if model.algebra is not None and "local" in structures(model.algebra.structure):
        of = ", ".join(model.algebra.structure.local)
        return f"every row has {of} of its own, and weights p / q of all of them at once are of no use"
    if model.symmetry is not None and model.symmetry.is_continuous:
        return f"the posterior is the same in every rotation of the {model.symmetry.dim}s, and q keeps to one of them"
    return ""


def run(task: Task, options: Options) -> Draws:
    """Run every start to an optimum of the ELBO, and draw independently from the best q(θ)."""
    algebra = require_algebra(task, METHOD.support)
    require_proper(task)
    if options.accelerate and options.batch_size:
        raise ZooError("accelerate=true extrapolates between iterations over all rows; use batch_size=0, or accelerate=false")
    if options.batch_size:
        step_size = StepSize(options.delay, options.forgetting)
        points, state = minibatch.climb(task, FIXED_POINT, options.batch_size, step_size, options.max_iter, options.num_starts)
    elif task.source is not None and task.source.step_size is not None:
        points, state = by_blocks.climb(task, FIXED_POINT, options.max_iter, options.num_starts, METHOD.support)
    else:
        method = FIXED_POINT._replace(accelerate=options.accelerate)
        support = ACCELERATES if options.accelerate else METHOD.support
        points, state = climb(task, method, options.max_iter, options.tol, options.num_starts, support)
    number = _num_draws(task, algebra, options)
    outcome = approximation(task, algebra, FIXED_POINT.updates.latents, points, state, (options.num_chains, number))
    if number == options.num_samples:
        return outcome
    few = f"{number} of {options.num_samples} draws of each chain: the log joint of a draw takes a pass over the rows"
    return outcome._replace(warnings=(few,))


def _num_draws(task: Task, algebra: Algebra, options: Options) -> int:
    """The draws of a chain; few where each takes a pass. Draws of local parameters are evaluated on the sample alone."""
    if task.source is None or task.source.whole or algebra.structure.local:
        return options.num_samples
    return max(1, min(options.num_samples, MOST_DRAWS // options.num_chains))


def approximation(task: Task, algebra: Algebra, latents: str, points: Points, state: Climb, shape: tuple[int, int]) -> Draws:
    """Draws of ``shape`` (chains, draws) from the best q(θ) = nu of all starts; raises `ZooError` where every start failed."""
    if all(points.failure):
        raise ZooError(f"every start failed: {points.failure[0]}")
    bound = np.where(np.asarray(state.failed), -np.inf, np.asarray(state.criterion))
    best = int(bound.argmax())
    nu = jax.tree.map(lambda leaf: leaf[best], state.nu)
    keys = jax.random.split(jax.random.fold_in(task.key, 1), shape[0] * shape[1])
    sites, at_draws, log_q = draws(algebra, task.hyper, dict(task.prior), keys, nu)
    why = why_no_weights(task.model)
    of_bound = {"elbo": float(bound[best]), "best_start": best, "of_one_assignment": int(latents == "mode")}
    outcome = Draws(
        kind=Kind.APPROXIMATION,
        sites={name: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]) for name, leaf in sites.items()},
        sample_stats={},
        timing=points.timing,
        interrupted=points.interrupted,
        optimization=points._replace(objective=np.asarray(points.criterion)),
        attrs=of_bound | ({"no_pareto_k": why} if why else {}),
        log_prior=np.asarray(at_draws).reshape(shape),
        log_density=None if why else np.asarray(log_q, dtype=np.float64).reshape(shape),
    )

    def recompute_in_double(double: Task) -> Draws:
        at = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), nu)
        rows = double.sufficient_rows if latents == "mean" else double.rows_on_device
        value = lower_bound(algebra, latents, double.hyper, dict(double.prior), rows, at)
        return outcome._replace(attrs={**outcome.attrs, "elbo": float(value)})

    return outcome if task.source is not None else outcome._replace(recompute_in_double=recompute_in_double)


METHOD = Method(
    name="cavi",
    summary="mean-field variational Bayes; draws from the approximation",
    options=Options,
    run=run,
    claim="approximate",
    evidence=("bias", "predictions"),
    support=Support(
        "cavi",
        STRUCTURES - {"cycle"},
        consequence="there is no evidence bound",
        remedy="use method=laplace, gibbs or nuts",
    ),
    updates=FIXED_POINT.updates.in_words(),
    over_blocks=OverBlocks(steps=True, held_out=True),
)
