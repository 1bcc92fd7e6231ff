"""Named data sets of which no more than a covariance matrix is public: enough for models of factors."""

import numpy as np

from models.data import Data
from models.simplex import of_covariance

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
    """Six ability tests of 112 persons, by their covariances: culture-fair intelligence (general), picture completion, block
    design, mazes, reading comprehension, vocabulary.

    The persons are those of Smith and Stanley (1983), "Clocking g", Intelligence 7, 353-368, which does not print the matrix;
    Bartholomew (1987), *Latent Variable Analysis and Factor Analysis*, does, and so does R (``ability.cov``). None of them says
    whether its divisor is 112 or 111: it is taken to be 112, and correlations and chi-square do not depend on it.
    """
    return of_covariance(Data("ability", symmetric(ABILITY_LOWER), ABILITY_TESTS), ABILITY_ROWS)


def symmetric(lower: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """The matrix with this lower triangle, row by row."""
    matrix = np.zeros((len(lower), len(lower)))
    for i, row in enumerate(lower):
        matrix[i, : i + 1] = matrix[: i + 1, i] = row
    return matrix
