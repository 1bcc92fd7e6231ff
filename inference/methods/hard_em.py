"""Hard EM, also classification EM (Celeux and Govaert 1992): every latent at its most probable value.

It climbs the complete-data log joint log p(x, z, θ), which never decreases and settles exactly. With uniform weights, one fixed
spherical covariance and a flat prior it is k-means for any variance (document 002); of soft EM k-means is the limit for a
variance of 0. Viterbi training is the same pair of updates on a chain. Its point is biased towards separated components: the
log joint that is reported for it is the same marginal one as for every other method.
"""

from typing import NamedTuple

from inference.engine.requirements import Support
from inference.engine.sweep import Updates
from inference.engine.task import Points, Task
from inference.fixed_points.climbing import climb
from inference.fixed_points.closed_form import closed_form
from inference.fixed_points.fixed_point import FixedPoint, complete_data
from inference.methods.method import BLOCKS_OF_SHARED, Method, OverBlocks
from inference.methods.options import MaxIter, NumStarts, Tol
from models.algebra import at_mode
from models.base import Latent

NO_MODE = (
    "hard assignments set every latent to its most probable value, and the mode of this model's continuous latents stands for "
    "no assignment; use method=em or map, or stochastic_em"
)
FIXED_POINT = FixedPoint(Updates(parameters=at_mode, latents="mode"), criterion=complete_data)


def why_no_mode(latent: Latent) -> str | None:
    """Why latents have no most probable value, in words, or None."""
    return NO_MODE if latent.mode is None else None


class Options(NamedTuple):
    """Stop when the complete-data log joint gains less than ``tol`` (N + its gain so far); ``tol=0`` runs all ``max_iter``."""

    max_iter: MaxIter = 500
    tol: Tol = 1e-12
    num_starts: NumStarts = 10


def run(task: Task, options: Options) -> Points:
    """Run hard EM from every start; `fit` keeps the best, and reports all."""
    closed = closed_form(task, options.tol)
    return closed or climb(task, FIXED_POINT, options.max_iter, options.tol, options.num_starts, METHOD.support)[0]


METHOD = Method(
    name="hard_em",
    summary="classification EM; with one fixed spherical covariance it is k-means",
    options=Options,
    run=run,
    claim="mode given assignments",
    evidence=("fixed point", "predictions"),
    support=Support("hard_em", why_no_latents=why_no_mode),
    updates=FIXED_POINT.updates.in_words(),
    over_blocks=OverBlocks(BLOCKS_OF_SHARED, held_out=True),
)
