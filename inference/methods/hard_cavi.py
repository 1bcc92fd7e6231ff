"""Variational Bayes with hard assignments: the maximisation-expectation algorithm (Welling and Kurihara 2006).

Every latent is at its most probable value ẑ given E_q[T(θ)], and q(θ) is the posterior given these. It climbs

    E_q[log p(x, ẑ, θ)] − E_q[log q(θ)],

which is log p(x, ẑ) at the best q(θ): parameters are integrated out, where `inference.methods.hard_em` maximises over them.
Latents besides the component, as missing cells under full covariances and the factors of Student-t tails, keep their
distribution: there q(θ) is mean-field, as in `inference.methods.cavi`, and the bound lies below log p(x, ẑ). With Gaussian
components it is Bayesian k-means, and components that no row needs stay empty. The bound lies below that of
`inference.methods.cavi`, and q(θ) is narrower still: as narrow as if all assignments were known.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from inference.engine.requirements import Support, require_algebra, require_proper, require_single_rows
from inference.engine.sweep import Local, Updates
from inference.engine.task import Draws, Task
from inference.fixed_points.climbing import climb
from inference.fixed_points.fixed_point import Climb, FixedPoint
from inference.methods import cavi
from inference.methods.hard_em import why_no_mode
from inference.methods.method import Method
from inference.methods.options import MaxIter, NumChains, NumSamples, NumStarts, Tol
from models.algebra import STRUCTURES, at_mean, negative_divergence
from models.base import Algebra, Stats


class Options(NamedTuple):
    """Stop when the bound gains less than ``tol`` (N + its gain so far); then draws from q(θ), ``num_samples`` a chain."""

    max_iter: MaxIter = 500
    tol: Tol = 1e-12
    num_starts: NumStarts = 10
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4


def assigned_bound(algebra: Algebra, prior: Mapping[str, Stats], state: Climb, local: Local) -> Array:
    """E_q[log p(x, ẑ, θ)] − E_q[log q(θ)]; −inf while q(θ) is not known (a start given as sites)."""
    return jnp.where(state.known, local.energy + negative_divergence(algebra, prior, state.T, state.nu), -jnp.inf)


FIXED_POINT = FixedPoint(Updates(parameters=at_mean, latents="mode"), criterion=assigned_bound)


def run(task: Task, options: Options) -> Draws:
    """Run every start to an assignment, and draw the parameters independently given the best one."""
    algebra = require_algebra(task, METHOD.support)
    require_proper(task)
    require_single_rows(task, algebra)
    points, state = climb(task, FIXED_POINT, options.max_iter, options.tol, options.num_starts, METHOD.support)
    shape = (options.num_chains, options.num_samples)
    return cavi.approximation(task, algebra, FIXED_POINT.updates.latents, points, state, shape)


METHOD = Method(
    name="hard_cavi",
    summary="variational Bayes with hard assignments (Bayesian k-means); draws of the parameters given the best one",
    options=Options,
    run=run,
    claim="approximate",
    evidence=("bias", "predictions"),
    support=Support(
        "hard_cavi",
        STRUCTURES - {"coupled", "cycle", "local"},
        remedy="use method=cavi or gibbs",
        why_no_latents=why_no_mode,
    ),
    updates=FIXED_POINT.updates.in_words(),
)
