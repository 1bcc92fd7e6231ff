"""The evidence by bridge sampling, from the draws of any sampler (Meng and Wong 1996; Frühwirth-Schnatter 2004).

The first half of every chain fits a proposal (`inference.evidence.proposals`), the second half enters the estimator
(`inference.evidence.two_samples`), with as many draws of the proposal. Draws that did both would look closer to the proposal
than the posterior is, and the estimate would be biased (Overstall and Forster 2010).

A symmetry is counted, not visited: draws are moved into one image, and the logarithm of the number of images is added
(`inference.evidence.images`). So labels may switch or not. Different modes that no chain has visited are missing, and the error
does not know of them.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from inference.engine.requirements import improper_sites, require_proper
from inference.engine.task import Kind, Task, kind_of
from inference.evidence.images import Draws, countable_symmetry, image_around
from inference.evidence.outcome import Evidence
from inference.evidence.proposals import Halves, conjugate_ratios, is_conjugate, warp_ratios
from inference.evidence.two_samples import Bridge, bridged, reasons
from inference.fitting.prepare import make_task, require_model, x64
from inference.methods.options import check_seed
from inference.results.draws import one_axis
from inference.results.triangles import sites_of
from inference.runtime.progress import Silent
from models.base import Model, ZooError

FEWEST = 20  # draws of a chain: ten for each half
PROPOSALS = {"conjugate": conjugate_ratios, "warp": warp_ratios}


def bridge_evidence(tree: xr.DataTree, model: Model, data: object, proposal: str = "best", seed: int = 0) -> Evidence:
    """Log p(x), or log p(x, labels) of a classifier, from the draws of a result, by bridge sampling.

    ``proposal`` is "conjugate", "warp" (`inference.evidence.proposals`), or "best": conjugate where the model allows it.
    Warnings say where the error is not trustworthy: too few effective draws, or failed diagnostics of the result. Raises
    `ZooError` for a result without draws of the posterior, an improper prior, factors that may be rotated, parameters of single
    rows, and too few draws.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> evidence = bridge_evidence(fit(model, data, "gibbs"), model, data)
    >>> evidence.method, bool(evidence.standard_error < 0.1)
    ('bridge', True)
    """
    require_model(model)
    check_seed(seed)
    kind = kind_of(tree)
    if kind not in (Kind.CHAINS, Kind.INDEPENDENT):
        raise ZooError("bridge sampling needs draws of the posterior, as those of gibbs or nuts; this result has none")
    with x64(64):
        task = bridge_task(model, data, seed)
        if proposal not in ("best", *PROPOSALS):
            raise ZooError(f"proposal={proposal!r} is not one of best, {', '.join(PROPOSALS)}")
        if proposal == "conjugate" and not is_conjugate(task):
            raise ZooError(f"{model.name} has parameters that are not conjugate all at once; use proposal=warp")
        chosen = ("conjugate" if is_conjugate(task) else "warp") if proposal == "best" else proposal
        bridge = _of_draws(task, sites_of(tree, "posterior"), chosen, kind is Kind.INDEPENDENT)
    problems = [line for key in ("problems", "modes_unknown") for line in str(tree.attrs.get(key, "")).split("\n") if line]
    doubts = [f"the draws may not represent the posterior: {line}" for line in problems]
    return Evidence(bridge.log_ratio, bridge.error, "bridge", (*reasons(bridge), *doubts))


def bridge_task(model: Model, data: object, seed: int) -> Task:
    """Model and data on the device; raises `ZooError` if bridge sampling cannot estimate the evidence."""
    task = make_task(model, data, seed, None, Silent())
    require_proper(task)
    if improper := improper_sites(task):
        raise ZooError(f"{model.name}: the prior of {', '.join(improper)} is improper, and the evidence is then any number")
    countable_symmetry(model)
    if model.algebra is not None and model.algebra.structure.local:
        raise ZooError(
            f"{model.name}: every row has its own {', '.join(model.algebra.structure.local)}, too many dimensions for a "
            "proposal; compare by inference.perplexity on rows held out"
        )
    return task


def _of_draws(task: Task, sites: Mapping[str, np.ndarray], proposal: str, independent: bool) -> Bridge:
    chains, draws = next(iter(sites.values())).shape[:2]
    if draws < FEWEST:
        raise ZooError(f"bridge sampling needs {FEWEST} draws of every chain or more, got {draws}")
    half = draws // 2
    first, second = (
        one_axis({name: value[:, part] for name, value in sites.items()}) for part in (slice(half), slice(half, None))
    )
    image = image_around(task.model, first)
    halves = Halves(image.moved(first), image.moved(second), chains)
    bridge = bridged(PROPOSALS[proposal](task, image, halves, _number(halves.second)), independent)
    return bridge._replace(log_ratio=bridge.log_ratio + image.log_number)


def _number(draws: Draws) -> int:
    return len(next(iter(draws.values())))
