"""A program whose posterior is a known Gaussian, and short warm-ups of its chains."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 2.0, 0.3], [0.0, 0.3, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])
NOTHING = ({}, jnp.zeros(1))  # hyperparameters and rows


def gaussian(hyper, rows, *, marginal=True):
    """Three numbers with mean `MEAN` and covariance `COVARIANCE`; the rows say nothing."""
    numpyro.sample("z", dist.MultivariateNormal(jnp.asarray(MEAN), jnp.asarray(COVARIANCE)))


def of_rows(x):
    """The same as a user's program; its row has the likelihood of no information."""
    z = numpyro.sample("z", dist.MultivariateNormal(jnp.asarray(MEAN), jnp.asarray(COVARIANCE)))
    numpyro.sample("x", dist.Normal(0.0 * z[0], 1.0), obs=x)


def shrunk(covariance, number):
    """Stan's estimate from a covariance of ``number`` draws."""
    return (number * covariance + 5e-3 * np.eye(len(covariance))) / (number + 5)
