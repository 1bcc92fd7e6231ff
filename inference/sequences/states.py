"""The view of chain latents (`inference.predictions.views`): rows are sequences, read step by step."""

import numpy as np
import pandas as pd
import xarray as xr

from inference.predictions.views import LabelledPredictions, Question, View, entries
from inference.sequences.accuracy import of_sequences, tagged
from inference.sequences.decoding import states
from models.base import Model, Sites
from models.data.table import Data


def predict(question: Question) -> xr.Dataset:
    """`inference.sequences.decoding.states`; nothing is drawn."""
    return states(question.model, question.source, question.data, question.fitted)


def labelled(
    model: Model, source: xr.DataTree | Sites, table: Data, rows: np.ndarray, truth: np.ndarray, weight: np.ndarray
) -> LabelledPredictions:
    """Predictions for the labelled steps and for whole sequences (`inference.sequences.accuracy.of_sequences`)."""
    steps = tagged(model, source, table)
    probs, sequence = steps.probs[rows], steps.sequence[rows]
    return LabelledPredictions(
        probs, of_sequences(probs.argmax(1) == truth, steps.path[rows] == truth, sequence, weight), sequence
    )


def lines(predictions: xr.Dataset, first: int) -> pd.DataFrame:
    """One line for each step: its state, its state on the most probable path, and the probabilities of all states.

    Sequences are numbered from 1, after the ``first`` ones. The log density of a sequence, and the log probability of its path,
    stand in each of its lines.
    """
    sequence, time = np.nonzero(predictions["assignment"].values >= 0)
    probs = predictions["probs"]
    names = np.asarray(probs.coords[probs.dims[-1]].values)
    steps = xr.DataArray(probs.values[sequence, time], {probs.dims[-1]: names}, ("step", probs.dims[-1]))
    return pd.DataFrame(
        {
            "sequence": first + 1 + sequence,
            "step": time + 1,
            "assignment": names[predictions["assignment"].values[sequence, time]],
            "probability": steps.values.max(1),
            "viterbi": names[predictions["viterbi"].values[sequence, time]],
            **entries(steps, "probs"),
            "step_log_density": predictions["step_log_density"].values[sequence, time],
            "log_density": predictions["log_density"].values[sequence],
            "viterbi_log_prob": predictions["viterbi_log_prob"].values[sequence],
        }
    )


VIEW = View(predict, lines, labelled)
