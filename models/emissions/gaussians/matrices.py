"""Gaussian blocks with a precision matrix, a component's own (full) or shared by all (tied): NormalWishart.

One group of one mean a component (batch K), or K means in one group.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from jax.scipy.special import multigammaln
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.base import Hyper, Sites, on_host
from models.emissions.block import HostSums
from models.emissions.gaussians.host_sums import Coefficients, Sums, sums
from models.families.cholesky import half_log_determinant
from models.families.conjugate import GaussianStats, wishart_student
from models.latents import missing_cells as gaussian_cells
from models.latents.missing_cells import Completed, Completion, Component, Partial
from models.rows.centring import LOG_2PI, centre, flat
from models.rows.masks import Cells, partly_observed


class Centred(NamedTuple):
    """Rows about the origin."""

    x: Array  # (N, D)


def centred(hyper: Hyper, x: Array | Cells) -> Centred | Partial:
    if isinstance(x, Cells):
        rows = centre(hyper, x)
        return Partial(rows, 1 - x.observed.astype(rows.dtype))
    return Centred(centre(hyper, x))


def wishart_log_density(T: GaussianStats) -> Callable[[Centred | Partial], Array | Completion]:
    """< T, u(x) > − (D/2) log 2π for every row and component; T in the layout of K means and K or 1 precisions.

    By the root of E[Λ] and the mean it implies. The remainder, 0 at a point and −½ D/κ in expectation, is ``strength`` plus
    ½ μᵀΛμ: for a group s widths from the origin it is known to about s² times the machine's precision (in single precision 0.01
    at 1e3 widths, useless at 1e4; in double precision 1e-5 at 1e6).
    """
    roots, shifts, constant = _whitening(T)
    num_components, dimension = shifts.shape
    stacked = jnp.swapaxes(roots, 1, 2).reshape(num_components * dimension, dimension)

    def log_density(features: Centred | Partial) -> Array | Completion:
        if isinstance(features, Partial):
            mean = jax.scipy.linalg.solve_triangular(roots, shifts[..., None], lower=True, trans="T")[..., 0]
            precision = jnp.broadcast_to(-2 * T.square.reshape(-1, dimension, dimension), roots.shape)
            return gaussian_cells.completion(Component(precision, mean, constant))(features)
        # Rows last: the sum of squares then runs along contiguous rows, which a compiler can vectorise.
        projected = (stacked @ features.x.T - shifts.reshape(-1, 1)).reshape(num_components, dimension, -1)
        return (constant[:, None] - 0.5 * (projected**2).sum(1)).T

    return log_density


def _whitening(T: GaussianStats) -> tuple[Array, Array, Array]:
    """(roots (K, D, D), shifts (K, D), constant (K,)): log p(x | θ_k) = constant_k − ½ ‖roots_kᵀ x − shifts_k‖²."""
    dimension = T.total.shape[-1]
    total = T.total.reshape(-1, dimension)
    roots = jnp.linalg.cholesky(-2 * T.square.reshape(-1, dimension, dimension))
    roots = jnp.broadcast_to(roots, (total.shape[0], dimension, dimension))
    shifts = jax.scipy.linalg.solve_triangular(roots, total[..., None], lower=True)[..., 0]  # rootsᵀ mean
    constant = T.strength.reshape(-1) + T.exponent.reshape(-1) - 0.5 * dimension * LOG_2PI + 0.5 * (shifts**2).sum(-1)
    return roots, shifts, constant


def _host_coefficients(T: GaussianStats, log_probs: Array) -> Coefficients:
    roots, shifts, constant = _whitening(T)
    half = np.sqrt(0.5)
    return Coefficients(half * roots, half * shifts, constant + log_probs)


def _sums_on_host(hyper: Hyper, x: Any, weight: Any, num_threads: int, coefficients: Coefficients) -> Sums:
    return sums(x, weight, hyper["origin"], num_threads, coefficients)


def _statistics_of_sums(found: Sums) -> tuple[Array, GaussianStats, Array]:
    """Those of `full_statistics`."""
    count, total, square, log_partition = (jnp.asarray(leaf) for leaf in found)
    return count, GaussianStats(count, count[:, None], total[:, None, :], square), log_partition


full_on_host = HostSums(
    serves=lambda x: not partly_observed(x),
    coefficients=_host_coefficients,
    sums=_sums_on_host,
    statistics=_statistics_of_sums,
)


def wishart_predictive(nu: GaussianStats) -> Callable[[Centred], Array]:
    """Log of the multivariate Student t that integrates mean and precision out: (N, K).

    One more row adds shrink (x − m)(x − m)ᵀ to the scatter S, whose determinant grows by 1 + shrink (x − m)ᵀ S⁻¹ (x − m).
    """
    student = wishart_student(nu)
    dimension = student.mean.shape[-1]
    mean = student.mean.reshape(-1, dimension)
    num_components = mean.shape[0]
    root = jnp.broadcast_to(student.scale.reshape(-1, dimension, dimension), (num_components, dimension, dimension))
    identity = jnp.broadcast_to(jnp.eye(dimension, dtype=root.dtype), root.shape)
    inverse = jax.scipy.linalg.solve_triangular(root, identity, lower=True)
    shrink, dof = student.shrink.reshape(-1), jnp.broadcast_to(student.shape.reshape(-1), (num_components,))
    half_log_det = half_log_determinant(root)
    gammas = multigammaln((dof + 1) / 2, dimension) - multigammaln(dof / 2, dimension)
    constant = 0.5 * dimension * (jnp.log(shrink) - jnp.log(jnp.pi)) + gammas - half_log_det
    stacked = inverse.reshape(num_components * dimension, dimension)
    shifts = jnp.einsum("kij,kj->ki", inverse, mean).reshape(-1, 1)

    def log_density(features: Centred) -> Array:
        away = (stacked @ features.x.T - shifts).reshape(num_components, dimension, -1)
        return (constant[:, None] - 0.5 * (dof[:, None] + 1) * jnp.log1p(shrink[:, None] * (away**2).sum(1))).T

    return log_density


def full_statistics(weight: Array, features: Centred | Partial | Completed) -> GaussianStats:
    """Σ_n w_nk (1, 1, x, x xᵀ), a precision a component; before any component is known a missing cell is at the origin."""
    if isinstance(features, Completed):
        return gaussian_cells.full_statistics(weight, features)
    num_components, dimension = weight.shape[1], features.x.shape[1]
    # Rows last: the weighting runs along contiguous rows, and the product needs no transposition.
    weighted = (weight.T[:, None, :] * features.x.T[None, :, :]).reshape(num_components * dimension, -1)
    square = (weighted @ features.x).reshape(num_components, dimension, dimension)
    count = weight.sum(0)
    return GaussianStats(count, count[:, None], (weight.T @ features.x)[:, None, :], square)


def tied_statistics(weight: Array, features: Centred | Partial | Completed) -> GaussianStats:
    """The same for one precision: its x xᵀ are summed over the components first."""
    if isinstance(features, Completed):
        return gaussian_cells.tied_statistics(weight, features)
    count = weight.sum(0)
    square = (weight.sum(1)[None, :] * features.x.T) @ features.x
    return GaussianStats(count.sum(), count, weight.T @ features.x, square)


def wishart_prior(hyper: Hyper, num_components: int, tied: bool) -> GaussianStats:
    shift = hyper["location"] - hyper["origin"]
    dimension = shift.shape[-1]
    groups = num_components if tied else 1
    batch = () if tied else (num_components,)
    square = hyper["scatter"] + groups * hyper["strength"] * np.outer(shift, shift)
    return GaussianStats(
        on_host(np.full(batch, hyper["dof"] - dimension - 1 + groups)),
        on_host(np.full((*batch, groups), hyper["strength"])),
        on_host(np.broadcast_to(hyper["strength"] * shift, (*batch, groups, dimension))),
        on_host(np.broadcast_to(square, (*batch, dimension, dimension))),
    )


def wishart_program(hyper: Hyper, x: Array, num_components: int, proper: bool, tied: bool) -> dist.Distribution:
    """Λ ~ Wishart(dof, scatter⁻¹), μ_k | Λ_k ~ Normal(location, (strength Λ_k)⁻¹); flat: improper uniform on both."""
    dimension = hyper["origin"].shape[-1]
    batch = () if tied else (num_components,)
    if proper:
        wishart = dist.Wishart(hyper["dof"], rate_matrix=hyper["scatter"])
        precision = numpyro.sample("precision", wishart.expand(batch).to_event(len(batch)))
        normal = dist.MultivariateNormal(hyper["location"], precision_matrix=hyper["strength"] * precision)
        mean = numpyro.sample("mean", normal.expand((num_components,)).to_event(1))
    else:
        matrices = dist.ImproperUniform(constraints.positive_definite, batch, (dimension, dimension))
        precision = numpyro.sample("precision", matrices.to_event(len(batch)))
        mean = numpyro.sample("mean", flat(constraints.real, (num_components, dimension)))
    return dist.MultivariateNormal(mean, precision_matrix=precision)


def wishart_sites(hyper: Hyper, T: GaussianStats) -> dict[str, Array]:
    dimension = T.total.shape[-1]
    mean = jnp.linalg.solve(-2 * T.square, jnp.swapaxes(T.total, -1, -2))
    mean = jnp.swapaxes(mean, -1, -2).reshape(-1, dimension) + jnp.asarray(hyper["origin"], T.total.dtype)[None, :]
    return {"mean": mean, "precision": -2 * T.square}


def wishart_natural(hyper: Hyper, sites: Sites, tied: bool) -> GaussianStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    precision = jnp.asarray(sites["precision"])
    total = jnp.einsum("ij,kj->ki" if tied else "kij,kj->ki", precision, mean)
    half_log_det = half_log_determinant(jnp.linalg.cholesky(precision))
    energy = -0.5 * (mean * total).sum(-1)
    if tied:
        return GaussianStats(half_log_det, energy, total, -0.5 * precision)
    return GaussianStats(half_log_det, energy[:, None], total[:, None, :], -0.5 * precision)


def wishart_draw(key: Array, sites: Sites, z: Array) -> Array:
    mean = sites["mean"]
    roots = jnp.broadcast_to(jnp.linalg.cholesky(sites["precision"]), (*mean.shape, mean.shape[1]))
    noise = jax.random.normal(key, (z.shape[0], mean.shape[1]), mean.dtype)
    transposed = jnp.swapaxes(roots[z], -1, -2)
    return mean[z] + jax.scipy.linalg.solve_triangular(transposed, noise[..., None], lower=False)[..., 0]
