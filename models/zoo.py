"""The models of the zoo by name: ``MODELS[name](data, **options)`` builds a `models.base.Model`.

A preset, such as ``gmm_simple``, is a build function with some of its arguments fixed.

>>> from models import MODELS, load_data
>>> model = MODELS["naive_bayes"](load_data([[1, 0], [0, 1], [1, 1]], labels=["spam", "ham", None]))
>>> model.naming.coords["class"]
['ham', 'spam']
"""

from collections.abc import Callable
from functools import partial

from models import (
    annotators,
    factor_analysis,
    gmm,
    hmm,
    latent_dirichlet,
    linear_discriminant,
    logistic_regression,
    markov_naive_bayes,
    mixed_mixture,
    naive_bayes,
)
from models.base import Model, ZooError
from models.errors import did_you_mean


class Zoo(dict[str, Callable[..., Model]]):
    """Build functions by name; an unknown name is a `ZooError` that lists the known ones."""

    def __repr__(self) -> str:
        return f"models: {', '.join(self)}"

    def __missing__(self, name: str) -> Callable[..., Model]:
        raise ZooError(f"there is no model {name!r}{did_you_mean(str(name), self)}; the models are {', '.join(self)}")


MODELS = Zoo(
    {
        "gmm": gmm.build,
        "gmm_simple": partial(gmm.build, name="gmm_simple", covariance="unit", weights="uniform"),
        "mixed_mixture": mixed_mixture.build,
        "naive_bayes": naive_bayes.build,
        "poisson_naive_bayes": partial(naive_bayes.build, name="poisson_naive_bayes", emission="poisson"),
        "markov_naive_bayes": markov_naive_bayes.build,
        "linear_discriminant": linear_discriminant.build,
        "logistic_regression": logistic_regression.build,
        "annotators": annotators.build,
        "factor_analysis": factor_analysis.factor_analysis,
        "ppca": factor_analysis.ppca,
        "hmm": hmm.build,
        "latent_dirichlet": latent_dirichlet.build,
    }
)
