"""Posteriors by enumeration: evidence, modes and draws; the pipeline of `fit`, hard and stochastic EM against them."""

import numpy as np
import pytest
from scipy import stats
from two_stage import assert_standard_normal, of_means

from inference.certificates.checks import posterior
from inference.certificates.checks.cases import small_table
from inference.certificates.checks.figure import Figure
from inference.certificates.checks.optimum import tangents
from inference.certificates.checks.posterior import (
    LEAST,
    LEAST_REFERENCE,
    FitSpec,
    Pipeline,
    as_normal,
    bounded,
    compared,
    deviation,
    effective_size,
    posterior_control,
)
from inference.certificates.oracles import ORACLES, oracle_of
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.posterior import Posterior

LISTED = [name for name in ORACLES if oracle_of(name).enumeration is not None]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "state_space" else name for name in ORACLES]
)
def test_the_evidence_is_the_mean_likelihood_of_the_prior(name):
    """E[p(x | θ)] / p(x) = 1 over draws of the prior. Where the evidence is sampled, its own error is added."""
    oracle = oracle_of(name)
    table = small_table(oracle, 0)
    posterior = oracle.posterior(np.random.default_rng(1), table, 20_000)

    def ratios(seed, times):
        number = 40_000 * times
        sites = oracle.draw_parameters(np.random.default_rng(seed), number)
        likelihood = np.exp(oracle.log_likelihood(sites, repeated(table, number)) - posterior.log_evidence)
        return of_means(likelihood, 1.0, posterior.error)

    assert_standard_normal(ratios)


@pytest.mark.parametrize("name", LISTED)
def test_draws_of_the_posterior_have_the_means_of_the_weighted_prior(name):
    """The log-likelihood, over draws by enumeration, against draws of the prior with the likelihood as weight."""
    oracle = oracle_of(name)
    table = small_table(oracle, 0)

    def differences(seed, times):
        rng, number = np.random.default_rng(seed), 40_000 * times
        own = oracle.posterior(rng, table, 5_000)
        drawn = oracle.log_likelihood(own.sites, repeated(table, 5_000))
        sites = oracle.draw_parameters(rng, number)
        logs = oracle.log_likelihood(sites, repeated(table, number))
        weights = np.exp(logs - own.log_evidence) / number
        mean = drawn.mean()
        off = (logs - mean) * weights * number  # its mean is 0
        return np.atleast_1d(off.mean() / np.hypot(off.std() / np.sqrt(number), drawn.std() / np.sqrt(len(drawn))))

    assert_standard_normal(differences)


@pytest.mark.parametrize("name", LISTED)
def test_modes_given_an_assignment_are_the_highest_points(name):
    """No direction within the support leads up from them, for three assignments."""
    oracle, rng = oracle_of(name), np.random.default_rng(0)
    table, latents = small_table(oracle, 0), oracle_of(name).enumeration
    z = latents.assignments(table)
    z = z[rng.choice(len(z), 3)]
    for one, number in zip(z, range(3), strict=True):
        mode = {site: value[number : number + 1] for site, value in latents.mode(table, z).items()}

        def height(sites, one=one):
            return oracle.log_prior(sites) + latents.complete(sites, table, one[None])

        top = float(height(mode)[0])
        basis = tangents(oracle, mode)
        for direction in range(len(next(iter(basis.values())))):
            for step in (1e-4, -1e-4):
                moved = {site: value + step * basis[site][direction] for site, value in mode.items()}
                found = float(height(moved)[0])
                assert not found > top + 1e-10, (direction, step)


def test_deviations_of_right_chains_are_standard_normal_and_narrow_ones_are_not():
    rng = np.random.default_rng(3)
    reference, weights = rng.normal(size=4_000), rng.gamma(5.0, size=4_000)
    weighted = rng.choice(reference, (4, 1_000), p=weights / weights.sum())
    right = compared("x", reference, weights / weights.sum(), weighted)
    narrow = compared("x", reference, weights / weights.sum(), 0.8 * weighted)
    assert max(map(abs, right.values())) < 4.5  # one of 10⁵ normal deviations is beyond
    assert narrow["x, spread"] < -5
    assert compared("x", reference, weights / weights.sum(), weighted + 0.3)["x"] > 5


