"""Models with local parameters, as of documents: q of these is inferred anew for every block, and not stored.

The sums over blocks are the statistics of the shared parameters, and the part of the bound that the rows contribute:

    Σ_n log Σ_z exp < E[T], · >  −  KL(q(θ_n) ‖ p(θ_n)),    q(θ_n) the best given the shared q(θ).
"""

from collections.abc import Mapping
from functools import partial

import jax
import numpy as np

from inference.engine.driver import vmap_or_call
from inference.engine.sweep import Local, local_step, num_rows
from inference.fixed_points.fixed_point import Climb
from inference.fixed_points.local_ascent import local_ascent, local_part, local_prior, shared_part
from inference.runtime.programs import cached_jit
from models.algebra import negative_divergence
from models.base import Algebra, Data, Hyper, Model, Pytree, Stats, on_host

MOST, CLOSE = 100, 1e-4  # inner updates of a row, and the mean change of its numbers below which they end


def _inferred(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], T: Stats, rows: Pytree) -> tuple[Stats, Stats, Stats]:
    """(prior of the local blocks, T of all blocks, nu of the local ones) of some rows at one T of the shared blocks."""
    of_rows = local_prior(algebra, prior, num_rows(rows))
    return of_rows, *local_ascent(algebra, hyper, of_rows, T, rows, MOST, CLOSE)


@cached_jit(static_argnames=("algebra",))
def sums_with_local(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], T: Stats, rows: Pytree) -> Local:
    """The statistics of the shared blocks, and the part of the bound of these rows, of all starts."""

    def one(T: Stats) -> Local:
        of_rows, T_of_all, nu = _inferred(algebra, hyper, prior, T, rows)
        local = local_step(algebra, "mean", hyper, jax.random.PRNGKey(0), T_of_all, rows)
        bound = local.log_partition + negative_divergence(local_part(algebra), of_rows, T_of_all, nu)
        return Local(shared_blocks(algebra, local.stats), bound, bound)

    return vmap_or_call(one, T)


def with_local_priors(model: Model, sample: Data) -> Model:
    """The model, with priors of the local blocks of the rows of ``sample``."""
    if model.algebra is None or not model.algebra.structure.local:
        return model
    size = num_rows(model.rows(sample))
    of_rows = {
        name: jax.tree.map(lambda leaf: np.repeat(leaf[:1], size, 0), model.prior[name])
        for name in model.algebra.structure.local
    }
    return model._replace(prior={**model.prior, **of_rows})


def shared_blocks(algebra: Algebra, blocks: Mapping[str, Stats]) -> dict[str, Stats]:
    """The shared blocks of several, such as a prior or T."""
    return {name: blocks[name] for name, _ in shared_part(algebra).families}


def shared_state(algebra: Algebra, state: Climb) -> Climb:
    """The state of a climb, without the local blocks."""
    if not algebra.structure.local:
        return state
    one = partial(shared_blocks, algebra)
    state = state._replace(T=one(state.T), before=one(state.before), nu=one(state.nu), best_point=one(state.best_point))
    # Local parameters are inferred anew in every pass: any gain measures the distance to the end.
    return state._replace(warm_started=on_host(np.ones_like(state.warm_started)))


def with_local_blocks(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], state: Climb, rows: Pytree) -> Climb:
    """The state of a climb, with q of the local blocks of some rows, such as those of the sample."""
    if not algebra.structure.local:
        return state
    T, nu = _local_of(algebra, hyper, prior, state.T, rows)
    before, _ = _local_of(algebra, hyper, prior, state.before, rows)
    return state._replace(T=T, before=before, nu={**state.nu, **nu}, best_point=T)


@cached_jit(static_argnames=("algebra",))
def _local_of(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], T: Stats, rows: Pytree) -> tuple[Stats, Stats]:
    return vmap_or_call(lambda T: _inferred(algebra, hyper, prior, T, rows)[1:], T)
