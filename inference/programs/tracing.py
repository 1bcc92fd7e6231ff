"""Information from one run of a NumPyro program."""

from collections.abc import Callable
from typing import Any

import jax
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.infer import init_to_sample

from models.base import Hyper, Pytree


def prior_trace(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> dict[str, Any]:
    """The program run once, at a draw from its prior; improper sites, which cannot be drawn, take a value in their support."""
    seeded = handlers.substitute(handlers.seed(spec, jax.random.PRNGKey(0)), substitute_fn=init_to_sample)
    return handlers.trace(seeded).get_trace(hyper, rows, marginal=True)


def mixture_of(distribution: Any) -> Any:
    """The mixture inside a plate's expansion or a mask, or None."""
    while isinstance(distribution, dist.ExpandedDistribution | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return distribution if isinstance(distribution, dist.MixtureSameFamily | dist.MixtureGeneral) else None
