"""Named data sets, made by their generators."""

from typing import Any

import numpy as np

from models.data.table import Data, ZooError
from models.errors import did_you_mean


def is_named(source: str) -> bool:
    """Whether this is the name of a data set."""
    from models.datasets.tables import DATASETS

    return source in DATASETS


NUMBERS: dict[type, tuple[type, ...]] = {  # the type of an option's default -> what may be given in its place
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}


def generate(name: str, options: dict[str, Any]) -> Data:
    """Generate a named data set; raises `ZooError` for an option that its generator lacks."""
    import inspect

    from models.datasets.tables import DATASETS

    known = inspect.signature(DATASETS[name]).parameters
    unknown = sorted(set(options) - set(known))
    if unknown:
        takes = ", ".join(known) if known else "none"
        near = did_you_mean(unknown[0], known)
        raise ZooError(f"unknown option {unknown[0]!r} of data set {name}{near}; its options: {takes}")
    for key, value in options.items():
        default = known[key].default
        if type(default) in NUMBERS and not (isinstance(value, NUMBERS[type(default)]) and not isinstance(value, bool)):
            what = "a whole number" if type(default) is int else "a number"
            raise ZooError(f"data set {name}: {key} must be {what}, such as {default}, got {value!r}")
    try:
        return DATASETS[name](**options)
    except (TypeError, ValueError, OverflowError) as error:
        given = ", ".join(f"{key}={value}" for key, value in options.items())
        raise ZooError(f"data set {name} cannot be made with {given}: {error}") from error
