"""Learning curves: how accuracy and log loss on held-out rows fall with the number of rows to learn from.

Generative classifiers need fewer rows where their assumptions hold, discriminative ones win in the end where they do not
(document 003; Ng and Jordan 2002).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from inference.fitting.fit import fit
from inference.predictions.score import score
from inference.runtime.files import write_figure
from models.algebra import is_sequential
from models.base import Data, Model, ZooError
from models.data.documents import Sequences
from models.data.table import take
from models.reading.load import as_data

MEASURES = ("accuracy", "log_loss")


def learning_curve(
    models: Mapping[str, Callable[[Data], Model]],
    data: Any,
    sizes: Sequence[int],
    seeds: Sequence[int] = range(10),
    test_size: int | None = None,
    method: str | Mapping[str, str] = "em",
    **options: Any,
) -> xr.Dataset:
    """Scores on held-out rows of every model after learning from the first ``sizes`` rows of a random order.

    ``models`` maps a name to a build function of the data; all see the same rows. For each of ``seeds`` the labelled rows
    are shuffled, ``test_size`` of them (by default what the largest size leaves over) are held out, and each training set
    contains the smaller ones. ``method`` is one for all models or one by name; ``options`` go to `fit`. Returns ``accuracy``
    and ``log_loss`` (model, size, seed). Raises `ZooError` for sizes that the data cannot give; a training set that lacks a
    class is drawn again, up to 100 times.

    >>> curve = learning_curve({"linear": MODELS["linear_discriminant"]}, load_data("iris"), sizes=[20, 50], seeds=[0])
    >>> dict(curve["accuracy"].sizes)
    {'model': 1, 'size': 2, 'seed': 1}
    """
    table = as_data(data)
    if table.labels is None or not (table.labels >= 0).any():
        raise ZooError(f"{table.name} has no labels to learn from")
    if table.starts is not None:
        raise ZooError(f"learning_curve draws rows one by one, and those of {table.name} follow each other")
    labelled = np.flatnonzero(table.labels >= 0)
    sizes = sorted(set(map(int, sizes)))
    largest = sizes[-1] if sizes else 0
    held_out = len(labelled) - largest if test_size is None else test_size
    if not sizes or sizes[0] < len(table.levels) or held_out < 1 or largest + held_out > len(labelled):
        least, most = len(table.levels), len(labelled) - (test_size or 1)
        raise ZooError(
            f"sizes must lie between {least}, one row a class, and {most}: {len(labelled)} rows have a label, and some are "
            f"held out for the test; got {sizes}"
        )
    scores = np.full((len(MEASURES), len(models), len(sizes), len(seeds)), np.nan)
    for column, seed in enumerate(seeds):
        order = _order(table.labels, labelled, sizes[0], held_out, seed)
        test = take(table, order[:held_out])
        for place, size in enumerate(sizes):
            train = _training_set(table, order[held_out : held_out + largest], size)
            for index, (name, build) in enumerate(models.items()):
                model = build(train)
                if is_sequential(model):
                    raise ZooError(f"learning_curve draws rows one by one, and those of {model.name} follow each other")
                by = method if isinstance(method, str) else method[name]
                scored = score(model, fit(model, train, by, seed=seed, **options), test)
                scores[:, index, place, column] = [float(scored[measure]) for measure in MEASURES]
    dims = ("model", "size", "seed")
    return xr.Dataset(
        {measure: (dims, values) for measure, values in zip(MEASURES, scores, strict=True)},
        coords={"model": list(models), "size": sizes, "seed": list(seeds)},
        attrs={"data": table.name, "method": str(method), "test_rows": held_out},
    )


def _training_set(table: Data, order: np.ndarray, size: int) -> Data:
    """The first ``size`` rows of ``order``; the others stay with weight 0, so that all sizes share one compilation.

    Documents are cut off instead: their vocabulary may decide on the shape of the model.
    """
    if isinstance(table.x, Sequences):
        return take(table, order[:size])
    rows = take(table, order)
    weight = np.ones(len(order)) if rows.weight is None else rows.weight
    return rows._replace(weight=np.where(np.arange(len(order)) < size, weight, 0.0))


def _order(labels: np.ndarray, labelled: np.ndarray, smallest: int, held_out: int, seed: int) -> np.ndarray:
    """A random order whose smallest training set has a row of every class."""
    rng = np.random.default_rng(seed)
    classes = len(np.unique(labels[labelled]))
    for _ in range(100):
        order = rng.permutation(labelled)
        if len(np.unique(labels[order[held_out : held_out + smallest]])) == classes:
            return order
    raise ZooError(f"{smallest} rows are too few to have every class among them: use larger sizes")


def plot_learning_curve(curve: xr.Dataset, path: Path | str | None = None) -> Any:
    """Mean over the seeds of both measures, with bands from the 10 % to the 90 % quantile: a Matplotlib figure, or a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axis, measure in zip(figure.subplots(1, len(MEASURES)), MEASURES, strict=True):
        for name in curve["model"].values:
            values = curve[measure].sel(model=name)
            low, high = values.quantile([0.1, 0.9], dim="seed").values
            (line,) = axis.plot(curve["size"], values.mean("seed"), marker="o", ms=3, label=str(name))
            axis.fill_between(curve["size"], low, high, color=line.get_color(), alpha=0.15, lw=0)
        axis.set(xscale="log", xlabel="rows to learn from", ylabel=f"held-out {measure.replace('_', ' ')}")
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure
