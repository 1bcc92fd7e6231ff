"""Steps with latents of their own beside the state: missing cells, precision factors, relative rates, structural zeros."""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from chain_cells import cell_of
from identities import agree, climbed
from naive import near, neighbours_increase
from naive_chain import STARTS, UNSEEN, build, options_of, random_sites, steps, summed, weights_of
from naive_missing import map_step
from scipy import optimize
from scipy.special import digamma

from inference import decode, log_likelihood, predict
from inference.methods import cavi, hard_em
from models import MODELS
from models.emissions.gaussians.student_t import student_t
from models.rows.scales import robust_moments

every_hidden = pytest.mark.parametrize("name", ["full", "tied", "tails", pytest.param("inflated", marks=pytest.mark.slow)])


def expected_states(name: str) -> np.ndarray:
    """(T, S): of the steps that were seen, times the weight of their sequences, by a sum over all paths."""
    found = cell_of(name, False)
    state = np.concatenate([weight * row.state for weight, row in zip(found.weight, found.wanted, strict=True)])
    state[list(UNSEEN)] = 0
    return state


@pytest.mark.parametrize("name", ["full", "tied"])
def test_a_step_of_em_completes_the_steps(name):
    """The M-step of the mixture with missing cells, row by row, with expected states of all paths as memberships."""
    found = cell_of(name, False)
    points = climbed(found.model, found.data, found.sites, max_iter=1, tol=0)
    seen = np.delete(np.arange(STARTS[-1]), UNSEEN)
    hyper = {**found.model.hyper, "concentration": np.full(3, 2.0)}
    sites = {site: found.sites[site] for site in ("mean", "precision")}
    wanted = map_step(name, hyper, sites, found.data.x[seen], expected_states(name)[seen])
    assert all(near(points.sites[site][0], wanted[site], rtol=1e-9) for site in ("mean", "precision"))


class Completed(NamedTuple):
    """Rows given one state, term by term: what an M-step sums."""

    x: np.ndarray  # (T, D), missing cells at their means
    spread: np.ndarray  # (T, D, D): the covariance of the missing cells given a factor of 1
    factor: np.ndarray  # (T,): expected
    log_factor: np.ndarray  # (T,)


def completed(x: np.ndarray, mean: np.ndarray, precision: np.ndarray, nu: float) -> Completed:
    """Row by row, from the scale matrix of the observed cells: Peel and McLachlan (2000), and Liu (1995) for missing cells."""
    rows, spread, scale = x.copy(), np.zeros((len(x), 2, 2)), np.linalg.inv(precision)
    factor, log_factor = np.zeros((2, len(x)))
    for t, row in enumerate(x):
        o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        pull = np.linalg.solve(scale[np.ix_(o, o)], scale[np.ix_(o, m)]).T
        away = row[o] - mean[o]
        rows[t, m] = mean[m] + pull @ away
        spread[t][np.ix_(m, m)] = scale[np.ix_(m, m)] - pull @ scale[np.ix_(o, m)]
        shape, rate = (nu + len(o)) / 2, (nu + away @ np.linalg.solve(scale[np.ix_(o, o)], away)) / 2
        factor[t], log_factor[t] = shape / rate, digamma(shape) - np.log(rate)
    return Completed(rows, spread, factor, log_factor)


def test_a_step_of_em_is_peel_and_mclachlans():
    """Of Student-t states under a flat prior: every step counts by its state and its expected precision factor.

    Single cells of three steps are missing. A missing cell is at its mean, with a spread that does not depend on the factor.
    """
    found = cell_of("tails", False, "flat")
    points = climbed(found.model, found.data, found.sites, max_iter=1, tol=0)
    seen = np.delete(np.arange(STARTS[-1]), UNSEEN)
    states, x = expected_states("tails")[seen], found.data.x[seen]
    assert np.isnan(x).any()
    for k, nu in enumerate(found.sites["degrees_of_freedom"]):
        r, z = states[:, k], completed(x, found.sites["mean"][k], found.sites["precision"][k], nu)
        mean = (r * z.factor) @ z.x / (r @ z.factor)
        scatter = np.einsum("t,ti,tj->ij", r * z.factor, z.x - mean, z.x - mean) + np.einsum("t,tij->ij", r, z.spread)
        gain = 1 + r @ (z.log_factor - z.factor) / r.sum()
        half = optimize.brentq(lambda h, gain=gain: np.log(h) - digamma(h) + gain, 1e-3, 1e9, xtol=1e-14)
        assert near(points.sites["mean"][0][k], mean, rtol=1e-9)
        assert near(points.sites["precision"][0][k], np.linalg.inv(scatter / r.sum()), rtol=1e-8)
        assert near(points.sites["degrees_of_freedom"][0][k], 2 * half, rtol=1e-6)


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_columns_of_student_t_states_count_where_they_are_observed(covariance):
    """The density of every step and state is SciPy's of the observed cells, and EM climbs."""
    data, sites = steps("tails", unseen=True, partly=True), random_sites("tails")
    own = random_sites(covariance)["precision"]
    matrices = [np.diag(np.broadcast_to(each, 2)) for each in own]
    model = build("tails", data, covariance=covariance)
    wanted = [summed(weights).log_partition for weights in weights_of("tails", sites | {"precision": matrices}, data)]
    given = sites | {"precision": own}
    assert near(log_likelihood(model, given, data), wanted, rtol=1e-11)
    assert neighbours_increase(climbed(model, data, given, max_iter=30).objective[0], 1e-10)


