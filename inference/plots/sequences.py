"""Pictures of sequences: how states follow each other, and what they emit."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from inference.plots.components import INTERVAL, NARROWEST, draw_columns, profile, title_of
from inference.plots.state_diagram import draw_diagram, inches
from inference.results.draws import draws_of
from inference.results.table import latent_dim
from inference.runtime.files import write_figure
from inference.sequences.decoding import require_sequential
from models.base import Model, Sites

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SYMBOLS = 40  # those of the largest probabilities
MOST_NODES = 6  # states of a diagram
START, TRANSITION = "start_probs", "transition_probs"  # sites of every model whose latents are a chain


def plot_transitions(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> "Figure":
    """How states follow each other, from the start to the boundary ``*``; written to ``path`` if there is one.

    A diagram, whose arrows are as wide as their probability, of up to `MOST_NODES` states, and a heat map of the means over the
    draws of a result, with their 89 % intervals. The title warns where states are mixed up over the draws. Raises `ZooError`
    for a model without states that follow each other.

    >>> data = load_data("ice_cream")
    >>> model = MODELS["hmm"](data, num_states=2)
    >>> figure = plot_transitions(model, fit(model, data, "em"), "transitions.png")
    """
    from matplotlib.figure import Figure

    require_sequential(model)
    draws = draws_of(model, source)
    start, transition = np.asarray(draws[START]), np.asarray(draws[TRANSITION])
    size = start.shape[1]
    names = [str(name) for name in model.naming.coords[latent_dim(model)]]
    boundary = transition.shape[2] > size
    origin = "*" if boundary else "start"
    rows = np.full((len(start), size + 1, size + boundary), np.nan)
    rows[:, 0, :size], rows[:, 1:] = start, transition
    wide = 1.6 + max(2.6, 0.5 * size)
    drawn = size <= MOST_NODES
    side = inches(size)
    figure = Figure(figsize=(wide + 1.6 + side * drawn, max(side * drawn, wide)), layout="constrained")
    axes = figure.subplots(1, 1 + drawn, squeeze=False, width_ratios=[side, wide] if drawn else [1])[0]
    if drawn:
        draw_diagram(axes[0], rows.mean(0), names, origin)
    _heat_map(axes[-1], rows, [origin, *names], [*names, *["*"] * boundary], darkest=1.0)
    axes[-1].set(xlabel="to", ylabel="from")
    figure.suptitle(title_of(f"{model.name}: transitions{_explained(rows)}", source, "states"), fontsize=11)
    return _written(figure, path)


def plot_emissions(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> "Figure":
    """The emissions of every state; written to ``path`` if there is one.

    Categories: a heat map of states by symbols, of more than `MOST_SYMBOLS` those with the largest probabilities. Numbers,
    counts and columns of several kinds: a panel a column, as `inference.plots.components.plot_profile` has them. The title
    warns where states are mixed up over the draws. Raises `ZooError` for a model without states that follow each other.

    >>> data = load_data("ice_cream")
    >>> model = MODELS["hmm"](data, num_states=2)
    >>> figure = plot_emissions(model, fit(model, data, "em"), "emissions.png")
    """
    from matplotlib.figure import Figure

    require_sequential(model)
    draws, dim = draws_of(model, source), latent_dim(model)
    names = [str(name) for name in model.naming.coords[dim]]
    tables = {
        str(dims[1]): np.asarray(draws[site])
        for site, dims in model.naming.dims.items()
        if site in draws and site != TRANSITION and len(dims) == 2 and dims[0] == dim and dims[1] != "feature"
    }
    if not tables or model.reading.layout is not None:  # columns of several kinds
        columns = profile(model, source)
        figure, note = draw_columns(columns, [f"{dim} {name}" for name in names], "state's steps")
        figure.suptitle(title_of(f"{model.name}: emissions{note}", source, "states"), fontsize=11)
        return _written(figure, path)
    shown = {name: np.sort(np.argsort(-probs.mean(0).max(0), kind="stable")[:MOST_SYMBOLS]) for name, probs in tables.items()}
    width = max(NARROWEST, 1.6 + max(_width(len(places)) for places in shown.values()))
    height = 1.2 + len(tables) * (0.7 + 0.42 * len(names))
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(tables), 1, squeeze=False)[:, 0]
    for axis, (name, probs) in zip(panels, tables.items(), strict=True):
        levels = [str(level) for level in model.naming.coords[name]]
        _heat_map(axis, probs[:, :, shown[name]], names, [levels[place] for place in shown[name]])
        few = f", {len(shown[name])} of {len(levels)}" if len(shown[name]) < len(levels) else ""
        axis.set(xlabel=f"{name}{few}", ylabel=dim)
    figure.suptitle(
        title_of(f"{model.name}: emissions{_explained(next(iter(tables.values())))}", source, "states"), fontsize=11
    )
    return _written(figure, path)


def _written(figure: "Figure", path: str | Path | None) -> "Figure":
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def _width(columns: int) -> float:
    return columns * (0.85 if columns <= 8 else 0.34)


def _heat_map(axis: "Axes", draws: np.ndarray, rows: list[str], columns: list[str], darkest: float | None = None) -> None:
    """Means over the draws (draws, rows, columns), written out with their intervals where there is room, else with a scale.

    The ``darkest`` colour is that of the largest mean, unless it is given.
    """
    mean = draws.mean(0)
    shades = np.ma.masked_invalid(mean)
    darkest = float(np.nanmax(mean)) if darkest is None else darkest
    image = axis.imshow(shades, vmin=0, vmax=darkest, cmap="Blues", aspect="auto", interpolation="nearest")
    if len(columns) > 12:
        axis.figure.colorbar(image, ax=axis, pad=0.01, aspect=25).ax.tick_params(labelsize=8)
    turned = 90 if max(map(len, columns)) > 3 and len(columns) > 4 else 0
    axis.set_xticks(range(len(columns)), columns, fontsize=8, rotation=turned)
    axis.set_yticks(range(len(rows)), rows, fontsize=8)
    low, high = np.quantile(draws, INTERVAL, axis=0)
    for i, j in np.argwhere(np.isfinite(mean)) if len(columns) <= 12 else ():
        text = f"{mean[i, j]:.2f}"
        if len(draws) > 1 and len(columns) <= 8:
            text += f"\n{low[i, j]:.2f}–{high[i, j]:.2f}"
        ink = "white" if mean[i, j] > 0.6 * darkest else "black"
        axis.text(j, i, text, ha="center", va="center", fontsize=7, color=ink)


def _explained(draws: np.ndarray) -> str:
    written = len(draws) > 1 and draws.shape[2] <= 8
    return ", means over the draws and 89 % intervals" if written else ""
