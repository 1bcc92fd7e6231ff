"""NUTS on the marginal mixture against PyMC with nutpie, and the zoo's Gibbs sampler against its NUTS.

500 rows of two columns, three components, diagonal covariances, 4 chains of 1000 + 1000 iterations in double precision, on the
same cores; the zoo runs as from its command line, with one CPU device per chain for NUTS and one per core for Gibbs. All chains
start at the moments of the groups that the data were drawn from; each sampler adapts in its own way, with its own
defaults (target acceptance 0.8, depth 10).

The yardstick is the smallest bulk effective sample size over the symmetry-free functionals, per second. Functionals of all
draws, PyMC's too, are computed by `inference.engine.evaluate`; those that are constant are left out. Two clocks:

- *end to end*, in a fresh process without any compilation cache, libraries imported: for the zoo from the building of the
  model to the result tree (functionals, relabelling and diagnostics included), for PyMC from the building of the model to the
  draws;
- *sampling*, warm-up included, everything compiled: later seeds of the same process.
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
    Rates,
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

DATASETS: Mapping[str, Mapping[str, Any]] = {
    "separated": {"source": "blobs", "num_rows": 500, "num_features": 2, "num_groups": 3, "separation": 5.0, "seed": 8},
    "overlapping": {"source": "martians", "num_rows": 500, "seed": 0},
}
SAMPLERS = ("peer", "nuts", "gibbs")
LABELS = {"peer": "PyMC + nutpie", "nuts": "zoo NUTS", "gibbs": "zoo Gibbs"}
NUM_COMPONENTS, NUM_CHAINS, NUM_WARMUP, NUM_SAMPLES = 3, 4, 1000, 1000
REPEATS = 3  # fresh processes of each sampler
SEEDS = 4  # runs in each: the first one end to end, the others for the sampling alone
END_TO_END, SAMPLING, GIBBS = 3.0, 1.2, 5.0  # the targets


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def build(dataset: Mapping[str, Any]) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """(data, model, start): the start holds share, mean and inverse variance of every labelled group."""
    from models import MODELS, load_data

    data = load_data(**dataset)
    groups = [data.x[data.labels == group] for group in range(NUM_COMPONENTS)]
    start = {
        "mixture_probs": np.array([len(x) / data.num_rows for x in groups]),
        "mean": np.array([x.mean(axis=0) for x in groups]),
        "precision": np.array([1 / x.var(axis=0) for x in groups]),
    }
    return data, MODELS["gmm"](data, num_components=NUM_COMPONENTS, covariance="diag"), start


def sample_zoo(dataset: dict[str, Any], method: str, seeds: list[int], folder: str) -> dict[str, Any]:
    """The zoo's NUTS or Gibbs, one run per seed; draws go to ``folder``."""
    data, _, start = build(dataset)
    return sampled_by_zoo(lambda: build(dataset)[1], data, start, method, seeds, folder, NUM_CHAINS, NUM_WARMUP, NUM_SAMPLES)


def sample_peer(dataset: dict[str, Any], method: str, seeds: list[int], folder: str) -> dict[str, Any]:
    """PyMC's model of the same posterior, sampled by nutpie."""
    import nutpie

    preload("numba", "pymc")
    data, model, start = build(dataset)
    clock = time.perf_counter()
    program = pymc_model(data.x, model.hyper)
    compiled = nutpie.compile_pymc_model(program, initial_points=start, jitter_rvs=set())
    end_to_end, sampling = 0.0, []
    for seed in seeds:
        before = time.perf_counter()
        tree = nutpie.sample(
            compiled, draws=NUM_SAMPLES, tune=NUM_WARMUP, chains=NUM_CHAINS, cores=2, seed=seed,
            progress_bar=False, save_warmup=False,
        )  # fmt: skip
        end_to_end = end_to_end or time.perf_counter() - clock
        sampling.append(time.perf_counter() - before)
        save(folder, seed, {name: np.asarray(tree.posterior[name]) for name in start})
    return {"end_to_end": end_to_end, "sampling": sampling[1:]}


