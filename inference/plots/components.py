"""Pictures for those who know the columns, not the parameters: profiles of components, and loadings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from inference.diagnostics.summaries import trusted
from inference.fitting.prepare import require_model, x64
from inference.identification.rotation import vectors
from inference.identification.symmetry import column_scale
from inference.markup.palette import colour
from inference.results.draws import draws_of
from inference.results.table import data_of, latent_dim
from inference.results.tree import table_of, values
from inference.runtime.files import write_figure
from models.abilities import Expected
from models.base import Model, Sites, ZooError
from models.reading.repairs import date_columns, titles
from models.rows.encoded import spread
from models.symmetries import Reflection, Rotation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

AVERAGED = 500  # draws, evenly spread
MOST_COLUMNS = 24  # drawn: those that tell the components apart best
ABREAST = 3  # panels: more would be small on a page
MOST_LOADED = 40
WEAK = 0.3  # a loading of less explains below a tenth of the column's variance
NARROWEST = 6.4  # inches: a title has room
MOST_LEVELS = 8  # of a column of categories with separate colours
INTERVAL = (0.055, 0.945)  # equal tails, as in the summary


class Described(NamedTuple):
    """A column in every component, over the draws."""

    name: str
    levels: tuple[str, ...]  # () for numbers and counts
    expected: np.ndarray  # (K,), or (K, levels)
    interval: np.ndarray | None  # (2, K): of the expectation under the posterior; None at a point, and for categories
    sd: np.ndarray | None  # (K,): of the column given the component
    separation: float  # share of the column's variance that lies between the components, for equally many rows in each
    least: float | None = None  # lower bound of the rows: 0 for counts
    variance: np.ndarray | None = None  # (K,): of numbers and counts, averaged over the draws
    covariance: np.ndarray | None = None  # (K, D): of numbers, with all columns; None: with none of them
    place: int = 0  # among the columns of the model
    title: str = ""  # its name, with its unit where it was read in one
    is_date: bool = False  # whether its numbers are days since 1970


def profile(model: Model, source: xr.DataTree | Sites) -> list[Described]:
    """Every column in every component, averaged over the draws of a result, or at a dict of sites.

    Raises `ZooError` for a model whose rows are not made of columns.
    """
    require_model(model)
    cells = model.reading.layout if model.abilities.table is None else model.abilities.table.cells
    if model.abilities.profile is None or (cells is None and "feature" not in model.naming.coords):
        raise ZooError(f"the rows of {model.name} are not made of columns, so there is no profile to draw")
    draws = draws_of(model, source)
    chosen = spread(len(next(iter(draws.values()))), AVERAGED)
    with x64(64):
        averages = jax.tree.map(
            np.asarray, jax.jit(jax.vmap(model.abilities.profile))({name: leaf[chosen] for name, leaf in draws.items()})
        )
    names = [str(name) for name in model.naming.coords["feature"]] if cells is None else list(cells.columns)
    levels = ((),) * len(names) if cells is None else cells.categories
    described = [_described(name, names_of, each) for name, names_of, each in zip(names, levels, averages, strict=True)]
    notes = data_of(source).notes if isinstance(source, xr.DataTree) else ()
    named, dates = titles(notes), date_columns(notes)
    return [
        column._replace(place=place, title=named.get(column.name, column.name), is_date=column.name in dates)
        for place, column in enumerate(described)
    ]


def _described(name: str, levels: tuple[str, ...], draws: Expected) -> Described:
    mean, variance = np.asarray(draws.mean).mean(0), draws.variance
    between = mean.var(0).sum()
    if variance is None:
        overall = mean.mean(0)
        return Described(name, levels, mean, None, None, _share(between, (overall * (1 - overall)).sum()))
    interval = np.quantile(draws.mean, INTERVAL, axis=0) if len(draws.mean) > 1 else None
    sd = np.sqrt(np.asarray(variance)).mean(0)
    if np.allclose(variance, draws.mean * (1 - draws.mean), rtol=1e-9, atol=0):  # for zeros and ones the mean determines all
        sd = np.zeros_like(sd)
    least = 0.0 if np.array_equal(variance, draws.mean) else None  # Poisson: counts
    covariance = None if draws.covariance is None else np.asarray(draws.covariance).mean(0)
    separation = _share(between, between + np.asarray(variance).mean())
    return Described(name, (), mean, interval, sd, separation, least, np.asarray(variance).mean(0), covariance)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def plot_profile(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> "Figure":
    """Profiles of the components, a panel a column in the units of the table; written to ``path`` if there is one.

    Numbers and counts: a dot at the expectation, a thick bar over its 89 % posterior interval, a thin line over ± one standard
    deviation of the rows of the component, which does not go below zero for counts. Categories: bars stacked by level. Of more
    than `MOST_COLUMNS` columns those that tell the components apart best, in the table's order. The title warns where labels
    are not to be trusted.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> figure = plot_profile(model, fit(model, data, "em"), "profile.png")
    """
    return draw_profile(model, source, profile(model, source), path)


def draw_profile(
    model: Model, source: xr.DataTree | Sites, columns: list[Described], path: str | Path | None = None
) -> "Figure":
    """`plot_profile` of columns that are already described."""
    figure, note = draw_columns(columns, component_names(model, source, len(columns[0].expected)), "component's rows")
    figure.suptitle(title_of(f"{model.name}: profiles of the components{note}", source, "components"), fontsize=11)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def draw_columns(columns: list[Described], names: list[str], spread_of: str) -> "tuple[Figure, str]":
    """(a panel a column with its components by their ``names``, a note where some columns were left out)."""
    from matplotlib.figure import Figure

    shown = sorted(sorted(range(len(columns)), key=lambda d: -columns[d].separation)[:MOST_COLUMNS])
    high = -(-len(shown) // ABREAST)
    wide = -(-len(shown) // high)
    figure = Figure(figsize=(max(0.9 + 3.1 * wide, NARROWEST), high * (1.25 + 0.3 * len(names)) + 0.8), layout="constrained")
    for number, d in enumerate(shown):
        axis = figure.add_subplot(high, wide, number + 1)
        (_stack if columns[d].levels else _dots)(axis, columns[d])
        axis.set_title(columns[d].title, fontsize=10)
        if columns[d].is_date:
            format_as_dates(axis.xaxis)
        axis.set(ylim=(len(names) - 0.5, -0.5), yticks=range(len(names)))
        axis.set_yticklabels(names if number % wide == 0 else [], fontsize=9)
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    bar = "" if all(column.interval is None for column in columns) else " and its 89 % interval"
    if any(not columns[d].levels for d in shown):
        lines = any(column.sd is not None and column.sd.any() for column in columns)
        line = f";\nline: ± one standard deviation (Student-t: scale) of the {spread_of}" if lines else ""
        figure.supxlabel(f"dot: expectation{bar}{line}", fontsize=9)
    return figure, f", {len(shown)} of {len(columns)} columns" if len(shown) < len(columns) else ""


def format_as_dates(way: "Axis") -> None:
    """Write the numbers along an axis as dates: they are days since 1970, as those of matplotlib are."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=4)
    way.set_major_locator(locator)
    formats = ["%Y", "%Y-%m", "%d %b", "%H:%M", "%H:%M", "%S"]
    way.set_major_formatter(ConciseDateFormatter(locator, formats=formats, zero_formats=formats, show_offset=False))


