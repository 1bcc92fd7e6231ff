"""The processes that share a fit: each sums over some blocks, and an all-reduce adds the sums.

One process is a group by itself. Several are joined by `jax.distributed`, which finds them under SLURM, Open MPI and
Kubernetes, or by their addresses. The sums are the same bits in every process, and so are all results.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from models.base import Pytree, ZooError

PROCESS = "process"
GOODBYE_SECONDS = 3600  # the others wait while process 0 writes


class LostProcessError(ZooError):
    """Another process of the group has ended, and this one cannot continue."""


class Group:
    """The processes of one fit, of which this is number ``rank`` of ``size``."""

    def __init__(self) -> None:
        self.rank, self.size = jax.process_index(), jax.process_count()
        self.bytes_sent = 0  # in all all-reduces so far

    def share(self, total: int) -> tuple[int, int]:
        """The part first … last − 1 of ``total`` blocks that this process sums over."""
        return self.rank * total // self.size, (self.rank + 1) * total // self.size

    def all_sum(self, tree: Pytree) -> Pytree:
        """The sums of floating-point arrays over all processes. Raises `LostProcessError` where another one has ended."""
        leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, tree))
        flat = np.concatenate([leaf.astype(np.float64).ravel() for leaf in leaves])
        if self.size > 1:
            self.bytes_sent += flat.nbytes
            flat = self._reduced(flat)
        parts = np.split(flat, np.cumsum([leaf.size for leaf in leaves])[:-1])
        return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])

    def _reduced(self, flat: np.ndarray) -> np.ndarray:
        one_each = [next(d for d in jax.devices() if d.process_index == rank) for rank in range(self.size)]
        mesh = Mesh(np.array(one_each), (PROCESS,))
        with jax.enable_x64(True):
            try:
                apart = NamedSharding(mesh, PartitionSpec(PROCESS))
                shards = jax.make_array_from_process_local_data(apart, flat[None], (self.size, len(flat)))
                total = jax.jit(_total, out_shardings=NamedSharding(mesh, PartitionSpec()))(shards)
                return np.asarray(total.addressable_data(0))
            except (jax.errors.JaxRuntimeError, ValueError) as error:  # a ValueError where the first call of a program fails
                raise LostProcessError(
                    f"process {self.rank} of {self.size}: another one has ended, or cannot be reached ({_first_line(error)}); "
                    "go on from the last checkpoint with resume=, on as many processes as you like"
                ) from error

    def barrier(self) -> None:
        """Wait for all processes."""
        self.all_sum(np.zeros(1))


def _total(parts: jax.Array) -> jax.Array:
    return jnp.sum(parts, axis=0)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:120]


def join_processes(coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None) -> None:
    """Join the processes of a fit, before JAX has computed anything; `inference.fit` to rows in blocks then shares them out.

    Without arguments JAX finds them under SLURM, Open MPI and Kubernetes. Otherwise ``coordinator`` is the host:port of process
    0, and this is number ``process_id`` of ``num_processes``. Raises `ZooError` where they cannot be found.

    >>> join_processes()  # in each process that srun has started  # doctest: +SKIP
    >>> files = read_stream("rows/", folder="runs/rows")  # doctest: +SKIP
    >>> tree = fit(MODELS["gmm"](files.sample, num_components=8), files, "em", folder="runs/rows")  # doctest: +SKIP
    """
    address = (coordinator, num_processes, process_id)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    search = "deactivate" if None not in address else None
    try:
        jax.distributed.initialize(*address, cluster_detection_method=search, shutdown_timeout_seconds=GOODBYE_SECONDS)
    except (ValueError, RuntimeError) as error:
        where = "" if coordinator is None else f" at {coordinator}"
        raise ZooError(
            f"runtime=distributed: the processes cannot be joined{where}: {_first_line(error)}. Start them by srun, mpirun or "
            "as an indexed job, or give runtime.coordinator=<host>:<port>, runtime.num_processes= and runtime.process_id="
        ) from error
    Group().barrier()  # the collectives connect at their first use, and would not wait long for a process that is reading
