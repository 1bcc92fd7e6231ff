"""Pictures of states over time: their probabilities along some sequences, the paths, and what was observed."""

from collections.abc import Sequence
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
from inference.plots.components import INTERVAL, title_of
from inference.results.draws import draws_of, forget_labels
from inference.results.table import latent_dim
from inference.runtime.files import write_figure
from inference.sequences.decoding import require_sequential, states
from models.base import Data, Hyper, Model, Pytree, Sites, ZooError
from models.chains.padding import padded
from models.chains.sequences import steps_of
from models.data.arguments import require_whole
from models.data.documents import Sequences
from models.data.table import SEQUENCE_NAME, take
from models.rows.encoded import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

AVERAGED = 200  # draws, evenly spread
MOST_SEQUENCES = 6  # that a run draws
MOST_STEPS = 150  # of a sequence that are drawn by default
MOST_LINES = 8  # states that have a line each; more are a heat map
MOST_COLUMNS = 3  # of observations, under the states
STRIP, LETTER = 600, 0.65  # points: width of a strip; of a letter, by size
LONGEST = 40  # letters of the name of a sequence in a title


class Window(NamedTuple):
    """Some steps of one sequence."""

    table: Data  # of all its steps
    first: int
    last: int  # the first step after them
    note: str  # "" for all steps of the only sequence


class Heights(NamedTuple):
    """Heights of the panels of one sequence, in inches."""

    probs: float
    strip: float
    levels: float
    numbers: float
    rest: float  # title and axis


ALONE, AMONG = Heights(2.6, 0.3, 0.35, 1.1, 1.4), Heights(1.4, 0.25, 0.3, 0.7, 1.0)


def plot_states(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    path: str | Path | None = None,
    sequence: int | Sequence[int] = 0,
    first: int = 0,
    num_steps: int = MOST_STEPS,
) -> "Figure":
    """p(z_t = i | x) over the steps of sequences, with the observations under it; written to ``path`` if there is one.

    ``sequence`` and ``first`` count from 0; of each sequence ``num_steps`` steps from there on are drawn. Several sequences
    stand one under the other. A line a state, with a band over its 89 % interval over the draws of a result, each of which
    counts alike: how unsure the parameters leave it. Of more than `MOST_LINES` states a heat map.
    The strip under it holds the most probable state of every step, the most probable path, and the labels of the data, which do
    not enter the states above. The title warns where states are mixed up over the draws. Raises `ZooError` for a model
    without states that follow each other, or steps that do not exist.

    >>> data = load_data("ice_cream")
    >>> model = MODELS["hmm"](data, num_states=2)
    >>> figure = plot_states(model, fit(model, data, "em"), data, "states.png")
    """
    from matplotlib.figure import Figure

    require_sequential(model)
    whole = model.read(data)
    chosen = _chosen(whole, sequence)
    windows = [_window(whole, number, first, num_steps) for number in chosen]
    part = _only(whole, chosen)
    probs = _probabilities(model, source, part)  # (draws, sequences, steps, S)
    best = states(model, source, part, fitted=True)["viterbi"].values
    names = [str(name) for name in model.naming.coords[latent_dim(model)]]
    heights = ALONE if len(windows) == 1 else AMONG
    sizes = [_panel_heights(window, heights) for window in windows]
    figure = Figure(figsize=(10, sum(heights.rest + sum(each) for each in sizes)), layout="constrained")
    title = f"{model.name}: probabilities of the states"
    if len(windows) == 1:
        title += f", {windows[0].note}" if windows[0].note else ""
        parts: Sequence[Figure | SubFigure] = [figure]
    else:
        total = len(steps_of(whole).starts) - 1
        title += f", {len(windows)} of {total} sequences" if len(windows) < total else f", {total} sequences"
        ratios = [heights.rest + sum(each) for each in sizes]
        parts = list(figure.subfigures(len(windows), 1, squeeze=False, height_ratios=ratios)[:, 0])
        for strip, window in zip(parts, windows, strict=True):
            strip.suptitle(window.note, fontsize=10)
    for place, (strip, window, size) in enumerate(zip(parts, windows, sizes, strict=True)):
        steps = slice(window.first, window.last)
        _draw_sequence(strip, window, probs[:, place, steps], best[place, steps], names, size)
    figure.suptitle(title_of(title, source, "states"), fontsize=11)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def some_sequences(model: Model, data: Any) -> list[int]:
    """Up to `MOST_SEQUENCES` sequences, evenly spaced from the first to the last."""
    return [int(place) for place in spread(len(steps_of(model.read(data)).starts) - 1, MOST_SEQUENCES)]


def _chosen(whole: Data, sequence: int | Sequence[int]) -> list[int]:
    """The requested sequences; raises `ZooError` for one that does not exist."""
    given: list[Any] = [sequence] if np.ndim(sequence) == 0 else list(sequence)  # type: ignore[arg-type]
    total = len(steps_of(whole).starts) - 1
    if not given:
        raise ZooError("sequence=[]: name at least one sequence, counted from 0")
    for one in given:
        require_whole("sequence", one, 0)
        if one >= total:
            raise ZooError(f"sequence={one}: {whole.name} has {total}, counted from 0")
    return [int(one) for one in given]


