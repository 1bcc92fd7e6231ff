"""The modes of a posterior that draws belong to: EM climbs from them, and optima equal up to labels are one mode.

`look_for_modes` looks for modes that no chain has visited. EM also climbs from further starts, which are seeded like those of
chains. Where it ends at an optimum to which no draw leads, the masses of this mode and of that of the chains are estimated,
each by importance sampling from the Gaussian at its mode (`inference.methods.laplace`). The estimates count if their Pareto
k-hats do, or all weights are nearly equal. If not, the masses of the Gaussians show roughly whether the mode matters. The mass
of all modes that chains have visited is that of one of them, divided by its share of the draws.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from inference.diagnostics.checks import as_attributes, other_modes, problems_of, stored
from inference.diagnostics.importance import pareto_k
from inference.diagnostics.modes import NOWHERE, Modes, described_modes
from inference.diagnostics.verdicts import FINISHED, Finding, judge, largest_k
from inference.engine.initialise import finite_latents, start_sites
from inference.engine.program import num_parameters
from inference.engine.sweep import num_rows
from inference.engine.task import Kind, Task, kind_of
from inference.fitting.prepare import as_arrays, make_task, require_model, x64
from inference.fixed_points.climbing import climb_from
from inference.identification.invariants import distances
from inference.methods import METHODS, collapsed_gibbs, em, laplace, tempered_gibbs
from inference.methods.method import method_named
from inference.results.draws import one_axis
from inference.results.tree import values
from inference.results.triangles import sites_of
from inference.runtime.progress import Silent
from models.algebra import exchanges_labels
from models.base import Model, ZooError
from models.data.arguments import require_whole
from models.rows.encoded import spread

APART = 1.0  # posterior standard deviations beyond which two optima are different modes
TOGETHER = 16  # points from which EM climbs side by side: half of them starts, then draws alone
LOOKED_AT = 200  # draws at most that are climbed from before a mode counts as unvisited
SWEEPS = 200  # of EM from each point: with all of the above fewer than the sweeps of a run of gibbs by its defaults
MOST_ROWS, MOST_PARAMETERS = 5000, 64  # of a table where modes are looked for, and of a model whose masses can be estimated
NEGLIGIBLE = 10.0  # nats, or one per parameter: a mode that is lower by more has negligible mass
ROUGHLY = 7.0  # nats, a thousandth: Laplace's approximation is trusted that a mode with less mass does not matter
WEIGHED = 1000  # draws for the mass of a mode
LOOK = "look with inference.look_for_modes(model, result, data)"
NOT_LOOKED = "whether there are modes that no chain has visited was not looked for"
LEVEL = 0.5  # nats by which no weight exceeds their mean: then they hardly differ, and their k-hat is meaningless
MOST_WEIGHED = 3  # modes whose masses are estimated, apart from that of the chains


def modes(model: Model, tree: xr.DataTree, data: object, num_draws: int = 200) -> Modes:
    """Which modes, and which of the K! labellings, the chains of a result have visited, and with what weight.

    EM climbs from ``num_draws`` draws, evenly spread over all chains. Draws from which it reaches the same optimum, up to
    labels, belong to one mode (`inference.diagnostics.modes`). Optima are the same if no summary that is free of labels differs
    by more than a posterior standard deviation, nor any entry once components are matched. A mode that no chain visits is not
    seen.

    Raises `ZooError` for a result without draws of the posterior, and for a program, which EM cannot climb.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> visited = modes(model, fit(model, data, "gibbs"), data)
    >>> float(visited.modes["share"].sum().round(6))  # print(visited) has sentences and tables
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
    if exchanges_labels(model):
        moves = values(tree, "sample_stats", "permutation")
    return described_modes(mode.reshape(chains, -1), height, moves, kind, remedy(model))


class Optima(NamedTuple):
    """Modes, the highest first, and the mode of every point that EM climbed from, or `NOWHERE`."""

    mode: np.ndarray  # (S,)
    height: np.ndarray  # (M,): the log joint
    sites: dict[str, np.ndarray]  # (M, …)


