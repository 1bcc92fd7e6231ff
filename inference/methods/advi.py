"""Automatic differentiation variational inference (Kucukelbir, Tran, Ranganath, Gelman and Blei 2017), on the NumPyro program.

A Gaussian q on ℝᵈ, latents summed out, maximises the evidence lower bound (ELBO): its mean and covariance are the best for the
whole of q, where those of ``laplace`` are of the mode. ``full_rank`` has any covariance, ``low_rank`` a diagonal and
``rank`` directions, ``mean_field`` a diagonal: its variances are 1 / precision, too narrow where parameters are correlated.
NumPyro's autoguides, SVI and Adam do the work.

q covers one mode and one labelling, its tails are Gaussian, and the maximum of the ELBO favours a q that is too narrow. A
Pareto k-hat of the weights p / q of its draws above 0.7 shows that q is not good enough. A smaller one does not show that it
is. The ELBO is below the log evidence, and like that of ``cavi`` it leaves out log K! for K exchangeable components. Where
factors may be rotated, q keeps to some of the rotations, and no k-hat is given.

Each start has two fits. The first is of a mean field to a few draws that stay the same, by a quasi-Newton method (Giordano,
Ingram and Broderick 2024). It gives the location and the scale of the posterior, and in these units Adam starts. Adam's rate
falls where the ELBO no longer rises by more than its Monte Carlo error, as in Welandawe, Andersen, Vehtari and Huggins (2024).
The parameters of q are averages over the last `WINDOW` steps.
"""

from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from inference.engine.driver import Run, drive
from inference.engine.initialise import num_starts, start_sites
from inference.engine.program import constrain_draws, constrain_starts, ravel_chains, transforms, unconstrain_chains, unravel
from inference.engine.quasi_newton import minimise
from inference.engine.requirements import require_proper
from inference.engine.task import Draws, Points, Task, approximation, timing
from inference.methods.guides import (
    LONGEST,
    NUM_RATES,
    Guide,
    Program,
    constrained,
    drawn,
    energy_at,
    fitter,
    hessian_diagonal,
    initial_states,
    log_ratios,
)
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumStarts, Setting
from inference.runtime.progress import Watch
from models.base import Pytree, ZooError, on_host

WINDOW = 100  # steps of Adam over which the ELBO and the parameters are averaged
PAIRS = 8  # draws, and their mirror images, of the first fit
PREPARED = 200  # iterations of the first fit, at most
ENOUGH = 1e-6  # gain at which it stops, as a share of its gain so far: its draws are few
COMPARED = 1000  # draws by which starts are compared
MOST = 2000  # free parameters of full_rank: it has half the square of them


class Options(NamedTuple):
    """The best ``guide`` of ``num_starts``, each of at most ``max_iter`` steps; ``num_chains`` × ``num_samples`` draws of it.

    At each of Adam's rates a start goes on while the mean ELBO of `WINDOW` steps rises by more than ``tol`` nats and by more
    than its Monte Carlo error. ``rank`` is of guide=low_rank, and 0 stands for the square root of the number of parameters.
    """

    guide: Annotated[Literal["full_rank", "low_rank", "mean_field"], Setting("the covariance of the Gaussian")] = "full_rank"
    rank: Annotated[int, Setting("of guide=low_rank; 0: the square root of the number of parameters", low=0)] = 0
    max_iter: Annotated[int, Setting("steps of Adam, at most")] = 20_000
    tol: Annotated[float, Setting("nats; a start goes on while the ELBO rises by more", low=0)] = 1e-3
    num_starts: NumStarts = 4
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4


class GuideState(NamedTuple):
    """State of one start."""

    svi: list[Array]  # the leaves of SVI's state
    shift: Array  # (d,): from the first fit, see `inference.methods.guides`
    scale: Array
    average: dict[str, Array]  # the guide's parameters on ℝ, averaged over the last window
    elbo: Array  # mean over the last window
    error: Array  # its standard error
    compared: Array  # whether the last window was at the rate of the next one
    stage: Array  # number of the rate
    done: Array
    lost: Array  # whether the ELBO was finite at no step of a window


