"""The driver of everything that iterates in JAX: chunks of steps under one compilation.

A step is a pure function ``step(static, arrays, key, state) -> (state, record, done)`` of one chain, or of one start of an
optimiser. The driver runs all chains in lockstep, vectorised on one device or spread over several. The number of steps in a
chunk is a traced number, so that chunks of any length share one compiled program; a chunk of no steps compiles it. Random
numbers depend only on the seed, the chain and the index of the step. A resumed run therefore equals an unbroken one on the same
devices. On other devices the arithmetic of a step may round differently, and chains diverge.
"""

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import PartitionSpec
from threadpoolctl import threadpool_limits

from inference.engine.task import Task, timing
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.loop import Chunk, in_chunks, restore_or_start
from inference.runtime.programs import cached_jit, memoised
from inference.runtime.progress import SILENT, Counted, Reporter, Watch
from models.base import Pytree

CAPACITY = 256  # records kept on the device between two visits of the host
CAPACITY_BYTES = 2**26
REPLICA_BYTES = 2**30  # of data, over all devices
CHUNK_SECONDS = 0.25  # between two visits of the host: progress, Ctrl-C

Step = Callable[[Any, Pytree, Array, Pytree], tuple[Pytree, Pytree, Array]]


class Run(NamedTuple):
    """The result of the driver: the last state, the records (chain, step, ...), and the clock."""

    state: Pytree
    records: Pytree
    num_steps: int  # steps finished; fewer than requested if interrupted, or if every chain was done
    interrupted: bool
    compile_seconds: float
    run_seconds: float


def vmap_or_call(function: Callable[..., Pytree], *stacked: Pytree) -> Pytree:
    """``function`` over the leading axis. A single element is called directly: batched products of one are slower."""
    if jax.tree.leaves(stacked)[0].shape[0] == 1:
        single = function(*jax.tree.map(lambda leaf: leaf[0], stacked))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], single)
    return jax.vmap(function)(*stacked)


@partial(jax.jit, static_argnames=("step", "static"))
def traced_once(step: Step, static: Any, arrays: Pytree, key: Array, state: Pytree) -> tuple[Pytree, Pytree, Array]:
    """One step. Jitted so that shapes and loop share its trace: tracing a sampler costs as much as compiling it."""
    return step(static, arrays, key, state)


@cached_jit(static_argnames=("step", "static", "capacity", "num_devices"))
def advance(
    step: Step,
    static: Hashable,
    capacity: int,
    num_devices: int,
    arrays: Pytree,
    keys: Array,
    state: Pytree,
    first: Array,
    count: Array,
) -> tuple[Pytree, Pytree, Array, Array]:
    """``count`` steps from step ``first``, or until all chains are done: (state, records, done, steps taken)."""

    def loop(arrays: Pytree, keys: Array, state: Pytree, first: Array, count: Array) -> tuple[Pytree, ...]:
        def all_chains(index: Array, state: Pytree) -> tuple[Pytree, Pytree, Array]:
            def one(key: Array, state: Pytree) -> tuple[Pytree, Pytree, Array]:
                return traced_once(step, static, arrays, jax.random.fold_in(key, index), state)

            return vmap_or_call(one, keys, state)

        def running(carry: tuple[Pytree, ...]) -> Array:
            index, _, _, done = carry
            # Devices do not see each other's chains: with several, all take every step, so that their records line up.
            return (index < first + count) & ((num_devices > 1) | ~done.all())

        def body(carry: tuple[Pytree, ...]) -> tuple[Pytree, ...]:
            index, state, buffer, _ = carry
            state, record, done = all_chains(index, state)
            buffer = jax.tree.map(
                lambda into, leaf: lax.dynamic_update_index_in_dim(into, leaf, index - first, 1), buffer, record
            )
            return index + 1, state, buffer, done

        shapes = jax.eval_shape(all_chains, first, state)
        buffer = jax.tree.map(lambda leaf: jnp.zeros((leaf.shape[0], capacity, *leaf.shape[1:]), leaf.dtype), shapes[1])
        carry = (first, state, buffer, jnp.zeros(keys.shape[0], bool))
        index, state, buffer, done = lax.while_loop(running, body, carry)
        return state, buffer, done, jnp.full(keys.shape[0], index - first)

    if num_devices > 1:
        by_chain, shared = PartitionSpec("chain"), PartitionSpec()
        specs = (shared, by_chain, by_chain, shared, shared)
        loop = jax.shard_map(loop, mesh=_mesh(num_devices), in_specs=specs, out_specs=by_chain, check_vma=False)
    return loop(arrays, keys, state, first, count)


