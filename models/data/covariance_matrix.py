"""Weighted rows with a given mean and covariance, for models that depend on the data only through these moments."""

import numpy as np

from models.data.table import Data, ZooError

ASYMMETRY = 1e-6  # tolerated relative difference between the two halves, from rounding


def simplex(mean: np.ndarray, covariance: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
    """(x (D + 1, D), weight (D + 1,)): rows with this mean and covariance, with equal weights that sum to ``size``.

    The rows are the vertices of a simplex around the mean. The divisor of the covariance is ``size``.
    """
    from scipy.linalg import helmert

    dimension = len(mean)
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))  # of correlations, for precision
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    corners = np.sqrt(dimension + 1) * helmert(dimension + 1).T  # (D + 1, D): rows sum to 0, and to (D + 1) I in squares
    return mean + corners @ root.T, np.full(dimension + 1, size / (dimension + 1))


def of_covariance(data: Data, num_rows: object) -> Data:
    """Convert a covariance (or correlation) matrix to weighted rows with mean 0. The table may have a column of names.

    The divisor of the matrix must be the number of rows N, as in maximum likelihood: multiply a matrix with divisor N − 1 by
    (N − 1) / N. Raises `ZooError` if this is not a covariance matrix, or without ``num_rows``.
    """
    if isinstance(num_rows, bool) or not isinstance(num_rows, int | np.integer) or num_rows < 2:
        raise ZooError(f"kind=covariance needs num_rows, the number of rows behind {data.name}; got {num_rows!r}")
    places = [d for d, levels in enumerate(data.categories) if not levels] if data.categories else range(len(data.columns))
    columns = tuple(data.columns[d] for d in places)
    matrix = np.asarray(data.x)[:, list(places)]
    if matrix.shape[0] != matrix.shape[1]:
        size = f"{matrix.shape[0]} rows and {matrix.shape[1]} columns"
        raise ZooError(f"{data.name}: a covariance matrix must be square, this one has {size}")
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
        raise ZooError(f"{data.name}: the correlations have the negative eigenvalue {smallest:g}: no covariance matrix")
    x, weight = simplex(np.zeros(len(columns)), (matrix + matrix.T) / 2, int(num_rows))
    return Data(f"{data.name} (covariance of {num_rows} rows)", x, columns, weight=weight, moments=True)
