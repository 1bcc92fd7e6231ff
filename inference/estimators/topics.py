"""The topic model as a transformer: counts of words to shares of topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from inference.estimators.base import Estimator, Takes
from inference.predictions.new_rows import perplexity


@dataclass(kw_only=True, eq=False, repr=False)
class LatentDirichlet(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Latent Dirichlet allocation: the model ``latent_dirichlet``, with the options of `models.latent_dirichlet.build`.

    X has the counts of the words of every document, dense or sparse, such as ``CountVectorizer`` makes. Predictions are
    averages of draws of the proportions, which random numbers of a fixed seed decide.

    >>> LatentDirichlet(num_topics=20, method="cavi").fit_transform(CountVectorizer().fit_transform(texts))
    """

    MODEL: ClassVar[str] = "latent_dirichlet"
    FEWEST_ROWS: ClassVar[int] = 1
    DRAWS: ClassVar[int] = 200  # of the proportions of every document

    num_topics: int = 10
    topic_concentration: float | Sequence[float] = 1.1
    word_concentration: float | Sequence[float] = 1.1
    seeds: Mapping[str, Sequence[str]] | None = None
    seed_weight: float = 10.0
    prior: str = "default"

    def takes(self) -> Takes:
        """The kinds of X that it reads: counts."""
        return Takes(sparse=True, counts=True)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the topics; y plays no part. Raises `ZooError` for numbers that are not counts."""
        return self._fit(self._table(self._validated(X, reset=True), sample_weight))

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.naming.coords["topic"])

    def transform(self, X: Any) -> np.ndarray:
        """The posterior mean of the topic proportions of every document, taken as new: (n_samples, num_topics)."""
        return np.asarray(self._predict(self._new(X))["topic_probs"])

    def score_samples(self, X: Any) -> np.ndarray:
        """An estimate of log p(x) of every document, its proportions integrated out: (n_samples,)."""
        return np.asarray(self._predict(self._new(X))["log_density"])

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`; y plays no part."""
        return float(self.score_samples(X).mean())

    def perplexity(self, X: Any) -> float:
        """The perplexity of documents that the fit has not seen (`inference.perplexity`)."""
        return float(perplexity(self.model_, self.result_, self._new(X))["perplexity"])
