"""Limits of differences of elpd and of log loss: those that are too small, and the lead of the best that was picked.

Small differences. Where two models predict alike, the standard error of their difference in elpd is too small and the
difference is skewed, so that it may be several standard errors off, with the wrong sign (Sivula, Magnusson and Vehtari 2020).
Below `SMALL` a difference tells no model from another.

Picking. The scores of K equally good results scatter by chance, and the best of them is ahead because it was picked
(McLatchie and Vehtari 2024). Let s be the standard error of the difference of two of them. Each score then has the standard
deviation s / √2 about their mean, and the largest of K such normal errors has the median Φ⁻¹(2^(−1/K)) s / √2. Scores of
similar models are correlated beyond what they share, and the figure is then a little too large.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from inference.diagnostics.verdicts import NAMED

SMALL = 4.0  # of elpd
MANY = 3  # results from which the best counts as picked


class Scored(NamedTuple):
    """A score, and the columns of its differences from the best and of their standard errors."""

    name: str
    difference: str
    error: str
    remedy: str


ELPD = Scored("elpd", "elpd diff", "elpd diff se", "Score it on rows that have no part in its elpd (data.test_fraction=0.25)")
LOG_LOSS = Scored("log loss", "log loss diff", "diff se", "Score it on rows that had no part in this choice")


def remarks_on_differences(table: pd.DataFrame) -> list[str]:
    """Remarks on the differences of a table of `inference.compare`: too small ones, and the best of three or more.

    >>> table = pd.DataFrame({"elpd diff": [0.0, -1.5], "elpd diff se": [np.nan, 0.4]}, index=["two", "three"])
    >>> remarks_on_differences(table)[0].split(":")[0]
    'elpd diff of three is below 4'
    """
    return [*filter(None, [_too_small(table), *(_picked(table, score) for score in (ELPD, LOG_LOSS))])]


def lead_by_chance(errors: np.ndarray) -> float:
    """How far the best of K equally good results is ahead of their mean, from the K − 1 standard errors of differences."""
    return float(special.ndtri(0.5 ** (1 / (len(errors) + 1))) * np.median(errors) / np.sqrt(2))


def _compared(table: pd.DataFrame, score: Scored) -> pd.DataFrame:
    """Difference and error of every result that has the score; the best has a difference of 0 and no error."""
    if not {score.difference, score.error} <= set(table):
        return pd.DataFrame({score.difference: [], score.error: []})
    return table[[score.difference, score.error]].astype(float).dropna(subset=[score.difference])


def _too_small(table: pd.DataFrame) -> str:
    compared = _compared(table, ELPD)
    near = compared.index[compared[ELPD.error].notna() & (compared[ELPD.difference].abs() < SMALL)]
    if not len(near):
        return ""
    names = ", ".join(map(str, near[:NAMED])) + (f" and {len(near) - NAMED} more" if len(near) > NAMED else "")
    return (
        f"elpd diff of {names} is below {SMALL:.0f}: too little to tell from the best. Standard errors are too small there, "
        "and the sign may be wrong. Take these models as equally good at prediction, or compare them on more rows"
    )


def _picked(table: pd.DataFrame, score: Scored) -> str:
    compared = _compared(table, score)
    errors = compared[score.error].to_numpy()
    errors = errors[np.isfinite(errors) & (errors > 0)]
    if len(compared) < MANY or len(errors) < len(compared) - 1:
        return ""
    best = compared[score.difference].abs().idxmin()
    return (
        f"{best} was picked as the best of {len(compared)} by {score.name}: if all were equally good, the best would be ahead "
        f"of their mean by about {lead_by_chance(errors):.2g} by chance, and its {score.name} would promise as much too much. "
        f"{score.remedy}"
    )
