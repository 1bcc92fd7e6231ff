"""Gaussian mixture (document 002), N rows of D columns, K components:

    mixture_probs ~ Dirichlet(concentration)                                                     (K,)
    precision_k   ~ Wishart(dof, scatter⁻¹)             full (K, D, D), tied (D, D)
                    Gamma(dof / 2, scatter / 2)         diag (K, D), spherical (K,)
    mean_k | precision_k ~ Normal(location, (strength precision_k)⁻¹)                            (K, D)
    z_n ~ Categorical(mixture_probs),    x_n | z_n ~ Normal(mean_{z_n}, precision_{z_n}⁻¹)       (N,), (N, D)

The precision is sampled, not the covariance, so that modes are taken in its coordinates (errata E17, E20). With
``covariance=unit weights=uniform`` and unit ``strength`` it is document 002's simplified model: mean_k ~ Normal(0, I),
z_n uniform, x_n ~ Normal(mean_{z_n}, I).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from models import mixture
from models.base import Model, ZooError
from models.data import as_data
from models.emissions import Emission
from models.gaussians import GAUSSIANS
from models.mixture import Shape
from models.rows import Rows, checked, encoded, require_rows


def build(
    data: Any,
    num_components: int = 2,
    covariance: str = "full",
    weights: str = "learned",
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    name: str = "gmm",
) -> Model:
    """A Gaussian mixture with ``num_components`` components on the columns of ``data``.

    ``covariance`` is full, tied, diag, spherical or unit; ``weights`` is learned or uniform. ``prior`` is "default"
    (weak, from the columns), "flat" (maximum likelihood) or numbers by block, over the defaults:
    ``{"mixture_probs": {"concentration": 2}, "component": {"location", "strength", "dof", "scatter"}}``.
    Cells may be missing (NaN): a row counts with what is observed of it, and with full or tied covariances its missing cells
    are latent variables. Raises `ZooError` for constant columns, fewer rows than components, or a prior outside its support.
    """
    data = as_data(data)
    if not isinstance(covariance, str) or covariance not in GAUSSIANS:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(GAUSSIANS)}")
    if not isinstance(weights, str) or weights not in ("learned", "uniform"):
        raise ZooError(f"weights={weights!r} is not one of learned, uniform")
    if isinstance(num_components, bool) or not isinstance(num_components, int | np.integer) or num_components < 1:
        raise ZooError(f"num_components must be a whole number above 0, got {num_components!r}")
    num_components = int(num_components)
    emission = GAUSSIANS[covariance]
    probs = "mixture_probs" if weights == "learned" else None
    shape = Shape(probs, "component", prior != "flat", num_components, exchangeable=True)
    require_rows(checked(data, data.columns, emission, "gmm"), emission, f"num_components={num_components}", num_components)
    options = {"num_components": num_components, "covariance": covariance, "weights": weights, "prior": prior}
    rows = partial(_rows, emission, data.columns)
    return mixture.model(name, data, emission, shape, range(num_components), prior, rows, options)


def _rows(emission: Emission, columns: tuple[str, ...], source: Any) -> Rows:
    return encoded(checked(as_data(source), columns, emission, "gmm"), emission)
