"""The parts of pictures of runs: points in the colours of their groups, centres, ellipses, lines."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from inference.markup.palette import colour

MARGIN = 0.2  # about the points, as a share of their range


def scatter(axes: Any, x: np.ndarray, labels: np.ndarray | None, centres: np.ndarray) -> None:
    """Points in the colours of their groups (grey without labels), and the centres as crosses."""
    colours = ["#999999"] * len(x) if labels is None else [colour(int(label)) for label in labels]
    axes.scatter(x[:, 0], x[:, 1], s=7, c=colours, alpha=0.7, linewidths=0)
    low, high = np.nanmin(x, axis=0), np.nanmax(x, axis=0)
    axes.set_xlim(low[0] - MARGIN * (high - low)[0], high[0] + MARGIN * (high - low)[0])
    axes.set_ylim(low[1] - MARGIN * (high - low)[1], high[1] + MARGIN * (high - low)[1])
    for k, centre in enumerate(centres):
        axes.plot(*centre[:2], "X", color=colour(k), markeredgecolor="black", markersize=8)


def ellipses(axes: Any, means: np.ndarray, variances: np.ndarray) -> None:
    """Two standard deviations of every group with a diagonal covariance."""
    angle = np.linspace(0, 2 * np.pi, 60)
    for k, (mean, variance) in enumerate(zip(means, variances, strict=True)):
        wide, high = 2 * np.sqrt(np.maximum(variance[:2], 0))
        axes.plot(mean[0] + wide * np.cos(angle), mean[1] + high * np.sin(angle), color=colour(k), linewidth=1)


def matrix(axes: Any, values: np.ndarray) -> None:
    """A matrix as shades of blue; rows go down."""
    axes.imshow(values, aspect="auto", cmap="Blues", interpolation="nearest")


def shares(axes: Any, values: np.ndarray, names: tuple[str, ...]) -> None:
    """Probabilities (T, S) that sum to 1 at every step, stacked; nothing where they are NaN."""
    heights = np.nan_to_num(values)
    for k, name in enumerate(names):  # bars, because an area above one step has no width
        axes.bar(range(len(values)), heights[:, k], 1.0, heights[:, :k].sum(1), color=colour(k), label=name)
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=6, loc="lower right")


def steps(axes: Any, states: np.ndarray, names: tuple[str, ...]) -> None:
    """A path of states (T,) as a staircase; nothing where it is NaN."""
    known = ~np.isnan(states)
    axes.step(np.arange(len(states))[known], states[known], where="mid", color=colour(0))
    axes.set_xlim(-0.5, len(states) - 0.5)
    axes.set_ylim(-0.3, len(names) - 0.7)
    axes.set_yticks(range(len(names)), names)


def walks(axes: Any, paths: Mapping[str, np.ndarray], mean: np.ndarray, root: np.ndarray) -> None:
    """Paths (T, 2), NaN where they have not been yet, over one and two standard deviations of a Gaussian."""
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 60)), np.sin(np.linspace(0, 2 * np.pi, 60))])
    for radius in (1, 2):
        axes.plot(*(mean[:, None] + radius * root @ circle), color="#999999", linewidth=0.8)
    for k, (name, path) in enumerate(paths.items()):
        axes.plot(*path.T, ".-", color=colour(k), linewidth=0.6, markersize=3, label=name)
    axes.legend(fontsize=6, loc="upper left")
