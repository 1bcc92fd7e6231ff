"""Posteriors that samplers get wrong: the verdict names the reason, and not another one."""

import re

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

from inference import fit
from inference.diagnostics.checks import diagnose, stored
from models import MODELS, load_data


def funnel(y):
    """A scale from e⁻⁹ to e⁹ that data say nothing of (Neal 2003)."""
    log_scale = numpyro.sample("log_scale", dist.Normal(0.0, 3.0))
    with numpyro.plate("row", len(y)):
        x = numpyro.sample("x", dist.Normal(0.0, jnp.exp(log_scale / 2)))
        numpyro.sample("y", dist.Normal(x, 100.0), obs=y)


def neck(y):
    """Means around 0 whose spread may be 0."""
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    with numpyro.plate("row", len(y)):
        mean = numpyro.sample("mean", dist.Normal(0.0, spread))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def ridge(y):
    """Six numbers whose weighted sum is known, so that they are correlated."""
    x = numpyro.sample("x", dist.Normal(0.0, 1.0).expand([6]).to_event(1))
    numpyro.sample("y", dist.Normal(jnp.cumsum(x).sum(), 1e-3), obs=y)


Y = np.array([0.8, -0.4, 0.3, -1.1, 1.4, 0.2])
HARD = {  # program, data, method, options -> diagnostics that must fail, and words of the verdict
    "funnel": (funnel, np.zeros(9), "nuts", {}, {"divergences", "energy"}, "Mend the divergences first"),
    "neck, nuts": (neck, Y, "nuts", {}, {"divergences"}, "reparametrise the program"),
    "neck, mclmc": (neck, Y, "mclmc", {}, {"divergences"}, "reparametrise the program"),
    "ridge, short trees": (ridge, np.zeros(()), "nuts", {"max_tree_depth": 3}, {"tree depth"}, "Raise max_tree_depth first"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HARD)
def test_programs_are_named_for_the_right_reason(case):
    program, data, method, options, wanted, advice = HARD[case]
    tree = fit(program, data, method, **options)
    assert wanted <= {problem.diagnostic for problem in stored(tree)}
    assert diagnose(tree).exit_status == 3
    assert advice in tree.attrs["problems"]
    assert not re.search(r"disagree\. (Chain [^.]*\. )?Each may be at a mode", tree.attrs["problems"])  # modes come second


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "nuts", "mclmc"])
def test_chains_at_two_modes_are_told_of_modes_first(method):
    """Eight rows at the corners of a square, in which two divisions are probable and far apart."""
    corners = np.array([(-3.0, -2.95), (-3.0, 2.95), (3.0, -2.95), (3.0, 2.95)])
    data = load_data(np.repeat(corners, 2, axis=0) + np.tile([[-0.1, 0.1], [0.1, -0.1]], (4, 1)))
    model = MODELS["gmm_simple"](data, num_components=2)
    tree = fit(model, data, method, num_warmup=200, num_samples=500)  # with this seed one of four chains is at the other mode
    assert {problem.diagnostic for problem in stored(tree)} >= {"R-hat"}
    assert "Each may be at a mode of its own" in tree.attrs["problems"]
