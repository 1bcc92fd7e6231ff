"""k-means: two steps that take turns, and what they make smaller."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from labs.parts.lab import Case, Iterations, Lab, Mistake, State, made_once
from labs.parts.runs import Run
from labs.parts.values import Values

STORY = """\
A customs officer on Earth has the weights and heights of visitors from Mars, and no names. There seem to be
kinds. k-means finds groups without knowing what a kind is: it guesses a centre for every group, gives each
visitor to the nearest centre, moves each centre to the middle of its visitors, and goes on until nothing
moves. You write the two steps, and the number that both of them make smaller.
"""
MATHS = """\
The distortion J = Σ_n ‖x_n − c(label_n)‖² depends on the labels and on the centres. `assign` makes it as
small as it can be with the centres fixed; `move` with the labels fixed, because the mean of some points is
the point with the smallest sum of squared distances to them. So J never rises, and as there are finitely
many labellings, the run ends. It ends in a *local* minimum: another start may end lower.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles: loops over points


def assign(x: Any, centres: Any) -> Any:
    """Compare every centre with the best so far."""
    labels = []
    for point in x:
        distances = [sum((a - b) ** 2 for a, b in zip(point, centre, strict=True)) for centre in centres]
        labels.append(distances.index(min(distances)))
    return np.array(labels)


def move(x: Any, labels: Any, centres: Any) -> Any:
    """Sum up the points of every centre."""
    found = []
    for k, centre in enumerate(centres):
        own = [point for point, label in zip(x, labels, strict=True) if label == k]
        found.append(sum(own) / len(own) if own else centre)
    return np.array(found)


def distortion(x: Any, labels: Any, centres: Any) -> Any:
    """Point by point."""
    return float(sum(((point - centres[label]) ** 2).sum() for point, label in zip(x, labels, strict=True)))


def k_means(x: Any, centres: Any) -> Any:
    """More iterations than fifty points need."""
    for _ in range(40):
        centres = move(x, assign(x, centres), centres)
    return centres, assign(x, centres)


RIGHT = SimpleNamespace(assign=assign, move=move, distortion=distortion, k_means=k_means)


# ---------------------------------------------------------------------------------------------------------------------
# Cases


def _points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """50 points about three centres, and three of them as a start."""
    x = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])[rng.integers(3, size=50)] + rng.normal(size=(50, 2))
    return x, x[rng.choice(50, 3, replace=False)] + 0.1


def _assign_cases(rng: np.random.Generator) -> list[Case]:
    x, centres = _points(rng)
    wide = rng.normal(size=(20, 3)) * np.array([1.0, 3.0, 1.0])
    return [
        Case("three groups in the plane", {"x": x, "centres": centres}),
        Case("five centres in space", {"x": wide, "centres": 2 * rng.normal(size=(5, 3))}),
        Case("near by one measure, not by the other", {"x": np.zeros((1, 2)), "centres": np.array([[3.0, 0.0], [2.0, 2.0]])}),
        Case("a point as far from one centre as from the other", {"x": np.zeros((1, 1)), "centres": np.array([[1.0], [-1.0]])}),
    ]


