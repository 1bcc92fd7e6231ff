"""The options of methods: found by name, and checked."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from inference.methods import METHODS
from models.errors import ZooError

SHARED = {"seed": 0, "precision": 64, "progress": False, "predictive": False}  # options of every method, with their defaults


RANGES = {
    "num_warmup": (0, np.inf),
    "tol": (0, np.inf),
    "target_accept": (0.05, 0.999),
    "max_tree_depth": (1, 15),
    "batch_size": (0, np.inf),
    "delay": (0, np.inf),
    "forgetting": (0.5, 1),
    "hottest": (1e-6, 1),
}


def check_seed(seed: Any) -> None:
    """A `ZooError` for anything but a whole number from 0 to 2³² − 1."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ZooError(f"seed must be a whole number from 0 to 2³² − 1, got {seed!r}")


def method_module(method: str) -> Any:
    """The module of a method; a `ZooError` that lists them where there is none."""
    if not isinstance(method, str) or method not in METHODS:
        raise ZooError(f"method={method!r} is not one of {', '.join(METHODS)}")
    return import_module(METHODS[method])


def checked_options(method: str, module: Any, options: Mapping[str, Any]) -> Any:
    """The method's ``Options`` with the user's values: known names, whole and positive where they count."""
    known, choices = module.Options._fields, getattr(module, "CHOICES", {})
    for name, value in options.items():
        if name not in known:
            raise ZooError(f"method={method} has no option {name!r}; it takes {', '.join((*known, *SHARED, 'start'))}")
        if name in choices:
            if value not in choices[name]:
                raise ZooError(f"{name}={value!r} is not one of {', '.join(choices[name])}")
            continue
        default = module.Options._field_defaults[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(default, int) and not whole:
            raise ZooError(f"{name} must be a whole number, got {value!r}")
        low, high = RANGES.get(name, (1, np.inf))
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or value == np.inf:
            raise ZooError(f"{name} must be at least {low}{'' if np.isinf(high) else f' and at most {high}'}, got {value!r}")
    return module.Options(**options)
