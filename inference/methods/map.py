"""Maximum a posteriori: a search for the mode of the NumPyro program.

The objective is the loss of NumPyro's `AutoDelta`, −log p(x, θ) in the coordinates of the program's sites, without a Jacobian
(errata E20), so that the answer is EM's. It has no noise. L-BFGS-B therefore converges to the last digits. With
``optimizer=svi`` the steps are those of stochastic variational inference (`inference.methods.delta_guide`), to the same point.

The best start is the highest. A remark warns if another optimum has clearly more mass (`inference.methods.optima_by_mass`).
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from numpyro import distributions as dist

from inference.engine.initialise import num_starts, start_sites
from inference.engine.program import constrain_starts, innermost, latent_sites, transforms, unconstrain_chains
from inference.engine.quasi_newton import Minima, minimise, value_at
from inference.engine.sweep import local_step
from inference.engine.task import Points, Task, timing
from inference.methods.delta_guide import DeltaProgram, delta, loss, minimise_by_svi
from inference.methods.method import Method
from inference.methods.optima_by_mass import Search, modes_by_mass
from inference.methods.options import MaxIter, NumStarts, Setting, Tol
from models.algebra import add, at_mode, structures
from models.base import Algebra, Hyper, Iteration, Pytree, Sites, Stats, ZooError

RATE = 0.1  # of Adam: a tenth of a standard deviation in a step
FALLEN = 5.0  # e-folds by which a positive number has fallen below its start, from where it may be on its way to 0
FURTHER = (0.0, 2.0, 4.0)  # e-folds further, at which the log density is evaluated
MOST_LOOKED_AT = 20  # positive numbers of a start that have fallen


class Options(NamedTuple):
    """Stop when the log joint gains less than ``tol`` of its gain so far; ``num_starts`` starts, those of ``em``.

    With ``optimizer=svi`` an iteration is a step of Adam, and ``tol`` is a share of the log joint, see
    `inference.methods.delta_guide`.
    """

    max_iter: MaxIter = 5000
    tol: Tol = 1e-14
    num_starts: NumStarts = 10
    optimizer: Annotated[
        Literal["lbfgs", "svi"], Setting("of the steps: SciPy's L-BFGS-B, or Adam in NumPyro's SVI with a delta guide")
    ] = "lbfgs"
    learning_rate: Annotated[
        float, Setting("of optimizer=svi: Adam's first rate, in units of the curvature", low=1e-6, high=1)
    ] = RATE


def run(task: Task, options: Options) -> Points:
    """Run every start to a maximum; `fit` keeps the best, and reports all.

    Raises `ZooError` for a ``learning_rate`` without ``optimizer=svi``.
    """
    if options.learning_rate != RATE and options.optimizer != "svi":
        raise ZooError(f"map: learning_rate={options.learning_rate} is of optimizer=svi; leave it out, or use optimizer=svi")
    spec = task.model.spec
    rows = task.sufficient_rows
    supports = transforms(spec, task.hyper, rows)
    leaves, structure = jax.tree.flatten(rows)
    program = DeltaProgram(spec, (structure, tuple(leaf.shape for leaf in leaves)))
    svi = delta(program)
    if svi.guide.prototype_trace is None:
        # On shapes only: the guide learns the sites, and its values are never read, because `loss` gives every location. Run
        # on numbers, NumPyro's initialisation compiles hundreds of single operations.
        jax.eval_shape(svi.init, task.key, task.hyper, rows)
    starts = unconstrain_chains(supports, start_sites(task, num_starts(task, options.num_starts)))
    minima = _search(task, options, program, (task.hyper, rows, supports), starts)
    sites = constrain_starts(supports, minima.points)
    ends = [_end(task, {name: leaf[s] for name, leaf in sites.items()}, value) for s, value in enumerate(minima.values)]
    on_host = {name: np.asarray(value) for name, value in sites.items()}
    later = [after for _, after in ends if after is not None]
    endless = _endless(task, program, (task.hyper, rows, supports), starts, minima)
    failure = [why or without for (why, _), without in zip(ends, endless, strict=True)]
    search = Search(loss, program, (task.hyper, rows, supports), minima)
    return Points(
        sites=on_host,
        objective=-minima.trace,
        iterations=minima.iterations,
        converged=minima.converged,
        failure=failure,
        timing=timing(minima.run_seconds, minima.compile_seconds),
        interrupted=minima.interrupted,
        last=Iteration(on_host, jax.tree.map(lambda *leaves: np.stack(leaves), *later)) if len(later) == len(ends) else None,
        modes=modes_by_mass(task.model, supports, search, np.array([why is None for why in failure])),
    )


def _search(task: Task, options: Options, program: DeltaProgram, arrays: tuple[Any, ...], starts: Pytree) -> Minima:
    """The ends of all starts by the optimiser chosen."""
    limits = (options.max_iter, options.tol)
    if options.optimizer == "svi":
        return minimise_by_svi(task, program, arrays, starts, *limits, options.learning_rate)
    return minimise(loss, program, arrays, starts, *limits, task.reporter, task.checkpoint("evaluations"))


def _end(task: Task, sites: Sites, value: float) -> tuple[str | None, Sites | None]:
    """(why a start has no mode, or None; the sites after one more iteration of EM, or None without such an iteration).

    A start has no mode where its objective is not finite, or where a block has no mode given the expected latents: at a mode of
    the log joint every block of parameters is at its mode.
    """
    algebra = task.model.algebra
    sound = bool(np.isfinite(value)) and abs(value) <= 1e100
    why = (
        None
        if sound
        else "the log joint is unbounded or not finite: a component collapses. Use prior=default, or fewer components"
    )
    if algebra is None or "joint" not in structures(algebra.structure):
        return why, None
    nu, after = _iterated(algebra, task.hyper, task.prior, sites, task.sufficient_rows)
    reasons = (family.why_no_mode(nu[name]) for name, family in algebra.families)
    return why or next(filter(None, reasons), None), jax.tree.map(np.asarray, after)


def _endless(task: Task, program: DeltaProgram, arrays: tuple[Any, ...], starts: Pytree, minima: Minima) -> list[str | None]:
    """For each start of a program why it has no mode: the log density grows as long as a scale falls towards 0.

    So does that of a centred hierarchy, where all effects are equal. An optimiser stops there by rounding, and elsewhere from
    every start. From there on the log density still grows by equal steps, while at a mode it falls, or is flat.
    """
    if task.model.algebra is not None:  # its families report where they have no mode
        return [None] * len(minima.values)
    positive = (dist.constraints.positive, dist.constraints.nonnegative)
    sites = latent_sites(task.model.spec, task.hyper, task.sufficient_rows)
    names = [name for name, site in sites.items() if innermost(site.support) in positive]
    reasons: list[str | None] = []
    for s in range(len(minima.values)):
        point = {name: leaf[s] for name, leaf in minima.points.items()}
        fallen = [
            (name, place)
            for name in names
            for place in np.argwhere(np.asarray(point[name]) < np.asarray(starts[name][s]) - FALLEN).tolist()
        ]
        grows = [name for name, place in fallen[:MOST_LOOKED_AT] if _grows(program, arrays, point, name, tuple(place))]
        reasons.append(_without_mode(", ".join(dict.fromkeys(grows))) if grows else None)
    return reasons


def _grows(program: DeltaProgram, arrays: tuple[Any, ...], point: Pytree, name: str, place: tuple[int, ...]) -> bool:
    """Whether the log density rises by a nat or more as one number falls by 2 e-folds, and by as much in the next 2."""
    moved = [point | {name: point[name].at[place].add(-step)} for step in FURTHER]
    near, middle, far = (-value_at(loss, program, arrays, end) for end in moved)
    return bool(middle - near >= 1 and far - middle >= 0.9 * (middle - near) and np.isfinite(far))


def _without_mode(names: str) -> str:
    return (
        f"the log density grows without bound as {names} → 0, so that it has no mode. Use method=nuts, write the program "
        f"non-centred, or give {names} a prior without density at 0, such as a LogNormal"
    )


@partial(jax.jit, static_argnames=("algebra",))
def _iterated(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], sites: Sites, rows: Pytree
) -> tuple[dict[str, Stats], dict[str, Array]]:
    """(prior + expected statistics at a point, the sites at their mode)."""
    key = jax.random.PRNGKey(0)
    stats = local_step(algebra, "mean", hyper, key, algebra.natural(hyper, sites), rows).stats
    nu = add(dict(prior), stats)
    return nu, algebra.sites(hyper, at_mode(algebra, key, nu))


METHOD = Method(
    name="map",
    summary="the log joint of the program, maximised by a quasi-Newton method: the same point as em",
    options=Options,
    run=run,
    claim="mode",
    evidence=("optimum", "predictions"),
)
