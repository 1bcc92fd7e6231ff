"""The evidence from independent runs of sequential Monte Carlo, its standard error, and whether the runs agree."""

from typing import NamedTuple

import numpy as np
from scipy import special

UNLIKELY = 0.05  # agreement below which the spread of the runs counts


class Evidence(NamedTuple):
    """Log p(x), its Monte Carlo standard error, and the probability that runs of one law differ by as much as these."""

    log_evidence: float
    standard_error: float
    agreement: float  # 1 for one run


def combined(log_evidences: np.ndarray, variances: np.ndarray) -> Evidence:
    """The mean of the evidences Ẑ_r of R runs (R,), whose relative variances by their families are ``variances`` (R,).

    Its variance is Σ_r (Ẑ_r / Σ Ẑ)² variance_r. Families do not see a mode that a run has missed, but the runs then differ. The
    agreement is that of a χ² test of the log Ẑ_r about their mean, with R − 1 degrees of freedom. Below `UNLIKELY` the error is
    the standard deviation of the log Ẑ_r, if that is larger: where runs differ by nats, an error of the mean Ẑ cannot say by
    how many, because one run is nearly all of it.

    >>> combined(np.log([1.0, 3.0]), np.array([0.0, 0.0])).log_evidence == np.log(2.0)
    True
    """
    number = len(log_evidences)
    total = np.logaddexp.reduce(log_evidences)
    share = np.exp(log_evidences - total)
    within = np.sqrt((share**2 * variances).sum())
    log_evidence = float(total - np.log(number))
    if number == 1:
        return Evidence(log_evidence, float(within), 1.0)
    between = log_evidences.std(ddof=1)
    precision = 1 / np.maximum(variances, np.finfo(float).tiny)
    centre = (precision * log_evidences).sum() / precision.sum()
    squares = (precision * (log_evidences - centre) ** 2).sum()
    agreement = float(special.chdtrc(number - 1, squares))
    return Evidence(log_evidence, float(max(within, between) if agreement < UNLIKELY else within), agreement)
