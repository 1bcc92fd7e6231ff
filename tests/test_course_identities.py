"""What chapters 1 to 4 of the course prove, by naive computations in NumPy. The models of the zoo are tested elsewhere."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

RNG = np.random.default_rng(0)


# Chapter 1


def joint_table(numbers, num_classes, size):
    """p(x, y) of naive Bayes from its free numbers: all but the last class probability, then p_cd class by class."""
    probs, p = numbers[: num_classes - 1], numbers[num_classes - 1 :].reshape(num_classes, size)
    probs = np.append(probs, 1 - probs.sum())
    rows = np.array(list(product((0, 1), repeat=size)))[:, None]
    return (probs * np.prod(np.where(rows, p, 1 - p), axis=2)).ravel()


@pytest.mark.parametrize(("num_classes", "size"), [(2, 2), (2, 4), (3, 3)])
def test_free_numbers_are_directions_in_which_the_table_moves(num_classes, size):
    """Statements 1.2 and 1.5: ranks, of all tables about their mean, and of the derivative of naive Bayes' (complex steps)."""
    tables = RNG.dirichlet(np.ones(num_classes * 2**size), size=3 * num_classes * 2**size)
    assert np.linalg.matrix_rank(tables - tables.mean(axis=0)) == num_classes * (2**size - 1) + num_classes - 1
    numbers = np.append(RNG.dirichlet(np.ones(num_classes))[:-1], RNG.uniform(0.2, 0.8, num_classes * size))
    moved = [joint_table(numbers + 1e-20j * step, num_classes, size).imag * 1e20 for step in np.eye(len(numbers))]
    assert np.linalg.matrix_rank(np.array(moved)) == num_classes * size + num_classes - 1


def test_conditionally_independent_words_are_correlated():
    """Statement 1.4, from the whole table of three classes."""
    probs, p = RNG.dirichlet(np.ones(3)), RNG.uniform(size=(3, 2))
    table = {row: probs @ np.prod(np.where(row, p, 1 - p), axis=1) for row in product((0, 1), repeat=2)}
    first, second = table[1, 0] + table[1, 1], table[0, 1] + table[1, 1]
    mean = probs @ p
    by_formula = probs @ np.prod(p - mean, axis=1)
    assert np.isclose(table[1, 1] - first * second, by_formula, rtol=1e-10)
    assert abs(by_formula) > 1e-3


def test_laplace_is_a_mean_and_two_modes():
    """Statement 1.11: modes on a grid of a million steps, which has the mode to half a step."""
    m, n = 3, 10
    p = np.linspace(0, 1, 1_000_001)[1:-1]
    log_odds = m * np.log(p) + (n - m) * np.log1p(-p)
    jacobian = np.log(p) + np.log1p(-p)
    assert np.isclose(stats.beta(1 + m, 1 + n - m).mean(), (m + 1) / (n + 2))
    assert np.isclose(p[(log_odds + jacobian).argmax()], (m + 1) / (n + 2), atol=1e-6)  # under Beta(2, 2), and in the logit
    assert np.isclose(p[log_odds.argmax()], m / n, atol=1e-6)


def test_the_predictive_is_a_plug_in_for_one_row_only():
    """Statement 1.13, by sums over a fine grid of p: the integrand is a polynomial, and the error of the sum below 1e-9."""
    p = (np.arange(200_000) + 0.5) / 200_000
    weight = stats.beta(4, 8).pdf(p) / len(p)
    assert np.isclose((weight * p).sum(), 4 / 12, rtol=1e-8)
    assert np.isclose((weight * p**2).sum(), 4 * 5 / (12 * 13), rtol=1e-8)
    assert (weight * p**2).sum() > (4 / 12) ** 2


def test_log_odds_of_chains_need_pairs():
    """Statement 1.16: the coefficient of a pair is the difference of the log odds ratios of two classes."""
    rows = RNG.uniform(0.1, 0.9, (2, 2))  # p(v = 1 | u), for each class and u
    f = {(u, v): np.log((rows[1] if v else 1 - rows[1])[u] / (rows[0] if v else 1 - rows[0])[u]) for u, v in np.ndindex(2, 2)}
    odds = np.log(rows / (1 - rows))
    assert np.isclose(f[1, 1] - f[1, 0] - f[0, 1] + f[0, 0], np.diff(odds[1])[0] - np.diff(odds[0])[0])


# Chapter 2


def positive(size):
    """A positive definite matrix with eigenvalues of at least 1."""
    root = RNG.normal(size=(size, size))
    return root @ root.T + np.eye(size)


def slope(function, matrix):
    """The derivative of a function of a symmetric matrix, entry by entry, by complex steps."""
    steps = np.eye(matrix.size).reshape(-1, *matrix.shape)
    return np.array([function(matrix + 1e-20j * step).imag * 1e20 for step in steps]).reshape(matrix.shape)


