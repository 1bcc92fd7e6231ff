"""The four verbs of every conjugate family, against integrals, SciPy's densities and autodiff."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from scipy import integrate, stats
from two_stage import assert_standard_normal, of_means

from models.algebra import inner
from models.base import Family
from models.factors.linear_regression import RegressionStats, regression
from models.families.conjugate import GammaStats, GaussianStats, dirichlet, gamma, joint, normal_gamma, normal_wishart
from models.families.degrees_of_freedom import TailStats, degrees_of_freedom, inverse_dispersion
from models.families.normal_mean import MeanStats, normal_mean


class Case(NamedTuple):
    """A family at one nu."""

    family: Family
    nu: Any


def gaussian_nu(batch: tuple[int, ...], groups: int, dimension: int, matrix: bool, seed: int = 0) -> GaussianStats:
    """Any proper nu: more counts than the shape needs, a positive scatter, means off the origin."""
    rng = np.random.default_rng(seed)
    strength = 1 + rng.gamma(2.0, 1.0, (*batch, groups))
    total = strength[..., None] * rng.normal(size=(*batch, groups, dimension))
    exponent = groups * dimension + dimension + 8 + rng.gamma(2.0, 1.0, batch)
    root = rng.normal(size=(*batch, dimension, dimension)) + 2 * np.eye(dimension)
    outer = np.einsum("...gi,...gj->...ij", total / strength[..., None], total)
    square = root @ np.swapaxes(root, -1, -2) + outer
    if not matrix:
        square = np.trace(square, axis1=-2, axis2=-1)
    return GaussianStats(*map(np.asarray, (exponent, strength, total, square)))


def regression_nu(batch: tuple[int, ...], groups: int, size: int, seed: int = 1) -> RegressionStats:
    """Any proper nu: more cells than the shape needs, a definite K, a residual above 0."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*batch, groups, size, size)) + 2 * np.eye(size)
    strength = root @ np.swapaxes(root, -1, -2)
    total = rng.normal(size=(*batch, groups, size))
    explained = (total * np.linalg.solve(strength, total[..., None])[..., 0]).sum((-2, -1))
    exponent = groups * size + 8 + rng.gamma(2.0, 1.0, batch)
    return RegressionStats(*map(np.asarray, (exponent, strength, total, explained + rng.gamma(2.0, 1.0, batch))))


RATES = GammaStats(np.array([2.5, 0.4]), np.array([1.5, 3.0]))
CASES = {
    "dirichlet": Case(dirichlet, np.array([[1.5, 4.0, 2.2], [3.0, 0.7, 6.0]])),
    "diag": Case(normal_gamma, gaussian_nu((2, 3), 1, 1, matrix=False)),
    "spherical": Case(normal_gamma, gaussian_nu((2,), 1, 3, matrix=False)),
    "full": Case(normal_wishart, gaussian_nu((2,), 1, 2, matrix=True)),
    "tied": Case(normal_wishart, gaussian_nu((), 3, 2, matrix=True)),
    "regressions": Case(regression, regression_nu((3,), 1, 2)),
    "shared_noise": Case(regression, regression_nu((), 3, 2)),
    "tails": Case(degrees_of_freedom, TailStats(*map(np.array, ([7.5, 0.0], [-2.0, -0.2], [1.0, 1.0])))),
    "inverse dispersions": Case(
        inverse_dispersion,
        TailStats(*map(np.array, ([[7.5, 0.0], [30.0, 2.0]], [[-2.0, -0.2], [-9.0, -0.3]], np.ones((2, 2))))),
    ),
    "unit": Case(normal_mean, MeanStats(np.array([2.0, 5.5]), np.array([[1.0, -2.0, 0.5], [4.0, 0.0, 3.0]]))),
    "rates": Case(joint({"one": gamma, "other": gamma}), {"one": RATES, "other": RATES}),  # independent, though equal
}
HALVES = {"tails": 2.0, "inverse dispersions": 1.0}  # what a site is divided by: the shape of the factors
REGRESSIONS = {"regressions", "shared_noise"}
every_family = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def strict_ranks() -> Iterator[None]:
    """The algebra never broadcasts over ranks by accident."""
    with jax.numpy_rank_promotion("raise"):
        yield


