"""A user's Markov kernel, run by `inference.fit`: chains, progress and a result like those of the zoo's samplers.

Nothing here tests whether the kernel is right; `inference.certify` does.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.driver import CHUNK_SECONDS, drive, sample
from inference.engine.sites import checked_sites, sites_of_model
from inference.engine.task import Draws, Kind, Task, timing
from inference.methods import METHODS
from inference.methods.kernel_mistakes import explained, of_start, of_step
from inference.methods.method import Method, method_named
from inference.methods.options import NumChains, NumSamples, NumWarmup, Setting
from inference.runtime.loop import Chunk, Progress, in_chunks
from inference.runtime.progress import SILENT
from models.base import Pytree
from models.data.documents import Sequences
from models.data.table import Data, is_sparse
from models.errors import ZooError, did_you_mean

HIDDEN = -1  # label of a row that has none
DRAWS = ("chain", "draw")
PADDING = 0  # symbol after the end of a sequence

Table = Mapping[str, Any]  # name -> array: the data as a kernel reads them


@runtime_checkable
class MarkovKernel(Protocol):
    """A kernel with its starts. ``key`` is a JAX key, or a `numpy.random.Generator` if it is not compiled."""

    def init(self, key: Any, data: Table) -> Any:
        """Some state."""

    def step(self, key: Any, state: Any, data: Table) -> tuple[Any, Mapping[str, Any]]:
        """One step: the new state, and its parameters by site. Other names, such as latents, are left out."""


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` steps dropped and ``num_samples`` kept.

    With ``compiled`` the kernel is JAX code, and chains run side by side in one program.
    """

    num_warmup: NumWarmup = 1000
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4
    compiled: Annotated[bool, Setting("true: the kernel is JAX code, and its chains run in one program")] = True


