"""The algebra of chapters 5 to 8 of docs/course, statement by statement, against slow and obvious computations in NumPy."""

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

RNG = np.random.default_rng(0)
ROUNDING = 1e-10  # sums of at most a few thousand terms near 1, and inverses of matrices with condition numbers below 1e3


@pytest.fixture
def rng():
    return np.random.default_rng(1)


# ---------------------------------------------------------------------------------------------------------------------
# Chapter 5: mixed data and missing cells

A, B, M, BETA = 2.5, 0.7, 0.3, 0.6  # the prior of a mean and its precision, off the line beta = 2a - 1
X = RNG.normal(5.0, 1.3, 40)


def pseudo_data(x):
    """Statement 5.6 with rows x: (exponent, strength, total, square)."""
    prior = np.array([2 * A - 1, BETA, BETA * M, BETA * M**2 + 2 * B])
    return prior + np.array([len(x), len(x), x.sum(), (x**2).sum()])


def mode(nu):
    """Statement 5.7: the mean, and 1 / precision."""
    e, kappa, s, q = nu
    return s / kappa, (q - s**2 / kappa) / e


def log_posterior(mean, precision):
    prior = stats.gamma(A, scale=1 / B).logpdf(precision) + stats.norm(M, (BETA * precision) ** -0.5).logpdf(mean)
    return prior + stats.norm(mean, precision**-0.5).logpdf(X).sum()


def test_pseudo_data_is_the_posterior_up_to_a_constant(rng):
    """Statements 5.4 to 5.6."""
    means, precisions = rng.normal(size=20), rng.gamma(2.0, size=20)
    natural = np.array([0.5 * np.log(precisions), -0.5 * precisions * means**2, precisions * means, -0.5 * precisions])
    direct = [log_posterior(mean, precision) for mean, precision in zip(means, precisions, strict=True)]
    assert np.ptp(direct - pseudo_data(X) @ natural) < 1e-9  # values near 1e3


@pytest.mark.parametrize(("power", "divisor"), [(-1, -3), (0, -1), (1, 1), (2, 3)])
def test_mode_of_a_precision_in_four_coordinates(power, divisor):
    """Statements 5.7 to 5.9: a Jacobian precision ** power changes the divisor, and nothing else."""
    mean, variance = (BETA * M + X.sum()) / (BETA + len(X)), X.var()
    scatter = 2 * B + len(X) * variance + BETA * len(X) / (BETA + len(X)) * (X.mean() - M) ** 2
    stated = scatter / (len(X) + 2 * A + divisor)
    found = optimize.minimize_scalar(
        lambda log_precision: -log_posterior(mean, np.exp(log_precision)) - power * log_precision, bounds=(-5, 5)
    )
    assert np.exp(-found.x) == pytest.approx(stated, rel=1e-4)  # the optimiser stops at 1e-5 of the logarithm
    if power == 0:
        np.testing.assert_allclose(mode(pseudo_data(X)), (mean, stated), rtol=ROUNDING)


def test_columns_are_tied_by_the_component_alone(rng):
    """Statement 5.3, with the second moments written out."""
    probs, means, variances = np.array([0.2, 0.5, 0.3]), rng.normal(size=(3, 2)), rng.gamma(2.0, size=(3, 2))
    second = sum(p * (np.outer(m, m) + np.diag(v)) for p, m, v in zip(probs, means, variances, strict=True))
    away = means - probs @ means
    covariance = second - np.outer(probs @ means, probs @ means)
    assert covariance[0, 1] == pytest.approx(probs @ (away[:, 0] * away[:, 1]), rel=1e-12)


