"""`map` on programs whose log density has no maximum: it grows as a scale falls to 0, and that is said."""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist

from inference import fit
from models import ZooError

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])  # eight schools (Rubin 1981)
SD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def hierarchy(prior, centred):
    def schools(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", prior)
        with numpyro.plate("school", len(y)):
            theta = numpyro.sample("theta", dist.Normal(mu, tau) if centred else dist.Normal(0.0, 1.0))
            numpyro.sample("y", dist.Normal(theta if centred else mu + tau * theta, SD), obs=y)

    return schools


@pytest.mark.slow
def test_a_centred_hierarchy_has_no_mode():
    """All effects equal, log p = −8 log τ + constant."""
    with pytest.raises(ZooError, match=r"no start reached a mode: .*without bound as tau → 0.*method=nuts.*non-centred"):
        fit(hierarchy(dist.HalfCauchy(5.0), centred=True), Y, "map", num_starts=2)


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "centred"), [(dist.LogNormal(0.0, 1.0), True), (dist.HalfCauchy(5.0), False)])
def test_the_remedies_have_a_mode(prior, centred):
    tree = fit(hierarchy(prior, centred), Y, "map", num_starts=4)
    assert not tree.attrs["problems"]
    assert "without bound" not in tree.attrs["warnings"]


@pytest.mark.slow
def test_a_flat_way_to_the_boundary_is_no_growth():
    """The likelihood prefers a scale of 0, where the density is flat: a maximum on the boundary."""

    def program(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.Normal(0.0, jnp.sqrt(1 + scale**2)), obs=y)

    tree = fit(program, 0.3 * np.random.default_rng(0).normal(size=20), "map", num_starts=4)
    assert float(tree["point_estimate"]["scale"]) < 1e-2
    assert "without bound" not in tree.attrs["warnings"]
