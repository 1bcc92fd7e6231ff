"""The contract of rows that are not resident: a method reads sums of the local step over them.

Resident rows are arrays on the device, and a whole iteration is one compiled program (`inference.engine.driver`). Other rows
are read by compiled loops on the host, or in blocks from files, by several devices and processes. A method then runs on
`RowSums`: the host adds up the local step over all rows, and one compiled program does the rest of the iteration.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.sweep import Local
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.loop import Progress
from models.base import Algebra, Pytree, Stats, on_host


class StepSize(NamedTuple):
    """The length of steps that see some of the rows: ρ = (delay + step)^−forgetting, with steps from 1."""

    delay: float = 1.0
    forgetting: float = 0.7

    def of(self, step: Any) -> Any:
        """ρ of a step."""
        return (self.delay + step) ** -self.forgetting


class Totals(NamedTuple):
    """Sums over rows; every array has a leading axis of starts or chains, as checkpoints have."""

    local: Local
    weight: Array  # of the rows
    size: Array  # of the sample, as BIC counts it
    latent: Array  # the number of rows that allow several values of their latents


class PassProgress(NamedTuple):
    """The progress of a pass over the rows."""

    totals: Totals
    place: Array  # (starts,): blocks that this process has summed over


class RowSums(ABC):
    """The sums of one algebra and one update of the latents, for all starts or chains at once.

    ``example`` are sums of some rows: the first call of the loops compiles them, and everything else takes its shapes from it.
    """

    example: Totals
    takes_long = False  # whether a pass may take minutes: it is cut where a checkpoint is due, and Ctrl-C leaves no result
    shared = False  # whether several processes sum: all of them then take equally many steps between two checkpoints

    @property
    def none(self) -> PassProgress:
        """A pass that has not begun."""
        number = len(self.example.weight)
        return PassProgress(jax.tree.map(np.zeros_like, self.example), on_host(np.zeros(number, int)))

    @abstractmethod
    def advance(self, T: Stats, keys: Array, done: np.ndarray, at: PassProgress, seconds: float) -> tuple[PassProgress, bool]:
        """A pass, or as much of it as ``seconds`` or Ctrl-C allow: (progress, whether it is complete).

        ``T`` and ``keys`` of the latents are those of all starts. Sums of those that are ``done`` are not used.
        """

    def whole(self, T: Stats, keys: Array) -> Totals:
        """A pass from its beginning to its end."""
        at, complete, none_done = self.none, False, np.zeros(len(self.example.weight), bool)
        while not complete:
            at, complete = self.advance(T, keys, none_done, at, np.inf)
        return self.all_reduced(at.totals)

    def all_reduced(self, totals: Totals) -> Totals:
        """The totals over all processes."""
        return totals

    def held_out_density(self, T: Stats) -> Array | None:
        """(start,): the mean log density of rows held out, latents summed out, or a bound where T is expected; or None."""
        return None

    def agreed(self, start: Progress, checkpoint: Checkpoint | None, in_pass: bool) -> tuple[Progress, Checkpoint | None]:
        """(the start of all processes, the checkpoint if this one writes it); raises `ZooError` where their checkpoints differ.

        With ``in_pass`` the state includes the progress of a pass, which processes do not share.
        """
        return start, checkpoint

    def close(self) -> None:  # noqa: B027  most sums have nothing to close
        """Stop reading."""


class BlockwiseSums(RowSums):
    """Sums over rows that are read block by block, which takes long."""

    takes_long = True

    @abstractmethod
    def estimate(self, T: Stats, step: int) -> Totals:
        """Estimates of the sums over all rows from one block, another one in every step: each once before any repeats."""


# (keys of the parameters, state, totals, held out) of all starts -> (state, record, which are done)
Update = Callable[[Array, Pytree, Totals, Array | None], tuple[Pytree, Pytree, Array]]


class RowSource(ABC):
    """The rows of a fit that are read block by block; the task has all of them or a sample, for starts."""

    whole: bool  # whether the task has all of the rows
    seed: int
    numbers: np.ndarray | None  # of the rows of the task among all; None: not known
    step_size: StepSize | None  # of steps of one block each (`inference.minibatches.by_blocks`); None: passes over all rows

    @abstractmethod
    def sums(self, task: Any, algebra: Algebra, update: str, T: Stats, check: Callable[[Pytree], None]) -> BlockwiseSums:
        """The sums for parameters of the shapes of ``T``; ``check`` raises `ZooError` for rows that a method does not take."""

    @abstractmethod
    def iterate(
        self, sums: RowSums, parameters: Callable[[Pytree], Stats], update: Update, *arguments: Any, **options: Any
    ) -> Any:
        """`inference.row_sums.driver.drive_sums` and the run that it returns, for methods that do not import it."""
