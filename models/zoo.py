"""The models of the zoo by name. A preset is the same build function with some of its arguments fixed."""

from collections.abc import Callable
from functools import partial

from models import (
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
from models.base import Model

MODELS: dict[str, Callable[..., Model]] = {
    "gmm": gmm.build,
    "gmm_simple": partial(gmm.build, name="gmm_simple", covariance="unit", weights="uniform"),
    "mixed_mixture": mixed_mixture.build,
    "naive_bayes": naive_bayes.build,
    "poisson_naive_bayes": partial(naive_bayes.build, name="poisson_naive_bayes", emission="poisson"),
    "markov_naive_bayes": markov_naive_bayes.build,
    "linear_discriminant": linear_discriminant.build,
    "logistic_regression": logistic_regression.build,
    "factor_analysis": factor_analysis.factor_analysis,
    "ppca": factor_analysis.ppca,
    "hmm": hmm.build,
    "latent_dirichlet": latent_dirichlet.build,
}
