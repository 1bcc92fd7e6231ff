"""What a method is given, which models it takes, and what it brings back."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.convergence.forecast import Forecast
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.files import CHECKPOINT_SECONDS
from inference.runtime.progress import Reporter
from models.base import Algebra, Hyper, Iteration, Latent, Model, Pytree, Sites, Stats, Structure


class Task(NamedTuple):
    """What a method is given, arrays on the device and in the precision of the run."""

    model: Model
    hyper: Hyper
    prior: Mapping[str, Stats]
    rows: Pytree  # on the host unless ``resident``
    condensed: Pytree  # fewer weighted rows in their place, for expected latents and for the likelihood as a whole
    key: Array
    start: Sites | None  # sites to start from, in place of `inference.engine.initialise`
    reporter: Reporter
    folder: Path | None = None  # where samplers and optimisers leave their checkpoints
    fingerprint: str = ""  # of model, data, options and seed; tells the checkpoints of this run from others
    moments: bool = False  # whether only a mean and a covariance were given, for which the rows stand
    table: Any = None  # the data as the model reads them, before they are encoded: for kernels of one's own
    resident: bool = True  # whether rows are on the device; they are not where condensed rows stand for them
    checkpoint_seconds: float = CHECKPOINT_SECONDS  # between two checkpoints

    @property
    def rows_on_device(self) -> Pytree:
        """``rows`` for a method that sweeps over all of them; a copy on the device unless ``resident``."""
        return jax.tree.map(jnp.asarray, self.rows)

    def checkpoint(self, phase: str, cut: bool = False) -> Checkpoint | None:
        """The checkpoint of one phase of a run, or None without a folder; ``cut`` as in `Checkpoint`."""
        if self.folder is None:
            return None
        return Checkpoint(self.folder / f"checkpoint-{phase}-{self.fingerprint}.npz", self.checkpoint_seconds, cut)


KINDS = frozenset({"joint", "coupled", "cycle", "local", "collapsed"})

# kind -> (what a method asks for that does not take it, what a model of this kind is)
REFUSED = {
    "local": ("parameters that all rows share", "rows of this model have parameters of their own, which inner updates find"),
    "coupled": (
        "blocks of parameters that are independent a priori and conjugate all at once",
        "blocks of this model are joined by their prior and conjugate only given each other",
    ),
    "cycle": (
        "parameters that are conjugate all at once",
        "blocks of this model are conjugate only given the values of the others",
    ),
}
# kind -> what a method asks for that needs it
NEEDED = {"collapsed": "parameters that somebody integrated out on paper, as those of topics and mixtures under a proper prior"}


def kinds(structure: Structure) -> frozenset[str]:
    """How the blocks of parameters of a model hang together: joint, or else coupled or cycle or both; and any of the others.

    - joint: all blocks are independent a priori and conjugate at once
    - coupled: the prior joins blocks, and each is conjugate given the others
    - cycle: blocks are conjugate only given the values of the others, and a sweep takes them in turn
    - local: some blocks have an entry per row, the row's own
    - collapsed: the parameters integrate out given the latents
    """
    declared = {
        "coupled": structure.coupling is not None,
        "cycle": bool(structure.cycle),
        "local": bool(structure.local),
        "collapsed": structure.collapsed is not None,
    }
    found = frozenset(kind for kind, holds in declared.items() if holds)
    return found if found & {"coupled", "cycle"} else found | {"joint"}


def any_latents(latent: Latent) -> str | None:
    """No reason to refuse latents."""
    return None


class Takes(NamedTuple):
    """Which models a method takes, by the kinds of their structure (`kinds`) and by their latents.

    Methods on the algebra declare one, as ``TAKES = Takes("cavi", KINDS - {"cycle"}, ending="use method=gibbs")``.
    """

    name: str  # of the method, or of its option that asks for more
    kinds: frozenset[str] = KINDS  # a model of any other kind is refused
    needs: frozenset[str] = frozenset()  # a model without one of these kinds is refused
    lost: str = ""  # what there is not otherwise, in words that go on after "so that"
    ending: str = ""  # what to do instead
    why_no_latents: Callable[[Latent], str | None] = any_latents  # why the method means nothing on latents, or None

    def refuses(self, algebra: Algebra) -> str | None:
        """Why the method means nothing on a model, in words, or None."""
        if (why := self.why_no_latents(algebra.latent)) is not None:
            return why
        found = kinds(algebra.structure)
        for kind in sorted(found - self.kinds):
            asked, is_so = REFUSED[kind]
            return f"{self.name} needs {asked}; {is_so}{f', so that {self.lost}' if self.lost else ''}; {self.ending}"
        for kind in sorted(self.needs - found):
            return f"{self.name} needs {NEEDED[kind]}; {self.ending}"
        return None


ANY_MODEL = Takes("this method")


class Kind(StrEnum):
    """What a result holds of the posterior. The method declares it, and diagnostics depend on it."""

    CHAINS = "chains"  # draws of Markov chains
    INDEPENDENT = "independent"  # independent draws of the posterior itself
    APPROXIMATION = "approximation"  # independent draws of a density q that approximates the posterior
    POINT = "point"


def kind_of(tree: xr.DataTree) -> Kind:
    """What a result holds, as its method declared."""
    return Kind(tree.attrs["draws"]) if "posterior" in tree else Kind.POINT


def timing(run_seconds: float, compile_seconds: float = 0.0, warmup_seconds: float = 0.0) -> dict[str, float]:
    """Seconds by phase, as every outcome has them."""
    return {"compile_seconds": compile_seconds, "warmup_seconds": warmup_seconds, "run_seconds": run_seconds}


class Modes(NamedTuple):
    """At which modes the starts of an approximation ended; modes are numbered from the largest mass on."""

    of_start: np.ndarray  # (start,): −1 for a start that has not converged
    log_mass: np.ndarray  # (start,): height + d/2 log 2π − ½ log det of the negative Hessian of its mode, or NaN
    covered: int  # how many of the modes the draws cover


class Points(NamedTuple):
    """An optimiser's outcome, one entry per start; sites are stacked along a leading axis of starts."""

    sites: dict[str, np.ndarray]
    # (start, iteration): log joint by iteration, NaN after a start stopped; None: a maximum in closed form, without iterations
    objective: np.ndarray | None
    iterations: np.ndarray  # (start,)
    converged: np.ndarray  # (start,)
    failure: list[str | None]  # (start,): why a start has no mode
    timing: dict[str, float]
    interrupted: bool = False
    criterion: np.ndarray | None = None  # (start, iteration): the method's own objective, where it differs
    last: Iteration | None = None  # of EM: the last iteration of every start
    forecast: Forecast | None = None  # of methods that climb
    repeatable: bool = True  # whether starts at one optimum end at the same objective; not where steps are random
    modes: Modes | None = None  # where the method has told them apart


