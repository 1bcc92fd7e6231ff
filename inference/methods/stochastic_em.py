"""Stochastic EM (Celeux and Diebolt 1985): parameters at their mode given latents that are drawn, not averaged.

The noise lets a start leave a poor local maximum. The sequence does not converge: all ``max_iter`` iterations are run, and
the visited parameters with the highest log joint are the point estimate.
"""

from typing import NamedTuple

from inference.engine.requirements import Support
from inference.engine.sweep import Verbs
from inference.engine.task import Points, Task
from inference.fixed_points.fixed_point import FixedPoint, climb, log_joint
from models.algebra import at_mode

SUPPORTS = Support("stochastic_em")
METHOD = FixedPoint(Verbs(parameters=at_mode, latents="sample"), criterion=log_joint, monotone=False)


class Options(NamedTuple):
    """``max_iter`` iterations of each of ``num_starts`` starts."""

    max_iter: int = 500
    num_starts: int = 10


def run(task: Task, options: Options) -> Points:
    """Every start for ``max_iter`` iterations; each returns the best parameters that it visited."""
    return climb(task, METHOD, options.max_iter, 0.0, options.num_starts, SUPPORTS)[0]
