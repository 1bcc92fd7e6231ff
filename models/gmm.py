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
from functools import cache, partial
from typing import Any

import numpy as np

from models import mixture
from models.base import Data, Model, Permutation, ZooError
from models.data import as_data
from models.gaussians import GAUSSIANS
from models.mixture import Rows, Shape


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
    Raises `ZooError` for missing cells, constant columns, fewer rows than components, or a prior outside its support.
    """
    data = as_data(data)
    if not isinstance(covariance, str) or covariance not in GAUSSIANS:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(GAUSSIANS)}")
    if not isinstance(weights, str) or weights not in ("learned", "uniform"):
        raise ZooError(f"weights={weights!r} is not one of learned, uniform")
    if isinstance(num_components, bool) or not isinstance(num_components, int | np.integer) or num_components < 1:
        raise ZooError(f"num_components must be a whole number above 0, got {num_components!r}")
    num_components = int(num_components)
    emission, shape = GAUSSIANS[covariance], _shape(weights, prior != "flat", num_components)
    mixture.check(mixture.complete(data, data.columns, "gmm"), emission, f"num_components={num_components}", num_components)
    hyper = mixture.hyperparameters(data, emission, shape, prior)
    static = _structure(covariance, shape)
    return Model(
        name=name,
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=mixture.pseudo_statistics(hyper, static.algebra, emission, shape, data.x.shape[1]),
        rows=partial(_rows, columns=data.columns),
        functionals=static.functionals,
        witnesses=mixture.witnesses,
        symmetry=Permutation("component") if num_components > 1 else None,
        simulate=partial(mixture.simulate, emission, shape),
        dims=dict(emission.dims) | _DIMS,
        coords=_coords(data, num_components),
        options={"num_components": num_components, "covariance": covariance, "weights": weights, "prior": prior},
    )


# ---------------------------------------------------------------------------------------------------------------------
# Program, E-step and M-step: those of `models.mixture`, with a Gaussian block of `models.gaussians`


def _shape(weights: str, proper: bool, num_components: int) -> Shape:
    return Shape("mixture_probs" if weights == "learned" else None, "component", proper, num_components, exchangeable=True)


@cache
def _structure(covariance: str, shape: Shape) -> mixture.Structure:
    """One object for equal arguments."""
    return mixture.structure(GAUSSIANS[covariance], shape)


# ---------------------------------------------------------------------------------------------------------------------
# Names and data


_DIMS = {
    "mixture_probs": ("component",),
    "sorted_probs": ("rank",),
    "co_clustering": ("pair",),
    "concentration": ("component",),
    "location": ("column",),
    "origin": ("column",),
    "responsibilities": ("row", "component"),
    "x": ("row", "column"),
}


def _coords(data: Data, num_components: int) -> dict[str, list[Any]]:
    return {
        "component": list(range(num_components)),
        "rank": list(range(1, num_components + 1)),
        "column": list(data.columns),
        "column_": list(data.columns),
        "pair": mixture.pairs(data.num_rows),
    }


def _rows(source: Any, columns: tuple[str, ...]) -> Rows:
    return mixture.rows_of(mixture.complete(as_data(source), columns, "gmm"))
