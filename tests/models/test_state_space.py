"""State-space models: identities against one dense Gaussian of all cells of a sequence, laws of draws, forecasts, rotations."""

from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from jax.flatten_util import ravel_pytree
from naive import near
from numpyro.infer.util import log_density
from scipy import stats
from two_stage import assert_standard_normal, of_means

from inference import fit, forecast, impute, log_likelihood, predict
from inference.identification.invariants import declared, invariant, symmetry_of
from inference.methods.gaussians_at_modes import orbits
from models import MODELS, Data, ZooError, load_data
from models.algebra import log_prior
from models.families.coefficients import NormalStats, normal

LENGTHS, COLUMNS, FACTORS = (6, 3, 5), 3, 2
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
X = np.random.default_rng(0).normal(size=(STARTS[-1], COLUMNS)) + np.array([3.0, -1.0, 0.0])
X[[1, 7]] = np.nan  # whole steps
X[3, 0] = X[12, 2] = X[13, 1] = np.nan
WEIGHT = np.repeat([1.0, 2.0, 0.5], LENGTHS)
DATA = Data("steps", X, ("a", "b", "c"), starts=STARTS, weight=WEIGHT)
SAME = {"rtol": 1e-9, "atol": 1e-9}  # numbers of size 1, of some fifty operations each


def sites_of(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "loading": rng.normal(size=(COLUMNS, FACTORS)),
        "mean": rng.normal(size=COLUMNS) + np.array([3.0, -1.0, 0.0]),
        "precision": rng.gamma(3, 0.5, COLUMNS),
        "transition": 0.5 * rng.normal(size=(FACTORS, FACTORS)),
    }


class Dense(NamedTuple):  # factors and cells of one sequence as one Normal vector
    mean: np.ndarray  # (T L + T D,)
    covariance: np.ndarray


def dense(sites: dict[str, np.ndarray], length: int) -> Dense:
    """z = B ε with the powers of the transition in B, and x = mean + loading z + noise: no formula goes from step to step."""
    powers = [np.linalg.matrix_power(sites["transition"], lag) for lag in range(length)]
    blank = np.zeros((FACTORS, FACTORS))
    moves = np.block([[powers[s - t] if s >= t else blank for t in range(length)] for s in range(length)])
    loading = np.kron(np.eye(length), sites["loading"])
    both = np.concatenate([moves, loading @ moves])
    noise = np.concatenate([np.zeros(length * FACTORS), np.tile(1 / sites["precision"], length)])
    mean = np.concatenate([np.zeros(length * FACTORS), np.tile(sites["mean"], length)])
    return Dense(mean, both @ both.T + np.diag(noise))


def conditional(whole: Dense, seen: np.ndarray, value: np.ndarray) -> Dense:
    """Of all entries given those that are ``seen`` (mask)."""
    slope = np.linalg.solve(whole.covariance[np.ix_(seen, seen)], whole.covariance[seen]).T
    centre = whole.mean + slope @ (value - whole.mean[seen])
    return Dense(centre, whole.covariance - slope @ whole.covariance[seen])


