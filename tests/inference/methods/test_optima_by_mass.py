"""The masses of the optima of a search without a Jacobian, on densities whose masses are known."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from numpyro import distributions as dist
from scipy.special import gammaln

from inference.engine.quasi_newton import SMALL, Minima
from inference.methods import optima_by_mass
from inference.methods.optima_by_mass import LEAST_SLACK, Search, modes_by_mass

RNG = np.random.default_rng
PLAIN = SimpleNamespace(symmetry=None, naming=SimpleNamespace(dims={}))
EXP = {"theta": dist.transforms.ExpTransform()}


def bumps(static, arrays, z):
    """−log of a mixture of normals in θ = exp z: its masses are its weights, whatever the heights."""
    weights, centres, scales = arrays
    return -logsumexp(norm.logpdf(jnp.exp(z["theta"]), centres, scales).sum(1) + jnp.log(weights))


def search_at(ends: np.ndarray, arrays, objective=bumps, **changed) -> Search:
    """Starts that ended at points (start, d) of positive numbers."""
    points = {"theta": jnp.log(jnp.asarray(ends))}
    values = np.array([float(objective(None, arrays, {"theta": end})) for end in points["theta"]])
    none = np.zeros(len(ends), int)
    minima = Minima(points, none[:, None], none, none == 0, values, 0.0, 0.0, False)
    return Search(objective, None, arrays, minima._replace(**changed))


def all_of(search: Search) -> np.ndarray:
    return np.ones(len(search.minima.values), bool)


def mixture(seed: int, number: int):
    random = RNG(seed)
    centres = 100.0 * (1 + np.arange(number))[:, None] + random.normal(size=(number, 2))
    return random.dirichlet(np.ones(number)), centres, 10.0 ** random.uniform(-3, 0, (number, 2))


@pytest.mark.parametrize("seed", range(8))
def test_optima_have_the_masses_of_the_mixture(seed):
    """In the coordinates of the sites, of which the search knows the logarithms alone. Equal starts are of one optimum."""
    weights, centres, scales = mixture(seed, 2 + seed % 3)
    at = RNG(seed).permutation(np.repeat(np.arange(len(weights)), 2))
    search = search_at(centres[at], (weights, centres, scales))
    found = modes_by_mass(PLAIN, EXP, search, all_of(search))
    there = found.of_start >= 0
    np.testing.assert_allclose(np.exp(found.log_mass[there]), weights[at][there], rtol=1e-3)
    largest = at[found.of_start == 0]
    assert np.isin(largest, np.argmax(weights)).all()
    assert (np.bincount(found.of_start[there]) == 2).all()
    left_out = set(at[~there].tolist())
    highest = (weights / scales.prod(1)).argmax()
    assert all(np.log(weights[number] / weights[highest]) < 0.1 - LEAST_SLACK for number in left_out)


def test_nothing_is_computed_where_all_starts_ended_at_one_height(monkeypatch):
    """Nor for one start, an interrupted search, a large model, or where the highest start has not converged."""

    def computed(*_):
        raise AssertionError("a Hessian is computed")

    arrays = mixture(0, 2)
    both = search_at(arrays[1][[0, 1, 1]], arrays)
    assert modes_by_mass(PLAIN, EXP, both, all_of(both)) is not None
    monkeypatch.setattr(optima_by_mass, "hessian_at", computed)
    same, one = (search_at(arrays[1][places], arrays) for places in ([1, 1, 1], [0]))
    stopped = both.minima._replace(converged=both.minima.values > both.minima.values.min() + 1)
    none = [both._replace(minima=both.minima._replace(interrupted=True)), both._replace(minima=stopped), same, one]
    assert all(modes_by_mass(PLAIN, EXP, each, all_of(each)) is None for each in none)
    assert modes_by_mass(PLAIN, EXP, both, np.zeros(3, bool)) is None
    large = both._replace(minima=both.minima._replace(points={"theta": jnp.zeros((3, SMALL + 1))}))
    assert modes_by_mass(PLAIN, EXP, large, all_of(large)) is None


def plateau(static, arrays, z):
    """Two wells, of which the lower value has a flat direction."""
    a, b = z["theta"]
    return jnp.minimum((a - 1) ** 2, 1 + (a - 9) ** 2 + b**2)


def test_a_highest_optimum_that_is_not_isolated_has_no_mass():
    search = search_at(np.exp([[1.0, 0.0], [9.0, 0.0]]), None, plateau)
    assert modes_by_mass(PLAIN, EXP, search, all_of(search)) is None


def test_probabilities_have_the_volume_of_the_simplex():
    """A Dirichlet density: the Gaussian in the probabilities without the last is Stirling's approximation of its constant."""
    alpha = jnp.array([400.0, 300.0, 500.0])

    def objective(static, arrays, z):
        probs = dist.transforms.StickBreakingTransform()(z["theta"])
        return -((alpha - 1) * jnp.log(probs)).sum()

    stick = dist.transforms.StickBreakingTransform()
    mode = stick.inv((alpha - 1) / (alpha - 1).sum())
    hessian = jax.hessian(lambda flat: objective(None, None, {"theta": flat}))(mode)
    volume = optima_by_mass.log_jacobians({"theta": stick}, {"theta": mode[None, None]})[0, 0]
    mass = -objective(None, None, {"theta": mode}) + np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(hessian)[1] + volume
    assert float(mass) == pytest.approx(float(gammaln(alpha).sum() - gammaln(alpha.sum())), abs=5e-3)
