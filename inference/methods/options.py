"""The options of methods: found by name, and checked."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from inference.methods import METHODS
from inference.runtime.files import CHECKPOINT_SECONDS
from models.errors import ZooError, did_you_mean

# Options of every method, with their defaults
SHARED = {"seed": 0, "precision": 64, "progress": False, "predictive": False, "checkpoint_seconds": CHECKPOINT_SECONDS}
NUM_DRAWS = 200  # of every missing cell, and of topic proportions, by default

RANGES = {
    "num_warmup": (0, np.inf),
    "tol": (0, np.inf),
    "checkpoint_seconds": (0, np.inf),
    "target_accept": (0.05, 0.999),
    "max_tree_depth": (1, 15),
    "batch_size": (0, np.inf),
    "rank": (0, np.inf),
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
    if not isinstance(method, str):
        raise ZooError(
            f"method: {type(method).__name__} is not one of {', '.join(METHODS)}; the order is fit(model, data, method), and "
            "several arrays for a program are a tuple: fit(program, (x, y), method)"
        )
    if method not in METHODS:
        raise ZooError(f"method={method!r} is not one of {', '.join(METHODS)}{did_you_mean(method, METHODS)}")
    return import_module(METHODS[method])


def checked_options(method: str, module: Any, options: Mapping[str, Any], of_model: Iterable[str] = ()) -> Any:
    """The method's ``Options`` with the user's values: known names, whole and positive where they count.

    ``of_model`` are the options of the model, which a user may take for options of the method. Raises `ZooError`.

    >>> from inference.methods import gibbs
    >>> checked_options("gibbs", gibbs, {"num_chains": 2}).num_chains
    2
    """
    known, choices = module.Options._fields, getattr(module, "CHOICES", {})
    for name, value in options.items():
        if name not in known:
            takes = (*known, *SHARED, "start")
            raise ZooError(f"method={method} has no option {name!r}{_hint(name, takes, of_model)}; it takes {', '.join(takes)}")
        if name in choices:
            if value not in choices[name]:
                raise ZooError(f"{name}={value!r} is not one of {', '.join(choices[name])}")
            continue
        check_value(name, value, module.Options._field_defaults[name])
    return module.Options(**options)


def check_value(name: str, value: Any, default: float) -> None:
    """A `ZooError` for a value of an option that is not of the kind of its default: true or false, or a number."""
    if not isinstance(default, bool):
        check_number(name, value, default)
    elif not isinstance(value, bool):
        raise ZooError(f"{name} must be true or false, got {value!r}")


def check_number(name: str, value: Any, default: float) -> None:
    """A `ZooError` for a value of an option that is no number, not whole as its default is, or out of its range."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(default, int) and not whole:
        instead = f": write {value:.0f}" if isinstance(value, float) and value.is_integer() and 0 < value < 1e9 else ""
        raise ZooError(f"{name} must be a whole number, got {value!r}{instead}")
    low, high = RANGES.get(name, (1, np.inf))
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or value == np.inf:
        raise ZooError(f"{name} must be at least {low}{'' if np.isinf(high) else f' and at most {high}'}, got {value!r}")


def _hint(name: str, takes: Iterable[str], of_model: Iterable[str]) -> str:
    """What an unknown option may have been meant for: one of the method's, the model's, or another method's."""
    if name in of_model:
        return f" (the model takes it: MODELS[…](data, {name}=…))"
    if others := [other for other, path in METHODS.items() if name in import_module(path).Options._fields]:
        return f" ({', '.join(others)} {'takes' if len(others) == 1 else 'take'} it)"
    return did_you_mean(name, takes)
