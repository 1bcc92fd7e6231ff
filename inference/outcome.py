"""What a method is given, and what it brings back."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from inference.progress import Reporter
from models.base import Hyper, Model, Pytree, Sites, Stats


class Task(NamedTuple):
    """What a method is given, arrays on the device and in the precision of the run."""

    model: Model
    hyper: Hyper
    prior: Mapping[str, Stats]
    rows: Pytree
    condensed: Pytree  # what stands for the rows where only expected latents or the likelihood as a whole are asked for
    key: Array
    start: Sites | None  # sites to start from, in place of `inference.start`
    reporter: Reporter
    folder: Path | None = None  # where samplers leave their checkpoints
    fingerprint: str = ""  # of model, data, options and seed: which checkpoints are this run's own
    moments: bool = False  # whether the rows stand for a mean and a covariance, and are none

    def checkpoint(self, phase: str) -> Path | None:
        """The checkpoint file of one phase of a sampler, or None without a folder."""
        return None if self.folder is None else self.folder / f"checkpoint-{phase}-{self.fingerprint}.npz"


class Points(NamedTuple):
    """An optimiser's outcome, one entry a start; sites are stacked along a leading axis of starts."""

    sites: dict[str, np.ndarray]
    objective: np.ndarray  # (start, iteration): log joint as it went, NaN after a start stopped
    iterations: np.ndarray  # (start,)
    converged: np.ndarray  # (start,)
    failure: list[str | None]  # (start,): why a start has no mode
    timing: dict[str, float]
    interrupted: bool = False
    criterion: np.ndarray | None = None  # (start, iteration): the method's own objective, where it differs


class Draws(NamedTuple):
    """A sampler's outcome, or draws from an approximation: sites (chain, draw, ...)."""

    sites: dict[str, np.ndarray]
    sample_stats: dict[str, np.ndarray]  # (chain, draw)
    timing: dict[str, float]
    interrupted: bool = False
    optimization: Points | None = None  # how the approximation was found
    attrs: Mapping[str, Any] = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    functionals: Mapping[str, np.ndarray] = MappingProxyType({})  # (chain, draw): of the sampler's own, free of labels
    model: Model | None = None  # the model with the hyperparameters that were learnt, which the draws are of
