"""Hidden Markov models by emission, on tables that every test of them shares."""

from functools import cache
from typing import NamedTuple

import numpy as np
from naive_chain import (
    CELLS,
    KNOWN,
    LENGTHS,
    WEIGHT,
    Summed,
    build,
    random_sites,
    steps,
    summed,
    weights_of,
)

from models import Data, Model, load_data

HOLED = [name for name in CELLS if name != "categorical"]  # whose single cells may be missing: of several columns


STATES = ("cold", "hot", "2")  # of the labelled cells: two of the labels, and one more


class Cell(NamedTuple):
    """A model with all complications, or with none, at some θ."""

    model: Model
    data: Data
    sites: dict[str, np.ndarray]
    allowed: np.ndarray | None
    weight: np.ndarray
    wanted: list[Summed]  # of every sequence


@cache
def cell_of(name: str, plain: bool, prior: str = "default") -> Cell:
    """Plain: two states, lengths given. Else the boundary, three states, labels, weights, and steps and cells not observed."""
    data = steps(name) if plain else steps(name, unseen=True, partly=name in HOLED)
    allowed = None
    if not plain:
        data = load_data(data, labels=KNOWN, weight=np.repeat(WEIGHT, LENGTHS), weights="counts")
        allowed = np.array([[known is None or state in known.split("|") for state in STATES] for known in KNOWN])
    size = 2 if plain else 3
    model = build(name, data, size, boundary=not plain, labelled=not plain, prior=prior)
    sites = random_sites(name, size, not plain)
    wanted = [summed(weights) for weights in weights_of(name, sites, data, allowed)]
    return Cell(model, data, sites, allowed, np.ones(5) if plain else WEIGHT, wanted)
