"""Collapsed Gibbs sampling of topics over blocks: warm-up, draws, and checkpoints of `inference.streaming.topics.TopicChains`.

A checkpoint is a file of topics for each block, which the process that holds the block writes, and then the main file, which
process 0 writes: the number of sweeps, and the draws. A kill at any time leaves the main file with the topics that belong to
it. Random numbers depend on the number of the sweep, so that nothing else is stored. A resumed run draws the same, on any
number of processes.
"""

import io
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.engine.driver import num_cores
from inference.engine.task import Draws, Kind, Task, timing
from inference.row_sums.driver import require_uninterrupted
from inference.runtime.checkpoints import SHARE, store
from inference.runtime.files import NotWrittenError, read, remove, write
from inference.runtime.loop import Chunk, Progress, restore_or_start
from inference.runtime.progress import figure
from inference.runtime.signals import interruptible
from inference.streaming.passes import Stream, require_same
from inference.streaming.topics import ChainDraws, ProcessCorpus, TopicChains, process_corpus
from models.base import ZooError

REMEDY = "remove the checkpoints of this run, and it begins anew"


def collapsed_chains(task: Task, stream: Stream, num_chains: int, num_warmup: int, num_samples: int, thin: int) -> Draws:
    """Draws of every site from every chain, with the proportions of the documents of ``task``, which are some of all."""
    if stream.numbers is None:
        raise ZooError(
            "collapsed_gibbs draws parameters of some rows of these blocks, whose numbers must be known: leave sample out"
        )
    seed = int(jax.random.bits(jax.random.fold_in(task.key, 1)))
    documents, topic = process_corpus(task, stream, stream.numbers, seed, num_chains)
    weight, size = stream.group.all_sum(np.array([documents.weight, documents.size]))
    with ThreadPoolExecutor(num_cores()) as pool:
        run = _TopicRun(task, stream, TopicChains(documents, topic, seed, stream.group, pool), thin)
        warm = run.phase("warmup", 0, num_warmup, keep=False)
        at = run.phase("sampling", num_warmup, num_samples * thin, keep=True)
    draws: ChainDraws = at.records()
    return Draws(
        Kind.CHAINS,
        draws.sites,
        {},
        timing(at.seconds, warmup_seconds=warm.seconds),
        attrs={"learnt": 0, "sample_size": float(size), "total_weight": float(weight)},
        functionals={"collapsed_log_joint": draws.log_joint},
        log_prior=draws.log_prior,
    )


class _Files(NamedTuple):
    """The files of the topics of blocks, in the folder of the main checkpoint."""

    folder: Path
    fingerprint: str
    documents: ProcessCorpus

    def path(self, sweeps: int, block: int) -> Path:
        """The topics of a block after some sweeps."""
        return self.folder / f"topics-{self.fingerprint}-{sweeps}-{block}.npy"

    def write(self, topic: np.ndarray, sweeps: int) -> None:
        """Write the topics (C, T) of the blocks of this process. Raises `NotWrittenError`."""
        kind = np.min_scalar_type(len(self.documents.prior.alpha) - 1)
        for part in self.documents.parts:
            buffer = io.BytesIO()
            np.save(buffer, topic[:, self.documents.tokens(part)].astype(kind), allow_pickle=False)
            write(self.path(sweeps, part.number), buffer.getvalue(), seal=True)

    def read(self, topic: np.ndarray, sweeps: int) -> np.ndarray:
        """Topics like ``topic``; raises `ZooError` where files are missing, damaged, or of other documents."""
        topics = np.empty_like(topic)
        for part in self.documents.parts:
            path = self.path(sweeps, part.number)
            stored = np.load(io.BytesIO(read(path, require_seal=True, remedy=REMEDY)), allow_pickle=False)
            place = topics[:, self.documents.tokens(part)]
            if stored.shape != place.shape or stored.max(initial=0) >= len(self.documents.prior.alpha):
                raise ZooError(f"{path} has topics of other documents; {REMEDY}")
            place[:] = stored
        return topics

    def remove_others(self, sweeps: int) -> None:
        """Remove the topics of other sweeps, of all processes."""
        newest = f"topics-{self.fingerprint}-{sweeps}-"
        remove(*(path for path in self.folder.glob(f"topics-{self.fingerprint}-*.npy") if not path.name.startswith(newest)))


