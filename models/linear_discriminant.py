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
from functools import partial
from typing import Any

import numpy as np

from models import mixture
from models.base import Data, Model, ZooError
from models.data import allowed_labels, as_data
from models.gaussians import GAUSSIANS
from models.mixture import Rows, Shape

NAME = "linear_discriminant"
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
    mixture with exchangeable classes. Raises `ZooError` for missing cells, constant columns, fewer than two classes, or a prior
    outside its support.
    """
    data = as_data(data)
    if covariance not in COVARIANCES:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(COVARIANCES)}")
    classes = _classes(data, num_classes)
    emission, shape = GAUSSIANS[covariance], Shape("class_probs", "class", prior != "flat", len(classes), _unlabelled(data))
    mixture.check(mixture.complete(data, data.columns, NAME), emission, f"{len(classes)} classes", len(classes))
    options = {"covariance": covariance, "prior": prior, "num_classes": num_classes}
    rows = partial(_rows, columns=data.columns, classes=classes)
    return mixture.model(NAME, data, emission, shape, classes, prior, rows, options)


def _unlabelled(data: Data) -> bool:
    return data.labels is None or not ((data.labels >= 0).any() or data.candidates is not None)


def _classes(data: Data, num_classes: int | None) -> tuple[str, ...]:
    """Names of the classes: the levels of the label, or numbers where there is no label."""
    if not _unlabelled(data):
        if num_classes not in (None, len(data.levels)):
            raise ZooError(f"num_classes={num_classes}, but the label {data.label!r} has {len(data.levels)} classes")
        if len(data.levels) < 2:
            raise ZooError(f"the label {data.label!r} has one class only ({data.levels[0]}): there is nothing to tell apart")
        return data.levels
    if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise ZooError(
            f"{data.name} has no labels: name the column with data.label=<column> (label= in Python), or say how many classes "
            "to look for with num_classes, 2 or more"
        )
    return tuple(str(c) for c in range(num_classes))


def _rows(source: Any, columns: tuple[str, ...], classes: tuple[str, ...]) -> Rows:
    data = mixture.complete(as_data(source), columns, NAME)
    if _unlabelled(data):
        return mixture.rows_of(data)
    unknown = [level for level in data.levels if level not in classes]
    if unknown:
        raise ZooError(f"{data.name} has the class {unknown[0]!r}; the model has {', '.join(classes)}")
    known = allowed_labels(data)
    # A missing label may also be a class that this data lacks.
    allowed = np.repeat(known.all(axis=1)[:, None], len(classes), axis=1)
    allowed[:, [classes.index(level) for level in data.levels]] = known
    return mixture.rows_of(data, allowed)