def test_gradients_in_precision_and_covariance():
    """Statement 2.6."""
    x = RNG.normal(size=(7, 3))
    scatter, covariance = x.T @ x, positive(3)

    def log_density(precision):
        return len(x) / 2 * np.log(np.linalg.det(precision)) - np.trace(precision @ scatter) / 2

    by_precision = slope(log_density, np.linalg.inv(covariance))
    by_covariance = slope(lambda matrix: log_density(np.linalg.inv(matrix)), covariance)
    assert np.allclose(by_precision, len(x) / 2 * covariance - scatter / 2, rtol=1e-9)
    assert np.allclose(by_precision, -covariance @ by_covariance @ covariance, rtol=1e-9)


def test_scatter_is_within_and_between():
    """Statement 2.9; and the shared covariance is the average of the own ones (Statement 2.7)."""
    x, y = RNG.normal(size=(30, 3)) * [1, 2, 3], np.arange(30) % 3 * (np.arange(30) > 4)
    count, mean = np.bincount(y), np.array([x[y == c].mean(0) for c in range(3)])
    within = (x - mean[y]).T @ (x - mean[y])
    between = ((mean - x.mean(0)).T * count) @ (mean - x.mean(0))
    assert np.allclose(within + between, (x - x.mean(0)).T @ (x - x.mean(0)))
    assert np.allclose(within, sum(n * np.cov(x[y == c].T, bias=True) for c, n in enumerate(count)))


def test_the_error_rate_of_two_gaussians():
    """Statement 2.12: the smaller of the two densities, summed over a fine grid in the direction of the means."""
    grid = np.linspace(-12, 14, 400_001)
    for share in (0.5, 0.2, 0.05):
        joint = [(1 - share) * stats.norm(0, 1).pdf(grid), share * stats.norm(2, 1).pdf(grid)]
        by_sum = np.minimum(*joint).sum() * (grid[1] - grid[0])
        log_odds = np.log(share / (1 - share)) / 2
        by_formula = (1 - share) * stats.norm.cdf(-1 + log_odds) + share * stats.norm.cdf(-1 - log_odds)
        assert np.isclose(by_formula, by_sum, rtol=1e-6)


def test_quadratics_of_prior_and_rows_add():
    """The step in the proof of Statement 2.15."""
    strength, location, x, mean = 0.7, RNG.normal(size=2), RNG.normal(size=(5, 2)), RNG.normal(size=2)
    total, average = strength + len(x), x.mean(0)
    centre = (strength * location + len(x) * average) / total

    def outer(a):
        return np.outer(a, a)

    left = strength * outer(mean - location) + sum(map(outer, x - mean))
    gain = sum(map(outer, x - average)) + strength * len(x) / total * outer(average - location)
    assert np.allclose(left, total * outer(mean - centre) + gain)


# Chapter 3


def expit(eta):
    return 1 / (1 + np.exp(-eta))


def test_the_quadratic_lies_below_and_touches():
    """Statement 3.9."""
    eta, xi = np.meshgrid(np.linspace(-30, 30, 601), [0.1, 1.0, 4.0, 20.0])
    omega = np.tanh(xi / 2) / (2 * xi)

    def bound(eta):
        return -eta / 2 - omega * (eta**2 - xi**2) / 2 - np.log(2 * np.cosh(xi / 2))

    assert (bound(eta) <= -np.logaddexp(0, eta) + 1e-12).all()
    for sign in (-1, 1):
        assert np.allclose(bound(sign * xi), -np.logaddexp(0, sign * xi), atol=1e-12)


def test_slope_and_curvature_of_logistic_regression():
    """Statement 3.5, by complex steps of the log-likelihood and of its slope."""
    x, y, w = RNG.normal(size=(20, 3)), np.arange(20) % 2, RNG.normal(size=3)
    steps = 1e-20j * np.eye(3)
    by_steps = [(y * (x @ (w + h)) - np.log1p(np.exp(x @ (w + h)))).sum().imag * 1e20 for h in steps]
    assert np.allclose(by_steps, (y - expit(x @ w)) @ x)
    curvature = [((y - expit(x @ (w + h))) @ x).imag * 1e20 for h in steps]
    p = expit(x @ w)
    assert np.allclose(curvature, -(x.T * p * (1 - p)) @ x)


