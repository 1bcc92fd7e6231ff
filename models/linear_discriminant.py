"""Gaussian discriminant analysis (documents 001 and 003): N rows of D columns, C classes.

    class_probs ~ Dirichlet(concentration)                                                       (C,)
    precision   ~ Wishart(dof, scatter⁻¹)      tied: (D, D), linear; full: (C, D, D), quadratic
    mean_c | precision ~ Normal(location, (strength precision)⁻¹)                                (C, D)
    y_n ~ Categorical(class_probs),    x_n | y_n ~ Normal(mean_{y_n}, precision_{y_n}⁻¹)         (N,), (N, D)

This is the mixture of `models.gmm` with observed latents: E-step and M-step are those of `models.mixtures.mixture`. If every
label is given and no cell is missing, the posterior is one conjugate update (not with ``tails=student_t``). Its mode under the
flat prior is the maximum-likelihood estimate of document 001: class shares, class means, pooled covariance with divisor N. A
missing label is latent; a set of candidate labels restricts it.
"""

from collections.abc import Mapping
from typing import Any

from models.base import Model, ZooError
from models.emissions.gaussians.student_t import ESTIMATED
from models.emissions.named import Choice, check_choice, emission_of
from models.mixtures.classifier import classifier
from models.reading.load import as_data

COVARIANCES = ("tied", "full")
TAILS = ("gaussian", "student_t")


def build(
    data: Any,
    covariance: str = "tied",
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    num_classes: int | None = None,
    tails: str = "gaussian",
    degrees_of_freedom: str | float = ESTIMATED,
) -> Model:
    """Build a classifier with one Gaussian per class from the columns and labels of ``data``.

    ``covariance`` is tied (linear discriminants) or full (quadratic). ``prior`` is "default" (weak, from the columns), "flat"
    (maximum likelihood), or numbers by block that replace defaults: ``{"class_probs": {"concentration": 2}, "class":
    {"location", "strength", "dof", "scatter"}}``. ``num_classes`` is needed only if ``data`` has no labels: the model is then a
    mixture with exchangeable classes. ``tails=student_t`` makes the classes Student-t, so that distant rows move them little
    (`models.emissions.gaussians.student_t`); log-odds are then not linear. Their ``degrees_of_freedom`` are estimated or given.
    Cells may be missing, as in `models.gmm`. Raises `ZooError` for constant columns, fewer than two classes, or a prior
    outside its support.

    >>> model = build("iris")
    >>> model.naming.coords["class"], model.naming.dims["mean"]
    (['setosa', 'versicolor', 'virginica'], ('class', 'feature'))
    """
    data = as_data(data)
    if covariance not in COVARIANCES:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(COVARIANCES)}")
    of_tails = {"tails": tails, "degrees_of_freedom": degrees_of_freedom}
    options = {"covariance": covariance, "prior": prior, "num_classes": num_classes, **of_tails}
    choice = Choice(tails, covariance, degrees_of_freedom, option="tails")
    check_choice(choice, TAILS)
    model = classifier("linear_discriminant", data, emission_of(choice, data), prior, num_classes, options)
    return model._replace(description=__doc__)
