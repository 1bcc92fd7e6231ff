"""EM (Dempster, Laird and Rubin 1977; document 002): parameters at their mode given the expected latents.

E-step: r_n = E[z_n | x_n, θ], the latents' ``mean``. M-step: θ = argmax E_r[log p(x, z, θ)], the families' ``mode``.
The log joint log p(x, θ), latents summed out, never decreases; with a flat prior it is the log-likelihood, and EM is maximum
likelihood. Where all latents are observed, as in a classifier with every label, the maximum has a closed form
(`inference.fixed_points.closed_form`).
"""

from typing import NamedTuple

from inference.engine.requirements import Support
from inference.engine.sweep import Updates
from inference.engine.task import Points, Task
from inference.fixed_points.climbing import climb
from inference.fixed_points.closed_form import closed_form
from inference.fixed_points.fixed_point import FixedPoint, log_joint
from inference.methods.method import BLOCKS_OF_SHARED, Method, OverBlocks
from inference.methods.options import Accelerate, MaxIter, NumStarts, Tol
from inference.minibatches import by_blocks
from models.algebra import at_mode

FIXED_POINT = FixedPoint(Updates(parameters=at_mode, latents="mean"), criterion=log_joint)


class Options(NamedTuple):
    """Stop when the log joint gains less than ``tol`` (N + its gain so far).

    ``tol=0`` runs all ``max_iter`` iterations. ``accelerate`` extrapolates between iterations
    (`inference.convergence.acceleration`), to the same fixed points. An iteration is an E-step either way.
    """

    max_iter: MaxIter = 2000
    tol: Tol = 1e-10
    num_starts: NumStarts = 10
    accelerate: Accelerate = False


def run(task: Task, options: Options) -> Points:
    """Run EM from every start; `fit` keeps the best, and reports all."""
    if task.source is not None and task.source.step_size is not None:
        return by_blocks.climb(task, FIXED_POINT, options.max_iter, options.num_starts, METHOD.support)[0]
    closed = closed_form(task, options.tol) if task.source is None else None
    method = FIXED_POINT._replace(accelerate=options.accelerate)
    return closed or climb(task, method, options.max_iter, options.tol, options.num_starts, METHOD.support)[0]


METHOD = Method(
    name="em",
    summary="EM to the posterior mode (maximum likelihood with model.prior=flat)",
    options=Options,
    run=run,
    claim="mode",
    evidence=("optimum", "predictions"),
    support=Support("em"),
    updates=FIXED_POINT.updates.in_words(),
    over_blocks=OverBlocks(BLOCKS_OF_SHARED, steps=True, held_out=True),
)