class Verbs(NamedTuple):
    """Everything that a family says at its nu, from one compilation; on the host."""

    log_partition: float
    gradient: Any  # of the log partition
    mean: Any
    mode: Any
    draws: Any  # 20000 of T, or as many times more
    direction: Any  # any direction in the space of nu
    curvature: float  # second derivative of the log partition along it


def verbs(name: str) -> Verbs:
    return drawn_verbs(name, 0, 1)  # as the first stage of statistical tests asks for them


@cache
def drawn_verbs(name: str, seed: int, times: int) -> Verbs:
    family, nu = CASES[name]
    rng = np.random.default_rng(5)
    direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), nu)
    if name in REGRESSIONS:
        direction = direction._replace(strength=direction.strength + np.swapaxes(direction.strength, -1, -2))
    if name in {"full", "tied"}:
        direction = direction._replace(square=direction.square + np.swapaxes(direction.square, -1, -2))

    def along(step: Any, nu: Any) -> Any:
        return family.log_partition(jax.tree.map(lambda a, b: a + step * b, nu, direction))

    def slope(step: Any, nu: Any) -> Any:
        return jax.jvp(lambda step: along(step, nu), (step,), (1.0,))[1]

    def curvature(nu: Any) -> Any:
        return jax.jvp(lambda step: slope(step, nu), (0.0,), (1.0,))[1]

    def everything(nu: Any, keys: Any) -> tuple[Any, ...]:
        value, gradient = jax.value_and_grad(family.log_partition)(nu)
        draws = jax.vmap(lambda key: family.sample(key, nu))(keys)
        return value, gradient, family.mean(nu), family.mode(nu), draws, direction, curvature(nu)

    found = jax.jit(everything)(nu, jax.random.split(jax.random.PRNGKey(seed), 20000 * times))
    return Verbs(*jax.tree.map(np.asarray, found))


def coordinates(name: str, T: Any) -> tuple[Any, ...]:
    """θ of a point, in the coordinates of the program's sites: probabilities, or (means, precision), or means."""
    if name == "dirichlet":
        return (np.exp(T),)
    if name == "unit":
        return (T.total,)
    if name in HALVES:
        return (HALVES[name] * T.half,)
    if name == "rates":
        return tuple(-part.exposure for part in T.values())
    precision = -2 * T.square
    if name in {"diag", "spherical", *REGRESSIONS}:
        return T.total / precision[..., None, None], precision
    return np.swapaxes(np.linalg.solve(precision, np.swapaxes(T.total, -1, -2)), -1, -2), precision


def textbook(name: str, *theta: Any) -> Any:
    """T(θ) as the design's table has it, from coordinates."""
    if name == "dirichlet":
        return jnp.log(theta[0])
    if name == "rates":
        return {part: GammaStats(jnp.log(rate), -rate) for part, rate in zip(("one", "other"), theta, strict=True)}
    mean = theta[0]
    if name in HALVES:
        half = theta[0] / HALVES[name]
        return TailStats(half * jnp.log(half) - jax.scipy.special.gammaln(half) - half, half, jnp.log(half))
    if name == "unit":
        return MeanStats(-0.5 * (mean**2).sum(-1), mean)
    precision = theta[1]
    if name in REGRESSIONS:
        outer = mean[..., :, None] * mean[..., None, :]
        scaled = precision[..., None, None] * mean
        return RegressionStats(
            0.5 * jnp.log(precision), -0.5 * precision[..., None, None, None] * outer, scaled, -0.5 * precision
        )
    if name in {"diag", "spherical"}:
        scaled = precision[..., None, None] * mean
        return GaussianStats(0.5 * jnp.log(precision), -0.5 * (mean * scaled).sum(-1), scaled, -0.5 * precision)
    scaled = jnp.einsum("...ij,...gj->...gi", precision, mean)
    half_log_det = 0.5 * jnp.linalg.slogdet(precision)[1]
    return GaussianStats(half_log_det, -0.5 * (mean * scaled).sum(-1), scaled, -0.5 * precision)


def dot(left: Any, right: Any) -> float:
    """< left, right > over all leaves, on the host."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return float(sum((np.asarray(a) * np.asarray(b)).sum() for a, b in pairs))


def close(left: Any, right: Any, rtol: float) -> bool:
    """Whether two pytrees agree, leaf by leaf, relative to the largest entry of the leaf."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.max(np.abs(a - np.asarray(b))) <= rtol * np.max(np.abs(b)) for a, b in pairs)


