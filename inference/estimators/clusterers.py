"""Mixtures as clusterers: every row belongs to a component."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin

from inference.estimators.base import Takes
from inference.estimators.density import Density

Prior = str | Mapping[str, Mapping[str, Any]]


class Clusterer(ClusterMixin, Density):
    """A mixture. After `fit` the attribute ``labels_`` is the component of every fitted row."""

    LATENT = "component"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture; y plays no part. Raises `ZooError`."""
        self._fit(self._table(self._validated(X, reset=True), sample_weight))
        self.labels_ = np.asarray(self.result_["latent"]["decode"])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of every row: (n_samples,)."""
        return np.asarray(self._predict(self._new(X))["assignment"])

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every component, averaged over the draws of the fit: (n_samples, num_components)."""
        return np.asarray(self._predict(self._new(X))["probs"])


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianMixture(Clusterer):
    """A Gaussian or Student-t mixture: the model ``gmm``, whose options are those of `models.gmm.build`.

    Cells may be missing (NaN), unless ``tails="student_t"``.

    >>> GaussianMixture(num_components=3, covariance="tied", method="gibbs").fit_predict(X)
    """

    MODEL: ClassVar[str] = "gmm"

    num_components: int = 2
    covariance: str = "full"
    weights: str = "learned"
    prior: Prior = "default"
    tails: str = "gaussian"
    degrees_of_freedom: str | float = "estimated"

    def takes(self) -> Takes:
        """The kinds of X that it reads: under Student-t tails complete rows."""
        return Takes(missing=self.tails != "student_t")


@dataclass(kw_only=True, eq=False, repr=False)
class MixedMixture(Clusterer):
    """A mixture of numbers, categories and counts: the model ``mixed_mixture``.

    Its options are those of `models.mixed_mixture.build`. X is an array, or a DataFrame with columns of any kind. Rules decide
    the kind of each column, and ``types`` overrides them, such as ``{"year": "category"}`` (`models.data.column_kinds`). Cells
    may be missing (NaN or None).

    >>> MixedMixture(num_components=3, types={"legs": "count"}).fit_predict(frame)
    """

    MODEL: ClassVar[str] = "mixed_mixture"
    READING: ClassVar[tuple[str, ...]] = ("types",)

    num_components: int | None = None
    prior: Prior = "default"
    unseen: str = "error"
    weights: str = "learned"
    counts: str = "poisson"
    types: Mapping[str, str] | None = None

    def takes(self) -> Takes:
        """The kinds of X that it reads: tables with missing cells and words."""
        return Takes(missing=True, words=True)