def test_a_missing_cell_is_a_factor_of_one(rng):
    """Statement 5.16, with a category and a count: sums over what could stand there."""
    probs, levels, rates = np.array([0.3, 0.7]), rng.dirichlet(np.ones(3), 2), np.array([0.8, 3.0])
    joint = probs[:, None, None] * levels[:, :, None] * stats.poisson(rates[:, None, None]).pmf(np.arange(60))
    np.testing.assert_allclose(joint.sum(2), probs[:, None] * levels, rtol=ROUNDING)
    np.testing.assert_allclose(joint.sum((1, 2)), probs, rtol=ROUNDING)


def test_missing_cells_as_latents_end_where_they_are_left_out():
    """Statement 5.18: the same fixed point, and the rate at which the mean gets there."""
    nu, missing = pseudo_data(X), 15
    right = np.array(mode(nu))
    mean, variance = 0.0, 1.0
    errors = [mean - right[0]]
    for _ in range(300):
        filled = missing * np.array([1.0, 1.0, mean, mean**2 + variance])
        mean, variance = mode(nu + filled)
        errors.append(mean - right[0])
    np.testing.assert_allclose((mean, variance), right, rtol=ROUNDING)
    assert errors[3] / errors[2] == pytest.approx(missing / (nu[1] + missing), rel=1e-9)


def test_filling_with_the_mean_understates_the_spread():
    """Statement 5.21: sixty cells, of which forty were there."""
    filled = np.concatenate([X, np.full(20, X.mean())])
    assert filled.var() == pytest.approx((1 - 20 / 60) * X.var(), rel=1e-12)


def test_complete_rows_are_biased_where_cells_are_missing_at_random():
    """Section 5.6: the mean of a truncated normal, by quadrature."""
    grid = np.linspace(-12, 0.5, 200_001)
    found = np.trapezoid(0.8 * grid * stats.norm.pdf(grid), grid) / stats.norm.cdf(0.5)
    assert found == pytest.approx(-0.8 * stats.norm.pdf(0.5) / stats.norm.cdf(0.5), rel=1e-6)
    assert found == pytest.approx(-0.407, abs=5e-4)


def test_the_printed_variance_depends_on_where_zero_is():
    """Statements 5.8 and 5.28: the right one moves with no shift, the other is negative."""
    a, b, number = 1.5, 0.5, 12
    square, first = 10_001.0, 100.0  # mean 100 and variance 1
    assert (b + number * square) / (number + 2 * a - 1) - first**2 == pytest.approx(-1427.7, abs=0.05)
    assert (2 * b + number * (square - first**2)) / (number + 2 * a - 1) == pytest.approx(13 / 14, rel=1e-9)


