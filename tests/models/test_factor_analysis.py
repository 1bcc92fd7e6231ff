"""Factor analysis and PPCA: identities against dense Gaussians, laws of document 002, closed forms and scikit-learn."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import xarray as xr
from factor_tables import COLUMNS, FACTORS, HOLED, ROWS, WEIGHT, WHOLE, covariance_of, dense, every_model, table
from numpyro.infer.util import log_density
from two_stage import assert_standard_normal

from inference import compare, fit, impute, log_likelihood, predict
from inference.engine.sweep import local_step
from models import MODELS, ZooError
from models.algebra import log_prior
from models.factors.checks import ledermann
from models.factors.sufficient_rows import sufficient_rows

HOLED[3] = np.nan
CELLS = [(name, prior, holes) for name in ("factor_analysis", "ppca") for prior in ("default", "flat") for holes in (0, 1)]
every_cell = pytest.mark.parametrize(("name", "prior", "holes"), CELLS)


def sites_of(name, seed=1):
    rng = np.random.default_rng(seed)
    size = () if name == "ppca" else (COLUMNS,)
    return {
        "loading": rng.normal(size=(COLUMNS, FACTORS)),
        "mean": rng.normal(size=COLUMNS) + 5,
        "precision": rng.gamma(3, 0.5, size),
    }


class Found(NamedTuple):
    """All that is compared, of one θ and in one program."""

    T: Any
    step: Any  # the mean step
    sites: Any  # and back
    log_prior: Any
    marginal: Any  # log p(x, θ) of the program
    energy: Any  # (N,), of drawn scores
    joint: Any  # log p(x, z, θ) of the program, at these scores


@partial(jax.jit, static_argnums=(0, 1))
def evaluated(algebra, spec, hyper, prior, rows, sites):
    with jax.numpy_rank_promotion("raise"):
        T = algebra.natural(hyper, sites)
        step = local_step(algebra, "mean", hyper, jax.random.PRNGKey(0), T, rows)
    local = algebra.local_natural_parameters(T)(algebra.features(hyper, rows))
    z = algebra.latent.sample(jax.random.PRNGKey(3), local)
    marginal, _ = log_density(spec, (hyper, rows), {"marginal": True}, sites)
    joint, _ = log_density(spec, (hyper, rows), {"marginal": False}, sites | {"score": z.mean})
    prior_value = log_prior(algebra, prior, T)
    return Found(T, step, algebra.sites(hyper, T), prior_value, marginal, algebra.latent.energy(z, local), joint)


@cache
def parts(name, prior, holes):
    """(model, hyper, rows, what is found at one θ), in double precision."""
    data = table(HOLED if holes else WHOLE, weight=WEIGHT)
    model = MODELS[name](data, num_factors=FACTORS, prior=prior)
    hyper, rows = dict(model.hyper), jax.tree.map(np.asarray, model.rows(data))
    found = evaluated(model.algebra, model.spec, hyper, dict(model.prior), rows, sites_of(name))
    return model, hyper, rows, jax.tree.map(np.asarray, found)


# ---------------------------------------------------------------------------------------------------------------------
# Identities


@every_cell
def test_program_algebra_and_dense_gaussians_agree(name, prior, holes):
    model, _, _, found = parts(name, prior, holes)
    wanted = dense(sites_of(name), x := HOLED if holes else WHOLE)
    np.testing.assert_allclose(log_likelihood(model, sites_of(name), table(x)), wanted, rtol=1e-11, atol=1e-11)
    assert float(found.step.log_partition) == pytest.approx(WEIGHT @ wanted, rel=1e-12)
    assert float(found.step.log_partition + found.log_prior) == pytest.approx(float(found.marginal), rel=1e-12)


@every_cell
def test_scores_and_sites_there_and_back(name, prior, holes):
    """Sites to T and back; at drawn scores the program's joint density is the algebra's energy."""
    found = parts(name, prior, holes)[-1]
    for site, wanted in sites_of(name).items():
        np.testing.assert_allclose(found.sites[site], wanted, rtol=1e-12)
    assert float(WEIGHT @ found.energy + found.log_prior) == pytest.approx(float(found.joint), rel=1e-11)


def test_expected_cells_are_conditional_moments():
    """Mean and variance of a missing cell given the observed ones, by the dense covariance: scores are uncertain too."""
    model, hyper, rows, _ = parts("factor_analysis", "default", 1)
    sites = sites_of("factor_analysis")
    assert model.abilities.table is not None
    found = jax.jit(model.abilities.table.expected)(hyper, sites, rows)
    mean, variance = (np.stack(leaves, axis=1) for leaves in zip(*((one.mean, one.variance) for one in found), strict=True))
    covariance = covariance_of(sites)
    for n, row in enumerate(HOLED):
        seen = ~np.isnan(row)
        across = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        wanted = sites["mean"][~seen] + across @ (row - sites["mean"])[seen]
        left = covariance[np.ix_(~seen, ~seen)] - across @ covariance[np.ix_(seen, ~seen)]
        np.testing.assert_allclose(mean[n, ~seen], wanted, rtol=1e-10)
        np.testing.assert_allclose(variance[n, ~seen], np.diag(left), rtol=1e-10)


@pytest.mark.slow
@every_cell
def test_statistics_are_the_gradient(name, prior, holes):
    """∇_T Σ weight log Z(local(T)) = E[statistics]."""
    model, hyper, rows, found = parts(name, prior, holes)

    def total(T):
        return local_step(model.algebra, "mean", hyper, jax.random.PRNGKey(0), T, rows).log_partition

    for slope, wanted in zip(jax.tree.leaves(jax.grad(total)(found.T)), jax.tree.leaves(found.step.stats), strict=True):
        np.testing.assert_allclose(slope, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())


@every_model
def test_few_rows_stand_for_all(name):
    """The simplex has the rows' likelihood and statistics, weights and all; rows with holes stay as they are."""
    model, hyper, rows, known = parts(name, "default", 0)
    few = sufficient_rows(rows)
    assert few.x.shape == (COLUMNS + 1, COLUMNS)
    found = jax.jit(partial(local_step, model.algebra, "mean"))(hyper, jax.random.PRNGKey(0), known.T, few)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(known.step), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())
    holed = parts(name, "default", 1)[2]
    assert sufficient_rows(holed) is holed


