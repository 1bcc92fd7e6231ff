"""Blocks of emissions against SciPy and counts by hand: priors that are not symmetric, predictives, missing symbols."""

import jax
import numpy as np
import pytest
from naive import near
from scipy import stats
from scipy.special import betaln

from models.emissions.binary import bernoulli
from models.emissions.gaussians.gaussian import GAUSSIANS
from models.emissions.markov import Alphabet, concentrations
from models.emissions.single_categorical import symbols
from models.families.conjugate import GaussianStats

COMPONENTS, COLUMNS = 3, 2
RNG = np.random.default_rng(0)
MATRIX = np.array([[2.0, 0.6], [0.6, 1.5]])


@pytest.mark.parametrize(("covariance", "scatter"), [("full", MATRIX), ("tied", MATRIX), ("spherical", np.array(1.7))])
def test_a_prior_far_from_the_origin_has_its_location_and_scatter(covariance, scatter):
    """Pseudo-rows of each mean at the location; what is left of their squares about it is the scatter, whatever the origin."""
    hyper = {
        "location": np.array([3.0, -2.0]),
        "origin": np.array([0.5, 1.0]),
        "strength": np.array(0.7),
        "scatter": scatter,
        "dof": np.array(5.0),
    }
    nu = GaussianStats(*map(np.asarray, GAUSSIANS[covariance].prior.nu(hyper, COMPONENTS)))
    means = nu.total / nu.strength[..., None]
    wanted = np.tile(hyper["location"] - hyper["origin"], (COMPONENTS, 1))
    assert near(means.reshape(wanted.shape), wanted, rtol=1e-14)
    square_of_means = "...gi,...gj->...ij" if scatter.ndim else "...gi,...gi->..."
    left = nu.square - np.einsum(square_of_means, nu.total, means)
    assert near(left, np.broadcast_to(scatter, left.shape), rtol=1e-12, atol=1e-12)


def test_predictive_of_columns_that_share_a_precision_is_a_multivariate_student():
    """2 a degrees of freedom, scales (b / a)(1 + 1/κ) of the columns: SciPy's density of all of them together."""
    strength, mean = RNG.gamma(2.0, 1.0, (COMPONENTS, COLUMNS)), RNG.normal(size=(COMPONENTS, COLUMNS))
    shape, rate = np.array([2.5, 4.0, 1.2]), np.array([1.0, 0.4, 3.0])
    square = 2 * rate + (strength * mean**2).sum(1)
    nu = GaussianStats(2 * (shape - 1) + COLUMNS, strength, (strength * mean)[..., None], square)
    x = 2 * RNG.normal(size=(5, COLUMNS))
    block = GAUSSIANS["spherical"].likelihood
    found = np.asarray(jax.jit(lambda nu, x: block.predictive(nu)(block.features({"origin": np.zeros(COLUMNS)}, x)))(nu, x))
    for k in range(COMPONENTS):
        scale = rate[k] / shape[k] * np.diag(1 + 1 / strength[k])
        assert near(found[:, k], stats.multivariate_t(mean[k], scale, 2 * shape[k]).logpdf(x), rtol=1e-12)


def test_quadratic_discriminant_is_the_log_density():
    """Bias + weight · x + x A x = log Normal(x) + (D/2) log 2π, where every component has a precision of its own."""
    root = RNG.normal(size=(COMPONENTS, COLUMNS, COLUMNS)) + 2 * np.eye(COLUMNS)
    sites = {"mean": RNG.normal(size=(COMPONENTS, COLUMNS)), "precision": root @ np.swapaxes(root, 1, 2)}
    x, block = RNG.normal(size=(4, COLUMNS)), GAUSSIANS["full"].discriminant
    linear = jax.tree.map(np.asarray, jax.jit(lambda sites: block.linear({}, sites))(sites))
    features = block.features(x)
    for k in range(COMPONENTS):
        found = linear.bias[k] + features["x"] @ linear.weights["x"][k] + (features["xx"] * linear.weights["xx"][k]).sum((1, 2))
        naive = stats.multivariate_normal(sites["mean"][k], np.linalg.inv(sites["precision"][k])).logpdf(x)
        assert near(found, naive + COLUMNS / 2 * np.log(2 * np.pi), rtol=1e-11, atol=1e-11)


def test_beta_prior_that_is_not_symmetric():
    """< ν, (log (1 − p), log p) > is SciPy's log density up to log B(a, b)."""
    a, b, p = np.array([0.7, 3.0]), np.array([2.0, 5.0]), np.array([0.2, 0.6])
    nu = np.asarray(bernoulli.prior.nu({"a": a, "b": b}, COMPONENTS))
    assert nu.shape == (COMPONENTS, 2, 2)
    for each in nu:
        found = (each * np.stack([np.log1p(-p), np.log(p)], axis=-1)).sum(-1)
        assert near(found, stats.beta(a, b).logpdf(p) + betaln(a, b), rtol=1e-13)


def test_missing_symbols_are_counted_nowhere():
    """Weights of the rows that have a symbol, added one by one."""
    x, weight = np.array([0, -1, 2, 0, -1]), RNG.random((5, COMPONENTS))
    wanted = np.zeros((COMPONENTS, 4))
    for symbol, own in zip(x, weight, strict=True):
        if symbol >= 0:
            wanted[:, symbol] += own
    assert near(jax.jit(symbols("x", tuple("abcd")).likelihood.statistics)(weight, x), wanted, rtol=1e-14)


@pytest.mark.parametrize("each", [1.0, 1.5, 3.0])
def test_unseen_successors_have_the_pseudo_counts_of_all_their_pairs(each):
    """Concentrations less one are pseudo-counts of a mode: those of a chain over all pairs, with unseen ones added up."""
    alphabet = Alphabet(4, seen=(0, 1, 4, 7, 8, 9, 10))
    unseen = np.array([4 - sum(pair // 4 == token for pair in alphabet.seen or ()) for token in range(4)])
    assert unseen.tolist() == [2, 2, 1, 4]
    assert near(concentrations(alphabet, each)["unseen_concentration"] - 1, (each - 1) * unseen, atol=1e-14)
