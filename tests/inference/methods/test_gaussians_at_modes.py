"""Height is not mass, and units are not curvature: Laplace's approximation on targets whose masses are known."""

from itertools import permutations
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import distributions as dist
from scipy import stats

from inference import fit
from inference.diagnostics.checks import diagnose
from inference.engine.quasi_newton import Minima
from inference.methods import advi, laplace
from inference.methods import map as map_method
from inference.methods.gaussians_at_modes import _log_alike, curvatures, modes_of, normal_at
from inference.methods.laplace import mixture_of
from models import MODELS, load_data
from models.base import ZooError
from models.symmetries import Permutation

RNG = np.random.default_rng


def hessian_of(seed: int, size: int) -> np.ndarray:
    """A random precision matrix, whose condition number is moderate in standard units."""
    half = RNG(seed).normal(size=(2 * size, size))
    return half.T @ half


def nothing(symmetry=None):
    """What is read of a model without names, by default without a symmetry."""
    return SimpleNamespace(symmetry=symmetry, naming=SimpleNamespace(dims={}))


def gaussian(hessian: np.ndarray, mode: np.ndarray):
    curvature = curvatures(nothing(), None, hessian, float)
    return normal_at(jnp.asarray(mode), hessian, curvature, np.zeros((len(mode), 0)))


