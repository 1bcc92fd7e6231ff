"""Posterior predictive checks as a picture: the data observed, and draws from the fitted model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from inference.criticism.replications import DRAWS, Compared, replications
from inference.markup.palette import COLOURS
from inference.plots.components import INTERVAL, format_as_dates
from inference.runtime.files import write_figure
from models.base import Model, Sites

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 12  # drawn: those of the smallest p-values
OBSERVED, REPLICATED = COLOURS[3], "0.55"


def plot_predictive_checks(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    path: str | Path | None = None,
    num_draws: int = DRAWS,
    seed: int = 0,
) -> "Figure":
    """Every column as it was observed, over draws from the fitted model; written to ``path`` if there is one.

    Bars or bands hold the middle 89 % of the shares in ``num_draws`` replicated tables; the line, or the dots, are the data.
    Of more than `MOST_PANELS` statistics those with the smallest p-values. `inference.predictive_checks` defines the
    statistics, and has the p-values as a table.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> figure = plot_predictive_checks(model, fit(model, data, "em"), data, "checks.png")
    """
    return draw_checks(model.name, replications(model, source, data, num_draws, seed), path)


def draw_checks(title: str, compared: list[Compared], path: str | Path | None = None) -> "Figure":
    """The picture of statistics that are already known."""
    from matplotlib.figure import Figure

    worst = np.argsort([one.p_value for one in compared], kind="stable")[:MOST_PANELS]
    shown = [compared[place] for place in sorted(worst)]
    wide = min(len(shown), 3)
    high = -(-len(shown) // wide)
    tallest = max((len(one.names) for one in shown), default=0)
    figure = Figure(figsize=(max(3.1 * wide, 6.4), 1.0 + high * max(2.0, 0.6 + 0.19 * tallest)), layout="constrained")
    for number, one in enumerate(shown):
        axis = figure.add_subplot(high, wide, number + 1)
        draw = _levels if one.names else _correlation if one.edges is None else _bins
        draw(axis, one)
        if one.is_date:
            format_as_dates(axis.xaxis)
        axis.set_title(f"{one.name}  (p = {one.p_value:.2f})", fontsize=9)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    few = f", {len(shown)} of {len(compared)}" if len(shown) < len(compared) else ""
    figure.suptitle(f"{title}: data and draws from the fitted model{few}", fontsize=11)
    _legend(figure)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def _bins(axis: "Axes", one: Compared) -> None:
    low, high = np.quantile(one.replicated, INTERVAL, axis=0)
    axis.stairs(high, one.edges, baseline=low, fill=True, color=REPLICATED, alpha=0.5)
    axis.stairs(one.observed, one.edges, color=OBSERVED, lw=1.4)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_ylim(bottom=0)


def _levels(axis: "Axes", one: Compared) -> None:
    places = np.arange(len(one.names))
    low, high = np.nanquantile(one.replicated, INTERVAL, axis=0)  # NaN where a topic lacks a word in a draw
    axis.hlines(places, low, high, color=REPLICATED, lw=5, alpha=0.7)
    axis.plot(one.observed, places, "o", color=OBSERVED, ms=4)
    axis.set_yticks(places, [name if len(name) <= 22 else f"{name[:21]}…" for name in one.names])
    axis.set(ylim=(len(places) - 0.5, -0.5))
    axis.set_xlim(left=0)
    axis.set_xlabel(one.unit, fontsize=8)


def _correlation(axis: "Axes", one: Compared) -> None:
    axis.hist(one.replicated[:, 0], 20, color=REPLICATED, alpha=0.6)
    axis.axvline(one.observed[0], color=OBSERVED, lw=1.6)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("correlation", fontsize=8)


def _legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=OBSERVED, lw=1.6, marker="o", ms=4, label="data"),
        Line2D([], [], color=REPLICATED, lw=6, alpha=0.6, label="drawn from the fitted model, middle 89 %"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