class WindowRecord(NamedTuple):
    elbo: Array
    error: Array
    done: Array


def first_loss(static: tuple[Any, ...], arrays: tuple[Any, ...], point: dict[str, Array]) -> Array:
    """−ELBO of a mean field at fixed standard normal numbers (M, d), up to a constant: the objective of the first fit."""
    *rest, noise, start, scale = arrays
    points = start + scale * (point["away"] + jnp.exp(point["growth"]) * noise)
    energies = jax.vmap(lambda flat: energy_at(static, tuple(rest), flat))(points)
    return energies.mean() - point["growth"].sum()


def step(program: Program, arrays: tuple[Any, ...], key: Array, state: GuideState) -> tuple[GuideState, WindowRecord, Array]:
    """`WINDOW` steps of Adam of one start, and whether its rate falls; a start that is done stays as it is."""
    svi, _, structure = fitter(program.guide)
    *rest, tol = arrays

    def energy(u: Array) -> Array:
        at = energy_at(program, tuple(rest), state.shift + state.scale * u)
        return at - jnp.log(state.scale).sum()

    def update(leaves: list[Array], _: None) -> tuple[list[Array], tuple[Array, Any]]:
        following, loss = svi.stable_update(jax.tree.unflatten(structure, leaves), program.guide.size, energy)
        return jax.tree.leaves(following), (-loss, svi.optim.get_params(following.optim_state))

    seeded = jax.tree.unflatten(structure, state.svi)._replace(rng_key=key)
    leaves, (elbos, params) = lax.scan(update, jax.tree.leaves(seeded), length=WINDOW)
    sound = jnp.isfinite(elbos)  # `stable_update` does not take the other steps
    number = sound.sum()
    elbo = jnp.where(sound, elbos, 0.0).sum() / number
    error = jnp.sqrt(jnp.where(sound, (elbos - elbo) ** 2, 0.0).sum()) / number
    little = elbo - state.elbo <= jnp.maximum(tol, jnp.hypot(error, state.error))
    falls = state.compared & little
    stage = state.stage + falls
    after = jax.tree.unflatten(structure, leaves)
    count, of_adam = after.optim_state
    after = after._replace(optim_state=(jnp.where(falls, stage * LONGEST, count), of_adam))
    lost = number == 0
    following = GuideState(
        svi=jax.tree.leaves(after),
        shift=state.shift,
        scale=state.scale,
        average=jax.tree.map(lambda leaf: leaf.mean(0), params),
        elbo=elbo,
        error=error,
        compared=~falls,
        stage=stage,
        done=lost | (stage == NUM_RATES),
        lost=lost,
    )
    following = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), following, state)
    return following, WindowRecord(elbo, error, state.done), following.done


