"""Naive Bayes (documents 000 and 003): N rows of D features that are independent given one of C classes.

    class_probs ~ Dirichlet(concentration)                                                       (C,)
    y_n ~ Categorical(class_probs)                                                               (N,)
    x_nd | y_n independent over d, by ``emission``:
        bernoulli     feature_probs_cd ~ Beta(a_d, b_d)                  x_nd ~ Bernoulli(feature_probs_{y_n d})
        multinomial   word_probs_c ~ Dirichlet(word_concentration)       x_n ~ Multinomial(Σ_v x_nv, word_probs_{y_n})
        categorical   probs_<d>_c ~ Dirichlet(level_concentration)       x_nd ~ Categorical(probs_<d>_{y_n})
        poisson       rate_cd ~ Gamma(shape_d, inverse_scale_d)          x_nd ~ Poisson(rate_{y_n d})
        negative_binomial, zero_inflated_…    counts that vary more, as in `models.emissions.negative_binomial`
        gaussian      precision_cd ~ Gamma(dof / 2, scatter_d / 2), mean_cd ~ Normal(location_d, 1 / (strength precision_cd))
                                                                         x_nd ~ Normal(mean_{y_n d}, 1 / precision_{y_n d})

Labels may be observed, missing or sets of candidates; without any label this is latent class analysis. E-step and M-step are
those of `models.mixtures.mixture`, and p(x | y) is defined in `models.emissions`: `binary`, `discrete`, `categorical` and
`gaussians.gaussian`.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from models.base import Model, ZooError
from models.emissions.named import OF_CLASSES, Choice, check_choice, emission_of
from models.mixtures.classifier import classifier
from models.reading.load import as_data

Prior = str | Mapping[str, Mapping[str, Any]]


def build(
    data: Any,
    emission: str = "bernoulli",
    prior: Prior = "default",
    num_classes: int | None = None,
    name: str = "naive_bayes",
) -> Model:
    """Build a naive Bayes classifier from the columns and labels of ``data``.

    ``emission`` is bernoulli, multinomial, categorical, gaussian, or for counts poisson, negative_binomial,
    zero_inflated_poisson or zero_inflated_negative_binomial. ``prior`` is "default", "flat" (maximum
    likelihood), "laplace" (concentration 2: add-one smoothing at the mode), for binary features "beta(a,b)" or
    "one_sided(alpha)" (document 000's Beta(alpha, 1), see `one_sided`), or numbers by block that replace defaults:
    ``{"class_probs": {"concentration": 2}, "class": {"a": 2, "b": 2}}``. ``num_classes`` is needed only if ``data`` has no
    labels. Cells may be missing, except with multinomial. Raises `ZooError` for values that the emission cannot
    produce, fewer than two classes, or a prior outside its support.

    >>> from models import load_data
    >>> model = build(load_data([[1, 0], [0, 1], [1, 1]], labels=["spam", "ham", None]), prior="laplace")
    >>> model.naming.coords["class"], model.naming.dims["feature_probs"]
    (['ham', 'spam'], ('class', 'feature'))
    """
    data = as_data(data)
    choice = Choice(emission)
    check_choice(choice, OF_CLASSES)
    options = {"emission": emission, "prior": prior, "num_classes": num_classes}
    numbers = named_prior(emission, prior)
    model = classifier(name, data, emission_of(choice, data), numbers, num_classes, options, prior_warnings(emission, numbers))
    return model._replace(description=__doc__)


LAPLACE = {
    "bernoulli": {"a": 2.0, "b": 2.0},
    "multinomial": {"word_concentration": 2.0},
    "categorical": {"level_concentration": 2.0},
}


def named_prior(emission: str, prior: Prior) -> Prior:
    """Translate a named prior to numbers by block; "default", "flat" and numbers pass through. Raises `ZooError`."""
    if not isinstance(prior, str) or prior in ("default", "flat"):
        return prior
    if prior == "laplace":
        if emission not in LAPLACE:
            raise ZooError(f"prior=laplace is for probabilities, not for emission={emission}; use default, flat or numbers")
        return {"class_probs": {"concentration": 2.0}, "class": LAPLACE[emission]}
    match = re.fullmatch(r"\s*(beta|one_sided)\s*\(([^()]*)\)\s*", prior)
    numbers = _numbers(match[2]) if match else None
    if match is None or numbers is None or len(numbers) != {"beta": 2, "one_sided": 1}[match[1]]:
        raise ZooError(
            f"prior={prior!r} is not one of default, flat, laplace, beta(a,b), one_sided(alpha), or numbers by block such as "
            "model.prior.class.a=2"
        )
    if emission != "bernoulli":
        raise ZooError(f"prior={prior} is for emission=bernoulli, not for emission={emission}")
    return {"class": {"a": numbers[0], "b": numbers[1]}} if match[1] == "beta" else one_sided(numbers[0])


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return None


def one_sided(alpha: float) -> dict[str, dict[str, Any]]:
    """Document 000's "Dir(1)" on the classes and "Dir(alpha)" on the features: independent Beta(alpha, 1) (errata E1, E2).

    The mode (n_1 + alpha − 1) / (n + alpha − 1) is smoothed on one side only: a word in every document of a class keeps
    probability 1, so its weight is infinite. "beta(a,b)" with both numbers above 1 smooths both sides.
    """
    return {"class_probs": {"concentration": 1.0}, "class": {"a": alpha, "b": 1.0}}


def prior_warnings(emission: str, prior: Prior) -> tuple[str, ...]:
    """Warnings about a prior on binary features."""
    if emission != "bernoulli" or not isinstance(prior, Mapping):
        return ()
    numbers = {"a": 2.0, "b": 2.0} | dict(prior.get("class", {}))
    sides = [("a", "in no row of a class", "0"), ("b", "in every row of a class", "1")]
    return tuple(
        f"prior Beta(a, b) with {name} = {np.min(numbers[name]):g} does not smooth the mode of a feature that is {where}: its "
        f"probability is {limit} there (or has no mode), and its weight infinite; {name} above 1 does"
        for name, where, limit in sides
        if np.all(np.isreal(numbers[name])) and np.min(numbers[name]) <= 1
    )