@pytest.mark.parametrize("seed", range(20))
def test_units_change_neither_the_verdict_nor_the_draws(seed):
    """Of z → c z with c from 1e-6 to 1e6: draws are c times those, the log determinant has lost Σ log c."""
    random = RNG(seed)
    size = int(random.integers(1, 12))
    hessian, mode, noise = hessian_of(seed, size), random.normal(size=size), random.normal(size=(5, size))
    units = 10.0 ** random.uniform(-6, 6, size)
    one, other = gaussian(hessian, mode), gaussian(hessian / np.outer(units, units), mode * units)
    np.testing.assert_allclose(np.asarray(other.points(noise)) / units, np.asarray(one.points(noise)), rtol=1e-9, atol=1e-9)
    assert other.log_scale == pytest.approx(one.log_scale - np.log(units).sum(), abs=1e-8)
    for found in (one, other):
        np.testing.assert_allclose(found.noise(np.asarray(found.points(noise))), noise, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_a_flat_direction_is_one_in_all_units(seed):
    random = RNG(seed)
    size = int(random.integers(2, 12))
    flat = random.normal(size=size)
    across = np.eye(size) - np.outer(flat, flat) / (flat @ flat)
    units = 10.0 ** random.uniform(-6, 6, size)
    for scale in (np.ones(size), units):
        with pytest.raises(ZooError, match="no isolated mode"):
            gaussian(across @ hessian_of(seed, size) @ across / np.outer(scale, scale), np.zeros(size))


def test_the_gaussian_is_numpys():
    """Covariance, density and log determinant, by hand."""
    hessian, mode = hessian_of(1, 4), RNG(2).normal(size=4)
    found, noise = gaussian(hessian, mode), RNG(3).normal(size=(6, 4))
    points = np.asarray(found.points(noise))
    wanted = stats.multivariate_normal(mode, np.linalg.inv(hessian)).logpdf(points)
    np.testing.assert_allclose(found.log_density(noise), wanted, rtol=1e-10)
    assert found.log_scale == pytest.approx(0.5 * np.linalg.slogdet(hessian)[1])


class Bumps:
    """A mixture of normals on ℝᵈ far apart, with diagonal covariances: its masses are its weights."""

    def __init__(self, seed: int, number: int) -> None:
        random = RNG(seed)
        self.size = int(random.integers(2, 11))
        self.centres = 40.0 * np.arange(number)[:, None] + random.normal(size=(number, self.size))
        self.scales = 10.0 ** random.uniform(-3, 0, (number, self.size))
        self.weights = random.dirichlet(np.ones(number))

    def log_density(self, flat) -> float:
        each = stats.norm(self.centres, self.scales).logpdf(np.asarray(flat)).sum(1)
        return float(np.logaddexp.reduce(np.log(self.weights) + each))

    def found(self, symmetry=None):
        """The modes, from two or three starts at each, some of which end a little off."""
        at = np.repeat(np.arange(len(self.weights)), 2 + np.arange(len(self.weights)) % 2)
        ends = self.centres[at] + 1e-6 * self.scales[at] * RNG(0).normal(size=(len(at), self.size))
        values, none = np.array([-self.log_density(end) for end in ends]), np.full(len(at), 0)
        minima = Minima({"t": jnp.asarray(ends)}, none[:, None], none, none == 0, values, 0.0, 0.0, False)
        unravel = ravel_pytree({"t": jnp.zeros(self.size)})[1]
        supports = {"t": dist.transforms.IdentityTransform()}

        def hessian_at(flat):
            near = np.abs(self.centres - np.asarray(flat)).max(1).argmin()
            return np.diag(self.scales[near] ** -2.0)

        modes = modes_of(nothing(symmetry), supports, unravel, minima, lambda flat: -self.log_density(flat), hessian_at)
        return at, *modes


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_modes_have_the_masses_of_the_mixture(seed):
    """Whatever their heights. Starts are told apart as they were placed, and the largest mass comes first."""
    target = Bumps(seed, 2 + seed % 3)
    at, found, modes = target.found()
    order = np.argsort(-target.weights)
    np.testing.assert_allclose(np.exp([each.log_mass for each in found]), target.weights[order], rtol=1e-6)
    np.testing.assert_array_equal(order[modes.of_start], at)
    np.testing.assert_allclose(np.exp(modes.log_mass), target.weights[at], rtol=1e-6)
    mixture = mixture_of(nothing(), found)
    flat, log_q = mixture.drawn(RNG(1), 50)
    np.testing.assert_allclose(log_q, [target.log_density(each) for each in flat], atol=1e-4)  # ends are 1e-6 off
    assert len(mixture_of(nothing(Permutation("k")), found).modes) == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_equal_components_are_counted(seed):
    """Against all K! permutations, over points whose components form groups; the matrix has an entry after all labels."""
    random, size = RNG(seed), 2 + seed % 4
    group = random.integers(0, 3, size)
    means, weights = random.normal(size=(3, 2))[group], random.normal(size=(3, 4))[group][:, [*group, 3]]
    sites = {"mean": means[None], "weight": weights[None]}
    dims = {"mean": ("k", "feature"), "weight": ("k", "next_k")}
    named = SimpleNamespace(symmetry=Permutation("k", ("next_k",)), naming=SimpleNamespace(dims=dims))
    flat = ravel_pytree({"mean": means, "weight": weights})[0]
    supports = dict.fromkeys(sites, dist.transforms.IdentityTransform())
    normal = SimpleNamespace(mode=flat, unit=np.full(len(flat), 1e-3))
    orders = [list(order) for order in permutations(range(size))]
    alike = sum(
        np.array_equal(means[order], means) and np.array_equal(weights[order][:, [*order, size]], weights) for order in orders
    )
    assert _log_alike(named, supports, normal, sites, 0) == pytest.approx(np.log(alike))
    assert _log_alike(nothing(), supports, normal, sites, 0) == 0


@pytest.mark.parametrize("seed", range(6))
def test_one_mode_is_one_mode(seed):
    """Of a normal distribution starts that ended anywhere within it: the density does not fall on the way."""
    target = Bumps(seed, 1)
    ends = target.centres + target.scales * RNG(seed).normal(size=(10, target.size)) * 0.05
    values, none = np.array([-target.log_density(end) for end in ends]), np.zeros(10, int)
    minima = Minima({"t": jnp.asarray(ends)}, none[:, None], none, none == 0, values, 0.0, 0.0, False)
    unravel = ravel_pytree({"t": jnp.zeros(target.size)})[1]
    hessian = np.diag(target.scales[0] ** -2.0)
    supports = {"t": dist.transforms.IdentityTransform()}
    found, modes = modes_of(nothing(), supports, unravel, minima, lambda flat: -target.log_density(flat), lambda _flat: hessian)
    assert len(found) == 1
    assert (modes.of_start == 0).all()


def narrow_and_broad(x, share, scale):
    """The narrow one about x has this share of the mass, and the broad one, about −x, the rest."""
    numpyro.sample("x", dist.Normal(0.0, 1.0).expand(x.shape).to_event(1), obs=x)
    spread = jnp.stack([scale * jnp.ones_like(x), jnp.ones_like(x)])
    each = dist.Normal(jnp.stack([x, -x]), spread).to_event(1)
    t = numpyro.sample("t", dist.Normal(0.0, 50.0).expand(x.shape).to_event(1))
    prior = dist.Normal(0.0, 50.0).expand(x.shape).to_event(1)
    target = dist.MixtureSameFamily(dist.Categorical(jnp.stack([share, 1 - share])), each)
    numpyro.factor("target", target.log_prob(t) - prior.log_prob(t))


ENDS = np.array([6.0, 5.9999, -5.0, -6.5])[:, None] * np.ones(3)  # two starts near the narrow one, two near the broad one


@pytest.mark.slow
def test_a_higher_mode_with_a_hundredth_of_the_mass(monkeypatch):
    """The narrow one is 14 nats higher. Draws, evidence and the best start are of the masses, and nothing is accused."""
    x, share = np.full(3, 6.0), 0.01
    monkeypatch.setattr(laplace, "start_sites", lambda *_: {"t": jnp.asarray(ENDS)})
    tree = fit(narrow_and_broad, (x, np.asarray(share), np.asarray(2e-3)), "laplace", num_starts=4)
    final = tree["optimization"]["final_objective"].values
    np.testing.assert_allclose(final[:2] - final[2:], np.log(share / (1 - share)) - 3 * np.log(2e-3), atol=1e-6)
    np.testing.assert_array_equal(tree["optimization"]["mode"], [1, 1, 0, 0])
    assert (tree.attrs["best_start"] in (2, 3), tree.attrs["modes_covered"], tree.attrs["exit_status"]) == (True, 2, 0)
    for name in ("log_evidence_laplace", "log_evidence_importance"):
        assert tree.attrs[name] == pytest.approx(stats.norm.logpdf(x).sum(), abs=1e-4)
    at = tree["posterior"]["t"].values[..., 0].ravel()
    assert abs((at > 0).mean() - share) < 5 * np.sqrt(share / len(at))  # five standard errors: the seed is fixed


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.4, 0.99])
def test_map_says_that_its_optimum_is_not_the_heaviest(monkeypatch, share):
    """The optimum is the highest as ever, with the exit code 0; a remark has the shares unless they are nearly equal."""
    monkeypatch.setattr(map_method, "start_sites", lambda *_: {"t": jnp.asarray(ENDS)})
    tree = fit(narrow_and_broad, (np.full(3, 6.0), np.asarray(share), np.asarray(2e-3)), "map", num_starts=4)
    np.testing.assert_allclose(tree["point_estimate"]["t"], 6, atol=1e-4)
    found = diagnose(tree)
    assert (found.exit_status, found.problems) == (0, [])
    mass = tree["optimization"]["log_mass"].values
    np.testing.assert_allclose(mass[:2] - mass[2:], np.log(share / (1 - share)), atol=1e-4)
    if share > 0.01:
        assert found.remarks == []
        return
    (said,) = found.remarks
    assert said.startswith(
        "this optimum is the highest, but it has 1.0% of the mass that was found, and one that is 14.05 nats "
    )
    assert "lower has 99.0%" in said
    assert all(f"method={name}" in said for name in ("laplace", "nuts"))


