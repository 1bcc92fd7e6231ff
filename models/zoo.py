"""The models of the zoo by name: ``MODELS[name](data, **options)`` builds a `models.base.Model`.

A preset, such as ``gmm_simple``, is a build function with some of its arguments fixed.

>>> from models import MODELS, load_data
>>> model = MODELS["naive_bayes"](load_data([[1, 0], [0, 1], [1, 1]], labels=["spam", "ham", None]))
>>> model.naming.coords["class"]
['ham', 'spam']
"""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

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
    state_space,
)
from models.base import Model, ZooError
from models.errors import did_you_mean

__all__ = ["MODELS"]


class Build(partial[Model]):
    """A build function, some of whose arguments may be fixed; an option that it lacks is a `ZooError` that lists those it has.

    >>> MODELS["gmm"]
    gmm(data, num_components=2, covariance='full', weights='learned', prior='default', tails='gaussian',
        degrees_of_freedom='estimated')
    """

    title = "build"  # its name in the zoo, set by the zoo

    def __repr__(self) -> str:
        parameters = [option for name, option in inspect.signature(self).parameters.items() if name != "name"]
        shown = [
            option.name if option.default is option.empty else f"{option.name}={option.default!r}" for option in parameters
        ]
        return f"{self.title}({', '.join(shown)})"

    def __call__(self, *args: Any, **options: Any) -> Model:
        takes = [name for name in inspect.signature(self.func).parameters if name not in ("data", "name")]
        for option in options:
            if option not in (*takes, "data", "name"):
                raise ZooError(
                    f"{self.title} has no option {option!r}{did_you_mean(option, takes)}; it takes {', '.join(takes)}"
                )
        return super().__call__(*args, **options)


class Zoo(dict[str, Build]):
    """Build functions by name; an unknown name is a `ZooError` that lists the known ones."""

    def __init__(self, builds: Mapping[str, Build]) -> None:
        super().__init__(builds)
        for name, build in builds.items():
            build.title = name
            build.__doc__ = inspect.getdoc(build.func)  # which notebooks show as the help of MODELS["gmm"]

    def __repr__(self) -> str:
        return f"models: {', '.join(self)}"

    def __missing__(self, name: str) -> Build:
        raise ZooError(f"there is no model {name!r}{did_you_mean(str(name), self)}; the models are {', '.join(self)}")


MODELS = Zoo(
    {
        "gmm": Build(gmm.build),
        "gmm_simple": Build(gmm.build, name="gmm_simple", covariance="unit", weights="uniform"),
        "mixed_mixture": Build(mixed_mixture.build),
        "naive_bayes": Build(naive_bayes.build),
        "poisson_naive_bayes": Build(naive_bayes.build, name="poisson_naive_bayes", emission="poisson"),
        "markov_naive_bayes": Build(markov_naive_bayes.build),
        "linear_discriminant": Build(linear_discriminant.build),
        "logistic_regression": Build(logistic_regression.build),
        "annotators": Build(annotators.build),
        "factor_analysis": Build(factor_analysis.factor_analysis),
        "ppca": Build(factor_analysis.ppca),
        "hmm": Build(hmm.build),
        "state_space": Build(state_space.build),
        "latent_dirichlet": Build(latent_dirichlet.build),
    }
)


def __dir__() -> list[str]:
    return __all__
