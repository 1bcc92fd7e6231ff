"""One posterior, seven samplers: do they agree, and what does an effective draw cost? All models, each on a small table.

Every sampler runs at its defaults, in a process of its own with empty caches. ``docs/backends`` holds a table for each model
and kind of device, from which `benchmarks.backends_page` writes the page and the picture.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import child
from benchmarks.backends_page import FOLDER, Task, write_page
from benchmarks.measure import Target, print_table

LIMIT = 300  # seconds of a process
AGREEMENT = 4.0  # largest deviation of a mean, in Monte Carlo standard errors
MORE = 4  # times the draws, where a deviation is larger
REFERENCE = "nuts"


class Sampler(NamedTuple):
    """A method and its options."""

    method: str
    options: Mapping[str, Any] = {}


SAMPLERS = {
    "nuts": Sampler("nuts"),
    "blackjax": Sampler("nuts", {"backend": "blackjax"}),
    "nutpie": Sampler("nuts", {"backend": "nutpie"}),
    **{method: Sampler(method) for method in ("chees", "mclmc", "smc", "gibbs")},
}
TASKS = {
    "gmm": Task("blobs", {"num_rows": 100, "num_groups": 2}, {"num_components": 2}),
    "gmm_simple": Task("blobs", {"num_rows": 100, "num_groups": 2}, {"num_components": 2}),
    "mixed_mixture": Task("martians_survey", {"num_rows": 150}, {"num_components": 3}),
    "naive_bayes": Task("spam", {"num_rows": 100, "threshold": 0.5}),
    "poisson_naive_bayes": Task("spam", {"num_rows": 100}),
    "markov_naive_bayes": Task("python_shapes", {"num_rows": 60}),
    "linear_discriminant": Task("martians", {"num_rows": 100}),
    "logistic_regression": Task("martians", {"num_rows": 100}),
    "annotators": Task("raters", {}),
    "factor_analysis": Task("factors", {}, {"num_factors": 2}),
    "ppca": Task("factors", {}, {"num_factors": 2}),
    "hmm": Task("ice_cream", {}),
    "state_space": Task("gauges", {}),
    "latent_dirichlet": Task("bars", {"num_rows": 30, "length": 30}, {"num_topics": 3}),
}


def sampled(model: str, sampler: str, more: int, out: str) -> dict[str, float]:
    """In a fresh process: one fit, saved to ``out``; its log evidence with the error, NaN where none is known."""
    from inference import fit
    from inference.evidence.bridge import bridge_evidence
    from inference.methods.method import method_named
    from inference.runtime.files import write_netcdf
    from models import MODELS, load_data
    from models.errors import ZooError

    task, (method, options) = TASKS[model], SAMPLERS[sampler]
    draws = method_named(method).options().num_samples
    data = load_data(task.data, **task.data_options)
    built = MODELS[model](data, **task.options)
    tree = fit(built, data, method, num_samples=more * draws, seed=more, **options)
    write_netcdf(out, tree)
    evidence = tree.attrs.get("log_evidence_smc", np.nan), tree.attrs.get("log_evidence_smc_se", np.nan)
    if sampler == REFERENCE:
        with contextlib.suppress(ZooError):  # rotated factors, or parameters of single rows
            found = bridge_evidence(tree, built, data)
            evidence = found.log_evidence, found.standard_error
    return dict(zip(("log evidence", "error"), map(float, evidence), strict=True))


def run(model: str, sampler: str, folder: Path, more: int = 1) -> tuple[Any, dict[str, float]] | None:
    """(result, its evidence); None where the process did not end in time."""
    from inference.runtime.files import read_netcdf

    out = folder / f"{sampler}-{more}.nc"
    arguments = {"model": model, "sampler": sampler, "more": more, "out": str(out)}
    try:
        evidence = child.call(sampled, arguments, limit=LIMIT * more)
    except subprocess.TimeoutExpired:
        return None
    return read_netcdf(out), evidence


def table_of(model: str) -> pd.DataFrame:
    """A line for each sampler: what `inference.comparison.costs` counts, seconds, exit status and evidence.

    Where a mean deviates from that of the reference by more than `AGREEMENT` errors, both run again with other random numbers
    and `MORE` times the draws, and ``z again`` is the largest deviation then.
    """
    from inference.comparison.costs import costs

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ended = {sampler: found for sampler in SAMPLERS if (found := run(model, sampler, folder))}
        trees = {sampler: tree for sampler, (tree, _) in ended.items()}
        table = costs(trees, REFERENCE)
        for phase in ("compile", "warmup", "run"):
            table[f"{phase} s"] = {sampler: tree.attrs[f"{phase}_seconds"] for sampler, tree in trees.items()}
        table["exit"] = {sampler: tree.attrs["exit_status"] for sampler, tree in trees.items()}
        for column in ("log evidence", "error"):
            table[column] = {sampler: evidence[column] for sampler, (_, evidence) in ended.items()}
        table["z again"] = np.nan
        far = [sampler for sampler in table.index if abs(table["z"][sampler]) > AGREEMENT]
        longer = {sampler: run(model, sampler, folder, MORE) for sampler in ([REFERENCE, *far] if far else [])}
        rerun = {sampler: found[0] for sampler, found in longer.items() if found}
        if REFERENCE in rerun:
            table.loc[list(rerun), "z again"] = costs(rerun, REFERENCE)["z"]
    return table.reindex(list(SAMPLERS))


def agree(table: pd.DataFrame) -> bool:
    """Whether all samplers that ended agree with the reference: at the second look, or at the first where none was needed.

    >>> table = pd.DataFrame({"bulk ESS": [9.0, 9.0, np.nan], "z": [np.nan, 5.0, np.nan], "z again": [np.nan, 1.0, np.nan]})
    >>> table.index = ["nuts", "gibbs", "smc"]
    >>> agree(table), agree(table.assign(**{"z again": np.nan}))
    (True, False)
    """
    others = table[table["bulk ESS"].notna()].drop(index=REFERENCE, errors="ignore")
    return bool(((others["z"].abs() <= AGREEMENT) | (others["z again"].abs() <= AGREEMENT)).all())


def measure(model: str) -> list[Target]:
    """Runs all samplers on the table of one model, keeps what they took, and writes the page anew."""
    import jax

    table = table_of(model)
    FOLDER.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    table["measured"] = f"{cores} core{'s' * (cores > 1)}, {time.strftime('%Y-%m-%d')}"
    table.to_csv(FOLDER / f"{model}-{jax.default_backend()}.csv", index_label="sampler")
    write_page(TASKS)
    shown = ["bulk ESS", "ESS/s", "ESS/s in all", "grad/ESS", "z", "z again"]
    rows = [(str(name), *(f"{line[column]:.4g}" for column in shown)) for name, line in table.iterrows()]
    print_table(f"{model} on {TASKS[model].data}", ["sampler", *shown], rows)
    return [Target(f"{model}: samplers agree", float(table["z"].abs().max()), None, unit="errors", agreed=agree(table))]


PARTS: Mapping[str, Callable[[], list[Target]]] = {model: partial(measure, model) for model in TASKS}
