"""The step of nu in `inference.methods.svi_on_host`, one pass over memory; imported where steps begin, as Numba is slow to."""

from typing import Any

from models.compilation import compiled


@compiled
def step_along(nu: Any, stats: Any, prior: Any, scale: float, rate: float) -> None:
    """``nu`` ← (1 − rate) nu + rate (prior + scale · stats), all flat."""
    for i in range(len(nu)):
        nu[i] = (1.0 - rate) * nu[i] + rate * (prior[i] + scale * stats[i])