@pytest.mark.parametrize(("distance", "ratios"), [(1, (0.99, 0.99)), (2, (0.90, 0.80)), (3, (0.64, 0.46)), (4, (0.34, 0.19))])
def test_what_a_true_model_of_x_is_worth(distance, ratios):
    """The table of Statement 3.11: the information of the labels by quadrature, that of Gaussians by the delta method."""
    x = np.linspace(-14, 14, 100_001)
    density = (stats.norm(-distance / 2).pdf(x) + stats.norm(distance / 2).pdf(x)) / 2 * (x[1] - x[0])
    p, design = expit(distance * x), np.stack([np.ones_like(x), x])
    logistic = np.linalg.inv((design * density * p * (1 - p)) @ design.T).diagonal()
    slopes = np.array([[4, -distance / 2, -distance / 2, 0], [0, -1, 1, -distance]])  # in share, both means, variance
    generative = (slopes**2) @ [1 / 4, 2, 2, 2]
    assert np.allclose(generative / logistic, ratios, atol=0.006)


def test_logistic_regression_wins_on_training_rows_and_tilts_have_linear_log_odds():
    """Statements 3.10 and 3.3: by Newton on rows with classes that are not Gaussian; by a skewed density and its tilt."""
    y = np.arange(60) % 2
    x = np.stack([np.ones(60), RNG.exponential(1 + y)])
    mean = np.array([x[1, y == c].mean() for c in (0, 1)])
    variance = ((x[1] - mean[y]) ** 2).mean()
    generative = np.array([(mean[0] ** 2 - mean[1] ** 2) / (2 * variance), (mean[1] - mean[0]) / variance])
    w = np.zeros(2)
    for _ in range(30):
        p = expit(w @ x)
        w = w + np.linalg.solve((x * p * (1 - p)) @ x.T, x @ (y - p))
    log_likelihood = [(y * (v @ x) - np.logaddexp(0, v @ x)).sum() for v in (w, generative)]
    assert log_likelihood[0] > log_likelihood[1]
    assert np.allclose(x @ expit(w @ x), x @ y)  # Statement 3.6
    one = stats.gamma(3).pdf(x[1])
    two = stats.gamma(3, scale=2).pdf(x[1])  # a tilt by e^{x / 2}
    assert np.ptp(np.log(two / one) - x[1] / 2) < 1e-12


# Chapter 4: means with standard normal priors, uniform weights, variance 1, two components


def log_terms(x, mu):
    return stats.norm(mu).logpdf(x[:, None]) - np.log(len(mu))


def posterior(x, mu):
    terms = np.exp(log_terms(x, mu))
    return terms / terms.sum(axis=1, keepdims=True)


def log_joint(x, mu):
    return stats.norm.logpdf(mu).sum() + np.log(np.exp(log_terms(x, mu)).sum(axis=1)).sum()


def bound(x, mu, r):
    return stats.norm.logpdf(mu).sum() + (r * (log_terms(x, mu) - np.log(r))).sum()


def assignments(size):
    return np.array(list(product((0, 1), repeat=size)))


def log_marginal(x, z):
    """log p(x, z) with the means integrated out: the rows of a component are jointly normal with covariance I + 11'."""
    total = -len(x) * np.log(2)
    for k in (0, 1):
        own = x[z == k]
        total += stats.multivariate_normal(np.zeros(len(own)), np.eye(len(own)) + 1).logpdf(own) if len(own) else 0.0
    return total


X = np.array([-2.1, -1.3, -0.2, 0.4, 1.9])


def test_the_gap_of_the_bound_is_a_divergence():
    """Statements 4.7 and 4.8: against the whole posterior of z, for rows that are not the posterior's."""
    mu, r = np.array([-0.5, 0.7]), RNG.dirichlet(np.ones(2), size=len(X))
    z = assignments(len(X))
    rows = np.arange(len(X))
    q, p = (np.prod(table[rows, z], axis=1) for table in (r, posterior(X, mu)))
    divergence = (q * np.log(q / p)).sum()
    assert divergence > 0.1
    assert np.isclose(log_joint(X, mu), bound(X, mu, r) + divergence, rtol=1e-12)


def test_an_iteration_gains_the_bound_and_the_new_gap():
    """Statements 4.9 and 4.11, and the textbook's step of the means."""
    mu = np.array([-0.6, 0.3])
    r = posterior(X, mu)
    then = r.T @ X / (1 + r.sum(axis=0))
    gap = (r * np.log(r / posterior(X, then))).sum()
    assert np.isclose(bound(X, mu, r), log_joint(X, mu), rtol=1e-12)
    assert np.isclose(log_joint(X, then) - log_joint(X, mu), bound(X, then, r) - bound(X, mu, r) + gap, rtol=1e-9)
    steps = 1e-6 * np.eye(2)  # the bound is quadratic: central differences are exact up to 1e-16 / 1e-6
    slope = [(bound(X, then + h, r) - bound(X, then - h, r)) / 2e-6 for h in steps]
    assert np.allclose(slope, 0, atol=1e-8)
    touching = [[(f(mu + h) - f(mu - h)) / 2e-6 for h in steps] for f in (lambda m: bound(X, m, r), lambda m: log_joint(X, m))]
    assert np.allclose(*touching, atol=1e-7)


