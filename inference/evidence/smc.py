"""Sequential Monte Carlo from the prior to the posterior, with the evidence (Del Moral, Doucet and Jasra 2006).

Particles drawn from the prior are carried along a path of tempered densities: `inference.evidence.stages` has the stage, and
`inference.evidence.paths` the two paths and their moves. With ``moves=gibbs`` p(x, z | θ) is tempered, with ``hmc`` and
``independent`` p(x | θ). Both end at the posterior, and at the evidence p(x) of the program, its factors included.

Runs side by side are independent; their evidences are averaged. The draws are those of the particles at t = 1. They are no
Markov chain, but relatives are neighbours, so that autocorrelations along a run show what they have in common, and R-hat shows
runs that disagree. The law of the draws tends to the posterior with the number of particles.

How this can mislead: modes are found at small t, by draws from the prior. All runs miss a mode that no particle comes near, and
the evidence lacks it. With few particles in a narrow mode, runs disagree about its mass.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.diagnostics.verdicts import FEWEST_ANCESTORS
from inference.engine.driver import Run, drive
from inference.engine.initialise import finite_latents, prior_points
from inference.engine.program import latent_sites, transforms, unravel
from inference.engine.requirements import require_algebra, require_prior_draws, require_proper, require_single_rows
from inference.engine.sweep import has_temperatures
from inference.engine.task import Draws, Kind, Task, timing
from inference.evidence.estimates import Evidence, combined
from inference.evidence.paths import GibbsPath, Points, ProgramPath, prior_vectors, side_by_side
from inference.evidence.stages import Cloud, Sampler, Stage, step
from inference.methods.method import Method
from inference.methods.options import NumSamples, Setting
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from inference.unconstrained.density import Density, draws_of_chains
from models.algebra import log_prior
from models.base import Algebra, Hyper, Pytree, Stats, ZooError, on_host

MOST_STAGES = 5000
FIRST_STEP = 0.5  # of Hamiltonian moves, in standard deviations of the particles
RARELY = 0.1  # mean acceptance of the moves at the posterior
BY_CHANCE = 1e-3  # probability with which the evidences of runs of one law are said to differ


class Options(NamedTuple):
    """``num_chains`` independent runs of ``num_samples`` particles each.

    ``moves=default`` takes ``gibbs`` where the model has tempered sweeps, else ``hmc``.
    """

    num_samples: NumSamples = 1000
    num_chains: Annotated[int, Setting("independent runs")] = 4
    num_moves: Annotated[int, Setting("moves of every particle at each temperature")] = 10
    ess_share: Annotated[
        float, Setting("effective share of the particles to which weights fall at each temperature", low=0.01, high=0.99)
    ] = 0.5
    moves: Annotated[
        Literal["default", "gibbs", "hmc", "independent"],
        Setting("tempered Gibbs sweeps, Hamiltonian Monte Carlo, or proposals from a Gaussian fitted to the particles"),
    ] = "default"


# ---------------------------------------------------------------------------------------------------------------------
# The moves


def chosen_moves(task: Task, wanted: str) -> str:
    """The moves that the model supports; a `ZooError` for ``gibbs`` where it has no tempered sweeps."""
    why = _why_no_sweeps(task)
    if wanted == "gibbs" and why is not None:
        raise ZooError(f"{task.model.name}: moves=gibbs is not possible, as {why}; use moves=hmc")
    return wanted if wanted != "default" else "gibbs" if why is None else "hmc"


def _why_no_sweeps(task: Task) -> str | None:
    """Why the model has no tempered sweeps on these rows, or None."""
    algebra = task.model.algebra
    if algebra is None:
        return "a NumPyro program has no conjugate structure"
    if not has_temperatures(algebra) or not finite_latents(algebra, task.hyper, task.prior, task.rows):
        return "its latents are not discrete and independent, or its parameters are not conjugate all at once"
    try:
        require_single_rows(task, algebra)
    except ZooError as error:
        return str(error)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# The two paths: their start, and draws from their end


class Start(NamedTuple):
    """A path, its arrays, and the particles of every run, drawn from the prior (chain, N, …)."""

    path: Any
    arrays: Pytree
    particles: Pytree


def gibbs_start(task: Task, keys: Array) -> Start:
    """The path of the sweeps, from draws of θ by their keys (chain, N, …)."""
    algebra = require_algebra(task)
    require_proper(task)
    T = prior_points(algebra, task.prior, keys.reshape(-1, *keys.shape[2:]))
    particles = jax.tree.map(lambda leaf: leaf.reshape(*keys.shape[:2], *leaf.shape[1:]), T)
    arrays = (task.hyper, task.prior, task.rows_on_device)
    return Start(GibbsPath(algebra, side_by_side(task.rows, keys.shape[1], in_blocks=True)), arrays, particles)


@cached_jit(static_argnames=("path",))
def program_particles(path: ProgramPath, arrays: Pytree, keys: Array) -> Points:
    """Draws from the prior of a program (chain, N, …), by their keys."""
    return jax.vmap(lambda keys: path.points(arrays, prior_vectors(path.density, arrays, keys)))(keys)


def program_start(task: Task, keys: Array, moves: str) -> Start:
    """The path of the program, from draws of its prior by their keys (chain, N, …)."""
    require_prior_draws(task, METHOD.name)
    arrays = (task.hyper, task.sufficient_rows)
    supports = transforms(task.model.spec, *arrays)
    sites = latent_sites(task.model.spec, *arrays)
    shapes = tuple((name, supports[name].inverse_shape(site.shape)) for name, site in sites.items())
    together = side_by_side(task.sufficient_rows, keys.shape[1], in_blocks=False)
    path = ProgramPath(Density(task.model.spec, shapes), moves, together)
    return Start(path, arrays, program_particles(path, arrays, keys))


@cached_jit(static_argnames=("algebra",))
def drawn_sites(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], T: Stats) -> tuple[dict[str, Array], Array]:
    """(sites, log p(θ)) of particles T (chain, N, …)."""

    def one(T: Stats) -> tuple[dict[str, Array], Array]:
        return algebra.sites(hyper, T), log_prior(algebra, prior, T)

    return jax.vmap(jax.vmap(one))(T)


def gibbs_draws(path: GibbsPath, arrays: Pytree, particles: Stats) -> Draws:
    """The particles at the end of the path of the sweeps."""
    sites, at_draws = jax.tree.map(np.asarray, drawn_sites(path.algebra, *arrays[:2], particles))
    return Draws(Kind.CHAINS, sites, {}, {}, log_prior=at_draws)


def program_draws(task: Task, path: ProgramPath, arrays: Pytree, particles: Points, run: Run) -> Draws:
    """The particles at the end of the path of the program."""
    supports = transforms(task.model.spec, *arrays)
    potential = -(particles.log_prior + particles.log_rest)
    z = jax.tree.map(jnp.asarray, unravel(path.density.shapes, particles.z))
    return draws_of_chains(task, supports, run._replace(records={"z": z, "potential": potential}), {}, False)


# ---------------------------------------------------------------------------------------------------------------------
# The run


def run(task: Task, options: Options) -> Draws:
    """The particles of every run at the posterior, the evidence, and what the stages were like.

    Raises `ZooError` for a prior that cannot be drawn from, for ``start``, and where no draw from the prior explains the data.
    """
    if task.start is not None:
        raise ZooError("method=smc starts at draws from the prior: leave out start")
    task.reporter.phase("drawing from the prior", None)
    moves = chosen_moves(task, options.moves)
    size = (options.num_chains, options.num_samples)
    keys = jax.random.split(jax.random.fold_in(task.key, 2), size)
    start = gibbs_start(task, keys) if moves == "gibbs" else program_start(task, keys, moves)
    sampler = Sampler(start.path, options.num_moves, options.ess_share)
    key, state = jax.random.fold_in(task.key, 1), initial(start.particles, size)
    checkpoint = task.checkpoint(f"stages-{options.num_samples}")  # of as many particles
    ran = drive(
        step, sampler, start.arrays, key, state, MOST_STAGES, task.reporter, "tempering", watch=WATCH, checkpoint=checkpoint
    )
    clock = timing(ran.run_seconds, ran.compile_seconds)
    cloud: Cloud = jax.tree.map(np.asarray, ran.state[0])
    if ran.interrupted:  # particles on the way are no draws of the posterior
        return Draws(Kind.CHAINS, {}, {}, clock, interrupted=True)
    require_end(cloud)
    draws = (
        gibbs_draws(start.path, start.arrays, cloud.particles)
        if moves == "gibbs"
        else program_draws(task, start.path, start.arrays, cloud.particles, ran)
    )
    attrs, warnings = described(cloud, ran.records, moves)
    return draws._replace(
        timing=clock, sample_stats={"ancestor": np.asarray(cloud.ancestor)}, attrs=attrs, warnings=tuple(warnings)
    )


def initial(particles: Pytree, size: tuple[int, int]) -> tuple[Cloud, Stage]:
    """State of every run (a leading axis) at the prior."""
    real = jnp.result_type(float)
    zeros = on_host(np.zeros(size[0], real))
    ancestor = on_host(np.broadcast_to(np.arange(size[1]), size))
    log_step = on_host(np.full(size[0], np.log(FIRST_STEP), real))
    return Cloud(particles, ancestor, zeros, zeros, zeros, log_step), Stage(zeros, zeros, zeros, zeros)


def require_end(cloud: Cloud) -> None:
    """A `ZooError` for runs that have not come to the posterior."""
    if not np.isfinite(cloud.log_evidence).all():
        raise ZooError(
            "the data have density 0 at every draw from the prior of some run: check the data and the prior, or take more "
            "draws (num_samples=)"
        )
    if (cloud.temperature < 1).any():
        raise ZooError(
            f"after {MOST_STAGES} stages a run is at t = {cloud.temperature.min():.3g}, and the posterior is at 1: take a "
            "prior that is less vague, or a smaller ess_share"
        )


def described(cloud: Cloud, records: Stage, moves: str) -> tuple[dict[str, Any], list[str]]:
    """(attributes of the result, warnings)."""
    of_runs = np.asarray(cloud.log_evidence)
    evidence = combined(of_runs, np.asarray(cloud.variance))
    stages = (records.temperature < 1).sum(1) + 1
    ancestors, acceptance = np.asarray(records.ancestors[:, -1]), np.asarray(records.acceptance[:, -1])
    if (ancestors < FEWEST_ANCESTORS).any():  # relative variances by families are then near 1, however far off the evidence is
        evidence = evidence._replace(standard_error=np.nan)
    attrs = {
        "moves": moves,
        "log_evidence_smc": evidence.log_evidence,
        "log_evidence_smc_se": evidence.standard_error,
        "log_evidence_of_runs": _listed(of_runs, 8),
        "log_evidence_se_of_runs": _listed(np.sqrt(cloud.variance), 4),
        "stages": json.dumps(stages.tolist()),
        "effective_ancestors": _listed(ancestors, 4),
        "acceptance": _listed(acceptance, 4),
    }
    return attrs, doubts(evidence, of_runs, acceptance)


def _listed(values: np.ndarray, digits: int) -> str:
    return json.dumps([float(f"{value:.{digits}g}") for value in values])


def doubts(evidence: Evidence, of_runs: np.ndarray, acceptance: np.ndarray) -> list[str]:
    """Warnings for runs that disagree about the evidence, or hardly move."""
    lines = []
    if evidence.agreement < BY_CHANCE:
        lines.append(
            f"the runs disagree about the log evidence ({of_runs.min():.2f} to {of_runs.max():.2f}), by more than their errors "
            "explain: some have missed a mode, or the moves are too few; raise num_samples or num_moves"
        )
    if (acceptance < RARELY).any():
        lines.append(
            f"the moves at the posterior are rarely accepted ({acceptance.min():.1%}), so that many draws are copies; raise "
            "num_moves, or take other moves"
        )
    return lines


def _words(record: Stage) -> str:
    done = np.asarray(record.temperature) >= 1
    return (
        f"t {np.min(record.temperature):.3g}, acceptance {np.mean(record.acceptance):.0%}, "
        f"log evidence {'' if done.all() else 'so far '}{np.mean(record.log_evidence):.2f}"
    )


WATCH = Watch(
    _words,
    newest={
        "t": lambda record: record.temperature,
        "acceptance": lambda record: record.acceptance,
        "log evidence": lambda record: record.log_evidence,
    },
)


METHOD = Method(
    name="smc",
    summary="sequential Monte Carlo from the prior to the posterior, with the evidence",
    options=Options,
    run=run,
    claim="approximate",
    evidence=("posterior", "predictions"),
)
