"""How much a draw counts for a row: new rows weight draws by p(x | θ_s), fitted rows weight all draws equally."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from naive_mixed import answers, survey
from scipy import stats
from scipy.special import softmax

from inference import impute, predict
from inference.predictions.imputation import _block
from inference.results.draws import chosen_draws, fitted_rows, log_weight, thinned
from inference.results.observed import arguments
from inference.results.table import observed_data
from inference.results.tree import dataset
from models import MODELS, Data, ZooError, load_data
from models.algebra import at_sample
from models.base import Model
from models.data import held_out_mask, split, take

DRAWS = 6
NUMBERS = np.random.default_rng(0).normal(size=(14, 3)) @ [[1.0, 0.6, 0.3], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
NUMBERS[3, 0] = NUMBERS[:, 0].mean() + 4 * NUMBERS[:, 0].std()  # a row four standard deviations out
HOLES = [(3, 1), (0, 2), (5, 0), (5, 2), (9, 1)]
ROWS = np.where([[(n, d) in HOLES for d in range(3)] for n in range(14)], np.nan, NUMBERS)
LABELS = ["a", "b"] * 7


def numbers(x: np.ndarray = ROWS, labels: Any = None) -> Data:
    data = Data("numbers", x, ("u", "v", "w"))
    return data if labels is None else load_data(data, labels=labels)


def answered() -> Data:
    x = answers(14)
    x[3, 0] += 4 * x[:, 0].std()
    x[[3, 3, 0, 5, 9], [1, 2, 3, 0, 4]] = np.nan
    return survey(x)


def sequences(x: np.ndarray = NUMBERS) -> Data:
    return Data("sequences", x[:12], ("u", "v", "w"), starts=np.arange(0, 13, 3))


CASES = {
    "gmm": (numbers(), {"num_components": 2}),
    "mixed_mixture": (answered(), {"num_components": 2}),
    "linear_discriminant": (numbers(labels=LABELS), {}),
    "naive_bayes": (numbers(labels=LABELS), {"emission": "gaussian"}),
    "factor_analysis": (numbers(), {"num_factors": 1}),
    "ppca": (numbers(), {"num_factors": 1}),
    "hmm": (sequences(), {"num_states": 2, "emission": "gaussian"}),
}
every_case = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("gmm", "naive_bayes") else pytest.mark.slow) for name in CASES]
)


class Case(NamedTuple):
    model: Model
    data: Data
    other: Data  # the same rows in another order: as a table it is new
    order: np.ndarray
    draws: dict[str, np.ndarray]  # (DRAWS, …)


def turned(data: Data) -> tuple[Data, np.ndarray]:
    """The rows, or sequences, from the last to the first."""
    if data.starts is None:
        order = np.arange(data.num_rows)[::-1]
        return take(data, order), order
    return take(data, np.arange(12).reshape(4, 3)[::-1].ravel()), np.arange(4)[::-1]


@cache
def case(name: str) -> Case:
    """Draws from the prior, which is as wide as the columns: densities of rows differ by several nats."""
    data, options = CASES[name]
    model = MODELS[name](data, **options)
    algebra = model.algebra
    assert algebra is not None
    keys = jax.random.split(jax.random.PRNGKey(1), DRAWS)
    hyper, prior = dict(model.hyper), dict(model.prior)
    draws = jax.jit(jax.vmap(lambda key: algebra.sites(hyper, at_sample(algebra, key, prior))))(keys)
    return Case(model, data, *turned(data), {site: np.asarray(value) for site, value in draws.items()})


def result(one: Case, draws: dict[str, np.ndarray], data: Data | None = None) -> xr.DataTree:
    """What `fit` would return of these draws on this table."""
    variables = {
        site: (("chain", "draw", *(f"{site}_{axis}" for axis in range(value.ndim - 1))), value[None])
        for site, value in draws.items()
    }
    observed = observed_data(one.data if data is None else data, one.model.reading.layout)
    return xr.DataTree.from_dict({"/posterior": xr.Dataset(variables), "/observed_data": observed})


@cache
def of_each_draw(name: str) -> list[xr.Dataset]:
    """What is said of the rows at every draw alone: by a result of this one again and again, which compiles nothing more."""
    one = case(name)
    alike = [{site: np.repeat(value[s : s + 1], DRAWS, axis=0) for site, value in one.draws.items()} for s in range(DRAWS)]
    return [predict(one.model, result(one, draws), one.data, num_draws=2) for draws in alike]


AVERAGES = ("probs", "scores", "reconstruction", "imputed_mean", "imputed_probs")
SPREADS = {"scores_sd": "scores", "imputed_sd": "imputed_mean"}


def naive(name: str, fitted: bool) -> dict[str, np.ndarray]:
    """The averages by their definition, Σ_s w_s f(θ_s) / Σ_s w_s; of a variance, that within and between the draws."""
    each = of_each_draw(name)
    density = np.stack([found["log_density"].values for found in each])  # (DRAWS, N)
    weight = np.full(density.shape, 1 / DRAWS) if fitted else softmax(density, axis=0)
    of_cells = None if "cell_row" not in each[0] else weight[:, each[0]["cell_row"].values]

    def average(values: Any, variable: str) -> np.ndarray:
        own = weight if variable.startswith(("probs", "scores", "reconstruction")) else of_cells
        assert own is not None
        return (own.reshape(*own.shape, *[1] * (values[0].ndim - 1)) * np.stack(values)).sum(0)

    wanted = {v: average([found[v].values for found in each], v) for v in AVERAGES if v in each[0]}
    for spread, mean in SPREADS.items():
        if spread in each[0]:
            second = average([found[spread].values ** 2 + found[mean].values ** 2 for found in each], mean)
            wanted[spread] = np.sqrt(np.maximum(second - wanted[mean] ** 2, 0))
    return wanted | {"log_density": np.logaddexp.reduce(density, axis=0) - np.log(DRAWS)}


@every_case
def test_averages_are_those_of_the_definition(name):
    """Probabilities, scores, cells and states, of fitted rows and of the same rows as new ones; densities are the same."""
    one = case(name)
    tree = result(one, one.draws)
    equal, by_density = naive(name, True), naive(name, False)
    assert max(np.nanmax(np.abs(equal[v] - by_density[v])) for v in equal if v != "log_density") > 0.05  # the rules differ
    found = predict(one.model, tree, one.data, num_draws=2)
    for variable, wanted in equal.items():
        np.testing.assert_allclose(found[variable], wanted, rtol=1e-9, atol=1e-9, err_msg=variable)
    found = predict(one.model, tree, one.other, num_draws=2)
    cells = np.zeros(0, int) if "cell_row" not in found else of_cells(name, found)
    for variable, wanted in by_density.items():
        places = cells if variable.startswith("imputed") else one.order
        np.testing.assert_allclose(found[variable], wanted[places], rtol=1e-9, atol=1e-9, err_msg=variable)


def of_cells(name: str, found: xr.Dataset) -> np.ndarray:
    """Where the cells of the turned table are in the table itself."""
    one, at_first = case(name), of_each_draw(name)[0]
    places = list(zip(at_first["cell_row"].values, at_first["cell_column"].values, strict=True))
    rows = one.order[found["cell_row"].values]
    return np.array([places.index(cell) for cell in zip(rows, found["cell_column"].values, strict=True)])


def test_rows_may_be_said_to_be_fitted_one_by_one():
    one = case("gmm")
    first = np.arange(14) < 7
    found = predict(one.model, result(one, one.draws), one.data, num_draws=2, fitted=first)
    for variable in ("probs", "imputed_mean"):
        pick = first if variable == "probs" else first[found["cell_row"].values]
        pick = pick.reshape(-1, *[1] * (found[variable].ndim - 1))
        wanted = np.where(pick, naive("gmm", True)[variable], naive("gmm", False)[variable])
        np.testing.assert_allclose(found[variable], wanted, rtol=1e-9)
    for wrong in ("yes", 1, np.ones(3, bool)):
        with pytest.raises(ZooError, match="fitted must be true or false, or 14 of these"):
            predict(one.model, result(one, one.draws), one.data, fitted=wrong)


def test_which_rows_are_fitted():
    """The whole table in its order, whatever its labels if they are not looked at; not a part, nor other labels or values."""
    for name in ("gmm", "linear_discriminant", "hmm"):
        one = case(name)
        tree, number = result(one, one.draws), len(one.order)
        assert fitted_rows(one.model, tree, one.data).all()
        assert fitted_rows(one.model, tree, one.data._replace(labels=None, label=None, levels=())).all()
        assert not fitted_rows(one.model, tree, one.other).any()
        assert not fitted_rows(one.model, one.draws, one.data).any()  # sites are of no table
        part = np.arange(one.data.num_rows) < one.data.num_rows - 3
        assert not fitted_rows(one.model, tree, take(one.data, part)).any()
        weight = np.repeat(np.arange(number) % 2, one.data.num_rows // number).astype(float)
        weighted = result(one, one.draws, one.data._replace(weight=weight))
        np.testing.assert_array_equal(fitted_rows(one.model, weighted, one.data), np.arange(number) % 2 == 1)
    one = case("linear_discriminant")
    tree = result(one, one.draws, one.data._replace(labels=None, label=None, levels=()))
    assert fitted_rows(one.model, tree, numbers()).all()
    assert not fitted_rows(one.model, tree, one.data).any()  # labels that the fit did not have are news
    assert not fitted_rows(one.model, result(one, one.draws), numbers(labels=LABELS[::-1])).any()


@pytest.mark.parametrize("data", [numbers(), sequences()])
def test_rows_that_a_run_holds_out_are_known(data):
    """The mask by which a run tells them from fitted ones is that of the split."""
    mask = held_out_mask(data, 0.3, 5)
    for part, rows in zip(split(data, 0.3, 5), (~mask, mask), strict=True):
        assert part is not None
        np.testing.assert_array_equal(part.x, data.x[rows])
    assert not held_out_mask(data, 0.0, 5).any()


def test_arrays_of_a_program_are_recognised():
    from numpyro import distributions as dist
    from numpyro import sample

    from inference import program_model

    def program(x):
        mean = sample("mean", dist.Normal(0.0, 1.0))
        sample("x", dist.Normal(mean, 1.0), obs=x)

    x = jnp.arange(4.0)
    model = program_model(program, x)
    posterior = xr.Dataset({"mean": (("chain", "draw"), np.zeros((1, 2)))})
    given = {"/observed_data": xr.Dataset(), "/constant_data": dataset(arguments(x), model)}
    tree = xr.DataTree.from_dict({"/posterior": posterior, **given})
    assert fitted_rows(model, tree, x).all()
    assert not fitted_rows(model, tree, x + 1).any()


# ---------------------------------------------------------------------------------------------------------------------
# Imputations, one by one


@cache
def revealed() -> tuple[Model, Data, dict[str, np.ndarray]]:
    """One component, whose second column is as good as certain: what is imputed there tells the draw, from 0 to 9."""
    x = np.array([[0.0, np.nan], [4.0, np.nan], [1.0, 5.0], [2.0, 6.0]])
    data = Data("few", x, ("seen", "hidden"))
    means = np.stack([np.linspace(-1, 4, 10), np.arange(10.0)], axis=1)[:, None, :]
    precision = np.broadcast_to([[[1.0, 1e12]]], means.shape).copy()
    sites = {"mixture_probs": np.ones((10, 1)), "mean": means, "precision": precision}
    return MODELS["gmm"](data, num_components=1, covariance="diag"), data, sites


@pytest.mark.parametrize("fitted", [True, False])
def test_imputations_take_draws_by_their_weights(fitted):
    """As often as their weight says, rounded up or down; fitted rows have one draw an imputation, and so are one table."""
    model, data, sites = revealed()
    one = Case(model, data, data, np.arange(4), sites)
    found = impute(model, result(one, sites), data, num_draws=400, fitted=fitted)
    drawn = found["imputed"].values.round().astype(int)  # (400, 2)
    counts = np.stack([np.bincount(column, minlength=10) for column in drawn.T], axis=1)
    share = stats.norm(sites["mean"][:, 0, :1], 1).pdf(data.x[:2, 0])
    share = np.full_like(share, 0.1) if fitted else share / share.sum(0)
    assert (np.abs(counts - 400 * share) < 1 + 1e-9).all()
    assert fitted == (drawn[:, 0] == drawn[:, 1]).all()


def test_draws_are_chosen_by_their_weights():
    """Counts are those of the weights, rounded up or down, whatever the offset; on the average over offsets they are exact."""
    logs = np.log(np.random.default_rng(2).dirichlet(np.full(7, 0.5), 3)).T
    offsets = (np.arange(200) + 0.5) / 200
    places = jax.jit(jax.vmap(chosen_draws, in_axes=(None, None, 0)), static_argnums=1)(logs, 20, offsets)
    counts = (np.asarray(places)[..., None] == np.arange(7)).sum(1)  # (offsets, rows, draws)
    wanted = 20 * np.exp(logs).T
    assert (np.abs(counts - wanted) < 1 + 1e-9).all()
    np.testing.assert_allclose(counts.mean(0), wanted, atol=0.011)  # two edges a draw, each within half an offset


def test_a_draw_that_makes_a_row_impossible_does_not_count():
    logs = np.array([[-1.0, -np.inf], [-2.0, -3.0]])
    np.testing.assert_array_equal(log_weight(np.array([True, True]), logs), [[0.0, -np.inf], [0.0, 0.0]])
    np.testing.assert_array_equal(log_weight(np.array([False, False]), logs), logs)


def test_holes_elsewhere_compile_nothing():
    """Imputation is compiled for a number of rows with holes, rounded up to a power of 2, not for where the holes are."""
    one = case("gmm")
    tree = result(one, one.draws)
    predict(one.model, tree, one.data, num_draws=2)
    size = _block._cache_size()
    for seed in range(3):
        mask = np.random.default_rng(seed).random(NUMBERS.shape) < 0.15
        mask[0, 0] = True
        impute(one.model, tree, numbers(np.where(mask, np.nan, NUMBERS)), num_draws=2)
    assert _block._cache_size() == size


def test_thinned_draws_are_evenly_spread():
    """From the first to the last, whatever is left out between them."""
    draws = {"theta": np.arange(1001.0), "other": np.arange(2002.0).reshape(1001, 2)}
    found = thinned(draws, 11)
    np.testing.assert_array_equal(found["theta"], np.arange(0, 1001, 100))
    np.testing.assert_array_equal(found["other"][:, 0], 2 * found["theta"])
    np.testing.assert_array_equal(thinned(draws, 5000)["theta"], draws["theta"])
