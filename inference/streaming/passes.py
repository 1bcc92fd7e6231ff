"""One pass over the blocks: the local step of all starts, summed over blocks, devices and processes."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from inference.engine.driver import Run, vmap_or_call
from inference.engine.initialise import finite_latents
from inference.engine.row_source import BlockwiseSums, PassProgress, RowSource, RowSums, StepSize, Totals, Update
from inference.engine.sweep import Local, local_step, num_rows, rows_weight
from inference.engine.task import Task
from inference.fixed_points.local_blocks import sums_with_local
from inference.row_sums.driver import drive_sums
from inference.row_sums.sizes import sample_size, total_weight
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.loop import Progress
from inference.runtime.programs import cached_jit
from inference.runtime.signals import interruptible
from inference.streaming.source.blocks import Source
from inference.streaming.source.encoding import EncodedBlock, HeldOutRows, ReadAhead, Spans, encoded, require_blocks
from inference.streaming.source.processes import Group
from inference.streaming.sums import BlockSums, Placed
from models.base import Algebra, Hyper, Model, Pytree, Stats, ZooError, on_host
from models.reading.blocks import counted_from
from models.rows.row_info import row_info


@dataclass
class Stream(RowSource):
    """The rows of a fit, and the devices and processes that sum over them."""

    model: Model
    source: Source
    group: Group
    held_out: HeldOutRows
    num_devices: int | None  # None: the compiled loops of the model where it has some, and otherwise one device
    aside: Pytree | None = None  # some of the rows held out, encoded
    whole: bool = False  # whether the task has all rows: blocks then stay in memory, and on the devices
    seed: int = 0
    numbers: np.ndarray | None = None  # of the rows of the task among all; None: not known
    step_size: StepSize | None = None

    def sums(
        self, task: Task, algebra: Algebra, update: str, T: Stats, check: Callable[[Pytree], None] = lambda rows: None
    ) -> "Pass":
        """As `RowSource.sums`."""
        return Pass(self, task, algebra, update, T, check)

    def iterate(
        self, sums: RowSums, parameters: Callable[[Pytree], Stats], update: Update, *arguments: Any, **options: Any
    ) -> Run:
        """As `RowSource.iterate`."""
        return drive_sums(sums, parameters, update, *arguments, **options)

    @property
    def ends(self) -> tuple[int, int | None]:
        """The first block of this process, and the one after its last; None: all there are."""
        if self.group.size == 1:
            return 0, None
        if (number := require_blocks(self.source)) < self.group.size:
            raise ZooError(f"{self.source.name}: {number} blocks are too few for {self.group.size} processes; lower block_rows")
        return self.group.share(number)

    @property
    def num_own_blocks(self) -> int:
        """The number of blocks of this process; raises `ZooError` where it is not known."""
        first, last = self.ends
        return require_blocks(self.source) if last is None else last - first

    def order(self, step: int) -> Iterator[tuple[int, int]]:
        """Blocks of this process at random, each once before any repeats, from number ``step`` of the order on."""
        number = self.num_own_blocks
        for turn, place in (divmod(at, number) for at in itertools.count(step)):
            order = np.random.default_rng([self.seed, turn, self.group.rank]).permutation(number)
            block = self.ends[0] + int(order[place])
            yield block, block + 1

    def is_one_block(self) -> bool:
        """Whether this process has a single block; where their number is not known, two are read."""
        first, last = self.ends
        if last is None and (last := self.source.num_blocks) is None:
            return len([None for _ in self.source.read(0, 2)]) == 1
        return last - first == 1

    def blocks(self, spans: Spans) -> ReadAhead:
        """Encoded blocks, in the precision in force."""
        return ReadAhead(self.model, self.source, spans, self.held_out)

    def bound_of_held_out(self, task: Task, algebra: Algebra, T: Stats) -> Array | None:
        """(start,): the mean log density of the rows held out, latents summed out, or a bound where T is expected; or None."""
        if self.aside is None:
            return None
        if algebra.structure.local:
            sums = sums_with_local(algebra, task.hyper, dict(task.prior), T, self.aside).log_partition
            return on_host(sums / rows_weight(self.aside).sum())
        return on_host(mean_log_density(algebra, task.hyper, T, self.aside))

    def first_block(self) -> EncodedBlock:
        """The first block of all; raises `ZooError` where there is none."""
        first = self.ends[0] if self.group.size > 1 else 0
        for block in self.source.read(first, first + 1):
            return encoded(self.model, block, first, self.held_out)
        raise ZooError(f"{self.source.name}: there are no rows")


def require_same(group: Group, finished: int) -> None:
    """A `ZooError` where processes have read different checkpoints, as from different folders."""
    if group.all_sum(np.array([float(finished)]))[0] != group.size * finished:
        raise ZooError("processes have read different checkpoints: the folder of the run must be one that all of them share")


class Pass(BlockwiseSums):
    """A pass of one algebra and one update over a stream, part by part; random numbers are those of the step's keys.

    ``check`` raises `ZooError` for rows of a block that the method does not take.
    """

    def __init__(
        self, stream: Stream, task: Task, algebra: Algebra, update: str, T: Stats, check: Callable[[Pytree], None]
    ) -> None:
        first = stream.first_block()
        self._stream, self._number = stream, len(jax.tree.leaves(T)[0])
        self._task, self._algebra, self._only = task, algebra, stream.is_one_block()
        self.shared = stream.group.size > 1
        self._finite: dict[Any, bool] = {}  # whether blocks of a shape have finitely many values of their latents
        self._check, self._sums = check, BlockSums(algebra, update, task.hyper, task.prior, stream.num_devices)
        self._blocks: ReadAhead | None = None
        self._iterator: Iterator[Placed] = iter(())
        self._steps: Iterator[EncodedBlock] = iter(())
        self._resident: list[Placed] = []  # all blocks of this process after a pass, if they stay in memory
        self._at = -1  # number of blocks taken from the iterator
        zeros = (on_host(np.zeros(self._number)) for _ in range(3))
        keys = on_host(jax.random.split(jax.random.PRNGKey(0), self._number))
        local = self._sums.of(self._sums.starts(T), keys, self._sums.placed(first))
        self.example = Totals(jax.tree.map(np.zeros_like, local), *zeros)

    def advance(self, T: Stats, keys: Array, done: np.ndarray, at: PassProgress, seconds: float) -> tuple[PassProgress, bool]:
        """As many blocks as ``seconds`` or a Ctrl-C allow, or all if other processes wait: (progress, whether complete)."""
        clock, starts, place = time.perf_counter(), self._sums.starts(T), int(at.place[0])
        totals = at.totals
        with interruptible() as stop:
            blocks = self._from(place)
            pauses = False

            def until_it_pauses() -> Iterator[Placed]:
                nonlocal pauses
                for block in blocks:
                    yield block
                    pauses = self._stream.group.size == 1 and (stop.is_set() or time.perf_counter() - clock > seconds)
                    if pauses:
                        return

            for placed, sums in self._sums.over(starts, keys, until_it_pauses(), self._only):
                totals = self._added(totals, sums, placed.block)
                place += 1
            self._at = place
            if pauses:
                return PassProgress(totals, on_host(np.full(self._number, place))), False
        self._at = -1
        return PassProgress(totals, on_host(np.full(self._number, place))), True

    def estimate(self, T: Stats, step: int) -> Totals:
        """As `RowSums.estimate`: each process takes one of its blocks, which stands for all of them."""
        if self._at != step:
            self.close()
            self._blocks = self._stream.blocks(self._stream.order(step))
            self._steps, self._at = iter(self._blocks), step
        block = next(self._steps)
        self._at += 1
        keys = on_host(jax.random.split(jax.random.PRNGKey(0), self._number))
        totals = self._added(self.none.totals, self._sums.of(self._sums.starts(T), keys, self._sums.placed(block)), block)
        return self.all_reduced(jax.tree.map(lambda leaf: self._stream.num_own_blocks * leaf, totals))

    def all_reduced(self, totals: Totals) -> Totals:
        """As `RowSums.all_reduced`."""
        total: Totals = self._stream.group.all_sum(totals)
        return total

    def held_out_density(self, T: Stats) -> Array | None:
        """As `RowSums.held_out_density`."""
        return self._stream.bound_of_held_out(self._task, self._algebra, T)

    def agreed(self, start: Progress, checkpoint: Checkpoint | None, in_pass: bool) -> tuple[Progress, Checkpoint | None]:
        """As `RowSums.agreed`: process 0 writes."""
        require_same(self._stream.group, start.finished)
        if self.shared and in_pass:
            start = start._replace(state=(start.state[0], self.none))
        return start, checkpoint if self._stream.group.rank == 0 else None

    def close(self) -> None:
        """Stop reading."""
        if self._blocks is not None:
            self._blocks.close()

    def _from(self, place: int) -> Iterator[Placed]:
        """The blocks from number ``place`` of this process on, which are being read unless a pass begins here."""
        if self._at != place:
            self.close()
            self._iterator, self._at = iter(self._resident) if self._resident and place == 0 else self._read(place), place
        return self._iterator

    def _read(self, place: int) -> Iterator[Placed]:
        first, last = self._stream.ends
        self._blocks = self._stream.blocks([(first + place, last)])
        taken = []
        for block in self._blocks:
            at = self._sums.placed(block)
            if self._stream.whole:
                taken.append(at)
            yield at
        self._resident = taken if place == 0 else []

    def _added(self, totals: Totals, sums: Local, block: EncodedBlock) -> Totals:
        rows = block.rows
        with counted_from(block.first):
            self._check(rows)
        counts = (total_weight(rows), sample_size(self._stream.model, rows), self._num_latent(rows))
        return jax.tree.map(np.add, totals, Totals(sums, *(on_host(np.full(self._number, count)) for count in counts)))

    def _num_latent(self, rows: Pytree) -> int:
        """The number of rows whose latent is not observed: all, where missing cells are latent."""
        allowed = row_info(rows).allowed_states
        if allowed is None or not self._is_finite(rows):
            return num_rows(rows)
        return int((np.asarray(allowed).sum(-1) != 1).sum())

    def _is_finite(self, rows: Pytree) -> bool:
        """`finite_latents`, computed once for each shape of a block."""
        leaves, structure = jax.tree.flatten(rows)
        shape = structure, tuple(np.shape(leaf) for leaf in leaves)
        if shape not in self._finite:
            task = self._task
            self._finite[shape] = finite_latents(self._algebra, task.hyper, task.prior, rows)
        return self._finite[shape]


@cached_jit(static_argnames=("algebra",))
def mean_log_density(algebra: Algebra, hyper: Hyper, T: Stats, rows: Pytree) -> Array:
    """(start,): the mean of log p(x_n | θ) over rows, latents summed out, by their weights."""
    whole = partial(local_step, algebra, "mean", hyper, jax.random.PRNGKey(0), rows=rows)
    return vmap_or_call(lambda T: whole(T=T).log_partition, T) / rows_weight(rows).sum()
