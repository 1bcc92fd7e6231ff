"""State-space models against the dynamic factor model of statsmodels, at the same parameters.

- *figures*: the largest difference of log-likelihood, smoothed factors, their variances, and forecasts, beside their size: 150
  steps of six columns with missing cells and a gap, two factors.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import Target, print_table

FACTORS, AHEAD = 2, 5
AGREEMENT = 1e-8  # beside 1 plus the size


def gauges() -> Any:
    """The default data of the model, with missing cells and a gap of five steps."""
    from models import load_data

    data = load_data("gauges")
    x = data.x.copy()
    x[20:25] = np.nan
    x[40, 2] = x[99, 0] = np.nan
    return data._replace(x=x)


def parameters(data: Any) -> dict[str, np.ndarray]:
    """Made-up parameters of any rotation."""
    rng = np.random.default_rng(1)
    return {
        "loading": rng.normal(size=(len(data.columns), FACTORS)),
        "mean": np.nanmean(data.x, axis=0),
        "precision": rng.gamma(4, 0.3, len(data.columns)),
        "transition": np.array([[0.8, -0.3], [0.2, 0.6]]),
    }


def by_statsmodels(data: Any, sites: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """It has no means of columns, and is given the law of the first factors."""
    from statsmodels.tsa.statespace.dynamic_factor import DynamicFactor

    model = DynamicFactor(data.x - sites["mean"], k_factors=FACTORS, factor_order=1)
    model.ssm.initialize_known(np.zeros(FACTORS), np.eye(FACTORS))
    found = model.smooth(np.concatenate([sites["loading"].ravel(), 1 / sites["precision"], sites["transition"].ravel()]))
    ahead = found.get_forecast(AHEAD)
    return {
        "log-likelihood": np.asarray(found.llf),
        "smoothed factors": found.smoothed_state.T,
        "their variances": np.einsum("llt->tl", found.smoothed_state_cov),
        "forecasts": np.asarray(ahead.predicted_mean) + sites["mean"],
        "their standard deviations": np.asarray(ahead.se_mean),
    }


def by_the_zoo(data: Any, sites: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same from `inference`."""
    from inference import forecast, log_likelihood, predict
    from models import MODELS

    model = MODELS["state_space"](data, num_factors=FACTORS)
    found, ahead = predict(model, sites, data, num_draws=0), forecast(model, sites, data, num_steps=AHEAD)
    return {
        "log-likelihood": log_likelihood(model, sites, data)[0],
        "smoothed factors": found["factors"].values[0],
        "their variances": found["factors_sd"].values[0] ** 2,
        "forecasts": ahead["forecast"].values[0],
        "their standard deviations": ahead["forecast_sd"].values[0],
    }


def figures() -> list[Target]:
    """Print the differences."""
    data = gauges()
    ours, theirs = (function(data, parameters(data)) for function in (by_the_zoo, by_statsmodels))
    apart = {name: float((np.abs(ours[name] - value) / (1 + np.abs(value))).max()) for name, value in theirs.items()}
    rows = [[name, f"{np.ravel(theirs[name])[0]:.10g}", f"{value:.0e}"] for name, value in apart.items()]
    print_table("state_space: 150 × 6, 2 factors", ["", "first number", "difference"], rows)
    return [Target(f"{name}, difference", value, AGREEMENT, at_least=False, unit="") for name, value in apart.items()]


PARTS: Mapping[str, Callable[[], list[Target]]] = {"figures": figures}
