"""Pictures of sequences: states over time, how they follow each other, and what they emit."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from jax import Array

from inference.engine.evaluate import Static, point, static_of
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.markup.palette import COLOURS, colour
from inference.plots.components import INTERVAL, NARROWEST, draw_columns, profile, warned
from inference.plots.state_diagram import draw_diagram, inches
from inference.results.draws import draws_of, forget_labels
from inference.results.table import latent_dim
from inference.runtime.files import write_figure
from inference.sequences.decoding import require_sequential, states
from models.base import Data, Hyper, Model, Pytree, Sites, ZooError
from models.chains.padding import padded
from models.chains.sequences import steps_of
from models.data.arguments import require_whole
from models.data.documents import Sequences
from models.data.table import take
from models.rows.encoded import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AVERAGED = 200  # draws, evenly spread
MOST_STEPS = 150  # of a sequence that are drawn, unless more are asked for
MOST_LINES = 8  # states that have a line each; more are a heat map
MOST_SYMBOLS = 40  # those of the largest probabilities
MOST_NODES = 6  # states of a diagram
MOST_COLUMNS = 3  # of what was observed, under the states
STRIP, LETTER = 600, 0.65  # points: width of a strip; of a letter, by size
START, TRANSITION = "start_probs", "transition_probs"  # sites of every model whose latents are a chain


class Window(NamedTuple):
    """Some steps of one sequence."""

    table: Data  # of all its steps
    first: int
    last: int  # the first step after them
    note: str  # "" for all steps of the only sequence


def plot_states(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    path: str | Path | None = None,
    sequence: int = 0,
    first: int = 0,
    num_steps: int = MOST_STEPS,
) -> "Figure":
    """p(z_t = i | x) over the steps of one sequence, what was observed under it; written to ``path`` if there is one.

    ``sequence`` and ``first`` count from 0; ``num_steps`` steps from there on are drawn. A line a state, with a band over its
    89 % interval over the draws of a result, each of which counts alike: how unsure the parameters leave it. Of more than
    `MOST_LINES` states a heat map.
    The strip under it holds the most probable state of every step, the most probable path, and the labels of the data, which
    the states above do not know of. The title warns where states are mixed up over the draws. Raises `ZooError` for a model
    without states that follow each other, or steps that there are not.

    >>> data = load_data("ice_cream")
    >>> model = MODELS["hmm"](data, num_states=2)
    >>> figure = plot_states(model, fit(model, data, "em"), data, "states.png")
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    require_sequential(model)
    part, window = _window(model, data, sequence, first, num_steps)
    probs = _probabilities(model, source, part)[:, window.first : window.last]  # (draws, steps, S)
    best = states(model, source, part, fitted=True)["viterbi"].values[0, window.first : window.last]
    names = [str(name) for name in model.naming.coords[latent_dim(model)]]
    strips = _strips(window, probs.mean(0).argmax(1), best, names)
    columns = list(range(min(len(window.table.columns), MOST_COLUMNS)))
    heights = [2.6, 0.3 * len(strips), *(0.35 if _levels(window.table, d) else 1.1 for d in columns)]
    figure = Figure(figsize=(10, 1.4 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    time = np.arange(window.first, window.last) + 1
    _probability_panel(panels[0], time, probs, names)
    _strip_panel(panels[1], time, strips, len(names))
    for axis, d in zip(panels[2:], columns, strict=True):
        _observed_panel(axis, time, window, d)
    panels[-1].set(xlabel="step", xlim=(time[0] - 0.5, time[-1] + 0.5))
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(warned(f"{model.name}: probabilities of the states{window.note}", source, "states"), fontsize=11)
    return _written(figure, path)


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
    figure.suptitle(warned(f"{model.name}: transitions{_explained(rows)}", source, "states"), fontsize=11)
    return _written(figure, path)


def plot_emissions(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> "Figure":
    """What every state emits; written to ``path`` if there is one.

    Categories: a heat map of states by symbols, of more than `MOST_SYMBOLS` those with the largest probabilities. Numbers and
    counts: a panel a column, as `inference.plots.components.plot_profile` has them. The title warns where states are mixed up
    over the draws. Raises `ZooError` for a model without states that follow each other.

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
    if not tables:
        columns = profile(model, source)
        figure, note = draw_columns(columns, [f"{dim} {name}" for name in names], "state's steps")
        figure.suptitle(warned(f"{model.name}: emissions{note}", source, "states"), fontsize=11)
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
    figure.suptitle(warned(f"{model.name}: emissions{_explained(next(iter(tables.values())))}", source, "states"), fontsize=11)
    return _written(figure, path)


def _written(figure: "Figure", path: str | Path | None) -> "Figure":
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


# ---------------------------------------------------------------------------------------------------------------------
# One sequence


def _window(model: Model, data: Any, sequence: int, first: int, num_steps: int) -> tuple[Data, Window]:
    """(the sequence alone, the steps of it that are drawn); raises `ZooError` where there are none."""
    whole = model.read(data)
    starts = steps_of(whole).starts
    for name, value, least in (("sequence", sequence, 0), ("first", first, 0), ("num_steps", num_steps, 1)):
        require_whole(name, value, least)
    if sequence >= len(starts) - 1:
        raise ZooError(f"sequence={sequence}: {whole.name} has {len(starts) - 1}, counted from 0")
    length = int(starts[sequence + 1] - starts[sequence])
    if first >= length:
        raise ZooError(f"first={first}: sequence {sequence} has {length} steps, counted from 0")
    last = min(first + num_steps, length)
    if len(starts) == 2:
        part = whole
    elif isinstance(whole.x, Sequences):
        part = take(whole, np.array([sequence]))
    else:
        part = take(whole, np.arange(starts[sequence], starts[sequence + 1]))
    note = f", sequence {sequence + 1} of {len(starts) - 1}" if len(starts) > 2 else ""  # from 1, as steps and tables have it
    note += f", steps {first + 1} to {last} of {length}" if last - first < length else ""
    return part, Window(steps_of(part).table, first, last, note)


def _probabilities(model: Model, source: xr.DataTree | Sites, part: Data) -> np.ndarray:
    """(draws, T, S): p(z_t = i | x, θ) of the only sequence, at some of the draws."""
    require_model(model)
    draws = draws_of(model, source)
    chosen = spread(len(next(iter(draws.values()))), AVERAGED)
    some = {name: leaf[chosen] for name, leaf in draws.items()}
    with x64(64):
        rows = padded(model.rows(forget_labels(model, part)))
        hyper, prior, rows, some = as_arrays((dict(model.hyper), dict(model.prior), rows, some))
        return np.asarray(_at_draws(static_of(model), hyper, prior, rows, some))


@partial(jax.jit, static_argnames=("static",))
def _at_draws(static: Static, hyper: Hyper, prior: Any, rows: Pytree, draws: Sites) -> Array:
    return jax.lax.map(lambda sites: point(static, hyper, prior, rows, sites)["latents"][0], draws)


def _levels(table: Data, column: int) -> tuple[str, ...]:
    return table.categories[column] if table.categories else ()


# ---------------------------------------------------------------------------------------------------------------------
# Panels


def _probability_panel(axis: "Axes", time: np.ndarray, probs: np.ndarray, names: list[str]) -> None:
    mean = probs.mean(0)
    if len(names) > MOST_LINES:
        extent = (time[0] - 0.5, time[-1] + 0.5, len(names) - 0.5, -0.5)
        axis.imshow(mean.T, vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="nearest", extent=extent)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.set_ylabel("state, dark: probable", fontsize=9)
        return
    marker = "." if len(time) <= MOST_STEPS / 3 else ""
    for state, name in enumerate(names):
        if len(probs) > 1:
            axis.fill_between(time, *np.quantile(probs[:, :, state], INTERVAL, axis=0), color=colour(state), alpha=0.25, lw=0)
        axis.plot(time, mean[:, state], color=colour(state), marker=marker, lw=1.2, label=name)
    axis.set(ylim=(-0.03, 1.03))
    axis.set_ylabel("p(state | x)" + (", band: 89 %" if len(probs) > 1 else ""), fontsize=9)
    axis.legend(title="state", fontsize=8, title_fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.spines[["top", "right"]].set_visible(False)


class Strip(NamedTuple):
    """A row of codes, −1 for none."""

    name: str
    codes: np.ndarray
    own: tuple[str, ...] = ()  # levels of codes that are no states


def _strips(window: Window, each: np.ndarray, best: np.ndarray, names: list[str]) -> list[Strip]:
    found = [Strip("most probable state", each), Strip("most probable path", best)]
    table = window.table
    if table.labels is not None and (labels := table.labels[window.first : window.last]).max() >= 0:
        if set(table.levels) <= set(names):
            place = np.array([*(names.index(level) for level in table.levels), -1])
            found.append(Strip(f"{table.label} (label)", place[labels]))
        else:
            found.append(Strip(f"{table.label} (label)", labels, table.levels))
    return found


def _strip_panel(axis: "Axes", time: np.ndarray, strips: list[Strip], size: int) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    few = size <= len(COLOURS)
    of_states = np.array([to_rgba(colour(state)) if few else colormaps["tab20"](state % 20) for state in range(size)])
    cells = np.ones((len(strips), len(time), 4))  # white: nothing is known
    for row, strip in enumerate(strips):
        colours = colormaps["Greys"](np.linspace(0.25, 0.85, len(strip.own))) if strip.own else of_states
        known = strip.codes >= 0
        cells[row, known] = colours[strip.codes[known]]
        if strip.own:
            patches = [Patch(color=shade, label=level) for shade, level in zip(colours, strip.own, strict=True)]
            axis.legend(handles=patches, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.3), handlelength=1)
    extent = (time[0] - 0.5, time[-1] + 0.5, len(strips) - 0.5, -0.5)
    axis.imshow(cells, aspect="auto", interpolation="nearest", extent=extent)
    axis.hlines(np.arange(1, len(strips)) - 0.5, *extent[:2], color="white", lw=3)
    axis.set_yticks(range(len(strips)), [strip.name for strip in strips], fontsize=8)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _observed_panel(axis: "Axes", time: np.ndarray, window: Window, column: int) -> None:
    """Symbols as a strip, written out where there is room; numbers as points."""
    table = window.table
    values, levels = table.x[window.first : window.last, column], _levels(table, column)
    axis.set_ylabel(table.columns[column], fontsize=8, rotation=0, ha="right", va="center")
    axis.tick_params(labelsize=8)
    if not levels:
        axis.plot(time, values, ".-", color="0.3", lw=0.5, ms=4)
        axis.spines[["top", "right"]].set_visible(False)
        return
    extent = (time[0] - 0.5, time[-1] + 0.5, 0.5, -0.5)
    shades = np.ma.masked_invalid(values[None, :])
    axis.imshow(shades, vmin=-0.5, vmax=len(levels), cmap="Purples", aspect="auto", interpolation="nearest", extent=extent)
    axis.set_yticks([])
    size = 7 if len(time) <= STRIP / 8 else 5
    for place, code in zip(time, values, strict=True):
        text = levels[int(code)] if code >= 0 else ""
        if LETTER * size * max(len(text), 1) <= STRIP / len(time):  # where there is room
            ink = "white" if code > 0.6 * len(levels) else "black"
            axis.text(place, 0, text, ha="center", va="center", fontsize=size, color=ink)


def _width(columns: int) -> float:
    return columns * (0.85 if columns <= 8 else 0.34)


def _heat_map(axis: "Axes", draws: np.ndarray, rows: list[str], columns: list[str], darkest: float | None = None) -> None:
    """Means over the draws (draws, rows, columns), written out with their intervals where there is room, else with a scale.

    The ``darkest`` colour is that of the largest mean, unless it is said.
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