def _only(whole: Data, chosen: list[int]) -> Data:
    starts = steps_of(whole).starts
    if len(starts) == 2 and len(chosen) == 1:
        return whole
    if isinstance(whole.x, Sequences):
        return take(whole, np.array(chosen))
    return take(whole, np.concatenate([np.arange(starts[number], starts[number + 1]) for number in chosen]))


def _window(whole: Data, sequence: int, first: int, num_steps: int) -> Window:
    """Some steps of a sequence; raises `ZooError` where there are none."""
    starts = steps_of(whole).starts
    for name, value, least in (("first", first, 0), ("num_steps", num_steps, 1)):
        require_whole(name, value, least)
    length = int(starts[sequence + 1] - starts[sequence])
    if first >= length:
        raise ZooError(f"first={first}: sequence {sequence} has {length} steps, counted from 0")
    last = min(first + num_steps, length)
    notes = [_title(whole, sequence, len(starts) - 1)] if len(starts) > 2 else []
    notes += [f"steps {first + 1} to {last} of {length}"] if last - first < length else []
    return Window(steps_of(_only(whole, [sequence])).table, first, last, ", ".join(notes))


def _title(whole: Data, sequence: int, total: int) -> str:
    """The name of a sequence if the table has one, and its number from 1, as steps and tables have it."""
    names = dict(whole.kept_columns).get(SEQUENCE_NAME)
    if names is None:
        return f"sequence {sequence + 1} of {total}"
    name = str(names[steps_of(whole).starts[sequence]])
    shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return f"sequence {shown} ({sequence + 1} of {total})"


def _probabilities(model: Model, source: xr.DataTree | Sites, part: Data) -> np.ndarray:
    """(draws, N, T, S): p(z_t = i | x, θ) of all sequences, at some of the draws."""
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
    return jax.lax.map(lambda sites: point(static, hyper, prior, rows, sites)["latents"], draws)


# ---------------------------------------------------------------------------------------------------------------------
# Panels


def _shown_columns(window: Window) -> range:
    return range(min(len(window.table.columns), MOST_COLUMNS))


def _panel_heights(window: Window, heights: Heights) -> list[float]:
    observed = [heights.levels if _levels(window.table, d) else heights.numbers for d in _shown_columns(window)]
    return [heights.probs, heights.strip * (2 + (_labels(window) is not None)), *observed]


def _draw_sequence(
    figure: "Figure | SubFigure", window: Window, probs: np.ndarray, best: np.ndarray, names: list[str], heights: list[float]
) -> None:
    """The panels of one sequence, from probabilities (draws, steps, S) and the most probable path (steps,)."""
    from matplotlib.ticker import MaxNLocator

    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    time = np.arange(window.first, window.last) + 1
    _probability_panel(panels[0], time, probs, names)
    _strip_panel(panels[1], time, _strips(window, probs.mean(0).argmax(1), best, names), len(names))
    for axis, d in zip(panels[2:], _shown_columns(window), strict=True):
        _observed_panel(axis, time, window, d)
    panels[-1].set(xlabel="step", xlim=(time[0] - 0.5, time[-1] + 0.5))
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))


def _levels(table: Data, column: int) -> tuple[str, ...]:
    return table.categories[column] if table.categories else ()


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
    axis.set_ylabel("p(state | x)" + ("\nband: 89 %" if len(probs) > 1 else ""), fontsize=9)
    axis.legend(title="state", fontsize=8, title_fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.spines[["top", "right"]].set_visible(False)


class Strip(NamedTuple):
    """A row of codes, −1 for none."""

    name: str
    codes: np.ndarray
    levels: tuple[str, ...] = ()  # levels of codes that are no states


def _labels(window: Window) -> np.ndarray | None:
    """The labels of the steps; None where none of them has one."""
    labels = window.table.labels
    in_window = None if labels is None else labels[window.first : window.last]
    return in_window if in_window is not None and in_window.max() >= 0 else None


def _strips(window: Window, each: np.ndarray, best: np.ndarray, names: list[str]) -> list[Strip]:
    strips = [Strip("most probable state", each), Strip("most probable path", best)]
    table, labels = window.table, _labels(window)
    if labels is not None:
        if set(table.levels) <= set(names):
            place = np.array([*(names.index(level) for level in table.levels), -1])
            strips.append(Strip(f"{table.label} (label)", place[labels]))
        else:
            strips.append(Strip(f"{table.label} (label)", labels, table.levels))
    return strips


def _strip_panel(axis: "Axes", time: np.ndarray, strips: list[Strip], size: int) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    few = size <= len(COLOURS)
    of_states = np.array([to_rgba(colour(state)) if few else colormaps["tab20"](state % 20) for state in range(size)])
    cells = np.ones((len(strips), len(time), 4))  # white: nothing is known
    for row, strip in enumerate(strips):
        colours = colormaps["Greys"](np.linspace(0.25, 0.85, len(strip.levels))) if strip.levels else of_states
        known = strip.codes >= 0
        cells[row, known] = colours[strip.codes[known]]
        if strip.levels:
            patches = [Patch(color=shade, label=level) for shade, level in zip(colours, strip.levels, strict=True)]
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
