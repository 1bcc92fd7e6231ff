"""The task of a method, and its result."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.runtime.checkpoints import Checkpoint
from inference.runtime.files import CHECKPOINT_SECONDS
from inference.runtime.progress import Reporter
from models.base import Hyper, Iteration, Model, Pytree, Sites, Stats

if TYPE_CHECKING:
    from inference.convergence.forecast import Forecast
    from inference.engine.row_source import RowSource


class Task(NamedTuple):
    """The inputs of a method, with arrays on the device and in the precision of the run."""

    model: Model
    hyper: Hyper
    prior: Mapping[str, Stats]
    rows: Pytree  # on the host unless ``resident``
    sufficient_rows: Pytree  # fewer weighted rows in their place, for expected latents and for the likelihood as a whole
    key: Array
    start: Sites | None  # sites to start from, in place of `inference.engine.initialise`
    reporter: Reporter
    folder: Path | None = None  # where samplers and optimisers leave their checkpoints
    fingerprint: str = ""  # of model, data, options and seed; tells the checkpoints of this run from others
    moments: bool = False  # True if only a mean and a covariance were given; ``rows`` then have these moments
    table: Any = None  # the data as the model reads them, before they are encoded: for users' kernels
    resident: bool = True  # whether rows are on the device; they are not where sufficient rows stand for them
    checkpoint_seconds: float = CHECKPOINT_SECONDS  # between two checkpoints
    source: "RowSource | None" = None  # all rows in blocks, where ``rows`` are a sample of them for starts

    @property
    def rows_on_device(self) -> Pytree:
        """``rows`` for a method that sweeps over all of them; a copy on the device unless ``resident``."""
        return jax.tree.map(jnp.asarray, self.rows)

    def checkpoint(self, phase: str, cut: bool = False) -> Checkpoint | None:
        """The checkpoint of one phase of a run, or None without a folder; ``cut`` as in `Checkpoint`."""
        if self.folder is None:
            return None
        return Checkpoint(self.folder / f"checkpoint-{phase}-{self.fingerprint}.npz", self.checkpoint_seconds, cut)


class Kind(StrEnum):
    """The kind of a result. The method declares it, and diagnostics depend on it."""

    CHAINS = "chains"  # draws of Markov chains
    INDEPENDENT = "independent"  # independent draws of the posterior itself
    APPROXIMATION = "approximation"  # independent draws of a density q that approximates the posterior
    POINT = "point"


def kind_of(tree: xr.DataTree) -> Kind:
    """The kind of a result, as its method declared it."""
    return Kind(tree.attrs["draws"]) if "posterior" in tree else Kind.POINT


def timing(run_seconds: float, compile_seconds: float = 0.0, warmup_seconds: float = 0.0) -> dict[str, float]:
    """Seconds by phase, in the form of every outcome."""
    return {"compile_seconds": compile_seconds, "warmup_seconds": warmup_seconds, "run_seconds": run_seconds}


class Modes(NamedTuple):
    """The modes at which the starts of an optimiser ended, numbered from the largest mass on."""

    of_start: np.ndarray  # (start,): −1 for a start that has not converged, or whose mode was not weighed
    log_mass: np.ndarray  # (start,): height + d/2 log 2π − ½ log det of the negative Hessian of its mode, or NaN
    covered: int  # number of modes that the draws cover; 0 for a point


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
    criterion: np.ndarray | None = None  # (start, iteration): the objective of the method, where it differs
    last: Iteration | None = None  # of EM: the last iteration of every start
    forecast: "Forecast | None" = None  # of methods that climb
    repeatable: bool = True  # whether starts at one optimum end at the same objective; not where steps are random
    modes: Modes | None = None  # where the method separates them
    held_out: np.ndarray | None = None  # (start, iteration): the mean log density of rows held out of the fit


class Draws(NamedTuple):
    """A sampler's outcome, or draws from an approximation: sites (chain, draw, ...)."""

    kind: Kind
    sites: dict[str, np.ndarray]
    sample_stats: dict[str, np.ndarray]  # (chain, draw)
    timing: dict[str, float]
    interrupted: bool = False
    optimization: Points | None = None  # the search for the approximation
    attrs: Mapping[str, Any] = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    functionals: Mapping[str, np.ndarray] = MappingProxyType({})  # (chain, draw): from the sampler, independent of labels
    log_prior: np.ndarray | None = None  # (chain, draw): from the sampler, as sites of a draw may have underflowed to 0
    # (chain, draw): log p(x, θ) as the sampler computed it, up to rounding; NaN at the last draw of a chain where it did not
    log_joint: np.ndarray | None = None
    model: Model | None = None  # the model with learnt hyperparameters, to which the draws belong
    # (chain, draw): log q of the draws of an approximation, in the coordinates of the sites. None where it gives no weights
    # p / q, for the reason in ``attrs["no_pareto_k"]``, or where ``sample_stats`` has them already.
    log_density: np.ndarray | None = None
    # (the task of a run in single precision, with its arrays in double) -> the same draws, with the evidence recomputed
    recompute_in_double: "Callable[[Task], Draws] | None" = None


def approximation(
    sites: Sites, points: Points, recompute_in_double: Callable[[Task], Draws], weighed: Mapping[str, Any]
) -> Draws:
    """Draws of an approximation from an optimiser; ``weighed`` holds their weights p / q, as fields of `Draws`."""
    return Draws(
        kind=Kind.APPROXIMATION,
        sites={name: np.asarray(value) for name, value in sites.items()},
        timing=points.timing,
        interrupted=points.interrupted,
        optimization=points,
        recompute_in_double=recompute_in_double,
        **weighed,
    )
