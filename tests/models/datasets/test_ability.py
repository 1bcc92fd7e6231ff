"""Six ability tests, by their covariances: the maximum of the likelihood is what R's ``factanal`` prints."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize

from inference import fit
from inference.identification.rotation import rotate
from models import MODELS, ZooError, load_data
from models.datasets.covariances import ABILITY_LOWER, ABILITY_ROWS, ABILITY_TESTS, symmetric

COVARIANCE = symmetric(ABILITY_LOWER)
CORRELATION = COVARIANCE / np.sqrt(np.outer(np.diag(COVARIANCE), np.diag(COVARIANCE)))
HALF = 0.0005  # half of the last digit printed
# num_factors -> uniquenesses, chi-square and its degrees of freedom, as R prints them (example of ?ability.cov)
PRINTED = {
    1: ((0.535, 0.853, 0.748, 0.910, 0.232, 0.280), 75.18, 9),
    2: ((0.455, 0.589, 0.218, 0.769, 0.052, 0.334), 6.11, 4),
}
LOADINGS = np.array([(0.499, 0.156, 0.206, 0.109, 0.956, 0.785), (0.543, 0.622, 0.860, 0.468, 0.182, 0.225)]).T


@cache
def maximum(num_factors):
    """(uniquenesses, standardised loadings, log-likelihood) by EM."""
    data = load_data("ability")
    model = MODELS["factor_analysis"](data, num_factors=num_factors, prior="flat")
    tree = fit(model, data, "em", num_starts=3, max_iter=20_000, tol=1e-13)
    found = tree["point_estimate"]
    noise = 1 / found["precision"].values
    deviation = np.sqrt((found["loading"].values ** 2).sum(1) + noise)
    standard = found["loading"].values / deviation[:, None]
    return noise / deviation**2, standard, float(tree["functionals"]["log_likelihood"])


def saturated():
    """The log-likelihood of the covariance matrix itself."""
    return -ABILITY_ROWS / 2 * (6 * np.log(2 * np.pi) + np.linalg.slogdet(COVARIANCE)[1] + 6)


def chi_square(num_factors, log_likelihood):
    """Bartlett's (1951), from the likelihood ratio against any covariance."""
    columns = len(COVARIANCE)
    ratio = 2 * (saturated() - log_likelihood) / ABILITY_ROWS
    return ratio * (ABILITY_ROWS - 1 - (2 * columns + 5) / 6 - 2 * num_factors / 3)


def discrepancy(log_noise, num_factors):
    """Jöreskog's (1967): twice the likelihood ratio a row, of the noise of standardised columns, loadings maximised out."""
    noise = np.exp(log_noise)
    left = np.linalg.eigvalsh(CORRELATION / np.sqrt(np.outer(noise, noise)))[: len(noise) - num_factors]
    return (left - np.log(left) - 1).sum()


@pytest.mark.slow
@pytest.mark.parametrize("num_factors", PRINTED)
def test_em_reaches_the_printed_solution(num_factors):
    """Uniquenesses and chi-square to the digits that are printed, and those of a minimisation by SciPy.

    A point whose log-likelihood is 1e-6 below the maximum is √2e-6 standard errors away, and these are below 0.1.
    """
    uniqueness, _, log_likelihood = maximum(num_factors)
    printed, chi, degrees = PRINTED[num_factors]
    np.testing.assert_allclose(uniqueness, printed, atol=HALF)
    assert chi_square(num_factors, log_likelihood) == pytest.approx(chi, abs=0.005)
    assert ((6 - num_factors) ** 2 - 6 - num_factors) // 2 == degrees
    bounds = [(np.log(1e-6), 0.0)] * 6
    options = {"ftol": 1e-15, "gtol": 1e-9}
    best = minimize(discrepancy, np.full(6, -0.7), (num_factors,), method="L-BFGS-B", bounds=bounds, options=options)
    assert saturated() - log_likelihood == pytest.approx(ABILITY_ROWS / 2 * best.fun, abs=1e-6)
    np.testing.assert_allclose(uniqueness, np.exp(best.x), atol=0.1 * np.sqrt(2e-6))


@pytest.mark.slow
def test_loadings_are_those_printed_but_for_the_end_of_the_rotation():
    """R turns rows of length 1 (Kaiser 1958), stops early, and prints three digits.

    L Lᵀ knows of no rotation: an entry of it is wrong by |a|₁ + |b|₁ halves of the last digit, a and b its rows, and by two
    squares of them. The printed rotation is less simple than ours, and within half a degree of it: the criterion is flat at its
    maximum. Without Kaiser's rule loadings would be 0.026 away.
    """
    _, standard, _ = maximum(2)
    size = np.abs(LOADINGS).sum(1)
    wrong = np.abs(standard @ standard.T - LOADINGS @ LOADINGS.T)
    assert (wrong < HALF * (size[:, None] + size[None, :]) + 2 * HALF**2 + 1e-5).all()
    length = np.sqrt((standard**2).sum(1))[:, None]
    turned = rotate(standard / length) * length
    turned = turned[:, [int(np.argmax(np.abs(turned[4]))), int(np.argmin(np.abs(turned[4])))]]  # reading first
    left, _, right = np.linalg.svd(LOADINGS.T @ turned)
    assert np.abs(np.degrees(np.arcsin((left @ right)[0, 1]))) < 0.5
    np.testing.assert_allclose(turned, LOADINGS, atol=0.003)
    unit = [loading / np.sqrt((loading**2).sum(1))[:, None] for loading in (turned, LOADINGS)]
    ours, theirs = (((squares**2).mean(0) - squares.mean(0) ** 2).sum() for squares in (unit[0] ** 2, unit[1] ** 2))
    assert theirs < ours + 4 * HALF


@pytest.mark.slow
def test_three_factors_leave_nothing():
    """Ledermann's bound: three factors have as many numbers as six variances and 15 covariances, and reach them all."""
    _, _, log_likelihood = maximum(3)
    assert abs(chi_square(3, log_likelihood)) < 1e-3
    with pytest.raises(ZooError, match=r"can identify at most 3 factors \(Ledermann's bound\)"):
        MODELS["factor_analysis"](load_data("ability"), num_factors=4)


def test_it_is_the_matrix():
    """The weighted rows have it as their covariance, of divisor 112."""
    data = load_data("ability")
    assert data.columns == ABILITY_TESTS
    assert data.weight.sum() == ABILITY_ROWS
    np.testing.assert_allclose((data.weight[:, None] * data.x).T @ data.x / ABILITY_ROWS, COVARIANCE, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(data.weight @ data.x, 0, atol=1e-10)
