"""The driver for everything that iterates: chunks of steps under one compilation, with progress, Ctrl-C and checkpoints.

A step is a pure function ``step(static, arrays, key, state) -> (state, record, done)`` of one chain (or of one start of an
optimiser); the driver runs all chains in lockstep, vectorised on one device or spread over several. The number of steps in
a chunk is a traced number, so that chunks of any length share one compiled program, and a chunk of none compiles it.
Random numbers depend on the seed, the chain and the index of the step alone, so that a resumed run equals an unbroken one on
the same devices (on others the arithmetic of a step may round differently, and chains part ways).
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import PartitionSpec
from threadpoolctl import threadpool_limits

from inference.outcome import Task
from inference.progress import Reporter
from models.base import Pytree, ZooError

CAPACITY = 256  # records kept on the device between two visits of the host
CAPACITY_BYTES = 2**26
REPLICA_BYTES = 2**30  # of data, over all devices
CHUNK_SECONDS = 0.25  # how often the host looks in: progress, Ctrl-C
CHECKPOINT_SECONDS = 30.0  # how often what was computed is written down

Step = Callable[[Any, Pytree, Array, Pytree], tuple[Pytree, Pytree, Array]]


class Run(NamedTuple):
    """What the driver brings back: the last state, the records (chain, step, ...), and the clock."""

    state: Pytree
    records: Pytree
    num_steps: int  # steps finished, fewer than asked for when interrupted or when every chain was done
    interrupted: bool
    compile_seconds: float
    run_seconds: float


def each(function: Callable[..., Pytree], *stacked: Pytree) -> Pytree:
    """``function`` over the leading axis. A single element is called directly: batched products of one are slower."""
    if jax.tree.leaves(stacked)[0].shape[0] == 1:
        single = function(*jax.tree.map(lambda leaf: leaf[0], stacked))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], single)
    return jax.vmap(function)(*stacked)


@partial(jax.jit, static_argnames=("step", "static"))
def traced_once(step: Step, static: Any, arrays: Pytree, key: Array, state: Pytree) -> tuple[Pytree, Pytree, Array]:
    """One step. Jitted for its trace, which shapes and loop then share: tracing a sampler costs as much as compiling it."""
    return step(static, arrays, key, state)


@partial(jax.jit, static_argnames=("step", "static", "capacity", "num_devices"))
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

            return each(one, keys, state)

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
        given = (shared, by_chain, by_chain, shared, shared)
        loop = jax.shard_map(loop, mesh=_mesh(num_devices), in_specs=given, out_specs=by_chain, check_vma=False)
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
    describe: Callable[[Pytree], str] = lambda record: "",
    checkpoint: Path | None = None,
    lockstep: bool = True,
) -> Run:
    """Run ``num_steps`` steps of all chains (the leading axis of ``state``) and collect their records.

    ``first`` numbers the first step (the random numbers go with it); ``keep=False`` drops the records (warm-up);
    ``describe`` turns the newest record into a few words for the progress line. Ctrl-C ends the run after the chunk in
    hand, with every finished step kept; a second one interrupts at once. ``checkpoint`` is a file that holds all this between
    two visits: where it exists, the run goes on from it. ``lockstep`` says that steps take equally long in all chains: such
    chains are vectorised, in one group a core; others, which would wait for each other, have a device each where there are so
    many.
    """
    num_chains = int(jax.tree.leaves(state)[0].shape[0])
    keys = jax.random.split(key, num_chains)
    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (keys, state))
    one = traced_once.eval_shape(step, static, arrays, *single)[1]
    record_bytes = num_chains * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(one))
    capacity = int(np.clip(CAPACITY_BYTES // max(record_bytes, 1), 1, CAPACITY))
    num_devices = _num_devices(num_chains, lockstep, arrays)
    finished = 0
    parts: list[Pytree] = []
    before = 0.0
    if checkpoint is not None:
        refuse_strangers(checkpoint)
        if checkpoint.is_file():
            finished, before, state, parts = restore(checkpoint, state, one, num_steps if keep else None)
    # From the host: no weak types, so that the first chunk compiles what all run, and nothing to compile to share them out.
    keys, state = jax.tree.map(np.asarray, (keys, state))
    if num_devices > 1:
        mesh = _mesh(num_devices)
        keys, state = jax.device_put((keys, state), jax.sharding.NamedSharding(mesh, PartitionSpec("chain")))
        arrays = jax.device_put(arrays, jax.sharding.NamedSharding(mesh, PartitionSpec()))  # once, and not in every chunk
    else:
        keys, state = jax.tree.map(jnp.asarray, (keys, state))
    call = partial(advance, step, static, capacity, num_devices, arrays, keys)

    reporter.phase(f"compiling {phase}", None)
    clock = time.perf_counter()
    jax.block_until_ready(call(state, np.int32(first), np.int32(0)))
    compile_seconds = time.perf_counter() - clock

    reporter.phase(phase, num_steps)
    # JAX's small factorisations run on BLAS threads that spin after their work, on the cores of JAX's own threads: with them
    # an iteration of EM on 100,000 × 64 takes a quarter longer.
    count, run_seconds, done, saved = 1, before, False, time.perf_counter()
    with interruptible() as stop, one_blas_thread():
        while finished < num_steps and not done and not (stop.is_set() and parts):
            clock = time.perf_counter()
            now = np.int32(min(count, num_steps - finished))
            state, buffer, all_done, taken = jax.block_until_ready(call(state, np.int32(first + finished), now))
            steps = int(np.asarray(taken).max())
            seconds = time.perf_counter() - clock
            finished, run_seconds, done = finished + steps, run_seconds + seconds, bool(np.asarray(all_done).all())
            records = jax.tree.map(lambda leaf, steps=steps: np.array(np.asarray(leaf)[:, :steps]), buffer)
            parts = [*parts, records] if keep else [jax.tree.map(lambda leaf: leaf[:, -1:], records)]
            count = int(np.clip(CHUNK_SECONDS * steps / max(seconds, 1e-9), 1, capacity))
            reporter.update(finished, describe(jax.tree.map(lambda leaf: leaf[:, -1], records)))
            if checkpoint is not None and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                store(checkpoint, finished, run_seconds, state, parts)
                saved = time.perf_counter()
    records = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts) if parts else None
    if checkpoint is not None:
        store(checkpoint, finished, run_seconds, state, parts)
    return Run(state, records, finished, stop.is_set(), compile_seconds, run_seconds)


def sample(
    step: Step,
    static: Hashable,
    arrays: Pytree,
    key: Array,
    state: Pytree,
    num_warmup: int,
    num_samples: int,
    task: Task,
    describe: Callable[[Pytree], str],
    lockstep: bool = True,
) -> tuple[Run, dict[str, float]]:
    """Warm-up dropped, then draws kept: (the run of the draws, seconds by phase). What every sampler does."""
    warmup = drive(
        step, static, arrays, key, state, num_warmup, task.reporter, "warm-up",
        keep=False, describe=describe, checkpoint=task.checkpoint("warmup"), lockstep=lockstep,
    )  # fmt: skip
    if warmup.interrupted:  # nothing of the sampling phase may be written down from a half-warmed state
        timing = {"compile_seconds": warmup.compile_seconds, "warmup_seconds": warmup.run_seconds, "run_seconds": 0.0}
        return warmup._replace(records=None, num_steps=0), timing
    run = drive(
        step, static, arrays, key, warmup.state, num_samples, task.reporter, "sampling",
        first=num_warmup, describe=describe, checkpoint=task.checkpoint("sampling"), lockstep=lockstep,
    )  # fmt: skip
    timing = {
        "compile_seconds": warmup.compile_seconds + run.compile_seconds,
        "warmup_seconds": warmup.run_seconds,
        "run_seconds": run.run_seconds,
    }
    return run, timing


def store(path: Path, finished: int, seconds: float, state: Pytree, parts: list[Pytree]) -> None:
    """Write what was computed so far, under a temporary name first, so that an unbroken file is always there."""
    arrays = {"finished": np.asarray(finished), "seconds": np.asarray(seconds)} | {
        f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))
    }
    if parts:
        merged = [np.concatenate(leaves, axis=1) for leaves in zip(*map(jax.tree.leaves, parts), strict=True)]
        arrays |= {f"record_{i}": leaf for i, leaf in enumerate(merged)}
    temporary = path.with_suffix(".partial.npz")
    np.savez(temporary, allow_pickle=False, **arrays)
    temporary.replace(path)


def restore(path: Path, state: Pytree, record: Pytree, wanted: int | None) -> tuple[int, float, Pytree, list[Pytree]]:
    """(steps finished, seconds, state, at most ``wanted`` records) of a checkpoint, structured like ``state`` and ``record``.

    Raises `ZooError` where the checkpoint belongs to another model, data set or number of chains.
    """
    with np.load(path) as file:
        states = [file[f"state_{i}"] for i in range(len(jax.tree.leaves(state)))]
        records = [file[name] for name in (f"record_{i}" for i in range(len(jax.tree.leaves(record)))) if name in file]
        finished, seconds = int(file["finished"]), float(file["seconds"])
    if any(new.shape != np.shape(old) for new, old in zip(states, jax.tree.leaves(state), strict=True)):
        raise ZooError(f"{path} belongs to another model, data set or number of chains; start a new run")
    restored = jax.tree.unflatten(jax.tree.structure(state), states)
    records = [leaf[:, :wanted] for leaf in records]
    return finished, seconds, restored, [jax.tree.unflatten(jax.tree.structure(record), records)] if records else []


def refuse_strangers(path: Path) -> None:
    """A checkpoint's name ends in the fingerprint of its run: another one for the same phase belongs to another run."""
    phase = path.stem.rpartition("-")[0]
    strangers = [other for other in path.parent.glob(f"{phase}-*.npz") if other != path]
    if phase and strangers:
        raise ZooError(
            f"{strangers[0]} belongs to a run with other data, options or seed: go on with that one, or use another folder"
        )


def _num_devices(num_chains: int, lockstep: bool, arrays: Pytree) -> int:
    """The largest number of devices at hand that the chains can be shared out to evenly; each holds a copy of the data."""
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


class _Shared:
    """What is set for the whole process while somebody works: how many do, and how to put it back."""

    lock = threading.Lock()
    working = 0
    limits: Any = None
    stop: threading.Event | None = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread until the last of those who asked for it has left; `fit` may run in several threads."""
    with _Shared.lock:
        if _Shared.working == 0:
            _Shared.limits = threadpool_limits(1, user_api="blas")
        _Shared.working += 1
    try:
        yield
    finally:
        with _Shared.lock:
            _Shared.working -= 1
            if _Shared.working == 0:
                _Shared.limits.restore_original_limits()


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one raises KeyboardInterrupt. Only the main thread gets signals.

    Inside another one it is the same event: a Ctrl-C between two phases ends the phases that follow.
    """
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _Shared.stop is not None:
        yield _Shared.stop
        return
    stop = _Shared.stop = threading.Event()
    previous = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        _Shared.stop = None
        signal.signal(signal.SIGINT, previous)
