"""Coordinate-ascent variational inference: mean-field variational Bayes, q(θ) q(z), each the best given the other.

Both verbs are ``mean``: q(z) from E_q[T(θ)], q(θ) = nu from E_q[z]. The evidence lower bound (ELBO) never decreases. The
result holds independent draws from q(θ); q is too narrow where components overlap, and it sits on one labelling.
"""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from inference import minibatch
from inference.optimise import FixedPoint, climb, elbo, require_algebra, require_proper
from inference.outcome import Draws, Task
from inference.sweep import Verbs
from models.base import Algebra, Hyper, Stats, ZooError, at_mean, at_sample

METHOD = FixedPoint(Verbs(parameters=at_mean, latents="mean"), criterion=elbo)


TOGETHER = 128  # draws at a time: what a gamma is drawn by takes some twenty times its memory


class Options(NamedTuple):
    """Stop when the ELBO gains less than ``tol`` (1 + |ELBO|); then ``num_chains`` × ``num_samples`` draws from q(θ).

    With ``batch_size`` an iteration takes so many rows instead of all of them (`inference.minibatch`), by steps of length
    (``delay`` + iteration)^−``forgetting``, and ``max_iter`` of them are taken whatever the bound.
    """

    max_iter: int = 2000
    tol: float = 1e-10
    num_starts: int = 10
    num_samples: int = 1000
    num_chains: int = 4
    batch_size: int = 0
    delay: float = 1.0
    forgetting: float = 0.7


@partial(jax.jit, static_argnames=("algebra",))
def draws(algebra: Algebra, hyper: Hyper, keys: Array, nu: Stats) -> dict[str, Array]:
    """Sites drawn from q(θ) = nu, one for every key."""
    return jax.lax.map(lambda key: algebra.sites(hyper, at_sample(algebra, key, nu)), keys, batch_size=TOGETHER)


def refuses(algebra: Algebra) -> str | None:
    """Why the method means nothing on a model, in words, or None."""
    if not algebra.cycle:
        return None
    return (
        "cavi needs parameters that are conjugate all at once; this model's blocks are conjugate only given the values of the "
        "others, so that there is no evidence bound; use method=laplace, gibbs or nuts"
    )


def run(task: Task, options: Options) -> Draws:
    """Every start to its own optimum of the ELBO, and independent draws from the best q(θ)."""
    algebra = require_algebra(task, refuses)
    require_proper(task)
    if options.batch_size:
        pace = minibatch.Pace(options.delay, options.forgetting)
        points, state = minibatch.climb(task, METHOD, options.batch_size, pace, options.max_iter, options.num_starts)
    else:
        points, state = climb(task, METHOD, options.max_iter, options.tol, options.num_starts)
    if all(points.failure):
        raise ZooError(f"every start of cavi failed: {points.failure[0]}")
    bound = np.where(np.asarray(state.failed), -np.inf, np.asarray(state.criterion))
    best = int(bound.argmax())
    nu = jax.tree.map(lambda leaf: leaf[best], state.nu)
    keys = jax.random.split(jax.random.fold_in(task.key, 1), options.num_chains * options.num_samples)
    sites = draws(algebra, task.hyper, keys, nu)
    shape = (options.num_chains, options.num_samples)
    return Draws(
        sites={name: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]) for name, leaf in sites.items()},
        sample_stats={},
        timing=points.timing,
        interrupted=points.interrupted,
        optimization=points._replace(objective=np.asarray(points.criterion)),
        attrs={"elbo": float(bound[best]), "best_start": best},
    )
