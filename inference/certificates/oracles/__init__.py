"""The models once more, in NumPy and SciPy: simulators and densities that certificates compare with.

Written from the generative programs in the documents, not from `models`, of which only tables (`models.data`) are imported.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from inference.certificates.oracles.oracle import Oracle
from models.errors import ZooError

# name of a model -> module that defines its oracle, by a function of that name
ORACLES: dict[str, str] = {
    "gmm": "inference.certificates.oracles.gaussians",
    "gmm_simple": "inference.certificates.oracles.gaussians",
    "mixed_mixture": "inference.certificates.oracles.tables",
    "naive_bayes": "inference.certificates.oracles.tables",
    "poisson_naive_bayes": "inference.certificates.oracles.tables",
    "markov_naive_bayes": "inference.certificates.oracles.chains",
    "linear_discriminant": "inference.certificates.oracles.gaussians",
    "logistic_regression": "inference.certificates.oracles.regression",
    "annotators": "inference.certificates.oracles.tables",
    "factor_analysis": "inference.certificates.oracles.factors",
    "ppca": "inference.certificates.oracles.factors",
    "hmm": "inference.certificates.oracles.chains",
    "state_space": "inference.certificates.oracles.factors",
    "latent_dirichlet": "inference.certificates.oracles.topics",
}


class Variant(NamedTuple):
    """A model under options of its own, which is certified as a model of another name."""

    model: str
    options: Mapping[str, str]  # as the command line has them, without ``model.``
    module: str  # that defines its oracle, by a function with the model's name of the values of these options

    @property
    def words(self) -> str:
        """What asks for it on the command line."""
        return " ".join([f"model={self.model}", *(f"model.{name}={value}" for name, value in self.options.items())])


_CHAINS, _MIXTURES = (f"inference.certificates.oracles.dispersed.{module}" for module in ("chains", "mixtures"))
VARIANTS: dict[str, Variant] = {  # name, as files and tables have it
    "hmm_negative_binomial": Variant("hmm", {"emission": "negative_binomial"}, _CHAINS),
    "hmm_zero_inflated_poisson": Variant("hmm", {"emission": "zero_inflated_poisson"}, _CHAINS),
    "mixed_mixture_negative_binomial": Variant("mixed_mixture", {"counts": "negative_binomial"}, _MIXTURES),
    "mixed_mixture_zero_inflated_poisson": Variant("mixed_mixture", {"counts": "zero_inflated_poisson"}, _MIXTURES),
}


def oracle_of(name: str) -> Oracle:
    """The naive implementation of a model of the zoo, or of a variant."""
    variant = VARIANTS.get(name, Variant(name, {}, ORACLES.get(name, "")))
    found: Oracle = getattr(import_module(variant.module), variant.model)(*variant.options.values())
    return found._replace(variant=name if name in VARIANTS else "")


def name_of(model: str, options: Mapping[str, str]) -> str:
    """What a model under ``options`` is certified as; raises `ZooError` where there is no oracle of them.

    >>> name_of("hmm", {}), name_of("hmm", {"emission": "negative_binomial"})
    ('hmm', 'hmm_negative_binomial')
    """
    if not options:
        return model
    found = [name for name, variant in VARIANTS.items() if (variant.model, variant.options) == (model, options)]
    if not found:
        known = "; ".join(each.words for each in VARIANTS.values())
        given = Variant(model, options, "").words
        raise ZooError(
            f"there is no oracle of {given}; there are {known} (a new one: VARIANTS in inference/certificates/oracles)"
        )
    return found[0]


def words_of(name: str) -> str:
    """What asks for a model or a variant on the command line."""
    return VARIANTS[name].words if name in VARIANTS else f"model={name}"
