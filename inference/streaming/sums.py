"""The sums of one block: the local step of all starts or chains, on the devices of this process or by compiled loops.

On devices the rows of a block are shared out in chunks of `BLOCK` rows, or `SEQUENCES` sequences. Each device adds up its own,
and one all-reduce adds the devices. The key of a chunk is that of the step and the number of its first row among all rows, so
that latents are drawn alike however the rows are shared out.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inference.engine.driver import each, num_cores
from inference.engine.sweep import BLOCK, Local, local_step, num_rows, rows_weight
from inference.runtime.programs import kept
from inference.streaming.source.encoding import Encoded
from models.algebra import add
from models.base import Algebra, Hyper, Pytree, Stats, ZooError
from models.host_step import HostStep
from models.rows.carried import carried

ROW = "row"  # the axis of the devices
SEQUENCES = 256  # of a chunk


class Placed(NamedTuple):
    """A block where its sums are computed."""

    block: Encoded
    rows: Pytree  # on the devices, or on the host
    weight: Array | None = None  # (N,), beside rows on the devices that can be divided


class Summed(NamedTuple):
    """How the local step of an algebra is summed over blocks."""

    placed: Callable[[Encoded], Placed]
    given: Callable[[Stats], Pytree]  # T of all starts -> what the sums read of them
    sums: Callable[[Pytree, Array, Placed], Pytree]  # (given, keys, block) -> sums of all starts, on the host
    local: Callable[[Pytree], Local]  # sums over all blocks -> the local step of all starts


def mesh_of(num_devices: int) -> Mesh:
    """``num_devices`` of this process in a line; raises `ZooError` where there are fewer."""
    devices = jax.local_devices()
    if num_devices > len(devices):
        raise ZooError(f"devices={num_devices}: this process has {len(devices)} of them (JAX_PLATFORMS, jax_num_cpu_devices)")
    return Mesh(np.array(devices[:num_devices]), (ROW,))


def summed(algebra: Algebra, verb: str, hyper: Hyper, rows: Pytree, num_devices: int | None) -> Summed:
    """How to sum: by the compiled loops of the algebra where ``num_devices`` is None and they read such ``rows``."""
    loops = algebra.structure.host_step
    if num_devices is None and verb == "mean" and loops is not None and jax.default_backend() == "cpu" and loops.serves(rows):
        return _by_loops(algebra, loops, hyper)
    mesh = mesh_of(num_devices or 1)

    def placed(block: Encoded) -> Placed:
        if carried(block.rows).atomic:
            return Placed(block, jax.device_put(block.rows))
        return Placed(block, *on_devices(mesh, block.rows))

    def sums(T: Stats, keys: Array, at: Placed) -> Pytree:
        first = np.asarray(at.block.first)
        if at.weight is None:
            found = sums_of_whole(algebra, verb, dict(hyper), T, keys, first, at.rows)
        else:
            found = sums_on_devices(algebra, verb, mesh, dict(hyper), T, keys, first, at.rows, at.weight)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)

    return Summed(placed, lambda T: T, sums, lambda found: found)


def _by_loops(algebra: Algebra, loops: HostStep, hyper: Hyper) -> Summed:
    host_hyper = {name: np.asarray(value) for name, value in hyper.items()}

    def sums(given: Pytree, keys: Array, at: Placed) -> Pytree:
        number = len(jax.tree.leaves(given)[0])
        found = [loops.sums(host_hyper, at.rows, num_cores(), _at(given, start)) for start in range(number)]
        return jax.tree.map(lambda *leaves: np.stack(leaves).astype(np.float64), *found)

    return Summed(
        lambda block: Placed(block, block.rows),
        lambda T: jax.tree.map(np.asarray, _coefficients(algebra, T)),
        sums,
        lambda found: _local_of_loops(algebra, found),
    )


def _at(stacked: Pytree, start: int) -> Pytree:
    return jax.tree.map(lambda leaf: leaf[start], stacked)


@kept(static_argnames=("algebra",))
def _coefficients(algebra: Algebra, T: Stats) -> Pytree:
    assert algebra.structure.host_step is not None
    return jax.vmap(algebra.structure.host_step.coefficients)(T)


@kept(static_argnames=("algebra",))
def _local_of_loops(algebra: Algebra, sums: Pytree) -> Local:
    assert algebra.structure.host_step is not None
    stats, log_partition = jax.vmap(algebra.structure.host_step.statistics)(sums)
    return Local(stats, log_partition, log_partition)


def chunk_size(rows: Pytree) -> int:
    """Rows of a chunk: of sequences fewer, as each has many steps."""
    return SEQUENCES if carried(rows).length is not None else BLOCK


def on_devices(mesh: Mesh, rows: Pytree) -> tuple[Pytree, Array]:
    """(rows, weights) shared out to the devices, filled up to whole chunks with copies of the first row, of weight 0."""
    weight, more = np.asarray(rows_weight(rows), float), -num_rows(rows) % (chunk_size(rows) * mesh.devices.size)
    rows = rows._replace(weight=None)
    filled = rows if not more else jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[:1], more, 0)]), rows)
    return jax.device_put((filled, np.append(weight, np.zeros(more))), NamedSharding(mesh, PartitionSpec(ROW)))


@kept(static_argnames=("algebra", "verb"))
def sums_of_whole(algebra: Algebra, verb: str, hyper: Hyper, T: Stats, keys: Array, first: Array, rows: Pytree) -> Local:
    """`inference.engine.sweep.local_step` of all starts of rows that cannot be divided, as packed sequences."""
    return each(lambda T, key: local_step(algebra, verb, hyper, jax.random.fold_in(key, first), T, rows), T, keys)


@partial(jax.jit, static_argnames=("algebra", "verb", "mesh"))
def sums_on_devices(
    algebra: Algebra, verb: str, mesh: Mesh, hyper: Hyper, T: Stats, keys: Array, first: Array, rows: Pytree, weight: Array
) -> Local:
    """`inference.engine.sweep.local_step` of all starts, summed over the devices; ``first`` numbers the first row."""
    shared, own = PartitionSpec(), PartitionSpec(ROW)
    size = chunk_size(rows)

    def of_device(hyper: Hyper, T: Stats, keys: Array, first: Array, rows: Pytree, weight: Array) -> Local:
        number = num_rows(rows) // size
        begin = first + lax.axis_index(ROW) * number * size

        def one(T: Stats, key: Array) -> Local:
            def chunk(index: Array) -> Local:
                part, counts = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, index * size, size), (rows, weight))
                own_key = jax.random.fold_in(key, begin + index * size)
                return local_step(algebra, verb, hyper, own_key, T, part._replace(weight=counts))

            zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chunk, jnp.zeros((), int)))
            return lax.fori_loop(0, number, lambda index, sums: add(sums, chunk(index)), zeros)

        return jax.tree.map(lambda leaf: lax.psum(leaf, ROW), each(one, T, keys))

    given = (shared, shared, shared, shared, own, own)
    over = jax.shard_map(of_device, mesh=mesh, in_specs=given, out_specs=shared, check_vma=False)
    found: Local = over(hyper, T, keys, first, rows, weight)
    return found