class Draws(NamedTuple):
    """A sampler's outcome, or draws from an approximation: sites (chain, draw, ...)."""

    kind: Kind
    sites: dict[str, np.ndarray]
    sample_stats: dict[str, np.ndarray]  # (chain, draw)
    timing: dict[str, float]
    interrupted: bool = False
    optimization: Points | None = None  # how the approximation was found
    attrs: Mapping[str, Any] = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    functionals: Mapping[str, np.ndarray] = MappingProxyType({})  # (chain, draw): the sampler's own, free of labels
    log_prior: np.ndarray | None = None  # (chain, draw): from the sampler, as sites of a draw may have underflowed to 0
    model: Model | None = None  # the model with learnt hyperparameters, to which the draws belong
    # (chain, draw): log q of the draws of an approximation, in the coordinates of the sites. None where it gives no weights
    # p / q, for the reason in ``attrs["no_pareto_k"]``, or where ``sample_stats`` has them already.
    log_density: np.ndarray | None = None
    # (the task of a run in single precision, with its arrays in double) -> the same draws, with the evidence computed anew
    again: "Callable[[Task], Draws] | None" = None


def approximation(sites: Sites, points: Points, again: Callable[[Task], Draws], weighed: Mapping[str, Any]) -> Draws:
    """Draws of an approximation that an optimiser found; ``weighed`` holds their weights p / q, as fields of `Draws`."""
    return Draws(
        kind=Kind.APPROXIMATION,
        sites={name: np.asarray(value) for name, value in sites.items()},
        timing=points.timing,
        interrupted=points.interrupted,
        optimization=points,
        again=again,
        **weighed,
    )
