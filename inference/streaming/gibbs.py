"""Gibbs sampling over blocks: a pass a sweep.

However blocks are shared out to devices and processes, draws are the same up to rounding.

Sums are added in another order. In single precision a latent may then flip, and draws part from there on.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.driver import vmap_or_call
from inference.engine.initialise import start_points
from inference.engine.requirements import require_algebra, require_proper
from inference.engine.sweep import Local, parameter_step
from inference.engine.task import Draws, Kind, Task, timing
from inference.identification.random_labels import drawn_labellings, require_symmetry
from inference.methods.gibbs import METHOD, UPDATES, WATCH, Options, log_joint_of_draws
from inference.runtime.programs import cached_jit
from inference.streaming.climbing import single_rows
from inference.streaming.driver import Iteration, drive_blocks
from inference.streaming.passes import Pass, Stream, Totals
from inference.streaming.result import Asked, Found
from models.algebra import log_prior
from models.base import Algebra, Pytree, Stats


@cached_jit(static_argnames=("algebra",))
def drawn(algebra: Algebra, hyper: Pytree, prior: Pytree, keys: Array, T: Stats, local: Local) -> tuple[Stats, Pytree, Array]:
    """What `inference.methods.gibbs.step` makes of every chain, its local step given."""

    def one(key: Array, T: Stats, local: Local) -> tuple[Stats, Pytree, Array]:
        following, _ = parameter_step(algebra, UPDATES, key, prior, T, local.stats)
        entered = local.log_partition + log_prior(algebra, prior, T)
        record = (algebra.sites(hyper, following), log_prior(algebra, prior, following), entered)
        return following, record, jnp.zeros((), bool)

    return vmap_or_call(one, keys, T, local)


def gibbs_blocks(task: Task, stream: Stream, options: Options, asked: Asked) -> Found:
    """Draws of every site from every chain; ``task`` is that of the rows where chains begin."""
    algebra = require_algebra(task, METHOD.support)
    require_proper(task)
    if options.permute_components:
        require_symmetry(task.model)
    state = jax.tree.map(np.asarray, start_points(task, algebra, options.num_chains))
    hyper, prior = dict(task.hyper), dict(task.prior)
    keys = jax.random.split(jax.random.fold_in(task.key, 1), options.num_chains)
    over = Pass(stream, task, algebra, UPDATES.latents, state, single_rows(task, algebra))

    def update(keys: Array, T: Stats, local: Local, totals: Totals) -> tuple[Stats, Pytree, Array]:
        return drawn(algebra, hyper, prior, keys, T, local)

    record = drawn.eval_shape(algebra, hyper, prior, keys, state, over.shapes())[1]
    of_one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), record)
    iterated = partial(drive_blocks, task, stream, Iteration(over, lambda T: T, update, of_one), keys)
    warmup = iterated(state, options.num_warmup, "warmup", WATCH, keep=False)
    run = iterated(warmup.state, options.num_samples, "sampling", WATCH, first=options.num_warmup)
    sites, at_draws, entered = run.records
    seconds = timing(run.run_seconds, warmup.compile_seconds + run.compile_seconds, warmup.run_seconds)
    if options.permute_components:
        sites = drawn_labellings(task, sites)
    return Found(Draws(Kind.CHAINS, sites, {}, seconds, log_prior=at_draws, log_joint=log_joint_of_draws(entered)))