def run(task: Task, options: Options) -> Draws:
    """Draws of the best q, the ELBO with its standard error, and the weights p / q."""
    require_proper(task)
    spec, arrays = task.model.spec, (task.hyper, task.sufficient_rows)
    supports = transforms(spec, *arrays)
    z = unconstrain_chains(supports, start_sites(task, num_starts(task, options.num_starts)))
    shapes, starts = ravel_chains(z)
    program = Program(spec, shapes, checked_guide(options, starts))
    shift, scale, seconds = first_fit(task, program, starts)
    states = initial(task, program, shift, scale)
    most = -(-options.max_iter // WINDOW)
    tol = jnp.asarray(options.tol, float)
    watch, checkpoint = Watch(_words), task.checkpoint("windows")
    climbed = drive(
        step, program, (*arrays, tol), task.key, states, most, task.reporter, "climbing", watch=watch, checkpoint=checkpoint
    )
    params = jax.tree.map(np.asarray, constrained(program.guide, climbed.state.average))
    ends = [jax.tree.map(lambda leaf, s=s: leaf[s], (params, shift, scale)) for s in range(len(starts))]
    keys = np.asarray(jax.random.split(jax.random.fold_in(task.key, 2), len(starts) + 1))
    bounds = np.array([_bound(program, arrays, key, end) for key, end in zip(keys[1:], ends, strict=True)])
    if not np.isfinite(bounds).any():
        raise ZooError(
            "advi: the evidence lower bound is finite at no start, because q reaches parameters at which the data are "
            "impossible or the density overflows; check the program and the scale of the data, or use method=nuts"
        )
    best = int(np.where(np.isfinite(bounds), bounds, -np.inf).argmax())
    size = (options.num_chains, options.num_samples)
    flat = np.asarray(drawn(program, size[0] * size[1], keys[0], *ends[best]))
    why = why_no_weights(task)

    def weighed(arrays: tuple[Pytree, Pytree], end: Any, flat: np.ndarray) -> dict[str, Any]:
        ratios = np.asarray(log_ratios(program, arrays, *end, flat), dtype=np.float64)
        return bound_and_weights(ratios.reshape(size), best, why)

    def recompute_in_double(double: Task) -> Draws:
        end, points = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), (ends[best], flat))
        return outcome._replace(**weighed((double.hyper, double.sufficient_rows), end, points))

    draws = constrain_draws(supports, unravel(program.shapes, flat.reshape(*size, -1)))
    points = _points(program, supports, climbed, bounds, params, shift, scale, seconds)
    outcome = approximation(draws, points, recompute_in_double, weighed(arrays, ends[best], flat))
    return outcome


def checked_guide(options: Options, starts: np.ndarray) -> Guide:
    """The guide for starts (start, d); a `ZooError` for a rank of no use, or for more parameters than ``full_rank`` takes."""
    size = starts.shape[1]
    if options.rank and options.guide != "low_rank":
        raise ZooError(f"advi: rank={options.rank} is of guide=low_rank, but the guide is {options.guide}; leave rank out")
    if options.rank > size:
        raise ZooError(f"advi: rank={options.rank} is more than the {size} free parameters; use guide=full_rank")
    if options.guide == "full_rank" and size > MOST:
        raise ZooError(
            f"advi: guide=full_rank has a matrix of as many rows as there are free parameters, {size}, and {MOST} are the most "
            "that are taken; use guide=low_rank or mean_field"
        )
    rank = options.rank or round(size**0.5)
    return Guide(options.guide, size, rank if options.guide == "low_rank" else 0, str(starts.dtype))