def parts_of(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(which entries of the dense vector are observed, their values) of cells (T, D)."""
    return np.concatenate([np.zeros(len(x) * FACTORS, bool), ~np.isnan(x).ravel()]), x[~np.isnan(x)]


def sequences() -> list[np.ndarray]:
    return [X[first:last] for first, last in pairwise(STARTS)]


class Found(NamedTuple):
    """All that is compared, of one θ and in one program."""

    log_partition: Any  # (N,)
    moments: Any
    drawn: Any
    energy: Any  # (N,), of the drawn paths
    log_prior: Any
    marginal: Any  # log p(x, θ) of the program


@partial(jax.jit, static_argnums=(0, 1))
def evaluated(algebra: Any, spec: Any, hyper: Any, prior: Any, rows: Any, sites: Any) -> Found:
    T = algebra.natural(hyper, sites)
    local = algebra.local_natural_parameters(T)(algebra.features(hyper, rows))
    latent = algebra.latent
    drawn = latent.sample(jax.random.PRNGKey(3), local)
    marginal = log_density(spec, (hyper, rows), {"marginal": True}, sites)[0]
    mean = latent.mean(jax.random.PRNGKey(0), local)
    return Found(latent.log_partition(local), mean, drawn, latent.energy(drawn, local), log_prior(algebra, prior, T), marginal)


@cache
def found() -> Found:
    model = MODELS["state_space"](DATA, num_factors=FACTORS)
    rows = jax.device_put(model.rows(DATA))
    return jax.tree.map(
        np.asarray, evaluated(model.algebra, model.spec, dict(model.hyper), dict(model.prior), rows, sites_of())
    )


def test_the_log_likelihood_is_that_of_one_normal_vector():
    """Missing cells and steps are left out of the vector; the program weights sequences."""
    wanted = []
    for x in sequences():
        seen, value = parts_of(x)
        whole = dense(sites_of(), len(x))
        wanted.append(stats.multivariate_normal(whole.mean[seen], whole.covariance[np.ix_(seen, seen)]).logpdf(value))
    assert near(found().log_partition, np.array(wanted), **SAME)
    assert near(found().marginal, found().log_prior + np.array([1.0, 2.0, 0.5]) @ wanted, **SAME)


def test_the_smoother_is_the_conditional_of_one_normal_vector():
    """Means, covariances, covariances of successive steps."""
    moments = found().moments
    for row, x in enumerate(sequences()):
        given = conditional(dense(sites_of(), len(x)), *parts_of(x))
        own = slice(0, len(x) * FACTORS)
        covariance = given.covariance[own, own].reshape(len(x), FACTORS, len(x), FACTORS)
        step = np.arange(len(x))
        assert near(moments.mean[row, : len(x)].ravel(), given.mean[own], **SAME)
        assert near(moments.covariance[row, : len(x)], covariance[step, :, step], **SAME)
        assert near(moments.lagged[row, : len(x) - 1], covariance[step[1:], :, step[:-1]], **SAME)


def test_the_energy_is_the_density_of_factors_and_cells():
    """Log p(x, z) = log p(x) + log p(z | x), of a drawn path."""
    for row, x in enumerate(sequences()):
        given = conditional(dense(sites_of(), len(x)), *parts_of(x))
        own = slice(0, len(x) * FACTORS)
        path = found().drawn.mean[row, : len(x)].ravel()
        density = stats.multivariate_normal(given.mean[own], given.covariance[own, own]).logpdf(path)
        assert near(found().energy[row], found().log_partition[row] + density, **SAME)


def test_the_program_with_factors_has_this_density():
    """Of a single sequence, which has no steps after its end."""
    data = DATA._replace(x=X[:6], starts=None, weight=None)
    model, sites = MODELS["state_space"](data, num_factors=FACTORS), sites_of()
    rows, hyper = model.rows(data), dict(model.hyper)
    path = np.random.default_rng(2).normal(size=(1, 6, FACTORS))
    before = np.concatenate([np.zeros((1, FACTORS)), path[0, :-1] @ sites["transition"].T])
    middle = sites["mean"] + path[0] @ sites["loading"].T
    wanted = stats.norm.logpdf(path[0], before).sum()
    wanted += np.nansum(stats.norm.logpdf(X[:6], middle, sites["precision"] ** -0.5))

    @jax.jit
    def both(sites: Any, path: Any) -> Any:
        joint = log_density(model.spec, (hyper, rows), {"marginal": False}, {**sites, "path": path})[0]
        return joint - log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0]

    assert near(both(sites, path) + log_likelihood(model, sites, data)[0], wanted, **SAME)


@pytest.mark.slow
def test_draws_of_paths_have_the_law_of_the_smoother():
    """Means and products of all entries of a drawn path, within and across steps."""
    model = MODELS["state_space"](DATA, num_factors=FACTORS)
    hyper, rows = dict(model.hyper), jax.device_put(model.rows(DATA))
    given = conditional(dense(sites_of(), 6), *parts_of(sequences()[0]))
    size = 6 * FACTORS
    algebra = model.algebra

    @partial(jax.jit, static_argnums=1)
    def paths(key: Any, number: int) -> Any:
        local = algebra.local_natural_parameters(algebra.natural(hyper, sites_of()))(algebra.features(hyper, rows))
        return jax.vmap(lambda key: algebra.latent.sample(key, local).mean[0])(jax.random.split(key, number))

    def deviations(seed: int, times: int) -> np.ndarray:
        away = np.asarray(paths(jax.random.PRNGKey(seed), 4000 * times)).reshape(-1, size) - given.mean[:size]
        products = away[:, :, None] * away[:, None, :]
        upper = np.triu_indices(size)
        return np.concatenate(
            [of_means(away, np.zeros(size)), of_means(products[:, *upper], given.covariance[:size, :size][upper])]
        )

    assert_standard_normal(deviations)


NU = NormalStats(np.random.default_rng(3).normal(size=(3, 2)), np.array([[2.0, 0.5], [0.5, 1.0]]))


def test_a_matrix_of_coefficients_is_rows_that_share_a_precision():
    alone = [normal.log_partition(NU._replace(linear=row)) for row in NU.linear]
    assert near(normal.log_partition(NU), sum(alone), **SAME)
    for verb in (normal.mean, normal.mode):
        whole, each = verb(NU), [verb(NU._replace(linear=row)) for row in NU.linear]
        assert near(whole.linear, np.stack([one.linear for one in each]), **SAME)
        assert near(whole.quadratic, sum(one.quadratic for one in each), **SAME)


@pytest.mark.slow
def test_draws_of_a_matrix_of_coefficients_have_its_law():
    covariance = np.linalg.inv(NU.quadratic)

    @partial(jax.jit, static_argnums=1)
    def matrices(key: Any, number: int) -> Any:
        return jax.vmap(lambda key: normal.sample(key, jax.tree.map(jnp.asarray, NU)).linear)(jax.random.split(key, number))

    def deviations(seed: int, times: int) -> np.ndarray:
        away = (np.asarray(matrices(jax.random.PRNGKey(seed), 4000 * times)) - NU.linear @ covariance).reshape(-1, 6)
        products = (away[:, :, None] * away[:, None, :])[:, *np.triu_indices(6)]
        wanted = np.kron(np.eye(3), covariance)[np.triu_indices(6)]
        return np.concatenate([of_means(away, np.zeros(6)), of_means(products, wanted)])

    assert_standard_normal(deviations)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["default", "flat"])
def test_em_climbs_to_a_stationary_point(prior):
    """No iteration loses more than rounding, and the gradient of the program is small beside its curvature at the end."""
    data = load_data("gauges", num_rows=40)
    model = MODELS["state_space"](data, num_factors=1, prior=prior)
    tree = fit(model, data, "em", num_starts=1, max_iter=2000, tol=1e-12)
    trace = tree["optimization"]["objective"].values[0]
    trace = trace[~np.isnan(trace)]
    assert (np.diff(trace) > -1e-9 * np.abs(trace[:-1])).all()
    sites = {name: jnp.asarray(value.values) for name, value in tree["point_estimate"].data_vars.items()}
    rows, hyper = model.rows(data), dict(model.hyper)

    def density(sites: Any) -> Any:
        return log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0]

    slope = jax.jit(jax.grad(density))(sites)
    assert max(float(jnp.abs(leaf).max()) for leaf in slope.values()) < 1e-2  # nats per unit, of parameters known to 0.1


def test_steps_without_any_value_at_the_end_change_nothing():
    model, sites = MODELS["state_space"](DATA, num_factors=FACTORS), sites_of()
    longer = DATA._replace(x=np.insert(X, STARTS[1:], np.nan, axis=0), starts=STARTS + np.arange(4), weight=None)
    assert near(log_likelihood(model, sites, longer), log_likelihood(model, sites, DATA), **SAME)


class Smoothed(NamedTuple):  # of one sequence, by step
    factors: np.ndarray  # (T, L)
    factors_sd: np.ndarray
    cells: np.ndarray  # (T, D)
    cells_sd: np.ndarray


def smoothed(x: np.ndarray, more: int = 0) -> Smoothed:
    """Of all steps of a sequence, and of ``more`` steps after its end."""
    longer = np.concatenate([x, np.full((more, COLUMNS), np.nan)])
    given = conditional(dense(sites_of(), len(longer)), *parts_of(longer))
    sd = np.sqrt(np.maximum(np.diag(given.covariance), 0))  # 0 for an observed cell
    edge = len(longer) * FACTORS
    of_factors = (one[:edge].reshape(-1, FACTORS) for one in (given.mean, sd))
    return Smoothed(*of_factors, *(one[edge:].reshape(-1, COLUMNS) for one in (given.mean, sd)))


def test_forecasts_are_conditionals_of_one_normal_vector():
    ahead = forecast(MODELS["state_space"](DATA, num_factors=FACTORS), sites_of(), DATA, num_steps=2)
    for row, x in enumerate(sequences()):
        wanted = smoothed(x, 2)
        assert near(ahead["forecast"].values[row], wanted.cells[len(x) :], **SAME)
        assert near(ahead["forecast_sd"].values[row], wanted.cells_sd[len(x) :], **SAME)
        assert near(ahead["factors"].values[row], wanted.factors[len(x) :], **SAME)
        assert near(ahead["factors_sd"].values[row], wanted.factors_sd[len(x) :], **SAME)


def test_predictions_are_conditionals_of_one_normal_vector():
    found = predict(MODELS["state_space"](DATA, num_factors=FACTORS), sites_of(), DATA, num_draws=0)
    for row, x in enumerate(sequences()):
        assert near(found["factors"].values[row, : len(x)], smoothed(x).factors, **SAME)
        assert near(found["factors_sd"].values[row, : len(x)], smoothed(x).factors_sd, **SAME)
        assert np.isnan(found["factors"].values[row, len(x) :]).all()


def test_missing_cells_are_conditionals_of_one_normal_vector():
    found = impute(MODELS["state_space"](DATA, num_factors=FACTORS), sites_of(), DATA, num_draws=2)
    mean, sd = (np.concatenate([getattr(smoothed(x), name) for x in sequences()]) for name in ("cells", "cells_sd"))
    column = [DATA.columns.index(str(name)) for name in found["cell_column"].values]
    assert found.sizes["cell"] == np.isnan(X).sum()
    assert np.isnan(X[found["cell_row"].values, column]).all()
    assert near(found["imputed_mean"], mean[found["cell_row"].values, column], **SAME)
    assert near(found["imputed_sd"], sd[found["cell_row"].values, column], **SAME)


def test_rotations_of_loadings_and_transition_change_nothing():
    """All rotations and reflections: the density, the functionals, and what chains are compared by."""
    model, sites = MODELS["state_space"](DATA, num_factors=FACTORS), sites_of()
    rng = np.random.default_rng(4)
    moves = model.symmetry.random(rng, 3, FACTORS)
    repeated = {name: np.repeat(value[None], 3, 0) for name, value in sites.items()}
    moved = model.symmetry.moved(repeated, model.naming.dims, moves)
    for draw in range(3):
        turned = {name: value[draw] for name, value in moved.items()}
        assert near(turned["transition"], moves[draw].T @ sites["transition"] @ moves[draw], **SAME)
        assert near(log_likelihood(model, turned, DATA), log_likelihood(model, sites, DATA), **SAME)
        functionals = (model.summaries.functionals(model.hyper, one, None) for one in (turned, sites))
        assert all(near(*pair, **SAME) for pair in zip(*(one.values() for one in functionals), strict=True))
    summaries = invariant("transition", moved["transition"], model.naming.dims["transition"], model.symmetry, [["1", "2"]] * 2)
    assert near(summaries.values, np.repeat(summaries.values[:1], 3, 0), **SAME)


def test_the_density_is_flat_along_the_orbit_of_rotations():
    """The direction along which `laplace` leaves the rotation out turns loadings and transition together."""
    model, sites = MODELS["state_space"](DATA, num_factors=FACTORS), jax.tree.map(jnp.asarray, sites_of())
    rows, hyper = jax.device_put(model.rows(DATA)), dict(model.hyper)
    flat, unravel = ravel_pytree(sites)
    orbit = orbits(model, unravel, flat[None])[0, :, 0]
    loadings_alone = ravel_pytree({**unravel(jnp.asarray(orbit)), "transition": jnp.zeros((FACTORS, FACTORS))})[0]

    def density(flat: Any) -> Any:
        return log_density(model.spec, (hyper, rows), {"marginal": True}, unravel(flat))[0]

    along = jax.jit(jax.vmap(lambda direction: jax.jvp(density, (flat,), (direction,))[1]))
    slopes = np.abs(along(np.stack([orbit, loadings_alone])))
    assert slopes[0] < 1e-9 * slopes[1]  # a slope of 0 but for rounding, in units of one that is not


def test_a_result_remembers_what_turns_with_the_factors():
    symmetry = MODELS["state_space"](DATA, num_factors=FACTORS).symmetry
    tree = xr.DataTree()
    tree.attrs["symmetry"] = declared(symmetry)
    assert symmetry_of(tree) == symmetry


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda data: data, {"num_factors": 4}, "3 columns are driven by at most 3 factors; give num_factors=3"),
        (lambda data: data, {"num_factors": 0}, "num_factors must be a whole number above 0"),
        (lambda data: data, {"prior": {"transition": {"sd": 1.0}}}, "the only name in this block is strength"),
        (lambda data: data, {"prior": {"path": {}}}, "the blocks are loading, transition"),
        (lambda data: data, {"prior": {"transition": {"strength": -1.0}}}, "transition_strength must be above 0"),
        (lambda data: data._replace(weight=np.arange(14.0)), {}, "another weight than the first step of its sequence"),
        (lambda data: data._replace(x=np.where(np.arange(3) == 1, 2.0, data.x)), {}, "column 'b' has the same value"),
    ],
)
def test_what_cannot_be_is_refused_in_words(change, options, message):
    with pytest.raises(ZooError, match=message):
        MODELS["state_space"](change(DATA), **options)


def test_only_models_of_factors_in_time_forecast():
    model = MODELS["factor_analysis"](load_data("wine"), num_factors=2)
    with pytest.raises(ZooError, match="forecasts nothing"):
        forecast(model, {}, "wine")
    model = MODELS["state_space"](DATA, num_factors=FACTORS)
    with pytest.raises(ZooError, match="num_steps must be a whole number above 0"):
        forecast(model, sites_of(), DATA, num_steps=0)
