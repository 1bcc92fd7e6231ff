"""Gaussian discriminant analysis (documents 001 and 003), N rows of D columns, C classes:

    class_probs ~ Dirichlet(concentration)                                                       (C,)
    precision   ~ Wishart(dof, scatter⁻¹)      tied: one (D, D), linear; full: one a class (C, D, D), quadratic
    mean_c | precision ~ Normal(location, (strength precision)⁻¹)                                (C, D)
    y_n ~ Categorical(class_probs),    x_n | y_n ~ Normal(mean_{y_n}, precision_{y_n}⁻¹)         (N,), (N, D)

It is the mixture of `models.gmm` with the latents observed: E-step and M-step are those of `models.mixture`. With every label
given, the posterior is one conjugate update, and the flat prior's mode is document 001's maximum-likelihood estimate (class
shares, class means, pooled covariance with divisor N). A missing label is a latent again, a set of candidates a restricted one.
"""

from collections.abc import Mapping
from typing import Any

from models.base import Model, ZooError
from models.classifier import classifier
from models.data import as_data
from models.gaussians import GAUSSIANS

COVARIANCES = ("tied", "full")


def build(
    data: Any,
    covariance: str = "tied",
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    num_classes: int | None = None,
) -> Model:
    """Gaussian classes on the columns of ``data``, with its labels.

    ``covariance`` is tied (linear discriminants) or full (quadratic). ``prior`` is "default" (weak, from the columns), "flat"
    (maximum likelihood) or numbers by block, over the defaults: ``{"class_probs": {"concentration": 2}, "class": {"location",
    "strength", "dof", "scatter"}}``. ``num_classes`` is needed only where the data has no label at all: the model is then a
    mixture with exchangeable classes. Cells may be missing, as in `models.gmm`. Raises `ZooError` for constant columns,
    fewer than two classes, or a prior outside its support.
    """
    data = as_data(data)
    if covariance not in COVARIANCES:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(COVARIANCES)}")
    options = {"covariance": covariance, "prior": prior, "num_classes": num_classes}
    return classifier("linear_discriminant", data, GAUSSIANS[covariance], prior, num_classes, options)
