"""Tables for fits over blocks, and what two results must agree in."""

import numpy as np
import pandas as pd

CENTRES = np.array([[-4.0, -4, -4], [0, 0, 0], [5, 5, 5]])
WIDTHS = np.array([1.0, 0.5, 2.0])


def groups(number, seed=0):
    """(rows of three groups in random order, the group of each)."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 3, number)
    return CENTRES[group] + WIDTHS[group][:, None] * random.normal(size=(number, 3)), group


def frame(number, seed=0):
    """The same as a table with a column of words and some missing cells."""
    x, group = groups(number, seed)
    table = pd.DataFrame(x, columns=list("abc"))
    table["kind"] = np.array(["left", "middle", "right"])[group]
    table.loc[np.random.default_rng(seed).random(number) < 0.1, "a"] = np.nan
    return table


def largest_gap(left, right, group="point_estimate"):
    """The largest difference between two results in any site, relative to the site."""
    sites = left[group].data_vars
    return max(float(abs(left[group][n] - right[group][n]).max() / abs(right[group][n]).max()) for n in sites)
