"""How well labels are predicted, per step and per sequence, by both ways of decoding (document 002)."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from inference.sequences.decoding import states
from models.base import Model, Sites, ZooError
from models.chains.sequences import steps_of
from models.data.documents import Sequences
from models.data.table import Data


class Tagged(NamedTuple):
    """Decoded states of all T steps, one sequence after another."""

    probs: np.ndarray  # (T, S): p(z_t = i | x)
    path: np.ndarray  # (T,): the state of the most probable path
    sequence: np.ndarray  # (T,): which sequence a step belongs to


def tagged(model: Model, source: xr.DataTree | Sites, data: Data) -> Tagged:
    """States of all steps, their labels ignored; raises `ZooError` for documents, which have one label each."""
    if isinstance(data.x, Sequences):
        raise ZooError(f"{data.name}: labels of whole documents are no states of their tokens; give a table of steps")
    predicted = states(model, source, data)
    there = predicted["assignment"].values >= 0
    sequence = np.repeat(np.arange(len(there)), np.diff(steps_of(data).starts))
    return Tagged(predicted["probs"].values[there], predicted["viterbi"].values[there], sequence)


def of_sequences(hit: np.ndarray, path_hit: np.ndarray, sequence: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Weighted accuracies over T labelled steps; a sequence is right if all of its labelled steps are.

    ``sequence_accuracy``: sequences, by the most probable state of each step. ``path_accuracy`` and ``path_sequence_accuracy``:
    steps and sequences, by the most probable path, which gets fewer steps and more sequences right.
    """
    first, place = np.unique(sequence, return_index=True, return_inverse=True)[1:]

    def whole(hit: np.ndarray) -> float:
        missed = np.bincount(place, weights=~hit)
        return float(np.average(missed == 0, weights=weight[first]))

    return {
        "sequence_accuracy": whole(hit),
        "path_accuracy": float(np.average(path_hit, weights=weight)),
        "path_sequence_accuracy": whole(path_hit),
    }
