"""Where chains on ℝᵈ start: overdispersed, or at draws of Pathfinder's Gaussians."""

import time
from typing import Annotated, Literal, Protocol

import jax
import numpy as np

from inference.engine.task import Task
from inference.methods.options import Setting
from inference.unconstrained.density import Posterior, posterior_on_reals
from inference.unconstrained.pathfinder import drawn, log_densities, paths
from models.base import ZooError

MOST_STEPS = 100  # of a path
OF_PATHS = 2**31 - 2  # beyond the numbers of chains, from which the keys of starts are derived

Starts = Annotated[
    Literal["overdispersed", "pathfinder"],
    Setting("where chains start: at overdispersed points, or at draws of the Gaussians that Pathfinder finds from them"),
]


class OfChains(Protocol):
    """The options of a sampler on ℝᵈ that its starts depend on."""

    @property
    def num_chains(self) -> int: ...
    @property
    def permute_components(self) -> bool: ...
    @property
    def starts(self) -> str: ...


def posterior_with_starts(task: Task, options: OfChains) -> Posterior:
    """The posterior of a task, and where the chains of these options start.

    Chains that start at draws of Pathfinder usually begin nearer to the mass, each near the mode to which its path leads. They
    are less overdispersed, so that R-hat is less likely to see a missed mode. Raises `ZooError` where ``start`` is given, too.
    """
    posterior = posterior_on_reals(task, options.num_chains, options.permute_components)
    if options.starts != "pathfinder":
        return posterior
    if task.start is not None:
        raise ZooError("starts=pathfinder finds where chains start: leave it out, or leave out start")
    return at_paths(task, posterior)


def at_paths(task: Task, posterior: Posterior) -> Posterior:
    """The posterior with a draw from the Gaussian of each start's path, where it is as probable as the start or more."""
    task.reporter.phase("finding paths", None)
    clock = time.perf_counter()
    number = len(posterior.starts)
    of_paths, of_draws = np.asarray(jax.random.split(jax.random.fold_in(task.key, OF_PATHS), (2, number)))
    ended = paths(posterior.density, MOST_STEPS, posterior.arrays, of_paths, posterior.starts)
    ends = [jax.tree.map(lambda leaf, s=s: leaf[s], ended.best) for s in range(number)]
    points = np.asarray([drawn(posterior.density, 1, key, end)[0][0] for key, end in zip(of_draws, ends, strict=True)])
    after, before = (np.asarray(log_densities(posterior.density, posterior.arrays, at)) for at in (points, posterior.starts))
    better = np.isfinite(after) & (after >= before) & np.isfinite(points).all(1)
    starts = np.where(better[:, None], points, posterior.starts)
    kept = number - int(better.sum())
    warnings = (f"{kept} of {number} chains began at their overdispersed start, as the draw of their path is less probable",)
    return posterior._replace(starts=starts, path_seconds=time.perf_counter() - clock, warnings=warnings if kept else ())
