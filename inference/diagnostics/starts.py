"""Where the starts of an optimiser ended: how many at the best objective, and where the others."""

import numpy as np
import xarray as xr

from inference.diagnostics.verdicts import SUMMED
from inference.results.tree import values

MATTERS = 3.0  # nats below the largest mass from which on a mode is left out of account: it has e⁻³ = 5 % of that mass
SHOWN = 5  # modes named in a line
TINY = 1e-3  # share of the mass below which it is not printed
NEAR = 1e-6  # tolerance for equal objectives, relative to the rows and to the rise of the objective


def starts_at_best(tree: xr.DataTree) -> tuple[int, int] | None:
    """(starts that reached the best value, all starts) of an optimiser; None for a single start, or if all starts failed.

    Where draws cover several modes that matter, it is the number of starts at the one which fewest have reached.
    """
    if "optimization" not in tree:
        return None
    final = values(tree, "optimization", "final_objective")
    if np.isnan(final).all() or len(final) == 1:
        return None
    if "modes_covered" in tree.attrs:
        return int(_at_modes(tree).min()), len(final)
    return int(_near_best(tree, final).sum()), len(final)


def _at_modes(tree: xr.DataTree) -> np.ndarray:
    """(M,): how many starts ended at each mode that the draws cover and that has mass enough to matter, the largest first."""
    mode, log_mass = (values(tree, "optimization", name) for name in ("mode", "log_mass"))
    matters = (mode >= 0) & (mode < int(tree.attrs["modes_covered"])) & (log_mass > np.nanmax(log_mass) - MATTERS)
    return np.unique(mode[matters], return_counts=True)[1]


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
    """One line: how many starts reached the best value, and where the others ended; "" for a single start.

    Where steps are random, starts at one optimum end at objectives that differ, and none of them counts as another optimum.
    """
    if starts_at_best(tree) is None:
        return ""
    final = values(tree, "optimization", "final_objective")
    if "modes_covered" in tree.attrs and values(tree, "optimization", "mode").max() > 0:
        return _describe_modes(tree)
    sound = final[~np.isnan(final)]
    failed = len(final) - len(sound)
    failures = f"; {failed} failed" if failed else ""
    if not tree.attrs.get("repeatable", 1):
        return f"{len(sound)} starts ended at objectives from {sound.min():.4f} to {sound.max():.4f}, with noise{failures}"
    near = _near_best(tree, final)[~np.isnan(final)]
    text = f"{near.sum()} of {len(final)} starts reached the best objective {sound.max():.4f}"
    if not near.all():
        low, high = f"{sound[~near].min():.4f}", f"{sound[~near].max():.4f}"
        text += f"; {(~near).sum()} ended at local optima, " + (f"at {low}" if low == high else f"from {low} to {high}")
    return text + failures


def shares_of_modes(tree: xr.DataTree) -> tuple[list[str], np.ndarray]:
    """(the share of each mode in the mass of all known modes, the largest first, in words; (M,) how many starts it has)."""
    mode, log_mass = (values(tree, "optimization", name) for name in ("mode", "log_mass"))
    _, first, counts = np.unique(mode[mode >= 0], return_index=True, return_counts=True)
    share = np.exp(log_mass[mode >= 0][first] - np.nanmax(log_mass))
    share = share / share.sum()
    return [f"{part:.1%}" if part >= TINY else f"less than {TINY:.1%}" for part in share], counts


def _describe_modes(tree: xr.DataTree) -> str:
    """One line: the share of each mode in the mass of all known modes, and how many starts ended there."""
    total, covered = tree["optimization"].sizes["start"], int(tree.attrs["modes_covered"])
    parts, counts = shares_of_modes(tree)
    shown = [f"{part} of the mass ({count} of {total} starts)" for part, count in zip(parts, counts, strict=True)]
    more = f", and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    left = "" if covered == len(parts) else f"; the draws are of {'the first' if covered == 1 else f'the first {covered}'}"
    return f"{len(parts)} modes: {', '.join(shown[:SHOWN])}{more}{left}"
