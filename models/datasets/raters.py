"""Named tables of ratings: items that several people judged, some of them more than once."""

import numpy as np

from models.data.arguments import require_whole
from models.data.table import Data

# Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied Statistics
# 28, 20-28, table 1: one word per patient: three ratings by observer 1, then one by each of observers 2 to 5.
ANAESTHETISTS = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 1111111 2223212 1211111
1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""
OCCASIONS = ("observer 1, first", "observer 1, second", "observer 1, third", *(f"observer {r}" for r in range(2, 6)))


def anaesthetists() -> Data:
    """Fitness of 45 patients for anaesthesia, rated in four grades by five anaesthetists, three times by the first.

    From table 1 of Dawid and Skene (1979). The raters of the columns are ``raters=[1, 1, 1, 2, 3, 4, 5]``.
    """
    grades = ("1", "2", "3", "4")
    x = np.array([[grades.index(grade) for grade in patient] for patient in ANAESTHETISTS.split()], dtype=np.float64)
    size = len(OCCASIONS)
    return Data("anaesthetists", x, OCCASIONS, categories=(grades,) * size, kinds=("category",) * size)


def raters(
    num_rows: int = 200, num_raters: int = 5, num_classes: int = 3, right: float = 0.7, missing: float = 0.3, seed: int = 0
) -> Data:
    """Items of ``num_classes`` equally likely classes, rated by ``num_raters`` people; the label is the true class.

    With all labels given, a fit needs no inference of classes: drop the labels to estimate the classes.

    The accuracy of a rater is uniform between ``right`` − 0.2 and ``right`` + 0.2; wrong ratings are uniform over the other
    classes. Ratings are missing completely at random, with probability ``missing``.
    """
    for name, value, least in (("num_rows", num_rows, 1), ("num_raters", num_raters, 1), ("num_classes", num_classes, 2)):
        require_whole(name, value, least)
    rng = np.random.default_rng(seed)
    z = rng.integers(num_classes, size=num_rows)
    accuracy = np.clip(rng.uniform(right - 0.2, right + 0.2, num_raters), 0, 1)
    wrong = (z[:, None] + rng.integers(1, num_classes, size=(num_rows, num_raters))) % num_classes
    x = np.where(rng.random((num_rows, num_raters)) < accuracy, z[:, None], wrong).astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    levels = tuple(chr(ord("a") + c) for c in range(num_classes))
    columns = tuple(f"rater {r + 1}" for r in range(num_raters))
    return Data("raters", x, columns, z, "class", levels, categories=(levels,) * num_raters, kinds=("category",) * num_raters)
