"""Checks of the options of a hidden Markov model, the names of its states, and warnings about its data."""

from itertools import count, islice
from typing import Any

from models.data.arguments import require_whole
from models.data.classes import unlabelled, unseen_classes
from models.data.table import Data, ZooError
from models.emissions.gaussians.gaussian import GAUSSIANS

EMISSIONS = ("categorical", "gaussian", "poisson", "bernoulli")


def check_options(num_states: Any, emission: Any, covariance: Any, boundary: Any, labelled: Any) -> None:
    require_whole("num_states", num_states)
    if emission not in EMISSIONS:
        raise ZooError(f"emission={emission!r} is not one of {', '.join(EMISSIONS)}")
    known = [name for name in GAUSSIANS if name != "unit"]
    if covariance not in known:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(known)}")
    for name, value in {"boundary": boundary, "labelled": labelled}.items():
        if not isinstance(value, bool):
            raise ZooError(f"{name} must be true or false, got {value!r}")


def warnings_of(table: Data, emission: str, names: list[Any], labelled: bool) -> list[str]:
    """Warnings about the data under these options."""
    found = unseen_classes(table, tuple(names), "step", "state") if labelled else []
    counts = [name for name, kind in zip(table.columns, table.kinds or (), strict=False) if kind == "count"]
    if emission == "categorical" and counts:
        found.append(
            f"column {counts[0]!r} holds counts, and each value is treated as a category; use emission=poisson for counts"
        )
    return found


def state_names(table: Data, num_states: int, labelled: bool) -> list[Any]:
    """Names of the states: the labels, then numbers."""
    if not labelled:
        return list(range(num_states))
    if unlabelled(table):
        raise ZooError(f"{table.name} has no labels, which labelled=true needs; name the column with data.label=")
    if len(table.levels) > num_states:
        raise ZooError(
            f"{table.name} has {len(table.levels)} labels ({', '.join(table.levels[:5])}, …), and labelled=true makes "
            f"each a state; give num_states={len(table.levels)}"
        )
    if "*" in table.levels:
        raise ZooError(f"{table.name}: a label is '*', which stands for the boundary; rename that label")
    others = (name for name in map(str, count(len(table.levels))) if name not in table.levels)
    return [*table.levels, *islice(others, num_states - len(table.levels))]