def test_a_row_is_a_mixture_given_its_observed_cells():
    """Statement 5.20: mean and variance of a missing cell, against the moments of a fine grid."""
    gamma, means, sds = np.array([0.25, 0.75]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    grid = np.linspace(-15, 15, 60_001)
    density = np.exp(logsumexp(np.log(gamma)[:, None] + stats.norm(means[:, None], sds[:, None]).logpdf(grid), axis=0))
    mean = gamma @ means
    assert np.trapezoid(grid * density, grid) == pytest.approx(mean, rel=1e-8)
    assert np.trapezoid((grid - mean) ** 2 * density, grid) == pytest.approx(gamma @ (sds**2 + (means - mean) ** 2), rel=1e-8)


# ---------------------------------------------------------------------------------------------------------------------
# Chapter 6: factor analysis and probabilistic PCA

COLUMNS, FACTORS = 6, 2
W = RNG.normal(size=(COLUMNS, FACTORS))
PSI = RNG.uniform(0.3, 1.0, COLUMNS)
ROWS = RNG.normal(size=(60, FACTORS)) @ RNG.normal(size=(FACTORS, COLUMNS)) + RNG.normal(size=(60, COLUMNS))
S = np.cov(ROWS.T, bias=True)


def cost(covariance):
    """-2 / N times the log-likelihood of Statement 6.7 at the mean, without D log 2 pi."""
    return np.linalg.slogdet(covariance)[1] + np.trace(np.linalg.solve(covariance, S))


def implied(loading, noise):
    return loading @ loading.T + np.diag(np.broadcast_to(noise, len(loading)))


def pass_of_em(loading, noise, shared=False, covariance=S):
    """Statement 6.9."""
    inverse = np.linalg.inv(np.eye(loading.shape[1]) + loading.T @ (loading / noise[:, None]))
    projection = inverse @ (loading / noise[:, None]).T
    loading = covariance @ projection.T @ np.linalg.inv(inverse + projection @ covariance @ projection.T)
    noise = np.diag(covariance - loading @ projection @ covariance)
    return loading, np.full(len(noise), noise.mean()) if shared else noise


def closed_form(size):
    """Statement 6.11: eigenvalues from the largest, loadings and noise."""
    values, vectors = np.linalg.eigh(S)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = values[size:].mean()
    return values, vectors[:, :size] * np.sqrt(values[:size] - noise), noise


def test_scores_by_completing_the_square_and_by_the_joint_gaussian():
    """Statements 6.3, 6.4 and 6.19."""
    inverse = np.linalg.inv(np.eye(FACTORS) + W.T @ (W / PSI[:, None]))
    joint = np.block([[np.eye(FACTORS), W.T], [W, implied(W, PSI)]])
    gain = joint[:FACTORS, FACTORS:] @ np.linalg.inv(joint[FACTORS:, FACTORS:])
    np.testing.assert_allclose(inverse @ (W / PSI[:, None]).T, gain, atol=ROUNDING)
    np.testing.assert_allclose(inverse, joint[:FACTORS, :FACTORS] - gain @ joint[FACTORS:, :FACTORS], atol=ROUNDING)


def test_likelihood_of_rows_depends_on_two_moments(rng):
    """Statement 6.7, at a mean that is not that of the rows."""
    covariance, mean = implied(W, PSI), rng.normal(size=COLUMNS)
    away = ROWS.mean(0) - mean
    stated = COLUMNS * np.log(2 * np.pi) + cost(covariance) + away @ np.linalg.solve(covariance, away)
    direct = stats.multivariate_normal(mean, covariance).logpdf(ROWS).sum()
    assert direct == pytest.approx(-len(ROWS) / 2 * stated, rel=1e-12)


def test_the_pass_on_the_covariance_is_the_regression_on_scores():
    """Statements 6.8 and 6.9: normal equations row by row; the mean of the rows is a fixed point."""
    y = ROWS - ROWS.mean(0)
    inverse = np.linalg.inv(np.eye(FACTORS) + W.T @ (W / PSI[:, None]))
    scores = np.hstack([y @ (inverse @ (W / PSI[:, None]).T).T, np.ones((len(y), 1))])
    square = scores.T @ scores
    square[:FACTORS, :FACTORS] += len(y) * inverse
    coefficients = np.linalg.solve(square, scores.T @ y).T
    noise = ((y**2).sum(0) - np.einsum("nd,dl,nl->d", y, coefficients, scores)) / len(y)
    loading, psi = pass_of_em(W, PSI)
    np.testing.assert_allclose(coefficients, np.column_stack([loading, np.zeros(COLUMNS)]), atol=ROUNDING)
    np.testing.assert_allclose(noise, psi, atol=ROUNDING)


def test_em_of_factors_never_rises_and_meets_the_variances():
    """Statements 6.9 and 6.10."""
    loading, noise, trace = W, PSI, []
    for _ in range(6000):
        trace.append(cost(implied(loading, noise)))
        loading, noise = pass_of_em(loading, noise)
    assert np.diff(trace).max() < 1e-12  # rounding of values near 6
    assert noise.min() > 0.01
    np.testing.assert_allclose(np.diag(implied(loading, noise)), np.diag(S), rtol=1e-6)  # what 6000 passes leave


def test_ppca_in_closed_form_is_the_end_of_em():
    """Statements 6.11 and 6.12."""
    values, loading, noise = closed_form(FACTORS)
    found, shared = W, np.full(COLUMNS, 0.5)
    for _ in range(2000):
        found, shared = pass_of_em(found, shared, shared=True)
    np.testing.assert_allclose(implied(found, shared), implied(loading, noise), atol=1e-8)
    stated = np.log(values[:FACTORS]).sum() + (COLUMNS - FACTORS) * np.log(noise) + COLUMNS
    assert cost(implied(loading, noise)) == pytest.approx(stated, rel=1e-12)


def test_every_other_choice_of_axes_is_worse():
    """Statement 6.11, steps 4 to 6: all sets of kept eigenvalues that are above the mean of the rest."""
    values, _, _ = closed_form(FACTORS)
    worth = {}
    for kept in range(2**COLUMNS):
        inside = np.array([kept >> d & 1 for d in range(COLUMNS)], bool)
        if inside.sum() <= FACTORS and (inside.sum() == 0 or values[inside].min() > values[~inside].mean()):
            rest = values[~inside]
            worth[kept] = np.log(values[inside]).sum() + len(rest) * np.log(rest.mean()) + COLUMNS
    assert len(worth) > 2
    assert min(worth, key=worth.__getitem__) == 2**FACTORS - 1


def test_ppca_shrinks_what_pca_reconstructs():
    """Statements 6.13 and 6.23."""
    values, loading, noise = closed_form(FACTORS)
    axes = loading / np.linalg.norm(loading, axis=0)
    inverse = np.linalg.inv(np.eye(FACTORS) + loading.T @ loading / noise)
    scores = inverse @ loading.T / noise
    shrink = 1 - noise / values[:FACTORS]
    np.testing.assert_allclose(loading @ scores, axes * shrink @ axes.T, atol=ROUNDING)
    np.testing.assert_allclose(loading @ np.linalg.pinv(loading), axes @ axes.T, atol=ROUNDING)
    np.testing.assert_allclose(scores, np.sqrt(shrink / values[:FACTORS])[:, None] * axes.T, atol=ROUNDING)
    np.testing.assert_allclose(np.diag(scores @ S @ scores.T) + np.diag(inverse), 1, rtol=ROUNDING)


def test_em_without_noise_is_a_power_iteration():
    """Statement 6.21."""
    stated = S @ W @ np.linalg.inv(W.T @ S @ W) @ W.T @ W
    np.testing.assert_allclose(pass_of_em(W, np.full(COLUMNS, 1e-9))[0], stated, atol=1e-6)  # the noise is not quite 0


def test_three_columns_and_one_factor():
    """Statements 6.20 and 6.22: solved where there is a solution; a noise of 0 where there is none."""
    solvable = implied(np.array([[0.9], [0.5], [-0.7]]), np.array([0.2, 0.5, 0.4]))
    assert solvable[0, 1] * solvable[0, 2] / solvable[1, 2] == pytest.approx(0.81, rel=1e-12)
    heywood = np.array([[1, 0.8, 0.8], [0.8, 1, 0.5], [0.8, 0.5, 1]])
    assert np.linalg.det(heywood) == pytest.approx(0.11, rel=1e-12)
    loading, noise = np.array([[0.9], [0.6], [0.6]]), np.full(3, 0.4)
    for _ in range(4000):
        loading, noise = pass_of_em(loading, noise, covariance=heywood)
    assert noise[0] < 1e-2 < noise[1:].min()


def test_count_of_factors():
    """Statements 6.6 and 6.24."""
    for columns, most in ((6, 3), (9, 5), (13, 8)):
        spare = [columns * (columns + 1) // 2 - columns * n - columns + n * (n - 1) // 2 for n in range(1, columns)]
        assert spare == [((columns - n) ** 2 - columns - n) // 2 for n in range(1, columns)]
        assert sum(each >= 0 for each in spare) == most
    assert 13 * 8 + 13 - 28 == 89 <= 13 * 14 // 2