class UserKernel:
    """The runs of a user's kernel."""

    def __init__(self, kernel: MarkovKernel) -> None:
        self.kernel, self.name = kernel, type(kernel).__name__

    def run(self, task: Task, options: Options) -> Draws:
        """Draws of every site from every chain; raises `ZooError` for a kernel that returns something else."""
        data, chains = table_of(task), _OnDevice if options.compiled else _OnHost
        task.reporter.phase(f"starting {self.name}", None)
        with explained(self.name, "chains", options.compiled):
            records, clock, interrupted = chains(self, data, task, options).draws()
        if records is None:
            return Draws(Kind.CHAINS, {}, {}, clock, interrupted)
        sites = checked_sites(task.model, records, task.rows, f"draws of {self.name}", lead=DRAWS)
        return Draws(Kind.CHAINS, {name: sites[name] for name in sorted(sites)}, {}, clock, interrupted)

    def start(self, key: Any, data: Table) -> Any:
        """A state of one chain."""
        return of_start(self.name, "init", self.kernel.init(key, data))

    def step(self, key: Any, state: Any, data: Table, sites: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The next state of one chain, and its parameters; raises `ZooError` for what is no pair, or lacks a site."""
        following, returned = of_step(self.name, self.kernel.step(key, state, data))
        if lacking := [name for name in sites if name not in returned]:
            names = list(map(str, returned))
            unknown = next((name for name in names if name not in sites), "")
            hint = did_you_mean(unknown, lacking)
            raise ZooError(f"a {self.name} returns {', '.join(names)}, and lacks {', '.join(lacking)}{hint}")
        return following, {name: returned[name] for name in sites}


def method_or_kernel(method: Any, **refused: Any) -> Method:
    """The method of a name; for a user's kernel a method that runs it, with the name of its class.

    Raises `ZooError` for anything else, and for a kernel with an option of ``refused``, which it cannot have.
    """
    if not isinstance(method, MarkovKernel):
        return method_named(method)
    name = type(method).__name__
    if isinstance(method, type):
        raise ZooError(f"method: {method.__name__} is a class; give an object of it: {method.__name__}(…)")
    if isinstance(method, tuple):  # as an algorithm of blackjax, whose init and step take other arguments
        raise ZooError(
            f"method: a {name} has functions of its own form; wrap it in a class with init(key, data), step(key, state, data)"
        )
    if name in METHODS:
        raise ZooError(f"method: a class called {name} would go by the name of a method of the zoo; call it something else")
    for option, value in refused.items():
        if value is not None:
            raise ZooError(
                f"{option}= is for methods of the zoo; a kernel of one's own has its init, and leaves no checkpoints"
            )
    run = UserKernel(method).run
    return Method(name, f"the kernel {name}", Options, run, claim="invariant", evidence=("kernel law",))


def table_of(task: Task) -> dict[str, np.ndarray]:
    """The data as a kernel reads them, by name.

    ``x`` is the table (rows, columns), with NaN for a missing cell; or sequences of symbols (sequences, steps), or of rows
    (sequences, steps, columns), padded at the end. Then ``length`` is the number of steps of each. ``label`` has −1 for a row
    without one; ``weight`` is there if rows have weights.
    Raises `ZooError` for a user's program, whose data have no names here.
    """
    if not isinstance(task.table, Data):
        raise ZooError(
            "method: a kernel of one's own runs on models of the zoo. For a NumPyro program make the draws yourself, and give "
            "them to inference.as_result"
        )
    data = task.table
    x = data.x.toarray() if is_sparse(data.x) else data.x
    label = np.full(data.num_rows, HIDDEN) if data.labels is None else np.asarray(data.labels)
    by_row = {"label": label} | ({} if data.weight is None else {"weight": data.weight})
    if isinstance(x, Sequences):
        return {"x": _padded(x.tokens, x.lengths, PADDING), "length": x.lengths} | by_row
    if data.starts is None:
        return {"x": x} | by_row
    length = np.diff(data.starts)
    paddings = {"label": HIDDEN, "weight": 0.0}
    padded = {name: _padded(value, length, paddings[name]) for name, value in by_row.items()}
    return {"x": _padded(np.asarray(x, float), length, np.nan), "length": length} | padded


def _padded(steps: np.ndarray, length: np.ndarray, padding: float) -> np.ndarray:
    """The steps of all sequences, one after another, as (sequences, steps of the longest, …)."""
    sequences = np.full((len(length), max(length, default=0), *steps.shape[1:]), padding, steps.dtype)
    sequences[np.arange(sequences.shape[1]) < length[:, None]] = steps
    return sequences


class _OnDevice:
    """Chains of a kernel in JAX. A new object in every run, so that no compiled code of another run is used."""

    def __init__(self, method: UserKernel, data: Table, task: Task, options: Options) -> None:
        self.method, self.task, self.options = method, task, options
        self.sites = sites_of_model(task.model, task.rows)
        self.arrays = {name: jnp.asarray(value, float if value.dtype.kind == "f" else None) for name, value in data.items()}

    def draws(self) -> tuple[dict[str, np.ndarray] | None, dict[str, float], bool]:
        """(parameters (chain, draw, …) or None before the first, seconds by phase, whether Ctrl-C ended the run)."""
        begin, going = jax.random.split(self.task.key)
        keys = jax.random.split(begin, self.options.num_chains)
        state = jax.jit(jax.vmap(lambda key: self.method.start(key, self.arrays)))(keys)
        self._require_steady(keys[0], jax.tree.map(lambda leaf: leaf[0], state))
        number = (self.options.num_warmup, self.options.num_samples)
        run, clock = sample(partial(drive, _step, self, self.arrays), going, state, *number, self.task, SILENT)
        return run.records, clock, run.interrupted

    def _require_steady(self, key: Array, state: Pytree) -> None:
        """A `ZooError` for a step whose state has another structure, other shapes or types than the state it was given."""
        before = jax.eval_shape(lambda state: state, state)
        after = jax.eval_shape(lambda key, state: self.method.step(key, state, self.arrays, self.sites), key, state)[0]
        message = f"the state of a {self.method.name} changes in a step: "
        old_structure, new_structure = (str(jax.tree.structure(tree)) for tree in (before, after))
        if old_structure != new_structure:
            raise ZooError(f"{message}its structure is {old_structure} before, and {new_structure} after")
        for (path, old), new in zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                where = f"state{jax.tree_util.keystr(path)}"
                raise ZooError(f"{message}{where} is {old.dtype} {old.shape} before, and {new.dtype} {new.shape} after")


def _step(run: _OnDevice, arrays: Table, key: Array, state: Pytree) -> tuple[Pytree, dict[str, Any], Array]:
    following, sites = run.method.step(key, state, arrays, run.sites)
    return following, sites, jnp.zeros((), bool)


class _OnHost:
    """Chains of a kernel in NumPy, one after the other."""

    def __init__(self, method: UserKernel, data: Table, task: Task, options: Options) -> None:
        self.method, self.task, self.options = method, task, options
        self.sites = sites_of_model(task.model, task.rows)
        self.data = read_only(data)

    def draws(self) -> tuple[dict[str, np.ndarray] | None, dict[str, float], bool]:
        """As of `_OnDevice`."""
        number, reporter = self.options.num_chains, self.task.reporter
        streams = np.random.SeedSequence(np.asarray(self.task.key).tolist()).spawn(number)
        chains = [(rng, self.method.start(rng, self.data)) for rng in map(np.random.default_rng, streams)]
        reporter.phase("warm-up", self.options.num_warmup)
        warm, stopped = in_chunks(self._chunk, Progress(0, 0.0, chains, []), self.options.num_warmup, reporter, keep=False)
        if stopped:
            return None, timing(0.0, 0.0, warm.seconds), True
        reporter.phase("sampling", self.options.num_samples)
        run, stopped = in_chunks(self._chunk, Progress(0, 0.0, warm.state, []), self.options.num_samples, reporter)
        return run.records(), timing(run.seconds, 0.0, warm.seconds), stopped

    def _chunk(self, chains: list[Any], finished: int, most: int) -> Chunk:
        """Steps of all chains for `CHUNK_SECONDS`."""
        clock, taken = time.perf_counter(), 0
        steps: list[list[dict[str, np.ndarray]]] = [[] for _ in chains]
        while taken < most and (taken == 0 or time.perf_counter() - clock < CHUNK_SECONDS):
            for place, (rng, state) in enumerate(chains):
                state, sites = self.method.step(rng, state, self.data, self.sites)
                chains[place] = (rng, state)
                steps[place].append({name: np.array(value) for name, value in sites.items()})  # a kernel may write in place
            taken += 1
        records = {name: np.array([[record[name] for record in chain] for chain in steps]) for name in self.sites}
        return Chunk(chains, records, taken, time.perf_counter() - clock, "")


def read_only(arrays: Table) -> dict[str, np.ndarray]:
    """Read-only views."""
    views = {name: np.asarray(array).view() for name, array in arrays.items()}
    for view in views.values():
        view.flags.writeable = False
    return views
