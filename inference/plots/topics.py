"""Pictures of topics: their most probable words, or the pictures that they are; and how far they are from each other."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from inference.plots.components import INTERVAL, title_of
from inference.runtime.files import write_figure
from inference.topics.access import Topics, by_share, most_probable, topics_of
from inference.topics.relevance import jensen_shannon, scaled
from inference.topics.stability import disagreement
from models.base import Model, Sites, ZooError
from models.data.arguments import require_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TOPICS = 24  # panels: the largest topics
MOST_LETTERS = 16  # of a word
PIXEL = re.compile(r"(\D*)(\d+)(\D+)(\d+)(\D*)", re.ASCII)  # the numbers of a row and of a column
BAR, IMAGE = "#4878a8", "Greys"


class PixelGrid(NamedTuple):
    """Where the words of a vocabulary lie, where they are the pixels of a picture."""

    height: int
    width: int
    place: np.ndarray  # (V,): row by row


def grid_of(words: list[str]) -> PixelGrid | None:
    """The picture whose pixels the words name: two whole numbers, row and column, in one and the same text, as "1,1" or "p1x1".

    None unless every pixel of a rectangle of two rows and columns or more is there once.
    """
    matches = [PIXEL.fullmatch(word) for word in words]
    texts = {match.group(1, 3, 5) if match else None for match in matches}
    if len(texts) != 1 or None in texts:
        return None
    pixels = np.array([match.group(2, 4) for match in matches if match], dtype=float)
    row, column = (np.unique(numbers, return_inverse=True) for numbers in pixels.T)
    if not all(len(numbers) > 1 and np.ptp(numbers) == len(numbers) - 1 for numbers, _ in (row, column)):
        return None
    height, width = len(row[0]), len(column[0])
    place = row[1] * width + column[1]
    return PixelGrid(height, width, place) if len(np.unique(place)) == len(words) == height * width else None


def plot_topics(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None, num_words: int = 10) -> "Figure":
    """The topics, a panel each, the largest first by their mean share of a document; written to ``path`` if there is one.

    Bars are the means of the ``num_words`` most probable words over the draws of a result, all on one scale, with a line over
    the 89 % interval of the draws. Words that are named as the pixels of a picture, "1,1", "1,2", …, are drawn as such. Of more
    than `MOST_TOPICS` topics the largest. The title warns where topics are mixed up over the draws, and where chains disagree
    (`inference.topic_stability`). Raises `ZooError` for a model without topics.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> figure = plot_topics(model, fit(model, data, "em"), "topics.png", num_words=3)
    """
    from matplotlib.figure import Figure

    require_whole("num_words", num_words)
    topics = topics_of(model, source)
    order, share = by_share(topics)
    shown, grid = order[:MOST_TOPICS], grid_of(topics.words)
    most = 4 if grid is None else 6
    high = -(-len(shown) // most)
    wide = -(-len(shown) // high)
    number = min(num_words, len(topics.words))
    size = (2.8 * wide, 0.6 + 0.19 * number) if grid is None else (1.5 * wide, 1.7)
    figure = Figure(figsize=(max(size[0], 6.4), high * size[1] + 0.7), layout="constrained")
    panels = figure.subplots(high, wide, squeeze=False).ravel()
    mean = topics.word_probs.mean(0)
    for axis, k in zip(panels, shown, strict=False):
        if grid is None:
            _bars(axis, topics, mean, int(k), number, float(mean[shown].max()))
        else:
            _pixels(axis, grid, mean[k], float(mean[shown].max()))
        axis.set_title(f"topic {topics.names[k]}" + ("" if share is None else f" ({share[k]:.0%})"), fontsize=9)
    for axis in panels[len(shown) :]:
        axis.axis("off")
    title = f"{model.name}: {_what(topics, grid, len(shown))}"
    figure.suptitle(_doubted(title, source), fontsize=11)
    _explain(figure, topics, grid, share is not None)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure


def _doubted(title: str, source: Any) -> str:
    return "\n".join(filter(None, [title_of(title, source, "topics"), disagreement(source)]))


def _what(topics: Topics, grid: PixelGrid | None, shown: int) -> str:
    few = f", the {shown} largest of {len(topics.names)}" if shown < len(topics.names) else ""
    return ("topics as pictures" if grid is not None else "most probable words of the topics") + few


def _explain(figure: "Figure", topics: Topics, grid: PixelGrid | None, shares: bool) -> None:
    what = "dark: probable" if grid is not None else "probability of the word in the topic"
    if len(topics.word_probs) > 1:
        what += ", mean over the draws" + ("" if grid is not None else " with its 89 % interval")
    figure.supxlabel(what + ("; in brackets: mean share of a document" if shares else ""), fontsize=9)


def _bars(axis: "Axes", topics: Topics, mean: np.ndarray, k: int, number: int, largest: float) -> None:
    places = most_probable(mean[k : k + 1], number)[0]
    axis.barh(range(number), mean[k, places], color=BAR, height=0.7)
    high = largest
    if len(topics.word_probs) > 1:
        interval = np.quantile(topics.word_probs[:, k, places], INTERVAL, axis=0)
        axis.hlines(range(number), *interval, color="black", lw=1)
        high = max(largest, float(np.quantile(topics.word_probs.max((1, 2)), INTERVAL[1])))
    axis.set_yticks(range(number), [_short(topics.words[v]) for v in places], fontsize=8)
    axis.set(xlim=(0, 1.05 * high), ylim=(number - 0.5, -0.5))
    axis.tick_params(axis="x", labelsize=7)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right"]].set_visible(False)


def _short(word: str) -> str:
    """A word where there is room for it; a dollar sign would begin a formula."""
    word = word if len(word) <= MOST_LETTERS else f"{word[: MOST_LETTERS - 1]}…"
    return word.replace("$", r"\$")


def _pixels(axis: "Axes", grid: PixelGrid, probs: np.ndarray, largest: float) -> None:
    picture = np.zeros(grid.height * grid.width)
    picture[grid.place] = probs
    axis.imshow(picture.reshape(grid.height, -1), vmin=0, vmax=largest, cmap=IMAGE, interpolation="nearest")
    axis.set(xticks=[], yticks=[])


# ---------------------------------------------------------------------------------------------------------------------
# Distances


def plot_topic_map(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> "Figure":
    """Topics as discs in the plane, near where their words are alike; written to ``path`` if there is one.

    Distances are roots of Jensen-Shannon divergences between the means over draws, brought to two dimensions by classical
    scaling; areas are mean shares of a document. Topics lie in many dimensions: the title has the share of their squared
    distances that the plane keeps, and where that is small, neighbours there need not be alike. Raises `ZooError` for less than
    three topics.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=3)
    >>> figure = plot_topic_map(model, fit(model, data, "em"), "map.png")
    """
    from matplotlib.figure import Figure

    topics = topics_of(model, source)
    if len(topics.names) < 3:
        raise ZooError("a map needs three topics or more")
    order, share = by_share(topics)
    mean = topics.word_probs.mean(0)
    scaling = scaled(jensen_shannon(mean))
    share = np.full(len(mean), 1 / len(mean)) if share is None else share
    figure = Figure(figsize=(7, 6), layout="constrained")
    axis = figure.add_subplot()
    axis.scatter(
        scaling.points[order, 0], scaling.points[order, 1], s=9000 * share[order], color=BAR, alpha=0.35, edgecolor="white"
    )
    for k in order:
        words = [topics.words[v] for v in most_probable(mean[k : k + 1], 2)[0]]
        axis.annotate(
            f"{topics.names[k]}\n{', '.join(map(_short, words))}", scaling.points[k], ha="center", va="center", fontsize=7
        )
    axis.margins(0.15)
    axis.set(aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    title = f"{model.name}: distances of topics; the plane keeps {scaling.explained:.0%} of their squares"
    figure.suptitle(_doubted(title, source), fontsize=11)
    figure.supxlabel("Jensen-Shannon distances, classical scaling; area: mean share of a document", fontsize=9)
    if path is not None:
        write_figure(path, figure, dpi=110)
    return figure
