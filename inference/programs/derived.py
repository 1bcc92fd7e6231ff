"""Quantities that a program computes and names: its `numpyro.deterministic` statements, at given values of its sites."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from numpyro import handlers

from inference.programs.tracing import prior_trace
from models.base import Hyper, Pytree, Sites

DERIVED = "derived"  # attribute of such a quantity in a result: it is no site
TOGETHER = 64  # draws computed at a time


def derived_shapes(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every deterministic statement, traced on shapes: no number is computed.

    Quantities that depend on discrete sites that are summed out are left out: they have no single value.
    """
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(hyper: Hyper, rows: Pytree) -> None:
        trace = prior_trace(spec, hyper, rows)
        shapes.update({name: np.shape(site["value"]) for name, site in trace.items() if site["type"] == "deterministic"})

    jax.eval_shape(visit, dict(hyper), rows)
    return shapes


def derived_values(
    spec: Callable[..., Any], hyper: Hyper, rows: Pytree, draws: Mapping[str, np.ndarray], names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Name -> its values (S, …) at S draws (S, …) of the sites."""
    values_of = _values(spec, names, hyper, rows, jax.device_put(dict(draws)))
    return {name: np.asarray(value) for name, value in values_of.items()}


@partial(jax.jit, static_argnames=("spec", "names"))
def _values(spec: Callable[..., Any], names: tuple[str, ...], hyper: Hyper, rows: Pytree, draws: Sites) -> dict[str, Array]:
    def one(sites: Sites) -> dict[str, Array]:
        seeded = handlers.seed(handlers.substitute(spec, data=dict(sites)), jax.random.PRNGKey(0))
        trace = handlers.trace(seeded).get_trace(hyper, rows, marginal=True)
        return {name: jax.numpy.asarray(trace[name]["value"]) for name in names}

    return jax.lax.map(one, draws, batch_size=TOGETHER)
