"""One density, three times: of the NumPyro program, of the algebra, and of the oracle, at parameters that the prior draws."""

from functools import partial

import jax
import numpy as np
from jax import Array
from numpyro import infer

from inference.certificates.checks.cases import built, stacked_rows
from inference.certificates.checks.figure import Check, Figure, answer, worst
from inference.certificates.oracles.oracle import Oracle
from inference.engine.sweep import rows_weight, weighted_sum
from models.algebra import log_prior
from models.base import Model, Pytree, Sites

REPLICATES = 16
ROUNDING = 1e-10  # relative difference of densities that are equal


def compared(oracle: Oracle, seed: int, replicates: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(R,): log p(x, θ) of the oracle, and of program and algebra by name, at parameters that the prior draws."""
    rng = np.random.default_rng(seed)
    sites = oracle.draw_parameters(rng, replicates)
    tables = oracle.draw_tables(rng, sites)
    model = built(oracle)
    readable = [oracle.table(tables, replicate) for replicate in range(replicates)]
    both = [stacked_rows(model, readable), stacked_rows(model, readable, sufficient_rows=True)]
    densities = jax.jit(jax.vmap(partial(_densities, model)))(sites, *both)
    wanted = oracle.log_prior(sites) + oracle.log_likelihood(sites, tables)
    return wanted, {name: np.asarray(value) for name, value in densities.items()}


def parity_check(oracle: Oracle, seed: int) -> Check:
    """Whether log p(x, θ) of program and algebra is the oracle's: the largest difference, relative to the density."""
    wanted, densities = compared(oracle, seed, REPLICATES)
    figures = tuple(
        Figure(name, float(np.max(np.abs(value - wanted) / (1 + np.abs(wanted)))), ROUNDING, "relative")
        for name, value in densities.items()
    )
    says = (
        f"program and algebra have the oracle's density, up to {worst(figures).value:.0e} of itself; {ROUNDING:.0e} is allowed"
    )
    return answer("parity", says, figures, 0.0)


def _densities(model: Model, sites: Sites, rows: Pytree, sufficient: Pytree) -> dict[str, Array]:
    """Log p(x, θ) of the marginal program, on all rows and on fewer in their place, and of the algebra."""
    algebra, hyper = model.algebra, dict(model.hyper)
    assert algebra is not None
    T = algebra.natural(hyper, sites)
    local = algebra.local_natural_parameters(T)(algebra.features(hyper, rows))
    likelihood = weighted_sum(rows_weight(rows), algebra.latent.log_partition(local))
    return {
        "log density of the program": infer.util.log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0],
        "the same on sufficient rows": infer.util.log_density(model.spec, (hyper, sufficient), {"marginal": True}, sites)[0],
        "log density of the algebra": log_prior(algebra, dict(model.prior), T) + likelihood,
    }
