"""Counts far from their rate: the density of negative binomial counts keeps its digits, in both precisions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from inference import fit
from models import MODELS, ZooError, load_data
from models.distributions.counts import NegativeBinomial
from models.emissions.counts import Counts
from models.emissions.negative_binomial import negative_binomial

RATES, SHAPES, COUNTS = (
    part.ravel() for part in np.meshgrid((0.01, 0.5, 40.0), (0.002, 0.5, 300.0), (0.0, 1.0, 1e4, 1e5), indexing="ij")
)
# The terms of log p(x), of which each is exact
TERMS = np.array(
    [
        gammaln(SHAPES + COUNTS),
        -gammaln(SHAPES),
        -gammaln(COUNTS + 1),
        SHAPES * np.log(SHAPES / (SHAPES + RATES)),
        COUNTS * np.log(RATES / (SHAPES + RATES)),
    ]
)
SIZES = 1 + abs(TERMS).max(0)


@pytest.mark.parametrize("x64", [True, False])
def test_the_density_keeps_its_digits(x64):
    """Up to the rounding of its terms: log Γ is right to some ten units of its last place, so 100 of the largest."""
    with jax.enable_x64(x64):
        found = jax.jit(lambda rate, shape, x: NegativeBinomial(rate, shape).log_prob(x))(RATES, SHAPES, COUNTS)
        assert np.all(abs(found - TERMS.sum(0)) < 100 * jnp.finfo(found.dtype).eps * SIZES)


def test_the_e_step_has_the_density_of_the_program():
    """Log p(x | k) of points of T, each case a component, and each count a row."""
    rows, cases = np.unique(COUNTS)[:, None], len(COUNTS)
    x = Counts(jnp.asarray(rows), jnp.asarray(-gammaln(rows + 1).sum(1)), None)
    sites = {"rate": RATES[:, None], "inverse_dispersion": SHAPES[:, None]}
    component = jax.jit(lambda sites: negative_binomial.likelihood.log_density(negative_binomial.natural({}, sites))(x))(sites)
    found = np.asarray(component.component)[np.searchsorted(rows[:, 0], COUNTS), np.arange(cases)]
    assert np.all(abs(found - TERMS.sum(0)) < 100 * np.finfo(float).eps * SIZES)


def test_a_rate_of_zero_has_a_slope():
    """d log p(0) / d rate = −r / (r + rate), which is −1 at 0."""
    assert np.isclose(jax.jit(jax.grad(lambda rate: NegativeBinomial(rate, 0.7).log_prob(0.0)))(0.0), -1.0)


def test_no_excess_zeros_contradict_no_row():
    """A probability of excess zeros that ends at 0 leaves plain counts: nothing is said of rows of density 0."""
    x = np.random.default_rng(0).poisson(6.0, (80, 2)) + 1.0
    data = load_data(x, labels=(np.arange(80) % 2).astype(str))
    model = MODELS["naive_bayes"](data, emission="zero_inflated_poisson", prior="flat")
    tree = fit(model, data, "em", num_starts=1)
    assert np.all(tree["point_estimate"]["zero_probs"] < 1e-6)
    assert "zero_probs" not in str(tree.attrs["warnings"])


def test_counts_are_an_option_of_columns_of_counts():
    data = load_data(np.random.default_rng(0).normal(size=(20, 2)))
    with pytest.raises(ZooError, match="has no column of counts"):
        MODELS["mixed_mixture"](data, num_components=2, counts="negative_binomial")
