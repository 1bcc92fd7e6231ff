"""Scores of the rows that a run did not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from models.data.table import Data

if TYPE_CHECKING:
    import xarray as xr

    from models.abilities import HeldOut
    from models.base import Model

HELD_OUT = ("accuracy", "log_loss", "log_loss_se", "calibration_error")


def held_out_rows(model: Model, tree: xr.DataTree, data: Data) -> tuple[xr.DataTree, dict[str, float]]:
    """Scores of rows that the fit did not see: (group ``held_out``, root attributes).

    The group holds the rows, as ``observed_data`` does, and the ``log_density`` of each. Where labels are modelled, it also
    holds the ``loss`` −log p(label | x) and the ``hit``, 1 if the label is the most probable one; both are NaN without a label.
    The attributes are means over rows. Where rows have their own parameters, as in topic models, labels restrict these and are
    not predicted: the labels of held-out rows are ignored, and the attributes have a perplexity instead.
    """
    import xarray as xr

    from inference.predictions.predict import without_cells
    from inference.predictions.score import OF_SEQUENCES, score
    from inference.results.draws import forget_labels
    from inference.results.table import observed_data

    densities = without_cells(model, tree, data)["log_density"]
    rows = observed_data(data)
    if densities.sizes["row"] != rows.sizes["row"]:  # rows are steps, but densities are per sequence
        densities = densities.drop_vars("row").rename(row="sequence")
    rows = rows.assign(log_density=densities)
    figures = {"held_out_rows": int(densities.size), "held_out_log_density": float(densities.mean())}
    if model.abilities.held_out is not None:
        unseen = model.rows(forget_labels(model, data))
        figures["held_out_perplexity"] = _perplexity(model.abilities.held_out, unseen, densities.values)
    of_classes = tree.attrs["labels_observed"] and model.abilities.held_out is None
    if of_classes and data.labels is not None and (data.labels >= 0).any():
        scores = score(model, tree, data)
        rows = rows.assign(scores[["loss", "hit"]].astype(float).reindex(row=rows["row"]))
        figures |= {"held_out_labelled": int(scores["num_rows"])} | {
            f"held_out_{name}": float(scores[name]) for name in (*HELD_OUT, *OF_SEQUENCES) if name in scores
        }
    return xr.DataTree(rows), figures


def _perplexity(held_out: HeldOut, rows: Any, log_density: np.ndarray) -> float:
    """`inference.predictions.new_rows.perplexity`, from densities that are already known."""
    units = held_out.number(rows).sum()
    return float(np.exp((held_out.orders(rows).sum() - log_density.sum()) / units)) if units else float("nan")
