"""Parts of a mixture against NumPy: weights of rows, summaries without order, simulated rows, cells that are missing."""

from functools import partial

import jax
import numpy as np
from naive import near
from two_stage import assert_standard_normal, in_blocks, of_means

from models.abilities import Expected
from models.emissions.gaussians.gaussian import GAUSSIANS
from models.mixtures.cells import _mixed
from models.mixtures.mixture import Features, Shape, functionals, simulate, statistics, structure
from models.mixtures.weights import dirichlet, uniform
from models.rows.encoded import Rows
from models.rows.masks import Cells

RNG = np.random.default_rng(0)
BLOCK = GAUSSIANS["diag"]
SHAPE = Shape(dirichlet("mixture_probs"), "component", True, 2, True)
HYPER = {"origin": np.zeros(2)}
FAR = {
    "mixture_probs": np.array([0.4, 0.6]),
    "mean": np.array([[-100.0, -100.0], [100.0, 100.0]]),
    "precision": np.ones((2, 2)),
}


def test_weights_of_rows_count_in_the_statistics():
    """Σ_n weight_n r_nk (1, x_n, x_n²), of the weights and of the block alike."""
    x, z, weight = RNG.normal(size=(6, 2)), RNG.dirichlet([1.0, 1.0], 6), RNG.gamma(2.0, 1.0, 6)

    def both(weight, z, x):
        return statistics(BLOCK, SHAPE, weight, z, Features(BLOCK.likelihood.features(HYPER, x), None))

    found, own = jax.tree.map(np.asarray, jax.jit(both)(weight, z, x)), weight[:, None] * z
    assert near(found["mixture_probs"], own.sum(0), rtol=1e-13)
    assert near(found["component"].strength[..., 0], np.tile(own.sum(0)[:, None], 2), rtol=1e-13)
    assert near(found["component"].total.reshape(2, 2), own.T @ x, rtol=1e-12)
    assert near(found["component"].square.reshape(2, 2), own.T @ x**2, rtol=1e-12)


def test_summaries_without_order():
    """Weights from the largest, and the chance that neighbouring probe rows share a component, whichever it is."""
    probs, r = np.array([0.2, 0.5, 0.3]), RNG.dirichlet(np.ones(3), 4)
    found = jax.jit(partial(functionals, SHAPE._replace(size=3), {}))({"mixture_probs": probs}, r)
    assert near(found["sorted_probs"], [0.5, 0.3, 0.2], rtol=1e-15)
    wanted = [sum(r[n, k] * r[n + 1, k] for k in range(3)) for n in range(3)]
    assert near(found["co_clustering"], wanted, rtol=1e-14)


def test_uniform_weights_are_probabilities():
    """log 1/K, K times, of a point and of the predictive."""
    assert near(np.exp(uniform.log_probs({}, 3)), np.full(3, 1 / 3), rtol=1e-15)
    assert uniform.predictive is not None
    assert near(np.exp(uniform.predictive({}, 3)), np.full(3, 1 / 3), rtol=1e-15)


def test_simulated_rows_do_not_depend_on_how_their_component_was_drawn():
    """Components 200 standard deviations apart show in the rows, whose distances from their mean have mean 0 in each."""
    draw = jax.jit(lambda seed, sites: simulate(BLOCK, SHAPE, jax.random.PRNGKey(seed), HYPER, sites, 400).x)

    def deviations(seed, times):
        x = in_blocks(lambda one: np.asarray(draw(one, FAR)), seed, times)
        second = x[:, 0] > 0
        return np.concatenate([of_means(x[~second], FAR["mean"][0]), of_means(x[second], FAR["mean"][1])])

    assert_standard_normal(deviations)


def test_missing_cells_are_drawn_of_the_component_that_the_row_shows():
    """Components 200 standard deviations apart: a drawn cell is within 10 of the mean (beyond: 1e-23), observed ones stay."""
    seen = np.array([[True, False], [False, True], [True, True], [True, False]])
    whole = np.array([[100.0, 0.0], [0.0, -100.0], [101.0, 99.0], [-101.0, 0.0]])
    parts, rows = structure(BLOCK, SHAPE), Rows(Cells(np.where(seen, whole, 0.0), seen))
    found = np.asarray(jax.jit(lambda sites: parts.completed(jax.random.PRNGKey(0), HYPER, sites, rows))(FAR))
    assert (found[seen] == whole[seen]).all()
    assert (np.abs(found[~seen] - [100, -100, -100]) < 10).all()


def test_variance_of_a_mixed_column():
    """E[x²] − E[x]² over components with their own means and variances."""
    r, mean, variance = RNG.dirichlet(np.ones(3), 4), np.array([1.0, -2.0, 4.0]), np.array([0.5, 1.0, 2.0])
    found = jax.jit(lambda r, mean, variance: _mixed(r, Expected(mean, variance))[:2])(r, mean, variance)
    assert near(found[0], r @ mean, rtol=1e-13)
    assert near(found[1], r @ (variance + mean**2) - (r @ mean) ** 2, rtol=1e-12)
