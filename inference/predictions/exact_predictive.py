"""The posterior predictive in closed form, for conjugate models whose training rows are all labelled.

p(x, z = k | data) = ∫ p(x, z = k | θ) p(θ | data) dθ = h(x) Z(nu + statistics(x, k)) / Z(nu), with Z the families' partition
function and h the part of the density that no parameter enters: the Beta-binomial, Dirichlet-multinomial, negative binomial
and Student t predictives of the textbooks, all by the one update rule.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from scipy.special import logsumexp

from inference.engine.initialise import finite_latents, latents_observed, observed
from inference.engine.sweep import block_map
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.predictions.classes import as_predictions
from inference.results.draws import forget_labels
from models.algebra import add, at_mean, inner, log_partition, structures
from models.base import Algebra, Hyper, Model, Pytree, Stats, ZooError
from models.rows.masks import partly_observed

TOGETHER = 64  # rows at a time: each needs a copy of all statistics for every class
NUMBERS = 2**24  # in all these copies


def posterior_predictive(model: Model, data: Any, new_data: Any) -> xr.Dataset:
    """``probs``, ``assignment`` and ``log_density`` of new rows, θ integrated out exactly given the labelled rows of ``data``.

    They are those of `inference.predictions.predict.predict` for new rows (``fitted=False``), without Monte Carlo error. Raises
    `ZooError` where a label of ``data`` is missing, the prior is flat, or the model has no such closed form.

    >>> data = load_data("iris")
    >>> posterior_predictive(MODELS["linear_discriminant"](data), data, data)["assignment"].values[[0, 50, 100]]
    array([0, 1, 2])
    """
    require_model(model)
    algebra = model.algebra
    if algebra is None or not algebra.latent.enumerable or "joint" not in structures(algebra.structure):
        raise ZooError(f"{model.name} has no posterior predictive in closed form; use predict on a result of nuts or laplace")
    if not algebra.proper:
        raise ZooError("prior=flat has no proper posterior to integrate over; use prior=default, or predict at an estimate")
    with x64(64):
        hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(model.read(data))))
        if not latents_observed(rows):
            raise ZooError(
                f"{model.read(data).name} has rows without a label, so the posterior is no single conjugate family; use "
                "predict on a result of exact (few such rows), gibbs or nuts"
            )
        new = as_arrays(model.rows(forget_labels(model, new_data)))
        if not all(finite_latents(algebra, hyper, prior, each) for each in (rows, new)):
            raise ZooError(
                f"{model.name} has missing cells here that are latent variables, so that there is no closed form; use predict "
                "on a result of gibbs or nuts"
            )
        nu = jax.tree.map(lambda leaf: leaf[0], observed(algebra, 1, hyper, prior, rows))
        log_joint = np.asarray(_log_joint(algebra, hyper, nu, new), dtype=np.float64)
    log_density = logsumexp(log_joint, axis=1)
    with np.errstate(invalid="ignore"):  # −∞ − (−∞), of a row of density 0, which is an error
        return as_predictions(model, log_density, np.exp(log_joint - log_density[:, None]))


@partial(jax.jit, static_argnames=("algebra",))
def _log_joint(algebra: Algebra, hyper: Hyper, nu: Mapping[str, Stats], rows: Pytree) -> Array:
    """Log p(x_n, z = k | data): (N, K), in the closed form of the model where it has one."""
    if algebra.structure.predictive is None or partly_observed(rows.x):
        return by_partitions(algebra, hyper, nu, rows)
    log_density = algebra.structure.predictive(nu)
    return block_map(lambda rows: log_density(algebra.features(hyper, rows)), rows)


def by_partitions(algebra: Algebra, hyper: Hyper, nu: Mapping[str, Stats], rows: Pytree) -> Array:
    """The same as ratios of two partition functions, row by row, for any model."""
    T = at_mean(algebra, jax.random.PRNGKey(0), nu)  # any T: it cancels between the density and < T, statistics >
    natural_parameters = algebra.local_natural_parameters(T)

    base = log_partition(algebra, nu)

    def one(row: Pytree) -> Array:
        features = algebra.features(hyper, jax.tree.map(lambda leaf: leaf[None], row))
        local = natural_parameters(features)

        def value(z: Array) -> Array:
            stats = algebra.statistics(jnp.ones(1, local.dtype), z[None, :], features)
            carrier = algebra.latent.energy(z[None, :], local)[0] - inner(T, stats)
            return carrier + log_partition(algebra, add(nu, stats)) - base

        return jax.vmap(value)(jnp.eye(local.shape[1], dtype=local.dtype))

    size = sum(leaf.size for leaf in jax.tree.leaves(nu)) * algebra.initial.num_groups  # of the statistics that one row needs
    return block_map(jax.vmap(one), rows, max(1, min(TOGETHER, NUMBERS // size)))
