"""Pairs of columns: every row in the colour of its group, the groups under the model, and the uncertainty of rows.

The bar is the classification and uncertainty plots of mclust (Scrucca, Fop, Murphy and Raftery 2016).
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from inference.fitting.prepare import require_model
from inference.markup.palette import colour
from inference.plots.components import Described, component_names, format_as_dates, profile, row_weights, title_of
from inference.results.table import data_of
from inference.results.tree import values
from inference.runtime.files import write_figure
from models.base import Model, ZooError
from models.data.table import is_sparse
from models.rows.encoded import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Ellipse

MOST_COLUMNS = 4  # drawn: those that tell the components apart best
MOST_ROWS = 2000  # drawn, evenly spread
MOST_SHAPES = 500
MARKERS = "os^Dv*PX"  # a shape for each group, in addition to its colour
RADII = (1.0, 2.0)  # of the ellipses, in standard deviations
BINS = 24
NEVER = 0.05  # uncertainty below which a row is drawn as certain
FEW_VALUES = 15  # whole numbers with so few values lie on top of each other, and are moved apart at random


class Shown(NamedTuple):
    """The rows of the picture and their groups."""

    columns: list[Described]  # P of them
    cells: np.ndarray  # (n, P): NaN where missing
    probs: np.ndarray  # (n, K)
    weight: np.ndarray  # (n,)

    @property
    def group(self) -> np.ndarray:
        """(n,): the most probable group of every row."""
        return np.asarray(self.probs.argmax(1))

    @property
    def many(self) -> bool:
        """Whether points are drawn as pixels: a file with a shape for each would be large."""
        return len(self.cells) > MOST_SHAPES

    @property
    def uncertainty(self) -> np.ndarray:
        """(n,): 1 less the probability of the most probable group."""
        return np.asarray(1 - self.probs.max(1))


def has_pairs(tree: xr.DataTree, columns: list[Described]) -> bool:
    """Whether rows of a result have groups, and there are columns of numbers, so that `plot_pairs` can draw them."""
    return _has_groups(tree) and bool(_numbers(columns))


def plot_pairs(model: Model, tree: xr.DataTree, path: str | Path | None = None) -> "Figure":
    """Columns of numbers against each other, with the groups of a result; written to ``path`` if there is one.

    Below the diagonal, every row in the colour and shape of its most probable group, and of every group two ellipses: one and
    two standard deviations of its rows as the model has them (Student-t: of its scale), averaged over the draws. Above it, the
    larger and darker a row, the less certain its group. On the diagonal, how the rows of every group are distributed. Of more
    than `MOST_COLUMNS` columns those that tell the groups apart best; of many rows `MOST_ROWS`, evenly spread. The title
    warns where labels are not to be trusted. Raises `ZooError` for a result whose rows have no groups or no numbers.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> figure = plot_pairs(model, fit(model, data, "em"), "pairs.png")
    """
    require_model(model)
    if not _has_groups(tree):
        raise ZooError("the rows of this result have no groups, so there are no pairs to draw")
    return draw_pairs(model, tree, profile(model, tree), path)


def draw_pairs(model: Model, tree: xr.DataTree, columns: list[Described], path: str | Path | None = None) -> "Figure":
    """`plot_pairs` of a result with groups, whose profile is already known."""
    from matplotlib.figure import Figure

    places = _numbers(columns)
    if not places:
        raise ZooError("no column of this table holds numbers that could be drawn against each other")
    shown = _shown(tree, [columns[place] for place in places])
    size = len(places)
    figure = Figure(figsize=(1.2 + max(2.3 * size, 5.2), 1.5 + max(2.1 * size, 2.4)), layout="constrained")
    if size == 1:
        _alone(figure, shown)
    else:
        for place, axis in enumerate(figure.subplots(size, size).flat):
            _panel(axis, shown, *divmod(place, size))
    names = component_names(model, tree, shown.probs.shape[1])
    _legend(figure, names)
    few = f", {size} of {len(columns)} columns" if size < len(columns) else ""
    some = f", {len(shown.cells)} of {len(values(tree, 'latent', 'responsibilities'))} rows" if _thinned(tree) else ""
    figure.suptitle(title_of(f"{model.name}: groups of rows{few}{some}", tree, "components"), fontsize=11)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def _has_groups(tree: xr.DataTree) -> bool:
    return "latent" in tree and "decode" in tree["latent"] and "responsibilities" in tree["latent"]


def _thinned(tree: xr.DataTree) -> bool:
    return len(values(tree, "latent", "responsibilities")) > MOST_ROWS


def _numbers(columns: list[Described]) -> list[int]:
    """Places of the columns of numbers and counts that tell the groups apart best, in the table's order."""
    numbers = [d for d, column in enumerate(columns) if not column.levels and column.sd is not None and column.sd.any()]
    return sorted(sorted(numbers, key=lambda d: -columns[d].separation)[:MOST_COLUMNS])


