"""The picture of a comparison: a panel for each functional, with a row for each result."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.comparison.table import require_reference
from inference.diagnostics.chains import STILL
from inference.diagnostics.summaries import summarise
from inference.markup.palette import colour
from inference.runtime.files import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, HIGH = 8.3, 11.0  # inches: at most a page
ROW, AROUND, ABOVE = 0.2, 0.62, 1.2  # inches of a row, around the rows of a panel, and for title and label of the figure
NEAR, FAR = 3.0, 12.0  # sd: always within a panel; beyond FAR its scale is logarithmic from NEAR on
ALIKE = 1e-6  # relative: values that vary less are not worth a panel
BAND = "#e4e4e0"


class Forest(NamedTuple):
    """The data of the picture: tables with a row for each of E entries of functionals, and a column for each of R results.

    NaN stands for an entry that a result lacks, and for the ends of the interval of a point estimate.
    """

    centre: pd.DataFrame  # mean over the draws, or the point estimate
    low: pd.DataFrame  # ends of the 89 % interval
    high: pd.DataFrame
    reference: str | None  # distances from its mean in its posterior sd; without one, the values themselves


def forest(trees: Mapping[str, xr.DataTree], reference: str | None = None) -> Forest:
    """The numbers of the picture, from the summaries that every result prints.

    Entries that fewer than two results have, and that do not vary, are left out. Raises `ZooError` for a reference that is not
    among the results, or is a point estimate, which has no posterior sd.
    """
    tables = {name: summarise(tree, "functionals") for name, tree in trees.items()}
    require_reference(reference, tables)
    entries = list(dict.fromkeys(str(entry) for table in tables.values() for entry in table.index))

    def of(column: str, at_a_point: str = "") -> pd.DataFrame:
        named = {name: column if column in table else at_a_point for name, table in tables.items()}
        return pd.DataFrame({name: table.get(named[name], np.nan) for name, table in tables.items()}, entries, dtype=float)

    parts = [of("mean", "value"), of("eti89_lb"), of("eti89_ub")]
    if reference is not None:
        mean, sd = (tables[reference][part].reindex(entries) for part in ("mean", "sd"))
        scale = sd.where(sd > STILL * mean.abs())
        parts = [part.sub(mean, axis=0).div(scale, axis=0) for part in parts]
    centre, low, high = (part.where(np.isfinite(part)) for part in parts)
    shared = centre.notna().sum(axis=1) >= min(2, len(trees))
    moving = (centre.max(axis=1) - centre.min(axis=1)).fillna(0) + (high - low).max(axis=1).fillna(0)
    varying = shared & (moving > ALIKE * (centre.abs().max(axis=1) if reference is None else 1))
    return Forest(centre[varying], low[varying], high[varying], reference)


def draw_forest(shown: Forest) -> "Figure":
    """The picture of at least one entry, at most a page: of more entries, those on which the results differ most."""
    from matplotlib.figure import Figure

    results, entries = list(shown.centre.columns), _chosen(shown)
    wide = min(3, len(entries)) if len(entries) != 4 else 2
    high = -(-len(entries) // wide)
    height = min(HIGH, ABOVE + high * _panel(len(results)))
    figure = Figure(figsize=(WIDE if wide > 1 else 0.75 * WIDE, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.06)  # type: ignore[union-attr, call-arg]  # the constrained one
    axes = figure.subplots(high, wide, squeeze=False, sharey=True)
    for axis in axes.ravel()[len(entries) :]:
        figure.delaxes(axis)
    stretched = [_rows(axis, shown, entry) for axis, entry in zip(axes.ravel(), entries, strict=False)]
    size = min(8.5, 60 * (height - ABOVE) / high / (len(results) + 2))
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(results)), [_in_lines(name) for name in results], fontsize=size)
        for label in axis.get_yticklabels():
            label.set_parse_math(False)
    axes[0, 0].set_ylim(len(results) - 0.4, -0.6)
    few = "" if len(entries) == len(shown.centre) else f", {len(entries)} of {len(shown.centre)}: where results differ most"
    figure.suptitle(f"Functionals of {len(results)} result{'s' if len(results) > 1 else ''}{few}", fontsize=11)
    figure.supxlabel(_unit(shown, any(stretched)), fontsize=9, parse_math=False)
    return figure


def plot_forest(trees: Mapping[str, xr.DataTree], path: str | Path, reference: str | None = None) -> bool:
    """Write the picture of a comparison to ``path``; returns False, without a file, if no functional varies.

    A point is the mean of the draws, with its 89 % interval, or a point estimate, which is hollow. Functionals have different
    scales: with a ``reference``, each is shown as its distance from the reference's mean in the reference's posterior sd, with
    a line at 0 and a band of ±1 sd. Without one, the values themselves are shown. Raises `ZooError` as `forest` does.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> trees = {str(seed): fit(model, data, "em", seed=seed, max_iter=3, num_starts=1) for seed in (1, 2)}
    >>> plot_forest(trees, "comparison.png")
    True
    """
    summaries = forest(trees, reference)
    if summaries.centre.empty:  # such as for a single point
        return False
    write_figure(path, draw_forest(summaries), dpi=130)
    return True


def _panel(results: int) -> float:
    """Inches of a panel."""
    return AROUND + ROW * results


def _chosen(summaries: Forest) -> Sequence[str]:
    """The entries that a page has room for, in their order: those with the largest differences."""
    room = 3 * max(1, int((HIGH - ABOVE) / _panel(summaries.centre.shape[1])))
    if len(summaries.centre) <= room:
        return list(summaries.centre.index)
    range_of = summaries.centre.max(axis=1) - summaries.centre.min(axis=1)
    if summaries.reference is None:  # units differ
        range_of /= (summaries.high.max(axis=1) - summaries.low.min(axis=1)).fillna(summaries.centre.abs().max(axis=1))
    largest = set(range_of.sort_values(ascending=False, kind="stable").index[:room])
    return [entry for entry in summaries.centre.index if entry in largest]


def _rows(axis: "Axes", summaries: Forest, entry: str) -> bool:
    """Draw one panel; returns whether its scale is logarithmic far from 0."""
    from matplotlib.ticker import MaxNLocator

    centre, low, high = (part.loc[entry].to_numpy() for part in (summaries.centre, summaries.low, summaries.high))
    if summaries.reference is not None:
        axis.axvspan(-1, 1, color=BAND, lw=0, zorder=0)
        axis.axvline(0, color="black", lw=0.8, zorder=1)
    for place, (name, x, left, right) in enumerate(zip(summaries.centre.columns, centre, low, high, strict=True)):
        if np.isnan(x):
            continue
        shade, drawn = colour(place), not np.isnan(left)
        if drawn:
            axis.hlines(place, left, right, color=shade, lw=2, zorder=2)
        shape = "D" if name == summaries.reference else "o"
        axis.plot(x, place, shape, ms=5, mec=shade, mew=1.4, mfc=shade if drawn else "white", zorder=3)
    axis.set_title(textwrap.shorten(entry, 44, placeholder="…"), fontsize=9, parse_math=False)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(axis="y", color="#eeeeee", lw=0.6)
    axis.set_axisbelow(True)
    ends = np.concatenate([centre, low, high])
    ends = ends[~np.isnan(ends)]
    if summaries.reference is None:
        axis.margins(x=0.08)
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.xaxis.get_offset_text().set_fontsize(8)
        return False
    least, most = min(-NEAR, float(ends.min())), max(NEAR, float(ends.max()))
    stretched = max(-least, most) > FAR
    if stretched:
        axis.set_xscale("symlog", linthresh=NEAR, linscale=1.5)
        shown = [*(-tick for tick in _far(-least)[::-1]), 0.0, *_far(most)]
        axis.set_xticks(shown, [f"{tick:g}".replace("-", "−") for tick in shown])
        axis.minorticks_off()
        axis.set_xlim(1.3 * least, 1.3 * most)
    else:
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        room = 0.04 * (most - least)
        axis.set_xlim(least - room, most + room)
    return stretched


def _far(end: float) -> list[float]:
    """Where a scale that is logarithmic from `NEAR` on has ticks, up to ``end``: few enough to stay apart.

    >>> _far(5.0), _far(2e6)
    ([3.0], [10.0, 10000.0])
    """
    powers = 10.0 ** np.arange(1, np.log10(max(end, NEAR)) + 1e-9)
    return powers[:: 1 + len(powers) // 3].tolist() or [NEAR]


def _unit(summaries: Forest, stretched: bool) -> str:
    drawn = bool(summaries.low.notna().any(axis=None))
    points = bool((summaries.low.isna() & summaries.centre.notna()).any(axis=None))
    marks = ["filled: mean, with its 89 % interval"] * drawn + ["hollow: point estimate"] * points
    if summaries.reference is None:
        return "value of the functional in its own unit\n" + "; ".join(marks)
    unit = f"distance from the mean of {summaries.reference}, in its posterior sd; grey: ±1 sd"
    return f"{unit}{f'; logarithmic beyond ±{NEAR:g}' if stretched else ''}\n" + "; ".join(marks)


def _in_lines(name: str) -> str:
    """A name in at most two lines."""
    lines = textwrap.wrap(name, 26, max_lines=2, placeholder="…")
    return "\n".join(lines)
