"""How well the labels of steps are predicted: step by step, and whole sequences, by both ways to decode (document 002)."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from inference.decoding import states
from models.base import Model, Sites, ZooError
from models.data import Data
from models.documents import Sequences
from models.steps import steps_of


class Tagged(NamedTuple):
    """What is said of T steps, one sequence after another."""

    probs: np.ndarray  # (T, S): p(z_t = i | x)
    path: np.ndarray  # (T,): the state of the most probable path
    sequence: np.ndarray  # (T,): which sequence a step belongs to


def tagged(model: Model, source: xr.DataTree | Sites, data: Data) -> Tagged:
    """States of all steps, without a look at their labels; raises `ZooError` for documents, whose labels are of wholes."""
    if isinstance(data.x, Sequences):
        raise ZooError(f"{data.name}: labels of whole documents are no states of their tokens; give a table of steps")
    found = states(model, source, data)
    there = found["assignment"].values >= 0
    sequence = np.repeat(np.arange(len(there)), np.diff(steps_of(data).starts))
    return Tagged(found["probs"].values[there], found["viterbi"].values[there], sequence)


def of_wholes(hit: np.ndarray, path_hit: np.ndarray, sequence: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    """Shares, by weight, of T labelled steps (T,) and of sequences: right in all of their labelled steps.

    ``sequence_accuracy`` of the most probable states; ``path_accuracy`` of the most probable path, which gets fewer steps
    right and more sequences: ``path_sequence_accuracy``.
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
