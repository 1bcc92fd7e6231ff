"""The zoo on a GPU against itself on the CPU of the same machine: one code path, the platform is JAX's.

Every work runs in two fresh processes, one for each platform, twice: with compilation, and once more with another seed.
Optimisers take a fixed number of iterations from one start, so that both platforms do the same arithmetic. They agree if the
log joints per row do, to the rounding of the precision. Samplers agree if the means of the log joint differ by less than
`AGREEMENT` Monte Carlo standard errors. Without a GPU only the CPU is measured, and the command says so.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import child
from benchmarks.measure import CONSOLE, Target, print_table
from benchmarks.samplers import AGREEMENT

CLOSE = {64: 1e-9, 32: 1e-3}  # difference of log joints per row
GPU = "cuda"
ABSENT = "no GPU was found: JAX needs a device and its plugin (`uv sync --extra cuda`). The GPU's columns have not run"


class Work(NamedTuple):
    """A fit, and on what."""

    model: str
    method: str
    data: Mapping[str, Any]  # arguments of `load_data`
    of_model: Mapping[str, Any]
    options: Mapping[str, Any]
    precision: int = 64


GROUPS: dict[str, Any] = {"source": "blobs", "num_rows": 200_000, "num_features": 16, "num_groups": 16, "seed": 0}
FEW: dict[str, Any] = {"source": "blobs", "num_rows": 500, "num_features": 2, "num_groups": 3, "separation": 5.0, "seed": 8}
CLIMB: dict[str, Any] = {"max_iter": 20, "tol": 0.0, "num_starts": 1}
DRAWN = CLIMB | {"num_samples": 25}  # of each of four chains: a fit evaluates every draw on every row
MANY_CHAINS: dict[str, Any] = {"num_chains": 256, "num_warmup": 200, "num_samples": 200}
# The first steps of warm-up: on both platforms a step takes as long as the longest trajectory of all chains
FIRST_STEPS: dict[str, Any] = {"num_chains": 64, "num_warmup": 10, "num_samples": 10}
TOPICS: dict[str, Any] = {"source": "bars", "num_rows": 5_000, "length": 200, "seed": 0}

WORKS: Mapping[str, Mapping[str, Work]] = {
    "em": {
        "mixture, 200,000 × 16, K = 16, float64": Work("gmm", "em", GROUPS, {"num_components": 16}, CLIMB),
        "the same, float32": Work("gmm", "em", GROUPS, {"num_components": 16}, CLIMB, 32),
    },
    "cavi": {"mixture, 50,000 × 16, K = 16": Work("gmm", "cavi", GROUPS | {"num_rows": 50_000}, {"num_components": 16}, DRAWN)},
    "gibbs": {"mixture, 500 × 2, K = 3, 256 chains": Work("gmm", "gibbs", FEW, {"num_components": 3}, MANY_CHAINS)},
    "nuts": {"mixture, 500 × 2, K = 3, 64 chains, 20 steps": Work("gmm", "nuts", FEW, {"num_components": 3}, FIRST_STEPS)},
    "topics": {"topics, 5,000 documents, K = 10": Work("latent_dirichlet", "cavi", TOPICS, {"num_topics": 10}, DRAWN)},
}


def fitted(work: list[Any], platform: str) -> dict[str, Any]:
    """In the child, on a platform: seconds of the first and of the second fit, and what says whether platforms agree."""
    import jax

    from inference import fit
    from inference.results.tree import values
    from models import MODELS, load_data

    jax.config.update("jax_platforms", platform)
    one = Work(*work)
    data, seconds, log_joints = load_data(**one.data), [], []
    for seed in (0, 1):
        clock = time.perf_counter()
        tree = fit(MODELS[one.model](data, **one.of_model), data, one.method, seed=seed, precision=one.precision, **one.options)
        seconds.append(time.perf_counter() - clock)
        log_joints.append(values(tree, "functionals", "log_joint"))
    return {"seconds": seconds, "num_rows": data.num_rows, "device": str(jax.devices()[0]), **_agreement(log_joints)}


def _agreement(log_joints: list[np.ndarray]) -> dict[str, float]:
    """The mean log joint and its Monte Carlo error, of draws (chain, draw) of both runs; of a point estimate, error 0."""
    if log_joints[0].ndim < 2:
        return {"mean": float(np.mean(log_joints)), "error": 0.0}
    from arviz_stats import mcse

    draws = np.concatenate(log_joints)
    return {"mean": float(draws.mean()), "error": float(np.squeeze(mcse(draws)))}


def has_gpu() -> bool:
    """Whether JAX finds a GPU, asked in a process of its own: this one keeps the CPU."""
    code = f"import jax; jax.config.update('jax_platforms', {GPU!r}); print(len(jax.devices()))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def agree(work: Work, cpu: Mapping[str, Any], gpu: Mapping[str, Any]) -> bool:
    """Whether both platforms have found the same."""
    gap, error = abs(cpu["mean"] - gpu["mean"]), float(np.hypot(cpu["error"], gpu["error"]))
    return bool(gap <= AGREEMENT * error if error else gap <= CLOSE[work.precision] * cpu["num_rows"])


def measure(part: str, works: Mapping[str, Work]) -> list[Target]:
    """All works of one part on both platforms. Answers must agree; no ratio is wanted, as it depends on the device."""
    there = has_gpu()
    rows: list[tuple[str, ...]] = []
    targets = []
    for name, work in works.items():
        cpu = child.call(fitted, {"work": list(work), "platform": "cpu"})
        first, second = (f"{took:.2f}" for took in cpu["seconds"])
        if not there:
            rows.append((name, first, second, "–", "–", "–"))
            continue
        gpu = child.call(fitted, {"work": list(work), "platform": GPU})
        ratio = cpu["seconds"][1] / gpu["seconds"][1]
        rows.append((name, first, second, *(f"{took:.2f}" for took in gpu["seconds"]), f"{ratio:.1f}"))
        targets.append(Target(f"{part}, {name}", ratio, None, agreed=agree(work, cpu, gpu)))
        CONSOLE.print(f"{name}: on {gpu['device']}")
    print_table(f"{part}: CPU and GPU, seconds", ("", "CPU first", "second", "GPU first", "second", "ratio"), rows)
    if not there:
        CONSOLE.print(ABSENT)
    return targets


PARTS: Mapping[str, Callable[[], list[Target]]] = {part: partial(measure, part, works) for part, works in WORKS.items()}