def _shown(tree: xr.DataTree, columns: list[Described]) -> Shown:
    data = data_of(tree)
    rows = spread(data.num_rows, MOST_ROWS)
    cells = data.x[rows][:, [data.columns.index(column.name) for column in columns]]
    cells = np.asarray(cells.toarray() if is_sparse(cells) else cells, dtype=float)
    weight = row_weights(tree)
    probs = values(tree, "latent", "responsibilities")[rows].astype(float)
    return Shown(columns, cells, probs, np.ones(len(rows)) if weight is None else weight[rows])


# ---------------------------------------------------------------------------------------------------------------------
# Panels


def _panel(axis: "Axes", shown: Shown, row: int, column: int) -> None:
    """One panel of the square: ``column`` across, ``row`` upwards."""
    if row == column:
        _histograms(axis, shown, column)
    elif row > column:
        _groups(axis, shown, column, row)
    else:
        _draw_uncertainty(axis, shown, column, row)
    axis.set_xlim(*_limits(shown, column))
    if row != column:
        axis.set_ylim(*_limits(shown, row))
    for place, way in ((column, axis.xaxis), (row, axis.yaxis)):
        if shown.columns[place].is_date and (row != column or way is axis.xaxis):
            format_as_dates(way)
    last = row == len(shown.columns) - 1
    first = column == 0 and row > 0
    axis.tick_params(labelsize=7, bottom=last, labelbottom=last, left=first, labelleft=first)
    if last:
        axis.set_xlabel(shown.columns[column].title, fontsize=9)
    if column == 0:
        axis.set_ylabel(shown.columns[row].title, fontsize=9)


def _limits(shown: Shown, place: int) -> tuple[float, float]:
    """From the smallest to the largest cell, with a margin, so that all panels of a column agree."""
    cells = shown.cells[:, place]
    low, high = np.nanmin(cells), np.nanmax(cells)
    margin = 0.06 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def _groups(axis: "Axes", shown: Shown, across: int, upwards: int) -> None:
    x, y = _apart(shown, across), _apart(shown, upwards)
    for k in range(shown.probs.shape[1]):
        mask = shown.group == k
        axis.scatter(
            x[mask], y[mask], s=9, marker=MARKERS[k % len(MARKERS)], color=colour(k), alpha=0.55, lw=0, rasterized=shown.many
        )
    for k in range(shown.probs.shape[1]):
        for radius in RADII:
            axis.add_patch(_ellipse(shown, k, across, upwards, radius))


def _ellipse(shown: Shown, group: int, across: int, upwards: int, radius: float) -> "Ellipse":
    """The rows of a group as the model has them: all points within ``radius`` standard deviations of its centre."""
    from matplotlib.patches import Ellipse

    matrix = covariance_of(shown.columns[across], shown.columns[upwards], group)
    lengths, directions = np.linalg.eigh(matrix)
    wide, high = 2 * radius * np.sqrt(np.maximum(lengths, 0))
    angle = np.degrees(np.arctan2(directions[1, 0], directions[0, 0]))
    centre = shown.columns[across].expected[group], shown.columns[upwards].expected[group]
    return Ellipse(centre, wide, high, angle=angle, fill=False, color=colour(group), lw=1.3 if radius == RADII[0] else 0.8)


