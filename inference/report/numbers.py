"""Numbers in tables: as many digits as their Monte Carlo error supports."""

import numpy as np
import pandas as pd

# columns of a summary that are shown, and their headings
HEADINGS = {
    "mean": "mean",
    "sd": "sd",
    "eti89_lb": "5.5 %",
    "eti89_ub": "94.5 %",
    "ess_bulk": "ESS",
    "r_hat": "R-hat",
    "value": "value",
}
MOST_DECIMALS = 6
AT_OPTIMUM = 6  # significant digits of a value at an optimum


def format_number(value: float, column: str = "", error: float | None = None) -> str:
    """A number of a summary, whose ``column`` has the name that ArviZ gives it; a dash for NaN.

    ``error`` is the Monte Carlo error of the row's mean. Its first digit is the last one that is printed: a mean of 6.2621 with
    an error of 0.003 is 6.262, with an error of 0.04 it is 6.26; an error above 1 leaves whole numbers. Six decimals are the
    most. Without an error there are four significant digits.

    >>> format_number(-337.0212, "mean", error=0.07), format_number(3539.4, "ess_bulk"), format_number(float("nan"))
    ('-337.02', '3539', '–')
    """
    if np.isnan(value):
        return "–"
    if column == "ess_bulk":
        return f"{value:.0f}"
    if column == "r_hat":
        return f"{value:.3f}"
    if column == "value":
        return f"{value:.{AT_OPTIMUM}g}"
    if column == "sd":
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    if error is not None and 0 < error < np.inf:
        places = int(np.clip(np.ceil(-np.log10(error)), 0, MOST_DECIMALS))
        return f"{value:.{places}f}" if abs(value) >= 10.0**-places or value == 0 else f"{value:.2g}"
    return f"{value:.4g}"


def in_digits(frame: pd.DataFrame, decimal: str = ".") -> pd.DataFrame:
    """The table with its fractions as texts of six digits, and with one decimal from 100,000 on; empty for NaN.

    >>> in_digits(pd.DataFrame({"probability": [2 / 3], "log_density": [-123456.789]}), ",").values.tolist()
    [['0,666667', '-123456,8']]
    """
    rounded = frame.copy()
    for name in frame:
        if pd.api.types.is_float_dtype(frame[name]) or pd.api.types.is_object_dtype(frame[name]):
            cells = frame[name].tolist()  # a column of objects has words and numbers
            rounded[name] = [_cell(cell).replace(".", decimal) if isinstance(cell, float) else cell for cell in cells]
    return rounded


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"


def printed_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a summary that are shown, as text, under their headings."""
    errors = frame["mcse_mean"] if "mcse_mean" in frame else pd.Series(np.nan, frame.index)
    known = [None if np.isnan(error) else float(error) for error in errors]
    shown = {
        heading: [format_number(float(value), column, error) for value, error in zip(frame[column], known, strict=True)]
        for column, heading in HEADINGS.items()
        if column in frame
    }
    return pd.DataFrame(shown, index=frame.index)