def title_of(title: str, source: Any, what: str) -> str:
    """The title, with a warning where the labels of ``what`` are mixed up over the draws."""
    if isinstance(source, xr.DataTree) and not trusted(source):
        title += f"\nlabels are not to be trusted: {what} are mixed up over the draws"
    return title


def plot_loadings(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> "Figure":
    """Loadings in units of the columns' standard deviations, a panel a factor; written to ``path`` if there is one.

    A dot at the mean over the draws, with a bar over its 89 % posterior interval. Columns stand with the factor on which they
    load most, the largest first; loadings below `WEAK` are pale. Of more than `MOST_LOADED` columns those with the largest
    loadings. The title warns where factors are not told apart. Raises `ZooError` for a model without factors.

    >>> data = load_data("iris")
    >>> model = MODELS["factor_analysis"](data, num_factors=1)
    >>> figure = plot_loadings(model, fit(model, data, "em"), "loadings.png")
    """
    from matplotlib.figure import Figure

    require_model(model)
    if not isinstance(model.symmetry, Rotation | Reflection):
        raise ZooError(f"{model.name} has no factors, so there are no loadings to draw")
    site = vectors(model.symmetry, model.naming.dims, draws := draws_of(model, source))
    standard = np.asarray(draws[site]) / np.reshape(column_scale(model, model.symmetry), (-1, 1))  # (S, D, L)
    order = by_factor(standard.mean(0))[:MOST_LOADED]
    labels = [str(name) for name in model.naming.coords[model.naming.dims[site][0]]]
    wide = standard.shape[2]
    figure = Figure(figsize=(max(1.6 + 2.4 * wide, NARROWEST), 1.6 + 0.24 * len(order)), layout="constrained")
    panels = figure.subplots(1, wide, sharex=True, sharey=True, squeeze=False)[0]
    for factor, axis in enumerate(panels):
        _loadings(axis, standard[:, order, factor], factor)
        axis.set_title(f"{model.symmetry.dim} {model.naming.coords[model.symmetry.dim][factor]}", fontsize=10)
        axis.set_yticks(range(len(order)), [labels[d] for d in order], fontsize=9)
    title = f"{model.name}: loadings, in standard deviations of the column"
    if len(order) < len(labels):
        title += f", {len(order)} of {len(labels)} columns"
    if isinstance(source, xr.DataTree) and not trusted(source):
        title += "\nfactors are not to be trusted: the draws do not tell them apart"
    figure.suptitle(title, fontsize=11)
    figure.supxlabel(f"pale: below {WEAK} in size", fontsize=9)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def by_factor(mean: np.ndarray) -> np.ndarray:
    """The columns that have the largest of all loadings (D, L), by the factor on which they load most, the largest first."""
    size, factor = np.abs(mean).max(1), np.abs(mean).argmax(1)
    largest = np.argsort(-size, kind="stable")[:MOST_LOADED]
    return largest[np.argsort(factor[largest], kind="stable")]


def _loadings(axis: "Axes", draws: np.ndarray, factor: int) -> None:
    """One factor: the loadings (S, D) of the columns, top down."""
    from matplotlib.colors import to_rgba

    mean, places = draws.mean(0), np.arange(draws.shape[1])
    strength = np.where(np.abs(mean) < WEAK, 0.3, 1.0)
    axis.axvspan(-WEAK, WEAK, color="0.95", lw=0, zorder=0)
    axis.axvline(0, color="0.7", lw=1, zorder=0)
    if len(draws) > 1:
        low, high = np.quantile(draws, INTERVAL, axis=0)
        axis.hlines(places, low, high, color=colour(factor), lw=5, alpha=0.5 * strength)
    axis.scatter(mean, places, s=26, color=[to_rgba(colour(factor), each) for each in strength], lw=0)
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.spines[["top", "right"]].set_visible(False)


def _dots(axis: "Axes", column: Described) -> None:
    for k, centre in enumerate(column.expected):
        assert column.sd is not None
        style: dict[str, Any] = {"color": colour(k)}
        low = centre - column.sd[k]
        axis.plot([low if column.least is None else max(low, column.least), centre + column.sd[k]], [k, k], lw=1, **style)
        if column.interval is not None:
            axis.plot(column.interval[:, k], [k, k], lw=5, alpha=0.5, solid_capstyle="butt", **style)
        axis.plot(centre, k, "o", ms=5, **style)
    if column.sd is not None and not column.sd.any():
        axis.set_xlim(-0.03, 1.03)


def _stack(axis: "Axes", column: Described) -> None:
    """Levels in the table's order; where there are many, the rarest share one colour."""
    from matplotlib import colormaps

    common = np.sort(np.argsort(-column.expected.mean(0), kind="stable")[:MOST_LEVELS])
    colours = colormaps["Set2"](np.arange(len(common)))  # none of those of the components
    bars = [(column.levels[level], column.expected[:, level], colours[i]) for i, level in enumerate(common)]
    if len(common) < len(column.levels):
        rest = np.delete(column.expected, common, axis=1).sum(1)
        bars.append((f"{len(column.levels) - len(common)} other levels", rest, "grey"))
    left = np.zeros(len(column.expected))
    for name, probs, shade in bars:
        axis.barh(np.arange(len(probs)), probs, left=left, height=0.7, color=shade, label=name)
        left = left + probs
    axis.set_xlim(0, 1)
    axis.legend(fontsize=7, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12), handlelength=1)


def row_weights(tree: xr.DataTree) -> np.ndarray | None:
    """(N,): how much each row of the table of a result counts; None where all count alike."""
    table = table_of(tree)
    return np.asarray(table["weight"], dtype=float) if "weight" in table else None


def component_names(model: Model, source: Any, size: int) -> list[str]:
    dim = latent_dim(model)
    names = [f"{dim} {name}" for name in model.naming.coords.get(dim, range(size))]
    if not (isinstance(source, xr.DataTree) and "latent" in source and "responsibilities" in source["latent"]):
        return names  # of sequences: states are not those of rows
    shares = np.average(values(source, "latent", "responsibilities"), axis=0, weights=row_weights(source))
    return [f"{name} ({share:.0%})" for name, share in zip(names, shares, strict=True)]
