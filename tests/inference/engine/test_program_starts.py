"""Chains of a program start apart: at draws from its prior, which say nothing of how high the modes are.

The targets are mixtures of two normal laws with known masses. A prior is a wide normal law, and a factor makes the posterior.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from jax.scipy.special import logsumexp
from numpyro import distributions as dist
from scipy import stats

from inference import fit
from inference.engine.initialise import HOPELESS, start_sites
from inference.fitting.prepare import make_task, x64
from inference.programs.model import program_model
from inference.runtime.progress import Silent

WIDTH = 5.0  # of the prior
SURE = 1e-4  # a right law fails one Kolmogorov-Smirnov test so often; this file has 20 of them, with seeds that stand still
X = np.zeros(1)
# R-hat of one law, from 8 halves of n draws, is above 1.01 where a χ² of 7 degrees of freedom is above 7 (1 + 0.02 n): 77 here,
# with probability 1e-13. With 300 draws that is 28, and happens in one of 200 fits with ten parameters.
ENOUGH = 1000


def two_modes(dim, mass, at, width):
    """Two normal laws: ``mass`` at ``at`` in every coordinate with ``width``, the rest at −``at`` with width 1."""

    def program(x):
        place = numpyro.sample("place", dist.Normal(0.0, WIDTH).expand((dim,)).to_event(1))
        here = dist.Normal(at, width).expand((dim,)).to_event(1).log_prob(place) + jnp.log(mass)
        there = dist.Normal(-at, 1.0).expand((dim,)).to_event(1).log_prob(place) + jnp.log1p(-mass)
        wanted = logsumexp(jnp.stack([here, there]))
        numpyro.factor("posterior", wanted - dist.Normal(0.0, WIDTH).log_prob(place).sum())
        numpyro.sample("x", dist.Normal(0.0, 1.0).expand((1,)).to_event(1), obs=x)

    return program


def starts(program, number, seed=0):
    """Sites of ``number`` chains, and none of them run."""
    with x64(64):
        model = program_model(program, X)
        found = start_sites(make_task(model, X, seed, None, Silent()), number)
    return {name: np.asarray(value) for name, value in found.items()}


def least_probability(drawn, law):
    """The smallest p value over the coordinates."""
    return min(stats.kstest(column, law.cdf).pvalue for column in drawn.reshape(len(drawn), -1).T)


@pytest.mark.parametrize(
    ("dim", "mass", "width"),
    [(2, 0.1, 0.01), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((5, 0.5, 1.0), (10, 0.9, 0.1)))],
)
def test_starts_have_the_law_of_the_prior(dim, mass, width):
    """Whatever the heights of the modes: a spike draws no chain, and coordinates are as wide as the prior."""
    drawn = starts(two_modes(dim, mass, 4.0, width), 300)["place"]
    assert least_probability(drawn, stats.norm(0, WIDTH)) > SURE
    assert len(np.unique(drawn[:, 0])) == 300


def test_the_law_is_the_prior_where_the_density_is_finite():
    """A wall leaves half of the prior, and a gradient that is no number takes off the part above 3."""

    def program(x):
        place = numpyro.sample("place", dist.Normal(0.0, 2.0))
        numpyro.factor("wall", jnp.where(place > 0, 0.0, -jnp.inf))
        numpyro.factor("branch", jnp.where(place > 3, jnp.sqrt(jnp.maximum(3 - place, 0.0)), 0.0))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("x", dist.Normal(place, 1 + scale).expand((1,)).to_event(1), obs=x)

    drawn = starts(program, 300)
    assert (drawn["place"] > 0).all()
    assert (drawn["place"] < 3).all()
    assert least_probability(drawn["place"], stats.truncnorm(0, 1.5, 0, 2)) > SURE
    assert least_probability(drawn["scale"], stats.halfnorm()) > SURE


def test_draws_from_where_no_chain_comes_back_are_left_out():
    """The mean is eˢ for a normal s of deviation 20: most draws above 15 are a million nats below the best."""

    def program(x):
        power = numpyro.sample("power", dist.Normal(0.0, 20.0))
        numpyro.sample("x", dist.Normal(jnp.exp(power), 1.0).expand((1,)).to_event(1), obs=x)

    drawn = starts(program, 300)["power"]
    lost = 0.5 * np.exp(drawn) ** 2
    assert (lost < HOPELESS * 1.01).all()  # the best of fifty is below a hundredth of that
    reach = 0.5 * np.log(2 * HOPELESS)
    assert least_probability(drawn, stats.truncnorm(-np.inf, reach / 20, 0, 20)) > SURE


def test_chains_of_one_seed_start_on_both_sides():
    """Two modes of one mass and two widths: all four chains on one side have the probability 1/8, as by the toss of a coin.

    Of twenty seeds at least eleven must have both; fewer have the probability 0.0006 (binomial, 7/8).
    """
    program = two_modes(2, 0.5, 4.0, 0.1)
    drawn = starts(program, 80)["place"].reshape(20, 4, 2).sum(-1) > 0
    assert (drawn.any(1) & ~drawn.all(1)).sum() >= 11


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 10])
def test_r_hat_sees_two_modes(dim):
    """Of six seeds three or more have chains at both modes; fewer have the probability 0.0009 (binomial, 7/8)."""
    program = two_modes(dim, 0.3, 4.0, 1.0)
    told = 0
    for seed in range(6):
        tree = fit(program, X, "nuts", seed=seed, num_warmup=300, num_samples=ENOUGH)
        sides = tree["posterior"]["place"].values.mean((1, 2)) > 0
        both = bool(sides.any() and not sides.all())
        assert ("R-hat" in tree.attrs["problems"]) == both
        told += both
    assert told >= 3


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 10])
def test_no_run_sits_in_a_spike(dim):
    """A tenth of the mass, at a density that is 10ᵈ times as high: in two dimensions the densest of 50 draws was always there.

    So the mean of a run without problems is that of the wide mode, which has nine tenths.
    """
    program = two_modes(dim, 0.1, 4.0, 0.1)
    for seed in range(6):
        tree = fit(program, X, "nuts", seed=seed, num_warmup=300, num_samples=ENOUGH)
        sides = tree["posterior"]["place"].values.mean((1, 2)) > 0
        assert not sides.all()
        assert ("R-hat" in tree.attrs["problems"]) == sides.any()
