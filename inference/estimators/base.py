"""The base of all estimators: parameters, reading of X, fit, prediction, pickling.

An estimator declares the name of its model and, as fields of a dataclass, the model's options with their defaults. scikit-learn
reads the fields as parameters, so that ``clone``, ``set_params`` and ``GridSearchCV`` know them.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from inference.fitting import fit as fitting
from inference.predictions.predict import predict
from inference.results.table import data_of
from models import MODELS
from models.base import Data, Model
from models.data.table import is_sparse
from models.reading.load import load_data

SEEDS = 2**31 - 1  # number of seeds that a random generator draws from


class Takes(NamedTuple):
    """Kinds of X that an estimator reads, in addition to complete numbers."""

    missing: bool = False  # NaN, for a missing cell
    sparse: bool = False  # a SciPy sparse matrix
    counts: bool = False  # only numbers of at least 0
    words: bool = False  # columns of a DataFrame that hold words


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(BaseEstimator):
    """A model of the zoo with a method to fit it.

    Args:
        method: Inference method, any of `inference.METHODS` that the model supports.
        method_options: Options of the method for `inference.fit`, such as ``{"num_starts": 3}`` or ``{"num_samples": 500}``.
        random_state: Seed of the fit and of draws: a whole number, a generator of NumPy, or None for another seed each time.

    After `fit` the attribute ``result_`` is the `xarray.DataTree` of `inference.fit`, and ``model_`` the model: all functions
    of `inference` take them. Methods raise `ZooError`, a ``ValueError``, for anything that the user can correct.
    """

    MODEL: ClassVar[str]  # name in `models.MODELS`
    READING: ClassVar[tuple[str, ...]] = ()  # parameters that are options of `load_data`, not of the model
    OTHERS: ClassVar[tuple[str, ...]] = ("method", "method_options", "random_state")  # parameters that are neither
    FEWEST_ROWS: ClassVar[int] = 2  # from which a default prior takes its scales
    FEWEST_COLUMNS: ClassVar[int] = 1
    DRAWS: ClassVar[int] = 0  # how many draws `predict` makes for each row: none, where its answers have a closed form

    method: str = "em"
    method_options: Mapping[str, Any] | None = None
    random_state: Any = 0

    def takes(self) -> Takes:
        """The kinds of X that this estimator reads, given its parameters."""
        return Takes()

    def __sklearn_tags__(self) -> Tags:
        """scikit-learn's description of the X that this estimator reads."""
        tags = super().__sklearn_tags__()
        takes = self.takes()
        tags.input_tags.allow_nan = takes.missing
        tags.input_tags.sparse = takes.sparse
        tags.input_tags.positive_only = takes.counts
        tags.input_tags.categorical = takes.words
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result; X alone, as a fit that failed has seen it, is not enough."""
        return "result_" in vars(self)

    # -----------------------------------------------------------------------------------------------------------------
    # Reading

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """X as scikit-learn checks it; ``reset`` at a fit, which learns the number and the names of the columns."""
        takes = self.takes()
        if takes.words and isinstance(X, pd.DataFrame):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            accept_sparse="csr" if takes.sparse else False,
            ensure_all_finite="allow-nan" if takes.missing else True,
            ensure_non_negative=takes.counts,
            ensure_min_samples=self.FEWEST_ROWS if reset else 1,
            ensure_min_features=self.FEWEST_COLUMNS if reset else 1,
        )

    def _table(self, X: Any, weight: Any = None) -> Data:
        """Validated X as the zoo reads it."""
        options = {name: getattr(self, name) for name in self.READING}
        if weight is not None:
            options["weights"] = "counts"  # scikit-learn's meaning: a row of weight 2 is two rows, and one of 0.5 half a row
        if isinstance(X, pd.DataFrame):
            return load_data(X, weight=weight, name="X", **options)
        names = [str(name) for name in _check_feature_names_in(self)]
        if is_sparse(X):
            return load_data(X, columns=names, weight=weight, name="X", **options)
        return load_data(pd.DataFrame(X, columns=names), weight=weight, name="X", **options)

    def _new(self, X: Any) -> Data:
        """New rows, with the columns of the fit."""
        check_is_fitted(self)
        return self._table(self._validated(X, reset=False))

    # -----------------------------------------------------------------------------------------------------------------
    # Fit and prediction

    def _options(self) -> dict[str, Any]:
        """The parameters that are options of the model."""
        rest = {*self.OTHERS, *self.READING}
        return {name: value for name, value in self.get_params(deep=False).items() if name not in rest}

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(SEEDS))

    def _fit(self, data: Data) -> Self:
        """Build the model on a table and fit it; problems of the fit become a ``ConvergenceWarning``."""
        model = MODELS[self.MODEL](data, **self._options())
        self.result_ = fitting.fit(model, data, self.method, seed=self._seed(), **(self.method_options or {}))
        self.model_: Model = model
        if problems := self.result_.attrs["problems"]:
            warnings.warn(f"{type(self).__name__}: {problems}", ConvergenceWarning, stacklevel=3)
        return self

    def _predict(self, data: Data) -> xr.Dataset:
        """`inference.predict` of rows that all count as new, so that the answer for a row does not depend on the others."""
        return predict(self.model_, self.result_, data, num_draws=self.DRAWS, fitted=False)

    # -----------------------------------------------------------------------------------------------------------------
    # Pickling

    def __getstate__(self) -> dict[str, Any]:
        """The state with the options of the model in place of its functions, which cannot be pickled."""
        state = dict(super().__getstate__())
        if "model_" in state:
            state["model_"] = dict(state["model_"].options)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Build the model again on the table that the result holds."""
        super().__setstate__(state)
        if "model_" in state:
            self.model_ = MODELS[self.MODEL](data_of(self.result_), **state["model_"])
