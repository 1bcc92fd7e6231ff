"""`method=nuts backend=nutpie`: nutpie's No-U-Turn sampler, chains in threads of their own (the extra ``nutpie``).

Each chain is one sampler of nutpie, so that it starts where the other backends start it, whatever the order of the threads. JAX
evaluates the log density. nutpie keeps its draws itself, so that there are no checkpoints. After Ctrl-C all chains have as many
draws as the shortest.
"""

import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
from jax import Array

from inference.engine.driver import Run, one_blas_thread
from inference.engine.program import unravel
from inference.engine.task import Task, timing
from inference.runtime.progress import Watch
from inference.runtime.signals import interruptible
from inference.unconstrained.density import Density, Posterior
from models.base import Pytree, ZooError

POLL_SECONDS = 0.1  # between two visits of the chains
NUDGE = 1e-3  # standard deviation by which a start leaves a stationary point
STATISTICS = {  # name in results -> nutpie's name
    "diverging": "diverging",
    "acceptance_rate": "mean_tree_accept",
    "n_steps": "n_steps",
    "step_size": "step_size",
    "energy": "energy",
    "tree_depth": "depth",  # of the tree that was kept: the last doubling may have been given up
    "reached_max_treedepth": "maxdepth_reached",
}


def chains(task: Task, posterior: Posterior, options: Any, watch: Watch) -> tuple[Run, dict[str, float]]:
    """Chains with the ``options`` of `inference.unconstrained.nuts`: (their run, seconds by phase)."""
    if find_spec("nutpie") is None:
        raise ZooError("nuts: backend=nutpie is not installed; install it with: pip install 'bayes-model-zoo[nutpie]'")
    if options.num_warmup < 1:
        raise ZooError("nuts: backend=nutpie needs a warm-up, and num_warmup is 0; use backend=numpyro")
    task.reporter.phase("compiling", None)
    clock = time.perf_counter()
    target = compiled_density(posterior)
    compile_seconds = time.perf_counter() - clock
    randomness = np.random.SeedSequence(np.asarray(jax.random.key_data(task.key)).tolist())
    seeds = randomness.generate_state(options.num_chains)
    starts = [sloping(target, start, np.random.default_rng(seed)) for start, seed in zip(posterior.starts, seeds, strict=True)]
    with one_blas_thread():
        running = [_Chain(target, start, options, int(seed)) for start, seed in zip(starts, seeds, strict=True)]
        try:
            warmup_seconds, run_seconds, interrupted = _followed(task, running, options)
        finally:
            traces = [chain.end() for chain in running]
    clock_of = timing(run_seconds, compile_seconds, warmup_seconds)
    number = min(trace.sizes["draw"] for trace in traces)
    if number == 0:
        return Run(None, None, 0, interrupted, compile_seconds, run_seconds), clock_of
    records = _records(posterior.density, [trace.isel(draw=slice(number)) for trace in traces])
    return Run(None, records, number, interrupted, compile_seconds, run_seconds), clock_of


def compiled_density(posterior: Posterior) -> Any:
    """A function from a vector (d,) to the log density there, as a number, and its gradient (d,)."""
    first = posterior.starts[0]
    compiled = _density_and_gradient.lower(posterior.density, posterior.arrays, first).compile()
    double = first.dtype == np.float64

    def target(flat: np.ndarray) -> tuple[float, np.ndarray]:
        with jax.enable_x64(double):  # the precision of a run is that of its thread, and this is another one
            value, gradient = compiled(posterior.arrays, flat.astype(first.dtype, copy=False))
            return float(value), np.asarray(gradient, float)

    return target


