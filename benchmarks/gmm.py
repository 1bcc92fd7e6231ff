"""The Gaussian mixture against scikit-learn (EM) and PyMC with nutpie (NUTS), part by part."""

from collections.abc import Callable, Mapping

from benchmarks.gmm_em import measure_em
from benchmarks.gmm_memory import measure_memory
from benchmarks.gmm_nuts import measure_nuts
from benchmarks.measure import Target
from benchmarks.startup import measure_startup

PARTS: Mapping[str, Callable[[], list[Target]]] = {
    "em": measure_em,
    "memory": measure_memory,
    "nuts": measure_nuts,
    "startup": measure_startup,
}
