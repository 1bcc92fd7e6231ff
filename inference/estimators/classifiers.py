"""Classifiers, generative and discriminative."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, validate_data

from inference.estimators.base import Estimator, Takes
from inference.estimators.density import Density
from models.base import Data, ZooError
from models.emissions.named import COUNTS

Prior = str | Mapping[str, Mapping[str, Any]]
EMISSIONS = {  # emission of a naive Bayes classifier -> what it reads
    "bernoulli": Takes(missing=True, sparse=True, counts=True),
    "multinomial": Takes(sparse=True, counts=True),
    **{name: Takes(missing=True, sparse=True, counts=True) for name in COUNTS},
    "categorical": Takes(missing=True, words=True),
    "gaussian": Takes(missing=True),
}


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, Estimator):
    """A classifier. After `fit` the attribute ``classes_`` has the classes, sorted.

    Args:
        missing_label: The value of y that stands for a missing label, such as -1; None if no label is missing. Rows without a
            label take part in the fit of a generative classifier.
    """

    OTHERS: ClassVar[tuple[str, ...]] = (*Estimator.OTHERS, "missing_label")

    missing_label: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier. Raises `ZooError`, as for fewer than two classes."""
        y = validate_data(self, y=y)
        X = self._validated(X, reset=True)
        check_consistent_length(X, y)
        return self._fit(self._labelled(self._table(X, sample_weight), y))

    def _labelled(self, data: Data, y: Any) -> Data:
        """The table with y as its labels; learns ``classes_``."""
        y = np.asarray(y)
        check_classification_targets(y)
        known = np.ones(len(y), bool) if self.missing_label is None else y != self.missing_label
        if not known.any():
            raise ZooError(f"y: every label is missing_label={self.missing_label!r}, so there is no class to learn")
        self.classes_, codes = np.unique(y[known], return_inverse=True)
        labels = np.full(len(y), -1)
        labels[known] = codes
        return data._replace(labels=labels, label="y", levels=tuple(map(str, self.classes_)))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row: (n_samples,)."""
        codes = self._predict(self._new(X))["assignment"].values
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class of ``classes_``, averaged over the draws of the fit: (n_samples, n_classes)."""
        return np.asarray(self._predict(self._new(X))["probs"])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class GenerativeClassifier(Classifier, Density):
    """A classifier with a density of each class: `score_samples` is of x alone, `score` is the accuracy."""

    LATENT = "component"

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Rows drawn from p(x), and the class of each, as in `Density.sample`."""
        rows, codes = super().sample(n_samples)
        return rows, np.asarray(self.classes_[codes])


@dataclass(kw_only=True, eq=False, repr=False)
class NaiveBayes(GenerativeClassifier):
    """Naive Bayes: the model ``naive_bayes``, with the options of `models.naive_bayes.build`.

    ``emission`` says what X holds: 0 and 1 (bernoulli), counts (multinomial, poisson, negative_binomial, and the last two
    zero-inflated), categories or numbers (gaussian). X may be sparse for binary columns and counts. Cells may be missing (NaN),
    except with multinomial.

    >>> NaiveBayes(emission="gaussian", method="exact").fit(X, y).predict_proba(X)
    """

    MODEL: ClassVar[str] = "naive_bayes"

    emission: str = "bernoulli"
    prior: Prior = "default"

    def takes(self) -> Takes:
        """The kinds of X that it reads, by its emission."""
        return EMISSIONS.get(self.emission, Takes())  # `fit` raises an error for another emission

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Rows and classes; raises `ZooError` for multinomial counts, whose model has no total for a row."""
        if self.emission == "multinomial":
            raise ZooError("emission=multinomial is of words given their number in a row, so no row can be drawn; use poisson")
        return super().sample(n_samples)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearDiscriminant(GenerativeClassifier):
    """A Gaussian or Student-t per class: the model ``linear_discriminant``.

    Its options are those of `models.linear_discriminant.build`. Cells may be missing (NaN), unless ``tails="student_t"``.

    >>> LinearDiscriminant(covariance="full", method="exact").fit(X, y).predict(X)
    """

    MODEL: ClassVar[str] = "linear_discriminant"

    covariance: str = "tied"
    prior: Prior = "default"
    tails: str = "gaussian"
    degrees_of_freedom: str | float = "estimated"

    def takes(self) -> Takes:
        """The kinds of X that it reads: under Student-t tails complete rows."""
        return Takes(missing=self.tails != "student_t")


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(Classifier):
    """Logistic regression: the model ``logistic_regression``, with the options of `models.logistic_regression.build`.

    It has no density of rows. Rows are complete.

    >>> LogisticRegression(method="laplace").fit(X, y).predict_proba(X)
    """

    MODEL: ClassVar[str] = "logistic_regression"

    weight_scale: float = 2.5
    prior: Prior = "default"