def modes_of_points(
    task: Task, points: Mapping[str, np.ndarray], draws: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(S,) the mode of each of S points, numbered from the highest, `NOWHERE` without one; (M,) the log joint at every mode.

    ``draws`` give the standard deviations in which distances of optima are measured.
    """
    sites, last = _climbed(task, points, em.Options().max_iter)
    return _grouped(task, sites, last, draws)[:2]


def _climbed(task: Task, points: Mapping[str, np.ndarray], max_iter: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(where EM ends from every point, the log joint there: −∞ where it has not converged)."""
    climbed = climb_from(task, em.FIXED_POINT, as_arrays(dict(points)), max_iter, em.Options().tol, em.METHOD.support)
    assert climbed.objective is not None
    last = np.array([trace[np.isfinite(trace)][-1] if np.isfinite(trace).any() else -np.inf for trace in climbed.objective])
    optima = {name: np.nan_to_num(np.asarray(value)) for name, value in climbed.sites.items()}
    return optima, np.where(climbed.converged, last, -np.inf)


def _grouped(task: Task, optima: dict[str, np.ndarray], last: np.ndarray, draws: Mapping[str, np.ndarray]) -> Optima:
    """Optima that are equal up to labels, as one mode."""
    left = np.isfinite(last)
    mode = np.full(len(last), NOWHERE)
    tops: list[int] = []
    while left.any():
        best = int(np.argmax(np.where(left, last, -np.inf)))
        near = distances(optima, best, draws, task.model.naming.dims, task.model.symmetry) <= APART
        mode[left & near] = len(tops)
        tops.append(best)
        left &= ~near
    return Optima(mode, last[tops], {name: value[tops] for name, value in optima.items()})


# ---------------------------------------------------------------------------------------------------------------------
# Modes that no chain has visited


def look_for_modes(model: Model, tree: xr.DataTree, data: object) -> xr.DataTree:
    """A copy of a result with a verdict on modes that no chain has visited. No draw changes; `inference.run` calls it.

    It looks where a result has the remark that modes were not looked for: at ``gibbs`` and ``nuts`` on models with exchangeable
    components, where no diagnostic has failed. The remark goes where every start of EM leads to where draws lead. A mode that
    no draw leads to, with 5 % or more of the mass, is a failed diagnostic. The remark stays where the outcome is unknown.
    The attribute ``modes_looked`` has from how many points EM climbed, and the outcome. Programs have no EM, and
    streams hold no rows to climb on: their results are returned as they are.

    >>> corners = np.array([(-3, -2.95), (-3, 2.95), (3, -2.95), (3, 2.95)])
    >>> data = load_data(np.repeat(corners, 2, axis=0) + np.tile([[-0.1, 0.1], [0.1, -0.1]], (4, 1)))
    >>> model = MODELS["gmm_simple"](data, num_components=2)
    >>> tree = fit(model, data, "gibbs", start={"mean": np.array([[0.0, -2.5], [0.0, 2.5]])})
    >>> look_for_modes(model, tree, data).attrs["problems"][:12]
    'another mode'
    """
    require_model(model)
    if "modes_unknown" not in tree.attrs or model.algebra is None:
        return tree
    try:
        with x64(64):
            task = make_task(model, data, int(tree.attrs["seed"]), None, Silent())
            outcome = {"modes_remedy": remedy(model)} | _looked(task, one_axis(sites_of(tree, "posterior_raw")), tree)
    except KeyboardInterrupt:  # the result is whole without it, and another look may end
        outcome = {"modes_unknown": _not_looked("the look was interrupted")}
    except ZooError as error:  # as where no start is possible; the draws are there all the same
        outcome = {"modes_unknown": _not_looked(f"EM cannot start ({error})"), "modes_remedy": remedy(model)}
    looked_at = tree.copy()
    attributes = {name: value for name, value in tree.attrs.items() if name != "modes_unknown"}
    looked_at.attrs = attributes | outcome
    looked_at.attrs.update(as_attributes(problems_of(looked_at)))
    return looked_at


def with_remark(model: Model, tree: xr.DataTree) -> xr.DataTree:
    """The result of a fit, with the remark that modes which no chain has visited were not looked for, where chains may stay.

    That is where rows are divided among exchangeable components, and no diagnostic has failed.
    """
    divides = model.algebra is not None and exchanges_labels(model)
    method = tree.attrs["method"]
    stays = method in METHODS and method_named(method).may_stay
    if stays and divides and tree.attrs["exit_status"] == FINISHED:
        tree.attrs.update({"modes_unknown": NOT_LOOKED, "modes_remedy": f"{LOOK}, or {remedy(model)}"})
        tree.attrs.update(as_attributes([*stored(tree), *judge(kind_of(tree), {"other modes": other_modes(tree)})]))
    return tree


def _not_looked(why: str) -> str:
    return f"{NOT_LOOKED}, as {why}"


def _looked(task: Task, draws: dict[str, np.ndarray], tree: xr.DataTree) -> dict[str, Any]:
    """Attributes with the outcome: only that modes were looked for, where every start of EM leads to where draws lead."""
    algebra, size = task.model.algebra, num_parameters(task.model.spec, task.hyper, task.rows)
    assert algebra is not None
    if num_rows(task.rows) > MOST_ROWS:
        return {"modes_unknown": _not_looked(f"there are more than {MOST_ROWS} rows")}
    if size > MOST_PARAMETERS:
        return {"modes_unknown": _not_looked(f"there are more than {MOST_PARAMETERS} parameters")}
    if not finite_latents(algebra, task.hyper, task.prior, task.rows) or em.METHOD.support.why_not(algebra) is not None:
        return {"modes_unknown": _not_looked("EM does not climb here")}
    half, number = TOGETHER // 2, len(next(iter(draws.values())))
    starts = _starts(task, half, tree["posterior"].sizes["chain"])
    first = {name: np.concatenate([starts[name], value[spread(number, half)]]) for name, value in draws.items()}
    sites, last = _climbed(task, first, SWEEPS)
    optima = _grouped(task, sites, last, draws)
    if not np.isfinite(last[:half]).any() or not np.isfinite(last[half:]).any():
        return {"modes_unknown": _not_looked(f"EM comes to no mode in {SWEEPS} sweeps")}
    if not _unvisited(optima, half, size):
        return {"modes_looked": _trace(last, half, "none")}
    for batch in _batches(draws):
        more, ends = _climbed(task, batch, SWEEPS)
        sites = {name: np.concatenate([value, more[name]]) for name, value in sites.items()}
        last = np.concatenate([last, ends])
    optima = _grouped(task, sites, last, draws)
    unvisited = _unvisited(optima, half, size)
    weighed = _weighed(task, optima, half, unvisited) if unvisited else {}
    outcome = "one" if weighed else "none that matters" if unvisited else "none"
    return {"modes_looked": _trace(last, half, outcome)} | weighed


def _trace(last: np.ndarray, half: int, outcome: str) -> str:
    """The search in a sentence: ``last`` (point,) is the log joint where EM came to a mode."""
    counts = [f"{int(np.isfinite(part).sum())} of {len(part)}" for part in (last[:half], last[half:])]
    came = f"EM came to a mode from {counts[0]} further starts and from {counts[1]} draws"
    return f"modes that no chain has visited were looked for: {came}, and found {outcome}"


def _starts(task: Task, number: int, together: int) -> dict[str, np.ndarray]:
    """Sites of ``number`` starts, made as many ``together`` as the run had chains: a program for so many is there already.

    Their keys are none that the run had.
    """
    keys = jax.random.split(jax.random.fold_in(task.key, 2), -(-number // together))
    parts = [start_sites(task._replace(key=key), together) for key in keys]
    return {name: np.concatenate([np.asarray(one[name]) for one in parts])[:number] for name in parts[0]}


def _batches(draws: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """`TOGETHER` draws each, evenly spread over all."""
    number = len(next(iter(draws.values())))
    some = spread(number, LOOKED_AT)
    whole = len(some) // TOGETHER
    return [{name: value[part] for name, value in draws.items()} for part in some[: whole * TOGETHER].reshape(whole, TOGETHER)]


def _unvisited(optima: Optima, half: int, size: int) -> list[int]:
    """Modes to which some of the ``half`` starts lead and no draw does, unless they are far below those of draws."""
    visited = set(optima.mode[half:].tolist()) - {NOWHERE}
    lowest = max((optima.height[m] for m in visited), default=np.inf) - max(NEGLIGIBLE, float(size))
    of_starts = set(optima.mode[:half].tolist()) - visited - {NOWHERE}
    return sorted(m for m in of_starts if optima.height[m] >= lowest)


class Mass(NamedTuple):
    """The log of the integral of likelihood times prior around a mode and its images, less log K! for K components.

    A mode with equal components has fewer images.
    """

    sampled: float  # by importance sampling; NaN where the weights are unreliable
    gaussian: float  # by Laplace's approximation; NaN where no isolated mode is


def _weighed(task: Task, optima: Optima, half: int, others: list[int]) -> dict[str, Any]:
    """Attributes: the share of the mass of the modes ``others``, and which has most; or that it is known roughly, or not."""
    led = optima.mode[half:][optima.mode[half:] != NOWHERE]
    main = int(np.bincount(led).argmax())
    masses = {m: _mass(task, {name: value[m] for name, value in optima.sites.items()}) for m in (main, *others[:MOST_WEIGHED])}
    above = {m: (mass.sampled - masses[main].sampled, mass.gaussian - masses[main].gaussian) for m, mass in masses.items()}
    del above[main]
    known = {m: sampled for m, (sampled, _) in above.items() if not np.isnan(sampled)}
    if known:
        other = max(known, key=known.__getitem__)
        together = float(np.sum(np.exp(list(known.values()))))  # relative to the mass of the mode of the chains
        share = together / (together + 1 / float(np.mean(led == main)))
        return {"unvisited_share": float(share), "unvisited_mode": _place(optima, main, other)}
    rough = {m: gaussian for m, (_, gaussian) in above.items() if not gaussian < -ROUGHLY}  # NaN stays
    if not rough:
        return {}
    other = next(iter(rough))
    mass = "unknown mass" if np.isnan(rough[other]) else f"roughly e^{rough[other]:.0f} times the mass of theirs"
    where = f"finds a mode that no chain has visited ({_place(optima, main, other)}), of {mass}"
    return {"modes_unknown": f"EM from further starts {where}"}


def _place(optima: Optima, main: int, other: int) -> str:
    below = float(optima.height[main] - optima.height[other])
    side = "lower" if below > 0 else "higher"
    return f"log joint {optima.height[other]:.2f}, {abs(below):.2f} nats {side} than at the mode of the chains"


def _mass(task: Task, sites: Mapping[str, np.ndarray]) -> Mass:
    """The mass of a mode, twice estimated."""
    start = {name: jax.device_put(value) for name, value in sites.items()}
    try:
        draws = laplace.run(task._replace(start=start), laplace.Options(num_starts=1, num_samples=WEIGHED, num_chains=1))
    except ZooError:  # no isolated mode is here
        return Mass(np.nan, np.nan)
    log_mass, weights = float(draws.attrs["log_evidence_importance"]), draws.sample_stats["log_weight"].ravel()
    level = float(np.max(weights)) <= log_mass + LEVEL
    reliable = level or pareto_k(weights) <= largest_k(Finding(np.zeros(0), size=WEIGHED))
    assert draws.optimization is not None
    assert draws.optimization.modes is not None
    gaussian = float(draws.optimization.modes.log_mass[0])
    images = gaussian - float(draws.attrs["log_evidence_laplace"])  # of the mode, less log K!
    return Mass(log_mass + images if reliable else np.nan, gaussian)


def remedy(model: Model) -> str:
    """The advice where chains do not cross, in words."""
    assert model.algebra is not None
    supports = (tempered_gibbs.METHOD.support, collapsed_gibbs.METHOD.support)
    able = [each.name for each in supports if each.why_not(model.algebra) is None]
    return f"use method={' or '.join(able)}" if able else "run chains from several starts, and report the modes apart"
