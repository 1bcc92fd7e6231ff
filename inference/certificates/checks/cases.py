"""Inputs of checks: the zoo's model of an oracle, tables that it draws, and the rows of many tables side by side."""

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
BATCH = 10_000  # tables that are drawn at a time, of which those of some shapes are used


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


def pairs_in_strata(
    oracle: Oracle, rng: np.random.Generator, number: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Parameters from the prior, and a table given each; the tables are of the oracle's strata, in turn.

    The selection of pairs is a function of the table alone. So given a selected table, its parameters are a draw from the
    posterior, as they are given any table.
    """
    if not oracle.strata:
        sites = oracle.draw_parameters(rng, number)
        return sites, oracle.draw_tables(rng, sites)
    places, each = len(oracle.strata), -(-number // len(oracle.strata))
    batches, stratum = [], np.zeros(0, int)
    while np.bincount(stratum, minlength=places).min() < each:
        sites = oracle.draw_parameters(rng, BATCH)
        tables = oracle.draw_tables(rng, sites)
        strata = stratum_of(oracle, tables)
        batches.append(_chosen((sites, tables), np.flatnonzero(strata >= 0)))
        stratum = np.concatenate([stratum, strata[strata >= 0]])
    in_turn = np.stack([np.flatnonzero(stratum == place)[:each] for place in range(places)], axis=1)
    both: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] = jax.tree.map(_one_after_the_other, *batches)
    return _chosen(both, in_turn.ravel()[:number])


def stratum_of(oracle: Oracle, tables: Tables) -> np.ndarray:
    """(R,): which of the oracle's strata each table belongs to; -1: none."""
    lengths = np.sort(tables["length"], axis=1)
    equal = (lengths[:, None] == np.sort(oracle.strata, axis=1)).all(2)
    return np.where(equal.any(1), equal.argmax(1), -1)


def _chosen(pairs: Any, places: np.ndarray) -> Any:
    return jax.tree.map(lambda value: value[places], pairs)


def _one_after_the_other(*batches: np.ndarray) -> np.ndarray:
    """Arrays (R, …) of several batches as one, each filled up with zeros behind the end of its rows."""
    shape = np.max([batch.shape[1:] for batch in batches], axis=0).astype(int)
    missing = [np.array([0, *(shape - batch.shape[1:])]) for batch in batches]
    return np.concatenate(
        [np.pad(batch, [(0, int(more)) for more in more_of]) for batch, more_of in zip(batches, missing, strict=True)]
    )


def stacked_rows(model: Model, tables: Sequence[Data], sufficient_rows: bool = False) -> Pytree:
    """Encoded rows of tables with as many rows each, along a leading axis; shorter ones are padded with zeros.

    ``sufficient_rows``: fewer weighted rows in their place, where the model has them, as `em`, `map` and `nuts` read.
    """
    encoded = [model.rows(table) for table in tables]
    if sufficient_rows and model.reading.sufficient_rows is not None:
        encoded = [model.reading.sufficient_rows(jax.tree.map(np.asarray, rows)) for rows in encoded]
    return jax.tree.map(_padded, *map(_without_packing, encoded))


def _without_packing(rows: Pytree) -> Pytree:
    """How rows are packed depends on their lengths, which differ between tables; side by side is right for all."""
    return jax.tree.map(
        lambda leaf: None if isinstance(leaf, Packing) else leaf, rows, is_leaf=lambda leaf: isinstance(leaf, Packing)
    )


def _padded(*leaves: Any) -> np.ndarray:
    """Arrays of all tables as one, each filled up with zeros to the largest; a length or a count marks their ends."""
    arrays = [np.asarray(leaf) for leaf in leaves]
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    padded = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for into, array in zip(padded, arrays, strict=True):
        into[tuple(slice(size) for size in array.shape)] = array
    return padded
