"""Densities of rows, and rows drawn from a fitted model."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from inference.estimators.base import Estimator
from inference.fitting.predictive import drawn_rows
from inference.results.draws import draws_of, number_of
from inference.results.table import data_of
from models.base import Data
from models.data.arguments import require_whole
from models.data.columns import Layout
from models.data.table import take
from models.reading.readers import to_frame


class Density(Estimator):
    """An estimator whose model has a density p(x) of rows."""

    LATENT: ClassVar[str]  # the latent that `sample` returns, as the program names it

    def score_samples(self, X: Any) -> np.ndarray:
        """Log p(x) of every row, averaged over the draws of the fit: (n_samples,). Raises `ZooError`.

        >>> GaussianMixture().fit(X).score_samples(X)
        """
        return np.asarray(self._predict(self._new(X))["log_density"])

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of log p(x) over the rows; y plays no part."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Rows drawn from p(x), and the latent of each.

        Every row has another draw of the parameters, if the fit has several. The rows are a DataFrame if the fit had one, and
        otherwise an array. The seed is ``random_state``. Raises `ZooError` for a number that is not whole.

        >>> rows, components = GaussianMixture().fit(X).sample(10)
        """
        check_is_fitted(self)
        require_whole("n_samples", n_samples)
        data, draws, seed = data_of(self.result_), draws_of(self.model_, self.result_), self._seed()
        chosen = np.random.default_rng(seed).integers(number_of(draws), size=n_samples)
        each = {name: value[chosen] for name, value in draws.items()}
        drawn = drawn_rows(self.model_, each, take(data, np.zeros(1, int)), seed)
        return self._as_given(data, drawn["x"][:, 0]), drawn[self.LATENT][:, 0]

    def _cells(self, data: Data) -> Layout:
        """The columns of drawn rows: those of the model, or else numbers."""
        if self.model_.abilities.table is not None:
            return self.model_.abilities.table.cells
        return Layout(data.columns, ("number",) * len(data.columns), ((),) * len(data.columns))

    def _as_given(self, data: Data, x: np.ndarray) -> Any:
        """Drawn cells (N, D), in which a category is a code, in the terms of X."""
        columns, kinds, categories, _ = self._cells(data)
        frame = to_frame(Data("sample", x, columns, categories=categories, kinds=kinds))
        if getattr(self, "feature_names_in_", None) is not None:  # how scikit-learn marks a fit on named columns
            return frame
        return pd.DataFrame(frame, dtype=object).to_numpy(np.float64)
