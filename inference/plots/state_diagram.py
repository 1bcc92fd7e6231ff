"""A diagram of states and the arrows between them."""

from typing import TYPE_CHECKING

import numpy as np

from inference.markup.palette import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

RADIUS = 0.19  # of a node; nodes lie on a circle of radius 1
LEAST, LEAST_OF_MANY, MANY = 0.03, 0.1, 4  # arrows of a smaller probability are left out; of more than so many states
BEND = 0.22  # of an arrow, so that those to and fro lie apart
NUMBERS = (0.3, 0.38, 0.24, 0.46, 0.54, 0.62)  # where on an arrow its number may stand: first nearer to where it starts
HALF = np.array([0.1, 0.05])  # half width and height of a number


def inches(size: int) -> float:
    """Width and height of a diagram in which arrows are long enough for their numbers."""
    return 5.4 if size <= MANY else 7.2


def least(size: int) -> float:
    """The smallest probability that has an arrow."""
    return LEAST if size <= MANY else LEAST_OF_MANY


def draw_diagram(axis: "Axes", probs: np.ndarray, names: list[str], origin: str) -> None:
    """States on a circle with ``origin``; ``probs`` (S + 1, S or S + 1) are from it and every state to states, and back to it.

    An arrow is as wide as its probability, and has the colour of its source.
    """
    from matplotlib.patches import Circle

    size = len(names)
    angles = np.pi - 2 * np.pi * np.arange(size + 1) / (size + 1)  # the origin on the left, states clockwise
    nodes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    colours = ["0.4", *(colour(state) for state in range(size))]
    circles = [
        axis.add_patch(Circle((x, y), RADIUS, facecolor="white", edgecolor=shade, lw=2, zorder=3))
        for (x, y), shade in zip(nodes, colours, strict=True)
    ]
    order = [*range(1, size + 1), *([0] if probs.shape[1] > size else [])]  # nodes that the columns stand for
    arrows = [
        (float(prob), source, target)
        for source, row in enumerate(probs)
        for target, prob in zip(order, row, strict=True)
        if prob >= least(size)  # not so for NaN, which is no arrow
    ]
    placed: list[np.ndarray] = []
    for prob, source, target in sorted(arrows, reverse=True):  # the widest have the best places for their numbers
        curve = _arrow(axis, circles[source], circles[target], nodes[source], nodes[target], prob, colours[source])
        x, y = _free(curve, placed, nodes)
        placed.append(np.array([x, y]))
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        axis.text(x, y, f"{prob:.2f}", ha="center", va="center", fontsize=8, color=colours[source], bbox=box, zorder=2.5)
    for node, name in zip(nodes, [origin, *names], strict=True):
        text = name if len(name) <= 11 else f"{name[:10]}…"
        axis.text(node[0], node[1], text, ha="center", va="center", fontsize=12 if len(name) <= 3 else 6.5, zorder=4)
    axis.set(xlim=(-1.6, 1.6), ylim=(-1.62, 1.6), aspect="equal")
    axis.axis("off")
    axis.set_title(f"arrows below {least(size)} are left out", fontsize=8, y=-0.02)


def _free(curve: np.ndarray, placed: list[np.ndarray], nodes: np.ndarray) -> np.ndarray:
    """Of places (P, 2) the first where a number covers no other and no node; else that with the most room."""

    def room(place: np.ndarray) -> float:
        to_numbers = [np.max(np.abs(place - other) / (2 * HALF)) for other in placed]
        to_nodes = np.linalg.norm(nodes - place, axis=1) / (RADIUS + HALF.mean())
        return min([*to_numbers, *to_nodes])

    rooms = [room(place) for place in curve]
    chosen = next((place for place, space in zip(curve, rooms, strict=True) if space >= 1), curve[int(np.argmax(rooms))])
    return np.asarray(chosen)


def _arrow(
    axis: "Axes", start: "Patch", end: "Patch", source: np.ndarray, target: np.ndarray, prob: float, colour: str
) -> np.ndarray:
    """Draws an arrow; returns places on it for its number (P, 2)."""
    from matplotlib.patches import FancyArrowPatch

    itself = np.array_equal(source, target)
    if itself:  # outwards
        side = np.array([-source[1], source[0]])
        ends, bend = [(1 + 0.8 * RADIUS) * source + 0.1 * side, (1 + 0.8 * RADIUS) * source - 0.1 * side], -2.8
        places = np.array([1.5 * source, 1.42 * source + 0.2 * side, 1.42 * source - 0.2 * side])
    else:
        ends, bend = [source, target], BEND
        apart = target - source
        control = (source + target) / 2 + BEND * np.array([apart[1], -apart[0]])  # as matplotlib's arc3 has it
        along = np.array(NUMBERS)[:, None]
        places = (1 - along) ** 2 * source + 2 * along * (1 - along) * control + along**2 * target
    axis.add_patch(
        FancyArrowPatch(
            tuple(ends[0]),
            tuple(ends[1]),
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=9 + 6 * prob,
            lw=0.6 + 4.5 * prob,
            color=colour,
            alpha=0.65,
            patchA=None if itself else start,
            patchB=None if itself else end,
            shrinkA=0 if itself else 2,
            shrinkB=0 if itself else 2,
        )
    )
    return places
