"""Estimators with the interface of scikit-learn: thin layers over `models.MODELS`, `inference.fit` and `inference.predict`.

The only room that builds on scikit-learn's classes, and no other room imports it. Imports `inference.topics`,
`inference.sequences`, `inference.predictions`, `inference.fitting` and what is below them.
"""

from inference.estimators.checks import expected_failed_checks
from inference.estimators.classifiers import LinearDiscriminant, LogisticRegression, NaiveBayes
from inference.estimators.clusterers import GaussianMixture, MixedMixture
from inference.estimators.factors import PPCA, FactorAnalysis
from inference.estimators.sequences import HiddenMarkov
from inference.estimators.topics import LatentDirichlet

__all__ = [
    "PPCA",
    "FactorAnalysis",
    "GaussianMixture",
    "HiddenMarkov",
    "LatentDirichlet",
    "LinearDiscriminant",
    "LogisticRegression",
    "MixedMixture",
    "NaiveBayes",
    "expected_failed_checks",
]


def __dir__() -> list[str]:
    return __all__
