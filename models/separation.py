"""Whether maximum likelihood has an answer: not where a linear function separates classes (Albert and Anderson 1984)."""

from typing import Any

import numpy as np

from models.data import Data, ZooError, allowed_labels
from models.gaussian_rows import moments

TOLERANCE = 1e-7  # of the linear programme, whose coefficients lie in [−1, 1]


def check_maximum(data: Data, constant: list[str]) -> None:
    """Raises `ZooError` where there are columns with one value in all rows that count, or these rows are separable."""
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
            "likelihood grows for ever as the weights run off to infinity; use a proper prior, such as prior=default"
        )


def is_separable(x: np.ndarray, allowed: np.ndarray) -> bool:
    """Whether some direction of the coefficients lowers no row's likelihood and raises one's.

    ``x`` (N, D) are the columns, standardised; ``allowed`` (N, C) the classes that a row may belong to. A direction lowers no
    likelihood when every allowed class gains on every other one: Σ of these gains is maximised by a linear programme (Konis
    2007). With values as labels the answer is exact; with sets some separations are not found.
    """
    from scipy.optimize import linprog  # slow to import, and only a flat prior needs it

    num_rows, num_classes = allowed.shape
    x = np.column_stack([np.ones(num_rows), x])
    gains = []
    for better in range(num_classes):
        for worse in range(num_classes):
            rows = x[allowed[:, better] & ~allowed[:, worse]]
            if len(rows):  # of coefficients (C, 1 + D), flattened; those of the first class are 0
                direction = np.zeros((len(rows), num_classes, x.shape[1]))
                direction[:, better], direction[:, worse] = rows, -rows
                gains.append(direction[:, 1:].reshape(len(rows), -1))
    gain = np.concatenate(gains)
    found: Any = linprog(-gain.sum(0), A_ub=-gain, b_ub=np.zeros(len(gain)), bounds=(-1, 1), method="highs")
    return bool(found.status == 0 and -found.fun > TOLERANCE * len(gain))