def covariance_of(across: Described, upwards: Described, group: int) -> np.ndarray:
    """(2, 2): covariance of two columns in a group under the model, averaged over the draws."""
    assert across.variance is not None
    assert upwards.variance is not None
    between = 0.0 if across.covariance is None else across.covariance[group, upwards.place]
    return np.array([[across.variance[group], between], [between, upwards.variance[group]]])


def _draw_uncertainty(axis: "Axes", shown: Shown, across: int, upwards: int) -> None:
    x, y, unsure = _apart(shown, across), _apart(shown, upwards), shown.uncertainty
    certain = unsure < NEVER
    axis.scatter(x[certain], y[certain], s=5, color="0.8", lw=0, rasterized=shown.many)
    order = np.flatnonzero(~certain)[np.argsort(unsure[~certain])]
    colours = [colour(k) for k in shown.group[order]]
    axis.scatter(
        x[order], y[order], s=8 + 90 * unsure[order], c=colours, alpha=0.75, edgecolors="black", lw=0.6, rasterized=shown.many
    )


def _histograms(axis: "Axes", shown: Shown, place: int) -> None:
    """Rows count for every group by their probability of belonging to it, times their weight."""
    cells = shown.cells[:, place]
    seen = ~np.isnan(cells)
    edges = np.linspace(*_limits(shown, place), BINS + 1)
    for k in range(shown.probs.shape[1]):
        counts = np.histogram(cells[seen], edges, weights=(shown.probs[:, k] * shown.weight)[seen])[0]
        axis.stairs(counts, edges, fill=True, color=colour(k), alpha=0.35)
        axis.stairs(counts, edges, color=colour(k), lw=1)
    axis.set_yticks([])
    axis.spines[["top", "right", "left"]].set_visible(False)


def _alone(figure: "Figure", shown: Shown) -> None:
    """One column: its distribution, and under it how certain the group of every row is."""
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _histograms(above, shown, 0)
    x = _apart(shown, 0)
    for k in range(shown.probs.shape[1]):
        mask = shown.group == k
        below.scatter(
            x[mask],
            shown.uncertainty[mask],
            s=10,
            marker=MARKERS[k % len(MARKERS)],
            color=colour(k),
            alpha=0.6,
            lw=0,
            rasterized=shown.many,
        )
    below.set(xlim=_limits(shown, 0), ylim=(-0.02, max(0.5, shown.uncertainty.max() + 0.02)), xlabel=shown.columns[0].title)
    below.set_ylabel("uncertainty", fontsize=9)
    if shown.columns[0].is_date:
        format_as_dates(below.xaxis)


def _apart(shown: Shown, place: int) -> np.ndarray:
    """The cells of a column; whole numbers with few values are moved by up to 0.3 at random, the same way in every panel."""
    cells = shown.cells[:, place]
    distinct = np.unique(cells[~np.isnan(cells)])
    if len(distinct) > FEW_VALUES or not np.array_equal(distinct, np.round(distinct)):
        return cells
    return np.asarray(cells + np.random.default_rng(place).uniform(-0.3, 0.3, len(cells)))


def _legend(figure: "Figure", names: list[str]) -> None:
    from matplotlib.lines import Line2D

    def mark(k: int) -> Line2D:
        return Line2D([], [], marker=MARKERS[k % len(MARKERS)], color=colour(k), ls="", ms=6, label=names[k])

    doubtful = Line2D([], [], marker="o", color="white", markeredgecolor="black", ls="", ms=9, label="large: group in doubt")
    figure.legend(
        handles=[*map(mark, range(len(names))), doubtful],
        loc="outside lower center",
        ncols=min(len(names) + 1, 4),
        fontsize=8,
        frameon=False,
    )
