"""A posterior with two modes that are genuinely different, of known mass: all 2⁸ divisions of eight rows, by their marginals.

Four pairs of rows near the corners of a rectangle, which is a little wider than high, and two components with unit variance:

    mean_k ~ Normal(0, I),    z_n uniform,    x_n ~ Normal(mean_{z_n}, I)

Left and right belong together, or top and bottom do. On the way from one division to the other rows lie six standard deviations
from their mean, so that a sampler that moves one row, or one mean, at a time stays where it is.
"""

from itertools import product

import numpy as np
from scipy import stats
from scipy.special import logsumexp

CORNERS = np.array([(-3.0, -2.95), (-3.0, 2.95), (3.0, -2.95), (3.0, 2.95)])
ROWS = np.repeat(CORNERS, 2, axis=0) + np.tile([[-0.1, 0.1], [0.1, -0.1]], (4, 1))
LOWER_LEFT, UPPER_LEFT, LOWER_RIGHT = 0, 2, 4  # a row of each
LEFT_AND_RIGHT = {"mean": np.array([[-2.5, 0.0], [2.5, 0.0]])}
TOP_AND_BOTTOM = {"mean": np.array([[0.0, -2.5], [0.0, 2.5]])}


def log_marginal(x: np.ndarray) -> float:
    """Log ∫ p(x | mean) p(mean) d mean of the rows (n, 2) of one component: columns are Normal(0, I + 1 1ᵀ)."""
    if not len(x):
        return 0.0
    covariance = np.eye(len(x)) + np.ones((len(x), len(x)))
    return float(stats.multivariate_normal(np.zeros(len(x)), covariance).logpdf(x.T).sum())


def divisions() -> tuple[np.ndarray, np.ndarray]:
    """(256, 8): all assignments z; (256,): log p(x, z)."""
    z = np.array(list(product(range(2), repeat=len(ROWS))))
    log_joint = [sum(log_marginal(ROWS[one == k]) for k in range(2)) - len(ROWS) * np.log(2) for one in z]
    return z, np.array(log_joint)


def probability_together(row: int, other: int) -> float:
    """P(z_row = z_other | x)."""
    z, log_joint = divisions()
    probs = np.exp(log_joint - logsumexp(log_joint))
    return float(probs[z[:, row] == z[:, other]].sum())
