"""Reading and checking the numbers of a user's prior."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.errors import ZooError


def given_numbers(prior: Any, blocks: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The hyperparameters that a user sets; none for ``prior="default"``.

    ``blocks`` maps the names that users see to hyperparameters: block -> name -> hyperparameter. Raises `ZooError` for an
    unknown prior, block or name.
    """
    if prior == "default":
        return {}
    if not isinstance(prior, Mapping):
        raise ZooError(f"prior={prior!r}: expected default, flat, or numbers by block ({', '.join(blocks)})")
    numbers: dict[str, Any] = {}
    for block, given in prior.items():
        if block not in blocks or not isinstance(given, Mapping):
            raise ZooError(f"prior block {block!r}: the blocks are {', '.join(blocks)}, each a mapping of names to numbers")
        names = blocks[block]
        unknown = [str(name) for name in given if name not in names]
        if unknown:
            known = "the only name in this block is " if len(names) == 1 else "the names in this block are "
            raise ZooError(f"prior {block}.{min(unknown)}: {known}{', '.join(names)}")
        numbers |= {names[name]: value for name, value in given.items()}
    return numbers


def check_hyper(
    hyper: dict[str, Any], shapes: Mapping[str, tuple[int, ...]], bounds: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Broadcast the user's numbers to ``shapes`` and check their support; raises `ZooError` naming the hyperparameter.

    For a matrix, a scalar or a vector stands for a diagonal matrix.
    """
    checked = {}
    for name, shape in shapes.items():
        try:
            value = np.asarray(hyper[name], dtype=np.float64)
            if len(shape) == 2 and value.ndim < 2:
                value = np.diag(np.broadcast_to(value, shape[:1]))
            value = np.array(np.broadcast_to(value, shape))
        except (TypeError, ValueError, OverflowError) as error:
            raise ZooError(f"prior {name}: expected numbers of shape {shape}, got {hyper[name]!r}") from error
        if not np.isfinite(value).all():
            raise ZooError(f"prior {name}: every number must be finite")
        checked[name] = value
    for name in set(checked) - {"location", "origin"}:
        value = checked[name]
        if value.ndim == 2:
            sound = np.allclose(value, value.T) and bool(np.linalg.eigvalsh(value).min() > 0)
            if not sound:
                raise ZooError(f"prior {name}: the matrix must be symmetric and positive definite")
        elif not (value > 0).all():
            raise ZooError(f"prior {name} must be above 0, got {value.min():g}")
    for name, bound in bounds.items():
        if not (checked[name] > bound).all():
            raise ZooError(f"prior {name} must be above {bound:g}, got {checked[name].min():g}")
    return checked
