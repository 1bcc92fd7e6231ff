"""What checks run on: the zoo's model of an oracle, and the rows of many tables side by side."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from inference.certificates.oracles.oracle import Oracle, Tables
from models import MODELS
from models.base import Model, Pytree
from models.data.table import Data
from models.rows.packing import Packing

MOST = 2**12  # assignments of the latents of a small table


def built(oracle: Oracle, mutated: bool = False) -> Model:
    """The zoo's model with the oracle's prior, or with that of its mutant, on a table that the oracle draws."""
    rng = np.random.default_rng(0)
    template = oracle.table(oracle.draw_tables(rng, oracle.draw_parameters(rng, 1)), 0)
    return MODELS[oracle.model](template, **(oracle.mutant.options if mutated else oracle.options))


def small_table(oracle: Oracle, seed: int) -> Tables:
    """A table that the oracle draws, with few enough assignments of its latents; sequences may be too long."""
    rng = np.random.default_rng(seed)
    while True:
        table = oracle.draw_tables(rng, oracle.draw_parameters(rng, 1))
        if oracle.enumeration is None or oracle.enumeration.number(table) <= MOST:
            return table


def stacked_rows(model: Model, tables: Sequence[Data], condensed: bool = False) -> Pytree:
    """Encoded rows of tables with as many rows each, along a leading axis; shorter ones are padded with zeros.

    ``condensed``: fewer weighted rows in their place, where the model has them, as `em`, `map` and `nuts` read.
    """
    encoded = [model.rows(table) for table in tables]
    if condensed and model.reading.sufficient_rows is not None:
        encoded = [model.reading.sufficient_rows(jax.tree.map(np.asarray, rows)) for rows in encoded]
    return jax.tree.map(_padded, *map(_without_packing, encoded))


def _without_packing(rows: Pytree) -> Pytree:
    """How rows are packed depends on their lengths, which differ between tables; side by side is right for all."""
    return jax.tree.map(
        lambda leaf: None if isinstance(leaf, Packing) else leaf, rows, is_leaf=lambda leaf: isinstance(leaf, Packing)
    )


def _padded(*leaves: Any) -> np.ndarray:
    """Arrays of all tables as one, each filled up with zeros to the largest; a length or a count says what is there."""
    arrays = [np.asarray(leaf) for leaf in leaves]
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    found = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for into, array in zip(found, arrays, strict=True):
        into[tuple(slice(size) for size in array.shape)] = array
    return found
