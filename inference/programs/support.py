"""Which discrete sites can be enumerated, and the message otherwise."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from models.errors import ZooError

BY_HAND = "sum it out, for example with MixtureSameFamily"
PACKAGE = "funsor"
INSTALL = "install the extra 'enumerate', see docs/start/install.md"


def discrete_latents(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> site of the unobserved discrete sample statements of a program."""
    return {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"] and site["fn"].is_discrete
    }


def require_enumerable(trace: Mapping[str, Any]) -> None:
    """A `ZooError` for a discrete site that cannot be summed out, or if the package that does it is not installed."""
    for name, site in discrete_latents(trace).items():
        kind = type(_innermost(site["fn"])).__name__
        if not site["fn"].has_enumerate_support:
            raise ZooError(f"the discrete site {name!r} is a {kind}, whose values cannot be enumerated; {BY_HAND}")
        if site["fn"].event_shape:
            raise ZooError(
                f"the discrete site {name!r} is a {kind} of several entries at once; put them on a plate, or {BY_HAND}"
            )
        try:
            values = np.asarray(site["fn"].enumerate_support(expand=False)).ravel()
        except NotImplementedError as error:
            why = f"its values cannot be enumerated ({error})"
            raise ZooError(f"the discrete site {name!r} is a {kind}, and {why}; {BY_HAND}") from error
        if not np.array_equal(values, np.arange(len(values))):  # NumPyro enumerates places, and takes them for values
            raise ZooError(
                f"the discrete site {name!r} takes the values {values[0]} to {values[-1]}, and only those from 0 on are "
                "enumerated; shift it, as in low + sample(…, Categorical(…))"
            )
    if find_spec(PACKAGE) is None:
        raise ZooError(
            f"the program samples the discrete site {next(iter(discrete_latents(trace)))!r}, and summing it out needs the "
            f"package {PACKAGE}: {INSTALL}; or {BY_HAND}"
        )


def _innermost(distribution: Any) -> Any:
    """The distribution inside a plate's expansion or a mask."""
    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
    return distribution