@every_hidden
def test_starts_are_the_same_in_every_packing(name):
    """Before any state is known the latents of the steps lie side by side; packed sequences count the same."""
    found = cell_of(name, False)
    algebra, hyper, rows = found.model.algebra, dict(found.model.hyper), found.model.rows(found.data)
    assert rows.packing is not None
    there = np.arange(4)[None, :, None] < np.asarray(rows.length)[:, None, None]
    probs = np.random.default_rng(0).dirichlet(np.ones(3), (5, 4)) * there

    def counted(rows: Any) -> Any:
        z = algebra.latent.independent(jax.random.PRNGKey(1), probs)
        return algebra.statistics(found.weight, z, algebra.features(hyper, rows))

    assert agree(jax.jit(counted)(rows), jax.jit(counted)(rows._replace(packing=None)), 1e-12)


@pytest.mark.parametrize("name", ["full", "tails", pytest.param("inflated", marks=pytest.mark.slow)])
def test_drawn_latents_have_the_means_of_the_expected_ones(name):
    """Statistics of draws of path, cells and factors average to those of the E-step: five standard errors of 4,000 draws."""
    found = cell_of(name, False)
    algebra, hyper = found.model.algebra, dict(found.model.hyper)
    keys = jax.random.split(jax.random.PRNGKey(2), 4000)

    @jax.jit
    def both(rows: Any, sites: Any) -> Any:
        features = algebra.features(hyper, rows)
        local = algebra.local_natural_parameters(algebra.natural(hyper, sites))(features)

        def drawn(key: Any) -> Any:
            return algebra.statistics(found.weight, algebra.latent.sample(key, local), features)

        return jax.vmap(drawn)(keys), algebra.statistics(found.weight, algebra.latent.mean(keys[0], local), features)

    drawn, wanted = both(found.model.rows(found.data), found.sites)
    for each, mean in zip(*map(jax.tree.leaves, (drawn, wanted)), strict=True):
        error = np.std(each, axis=0) / np.sqrt(len(keys))
        assert (np.abs(np.mean(each, axis=0) - mean) <= 5 * error + 1e-9).all()


@pytest.mark.slow
@every_hidden
def test_climbers_climb(name):
    """EM in the log joint, Viterbi training and variational Bayes in their own objectives."""
    found = cell_of(name, False)
    assert neighbours_increase(climbed(found.model, found.data, found.sites).objective[0], 1e-10)
    for method in (hard_em, cavi):
        points = climbed(found.model, found.data, found.sites, method=method.FIXED_POINT)
        assert neighbours_increase(points.criterion[0], 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full", "tails", "mixed", pytest.param("inflated", marks=pytest.mark.slow)])
def test_predictions_and_decodings_are_sums_over_all_paths(name):
    """Of steps and cells that were not seen too."""
    found = cell_of(name, True)
    data = steps(name, unseen=True, partly=True)
    said, best = predict(found.model, found.sites, data), decode(found.model, found.sites, data)
    wanted = [summed(weights) for weights in weights_of(name, found.sites, data)]
    there = said["assignment"].values >= 0
    path = np.concatenate([row.best for row in wanted])
    assert near(said["probs"].values[there], np.concatenate([row.state for row in wanted]), atol=1e-11)
    assert near(said["log_density"], [row.log_partition for row in wanted], rtol=1e-11)
    assert (said["viterbi"].values[there] == path).all()
    assert (best["states"].values[0][there] == path).all()


@every_hidden
def test_steps_that_forget_the_one_before_are_rows_of_a_mixture(name):
    """Where all transitions are the start probabilities, a sequence is as probable as its rows under a mixture."""
    data, sites = steps(name, partly=name != "tails"), random_sites(name, boundary=False)
    sites["transition_probs"] = np.tile(sites["start_probs"], (2, 1))
    found = log_likelihood(build(name, data, boundary=False), sites, data)
    if name == "inflated":
        mixture, weights, options = "naive_bayes", "class_probs", options_of(name) | {"num_classes": 2}
    else:
        options = {"covariance": "full", "tails": "student_t"} if name == "tails" else {"covariance": name}
        mixture, weights = "gmm", "mixture_probs"
    own = {site: value for site, value in sites.items() if "start" not in site and "transition" not in site}
    rows = data._replace(starts=None)
    each = log_likelihood(MODELS[mixture](rows, **options), own | {weights: sites["start_probs"]}, rows)
    assert near(found, np.add.reduceat(np.asarray(each), STARTS[:-1]), rtol=1e-11)


def test_the_scale_of_tails_is_that_of_what_was_observed():
    """Medians and absolute deviations leave missing steps out, and the default prior has numbers alone."""
    data = steps("tails", unseen=True)
    kept = data._replace(x=np.delete(data.x, UNSEEN, axis=0), starts=None)
    for found, wanted in zip(robust_moments(data), robust_moments(kept), strict=True):
        assert np.array_equal(found, wanted)
    hyper = build("tails", data).hyper
    assert all(np.isfinite(value).all() for value in hyper.values())


def test_the_block_is_one_object_for_equal_choices():
    assert student_t("diag", 4, "tails") is student_t("diag", 4.0, "emission")