@pytest.mark.slow
def test_the_highest_optimum_of_iris_is_the_heaviest():
    """Several starts end at another optimum, which is weighed, and nothing is said."""
    data = load_data("iris")
    tree = fit(MODELS["gmm"](data, num_components=3), data, "map")
    assert tree["optimization"]["mode"].values[tree.attrs["best_start"]] == 0
    assert tree["optimization"]["mode"].max() > 0
    assert diagnose(tree).remarks == []


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.99])
def test_bounds_are_masses(monkeypatch, share):
    """Starts of `advi` are compared by evidence lower bounds: that of a Gaussian mode is its log mass, not its height."""
    monkeypatch.setattr(advi, "start_sites", lambda *_: {"t": jnp.asarray(ENDS)})
    x, few = np.full(3, 6.0), {"num_starts": 4, "guide": "mean_field", "num_samples": 100}
    tree = fit(narrow_and_broad, (x, np.asarray(share), np.asarray(2e-3)), "advi", **few)
    masses = stats.norm.logpdf(x).sum() + np.log([share, share, 1 - share, 1 - share])
    np.testing.assert_allclose(tree["optimization"]["final_objective"], masses, atol=1e-3)
    assert (tree.attrs["best_start"] in (0, 1)) == (share > 0.5)
    assert (tree.attrs["exit_status"], tree.attrs["problems"]) == (0, "")


@pytest.mark.slow
def test_a_regression_on_a_column_in_other_units():
    """A column times 2e5, with its prior: the verdict, the evidence and the draws, up to the unit, are those of before."""
    random = RNG(0)
    x = random.normal(size=(60, 3))
    y = random.random(60) < 1 / (1 + np.exp(-x @ [1.0, -1.0, 0.5]))

    def regression(x, y, scale):
        weight = numpyro.sample("weight", dist.Normal(0.0, scale).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weight).to_event(1), obs=y)

    found = []
    for units in (np.ones(3), np.array([2e5, 1.0, 1e-6])):
        tree = fit(regression, (x * units, y.astype(int), 3 / units), "laplace", num_starts=3)
        found.append(
            (tree.attrs["exit_status"], tree.attrs["log_evidence_laplace"], tree["posterior"]["weight"].values * units)
        )
    (exit_of_one, evidence, draws), other = found
    assert (exit_of_one, evidence) == (other[0], pytest.approx(other[1], abs=1e-6))
    np.testing.assert_allclose(other[2], draws, atol=1e-4)


@pytest.mark.slow
def test_a_factor_model_in_other_units():
    """Covariances are refused no more than correlations: the Gaussian across the orbit of rotations has no units either."""
    random = RNG(1)
    x = random.normal(size=(200, 2)) @ random.normal(size=(2, 6)) + random.normal(size=(200, 6))
    found = []
    for units in (np.ones(6), 10.0 ** random.uniform(-4, 4, 6)):
        data = load_data(x * units)
        tree = fit(MODELS["factor_analysis"](data, num_factors=2), data, "laplace", num_starts=2)
        found.append((tree.attrs["exit_status"], tree.attrs["pareto_k"], tree["posterior"]["mean"].values / units))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-3)
    np.testing.assert_allclose(found[0][2], found[1][2], atol=1e-4)
