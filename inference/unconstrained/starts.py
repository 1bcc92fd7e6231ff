"""Where chains on ℝᵈ start: overdispersed, or at draws of Pathfinder's Gaussians."""

from typing import Annotated, Literal, Protocol

import jax
import numpy as np

from inference.engine.task import Task
from inference.methods.options import Setting
from inference.unconstrained.density import Posterior, posterior_on_reals
from inference.unconstrained.pathfinder import drawn, paths

MOST_STEPS = 100  # of a path

Starts = Annotated[
    Literal["overdispersed", "pathfinder"],
    Setting("pathfinder: every chain starts at a draw of the Gaussian that Pathfinder finds from its overdispersed start"),
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

    Chains that start at draws of Pathfinder begin where the mass is, each near the mode to which its own path leads. They are
    less overdispersed, so that R-hat sees less.
    """
    posterior = posterior_on_reals(task, options.num_chains, options.permute_components)
    return at_paths(task, posterior) if options.starts == "pathfinder" else posterior


def at_paths(task: Task, posterior: Posterior) -> Posterior:
    """The posterior with one draw from each start's path; a start whose path has no finite bound stays where it is."""
    task.reporter.phase("finding paths", None)
    number = len(posterior.starts)
    of_paths, of_draws = np.asarray(jax.random.split(jax.random.fold_in(task.key, 3), (2, number)))
    ended = paths(posterior.density, MOST_STEPS, posterior.arrays, of_paths, posterior.starts)
    ends = [jax.tree.map(lambda leaf, s=s: leaf[s], ended.best) for s in range(number)]
    points = [drawn(posterior.density, 1, key, end)[0][0] for key, end in zip(of_draws, ends, strict=True)]
    sound = np.isfinite(np.asarray(ended.elbo))
    return posterior._replace(starts=np.where(sound[:, None], np.asarray(points), posterior.starts))