@every_model
def test_holes_that_are_none_change_nothing(name):
    """The path with a mask, given rows without holes, is the path without one."""
    model, hyper, rows, known = parts(name, "default", 0)
    algebra = model.algebra

    @jax.jit
    def both(T, rows):
        features = algebra.features(hyper, rows)
        masked = features._replace(seen=jax.numpy.ones_like(features.x))
        pairs = [(algebra.local_natural_parameters(T)(each), each) for each in (features, masked)]
        stats = [algebra.statistics(WEIGHT, algebra.latent.mean(None, local), each) for local, each in pairs]
        return [local for local, _ in pairs], stats

    local, stats = jax.tree.map(np.asarray, both(known.T, rows))
    for one, other in zip(*local, strict=True):
        np.testing.assert_allclose(np.broadcast_to(one, other.shape), other, rtol=1e-10, atol=1e-12)
    for one, other in zip(*map(jax.tree.leaves, stats), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())


# ---------------------------------------------------------------------------------------------------------------------
# Rows


@pytest.mark.slow
@every_model
def test_predictions_are_conditional_gaussians(name):
    """Scores, their sd, reconstruction and imputed cells at a point, row by row from the dense joint of (z, x)."""
    data = table(HOLED)
    model = MODELS[name](data, num_factors=FACTORS)
    sites = sites_of(name)
    found = predict(model, sites, data, num_draws=2)
    covariance, loading, mean = covariance_of(sites), sites["loading"], sites["mean"]
    cells = {(n, c): i for i, (n, c) in enumerate(zip(found["cell_row"].values, found["cell_column"].values, strict=True))}
    for n, row in enumerate(HOLED):
        seen = ~np.isnan(row)
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], loading[seen]).T
        score = gain @ (row[seen] - mean[seen])
        spread = np.eye(FACTORS) - gain @ loading[seen]
        np.testing.assert_allclose(found["scores"][n], score, atol=1e-10)
        np.testing.assert_allclose(found["scores_sd"][n], np.sqrt(np.diag(spread)), rtol=1e-8)
        np.testing.assert_allclose(found["reconstruction"][n], mean + loading @ score, rtol=1e-10)
        for d in np.flatnonzero(~seen):
            cell = cells[n, f"x{d}"]
            assert float(found["imputed_mean"][cell]) == pytest.approx(mean[d] + loading[d] @ score, rel=1e-9)
            noise = np.broadcast_to(1 / sites["precision"], (COLUMNS,))[d]
            assert float(found["imputed_sd"][cell]) == pytest.approx(
                np.sqrt(loading[d] @ spread @ loading[d] + noise), rel=1e-8
            )
    np.testing.assert_allclose(found["log_density"], dense(sites, HOLED), atol=1e-10)


@pytest.mark.slow
def test_draws_of_cells_are_conditional_gaussians():
    """Means and spread of the draws of every hole."""
    data = table(HOLED)
    model = MODELS["factor_analysis"](data, num_factors=FACTORS)

    def deviations(seed, times):
        found = impute(model, sites_of("factor_analysis"), data, num_draws=4000 * times, seed=seed)
        draws, mean, sd = (found[name].values for name in ("imputed", "imputed_mean", "imputed_sd"))
        away = (draws - mean) / sd
        return np.concatenate([away.mean(0) * np.sqrt(len(away)), (away.std(0) - 1) * np.sqrt(2 * len(away))])

    assert_standard_normal(deviations)


# ---------------------------------------------------------------------------------------------------------------------
# What is asked for


def test_ledermanns_bound():
    assert [ledermann(d) for d in (1, 2, 3, 4, 5, 6, 8, 10, 12)] == [0, 0, 1, 1, 2, 3, 4, 6, 7]
    with pytest.raises(ZooError, match="6 columns can identify at most 3 factors"):
        MODELS["factor_analysis"](table(WHOLE), num_factors=4)
    with pytest.raises(ZooError, match="with 6 columns there can be at most 5 factors"):
        MODELS["ppca"](table(WHOLE), num_factors=6)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2"])
