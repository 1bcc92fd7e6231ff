"""The log evidence by bridge sampling and by thermodynamic integration: do they agree, and what does each cost?

Mixtures of one to four components on iris under the default prior. Every estimate is the mean of three seeds, beside bridge
sampling of four times as many draws.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Target, print_table

SEEDS = (0, 1, 2)
AGREEMENT = 0.1  # nats
LONG: Mapping[str, Any] = {"num_samples": 4000, "num_warmup": 2000, "seed": 100}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "bridge": {"method": "bridge"},
    "thermodynamic": {"method": "thermodynamic"},
    "thermodynamic, long": {"method": "thermodynamic", "num_temperatures": 1500},
}


class Estimated(NamedTuple):
    """Estimates of all seeds: their mean, the standard error that they state, their own deviation, and seconds of one."""

    mean: float
    stated: float
    deviation: float
    seconds: float


def estimated(model: Any, data: Any, options: Mapping[str, Any]) -> Estimated:
    """One method by all seeds."""
    from inference import log_evidence

    found, clock = [], time.perf_counter()
    for seed in SEEDS:
        found.append(log_evidence(model, data, seed=seed, **options))
    values = np.array([each.log_evidence for each in found])
    stated = float(np.sqrt(np.mean([each.standard_error**2 for each in found])))
    return Estimated(float(values.mean()), stated, float(values.std(ddof=1)), (time.perf_counter() - clock) / len(SEEDS))


def measure_iris() -> list[Target]:
    """Full covariances, one to four components: one table for each number."""
    from inference import log_evidence
    from models import MODELS, load_data

    data, targets = load_data("iris"), []
    for components in (1, 2, 3, 4):
        model = MODELS["gmm"](data, num_components=components)
        reference = log_evidence(model, data, "bridge", **LONG)
        found = {name: estimated(model, data, options) for name, options in METHODS.items()}
        first = ("bridge, long", f"{reference.log_evidence:.3f}", f"{reference.standard_error:.3f}", "", "")
        columns = ("method", "log evidence", "stated error", "sd of seeds", "seconds")
        print_table(f"gmm on iris, K = {components}", columns, [first, *(_row(name, each) for name, each in found.items())])
        off = abs(found["bridge"].mean - reference.log_evidence)
        targets.append(Target(f"bridge from bridge, long, K = {components}", off, AGREEMENT, at_least=False, unit="nats"))
    return targets


def _row(name: str, found: Estimated) -> tuple[str, str, str, str, str]:
    return name, f"{found.mean:.3f}", f"{found.stated:.3f}", f"{found.deviation:.3f}", f"{found.seconds:.1f}"


PARTS: Mapping[str, Callable[[], list[Target]]] = {"iris": measure_iris}
