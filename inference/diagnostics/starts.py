"""Where the starts of an optimiser ended: how many at the best objective, and where the others."""

import numpy as np
import xarray as xr

from inference.diagnostics.verdicts import SUMMED
from inference.results.tree import values

NEAR = 1e-6  # tolerance for equal objectives, relative to the rows and to the rise of the objective


def starts_at_best(tree: xr.DataTree) -> tuple[int, int] | None:
    """(starts that reached the best value, all starts) of an optimiser; None for a single start, or if all starts failed."""
    if "optimization" not in tree:
        return None
    final = values(tree, "optimization", "final_objective")
    if np.isnan(final).all() or len(final) == 1:
        return None
    return int(_near_best(tree, final).sum()), len(final)


def _near_best(tree: xr.DataTree, final: np.ndarray) -> np.ndarray:
    """(start,): which starts reached the best value, to a tolerance in nats that does not depend on the units of the data.

    Like the stopping rule (`inference.fixed_points.fixed_point.threshold`), the tolerance is relative to the total weight of
    the rows and to the rise of the best start. In single precision, rounding of the value itself is added.
    """
    best = int(np.nanargmax(final))
    trace = values(tree, "optimization", "objective")[best] if "objective" in tree["optimization"] else np.zeros(1)
    trace = trace[np.isfinite(trace)]
    nats = 1 + float(np.nan_to_num(tree.attrs.get("total_weight", 0.0))) + (float(np.ptp(trace)) if len(trace) else 0.0)
    rounding = SUMMED * abs(final[best]) if tree.attrs.get("precision", 64) == 32 else 0.0
    near: np.ndarray = final[best] - final <= NEAR * nats + rounding
    return near


def describe_starts(tree: xr.DataTree) -> str:
    """One line: how many starts reached the best value, and where the others ended; "" for a single start."""
    if starts_at_best(tree) is None:
        return ""
    final = values(tree, "optimization", "final_objective")
    sound = final[~np.isnan(final)]
    near = _near_best(tree, final)[~np.isnan(final)]
    text = f"{near.sum()} of {len(final)} starts reached the best objective {sound.max():.4f}"
    if not near.all():
        low, high = f"{sound[~near].min():.4f}", f"{sound[~near].max():.4f}"
        text += f"; {(~near).sum()} ended at local optima, " + (f"at {low}" if low == high else f"from {low} to {high}")
    failed = len(final) - len(sound)
    return text + (f"; {failed} failed" if failed else "")
