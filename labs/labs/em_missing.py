"""EM for a Gaussian mixture with missing cells."""

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from labs.parts import mixture_em
from labs.parts.lab import Case, Lab, Mistake, State, made_once
from labs.parts.mixture_em import Prior, iterations, log_joint, squares, summed, variances_about
from labs.parts.naive import softmax
from labs.parts.runs import Run
from labs.parts.values import Values

STORY = """\
A third of the cells in a table of irises got lost. Throwing away each row that lacks a cell would leave fewer
than half of the flowers; writing zeros or column means into the holes would invent flowers that never grew. A
probability model needs neither: it sums over what it does not know. You change EM for a mixture in two places,
and at the end the model itself fills the holes.
"""
MATHS = """\
A missing cell is one more unknown. Summed over all its values, its density is 1, so the factor of the cell
disappears from p(x_n | z_n). In the expected log density of the M-step a missing cell contributes nothing, so
the mean of column d in group k is a weighted mean over the rows *that have the cell*: its weight is N_kd,
which differs from column to column. With one N_k for all columns, and zeros in the holes, a column near 5 that
lacks 40% would be estimated near 3. The weights of the groups count all rows: each row is in some group.
"""
PRIOR = Prior(1.0, 2.0, 0.1)


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles, beside those of parts/mixture_em.py


def m_step(x: Any, r: Any, a: Any, b: Any) -> Any:
    """Without a prior of the weights."""
    return mixture_em.m_step(x, r, 1.0, a, b)


def impute(x: Any, r: Any, means: Any) -> Any:
    """Cell by cell."""
    found = x.copy()
    for n, d in np.ndindex(x.shape):
        if math.isnan(x[n, d]):
            found[n, d] = sum(r[n, k] * means[k, d] for k in range(len(means)))
    return found