class _TopicRun:
    """Phases of a run, the same in all processes."""

    def __init__(self, task: Task, stream: Stream, chains: TopicChains, thin: int) -> None:
        self._task, self._group, self._chains, self._thin = task, stream.group, chains, thin
        self._files = None if task.folder is None else _Files(task.folder, task.fingerprint, chains.documents)
        self._due = time.perf_counter() + task.checkpoint_seconds

    def phase(self, name: str, first: int, total: int, keep: bool) -> Progress:
        """``total`` sweeps after the ``first`` ones, or those that are left. Raises `KeyboardInterrupt` after Ctrl-C.

        A phase continues from its checkpoint, which process 0 writes and all read.
        """
        task, like = self._task, self._chains.shape_of_draws() if keep else None
        checkpoint = task.checkpoint(name, cut=keep)
        at = restore_or_start(checkpoint, np.full(len(self._chains.topic), first), like, total, self._thin)
        require_same(self._group, at.finished)
        if at.finished < total and self._chains.sweeps != first + at.finished:
            self._read(first + at.finished)
        task.reporter.phase("warm-up" if name == "warmup" else name, total)
        restored, interrupted = at.finished, False
        with interruptible() as stop:
            while at.finished < total and not interrupted:
                chunk = self._chunk(min(self._thin, total - at.finished), keep)
                at = at.after(chunk, keep)
                task.reporter.update(at.finished, chunk.note, chunk.chains)
                stops, due = self._agreed(stop.is_set(), time.perf_counter() > self._due)
                interrupted = stops and at.finished < total
                stop.heeded |= interrupted
                if due and at.finished < total and not interrupted:
                    self._store(name, at, keep)
        if at.finished > restored:
            self._store_last(name, at, keep, interrupted)
        written = checkpoint if self._group.rank == 0 else None
        require_uninterrupted(interrupted, at, written, f"sweeps of the {'draws' if keep else 'warm-up'}", keep)
        return at

    def _chunk(self, sweeps: int, keep: bool) -> Chunk:
        """Some sweeps, and the record after them."""
        clock, chains = time.perf_counter(), self._chains
        chains.advance(sweeps)
        record: Any = chains.draws() if keep else chains.log_joint()
        log_joint = record.log_joint if keep else record
        columns = {"log joint": [figure(value) for value in log_joint.tolist()]}
        state, records = np.full(len(chains.topic), chains.sweeps), jax.tree.map(lambda leaf: leaf[:, None], record)
        note = f"log joint {log_joint.mean():.2f}"
        return Chunk(state, records, sweeps, time.perf_counter() - clock, note, chains=columns)

    def _agreed(self, stops: bool, due: bool) -> tuple[bool, bool]:
        """(whether any process has got a Ctrl-C, whether a checkpoint is due on process 0)."""
        votes = self._group.all_sum(np.array([stops, due and self._group.rank == 0], float))
        return bool(votes[0]), bool(votes[1])

    def _read(self, sweeps: int) -> None:
        """Go on with the topics that are in files."""
        assert self._files is not None
        self._chains.go_on(self._files.read(self._chains.topic, sweeps), sweeps)

    def _store(self, name: str, at: Progress, keep: bool) -> None:
        """Write the topics, then the main checkpoint; remove the topics of the one before. Raises `NotWrittenError`."""
        checkpoint = self._task.checkpoint(name)
        if self._files is None or checkpoint is None:
            return
        clock = time.perf_counter()
        self._write()
        if self._group.rank == 0:
            store(checkpoint.path, *at.stored(keep))
            self._files.remove_others(self._chains.sweeps)
        now = time.perf_counter()
        self._due = now + max(self._task.checkpoint_seconds, (now - clock) / SHARE)

    def _write(self) -> None:
        """Write the topics of all blocks. Raises `NotWrittenError` in all processes where one of them could not."""
        if self._files is None:
            return
        failure = None
        try:
            self._files.write(self._chains.topic, self._chains.sweeps)
        except NotWrittenError as error:
            failure = error
        failures = self._group.all_sum(np.array([float(failure is not None)]))[0]
        if failure is not None:
            raise failure
        if failures:
            raise NotWrittenError(f"{self._files.folder}: another process could not write the topics of its documents there")

    def _store_last(self, name: str, at: Progress, keep: bool, interrupted: bool) -> None:
        """The checkpoint at the end of a phase, or only its topics after Ctrl-C. Draws are worth more than their checkpoint."""
        try:
            if interrupted:
                self._write()
            else:
                self._store(name, at, keep)
        except NotWrittenError as error:
            if interrupted or not keep:
                raise
            warnings.warn(f"{error}; the draws are returned without a checkpoint", RuntimeWarning, stacklevel=2)
