"""Calibration of the whole pipeline of a sampler: ranks of few draws are uniform, and pipelines that are wrong are rejected."""

import numpy as np
import pytest
from scipy import stats
from two_stage import assert_standard_normal, of_p_value

from inference.certificates.checks import pipeline
from inference.certificates.checks.calibration import rank_deviations
from inference.certificates.checks.cases import built
from inference.certificates.checks.pipeline import (
    CHAINS,
    DRAWS,
    POWER,
    Fits,
    found_of,
    pipeline_check,
    ranks,
    tables_of_one_shape,
)
from inference.certificates.oracles import oracle_of
from models.errors import ZooError

TABLES = 100


@pytest.mark.parametrize("number", [1, 4, 30])
def test_ranks_among_few_draws_are_uniform(number):
    """By Kolmogorov and Smirnov: also where values and draws are counts, many of which are equal."""

    def found(seed, times):
        rng = np.random.default_rng(seed)
        of_numbers = ranks(rng.normal(size=500 * times), rng.normal(size=(500 * times, number)), rng)
        of_counts = ranks(rng.poisson(1, 500 * times), rng.poisson(1, (500 * times, number)), rng)
        return of_p_value([stats.kstest(of, "uniform").pvalue for of in (of_numbers, of_counts)])

    assert_standard_normal(found)


def test_a_value_that_is_not_finite_has_no_rank():
    drawn = np.zeros((3, 2))
    drawn[1, 0] = np.inf
    found = ranks(np.array([0.5, 0.5, np.nan]), drawn, np.random.default_rng(0))
    np.testing.assert_array_equal(np.isnan(found), [False, True, True])


