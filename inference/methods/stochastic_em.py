"""Stochastic EM (Celeux and Diebolt 1985): parameters at their mode given latents that are drawn, not averaged.

The noise lets a start leave a poor local maximum. The sequence does not converge: all ``max_iter`` iterations are run, and
the visited parameters with the highest log joint are the point estimate.
"""

from typing import NamedTuple

from inference.engine.requirements import Support
from inference.engine.sweep import Updates
from inference.engine.task import Points, Task
from inference.fixed_points.climbing import climb
from inference.fixed_points.fixed_point import FixedPoint, log_joint
from inference.methods.method import BLOCKS_OF_SHARED, Method, OverBlocks
from inference.methods.options import MaxIter, NumStarts
from models.algebra import at_mode

FIXED_POINT = FixedPoint(Updates(parameters=at_mode, latents="sample"), criterion=log_joint, monotone=False)


class Options(NamedTuple):
    """``max_iter`` iterations of each of ``num_starts`` starts."""

    max_iter: MaxIter = 500
    num_starts: NumStarts = 10


def run(task: Task, options: Options) -> Points:
    """Run every start for ``max_iter`` iterations; the point of each is the best of its visited parameters."""
    return climb(task, FIXED_POINT, options.max_iter, 0.0, options.num_starts, METHOD.support)[0]


METHOD = Method(
    name="stochastic_em",
    summary="EM with sampled latents; returns the best point visited",
    options=Options,
    run=run,
    claim="mode given random assignments",
    evidence=("random step", "predictions"),
    support=Support("stochastic_em"),
    updates=FIXED_POINT.updates.in_words(),
    over_blocks=OverBlocks(BLOCKS_OF_SHARED, held_out=True),
)
