"""`log_evidence`: the evidence of a model by any of the methods that estimate it, or by the one with the smallest error."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from inference.engine.requirements import require_single_rows
from inference.engine.sweep import has_temperatures
from inference.engine.task import Task
from inference.evidence.bridge import bridge_evidence, bridge_task
from inference.evidence.outcome import Evidence
from inference.evidence.thermodynamic import evidence_task, thermodynamic_evidence
from inference.fitting.fit import fit
from inference.fitting.prepare import require_model, x64
from inference.methods import tempered_gibbs
from inference.methods.options import check_seed
from models.algebra import exchanges_labels
from models.base import Model, ZooError

# Chains visit several modes, and their draws tell iris with one to four components to 0.05 nats
TEMPERED = {"num_chains": 8, "num_temperatures": 16, "num_samples": 1000}
PLAIN = {"num_chains": 4, "num_samples": 2000}
FAR = 4.0  # standard errors between two estimates, beyond which one of them is wrong


def log_evidence(model: Model, data: Any, method: str = "best", *, seed: int = 0, **options: Any) -> Evidence:
    """Estimate the evidence: log p(x), or log p(x, labels) of a classifier, parameters and latents integrated out.

    - ``bridge`` draws from the posterior, by ``tempered_gibbs`` where components are exchangeable, otherwise by ``gibbs`` or
      ``nuts``, and bridges the draws to a proposal (`inference.evidence.bridge`). ``options`` are those of the sampler, and
      ``proposal``.
    - ``thermodynamic`` integrates over temperatures (`inference.evidence.thermodynamic`): ``num_temperatures``, ``num_sweeps``,
      ``num_chains``, ``reference``.
    - ``smc`` is the method of that name (`inference.evidence.smc`), with its ``options``.
    - ``best`` runs the first two where both are possible, and returns the one with the smaller standard error.

    Raises `ZooError` for an unknown method or option, an improper prior, and a model that the method cannot take.

    >>> data = load_data("blobs")
    >>> evidence = log_evidence(MODELS["gmm_simple"](data, num_components=2), data)
    >>> evidence.method, bool(evidence.standard_error < 0.05)
    ('bridge', True)
    """
    require_model(model)
    check_seed(seed)
    if method not in ("best", *ESTIMATES):
        raise ZooError(f"method={method!r} is not one of best, {', '.join(ESTIMATES)}")
    if method != "best":
        return ESTIMATES[method](model, data, seed, options)
    if options:
        raise ZooError(f"{min(options)}= is an option of one method: name it, as method=bridge")
    estimates, errors = [], []
    for name in possible_methods(model, data):
        try:
            estimates.append(ESTIMATES[name](model, data, seed, {}))
        except ZooError as error:
            errors.append(error)
    known = [each for each in estimates if np.isfinite(each.log_evidence) and np.isfinite(each.standard_error)]
    if not known:
        raise errors[0] if errors else ZooError(f"{model.name}: no estimate of the evidence is finite")
    best = min(known, key=lambda each: each.standard_error)
    found = [f"method=bridge: {error}" for error in errors] + _disagreements(best, known)
    return best._replace(warnings=(*best.warnings, *found))


def _disagreements(best: Evidence, estimates: list[Evidence]) -> list[str]:
    """Other estimates that differ from the best by more than the errors of both explain."""
    return [
        f"method={other.method} says {other.log_evidence:.2f} ± {other.standard_error:.2f}, and {best.method} "
        f"{best.log_evidence:.2f} ± {best.standard_error:.2f}: one of them has missed a mode, or its error is too small"
        for other in estimates
        if abs(other.log_evidence - best.log_evidence) > FAR * np.hypot(other.standard_error, best.standard_error)
    ]


def possible_methods(model: Model, data: Any) -> list[str]:
    """The methods that can estimate the evidence of a model; raises the `ZooError` of bridge sampling where none can.

    >>> data = load_data("iris")
    >>> possible_methods(MODELS["gmm"](data), data), possible_methods(MODELS["logistic_regression"](data), data)
    (['bridge', 'thermodynamic'], ['bridge'])
    """
    possible, errors = [], []
    for name, check in (("bridge", _bridge_task), ("thermodynamic", evidence_task)):
        try:
            check(model, data, 0)
            possible.append(name)
        except ZooError as error:
            errors.append(error)
    if not possible:
        raise errors[0]
    return possible


def _by_bridge(model: Model, data: Any, seed: int, options: Mapping[str, Any]) -> Evidence:
    task = _bridge_task(model, data, seed)
    sampler = _sampler(task)
    given = {name: value for name, value in options.items() if name != "proposal"}
    defaults = TEMPERED if sampler == "tempered_gibbs" else PLAIN
    tree = fit(model, data, sampler, seed=seed, **{**defaults, **given})
    return bridge_evidence(tree, model, data, options.get("proposal", "best"), seed)


def _bridge_task(model: Model, data: Any, seed: int) -> Task:
    with x64(64):
        return bridge_task(model, data, seed)


def _sampler(task: Task) -> str:
    """The sampler for the posterior of a task: that which crosses between modes most easily."""
    model, algebra = task.model, task.model.algebra
    if algebra is None:
        return "nuts"
    try:
        require_single_rows(task, algebra)
    except ZooError:  # rows with weights, or a covariance alone, have no latents to draw
        return "nuts"
    tempers = has_temperatures(algebra) and tempered_gibbs.METHOD.support.why_not(algebra) is None
    return "tempered_gibbs" if exchanges_labels(model) and tempers else "gibbs"


def _by_temperatures(model: Model, data: Any, seed: int, options: Mapping[str, Any]) -> Evidence:
    known = ("num_temperatures", "num_sweeps", "num_chains", "reference")
    if unknown := [name for name in options if name not in known]:
        raise ZooError(f"method=thermodynamic has no option {unknown[0]!r}; it takes {', '.join(known)}")
    found = thermodynamic_evidence(model, data, seed=seed, **options)
    return Evidence(found.log_evidence, found.standard_error, "thermodynamic")


def _by_smc(model: Model, data: Any, seed: int, options: Mapping[str, Any]) -> Evidence:
    tree = fit(model, data, "smc", seed=seed, **options)
    warnings = [line for key in ("problems", "warnings") for line in str(tree.attrs.get(key, "")).split("\n") if line]
    return Evidence(tree.attrs["log_evidence_smc"], tree.attrs["log_evidence_smc_se"], "smc", tuple(warnings))


# name -> (model, data, seed, options) -> the estimate
ESTIMATES: Mapping[str, Callable[[Model, Any, int, Mapping[str, Any]], Evidence]] = {
    "bridge": _by_bridge,
    "thermodynamic": _by_temperatures,
    "smc": _by_smc,
}
