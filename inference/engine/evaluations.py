"""Evaluations of an objective, stored in the order of a search, so that it can be replayed.

SciPy does not show the memory of its quasi-Newton method. But the method is deterministic: given the same values and gradients
it visits the same points. So a checkpoint holds all evaluations so far, and a resumed search takes them from there instead of
computing them. Its path is that of the unbroken one, to the last bit.
"""

import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jax import Array

from inference.runtime.checkpoints import Checkpoint, CheckpointTimer, restore, store_last
from inference.runtime.files import CHECKPOINT_SECONDS

MOST_BYTES = 2**30  # of gradients: evaluations beyond these are not stored, and a resumed search repeats them


class SearchPoint(NamedTuple):
    """The value and the gradient at a point of a search."""

    checksum: np.ndarray  # of the point (d,)
    value: np.ndarray
    gradient: np.ndarray  # (d,)


class Evaluations:
    """An objective with its gradient that stores its evaluations: ``evaluations(point) -> (value, gradient)``.

    The first ones come from the checkpoint, if there is one. Where the search comes to another point than is stored, as on a
    processor that rounds otherwise, the rest of the checkpoint is dropped and computed. Raises `ZooError` for a checkpoint that
    is damaged or of another run.
    """

    def __init__(self, evaluate: Callable[[Array], tuple[Array, Array]], first: Array, checkpoint: Checkpoint | None) -> None:
        self._evaluate, self._checkpoint = evaluate, checkpoint
        self._first = np.asarray(first)[None]  # where the search begins: the state that every checkpoint holds
        self._pace = CheckpointTimer(CHECKPOINT_SECONDS if checkpoint is None else checkpoint.seconds)
        self._most = MOST_BYTES // max(self._first.nbytes, 1)
        self._place = 0  # of the next evaluation
        self._clock = time.perf_counter()
        self.seconds_before, self._kept = self._restored()
        self._num_restored = len(self._kept)

    def __call__(self, point: Array) -> tuple[np.ndarray, np.ndarray]:
        """The objective and its gradient (d,) at a point (d,)."""
        place, self._place = self._place, self._place + 1
        checksum = np.asarray(zlib.crc32(np.asarray(point).tobytes()))
        if place < len(self._kept):
            if self._kept[place].checksum == checksum:
                return self._kept[place].value, self._kept[place].gradient
            del self._kept[place:]
        value, gradient = map(np.asarray, self._evaluate(point))
        if self._checkpoint is not None and place == len(self._kept) < self._most:
            self._kept.append(SearchPoint(checksum, value, gradient))
            if self._pace.is_due():
                self._pace.store(self._checkpoint.path, *self._stored())
        return value, gradient

    def store(self) -> None:
        """Write the checkpoint at the end of a search that may continue."""
        if self._checkpoint is not None:
            store_last(self._checkpoint.path, self._num_restored, *self._stored(), draws=True)

    def _stored(self) -> tuple[int, float, np.ndarray, list[SearchPoint]]:
        """Steps, seconds, state and records of a checkpoint."""
        seconds = self.seconds_before + time.perf_counter() - self._clock
        stacked = SearchPoint(*(np.stack(leaves)[None] for leaves in zip(*self._kept, strict=True)))
        return len(self._kept), seconds, self._first, [stacked]

    def _restored(self) -> tuple[float, list[SearchPoint]]:
        """(seconds, evaluations) of the checkpoint."""
        if self._checkpoint is None or not self._checkpoint.path.is_file():
            return 0.0, []
        like = SearchPoint(np.zeros((), int), np.zeros((), self._first.dtype), self._first[0])
        _, seconds, _, parts = restore(self._checkpoint.path, self._first, like, self._most)
        return seconds, [SearchPoint(*fields) for part in parts for fields in zip(*(leaf[0] for leaf in part), strict=True)]