def drive(
    step: Step,
    static: Hashable,
    arrays: Pytree,
    key: Array,
    state: Pytree,
    num_steps: int,
    reporter: Reporter,
    phase: str,
    *,
    first: int = 0,
    keep: bool = True,
    watch: Watch = SILENT,
    checkpoint: Checkpoint | None = None,
    lockstep: bool = True,
) -> Run:
    """Run ``num_steps`` steps of all chains (the leading axis of ``state``) and collect their records.

    ``first`` numbers the first step, and its random numbers with it. ``keep=False`` drops the records, as of a warm-up.
    ``watch`` chooses what the user sees of the chains. A run continues from its ``checkpoint`` where that file exists, and ends
    early by Ctrl-C (`inference.runtime.loop`). With ``lockstep`` steps take equally long in all chains. Such chains are
    vectorised, one group per core. Others would wait for each other: each gets a device, if there are enough.
    """
    num_chains = int(jax.tree.leaves(state)[0].shape[0])
    keys = jax.random.split(key, num_chains)
    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (keys, state))
    shapes = jax.tree.map(lambda leaf: (jnp.shape(leaf), str(jnp.result_type(leaf))), (arrays, *single))
    one = memoised("record", (step, static), shapes, lambda: traced_once.eval_shape(step, static, arrays, *single)[1])
    record_bytes = num_chains * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(one))
    capacity = int(np.clip(CAPACITY_BYTES // max(record_bytes, 1), 1, CAPACITY))
    num_devices = _num_devices(num_chains, lockstep, arrays)
    start = restore_or_start(checkpoint, state, one if keep else None, num_steps)
    arrays, keys, state = _placed(num_devices, arrays, keys, start.state)
    call = partial(advance, step, static, capacity, num_devices, arrays, keys)

    reporter.phase(f"compiling {phase}", None)
    clock = time.perf_counter()
    jax.block_until_ready(call(state, np.int32(first), np.int32(0)))
    compile_seconds = time.perf_counter() - clock

    reporter.phase(phase, num_steps)
    chunk = _Chunks(call, first, capacity, watch)
    # JAX's small factorisations run on BLAS threads that spin after their work, on the cores of JAX's threads: with them
    # an iteration of EM on 100,000 × 64 takes a quarter longer.
    with one_blas_thread():
        at, interrupted = in_chunks(chunk, start._replace(state=state), num_steps, reporter, checkpoint, keep)
    return Run(at.state, at.records(), at.finished, interrupted, compile_seconds, at.seconds)


class _Chunks:
    """Chunks of steps on the device, each of about `CHUNK_SECONDS`."""

    def __init__(self, call: Callable[..., tuple[Pytree, ...]], first: int, capacity: int, watch: Watch) -> None:
        self._call, self._first, self._capacity, self._words = call, first, capacity, watch.words
        self._counted = Counted(watch)
        self._count = 1  # steps of the next chunk

    def __call__(self, state: Pytree, finished: int, most: int) -> Chunk:
        clock = time.perf_counter()
        now = np.int32(min(self._count, most))
        state, buffer, all_done, taken = jax.block_until_ready(self._call(state, np.int32(self._first + finished), now))
        steps = int(np.asarray(taken).max())
        seconds = time.perf_counter() - clock
        self._count = int(np.clip(CHUNK_SECONDS * steps / max(seconds, 1e-9), 1, self._capacity))
        records = jax.tree.map(lambda leaf: np.array(np.asarray(leaf)[:, :steps]), buffer)
        newest = jax.tree.map(lambda leaf: leaf[:, -1], records)
        done, chains = bool(np.asarray(all_done).all()), self._counted.columns(records, newest)
        return Chunk(state, records, steps, seconds, self._words(newest), done, chains)


def _placed(num_devices: int, arrays: Pytree, keys: Array, state: Pytree) -> tuple[Pytree, Array, Pytree]:
    """Chains (keys and state) shared out to the devices, each with a copy of the arrays."""
    # From the host: no weak types, so that the first chunk compiles what all run, and nothing to compile to share them out.
    keys, state = jax.tree.map(np.asarray, (keys, state))
    if num_devices == 1:
        return arrays, *jax.device_put((keys, state))
    mesh = _mesh(num_devices)
    keys, state = jax.device_put((keys, state), jax.sharding.NamedSharding(mesh, PartitionSpec("chain")))
    arrays = jax.device_put(arrays, jax.sharding.NamedSharding(mesh, PartitionSpec()))  # once, and not in every chunk
    return arrays, keys, state


def sample(
    iterate: Callable[..., Run],
    key: Array,
    state: Pytree,
    num_warmup: int,
    num_samples: int,
    task: Task,
    watch: Watch,
) -> tuple[Run, dict[str, float]]:
    """A warm-up, whose records are dropped, then the draws: (the run of the draws, seconds by phase).

    ``iterate`` is `drive` with its arguments before the key, or `inference.row_sums.driver.drive_sums`.
    """
    warmup = iterate(
        key, state, num_warmup, task.reporter, "warm-up", keep=False, watch=watch, checkpoint=task.checkpoint("warmup")
    )
    if warmup.interrupted:  # a checkpoint of the sampling phase must not start from an unfinished warm-up
        return warmup._replace(records=None, num_steps=0), timing(0.0, warmup.compile_seconds, warmup.run_seconds)
    run = iterate(
        key, warmup.state, num_samples, task.reporter, "sampling",
        first=num_warmup, watch=watch, checkpoint=task.checkpoint("sampling", cut=True),
    )  # fmt: skip
    return run, timing(run.run_seconds, warmup.compile_seconds + run.compile_seconds, warmup.run_seconds)


def _num_devices(num_chains: int, lockstep: bool, arrays: Pytree) -> int:
    """The largest number of devices that divides the number of chains; each device holds a copy of the data."""
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in map(jnp.asarray, jax.tree.leaves(arrays)))
    available = min(len(jax.local_devices()), max(1, REPLICA_BYTES // max(size, 1)))
    if lockstep and jax.default_backend() == "cpu":
        available = min(available, num_cores())
    return max(d for d in range(1, available + 1) if num_chains % d == 0)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _mesh(num_devices: int) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.local_devices()[:num_devices]), ("chain",))


class _BlasLimit:
    """The limit of the whole process: the number of threads that want it now, and the limits before it."""

    lock = threading.Lock()
    working = 0
    limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread until the last context has closed; `fit` may run in several threads."""
    with _BlasLimit.lock:
        if _BlasLimit.working == 0:
            _BlasLimit.limits = threadpool_limits(1, user_api="blas")
        _BlasLimit.working += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.working -= 1
            if _BlasLimit.working == 0:
                _BlasLimit.limits.restore_original_limits()
