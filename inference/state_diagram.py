"""A diagram of states and the arrows between them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NODE = 21  # radius, in points
LEAST = 0.03  # arrows of a smaller probability are left out
BEND = 0.22  # of an arrow, so that those to and fro lie apart
NUMBER = 0.3  # where on an arrow its number stands: nearer to where it starts, as arrows cross in the middle


def draw_diagram(axis: "Axes", probs: np.ndarray, names: list[str], origin: str) -> None:
    """States on a circle with ``origin``; ``probs`` (S + 1, S or S + 1) are from it and every state to states, and back to it.

    An arrow is as wide as its probability, and has the colour of where it comes from.
    """
    from matplotlib.patches import Circle

    size = len(names)
    angles = np.pi - 2 * np.pi * np.arange(size + 1) / (size + 1)  # the origin on the left, states clockwise
    nodes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    colours = ["0.4", *(f"C{state}" for state in range(size))]
    order = [*range(1, size + 1), *([0] if probs.shape[1] > size else [])]  # nodes that the columns stand for
    for source, row in enumerate(probs):
        for target, prob in zip(order, row, strict=True):
            if prob >= LEAST:  # not so for NaN, which is no arrow
                _arrow(axis, nodes[source], nodes[target], float(prob), colours[source])
    for node, name, colour in zip(nodes, [origin, *names], colours, strict=True):
        axis.add_patch(Circle((node[0], node[1]), 0.17, facecolor="white", edgecolor=colour, lw=2, zorder=3))
        text = name if len(name) <= 11 else f"{name[:10]}…"
        axis.text(node[0], node[1], text, ha="center", va="center", fontsize=12 if len(name) <= 3 else 6.5, zorder=4)
    axis.set(xlim=(-1.6, 1.6), ylim=(-1.75, 1.6), aspect="equal")
    axis.axis("off")
    axis.set_title(f"arrows below {LEAST} are left out", fontsize=8, y=-0.02)


def _arrow(axis: "Axes", source: np.ndarray, target: np.ndarray, prob: float, colour: str) -> None:
    from matplotlib.patches import FancyArrowPatch

    if np.array_equal(source, target):
        side = np.array([-source[1], source[0]])
        ends = [1.14 * source + 0.1 * side, 1.14 * source - 0.1 * side]
        bend, place, shrink = -2.8, 1.5 * source, 0  # outwards
    else:
        ends, bend, shrink = [source, target], BEND, NODE
        apart = target - source
        control = (source + target) / 2 + BEND * np.array([apart[1], -apart[0]])  # as matplotlib's arc3 has it
        place = (1 - NUMBER) ** 2 * source + 2 * NUMBER * (1 - NUMBER) * control + NUMBER**2 * target
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
            shrinkA=shrink,
            shrinkB=shrink,
        )
    )
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    axis.text(place[0], place[1], f"{prob:.2f}", ha="center", va="center", fontsize=8, color=colour, bbox=box, zorder=2.5)
