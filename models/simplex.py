"""Weighted rows for a mean and a covariance: what stands for a table of which no more is known, or asked for."""

import numpy as np

from models.data import Data, ZooError

ASYMMETRY = 1e-6  # of a matrix whose two halves were rounded


def simplex(mean: np.ndarray, covariance: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
    """(x (D + 1, D), weight (D + 1,)): rows of equal weights, ``size`` in all, with this mean and covariance of that divisor.

    They are the vertices of a simplex about the mean.
    """
    from scipy.linalg import helmert

    dimension = len(mean)
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))  # of correlations: a narrow column keeps its digits
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    corners = np.sqrt(dimension + 1) * helmert(dimension + 1).T  # (D + 1, D): rows sum to 0, and to (D + 1) I in squares
    return mean + corners @ root.T, np.full(dimension + 1, size / (dimension + 1))


def of_covariance(data: Data, num_rows: object) -> Data:
    """The table of a covariance (or correlation) matrix as weighted rows of mean 0; it may have a column of names.

    Its divisor is taken to be the number of rows, as that of maximum likelihood; one with divisor N − 1 is to be multiplied by
    (N − 1) / N. Raises `ZooError` for what is no covariance matrix, and without the number of rows that it was made from.
    """
    if isinstance(num_rows, bool) or not isinstance(num_rows, int | np.integer) or num_rows < 2:
        raise ZooError(f"kind=covariance needs num_rows, how many rows {data.name} was made from; got {num_rows!r}")
    places = [d for d, levels in enumerate(data.categories) if not levels] if data.categories else range(len(data.columns))
    columns = tuple(data.columns[d] for d in places)
    matrix = np.asarray(data.x)[:, list(places)]
    if matrix.shape[0] != matrix.shape[1]:
        raise ZooError(
            f"{data.name}: a covariance matrix has as many rows as columns, this one {matrix.shape[0]} and {matrix.shape[1]}"
        )
    if np.isnan(matrix).any():
        raise ZooError(f"{data.name}: row {np.argwhere(np.isnan(matrix))[0][0] + 1} of the covariance matrix has an empty cell")
    spread = np.sqrt(np.abs(np.outer(np.diag(matrix), np.diag(matrix))))
    apart = np.abs(matrix - matrix.T) > ASYMMETRY * spread
    if apart.any():
        i, j = np.argwhere(apart)[0]
        raise ZooError(
            f"{data.name}: the covariances of {columns[i]!r} and {columns[j]!r} differ, {matrix[i, j]:g} and {matrix[j, i]:g}"
        )
    if not (np.diag(matrix) > 0).all():
        raise ZooError(f"{data.name}: the variance of {columns[int(np.argmin(np.diag(matrix)))]!r} is not above 0")
    smallest = np.linalg.eigvalsh((matrix + matrix.T) / 2 / spread)[0]
    if smallest < -ASYMMETRY * len(columns):
        raise ZooError(f"{data.name}: the correlations have the eigenvalue {smallest:g}, and a covariance has none below 0")
    x, weight = simplex(np.zeros(len(columns)), (matrix + matrix.T) / 2, int(num_rows))
    return Data(f"{data.name} (covariance of {num_rows} rows)", x, columns, weight=weight, moments=True)