@pytest.fixture
def conjugate(monkeypatch):
    """`fit` by a stand-in: independent draws around the true means, of the spread and the shift that the test asks for."""

    def of(spread=1.0, shift=0.0, early=0.0):
        def draws(self, model, tables, place, seed):
            rng = np.random.default_rng(seed)
            each = (
                tables["x"][place] + shift + spread * rng.normal(size=CHAINS) + (early if place % DRAWS < DRAWS // 2 else 0.0)
            )
            return {"mean": each}

        monkeypatch.setattr(Fits, "_draws", draws)
        monkeypatch.setattr(pipeline, "built", lambda oracle: None)
        monkeypatch.setattr(pipeline, "tables_of_one_shape", _normal_tables)

    return of


def _normal_tables(rng, oracle, model, number):
    """A flat prior: given x, the mean is Normal(x, 1)."""
    x = rng.normal(size=number)
    return {"mean": x + rng.normal(size=number)}, {"x": x}


class _Known:
    model = "known"

    @staticmethod
    def invariants(sites, tables):
        return {"mean": sites["mean"]}


def test_a_right_pipeline_passes(conjugate):
    conjugate()
    assert_standard_normal(lambda seed, times: list(Fits("exact", _Known, TABLES)(seed, times).values()))


@pytest.mark.parametrize("wrong", [{"spread": 0.5}, {"spread": 2.0}, {"shift": 1.0}, {"early": 2.0}])
def test_a_wrong_pipeline_is_rejected(conjugate, wrong):
    """Draws too narrow, too wide or aside; or those of the first half alone, as if warm-up were among them."""
    conjugate(**wrong)
    check = pipeline_check("exact", _Known, 0, 2 * TABLES)
    assert not check.passed
    assert any(figure.again is not None for figure in check.figures)


def test_half_the_spread_is_noticed(conjugate):
    """Of 200 tables, the fewest that a method has, draws of half the spread deviate by more than is needed."""
    conjugate()
    fits = Fits("exact", _Known, 2 * TABLES)
    fits(0, 1)
    assert abs(fits.of_half_spread["mean, spread"]) > POWER
    first = fits.of_half_spread
    fits(1, 1)
    assert fits.of_half_spread is first


def test_a_pipeline_that_would_not_notice_half_the_spread_fails(conjugate):
    """Of ten tables no ranks deviate by much."""
    conjugate()
    check = pipeline_check("exact", _Known, 0, 10)
    *figures, control = check.figures
    assert not check.passed
    assert all(figure.passed for figure in figures)
    assert "half the spread" in control.name


@pytest.mark.parametrize("place", [0, 7, DRAWS - 1, DRAWS, 2 * DRAWS + 3])
def test_one_draw_of_every_chain_is_ranked(place, monkeypatch):
    """The first of all chains for the first table, the second for the second, and so on around."""

    class Oracle:
        @staticmethod
        def table(tables, place):
            return tables["x"][place]

        @staticmethod
        def invariants(sites, tables):
            return {"mean": sites["mean"], "x": tables["x"]}

    def draws_of(model, data, method, num_samples, num_chains, seed):
        assert (data, method, num_samples, num_chains, seed) == (place, "gibbs", DRAWS, CHAINS, 5)
        draw = 1000 * np.arange(CHAINS)[:, None] + np.arange(DRAWS)
        return {"posterior": {"mean": draw}}

    monkeypatch.setattr(pipeline, "fit", draws_of)
    monkeypatch.setattr(pipeline, "sites_of", lambda tree, group: tree[group])
    tables = {"x": np.arange(3 * DRAWS)}
    found = Fits("gibbs", Oracle, 3 * DRAWS)._draws(None, tables, place, 5)
    np.testing.assert_array_equal(found["mean"], 1000 * np.arange(CHAINS) + place % DRAWS)
    np.testing.assert_array_equal(found["x"], np.full(CHAINS, place))


def test_draws_of_half_the_spread():
    drawn = np.array([[1.0, 3.0, 8.0]])
    found = found_of(np.array([3.4]), drawn, np.random.default_rng(0))
    assert 0.5 < found.rank[0] < 0.75  # behind 1 and 3
    assert 0.25 < found.narrow_rank[0] < 0.5  # behind 2.5 alone, before 3.5 and 6
    assert abs(rank_deviations({"x": found})["x"]) < 1


def test_cells_have_tables_of_their_own(conjugate, monkeypatch):
    """So that a draw of the prior that is far out is not counted by every sampler of the model."""
    conjugate()
    seen = []
    monkeypatch.setattr(pipeline, "ranks", lambda true, drawn, rng: seen.append(true[0]) or np.full(len(true), 0.4))
    for method in ("gibbs", "nuts", "gibbs"):
        Fits(method, _Known, 3)(0, 1)
    assert seen[0] != seen[2]
    assert seen[0] == seen[4]


def test_tables_have_one_shape_and_their_own_parameters():
    """Sequences differ in length. A mean of a table lies near that of its own parameters, and not near another's."""
    oracle = oracle_of("hmm")
    sites, tables = tables_of_one_shape(np.random.default_rng(0), oracle, built(oracle), 4)
    shapes = {pipeline._shape(built(oracle).rows(oracle.table(tables, place))) for place in range(4)}
    assert len(shapes) == 1
    assert {len(value) for value in [*sites.values(), *tables.values()]} == {4}
    given = oracle.draw_parameters(np.random.default_rng(0), 4 * pipeline.POOL)
    name = next(iter(sites))
    places = [np.flatnonzero((given[name] == one).reshape(len(given[name]), -1).all(1))[0] for one in sites[name]]
    for other in sites:
        np.testing.assert_array_equal(sites[other], given[other][places])


def test_too_few_tables_of_a_shape(monkeypatch):
    monkeypatch.setattr(pipeline, "POOL", 1)
    oracle = oracle_of("hmm")
    with pytest.raises(ZooError, match=r"hmm: .* tables have one shape, and 12 are needed"):
        tables_of_one_shape(np.random.default_rng(0), oracle, built(oracle), 12)


@pytest.mark.slow
def test_the_pipeline_of_gibbs_is_calibrated():
    check = pipeline_check("gibbs", oracle_of("gmm_simple"), 0, 100)
    assert check.passed, check.says
    assert {"mean of mean", "mean of mean, spread"} <= {figure.name for figure in check.figures}


@pytest.mark.slow
def test_a_pipeline_that_fits_another_table_is_rejected(monkeypatch):
    """Draws given a table are those that the next one asks for."""
    right = Fits._draws
    monkeypatch.setattr(
        Fits, "_draws", lambda self, model, tables, place, seed: right(self, model, tables, (place + 1) % self.tables, seed)
    )
    deviations = Fits("gibbs", oracle_of("gmm_simple"), 100)(0, 1)
    assert max(map(abs, deviations.values())) > POWER
