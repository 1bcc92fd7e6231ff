"""Variational inference over blocks: `cavi`, whose sums are those of EM at expected parameters."""

from typing import Any

import jax
import numpy as np

from inference.engine.requirements import require_proper
from inference.engine.task import Draws, Kind, Points, Task
from inference.fitting.sizes import require_room
from inference.methods.cavi import ACCELERATES, FIXED_POINT, METHOD, Options, draws, why_no_weights
from inference.streaming.climbing import climb_blocks
from inference.streaming.passes import Stream
from inference.streaming.result import Asked, Found
from inference.streaming.stochastic import climb_stochastically
from models.base import Stats, ZooError

MOST_DRAWS = 200  # of rows that are not in memory: the log joint of each costs as much as an iteration of a start


def cavi_blocks(task: Task, stream: Stream, options: Options, asked: Asked) -> Found:
    """`inference.methods.cavi.run` over blocks; ``task`` is that of the rows where starts are sought."""
    if options.batch_size:
        raise ZooError("batch_size is for rows in memory; over blocks a batch is a block: give stochastic=true and block_rows=")
    require_proper(task)
    if task.model.algebra is not None and task.model.algebra.structure.local:  # draws have those of the sample, of any number
        require_room(task, options)
    if asked.pace is not None:
        steps = (options.max_iter, options.num_starts, METHOD.support, asked.seed)
        points, last, bound, held_out = climb_stochastically(task, stream, FIXED_POINT, asked.pace, *steps)
        nu = last.nu
    else:
        method = FIXED_POINT._replace(accelerate=options.accelerate)
        support = ACCELERATES if options.accelerate else METHOD.support
        points, state, held_out = climb_blocks(task, stream, method, options.max_iter, options.tol, options.num_starts, support)
        bound, nu = np.where(np.asarray(state.failed), -np.inf, np.asarray(state.criterion)), state.nu
    if all(points.failure):
        raise ZooError(f"every start of cavi failed: {points.failure[0]}")
    best = int(np.where(np.isfinite(bound), bound, -np.inf).argmax())
    at_best = jax.tree.map(lambda leaf: leaf[best], nu)
    return Found(
        _draws(task, options, points, at_best, {"elbo": float(bound[best]), "best_start": best}, asked.whole), held_out
    )


def _draws(task: Task, options: Options, points: Points, nu: Stats, attrs: dict[str, Any], whole: bool) -> Draws:
    """Independent draws from q(θ | nu)."""
    assert task.model.algebra is not None
    evaluated = whole or bool(task.model.algebra.structure.local)  # draws of local parameters are of the sample alone
    number = options.num_samples if evaluated else max(1, min(options.num_samples, MOST_DRAWS // options.num_chains))
    few = f"{number} of {options.num_samples} draws of each chain: the log joint of a draw takes a pass over the rows"
    keys = jax.random.split(jax.random.fold_in(task.key, 1), options.num_chains * number)
    sites, at_draws, log_q = draws(task.model.algebra, task.hyper, dict(task.prior), keys, nu)
    shape = (options.num_chains, number)
    why = why_no_weights(task.model)
    return Draws(
        kind=Kind.APPROXIMATION,
        sites={name: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]) for name, leaf in sites.items()},
        sample_stats={},
        timing=points.timing,
        optimization=points._replace(objective=np.asarray(points.criterion)),
        attrs=attrs | ({"no_pareto_k": why} if why else {}),
        log_prior=np.asarray(at_draws).reshape(shape),
        log_density=None if why else np.asarray(log_q, dtype=np.float64).reshape(shape),
        warnings=(few,) if number < options.num_samples else (),
    )
