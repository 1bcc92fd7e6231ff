"""Named data sets for which only a covariance matrix is public, which is enough for factor models."""

import numpy as np

from models.data.covariance_matrix import of_covariance
from models.data.table import Data

ABILITY_TESTS = ("general", "picture", "blocks", "maze", "reading", "vocab")
ABILITY_ROWS = 112
ABILITY_LOWER = (
    (24.641,),
    (5.991, 6.700),
    (33.520, 18.137, 149.831),
    (6.023, 1.782, 19.424, 12.711),
    (20.755, 4.936, 31.430, 4.757, 52.604),
    (29.701, 7.204, 50.753, 9.075, 66.762, 135.292),
)


def ability() -> Data:
    """The covariance matrix of six ability tests of 112 persons: culture-fair intelligence (general), picture completion, block
    design, mazes, reading comprehension, vocabulary.

    The data are from Smith and Stanley (1983), "Clocking g", Intelligence 7, 353-368. The matrix is printed in Bartholomew
    (1987), *Latent Variable Analysis and Factor Analysis*, and in R (``ability.cov``). The sources do not state whether the
    divisor is 112 or 111; 112 is assumed. Correlations and chi-square do not depend on it.
    """
    return of_covariance(Data("ability", symmetric(ABILITY_LOWER), ABILITY_TESTS), ABILITY_ROWS)


def symmetric(lower: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """The matrix with this lower triangle, row by row."""
    matrix = np.zeros((len(lower), len(lower)))
    for i, row in enumerate(lower):
        matrix[i, : i + 1] = matrix[: i + 1, i] = row
    return matrix
