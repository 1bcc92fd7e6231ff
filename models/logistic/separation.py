"""Existence of the maximum-likelihood estimate: none if a linear function separates classes (Albert and Anderson 1984)."""

from typing import Any

import numpy as np

from models.data.classes import allowed_labels
from models.data.table import Data, ZooError
from models.rows.centring import moments

TOLERANCE = 1e-7  # of the linear programme, whose coefficients lie in [−1, 1]


def check_maximum(data: Data, constant: list[str]) -> None:
    """Raise `ZooError` for constant columns, or if rows of positive weight are separable."""
    if constant:
        raise ZooError(
            f"{data.name}: column {constant[0]!r} has the same value in every row, so that prior=flat cannot tell its weight "
            "from the intercept; leave it out with data.drop_constant=true, or use a proper prior"
        )
    mean, variance = moments(data)
    counted = slice(None) if data.weight is None else data.weight > 0
    if is_separable(((data.x - mean) / np.sqrt(variance))[counted], allowed_labels(data)[counted]):
        raise ZooError(
            f"{data.name}: a linear function of the columns separates the classes (separation), so with prior=flat the "
            "likelihood has no maximum: weights would grow to infinity; use a proper prior, such as prior=default"
        )


def is_separable(x: np.ndarray, allowed_classes: np.ndarray) -> bool:
    """Whether some direction of the coefficients never lowers the likelihood of a row and raises that of at least one.

    ``x`` (N, D) are standardised columns, ``allowed_classes`` (N, C) the classes that each row may have.

    A direction does not lower the likelihood if every allowed class gains on every other class. A linear programme maximises
    the sum of these gains (Konis 2007). This is exact if each label is a single class; with sets some cases are missed.
    """
    from scipy.optimize import linprog  # slow to import, and only a flat prior needs it

    num_rows, num_classes = allowed_classes.shape
    x = np.column_stack([np.ones(num_rows), x])
    gains = []
    for better in range(num_classes):
        for worse in range(num_classes):
            rows = x[allowed_classes[:, better] & ~allowed_classes[:, worse]]
            if len(rows):  # of coefficients (C, 1 + D), flattened; those of the first class are 0
                direction = np.zeros((len(rows), num_classes, x.shape[1]))
                direction[:, better], direction[:, worse] = rows, -rows
                gains.append(direction[:, 1:].reshape(len(rows), -1))
    gain = np.concatenate(gains)
    solution: Any = linprog(-gain.sum(0), A_ub=-gain, b_ub=np.zeros(len(gain)), bounds=(-1, 1), method="highs")
    return bool(solution.status == 0 and -solution.fun > TOLERANCE * len(gain))


def unused(constant: list[str]) -> tuple[str, ...]:
    """A warning about constant columns, whose weights keep their prior."""
    if not constant:
        return ()
    named = ", ".join(map(repr, constant[:5])) + (f" and {len(constant) - 5} more" if len(constant) > 5 else "")
    return (
        f"{named} {'has' if len(constant) == 1 else 'have'} one value in every row: such a weight keeps its prior, which "
        "affects predictions for new rows with another value; data.drop_constant=true leaves such columns out",
    )
