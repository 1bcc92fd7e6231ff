"""How well labels are predicted."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from inference.fitting.prepare import require_model
from inference.predictions.views import view_of
from inference.results.table import latent_dim
from models.base import Model, Sites, ZooError
from models.data.arguments import require_whole

OF_SEQUENCES = ("sequence_accuracy", "path_accuracy", "path_sequence_accuracy")


def score(model: Model, source: xr.DataTree | Sites, data: Any, num_bins: int = 10) -> xr.Dataset:
    """How well the labels of ``data`` are predicted. Rows count by their weight; rows without a label do not count.

    Returns ``accuracy``; ``log_loss``, the mean of −log p(label | x), and its standard error ``log_loss_se``;
    ``calibration_error``, the mean gap between confidence and accuracy, and the curve behind it: ``confidence``, ``hit_rate``
    and ``count`` by ``bin`` of equal widths of the largest probability of a row (Guo et al. 2017); ``num_rows``, how many were
    scored; and of each such ``row`` its ``loss`` −log p(label | x), and whether it was a ``hit``. Of sequences with labelled
    states rows are steps, ``log_loss_se`` takes sequences for independent, not steps, and there are also `OF_SEQUENCES`
    (`inference.sequences.accuracy.of_sequences`). Raises `ZooError` for data without labels, or with a class that the
    model lacks.

    >>> data = load_data("iris")
    >>> model = MODELS["linear_discriminant"](data)
    >>> scores = score(model, fit(model, data, "em"), data)
    >>> round(float(scores["accuracy"]), 2)
    0.98
    """
    require_model(model)
    require_whole("num_bins", num_bins)
    table = model.read(data)
    classes = [str(name) for name in model.naming.coords.get(latent_dim(model), [])]
    view = view_of(model)
    if view.labelled is None:
        raise ZooError(view.why_no_labels(model))
    if table.labels is None or not (table.labels >= 0).any():
        raise ZooError(f"{table.name} has no labels to score against: name the column with label=")
    if model.symmetry is not None:
        raise ZooError(f"the classes of this {model.name} are exchangeable: no label belongs to one of them")
    unknown = [level for level in table.levels if level not in classes]
    if unknown:
        raise ZooError(f"{table.name} has the label {unknown[0]!r}; the model knows {', '.join(classes)}")
    labelled = np.flatnonzero(table.labels >= 0)
    truth = np.array([classes.index(level) for level in table.levels])[table.labels[labelled]]
    weight = np.ones(len(truth)) if table.weight is None else table.weight[labelled]
    probs, wholes, sequence = view.labelled(model, source, table, labelled, truth, weight)
    hit = probs.argmax(1) == truth
    curve = calibration(probs.max(1), hit, weight, num_bins)
    with np.errstate(divide="ignore"):  # a probability of 0 costs ∞
        losses = -np.log(probs[np.arange(len(truth)), truth])
    log_loss, error = mean_and_error(losses, weight, sequence)
    return xr.Dataset(
        wholes
        | {
            "accuracy": np.average(hit, weights=weight),
            "log_loss": log_loss,
            "log_loss_se": error,
            "calibration_error": curve.error,
            "num_rows": len(truth),
            "confidence": (("bin",), curve.confidence),
            "hit_rate": (("bin",), curve.hit_rate),
            "count": (("bin",), curve.weight),
            "loss": (("row",), losses),
            "hit": (("row",), hit),
        },
        coords={"bin": np.arange(num_bins) / num_bins, "row": labelled},
    )


class Calibration(NamedTuple):
    """Confidence against accuracy, by bins of equal widths of the confidence; NaN in an empty bin."""

    confidence: np.ndarray  # (bins,): its weighted mean
    hit_rate: np.ndarray  # (bins,)
    weight: np.ndarray  # (bins,): that of the rows
    error: float  # the mean over rows of the gap in their bin


def calibration(confidence: np.ndarray, hit: np.ndarray, weight: np.ndarray, num_bins: int) -> Calibration:
    """That of rows (N,) with a confidence in [0, 1] (Guo et al. 2017, equation 3)."""
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    count = np.bincount(bins, weights=weight, minlength=num_bins)
    with np.errstate(invalid="ignore"):
        means, rates = (np.bincount(bins, weights=weight * value, minlength=num_bins) / count for value in (confidence, hit))
    return Calibration(means, rates, count, float(np.nansum(count * np.abs(means - rates)) / weight.sum()))


def mean_and_error(values: np.ndarray, weight: np.ndarray, group: np.ndarray | None = None) -> tuple[float, float]:
    """The weighted mean of rows (N,), and its standard error; (∞, NaN) where a value is infinite.

    Rows are independent; with ``group`` (N,) only rows of different groups are, as steps of different sequences. The error of
    a single group is NaN.
    """
    values, group, weight = values[weight > 0], None if group is None else group[weight > 0], weight[weight > 0]
    with np.errstate(invalid="ignore"):
        mean = np.average(values, weights=weight)
        away = weight * (values - mean)
        if group is not None:
            away = np.bincount(np.unique(group, return_inverse=True)[1], weights=away)
            if len(away) == 1:
                return float(mean), np.nan
        return float(mean), float(np.sqrt((away**2).sum()) / weight.sum())