@every_family
def test_mean_is_the_gradient_of_the_log_partition(name):
    assert close(verbs(name).mean, verbs(name).gradient, 1e-12)


@pytest.mark.parametrize("nu", [(0.5, 2.0), (3.0, 0.0), (-0.5, 1.0)])
def test_dirichlet_log_partition_is_an_integral(nu):
    """Two levels: ∫ p^ν₁ (1 − p)^ν₂ dp, to the accuracy that quad claims (1e-8 with the algebraic end points)."""
    integral, _ = integrate.quad(lambda p: 1.0, 0, 1, weight="alg", wvar=nu)
    assert float(jax.jit(dirichlet.log_partition)(np.array(nu))) == pytest.approx(np.log(integral), abs=1e-8)


@pytest.mark.parametrize("family", [normal_gamma, normal_wishart], ids=["gamma", "wishart"])
def test_gaussian_log_partition_is_an_integral(family):
    """One dimension: ∫∫ exp < T(μ, τ), ν > dμ dτ; the inner interval holds all but 1e-15 of the mass, quad's error is 1e-8."""
    exponent, strength, total, square = 3.3, 1.7, 0.9, 4.0

    def density(mean: float, tau: float) -> float:
        power = 0.5 * exponent * np.log(tau) - 0.5 * strength * tau * mean**2 + total * tau * mean - 0.5 * square * tau
        return float(np.exp(power))

    def inner_integral(tau: float) -> float:
        width = 9 / np.sqrt(strength * tau)
        return integrate.quad(density, total / strength - width, total / strength + width, args=(tau,))[0]

    integral, _ = integrate.quad(inner_integral, 1e-12, 40.0)
    matrix = family is normal_wishart
    shaped = np.array([[square]]) if matrix else np.array(square)
    nu = GaussianStats(np.array(exponent), np.array([strength]), np.array([[total]]), shaped)
    assert float(jax.jit(family.log_partition)(nu)) == pytest.approx(np.log(integral), abs=1e-7)


def test_log_partition_normalises_scipys_densities():
    """log q(θ) = < T(θ), ν > − log Z(ν) is SciPy's Wishart and Normal density, with three means on one precision."""
    nu = CASES["tied"].nu
    T = jax.tree.map(lambda leaf: leaf[0], verbs("tied").draws)
    mean, precision = coordinates("tied", T)
    centre = np.asarray(nu.total / nu.strength[..., None])
    scatter = np.asarray(nu.square) - sum(k * np.outer(m, m) for k, m in zip(np.asarray(nu.strength), centre, strict=True))
    dof = float(nu.exponent) + 2 + 1 - 3
    naive = stats.wishart(dof, np.linalg.inv(scatter)).logpdf(precision)
    for strength, location, draw in zip(np.asarray(nu.strength), centre, mean, strict=True):
        naive += stats.multivariate_normal(location, np.linalg.inv(strength * precision)).logpdf(draw)
    assert dot(T, nu) - verbs("tied").log_partition == pytest.approx(naive, rel=1e-11)


@every_family
def test_points_are_textbook(name):
    """Draws and mode are T of some θ: recomputed from their coordinates, every leaf agrees."""
    points = jax.tree.map(lambda m, d: np.concatenate([m[None], d[:20]]), verbs(name).mode, verbs(name).draws)
    assert close(points, jax.jit(textbook, static_argnums=0)(name, *coordinates(name, points)), 1e-11)


@every_family
def test_mode_is_a_stationary_maximum(name):
    """In the coordinates of the sites (for probabilities, along the simplex) the gradient vanishes, up to rounding of ν θ;
    draws of θ, shrunk towards the mode, lie below it."""
    nu, theta = CASES[name].nu, coordinates(name, verbs(name).mode)
    draws = coordinates(name, jax.tree.map(lambda leaf: leaf[:20], verbs(name).draws))
    near = tuple(m + 0.1 * (d - m) for m, d in zip(theta, draws, strict=True))

    def value(*theta: Any) -> Any:
        return inner(textbook(name, *theta), nu)

    @jax.jit
    def both(theta: Any, near: Any) -> Any:
        return jax.grad(value, range(len(theta)))(*theta), jax.vmap(value)(*near).max()

    gradients, highest = jax.tree.map(np.asarray, both(theta, near))
    if name == "dirichlet":
        gradients = (gradients[0] - gradients[0].mean(-1, keepdims=True),)
    assert max(np.abs(gradient).max() for gradient in gradients) < 1e-10
    assert highest < dot(verbs(name).mode, nu)


