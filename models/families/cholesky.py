"""Determinants of matrices given by their Cholesky factors."""

import jax.numpy as jnp
from jax import Array


def half_log_determinant(root: Array) -> Array:
    """½ log det A of A = L Lᵀ, for factors L (..., D, D)."""
    return jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
