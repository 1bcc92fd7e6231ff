"""Hard EM, also classification EM (Celeux and Govaert 1992): every latent at its most probable value.

It climbs the complete-data log joint log p(x, z, θ), which never decreases and settles exactly. With spherical covariances
that shrink together it is k-means (document 002); Viterbi training is the same pair of verbs on a chain. Its point is biased
towards separated components: the log joint that is reported for it is the same marginal one as for every other method.
"""

from typing import NamedTuple

from inference.optimise import FixedPoint, climb, complete_data
from inference.outcome import Points, Task
from inference.sweep import Verbs
from models.base import Algebra, at_mode

METHOD = FixedPoint(Verbs(parameters=at_mode, latents="mode"), criterion=complete_data)


class Options(NamedTuple):
    """Stop when the complete-data log joint gains less than ``tol`` (1 + |it|); ``tol=0`` runs exactly ``max_iter``."""

    max_iter: int = 500
    tol: float = 1e-12
    num_starts: int = 10


def refuses(algebra: Algebra) -> str | None:
    """Why the method means nothing on a model, in words, or None."""
    if algebra.latent.mode is not None:
        return None
    return (
        "hard_em sets every latent to its most probable value, and the mode of this model's continuous latents stands for no "
        "assignment; use method=em or map, or stochastic_em"
    )


def run(task: Task, options: Options) -> Points:
    """Every start to its own maximum; the caller keeps the best and reports all."""
    return climb(task, METHOD, options.max_iter, options.tol, options.num_starts, refuses)[0]