RIGHT = SimpleNamespace(log_joint=log_joint, responsibilities=softmax, m_step=m_step, impute=impute)


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _holed(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Numbers near 5, a third of them missing; the first rows are whole."""
    x = 5 + rng.normal(size=(rows, columns))
    holes = rng.random((rows, columns)) < 0.35
    holes[:3] = False
    return np.where(holes, np.nan, x)


def _joint_cases(rng: np.random.Generator) -> list[Case]:
    given = {
        "weights": rng.dirichlet(np.full(3, 3.0)),
        "means": 5 + rng.normal(size=(3, 2)),
        "variances": rng.gamma(3.0, 0.5, (3, 2)),
    }
    empty = np.vstack([_holed(rng, 6, 2), np.full((1, 2), np.nan)])
    return [
        Case("a third is missing", {"x": _holed(rng, 15, 2)} | given),
        Case("nothing is missing", {"x": _holed(rng, 3, 2)} | given),
        Case("a row without cells", {"x": empty} | given),
    ]


def _m_cases(rng: np.random.Generator) -> list[Case]:
    numbers = {"a": 3.0, "b": 0.7}
    return [
        Case("a third is missing", {"x": _holed(rng, 24, 3), "r": rng.dirichlet(np.ones(2), 24)} | numbers),
        Case("nothing is missing", {"x": 5 + rng.normal(size=(12, 2)), "r": rng.dirichlet(np.ones(3), 12)} | numbers),
    ]


def _impute_cases(rng: np.random.Generator) -> list[Case]:
    means = 5 + rng.normal(size=(2, 3))
    return [Case("a third is missing", {"x": _holed(rng, 12, 3), "r": rng.dirichlet(np.ones(2), 12), "means": means})]


def _one_count(x: Any, r: Any) -> Any:
    """N_k for every column."""
    return np.tile(r.sum(0)[:, None], (1, x.shape[1]))


def _whole_rows(x: Any, r: Any, *prior: Any) -> Any:
    whole = ~np.isnan(x).any(1)
    return r[whole].T @ x[whole] / r[whole].sum(0)[:, None]


def _scatter(x: Any, r: Any) -> Any:
    means = m_step(x, r, 2.0, 1.0)[1]
    return np.nansum(r[:, :, None] * (x[:, None] - means) ** 2, axis=0)


def _zero_scatter(x: Any, r: Any, a: Any, b: Any) -> Any:
    """With zeros in the holes, and the means that these give."""
    return m_step(np.nan_to_num(x), r, a, b)[2]


def _zeros_about_right_means(x: Any, r: Any, a: Any, b: Any) -> Any:
    """With the right means and N_kd, where a missing cell has the square (0 − mean)²."""
    means, there = m_step(x, r, a, b)[1], ~np.isnan(x)
    holes = r.T @ ~there * means**2
    return (2 * b + _scatter(x, r) + holes) / (r.T @ there + 2 * a - 2)


def _one_count_throughout(x: Any, r: Any, a: Any, b: Any) -> Any:
    """Variances with N_k below, about means with N_k below."""
    means, counts = r.T @ np.nan_to_num(x) / _one_count(x, r), _one_count(x, r)
    return (2 * b + np.nansum(r[:, :, None] * (x[:, None] - means) ** 2, axis=0)) / (counts + 2 * a - 2)


def _column_means(x: Any) -> Any:
    """The table with column means in its holes."""
    return np.where(np.isnan(x), np.nanmean(x, 0), x)


PSEUDO_COUNTS: Mapping[str, Callable[[float], float]] = {  # what students add to N_kd in the place of 2a − 2
    "N_kd + 2a − 1": lambda a: 2 * a - 1,
    "N_kd + 2a": lambda a: 2 * a,
    "N_kd + 2a + 2": lambda a: 2 * a + 2,
    "N_kd + a − 1": lambda a: a - 1,
    "N_kd alone": lambda a: 0.0,
}


def _counted(count: Callable[[float], float]) -> Callable[..., Any]:
    """Variances with another pseudo-count below."""
    return lambda x, r, a, b: variances_about(m_step(x, r, a, b)[1], x, r, 2 * b, count(a))


JOINT = Values(
    "log_joint",
    6,
    _joint_cases,
    log_joint,
    (
        Mistake(
            "`log_joint` has zeros in the holes: leave the factor of a missing cell out",
            lambda x, *p: log_joint(np.nan_to_num(x), *p),
        ),
        Mistake(
            "`log_joint` is NaN for rows with a missing cell: sum over the cells that are there",
            lambda x, *p: log_joint(x, *p) + 0 * x.sum(1, keepdims=True),
        ),
        Mistake(
            "`log_joint` has column means in the holes: leave the factor of a missing cell out",
            lambda x, *p: log_joint(_column_means(x), *p),
        ),
        Mistake(
            "`log_joint` keeps −½ log(2π variance) of a missing cell: its whole factor is 1",
            lambda x, w, m, v: log_joint(x, w, m, v) - 0.5 * np.isnan(x) @ np.log(2 * np.pi * v).T,
        ),
        Mistake(
            "`log_joint` drops log weights_k in rows with a missing cell",
            lambda x, w, m, v: log_joint(x, w, m, v) - np.isnan(x).any(1)[:, None] * np.log(w),
        ),
        Mistake(
            "`log_joint` is NaN for a row without cells: its density is 1, and log weights_k remains",
            lambda x, *p: np.where(np.isnan(x).all(1)[:, None], np.nan, log_joint(x, *p)),
        ),
        Mistake("`log_joint` leaves out log weights_k", lambda x, w, m, v: log_joint(x, np.ones_like(w), m, v)),
        Mistake(
            "`log_joint` adds weights_k; add their logarithms",
            lambda x, w, m, v: log_joint(x, np.exp(w), m, v),
        ),
        Mistake(
            "`log_joint` leaves out −½ log 2π of each cell that is there",
            lambda x, *p: log_joint(x, *p) + 0.5 * np.log(2 * np.pi) * (~np.isnan(x)).sum(1)[:, None],
        ),
        Mistake(
            "`log_joint` takes the variances for standard deviations: do not square them",
            lambda x, w, m, v: log_joint(x, w, m, v**2),
        ),
        Mistake(
            "`log_joint` lacks the ½ of the squares",
            lambda x, w, m, v: summed(w, np.log(2 * np.pi * v), 2 * squares(x, m, v)),
        ),
        Mistake(
            "`log_joint` leaves out −½ log(2π variance) of the cells that are there: groups differ in their width",
            lambda x, w, m, v: summed(w, 0.0, squares(x, m, v)),
        ),
        Mistake(
            "`log_joint` squares the variances below the squares: divide by variances, they are no standard deviations",
            lambda x, w, m, v: summed(w, np.log(2 * np.pi * v), squares(x, m, v**2)),
        ),
        Mistake(
            "`log_joint` squares the variances inside the logarithm: it is log(2π variance)",
            lambda x, w, m, v: summed(w, np.log(2 * np.pi * v**2), squares(x, m, v)),
        ),
    ),
    ("log p(z, x)",),
)
M_STEP = Values(
    "m_step",
    8,
    _m_cases,
    m_step,
    (
        Mistake(
            "the means of `m_step` divide by one N_k for all columns: count the rows that have the cell",
            lambda x, r, *p: r.T @ np.nan_to_num(x) / _one_count(x, r),
            "means",
        ),
        Mistake("the means of `m_step` use whole rows only: a row counts in each column that it has", _whole_rows, "means"),
        Mistake(
            "the means of `m_step` have column means in the holes: a missing cell counts in no sum",
            lambda x, *given: m_step(_column_means(x), *given)[1],
            "means",
        ),
        Mistake(
            "means given responsibilities are right, but the variances of `m_step` divide by N_k: it is N_kd",
            lambda x, r, a, b: (2 * b + _scatter(x, r)) / (_one_count(x, r) + 2 * a - 2),
            "variances",
        ),
        Mistake("the variances of `m_step` have zeros in the holes", _zero_scatter, "variances"),
        Mistake(
            "the squares of `m_step` have zeros in the holes: (0 − mean)² of a missing cell counts in no sum",
            _zeros_about_right_means,
            "variances",
        ),
        Mistake(
            "the variances of `m_step` have column means in the holes: a missing cell counts in no sum",
            lambda x, *given: m_step(_column_means(x), *given)[2],
            "variances",
        ),
        Mistake(
            "the variances of `m_step` divide by one N_k for all columns, as the means do: it is N_kd",
            _one_count_throughout,
            "variances",
        ),
        *(
            Mistake(
                f"the variances of `m_step` are divided by {name}: it is N_kd + 2a − 2, from the most probable precision",
                _counted(count),
                "variances",
            )
            for name, count in PSEUDO_COUNTS.items()
        ),
        Mistake(
            "the variances of `m_step` have no prior: add 2b to the sum, and 2a − 2 to N_kd",
            lambda x, r, a, b: m_step(x, r, 1.0, 0.0)[2],
            "variances",
        ),
        Mistake(
            "the variances of `m_step` count all rows: divide by N_kd + 2a − 2",
            lambda x, r, a, b: (2 * b + _scatter(x, r)) / (len(x) + 2 * a - 2),
            "variances",
        ),
        Mistake(
            "the variances of `m_step` use whole rows only: a row counts in each column that it has",
            lambda x, r, *p: m_step(x[~np.isnan(x).any(1)], r[~np.isnan(x).any(1)], *p)[2],
            "variances",
        ),
        Mistake("the variances of `m_step` have b for 2b", lambda x, r, a, b: m_step(x, r, a, b / 2)[2], "variances"),
        Mistake(
            "the weights of `m_step` count whole rows only: a row with holes is in some group, too",
            lambda x, r, *p: r[~np.isnan(x).any(1)].mean(0),
            "weights",
        ),
    ),
    ("weights", "means", "variances"),
    follows={"variances": lambda found, x, r, a, b: variances_about(found["means"], x, r, 2 * b, 2 * a - 2)},
    shares=("weights",),
    plural=("weights", "means", "variances"),
)
IMPUTE = Values(
    "impute",
    3,
    _impute_cases,
    impute,
    (
        Mistake(
            "`impute` writes column means: take the means of the groups, by responsibility",
            lambda x, r, m: _column_means(x),
        ),
        Mistake(
            "`impute` takes the mean of the most probable group: average over the groups",
            lambda x, r, m: np.where(np.isnan(x), m[r.argmax(1)], x),
        ),
        Mistake("`impute` overwrites cells that are there", lambda x, r, m: r @ m),
        Mistake("`impute` writes zeros: take the means of the groups", lambda x, r, m: np.nan_to_num(x)),
        Mistake(
            "`impute` averages the means of the groups evenly: weight them by responsibility",
            lambda x, r, m: np.where(np.isnan(x), m.mean(0), x),
        ),
    ),
    ("table",),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run


@made_once
def data() -> dict[str, np.ndarray]:
    """Petal length and width of irises (cm), where a third of the cells is missing; and means to start from."""
    from models.datasets.tables import iris

    x = np.asarray(iris().x, dtype=float)[:, 2:]
    start = x[[60, 100, 140]]
    return {"x": np.where(np.random.default_rng(5).random(x.shape) < 0.33, np.nan, x), "start": start}


def _advance(student: Any, state: State, iteration: int) -> State:
    x = data()["x"]
    r = softmax(student.log_joint(x, state["weights"], state["means"], state["variances"]))
    weights, means, variances = student.m_step(x, r, PRIOR.a, PRIOR.b)
    return {"weights": weights, "means": means, "variances": variances, "r": r}


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import ellipses, scatter

    x = data()["x"]
    filled = impute(x, state["r"], state["means"]) if "r" in state else _column_means(x)
    scatter(axes, filled, state["r"].argmax(1) if "r" in state else None, state["means"])
    ellipses(axes, state["means"], state["variances"])
    axes.set(xlabel="petal length (cm), holes filled", ylabel="petal width (cm)")


ITERATIONS = iterations(data, _advance, PRIOR, "`log_joint`", "the responsibilities sum to 1", _panels)
LAB = Lab(
    "em_missing",
    "EM with missing cells",
    60,
    STORY,
    MATHS,
    (JOINT, M_STEP, IMPUTE, Run(("log_joint", "m_step"), 3, ITERATIONS, RIGHT)),
    data,
    given=("responsibilities",),
    iterations=ITERATIONS,
)
