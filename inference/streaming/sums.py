"""The sums of one block: the local step of all starts or chains, on the devices of this process or by compiled loops.

On devices the rows of a block are shared out in chunks of `inference.engine.sweep.block_size` rows, or `SEQUENCES` sequences.
Each device sums over its chunks, and one all-reduce adds the devices. The key of a chunk is that of the step, the number of the
block among all, and that of the chunk in it: draws of latents do not depend on how blocks are shared out.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inference.engine.driver import num_cores, vmap_or_call
from inference.engine.sweep import Local, block_size, local_step, num_rows, rows_weight
from inference.fixed_points.local_blocks import sums_with_local
from inference.row_sums.compiled import at_start, coefficients_of, local_of_loops
from inference.runtime.programs import cached_jit
from inference.streaming.source.encoding import EncodedBlock
from models.algebra import add
from models.base import Algebra, Hyper, Pytree, Stats, ZooError
from models.host.loops import HostStep
from models.rows.row_info import row_info

ROW = "row"  # the axis of the devices
SEQUENCES = 256  # of a chunk


class Placed(NamedTuple):
    """A block where its sums are computed."""

    block: EncodedBlock
    rows: Pytree  # on the devices, or on the host
    weight: Array | None = None  # (N,), of rows on the devices that can be divided
    chunk_size: int = 0  # rows of a chunk, where there are weights
    by_loops: bool = False  # whether compiled loops sum over it


class Starts(NamedTuple):
    """The parameters of all starts."""

    T: Stats
    coefficients: Pytree | None  # of the compiled loops at these parameters


def mesh_of(num_devices: int) -> Mesh:
    """``num_devices`` of this process in a line; raises `ZooError` where there are fewer."""
    devices = jax.local_devices()
    if num_devices > len(devices):
        raise ZooError(f"devices={num_devices}: this process has {len(devices)} of them (JAX_PLATFORMS, jax_num_cpu_devices)")
    return Mesh(np.array(devices[:num_devices]), (ROW,))


class BlockSums:
    """The local step of an algebra, summed over single blocks: by compiled loops where they can read a block, or on devices.

    ``num_devices`` is None where the loops may be used; rows are then on one device if they are not.
    """

    def __init__(
        self, algebra: Algebra, update: str, hyper: Hyper, prior: Mapping[str, Stats], num_devices: int | None
    ) -> None:
        self._prior = {name: jax.tree.map(lambda leaf: np.asarray(leaf[:1]), prior[name]) for name in algebra.structure.local}
        self._algebra, self._update, self._mesh = algebra, update, mesh_of(num_devices or 1)
        self._hyper = {name: np.asarray(value) for name, value in hyper.items()}
        usable = num_devices is None and update == "mean" and jax.default_backend() == "cpu"
        self._loops: HostStep | None = algebra.structure.host_step if usable else None

    def starts(self, T: Stats) -> Starts:
        """The parameters of all starts, as blocks read them."""
        host = jax.tree.map(np.asarray, T)
        return Starts(host, None if self._loops is None else coefficients_of(self._algebra, host))

    def placed(self, block: EncodedBlock) -> Placed:
        """A block where it is summed."""
        if self._loops is not None and self._loops.serves(block.rows):
            return Placed(block, block.rows, by_loops=True)
        if row_info(block.rows).atomic:
            return Placed(block, jax.device_put(block.rows))
        size = chunk_size(block.rows)
        return Placed(block, *on_devices(self._mesh, size, block.rows), chunk_size=size)

    def of(self, starts: Starts, keys: Array, at: Placed) -> Local:
        """The sums of all starts over a block, in double precision on the host; ``keys`` are those of the step."""
        if at.by_loops:
            return self._local(self._by_loops(starts, at, num_cores()))
        of_block = np.asarray(_keys_of_block(keys, np.asarray(at.block.number)))
        if self._prior:
            sums = sums_with_local(self._algebra, self._hyper, self._prior, starts.T, at.rows)
        elif at.weight is None:
            sums = sums_of_whole(self._algebra, self._update, self._hyper, starts.T, of_block, at.rows)
        else:
            over = partial(sums_on_devices, self._algebra, self._update, self._mesh, at.chunk_size)
            sums = over(self._hyper, starts.T, of_block, at.rows, at.weight)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), sums)

    def over(self, starts: Starts, keys: Array, blocks: Iterable[Placed], only: bool) -> Iterator[tuple[Placed, Local]]:
        """`of` one block after another. Compiled loops add up several at once, each on one core.

        On two cores, half a block for each of two threads takes nearly as long as a block for one. With ``only`` a whole pass
        has a single block, which gets all cores. A part of a pass may have a single one, too: several threads add in another
        order, and the sums of a block must not depend on where a checkpoint cuts the pass.
        """
        if only:
            yield from ((at, self.of(starts, keys, at)) for at in blocks)
            return
        waiting: deque[tuple[Placed, Future[Pytree] | Local]] = deque()
        with ThreadPoolExecutor(num_cores()) as pool:
            for at in blocks:
                by_loops = at.by_loops
                waiting.append((at, pool.submit(self._by_loops, starts, at, 1) if by_loops else self.of(starts, keys, at)))
                if len(waiting) > num_cores():
                    yield self._ended(*waiting.popleft())
            while waiting:
                yield self._ended(*waiting.popleft())

    def _ended(self, at: Placed, outcome: "Future[Pytree] | Local") -> tuple[Placed, Local]:
        return at, self._local(outcome.result()) if isinstance(outcome, Future) else outcome

    def _by_loops(self, starts: Starts, at: Placed, num_threads: int) -> Pytree:
        assert self._loops is not None
        number = len(jax.tree.leaves(starts.coefficients)[0])
        sums = [
            self._loops.sums(self._hyper, at.rows, num_threads, at_start(starts.coefficients, start)) for start in range(number)
        ]
        return jax.tree.map(lambda *leaves: np.stack(leaves).astype(np.float64), *sums)

    def _local(self, sums: Pytree) -> Local:
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), local_of_loops(self._algebra, sums))


@cached_jit(static_argnames=())
def _keys_of_block(keys: Array, number: Array) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


def chunk_size(rows: Pytree) -> int:
    """Rows of a chunk: of sequences, which have many steps, no more than the block has, rounded up to a power of 2.

    It depends on the block alone, so that latents are drawn alike on any number of devices.
    """
    return block_size() if row_info(rows).length is None else min(SEQUENCES, 1 << (num_rows(rows) - 1).bit_length())


def on_devices(mesh: Mesh, size: int, rows: Pytree) -> tuple[Pytree, Array]:
    """(rows, weights) shared out to the devices, filled up to chunks of ``size`` with copies of the first row, of weight 0."""
    weight, more = np.asarray(rows_weight(rows), float), -num_rows(rows) % (size * mesh.devices.size)
    rows = rows._replace(weight=None)
    filled = rows if not more else jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[:1], more, 0)]), rows)
    return jax.device_put((filled, np.append(weight, np.zeros(more))), NamedSharding(mesh, PartitionSpec(ROW)))


@cached_jit(static_argnames=("algebra", "update"))
def sums_of_whole(algebra: Algebra, update: str, hyper: Hyper, T: Stats, keys: Array, rows: Pytree) -> Local:
    """`inference.engine.sweep.local_step` of all starts of rows that cannot be divided, as packed sequences."""
    return vmap_or_call(lambda T, key: local_step(algebra, update, hyper, key, T, rows), T, keys)


@partial(jax.jit, static_argnames=("algebra", "update", "mesh", "size"))
def sums_on_devices(
    algebra: Algebra, update: str, mesh: Mesh, size: int, hyper: Hyper, T: Stats, keys: Array, rows: Pytree, weight: Array
) -> Local:
    """`inference.engine.sweep.local_step` of all starts, summed over the devices; every chunk has its key."""
    shared, by_row = PartitionSpec(), PartitionSpec(ROW)

    def of_device(hyper: Hyper, T: Stats, keys: Array, rows: Pytree, weight: Array) -> Local:
        number = num_rows(rows) // size
        begin = lax.axis_index(ROW) * number

        def one(T: Stats, key: Array) -> Local:
            def chunk(index: Array) -> Local:
                part, counts = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, index * size, size), (rows, weight))
                chunk_key = jax.random.fold_in(key, begin + index)
                return local_step(algebra, update, hyper, chunk_key, T, part._replace(weight=counts))

            zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chunk, jnp.zeros((), int)))
            return lax.fori_loop(0, number, lambda index, sums: add(sums, chunk(index)), zeros)

        return jax.tree.map(lambda leaf: lax.psum(leaf, ROW), vmap_or_call(one, T, keys))

    specs = (shared, shared, shared, by_row, by_row)
    summed = jax.shard_map(of_device, mesh=mesh, in_specs=specs, out_specs=shared, check_vma=False)
    total: Local = summed(hyper, T, keys, rows, weight)
    return total
