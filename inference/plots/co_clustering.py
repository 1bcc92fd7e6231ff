"""Which rows belong together, under any labels: the probability that two rows share a component, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from inference.diagnostics.summaries import trusted
from inference.markup.palette import colour
from inference.plots.components import component_names
from inference.predictions.clustering import co_clustering
from inference.results.tree import values
from inference.runtime.files import write_figure
from models.base import Data, Model, Sites

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 12  # with separate shades
NARROWEST = 0.04  # share of the rows below which a group is not named at the side: names would overlap


def plot_co_clustering(
    model: Model, source: xr.DataTree | Sites, data: Any, path: str | Path | None = None, **options: Any
) -> "Figure":
    """P(z_i = z_j | x) as a heat map, rows that belong together next to each other; written to ``path`` if there is one.

    Rows stand by their most probable group, which is named at the side, and within a group in the order of the leaves of
    average linkage on 1 − P. Where labels are not to be trusted there are no groups, and linkage alone orders the rows. Above
    the map, strips show the group and the label of every row, where the data have labels that the fit has not seen.
    ``options`` are those of `inference.predictions.clustering.co_clustering`.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> figure = plot_co_clustering(model, fit(model, data, "gibbs"), data, "co_clustering.png")
    """
    from matplotlib.figure import Figure
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    matrix = co_clustering(model, source, data, **options)
    probs, rows = matrix.values, matrix.coords["row"].values
    apart = squareform(np.clip(1 - probs, 0, 1), checks=False)
    leaves = leaves_list(linkage(apart, "average")) if len(probs) > 1 else np.zeros(1, int)
    group = _groups(source, rows)
    order = leaves if group is None else leaves[np.argsort(group[leaves], kind="stable")]
    label = _labels(model, data, source)
    figure = Figure(figsize=(7, 5.6 + 0.3 * (group is not None) + 0.3 * (label is not None)), layout="constrained")
    strips = [part for part in (group, label) if part is not None]
    axes = figure.subplots(1 + len(strips), 1, squeeze=False, height_ratios=[0.2] * len(strips) + [5])[:, 0]
    above = iter(axes)
    if group is not None:
        names = component_names(model, source, int(group.max()) + 1)
        _strip(next(above), group[order], [colour(k) for k in range(len(names))], names, "group")
    if label is not None:
        _label_strip(next(above), label[rows][order], list(data.levels))
    _map(figure, axes[-1], probs[np.ix_(order, order)], None if group is None else group[order])
    if group is not None:
        _name_groups(axes[-1], group[order], names)
    total = matrix.attrs["num_rows"]
    some = f"{len(probs)} rows" + ("" if len(probs) == total else f", evenly spread over all {total}")
    axes[-1].set_xlabel(f"{some}; those that belong together are neighbours", fontsize=9)
    figure.suptitle("probability that two rows share a component", fontsize=11)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def _groups(source: xr.DataTree | Sites, rows: np.ndarray) -> np.ndarray | None:
    """(n,): the most probable group of each of the rows; None where groups are not known or their labels mixed up."""
    if not isinstance(source, xr.DataTree) or "latent" not in source or not trusted(source):
        return None
    return np.asarray(values(source, "latent", "responsibilities")[rows].argmax(1))


def _labels(model: Model, data: Any, source: xr.DataTree | Sites) -> np.ndarray | None:
    """(N,): labels that the fit has not seen, −1 where missing; None where there are none."""
    seen = isinstance(source, xr.DataTree) and source.attrs.get("labels_observed", 0)
    if seen or not isinstance(data, Data) or data.labels is None or not (data.labels >= 0).any():
        return None
    return data.labels


def _map(figure: "Figure", axis: "Axes", probs: np.ndarray, group: np.ndarray | None) -> None:
    image = axis.imshow(probs, vmin=0, vmax=1, cmap="Greys", interpolation="nearest", aspect="auto")
    axis.set(xticks=[], yticks=[])
    figure.colorbar(image, ax=axis, shrink=0.8, pad=0.02)
    if group is not None:
        for edge in np.flatnonzero(np.diff(group)) + 0.5:
            axis.axhline(edge, color="white", lw=1)
            axis.axvline(edge, color="white", lw=1)


def _name_groups(axis: "Axes", group: np.ndarray, names: list[str]) -> None:
    """Names at the side of the map, at the middle of every group that is wide enough."""
    wide = [k for k in np.unique(group) if (group == k).mean() >= NARROWEST]
    axis.set_yticks([np.flatnonzero(group == k).mean() for k in wide], [names[k] for k in wide], fontsize=8)
    for tick, k in zip(axis.get_yticklabels(), wide, strict=True):
        tick.set_color(colour(k))
    axis.tick_params(axis="y", length=0)


def _strip(axis: "Axes", codes: np.ndarray, shades: list[str], names: list[str], what: str) -> None:
    """A cell for every row in the shade of its code; white for −1."""
    from matplotlib.colors import ListedColormap

    palette = ListedColormap(["white", *shades])
    axis.imshow(codes[None, :] + 1, cmap=palette, vmin=-0.5, vmax=len(names) + 0.5, aspect="auto", interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.set_ylabel(what, rotation=0, ha="right", va="center", fontsize=8)


def _label_strip(axis: "Axes", label: np.ndarray, levels: list[str]) -> None:
    """The strip of the labels with a legend, of as many labels as have separate shades."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex
    from matplotlib.patches import Patch

    shown = min(len(levels), MOST_LABELS)
    shades = [to_hex(colormaps["Set3"](place % MOST_LABELS)) for place in range(len(levels))]
    _strip(axis, label, shades, levels, "label")
    patches = [Patch(color=shade, label=level) for shade, level in zip(shades[:shown], levels[:shown], strict=True)]
    axis.figure.legend(handles=patches, title="label", fontsize=8, ncols=6, frameon=False, loc="outside lower center")
