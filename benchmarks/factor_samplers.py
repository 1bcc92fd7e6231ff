"""Samplers of factor analysis on one posterior: the zoo's NUTS and Gibbs, and PyMC with nutpie.

``wine`` in its own units, two factors, the zoo's default prior, 4 chains in double precision on the same cores. PyMC's program
runs twice: with the scores of all rows sampled, as a factor model is usually written, and with them integrated out into a dense
Gaussian. This separates the gain of integrating out from the other gains: the zoo's NUTS reads D + 1 weighted rows instead of
all, and adapts a dense mass matrix where nutpie adapts a diagonal one. All chains of
all samplers start at the probabilistic principal components of every second row, columns standardised, with scores by least
squares (at their conditional mode gradients are 0, which nutpie refuses); each sampler adapts in its own way, with its own
defaults (target acceptance 0.8, depth 10).

Yardstick and clocks are those of `benchmarks.gmm_nuts`: the smallest bulk effective sample size over the functionals that no
rotation changes, per second of a fresh process without any compilation cache, and per second of later seeds of such a process.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import CONSOLE, Target, interleave, print_table
from benchmarks.samplers import (
    AGREEMENT,
    COLUMNS,
    Sampled,
    disagreement,
    pool,
    preload,
    rates,
    run_process,
    sampled_by_zoo,
    save,
    table_rows,
    varying,
)

LABELS = {
    "scores": "PyMC + nutpie, scores sampled",
    "marginal": "PyMC + nutpie, summed out",
    "nuts": "zoo NUTS",
    "gibbs": "zoo Gibbs",
}
NUM_FACTORS, NUM_CHAINS, NUM_WARMUP = 2, 4, 1000
NUM_SAMPLES = {"scores": 1000, "marginal": 1000, "nuts": 1000, "gibbs": 10_000}
REPEATS = 2  # fresh processes of each sampler
SEEDS = 3  # runs in each: the first one end to end, the others for the sampling alone
SITES = ("loading", "mean", "precision")


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def build() -> tuple[Any, Any]:
    """(data, model)."""
    from models import MODELS, load_data

    data = load_data("wine")
    return data, MODELS["factor_analysis"](data, num_factors=NUM_FACTORS)


def start_of(x: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(sites, scores of all rows) of the principal components of every second row, in the units of ``x``."""
    some = x[::2]
    mean, deviation = some.mean(0), some.std(0)
    standard = (x - mean) / deviation
    values, vectors = np.linalg.eigh(np.corrcoef(some.T))
    noise, top = values[:-NUM_FACTORS].mean(), values[-NUM_FACTORS:]
    loading = vectors[:, -NUM_FACTORS:] * np.sqrt(top - noise)
    scores = standard @ loading / (top - noise)  # Wᵀ W is diagonal
    return {"loading": deviation[:, None] * loading, "mean": mean, "precision": 1 / (noise * deviation**2)}, scores


def sample_zoo(method: str, seeds: list[int], folder: str) -> dict[str, Any]:
    """The zoo's NUTS or Gibbs, one run per seed; draws go to ``folder``."""
    data, _ = build()
    start, _ = start_of(data.x)
    return sampled_by_zoo(lambda: build()[1], data, start, method, seeds, folder, NUM_CHAINS, NUM_WARMUP, NUM_SAMPLES[method])


def sample_peer(method: str, seeds: list[int], folder: str) -> dict[str, Any]:
    """PyMC's model of the same posterior, sampled by nutpie."""
    import nutpie

    preload("numba", "pymc")
    data, model = build()
    sites, scores = start_of(data.x)
    start = sites | ({"score": scores} if method == "scores" else {})
    clock = time.perf_counter()
    program = pymc_model(data.x, model.hyper, method == "marginal")
    compiled = nutpie.compile_pymc_model(program, initial_points=start, jitter_rvs=set())
    end_to_end, sampling = 0.0, []
    for seed in seeds:
        before = time.perf_counter()
        tree = nutpie.sample(
            compiled, draws=NUM_SAMPLES[method], tune=NUM_WARMUP, chains=NUM_CHAINS, cores=2, seed=seed,
            progress_bar=False, save_warmup=False,
        )  # fmt: skip
        end_to_end = end_to_end or time.perf_counter() - clock
        sampling.append(time.perf_counter() - before)
        save(folder, seed, {name: np.asarray(tree.posterior[name]) for name in SITES})
    return {"end_to_end": end_to_end, "sampling": sampling[1:]}


def pymc_model(x: np.ndarray, hyper: Mapping[str, np.ndarray], marginal: bool) -> Any:
    """The zoo's factor analysis in PyMC: the same sites and prior, the scores sampled or summed out."""
    import pymc as pm
    import pytensor.tensor as pt

    rows, columns = x.shape
    with pm.Model() as model:
        precision = pm.Gamma("precision", alpha=hyper["dof"] / 2, beta=hyper["scatter"] / 2, shape=columns)
        strength = hyper["loading_strength"] * precision[:, None]
        loading = pm.Normal("loading", 0.0, tau=strength, shape=(columns, NUM_FACTORS))
        mean = pm.Normal("mean", hyper["location"], tau=hyper["strength"] * precision, shape=columns)
        if marginal:
            pm.MvNormal("x", mean, cov=loading @ loading.T + pt.diag(1 / precision), observed=x)
        else:
            score = pm.Normal("score", shape=(rows, NUM_FACTORS))
            pm.Normal("x", mean[None, :] + score @ loading.T, tau=precision[None, :], observed=x)
    return model


# ---------------------------------------------------------------------------------------------------------------------
# In the parent


def run_child(sampler: str, index: int) -> Sampled:
    """One fresh process of one sampler."""
    seeds = [100 * (index + 1) + number for number in range(SEEDS)]
    worker: Callable[..., dict[str, Any]] = sample_zoo if sampler in ("nuts", "gibbs") else sample_peer
    data, model = build()
    return run_process(worker, {"method": sampler}, seeds, model, data)


def measure_samplers() -> list[Target]:
    """All samplers in turns: a table, and the ratios of NUTS to its peers, for which there is no target."""
    runs = {sampler: partial(run_child, sampler) for sampler in LABELS}
    samplers = {sampler: pool(parts) for sampler, parts in interleave(runs, REPEATS).items()}
    names = varying(samplers)
    found = {sampler: rates(sampled, names) for sampler, sampled in samplers.items()}
    gaps = {sampler: disagreement(sampled, samplers["nuts"], names) for sampler, sampled in samplers.items()}
    rows = table_rows(samplers, LABELS, names, found)
    differ = ", ".join(f"{LABELS[sampler]} {gap:.1f}" for sampler, gap in gaps.items() if sampler != "nuts")
    note = (
        f"ESS: smallest over {len(names)} functionals, per run. Means differ from zoo NUTS by at most, in Monte Carlo standard "
        f"errors: {differ}; {AGREEMENT} are allowed."
    )
    print_table(f"wine, {NUM_FACTORS} factors, {NUM_CHAINS} chains, smallest bulk ESS", COLUMNS, rows, note)
    for peer in ("scores", "marginal"):
        ratios = found["nuts"].end_to_end / found[peer].end_to_end, found["nuts"].sampling / found[peer].sampling
        text = f"{ratios[0]:.2f} × end to end, {ratios[1]:.2f} × sampling" if gaps[peer] <= AGREEMENT else "answers differ"
        CONSOLE.print(f"zoo NUTS over {LABELS[peer]}: {text} (no target)")
    return []