def test_numbers_of_factors_that_are_none(number):
    with pytest.raises(ZooError, match="num_factors must be a whole number above 0"):
        MODELS["ppca"](table(WHOLE), num_factors=number)


def test_constant_columns():
    """A column that does not vary has no noise of its own; under a shared noise it is sound."""
    x = WHOLE.copy()
    x[:, 2] = 7.0
    with pytest.raises(ZooError, match="column 'x2' has the same value in every row"):
        MODELS["factor_analysis"](table(x))
    tree = fit(MODELS["ppca"](table(x)), table(x), "em", num_starts=1)
    assert np.abs(tree["point_estimate"]["loading"].values[2]).max() < 1e-6


@pytest.mark.slow
def test_fewer_rows_than_columns():
    """Under the default prior sound; the maximum of the likelihood has noise 0, a Heywood case, which is said."""
    few = table(WHOLE[:4])
    tree = fit(MODELS["factor_analysis"](few), few, "em", num_starts=2)
    assert np.isfinite(tree["functionals"]["log_joint"])
    assert "Heywood" not in tree.attrs["warnings"]
    tree = fit(MODELS["factor_analysis"](few, prior="flat"), few, "em", num_starts=2, max_iter=5000)
    assert "Heywood" in tree.attrs["warnings"]


def test_hard_assignments_mean_nothing():
    data = table(WHOLE)
    with pytest.raises(ZooError, match="stands for no assignment"):
        fit(MODELS["ppca"](data), data, "hard_em")


@pytest.mark.slow
def test_rotations_are_no_parameters():
    """BIC counts D L + 2 D − L (L − 1) / 2, and D L + D + 1 − L (L − 1) / 2."""
    data = table(WHOLE)
    for name, noise in (("factor_analysis", COLUMNS), ("ppca", 1)):
        tree = fit(MODELS[name](data, num_factors=3), data, "em", num_starts=1, max_iter=2)
        assert tree.attrs["num_parameters"] == COLUMNS * 3 + COLUMNS + noise - 3


@pytest.mark.slow
def test_sizes_are_compared():
    data = table(WHOLE)
    trees = {str(number): fit(MODELS["ppca"](data, num_factors=number), data, "em", num_starts=2) for number in (1, 2, 3)}
    assert compare(trees).table["BIC"].astype(float).idxmin() == "2"


def test_failed_starts_do_not_stop_the_others():
    """A column nearly twice: some starts collapse, and what the others found is returned, or the reason is given."""
    x = np.column_stack([WHOLE, WHOLE[:, 0] + 1e-5 * np.random.default_rng(0).normal(size=ROWS)])
    data = table(x)
    model = MODELS["factor_analysis"](data, num_factors=FACTORS, prior="flat")
    try:
        tree = fit(model, data, "em", num_starts=6, max_iter=3000)
    except ZooError as error:
        assert "Heywood" in str(error)
    else:
        assert np.isfinite(tree["point_estimate"]["loading"]).all()


@pytest.mark.slow
@every_model
def test_the_bound_of_cavi_never_falls(name):
    """And lies below the log joint's evidence bound at no iteration: monotone to 1e-9, with holes."""
    data = table(HOLED[~np.isnan(HOLED).all(1)])
    model = MODELS[name](data, num_factors=FACTORS)
    tree = fit(model, data, "cavi", num_starts=1, num_samples=10, num_chains=2)
    bound = tree["optimization"]["objective"].values[0]
    bound = bound[np.isfinite(bound)]
    assert np.diff(bound).min() > -1e-9 * abs(bound[-1])


def test_scores_of_draws_are_weighed_by_their_density():
    """Two draws far apart in density: the mixture of two Gaussians with weights p(x | θ)."""
    model = MODELS["ppca"](table(WHOLE), num_factors=FACTORS)
    points = [sites_of("ppca", seed) for seed in (1, 2)]
    dims = {"loading": ("d", "l"), "mean": ("d",), "precision": ()}
    posterior = {key: (("chain", "draw", *dims[key]), np.stack([p[key] for p in points])[None]) for key in dims}
    tree = xr.DataTree.from_dict({"/posterior": xr.Dataset(posterior)})
    found, single = predict(model, tree, table(WHOLE)), [predict(model, p, table(WHOLE)) for p in points]
    logs = np.stack([one["log_density"].values for one in single])
    weight = np.exp(logs - np.logaddexp(*logs))[..., None]
    mean = (weight * np.stack([one["scores"].values for one in single])).sum(0)
    square = (weight * np.stack([one["scores"].values ** 2 + one["scores_sd"].values ** 2 for one in single])).sum(0)
    np.testing.assert_allclose(found["scores"], mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["scores_sd"], np.sqrt(square - mean**2), rtol=1e-7)
    np.testing.assert_allclose(found["log_density"], np.logaddexp(*logs) - np.log(2), rtol=1e-12)