def test_few_draws_in_a_tail_do_not_seem_to_be_far_too_few():
    """Their own variance is small, because they are few. The error is that of the probability which the tail should have."""
    reference, weights = (np.arange(1_000) < 50).astype(float), np.full(1_000, 1e-3)
    drawn = np.zeros((4, 100))
    drawn[:2, 50] = 1.0  # 2 of 400 draws are in the tail, and 20 should be
    error = np.sqrt(0.05 * 0.95 / effective_size(drawn) + 0.05 * 0.95 / 1_000)
    assert deviation(reference, weights, drawn) == pytest.approx((0.005 - 0.05) / error)


def test_draws_are_not_rejected_by_the_evidence_beside_them(monkeypatch):
    """The control asks whether draws of a wrong prior are noticed; another route to the evidence says nothing of it."""
    figures = (Figure("mean of mean", 1.0, 3.5, "deviation", 1.0), Figure(posterior.INTEGRATED, 20.0, 3.5, "deviation", 20.0))
    monkeypatch.setattr(posterior, "large_stage", lambda *_: figures)
    found = posterior_control(FitSpec("gibbs"), oracle_of("gmm_simple"), 0, 10)
    assert not found.passed
    assert found.figures == figures[:1]


def remembering():
    """What has run nothing yet, and remembers figures."""
    pipeline = Pipeline.__new__(Pipeline)
    pipeline.worst, pipeline.sampler = {}, FitSpec("exact", sums=True)
    return pipeline


def test_stuck_chains_have_too_few_effective_draws():
    """Four chains about four points: their standard error is so large that no mean deviates, but their size is seen."""
    rng, weights = np.random.default_rng(0), np.full(4_000, 1 / 4_000)
    reference = rng.normal(size=4_000)
    stuck = np.array([2.0, 2.2, 1.9, 0.0])[:, None] + 0.01 * rng.normal(size=(4, 2_000))
    sound = Posterior({}, weights, 0.0, 0.0)
    for drawn, enough in ((stuck, False), (rng.normal(size=(4, 2_000)), True)):
        pipeline = remembering()
        pipeline.keep_sizes(bounded("x", reference, weights, drawn), sound)
        assert all(figure.passed for figure in pipeline.worst.values()) is enough
    assert effective_size(stuck) < LEAST < effective_size(rng.normal(size=(4, 2_000)))


def test_a_reference_of_a_few_heavy_draws_is_rejected():
    weights = np.full(40_000, 0.5 / 39_999)
    weights[0] = 0.5
    uneven = Posterior({}, weights, 0.0, 0.1)
    pipeline, rng = remembering(), np.random.default_rng(0)
    pipeline.keep_sizes(bounded("x", rng.normal(size=40_000), weights, rng.normal(size=(4, 2_000))), uneven)
    assert uneven.effective_size == pytest.approx(4, rel=1e-3)
    assert sorted(figure.passed for figure in pipeline.worst.values()) == [False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["factor_analysis", "ppca", "logistic_regression"])
def test_references_by_importance_have_enough_draws(name):
    """On tables where draws of the scores from their prior leave about 50 of 200,000."""
    oracle = oracle_of(name)
    for seed in (4, 9):
        found = oracle.posterior(np.random.default_rng(seed), small_table(oracle, seed), 20_000)
        assert found.effective_size > LEAST_REFERENCE / 2  # a check has twice as many


def test_the_worst_of_both_looks_is_kept():
    """Whichever came first; and what is no number stays."""
    for values in ([1.0, 3.0, 2.0], [3.0, 1.0]):
        pipeline = remembering()
        for value in values:
            pipeline._keep("x", value, 2.0, "relative")
        assert pipeline.worst["x"].value == 3
    pipeline._keep("x", np.nan, 2.0, "relative")
    pipeline._keep("x", 1.0, 2.0, "relative")
    assert not pipeline.worst["x"].passed


def test_a_result_without_its_evidence_is_rejected():
    wanted = Posterior({}, np.ones(1), -3.0, 0.0)
    for attrs, right in (({}, False), ({"log_evidence": -3.0}, True), ({"log_evidence": -3.1}, False)):
        pipeline = remembering()
        pipeline.compare_evidence(wanted, attrs)
        assert [figure.passed for figure in pipeline.worst.values()] == [right]


def test_a_value_of_a_t_distribution_is_as_rare_as_its_normal_deviation():
    assert stats.norm.sf(as_normal(3.5, 31)) == pytest.approx(stats.t.sf(3.5, 31))
    assert as_normal(-3.5, 31) == -as_normal(3.5, 31)
    assert 0 < 3.5 - as_normal(3.5, 1_000) < 0.05
