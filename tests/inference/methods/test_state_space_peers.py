"""statsmodels on the same parameters: log-likelihoods, smoothed factors, and forecasts of a dynamic factor model."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from naive import near

from inference import forecast, log_likelihood, predict
from models import MODELS, Data, load_data

dynamic_factor = pytest.importorskip("statsmodels.tsa.statespace.dynamic_factor")  # of the extra "bench"

FACTORS = 2
SAME = {"rtol": 1e-8, "atol": 1e-8}  # both sides round 150 steps of a few numbers of size 1 to 20


@cache
def gauges() -> Data:
    """With missing cells, and a gap of five steps."""
    data = load_data("gauges")
    x = data.x.copy()
    x[20:25] = np.nan
    x[40, 2] = x[99, 0] = np.nan
    return data._replace(x=x)


def sites() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    columns = len(gauges().columns)
    return {
        "loading": rng.normal(size=(columns, FACTORS)),
        "mean": np.nanmean(gauges().x, axis=0),
        "precision": rng.gamma(4, 0.3, columns),
        "transition": np.array([[0.8, -0.3], [0.2, 0.6]]),
    }


@cache
def peer() -> Any:
    """The smoother of statsmodels, which has no means of columns, and starts from the law that is given."""
    model = dynamic_factor.DynamicFactor(gauges().x - sites()["mean"], k_factors=FACTORS, factor_order=1)
    model.ssm.initialize_known(np.zeros(FACTORS), np.eye(FACTORS))
    order = (sites()["loading"], 1 / sites()["precision"], sites()["transition"])
    return model.smooth(np.concatenate([part.ravel() for part in order]))


@cache
def model() -> Any:
    return MODELS["state_space"](gauges(), num_factors=FACTORS)


def test_the_log_likelihood_is_that_of_statsmodels():
    assert near(log_likelihood(model(), sites(), gauges())[0], peer().llf, **SAME)


def test_smoothed_factors_are_those_of_statsmodels():
    found = predict(model(), sites(), gauges(), num_draws=0)
    variance = np.einsum("llt->tl", peer().smoothed_state_cov)
    assert near(found["factors"].values[0], peer().smoothed_state.T, **SAME)
    assert near(found["factors_sd"].values[0] ** 2, variance, **SAME)


def test_forecasts_are_those_of_statsmodels():
    ahead = peer().get_forecast(5)
    found = forecast(model(), sites(), gauges(), num_steps=5)
    assert near(found["forecast"].values[0], np.asarray(ahead.predicted_mean) + sites()["mean"], **SAME)
    assert near(found["forecast_sd"].values[0], ahead.se_mean, **SAME)
