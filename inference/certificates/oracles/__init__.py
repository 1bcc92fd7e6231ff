"""The models once more, in NumPy and SciPy: simulators and densities that certificates compare with.

Written from the generative programs in the documents, not from `models`, of which only tables (`models.data`) are imported.
"""

from importlib import import_module

from inference.certificates.oracles.oracle import Oracle

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


def oracle_of(model: str) -> Oracle:
    """The naive implementation of a model of the zoo."""
    oracle: Oracle = getattr(import_module(ORACLES[model]), model)()
    return oracle