def sloping(target: Any, start: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A start (d,), moved a little in the coordinates in which its gradient is 0: nutpie takes its first scales from gradients.

    Raises `ZooError` where the gradient is 0 there, too.
    """
    level = target(start)[1] == 0
    moved = start + np.where(level, NUDGE * random.standard_normal(start.shape), 0.0)
    if (target(moved)[1] == 0).any():
        raise ZooError(
            "nuts: the log density is flat in a coordinate, and backend=nutpie needs a slope in each; use backend=numpyro"
        )
    return moved


@partial(jax.jit, static_argnames=("density",))
def _density_and_gradient(density: Density, arrays: tuple[Pytree, Pytree], flat: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(partial(density.log_density, arrays))(flat)


class _Chain:
    """One sampler of nutpie in its thread, and how far it has come."""

    def __init__(self, target: Any, start: np.ndarray, options: Any, seed: int) -> None:
        import nutpie

        self.progress: Any = None
        model = nutpie.compiled_pyfunc.from_pyfunc(
            len(start),
            lambda: target,
            lambda seed1, seed2, chain: lambda flat: {"z": np.asarray(flat)},
            [np.dtype(float)],
            [start.shape],
            ["z"],
            make_initial_point_fn=lambda seed: np.asarray(start, float),
        )
        self._sampler = nutpie.sample(
            model,
            draws=options.num_samples,
            tune=options.num_warmup,
            chains=1,
            cores=1,
            seed=seed,
            target_accept=options.target_accept,
            maxdepth=options.max_tree_depth,
            save_warmup=False,
            progress_bar=False,
            progress_callback=self._noted,
            progress_rate=int(1000 * POLL_SECONDS),
            blocking=False,
        )
        self._trace: Any = None

    def _noted(self, progress: Any) -> None:
        (self.progress,) = progress

    def finished(self) -> bool:
        """Whether all draws are there; waits a moment for them."""
        if self._trace is None:
            try:
                self._trace = self._sampler.wait(timeout=POLL_SECONDS)
            except TimeoutError:
                return False
        return True

    def end(self) -> Any:
        """The draws with their statistics, as a data set of one chain: all, or those so far."""
        if self._trace is None:
            self._trace = self._sampler.abort()
        return self._trace["posterior"].to_dataset().merge(self._trace["sample_stats"].to_dataset())


def _followed(task: Task, running: list[_Chain], options: Any) -> tuple[float, float, bool]:
    """Progress until all chains have ended, or Ctrl-C: (seconds of warm-up, seconds of draws, whether it was Ctrl-C)."""
    clock, warm = time.perf_counter(), None
    task.reporter.phase("warm-up", options.num_warmup)
    with interruptible() as stop:
        while not (stop.is_set() or all(chain.finished() for chain in running)):
            seen = [chain.progress for chain in running if chain.progress is not None]
            if not seen:
                continue
            slowest = min(progress.finished_draws for progress in seen)
            if warm is None and slowest >= options.num_warmup:
                warm = time.perf_counter() - clock
                task.reporter.phase("sampling", options.num_samples)
            done = slowest if warm is None else slowest - options.num_warmup
            task.reporter.update(done, "", _columns(seen))
        interrupted = stop.is_set()
        stop.heeded |= interrupted
    seconds = time.perf_counter() - clock
    warm = seconds if warm is None else warm
    return warm, seconds - warm, interrupted


def _columns(seen: list[Any]) -> Mapping[str, list[str]]:
    """A figure of every chain, as text."""
    return {
        "divergent": [str(progress.divergences) for progress in seen],
        "step size": [f"{progress.step_size:.3g}" for progress in seen],
        "gradients": [str(progress.latest_num_steps) for progress in seen],
    }


def _records(density: Density, traces: list[Any]) -> dict[str, Any]:
    """Sites on ℝᵈ, their potential and the statistics, (chain, draw, …)."""
    values = {
        name: np.concatenate([trace[theirs].to_numpy() for trace in traces])
        for name, theirs in {"z": "z", "logp": "logp", **STATISTICS}.items()
    }
    z, log_density = values.pop("z"), values.pop("logp")
    whole = {name: values[name].astype(int) for name in ("n_steps", "tree_depth")}
    return values | whole | {"z": unravel(density.shapes, z), "potential": -log_density}