def pymc_model(x: np.ndarray, hyper: Mapping[str, np.ndarray]) -> Any:
    """The zoo's diagonal mixture in PyMC: the same sites and prior, the components summed out."""
    import pymc as pm
    import pytensor.tensor as pt

    shape = (NUM_COMPONENTS, x.shape[1])
    with pm.Model() as model:
        weights = pm.Dirichlet("mixture_probs", hyper["concentration"])
        rate, location = (np.broadcast_to(value, shape) for value in (hyper["scatter"] / 2, hyper["location"]))
        precision = pm.Gamma("precision", alpha=hyper["dof"] / 2, beta=rate, shape=shape)
        mean = pm.Normal("mean", location, tau=hyper["strength"] * precision, shape=shape)
        rows = pm.logp(pm.Normal.dist(mean[None], tau=precision[None]), x[:, None, :]).sum(-1)
        pm.Potential("x", pm.math.logsumexp(rows + pt.log(weights)[None], axis=1).sum())
    return model


# ---------------------------------------------------------------------------------------------------------------------
# In the parent


def run_child(sampler: str, dataset: Mapping[str, Any], index: int) -> Sampled:
    """One fresh process of one sampler."""
    seeds = [100 * (index + 1) + number for number in range(SEEDS)]
    worker: Callable[..., dict[str, Any]] = sample_peer if sampler == "peer" else sample_zoo
    data, model, _ = build(dataset)
    return run_process(worker, {"dataset": dict(dataset), "method": sampler}, seeds, model, data)


def measure_dataset(name: str, repeats: int) -> list[Target]:
    """All samplers on one data set, in turns: a table, and its targets."""
    runs = {sampler: partial(run_child, sampler, DATASETS[name]) for sampler in SAMPLERS}
    samplers = {sampler: pool(parts) for sampler, parts in interleave(runs, repeats).items()}
    names = varying(samplers)
    found = {sampler: rates(sampled, names) for sampler, sampled in samplers.items()}
    gaps = {sampler: disagreement(sampled, samplers["nuts"], names) for sampler, sampled in samplers.items()}
    rows = table_rows(samplers, LABELS, names, found)
    note = (
        f"ESS: smallest over {len(names)} functionals, per run. Means differ from zoo NUTS by at most {gaps['peer']:.1f} "
        f"(PyMC) and {gaps['gibbs']:.1f} (Gibbs) Monte Carlo standard errors; {AGREEMENT} are allowed."
    )
    print_table(f"{name} groups, {NUM_CHAINS} × ({NUM_WARMUP} + {NUM_SAMPLES}), smallest bulk ESS", COLUMNS, rows, note)
    agreed = {sampler: gap <= AGREEMENT for sampler, gap in gaps.items()}
    return _targets(name, found, agreed)


def _targets(name: str, found: Mapping[str, Rates], agreed: Mapping[str, bool]) -> list[Target]:
    nuts, peer, gibbs = found["nuts"], found["peer"], found["gibbs"]
    return [
        Target(f"{name}: NUTS over PyMC, end to end", nuts.end_to_end / peer.end_to_end, END_TO_END, agreed=agreed["peer"]),
        Target(f"{name}: NUTS over PyMC, sampling", nuts.sampling / peer.sampling, SAMPLING, agreed=agreed["peer"]),
        Target(f"{name}: Gibbs over NUTS, sampling", gibbs.sampling / nuts.sampling, GIBBS, agreed=agreed["gibbs"]),
    ]


def measure_nuts() -> list[Target]:
    """Separated groups, with targets, and overlapping groups, where mixing is hard, without."""
    targets = measure_dataset("separated", REPEATS)
    for target in measure_dataset("overlapping", 1):
        text = f"{target.value:.2f} ×" if target.agreed else "answers differ"
        CONSOLE.print(f"{target.name}: {text} (no target)")
    return targets
