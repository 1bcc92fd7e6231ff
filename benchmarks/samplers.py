"""What the benchmarks of samplers share: pooled runs, the effective size of the slowest functional, whether means agree."""

import importlib
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import child
from benchmarks.measure import median, seconds

CONSTANT = 1e-6  # standard deviation below which a functional says nothing
AGREEMENT = 4.5  # largest difference of two means, in Monte Carlo standard errors

Draws = Mapping[str, np.ndarray]  # site or functional -> (chain, draw, ...)


class Sampled(NamedTuple):
    """Fresh processes of one sampler, pooled."""

    end_to_end: list[float]  # seconds, one a process
    sampling: list[float]  # seconds, one a later seed
    functionals: list[Draws]  # one a run, in the order of the runs
    fresh: list[bool]  # whether the run was the first of its process


def preload(*modules: str) -> None:
    """Imports that are to be done before a clock starts."""
    for module in modules:
        importlib.import_module(module)


def save(folder: str, seed: int, draws: Draws) -> None:
    """Draws of one run, by seed."""
    np.savez(Path(folder) / f"{seed}.npz", allow_pickle=False, **draws)


def sampled_by_zoo(
    build: Callable[[], Any], data: Any, start: Draws, method: str, seeds: list[int], folder: str,
    num_chains: int, num_warmup: int, num_samples: int,
) -> dict[str, Any]:  # fmt: skip
    """In a fresh process: the zoo's NUTS or Gibbs, one run and model per seed; draws of ``start``'s sites are kept."""
    import jax

    preload("arviz_stats", *(f"inference.{name}" for name in ("diagnostics", "fitting", "gibbs", "nuts")))
    from inference import fit
    from inference.results.triangles import sites_of

    jax.config.update("jax_num_cpu_devices", num_chains if method == "nuts" else 2)
    end_to_end, sampling = [], []
    for seed in seeds:
        clock = time.perf_counter()
        tree = fit(
            build(), data, method=method, start=start, seed=seed,
            num_chains=num_chains, num_warmup=num_warmup, num_samples=num_samples,
        )  # fmt: skip
        end_to_end.append(time.perf_counter() - clock)
        sampling.append(tree.attrs["warmup_seconds"] + tree.attrs["run_seconds"])
        save(folder, seed, sites_of(tree, "posterior"))
    return {"end_to_end": end_to_end[0], "sampling": sampling[1:]}


def run_process(
    worker: Callable[..., dict[str, Any]], arguments: Mapping[str, Any], seeds: list[int], model: Any, data: Any
) -> Sampled:
    """One fresh process of one sampler, with a run for every seed: ``worker`` of ``arguments``, the seeds and a folder."""
    with tempfile.TemporaryDirectory() as folder:
        took = child.call(worker, {**arguments, "seeds": seeds, "folder": folder})
        draws = [dict(np.load(Path(folder) / f"{seed}.npz")) for seed in seeds]
    functionals = [functionals_of(model, data, one) for one in draws]
    return Sampled([took["end_to_end"]], took["sampling"], functionals, [number == 0 for number in range(len(seeds))])


def functionals_of(model: Any, data: Any, draws: Draws) -> Draws:
    """The zoo's functionals at anybody's draws, one entry a number: (chain, draw)."""
    from inference.engine.evaluate import evaluate
    from inference.fitting.prepare import as_arrays, x64

    chains, samples = next(iter(draws.values())).shape[:2]
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.items()}
    with x64(64):
        hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
        found = evaluate(model, hyper, prior, rows, flat).functionals
    split: dict[str, np.ndarray] = {}
    for name, value in found.items():
        columns = value.reshape(chains, samples, -1)
        split |= {f"{name}[{index}]": columns[..., index] for index in range(columns.shape[-1])}
    return split


def pool(parts: list[Sampled]) -> Sampled:
    """Several processes of one sampler as one."""
    return Sampled(*([item for part in lists for item in part] for lists in zip(*parts, strict=True)))


def varying(samplers: Mapping[str, Sampled]) -> list[str]:
    """The functionals that are not constant under any sampler."""
    names = list(samplers["nuts"].functionals[0])
    return [n for n in names if min(np.std([run[n] for run in s.functionals]) for s in samplers.values()) > CONSTANT]


def smallest_ess(run: Draws, names: list[str]) -> float:
    """The smallest bulk effective sample size of one run."""
    from arviz_stats import ess

    return min(float(np.squeeze(ess(run[name]))) for name in names)


def worst_rhat(sampled: Sampled, names: list[str]) -> float:
    """The largest rank-normalised split R-hat, all chains of all runs together."""
    from arviz_stats import rhat

    return max(float(np.squeeze(rhat(np.concatenate([run[name] for run in sampled.functionals])))) for name in names)


def disagreement(one: Sampled, other: Sampled, names: list[str]) -> float:
    """The largest difference of a functional's mean between two samplers, in Monte Carlo standard errors."""
    from arviz_stats import mcse

    worst = 0.0
    for name in names:
        draws = [np.concatenate([run[name] for run in sampled.functionals]) for sampled in (one, other)]
        error = np.sqrt(sum(float(np.squeeze(mcse(values))) ** 2 for values in draws))
        worst = max(worst, abs(draws[0].mean() - draws[1].mean()) / error)
    return float(worst)


class Rates(NamedTuple):
    """Smallest effective sample sizes per second, medians over the runs."""

    end_to_end: float
    sampling: float


def rates(sampled: Sampled, names: list[str]) -> Rates:
    """Each run's effective sample size over its own seconds."""
    sizes = [smallest_ess(run, names) for run in sampled.functionals]
    first = [size for size, fresh in zip(sizes, sampled.fresh, strict=True) if fresh]
    later = [size for size, fresh in zip(sizes, sampled.fresh, strict=True) if not fresh]
    pairs = ((first, sampled.end_to_end), (later, sampled.sampling))
    return Rates(*(median(size / took for size, took in zip(*pair, strict=True)) for pair in pairs))


COLUMNS = ("", "ESS", "R-hat", "end to end, s", "ESS/s", "sampling, s", "ESS/s")


def table_rows(
    samplers: Mapping[str, Sampled], labels: Mapping[str, str], names: list[str], found: Mapping[str, Rates]
) -> list[tuple[str, ...]]:
    """A line of `COLUMNS` for every sampler, by the smallest effective size over the functionals of each run."""
    rows: list[tuple[str, ...]] = []
    for sampler, sampled in samplers.items():
        sizes = [smallest_ess(run, names) for run in sampled.functionals]
        rows.append((
            labels[sampler], f"{median(sizes):.0f}", f"{worst_rhat(sampled, names):.3f}",
            seconds(sampled.end_to_end), f"{found[sampler].end_to_end:.0f}",
            seconds(sampled.sampling), f"{found[sampler].sampling:.0f}",
        ))  # fmt: skip
    return rows