def _move_cases(rng: np.random.Generator) -> list[Case]:
    x, centres = _points(rng)
    labels = rng.integers(3, size=50)
    return [
        Case("three groups in the plane", {"x": x, "labels": labels, "centres": centres}),
        Case("a centre without points", {"x": x, "labels": 2 * (labels // 2), "centres": centres}),
    ]


def _distortion_cases(rng: np.random.Generator) -> list[Case]:
    found = []
    for size in (50, 20):
        x, centres = _points(rng)
        labels = rng.integers(3, size=50)
        found.append(Case(f"{size} labels at random", {"x": x[:size], "labels": labels[:size], "centres": centres}))
    return found


def _run_cases(rng: np.random.Generator) -> list[Case]:
    return [Case(f"start {number}", dict(zip(("x", "centres"), _points(rng), strict=True))) for number in (1, 2, 3)]


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes


def _manhattan(x: Any, centres: Any) -> Any:
    return np.abs(x[:, None] - centres).sum(-1).argmin(1)


def _divided_by_all(x: Any, labels: Any, centres: Any) -> Any:
    return np.array([x[labels == k].sum(0) / len(x) for k in range(len(centres))])


def _empty_is_nan(x: Any, labels: Any, centres: Any) -> Any:
    return np.array([x[labels == k].sum(0) / (labels == k).sum() for k in range(len(centres))])


def _empty_is_zero(x: Any, labels: Any, centres: Any) -> Any:
    return np.array([x[labels == k].sum(0) / max((labels == k).sum(), 1) for k in range(len(centres))])


def _not_squared(x: Any, labels: Any, centres: Any) -> Any:
    return np.linalg.norm(x - centres[labels], axis=1).sum()


def _first_iteration(x: Any, centres: Any) -> Any:
    return move(x, assign(x, centres), centres)


ASSIGN = Values(
    "assign",
    5,
    _assign_cases,
    assign,
    (
        Mistake(
            "`assign` takes the farthest centre: argmin, not argmax",
            lambda x, c: ((x[:, None] - c) ** 2).sum(-1).argmax(1),
        ),
        Mistake("`assign` measures by the sum of absolute differences; k-means squares them", _manhattan),
        Mistake(
            "`assign` looks at the first column only: sum the squares over all columns",
            lambda x, c: ((x[:, None, 0] - c[:, 0]) ** 2).argmin(1),
        ),
        Mistake("`assign` counts the centres from 1; labels go from 0 to K − 1", lambda x, c: assign(x, c) + 1),
        Mistake(
            "`assign` takes the last of two centres at the same distance: take the first",
            lambda x, c: len(c) - 1 - assign(x, c[::-1]),
        ),
    ),
    ("labels",),
    plural=("labels",),
)
MOVE = Values(
    "move",
    5,
    _move_cases,
    move,
    (
        Mistake(
            "`move` divides by the number of all points; divide by the number of points of the centre",
            _divided_by_all,
        ),
        Mistake("`move` divides 0 by 0 for a centre without points: let such a centre stay where it is", _empty_is_nan),
        Mistake("`move` sends a centre without points to the origin: let it stay where it is", _empty_is_zero),
        Mistake(
            "`move` takes the median of the points; the mean makes the sum of squared distances smallest",
            lambda x, labels, c: np.array(
                [np.median(x[labels == k], 0) if (labels == k).any() else c[k] for k in range(len(c))]
            ),
        ),
    ),
    ("centres",),
    plural=("centres",),
)
DISTORTION = Values(
    "distortion",
    3,
    _distortion_cases,
    distortion,
    (
        Mistake("`distortion` sums distances; it should sum squared distances (no square root)", _not_squared),
        Mistake(
            "`distortion` is the mean over the points; it should be their sum",
            lambda x, z, c: distortion(x, z, c) / len(x),
        ),
        Mistake(
            "`distortion` looks for the nearest centre; it should take the centre that the labels say",
            lambda x, z, c: distortion(x, assign(x, c), c),
        ),
        Mistake(
            "`distortion` adds the distances to all centres; a point counts only the one to its own",
            lambda x, z, c: ((x[:, None] - c) ** 2).sum(),
        ),
    ),
    ("J",),
)
WHOLE = Values(
    "k_means",
    4,
    _run_cases,
    k_means,
    (
        Mistake("`k_means` stops after one iteration: go on until no centre moves", _first_iteration, "centres"),
        Mistake(
            "`k_means` returns the centres that it started from: keep what `move` returns",
            lambda x, c: c,
            "centres",
        ),
        Mistake(
            "`k_means` returns the labels of the start; they should be those of the final centres",
            assign,
            "labels",
        ),
    ),
    ("centres", "labels"),
    plural=("centres", "labels"),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run


@made_once
def data() -> dict[str, np.ndarray]:
    """120 visitors: weight (kg) and height (cm)."""
    from models.datasets.tables import martians

    found = martians(num_rows=120, seed=3)
    return {"x": np.asarray(found.x, dtype=float), "start": np.asarray(found.x, dtype=float)[[3, 4, 5]]}


def _start() -> State:
    return {"centres": data()["start"]}


def _advance(student: Any, state: State, iteration: int) -> State:
    x = data()["x"]
    labels = student.assign(x, state["centres"])
    return {"centres": student.move(x, labels, state["centres"]), "labels": labels}


def _bound(state: State) -> float:
    return -distortion(data()["x"], state["labels"].astype(int), state["centres"])


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import scatter

    scatter(axes, data()["x"], state.get("labels"), state["centres"])
    axes.set(xlabel="weight (kg)", ylabel="height (cm)")


ITERATIONS = Iterations(
    _start,
    _advance,
    8,
    _bound,
    "negative distortion",
    {
        "`assign`": lambda before, after: after | {"labels": assign(data()["x"], before["centres"])},
        "`move`": lambda before, after: after | {"centres": move(data()["x"], after["labels"], before["centres"])},
    },
    "`assign`",
    {"every point has a label": lambda state: bool((state["labels"] >= 0).all())},
    _panels,
)
LAB = Lab(
    "k_means",
    "k-means: groups around centres",
    40,
    STORY,
    MATHS,
    (ASSIGN, MOVE, DISTORTION, WHOLE, Run(("assign", "move"), 3, ITERATIONS, RIGHT)),
    data,
    iterations=ITERATIONS,
)