def first_fit(task: Task, program: Program, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(means (start, d), standard deviations (start, d), seconds to compile) of the first fit, a mean field to fixed draws.

    It works in units of the curvature at the start.
    """
    arrays, static = (task.hyper, task.sufficient_rows), program[:2]
    random = np.random.default_rng(np.asarray(jax.random.key_data(task.key)))
    half = random.standard_normal((PAIRS, starts.shape[1])).astype(starts.dtype)
    noise = np.concatenate([half, -half]) / np.sqrt((half**2).mean(0))  # variances of 1, as those of q
    zero, shifts, scales, seconds = np.zeros_like(starts[:1]), [], [], 0.0
    for number, start in enumerate(starts):
        curvature = np.abs(np.asarray(hessian_diagonal(static, arrays, task.key, start)))
        sound = np.isfinite(curvature) & (curvature > 0)
        scale = 1 / np.sqrt(np.where(sound, curvature, 1))
        inputs, begin = (*arrays, noise, start, scale), {"away": zero, "growth": zero}
        checkpoint = task.checkpoint(f"start{number + 1}")
        minima = minimise(first_loss, static, inputs, begin, PREPARED, ENOUGH, task.reporter, checkpoint, curve=jnp.ones_like)
        if minima.interrupted:
            raise KeyboardInterrupt("interrupted before the first fit was finished")
        away, growth = (np.asarray(minima.points[name])[0] for name in ("away", "growth"))
        shifts.append(start + scale * away)
        scales.append(scale * np.exp(growth))
        seconds += minima.compile_seconds
    return np.stack(shifts), np.stack(scales), seconds


def initial(task: Task, program: Program, shift: np.ndarray, scale: np.ndarray) -> GuideState:
    """States of all starts."""
    number = len(shift)
    leaves, params = initial_states(program.guide, jax.random.split(jax.random.fold_in(task.key, 3), number))
    lowest, zero, no = np.full(number, -np.inf, shift.dtype), np.zeros(number, shift.dtype), np.zeros(number, bool)
    first = np.zeros(number, jnp.result_type(int))
    at, around, bound, error, not_yet, stage = map(on_host, (shift, scale, lowest, zero, no, first))
    return GuideState(leaves, at, around, params, bound, error, not_yet, stage, not_yet, not_yet)


def bound_and_weights(ratios: np.ndarray, best: int, why_none: str) -> dict[str, Any]:
    """The ELBO with its standard error and the weights, from log p / q of the draws (chain, draw), as fields of `Draws`.

    ``best`` is the number of the start. With ``why_none``, why they do not measure the fit of q, there are no weights.
    """
    flat = ratios.ravel()
    attrs = {"elbo": float(flat.mean()), "elbo_se": float(flat.std() / np.sqrt(len(flat))), "best_start": best}
    if why_none:
        return {"sample_stats": {}, "attrs": attrs | {"no_pareto_k": why_none}}
    attrs["log_evidence_importance"] = float(np.logaddexp.reduce(flat) - np.log(len(flat)))
    return {"sample_stats": {"log_weight": ratios}, "attrs": attrs}


def why_no_weights(task: Task) -> str:
    """Why weights p / q do not measure the fit of q, in words, or ""."""
    symmetry = task.model.symmetry
    if symmetry is not None and symmetry.is_continuous:
        return f"the posterior is the same in every rotation of the {symmetry.dim}s, and q keeps to some of them"
    return ""


def _bound(program: Program, arrays: tuple[Pytree, Pytree], key: Array, end: Any) -> float:
    """The ELBO of one start, from new draws: that of the last window is of parameters that still move."""
    return float(np.asarray(log_ratios(program, arrays, *end, drawn(program, COMPARED, key, *end))).mean())


def _points(
    program: Program,
    supports: Any,
    ran: Run,
    bounds: np.ndarray,
    params: Any,
    shift: np.ndarray,
    scale: np.ndarray,
    seconds: float,
) -> Points:
    """The search for q: the ELBO of every start by window, last from new draws, and the sites at the mean of q."""
    mean_of = "z_auto_loc" if program.guide.name == "mean_field" else "auto_loc"
    middle = constrain_starts(supports, unravel(program.shapes, shift + scale * params[mean_of]))
    stopped = np.asarray(ran.records.done)
    longest = max(1, int((~stopped).sum(1).max())) if stopped.size else 0  # the driver may finish its chunk
    traces = np.where(stopped, np.nan, np.asarray(ran.records.elbo))[:, :longest]
    state: GuideState = ran.state
    return Points(
        sites={name: np.asarray(leaf) for name, leaf in middle.items()},
        objective=np.concatenate([traces, bounds[:, None]], axis=1),
        iterations=WINDOW * (~stopped).sum(1),
        converged=np.asarray(state.done) & ~np.asarray(state.lost),
        failure=[None if np.isfinite(bound) else "the evidence lower bound is not finite" for bound in bounds],
        timing=timing(ran.run_seconds, ran.compile_seconds + seconds),
        interrupted=ran.interrupted,
        repeatable=False,
    )


def _words(record: WindowRecord) -> str:
    finite = np.asarray(record.elbo)[np.isfinite(record.elbo)]
    return f"ELBO {finite.max():.2f}" if len(finite) else "the ELBO is not finite"


METHOD = Method(
    name="advi",
    summary="variational inference with a Gaussian on the unconstrained parameters; draws from it",
    options=Options,
    run=run,
    claim="approximate",
    evidence=("bias", "predictions"),
)
