"""Hidden Markov models: the rows of X are steps, sequence after sequence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from inference.estimators.base import Takes
from inference.estimators.density import Density
from inference.fitting.predictive import drawn_rows
from inference.results.draws import draws_of, number_of
from inference.results.table import data_of
from models.base import Data, ZooError
from models.data.arguments import require_whole
from models.data.columns import Layout
from models.data.table import take
from models.emissions.categorical import levels_of
from models.emissions.gaussians.student_t import ESTIMATED
from models.emissions.named import COUNTS

Prior = str | Mapping[str, Mapping[str, Any]]
DECODING = {"viterbi": "viterbi", "max_prob_tag": "assignment"}  # as in `inference.decode` -> its name in a prediction
EMISSIONS = {  # emission of the states -> what X may hold
    "categorical": Takes(missing=True, words=True),
    "multinomial": Takes(missing=True, counts=True),
    "gaussian": Takes(missing=True),
    **{name: Takes(missing=True, counts=True) for name in COUNTS},
    "bernoulli": Takes(missing=True, counts=True),
    "student_t": Takes(missing=True),
    "mixed": Takes(missing=True, words=True),
}


@dataclass(kw_only=True, eq=False, repr=False)
class HiddenMarkov(Density):
    """A hidden Markov model: the model ``hmm``, with the options of `models.hmm.build`.

    ``lengths`` are the numbers of rows of X of the sequences, one after another; without it X is one sequence. `score_samples`
    is the log density of every step given those before it. ``decoding`` is the output of `predict`: the most probable path
    ("viterbi"), or the most probable state of every step ("max_prob_tag"). Steps may be missing (NaN).

    >>> HiddenMarkov(num_states=3, emission="gaussian").fit(X, lengths=[100, 80]).predict(X, lengths=[100, 80])
    """

    MODEL: ClassVar[str] = "hmm"
    OTHERS: ClassVar[tuple[str, ...]] = (*Density.OTHERS, "decoding")

    num_states: int = 2
    emission: str = "categorical"
    covariance: str = "diag"
    boundary: bool = True
    prior: Prior = "default"
    unseen: str = "error"
    degrees_of_freedom: str | float = ESTIMATED
    counts: str = "poisson"
    decoding: str = "viterbi"

    def takes(self) -> Takes:
        """The kinds of X that it reads, by its emission."""
        return EMISSIONS.get(self.emission, Takes())  # `fit` raises an error for another emission

    def fit(self, X: Any, y: Any = None, lengths: Any = None) -> Self:
        """Fit the model to sequences of these lengths; y plays no part. Raises `ZooError`."""
        if self.decoding not in DECODING:
            raise ZooError(f"decoding={self.decoding!r} is not one of {', '.join(DECODING)}")
        return self._fit(_in_sequences(self._table(self._validated(X, reset=True)), lengths))

    def fit_predict(self, X: Any, y: Any = None, lengths: Any = None) -> np.ndarray:
        """`fit`, and then `predict` of the same steps."""
        return self.fit(X, lengths=lengths).predict(X, lengths)

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The state of every step, by ``decoding``: (n_samples,)."""
        return self._by_step(X, lengths, DECODING[self.decoding])

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The probability of every state at every step given the whole sequence: (n_samples, num_states)."""
        return self._by_step(X, lengths, "probs")

    def score_samples(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Log p(x_t | x_1 … x_{t−1}) of every step: (n_samples,)."""
        return self._by_step(X, lengths, "step_log_density")

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Log p(x) of all sequences, with their ends, per step; y plays no part."""
        predicted = self._of_sequences(X, lengths)
        return float(predicted["log_density"].sum() / (predicted["assignment"] >= 0).sum())

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """One sequence of ``n_samples`` steps, and its states, at one draw of the parameters; seeded by ``random_state``."""
        check_is_fitted(self)
        require_whole("n_samples", n_samples)
        data, draws, seed = data_of(self.result_), draws_of(self.model_, self.result_), self._seed()
        chosen = np.random.default_rng(seed).integers(number_of(draws), size=1)
        one = take(data._replace(starts=None), np.arange(n_samples) % data.num_rows)
        drawn = drawn_rows(self.model_, {name: value[chosen] for name, value in draws.items()}, one, seed)
        return self._as_given(data, drawn["x"][0]), drawn["path"].reshape(-1)[:n_samples]

    def _cells(self, data: Data) -> Layout:
        """The columns of drawn steps, with the levels that the emission codes."""
        if self.model_.reading.layout is not None:
            return self.model_.reading.layout
        if self.emission != "categorical":
            return super()._cells(data)
        return Layout(data.columns, ("category",) * len(data.columns), levels_of(data))

    def _of_sequences(self, X: Any, lengths: Any) -> xr.Dataset:
        return self._predict(_in_sequences(self._new(X), lengths))

    def _by_step(self, X: Any, lengths: Any, name: str) -> np.ndarray:
        """A variable of the prediction at every existing step, sequence after sequence."""
        predicted = self._of_sequences(X, lengths)
        return np.asarray(predicted[name].values[predicted["assignment"].values >= 0])


def _in_sequences(data: Data, lengths: Any) -> Data:
    """The table as sequences of these lengths; raises `ZooError` unless they are whole, positive, and add up to the rows."""
    if lengths is None:
        return data
    array = np.asarray(lengths)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or (array < 1).any() or array.sum() != data.num_rows:
        raise ZooError(f"lengths must be whole numbers above 0 that add up to the {data.num_rows} rows of X, got {lengths!r}")
    return data._replace(starts=np.append(0, np.cumsum(array)))
