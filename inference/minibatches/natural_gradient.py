"""The step of nu in `inference.minibatches.svi_on_host`, in one pass over memory; imported late, as Numba is slow to import."""

from typing import Any

from models.host.compilation import compiled


@compiled
def step_along(nu: Any, stats: Any, prior: Any, scale: float, rate: float) -> None:
    """``nu`` ← (1 − rate) nu + rate (prior + scale · stats), all flat."""
    for i in range(len(nu)):
        nu[i] = (1.0 - rate) * nu[i] + rate * (prior[i] + scale * stats[i])
