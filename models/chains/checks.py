"""Checks of the options of a hidden Markov model, the names of its states, and warnings about its data."""

from collections.abc import Callable
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from models.data.arguments import require_whole
from models.data.classes import unlabelled, unseen_classes
from models.data.columns import Layout, layout, typed
from models.data.documents import Sequences
from models.data.table import Data, ZooError, first_cell, is_sparse, require_no_categories
from models.emissions.block import Emission
from models.emissions.gaussians.gaussian import GAUSSIANS
from models.emissions.named import OF_STATES, Choice, check_choice, emission_of
from models.reading.load import as_data, read_as

NO_NUMBERS = (
    "leave it out with data.columns=[…], name it as the column of the sequences with data.sequence=…, or as the label with "
    "data.label=…; emission={} reads numbers, and emission=mixed columns of all kinds"
)


class Read(NamedTuple):
    """A table as the steps of a model, and how it reads other tables."""

    data: Data
    layout: Layout | None  # where columns are read by their kinds
    read: Callable[[Any], Data]


def read_steps(source: Any, choice: Choice, unseen: Any) -> Read:
    """The columns of steps, by their kinds for emission=mixed; ``unseen`` as in `models.mixed_mixture`. Raises `ZooError`."""
    data = as_data(source)
    if choice.name != "mixed":
        if unseen != "error":
            raise ZooError(f"unseen={unseen} is an option of emission=mixed")
        return Read(data, None, as_data)
    if isinstance(data.x, Sequences) or is_sparse(data.x):
        raise ZooError(f"{data.name} has no columns of several kinds; emission=mixed reads a table with one row per step")
    data = typed(data)
    read = partial(read_as, like=layout(data), unseen=unseen)
    return Read(read(data), layout(data), read)


def check_options(num_states: Any, choice: Choice, boundary: Any, labelled: Any) -> None:
    require_whole("num_states", num_states)
    check_choice(choice, OF_STATES)
    known = [name for name in GAUSSIANS if name != "unit"]
    if choice.covariance not in known:
        raise ZooError(f"covariance={choice.covariance!r} is not one of {', '.join(known)}")
    for name, value in {"boundary": boundary, "labelled": labelled}.items():
        if not isinstance(value, bool):
            raise ZooError(f"{name} must be true or false, got {value!r}")


def emission_of_steps(choice: Choice, table: Data) -> Emission:
    """The block of the states; raises `ZooError` for steps that it cannot read."""
    if is_sparse(table.x):
        raise ZooError(f"{table.name} holds sparse counts, which have no order in time; give a table with one row per step")
    if choice.name == "categorical":
        if (cell := first_cell(table, lambda x: (x != np.floor(x)) & ~np.isnan(x))) is not None:
            raise ZooError(
                f"{table.name}: column {cell.column!r}, row {cell.row + 1}: {cell.value:g} is a measurement, and "
                "emission=categorical needs categories; use emission=gaussian"
            )
        return emission_of(choice._replace(name="symbols") if len(table.columns) == 1 else choice, table)
    if choice.name != "mixed":
        require_no_categories(table, NO_NUMBERS.format(choice.name))
    return emission_of(choice, table)


def warnings_of(table: Data, emission: str, names: list[Any], labelled: bool) -> list[str]:
    """Warnings about the data under these options."""
    warnings = unseen_classes(table, tuple(names), "step", "state") if labelled else []
    counts = [name for name, kind in zip(table.columns, table.kinds or (), strict=False) if kind == "count"]
    if emission == "categorical" and counts:
        warnings.append(
            f"column {counts[0]!r} holds counts, and each value is treated as a category; use emission=poisson for counts"
        )
    return warnings


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