def hard_memberships(num_rows: int, num_components: int) -> np.ndarray:
    return np.eye(num_components)[np.arange(num_rows) % num_components]


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_mode_of_statistics_alone_is_maximum_likelihood(covariance):
    """ν = statistics of labelled rows: numpy's means and covariances (divisor n)."""
    from models.emissions.gaussians.gaussian import GAUSSIANS

    x = np.random.default_rng(2).normal(size=(20, 3)) + np.array([1.0, -2.0, 5.0])
    z = hard_memberships(20, 2)
    emission, hyper = GAUSSIANS[covariance], {"origin": np.full(3, 0.5)}

    @jax.jit
    def fitted(x: Any, z: Any) -> Any:
        nu = emission.likelihood.statistics(z, emission.likelihood.features(hyper, x))
        return emission.sites(hyper, emission.family.mode(nu))

    sites = fitted(x, z)
    groups = [x[0::2], x[1::2]]
    covariances = np.array([np.cov(group.T, bias=True) for group in groups])
    expected = {
        "full": np.linalg.inv(covariances),
        "tied": np.linalg.inv(covariances.mean(0)),
        "diag": 1 / np.array([group.var(0) for group in groups]),
        "spherical": 1 / np.array([group.var(0).mean() for group in groups]),
    }
    assert near(sites["mean"], [group.mean(0) for group in groups], rtol=1e-12)
    assert near(sites["precision"], expected[covariance], rtol=1e-11)


def test_mode_of_counts_is_their_share():
    assert near(np.exp(jax.jit(dirichlet.mode)(np.array([3.0, 1.0, 6.0]))), [0.3, 0.1, 0.6], rtol=1e-14)


@every_family
def test_draws_have_the_mean_of_their_family(name):
    """E[T], entry by entry."""

    def deviations(seed: int, times: int) -> np.ndarray:
        found = drawn_verbs(name, seed, times)
        pairs = zip(jax.tree.leaves(found.draws), jax.tree.leaves(found.mean), strict=True)
        return np.concatenate([of_means(draws, mean).ravel() for draws, mean in pairs])

    assert_standard_normal(deviations)


@every_family
def test_draws_have_the_variance_of_their_family(name):
    """Var < T, v > is the second derivative of log Z along v."""

    def deviations(seed: int, times: int) -> np.ndarray:
        found = drawn_verbs(name, seed, times)
        pairs = zip(jax.tree.leaves(found.draws), jax.tree.leaves(found.direction), strict=True)
        values = sum((draws * direction).reshape(len(draws), -1).sum(1) for draws, direction in pairs)
        return of_means((values - values.mean()) ** 2, found.curvature)

    assert_standard_normal(deviations)


@every_family
def test_why_no_mode_names_what_is_missing(name):
    """A sound ν has no why_no_mode; an empty one does, and so does one whose rows coincide, if only but for rounding."""
    family, nu = CASES[name]
    assert family.why_no_mode(jax.tree.map(np.asarray, nu)) is None
    empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape), nu)
    assert len(family.why_no_mode(empty) or "") > 40
    if isinstance(nu, GaussianStats):
        outer = np.einsum("...gi,...gj->...ij", nu.total / nu.strength[..., None], nu.total)
        collapsed = outer if name in {"full", "tied"} else np.trace(outer, axis1=-2, axis2=-1)
        assert "collapses" in (family.why_no_mode(nu._replace(square=collapsed)) or "")
        spread = np.trace(outer, axis1=-2, axis2=-1)[..., None, None] * np.eye(outer.shape[-1])  # 1e-14 of it is rounding
        almost = collapsed + 1e-14 * (spread if name in {"full", "tied"} else collapsed)
        assert "collapses" in (family.why_no_mode(nu._replace(square=almost)) or "")
