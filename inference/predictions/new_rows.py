"""Predictions for rows with local parameters: these parameters, log densities of the rows, and perplexity."""

from typing import Any

import numpy as np
import xarray as xr

from inference.engine.driver import num_cores
from inference.fitting.prepare import require_model, x64
from inference.methods.collapsed_gibbs import with_hyper
from inference.methods.options import check_seed
from inference.predictions.local_posterior import completed_draws, known_rows, summaries_of_local
from inference.predictions.views import Question
from inference.results.draws import draws_of, forget_labels, number_of, thinned
from models.abilities import HeldOut
from models.base import Model, Sites, ZooError
from models.data.arguments import require_whole

HOW = ("left_to_right", "completion")
DENSITY_DRAWS, PARTICLES = 20, 5  # draws of the shared parameters, and particles per draw: they decide the cost of log p(x)


def as_learnt(model: Model, source: xr.DataTree | Sites) -> Model:
    """The model under the hyperparameters that the fit learnt, if it did; else the model itself."""
    if not isinstance(source, xr.DataTree) or not source.attrs.get("learnt", 0):
        return model
    stored = {str(name): value.values for name, value in source["constant_data"].data_vars.items()}
    return with_hyper(model, {name: stored[name] for name in model.hyper}, False)


def predict_local(question: Question) -> xr.Dataset:
    """Posterior of the parameters of every row, and its log density (`inference.predictions.predict.predict`)."""
    source, seed, num_draws = question.source, question.seed, question.num_draws
    require_whole("num_draws", num_draws)
    check_seed(seed)
    model = as_learnt(question.model, source)
    data = forget_labels(model, question.data)
    with x64(64):
        rows = model.rows(data)
        draws = completed_draws(model, source, rows, num_draws, seed, known_rows(model, source, data, question.fitted))
        result = summaries_of_local(model, draws)
        if model.abilities.held_out is None:
            return result
        density = _log_probability(model, model.abilities.held_out, source, rows, seed) + model.abilities.held_out.orders(rows)
        return result.assign(log_density=("row", density))


def _log_probability(
    model: Model,
    held_out: HeldOut,
    source: Any,
    rows: Any,
    seed: int,
    num_draws: int = DENSITY_DRAWS,
    particles: int = PARTICLES,
) -> np.ndarray:
    """(N,): log p(x), from ``num_draws`` × ``particles`` particles in all, as many at a point as for draws."""
    some = thinned(draws_of(model, source), num_draws)
    per_draw = -(-num_draws * particles // number_of(some))
    return held_out.log_probability(model.hyper, some, rows, per_draw, seed, num_cores())


def perplexity(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    how: str = "left_to_right",
    num_draws: int | None = None,
    particles: int = PARTICLES,
    seed: int = 0,
) -> xr.Dataset:
    """exp(−Σ log p / Σ units) of rows that the fit has not seen, of whose units it is per unit: tokens of documents.

    "left_to_right" takes log p(x_d | β) with the proportions summed out (Wallach et al. 2009, `models.topics.left_to_right`),
    averaged over ``num_draws`` draws (20) of the shared parameters; an estimate, somewhat too high, whose ``particles`` a draw
    make it better (a point has as many as all draws together). "completion" takes the second half of the units of every row,
    shared out at random, given its first half: log Σ_k θ_dk β_kw token by token, θ_d and β averaged over ``num_draws`` draws
    (200) of the posterior given the first half. The two are not comparable with each other. Orders of tokens are not counted:
    no multinomial coefficient is in it. Units that the model does not know, as new words, are left out, and counted in
    ``attrs["left_out"]``.

    Returns ``perplexity``; ``log_probability`` and ``units`` by ``row``; and ``perplexity_se``, by the delta method with
    independent rows; ∞ and NaN where a row has density 0. Rows without units have weight 0. Raises `ZooError` for models
    without such rows.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> bool(perplexity(model, fit(model, data, "em"), [["sun", "sand"]])["perplexity"] > 1)
    True
    """
    require_model(model)
    if model.abilities.held_out is None:
        raise ZooError(f"{model.name}: perplexity is of rows made of units, such as tokens of documents under a topic model")
    if how not in HOW:
        raise ZooError(f"how={how!r} is not one of {', '.join(HOW)}")
    for name, value in {"num_draws": num_draws, "particles": particles}.items():
        if value is not None:
            require_whole(name, value)
    check_seed(seed)
    model = as_learnt(model, source)
    held_out = model.abilities.held_out
    assert held_out is not None
    with x64(64):
        table = forget_labels(model, data)
        rows = model.rows(table)
        left_out = held_out.total(table) - float(held_out.number(rows).sum())
        if how == "completion":
            given, rows = held_out.halves(seed, rows)
            result = held_out.completion(completed_draws(model, source, given, num_draws or 200, seed), rows)
        else:
            result = _log_probability(model, held_out, source, rows, seed, num_draws or DENSITY_DRAWS, particles)
    units = held_out.number(rows)
    if not units.sum():
        raise ZooError(f"there is no {held_out.unit} to foretell")
    per_unit, error = _per_unit(result, units)
    return xr.Dataset(
        {
            "perplexity": per_unit,
            "perplexity_se": error,
            "log_probability": ("row", result),
            "units": ("row", units),
        },
        coords={"row": np.arange(len(units))},
        attrs={"how": how, "unit": held_out.unit, "left_out": left_out},
    )


def _per_unit(log_probability: np.ndarray, units: np.ndarray) -> tuple[float, float]:
    """Perplexity, and its standard error; (∞, NaN) where a row has density 0."""
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞, and what is beyond all numbers
        rate = log_probability.sum() / units.sum()
        error = np.sqrt(((log_probability - rate * units) ** 2).sum()) / units.sum() if len(units) > 1 else np.nan
        return float(np.exp(-rate)), float(np.exp(-rate) * error)