def test_the_gap_of_variational_bayes_falls_into_two():
    """Statement 4.12: the evidence over all 2⁵ assignments, everything else on a grid of means.

    The Gaussians have standard deviations of 0.4 and more, eight steps of the grid, so that sums are integrals up to 1e-12.
    """
    r, mean, sd = RNG.dirichlet(np.ones(2), size=len(X)), np.array([-1.0, 1.2]), np.array([0.5, 0.4])
    z, grid = assignments(len(X)), np.linspace(-5, 5, 201)
    mu = np.array(list(product(grid, repeat=2)))
    log_q, log_prior = stats.norm(mean, sd).logpdf(mu).sum(axis=1), stats.norm.logpdf(mu).sum(axis=1)
    terms = stats.norm.logpdf(X[:, None], loc=mu[:, None]) - np.log(2)  # (means, rows, components)
    joint = log_prior + np.logaddexp(*np.moveaxis(terms, 2, 0)).sum(axis=1)
    weight = np.exp(log_q) * 0.05**2
    lower = weight @ (log_prior + (r * (terms - np.log(r))).sum(axis=(1, 2)) - log_q)
    parameters = weight @ (log_q - joint + np.log(np.exp(joint).sum() * 0.05**2))  # the posterior is normalised on the grid
    p = np.exp(terms) / np.exp(terms).sum(axis=2, keepdims=True)
    q_z, p_z = (np.prod(table[..., np.arange(len(X)), z], axis=-1) for table in (r, p))
    latents = weight @ (q_z * np.log(q_z / p_z)).sum(axis=1)
    assert min(parameters, latents) > 0.1
    evidence = np.log(sum(np.exp(log_marginal(X, one)) for one in z))
    assert np.isclose(evidence, lower + parameters + latents, rtol=1e-8)


def test_collapsed_conditionals_are_ratios_of_the_joint():
    """Statement 4.14 and Exercise 4.20, for every assignment of the other rows."""
    for z in assignments(len(X)):
        other = np.arange(len(X)) != 2
        count = np.array([(z[other] == k).sum() for k in (0, 1)])
        total = np.array([X[other][z[other] == k].sum() for k in (0, 1)])
        predictive = stats.norm(total / (1 + count), np.sqrt(1 + 1 / (1 + count))).pdf(X[2])
        joint = [np.exp(log_marginal(X, np.where(other, z, k))) for k in (0, 1)]
        assert np.allclose(predictive / predictive.sum(), joint / np.sum(joint))


def test_gibbs_leaves_a_posterior_as_it_is():
    """Statement 4.13 for two coupled variables with three and four values: both sweeps have the joint as their fixed point."""
    joint = RNG.dirichlet(np.ones(12)).reshape(3, 4)
    of_first, of_second = joint / joint.sum(axis=0), joint / joint.sum(axis=1, keepdims=True)
    assert np.allclose(of_first * joint.sum(axis=0), joint)
    sweep = np.einsum("kj,kl->jkl", of_first, of_second)  # from (anything, j) to (k, l)
    assert np.allclose(np.einsum("ij,jkl->kl", joint, sweep), joint)
    wrong = np.einsum("ij,ik,jl->kl", joint, of_second @ of_first.T, of_second.T @ of_first)  # both given the old values
    assert not np.allclose(wrong, joint, atol=1e-3)


def test_hard_responsibilities_are_the_limit_and_equal_means_a_saddle():
    """Statement 4.6, and Exercises 4.16 and 4.19."""
    mu = np.array([-0.5, 0.9])
    squares = (X[:, None] - mu) ** 2
    soft = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * 0.01**2))
    assert np.allclose(soft / soft.sum(axis=1, keepdims=True), squares == squares.min(axis=1, keepdims=True), atol=1e-12)

    centre, h = X.sum() / (2 + len(X)), 1e-3  # the error of the second difference is of order h²
    apart = sum(log_joint(X, centre + sign * np.array([h, -h])) for sign in (-1, 1)) - 2 * log_joint(X, np.full(2, centre))
    assert np.isclose(apart / h**2, -2 - len(X) + ((X - centre) ** 2).sum(), atol=1e-3)

    grid = np.linspace(-12, 12, 1_000_001)
    for m, wanted in ((0, 0.798), (1, 1.167), (3, 3.001)):
        density = (stats.norm(-m).pdf(grid) + stats.norm(m).pdf(grid)) / 2
        assert np.isclose((np.abs(grid) * density).sum() * (grid[1] - grid[0]), wanted, atol=1e-3)
