"""Named sequences: small facts with their source, and generators with known truth."""

import numpy as np

from models.data import Data

# Ice creams eaten on 33 days, from which the weather, hot or cold, is to be guessed: J. Eisner, "An interactive spreadsheet for
# teaching the forward-backward algorithm" (2002).
ICE_CREAMS = (2, 3, 3, 2, 3, 2, 3, 2, 2, 3, 1, 3, 3, 1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 1, 1, 2, 3, 3, 2, 3, 2, 2)

# Earthquakes of magnitude 7 or more in the world, by year from 1900 to 2006: W. Zucchini, I. MacDonald and R. Langrock, "Hidden
# Markov Models for Time Series" (2016), table 1.1, after the US Geological Survey.
EARTHQUAKES = (
    *(13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14, 8, 11, 14, 23, 18, 17, 19, 20, 22, 19),
    *(13, 26, 13, 14, 22, 24, 21, 22, 26, 21, 23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34, 10, 15),
    *(22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15, 18, 14, 10, 15, 8, 15, 6, 11, 8, 7, 18),
    *(16, 13, 12, 13, 20, 15, 16, 12, 18, 15, 16, 13, 15, 16, 11, 11),
)


def ice_cream() -> Data:
    """Eisner's diary: one, two or three ice creams a day, for 33 days."""
    codes = np.array(ICE_CREAMS, dtype=np.float64)[:, None] - 1
    return Data("ice_cream", codes, ("ice creams",), categories=(("1", "2", "3"),), kinds=("category",))


def earthquakes() -> Data:
    """Major earthquakes a year, 1900 to 2006: 107 counts."""
    return Data("earthquakes", np.array(EARTHQUAKES, dtype=np.float64)[:, None], ("earthquakes",), kinds=("count",))
