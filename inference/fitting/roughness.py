"""How far off the log joint of a run in single precision was."""

from typing import Any

import jax
import numpy as np

from inference.diagnostics.verdicts import Finding, largest_gap
from inference.engine.evaluate import evaluate
from inference.engine.single_precision import moved_back, seen_from_origin
from inference.engine.task import Draws, Points, Task
from inference.fitting.prepare import as_arrays
from inference.results.draws import one_axis, thinned

FEW = 4  # draws that are compared


def task_from_origin(task: Task, data: Any) -> Task:
    """A task in double precision with rows and prior seen from the origin, as a run in single precision saw them."""
    hyper, rows, _ = seen_from_origin(task.model, task.hyper, task.model.rows(data), None)
    sufficient_rows = rows if task.model.reading.sufficient_rows is None else task.model.reading.sufficient_rows(rows)
    hyper, rows, sufficient_rows = as_arrays((hyper, rows, sufficient_rows))
    return task._replace(hyper=hyper, rows=rows, sufficient_rows=sufficient_rows)


def roughness(single: Task, double: Task, outcome: Draws | Points, best: int) -> dict[str, float]:
    """The largest gap between the log joint in single and in double precision at the same sites.

    These are the sites of the ``best`` start, or of a few draws. Returns attributes of the result, for the table of verdicts.
    """
    if isinstance(outcome, Draws) and outcome.model is not None:  # learnt hyperparameters give another posterior
        return {}
    sites = _some_sites(outcome, best)
    with jax.enable_x64(False):
        seen = evaluate(single.model, single.hyper, single.prior, single.rows, sites).log_joint
    moved = moved_back(double.model, sites)
    log_joint = evaluate(double.model, double.hyper, double.prior, double.rows, moved).log_joint
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(np.asarray(seen, dtype=np.float64) - log_joint), nan=np.inf)
    gap = np.where(np.isfinite(log_joint), gap, 0.0)  # an infinite log joint has another verdict
    worst = int(np.argmax(gap - largest_gap(Finding(gap, size=np.where(np.isfinite(log_joint), log_joint, 0.0)))))
    return {"precision_gap": float(gap[worst]), "precision_log_joint": float(log_joint[worst])}


def _some_sites(outcome: Draws | Points, best: int) -> dict[str, np.ndarray]:
    """Sites of the best start, or of a few draws, along one leading axis."""
    if isinstance(outcome, Points):
        return {name: np.asarray(leaf)[best : best + 1] for name, leaf in outcome.sites.items()}
    return thinned(one_axis({name: np.asarray(leaf) for name, leaf in outcome.sites.items()}), FEW)
