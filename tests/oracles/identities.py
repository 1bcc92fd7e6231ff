"""Both sides of every identity of a mixture, at one θ and z, compiled once a structure."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from naive import near
from numpyro.infer.util import log_density

from inference.engine.task import Points
from inference.fitting.prepare import make_task
from inference.fixed_points.climbing import climb
from inference.methods import em
from inference.runtime.progress import Silent
from models.algebra import inner, log_prior
from models.base import Model
from models.latents.missing_cells import Completion


class Values(NamedTuple):
    """What program and algebra say of rows, some cells of which may be missing."""

    complete: Any  # log p(x, z, θ) of the program
    marginal: Any  # log p(x, θ) of the program
    log_prior: Any  # of the algebra, as all that follows
    local: Any  # (N, K): log π_k + log p(x_n | k)
    energy: Any  # (N,): < z, local >
    log_partition: Any  # (N,)
    gradient: Any  # of Σ weight log_partition(local(T)) with respect to T
    statistics: Any  # of the mean latents
    product: Any  # < T, statistics of z and of the expected missing cells > + the entropy of these


@partial(jax.jit, static_argnames=("algebra", "spec"))
def _values(algebra: Any, spec: Any, hyper: Any, prior: Any, rows: Any, T: Any, sites: Any, z: Any) -> Values:
    weight = jnp.ones(z.shape[0]) if rows.weight is None else rows.weight
    with jax.numpy_rank_promotion("raise"):
        features = algebra.features(hyper, rows)
        local = algebra.local_natural_parameters(T)(features)
        mean = algebra.latent.mean(None, local)
        known = z if isinstance(mean, jax.Array) else mean._replace(component=z)
        found = {
            "log_prior": log_prior(algebra, prior, T),
            "local": local if isinstance(local, jax.Array) else local.component,
            "energy": algebra.latent.energy(known, local),
            "log_partition": algebra.latent.log_partition(local),
            "gradient": jax.grad(
                lambda T: (weight * algebra.latent.log_partition(algebra.local_natural_parameters(T)(features))).sum()
            )(T),
            "statistics": algebra.statistics(weight, mean, features),
            "product": inner(T, algebra.statistics(weight, known, features)) + _entropy(local, weight, z),
        }
    marginal, _ = log_density(spec, (hyper, rows), {"marginal": True}, sites)
    complete, _ = log_density(spec, (hyper, rows), {"marginal": False}, sites | {"component": z.argmax(1)})
    return Values(complete=complete, marginal=marginal, **found)


def _entropy(local: Any, weight: Any, z: Any) -> Any:
    """Σ_n weight_n ½ log det(2π e Λ_mm⁻¹) of the component z_n: 0 where no cell is a latent variable."""
    if not isinstance(local, Completion):
        return jnp.zeros(())
    half_log_det = jnp.log(jnp.diagonal(local.root, axis1=2, axis2=3)).sum(2)
    return (weight[:, None] * z * (0.5 * local.missing.sum(1)[:, None] * (1 + jnp.log(2 * jnp.pi)) - half_log_det)).sum()


def values_of(model: Model, rows: Any, sites: Any, z: Any, T: Any = None) -> Values:
    """Of ``model.rows(data)`` at ``sites``, or with the algebra at another T."""
    assert model.algebra is not None
    hyper = dict(model.hyper)
    T = _natural(model.algebra, hyper, dict(sites)) if T is None else T
    found = _values(model.algebra, model.spec, hyper, dict(model.prior), rows, T, dict(sites), z)
    found = jax.tree.map(np.asarray, found)
    return found._replace(gradient=jax.tree.map(_symmetric, found.gradient, found.statistics))


@partial(jax.jit, static_argnums=0)
def _natural(algebra: Any, hyper: Any, sites: Any) -> Any:
    return algebra.natural(hyper, sites)


def _symmetric(gradient: Any, statistic: Any) -> Any:
    """The gradient with respect to a symmetric matrix sees both halves of it, the statistic is one of them."""
    shape = statistic.shape
    matrices = len(shape) >= 2 and shape[-1] == shape[-2] and np.allclose(statistic, np.swapaxes(statistic, -1, -2))
    return (gradient + np.swapaxes(gradient, -1, -2)) / 2 if matrices else gradient


def agree(found: Any, wanted: Any, rtol: float) -> bool:
    """Whether two pytrees agree, relative to the largest entry of each leaf."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return all(near(left, right, atol=rtol * max(np.abs(right).max(), 1e-300)) for left, right in pairs)


def climbed(
    model: Model, data: Any, sites: Any, max_iter: int = 500, tol: float = 1e-10, method: Any = em.FIXED_POINT
) -> Points:
    """An optimiser from given sites, without the evaluation of what it found, which takes time to compile."""
    return climb(make_task(model, data, 0, sites, Silent()), method, max_iter, tol, 1)[0]
