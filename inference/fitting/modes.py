"""The modes of a posterior that draws belong to: EM climbs from them, and equal optima are one mode, whatever their labels."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from inference.diagnostics.modes import NOWHERE, Modes, described_modes
from inference.engine.task import Kind, Task, kind_of
from inference.fitting.prepare import as_arrays, make_task, require_model, x64
from inference.fixed_points.fixed_point import climb_from
from inference.identification.invariants import distances
from inference.methods import collapsed_gibbs, em, tempered_gibbs
from inference.results.draws import one_axis
from inference.results.tree import values
from inference.results.triangles import sites_of
from inference.runtime.progress import Silent
from models.base import Model, Permutation, ZooError
from models.data.arguments import require_whole
from models.rows.encoded import spread

APART = 1.0  # posterior standard deviations beyond which two optima are different modes


def modes(model: Model, tree: xr.DataTree, data: object, num_draws: int = 200) -> Modes:
    """Which modes, and which of the K! labellings, the chains of a result have visited, and with what weight.

    EM climbs from ``num_draws`` draws, evenly spread over all chains. Draws from which it reaches the same optimum, whatever
    the labels, belong to one mode (`inference.diagnostics.modes`). Optima are the same if no summary that is free of labels
    differs by more than a posterior standard deviation. A mode that no chain visits is not seen.

    Raises `ZooError` for a result without draws of the posterior, and for a program, which EM cannot climb.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> found = modes(model, fit(model, data, "gibbs"), data)
    >>> float(found.modes["share"].sum().round(6))  # print(found) has sentences and tables
    1.0
    """
    require_model(model)
    require_whole("num_draws", num_draws, 1)
    kind = kind_of(tree)
    if kind not in (Kind.CHAINS, Kind.INDEPENDENT):
        raise ZooError("modes needs draws of the posterior, as those of gibbs or nuts; this result has none")
    sites = sites_of(tree, "posterior")
    chains, draws = next(iter(sites.values())).shape[:2]
    some = spread(draws, max(1, num_draws // chains))
    looked_at = one_axis({name: value[:, some] for name, value in sites.items()})
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        mode, height = modes_of_points(task, looked_at, one_axis(sites))
    moves = None
    if isinstance(model.symmetry, Permutation):
        moves = values(tree, "sample_stats", "permutation")
    return described_modes(mode.reshape(chains, -1), height, moves, kind, remedy(model))


def modes_of_points(
    task: Task, points: Mapping[str, np.ndarray], draws: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(S,) the mode of each of S points, numbered from the highest, `NOWHERE` without one; (M,) the log joint at every mode.

    ``draws`` say how far apart two optima are, in standard deviations.
    """
    options = em.Options()
    found = climb_from(task, em.METHOD, as_arrays(dict(points)), options.max_iter, options.tol, em.TAKES)
    assert found.objective is not None
    last = np.array([trace[np.isfinite(trace)][-1] if np.isfinite(trace).any() else -np.inf for trace in found.objective])
    left = found.converged & np.isfinite(last)
    mode = np.full(len(last), NOWHERE)
    height: list[float] = []
    while left.any():
        best = int(np.argmax(np.where(left, last, -np.inf)))
        optima = {name: np.nan_to_num(value) for name, value in found.sites.items()}
        near = distances(optima, best, draws, task.model.naming.dims, task.model.symmetry) <= APART
        mode[left & near] = len(height)
        height.append(float(last[best]))
        left &= ~near
    return mode, np.array(height)


def remedy(model: Model) -> str:
    """What to do where chains do not cross, in words."""
    assert model.algebra is not None
    takes = (tempered_gibbs.TAKES, collapsed_gibbs.TAKES)
    able = [each.name for each in takes if each.refuses(model.algebra) is None]
    return f"use method={' or '.join(able)}" if able else "run chains from several starts, and report the modes apart"
