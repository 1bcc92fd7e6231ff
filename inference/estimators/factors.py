"""Models of factors as transformers: rows to scores, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from inference.estimators.base import Takes
from inference.estimators.density import Density
from inference.results.draws import draws_of
from models.errors import ZooError

Prior = str | Mapping[str, Mapping[str, Any]]


@dataclass(kw_only=True, eq=False, repr=False)
class FactorModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Density):
    """A model of factors. Cells may be missing (NaN)."""

    LATENT: ClassVar[str] = "score"
    FEWEST_COLUMNS: ClassVar[int] = 2

    num_factors: int = 2
    prior: Prior = "default"
    relevance: bool = False

    def takes(self) -> Takes:
        """The kinds of X that it reads: numbers, some of which may be missing."""
        return Takes(missing=True)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the factors; y plays no part. Raises `ZooError`, as for more factors than the columns can identify."""
        return self._fit(self._table(self._validated(X, reset=True), sample_weight))

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.naming.coords["factor"])

    def transform(self, X: Any) -> np.ndarray:
        """The posterior mean of the scores of every row: (n_samples, num_factors)."""
        return np.asarray(self._predict(self._new(X))["scores"])

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The columns expected of rows with the scores X, averaged over the draws of the fit: (n_samples, n_features)."""
        check_is_fitted(self)
        scores = check_array(X, dtype=np.float64, input_name="X", estimator=self)
        draws = draws_of(self.model_, self.result_)
        loading, mean = draws["loading"].mean(0), draws["mean"].mean(0)
        if scores.shape[1] != loading.shape[1]:
            raise ZooError(f"X has {scores.shape[1]} columns; inverse_transform takes scores of {loading.shape[1]} factors")
        return np.asarray(scores @ loading.T + mean)


@dataclass(kw_only=True, eq=False, repr=False)
class FactorAnalysis(FactorModel):
    """Factor analysis: the model ``factor_analysis``, with the options of `models.factor_analysis.factor_analysis`.

    >>> FactorAnalysis(num_factors=2).set_output(transform="pandas").fit_transform(frame)
    """

    MODEL: ClassVar[str] = "factor_analysis"


@dataclass(kw_only=True, eq=False, repr=False)
class PPCA(FactorModel):
    """Probabilistic PCA: the model ``ppca``, with the options of `models.factor_analysis.ppca`.

    >>> PPCA(num_factors=2, method="exact", prior="flat").fit_transform(X)
    """

    MODEL: ClassVar[str] = "ppca"
