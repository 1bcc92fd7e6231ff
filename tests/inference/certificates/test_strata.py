"""Tables of few shapes: the oracle's strata, as many tables of each, and faults that only one of them shows."""

from collections import Counter

import numpy as np
import pytest
from two_stage import assert_standard_normal

from inference.certificates.checks.cases import pairs_in_strata, stratum_of
from inference.certificates.checks.figure import MOST
from inference.certificates.checks.pipeline import CHAINS, Fits
from inference.certificates.oracles import ORACLES, oracle_of
from inference.certificates.oracles.conjugate import repeated

SHARE = 1e-4  # of all tables that a stratum needs, so that it is soon found
STRATA = [name for name in ORACLES if oracle_of(name).strata]


def drawn_tables(oracle, number, seed=0):
    rng = np.random.default_rng(seed)
    return oracle.draw_tables(rng, oracle.draw_parameters(rng, number))


def test_tables_of_several_lengths_have_strata():
    """Those of other oracles have one length."""
    assert [name for name in ORACLES if "length" in drawn_tables(oracle_of(name), 1)] == STRATA


@pytest.mark.parametrize("name", STRATA)
def test_strata_are_short_middle_and_long_and_none_is_rare(name):
    """By the longest row of a table: one below the median, one near it, one longer than 19 tables of 20."""
    oracle = oracle_of(name)
    tables = drawn_tables(oracle, 40_000)
    assert (np.bincount(stratum_of(oracle, tables) + 1)[1:] > SHARE * 40_000).all()
    longest = np.sort(tables["length"].max(1))
    below = [np.searchsorted(longest, max(stratum)) / len(longest) for stratum in oracle.strata]
    assert below[0] < 0.25 < 0.4 < below[1] < 0.75 < 0.95 < below[-1]


@pytest.mark.parametrize("number", [1, 50])
def test_tables_are_of_the_strata_in_turn(number):
    """As many tables of each, and one more of the first ones if need be; their rows are in any order."""
    oracle = oracle_of("hmm")
    sites, tables = pairs_in_strata(oracle, np.random.default_rng(0), number)
    lengths = [tuple(found) for found in tables["length"].tolist()]
    assert [tuple(sorted(found)) for found in lengths] == [oracle.strata[place % 3] for place in range(number)]
    assert {len(value) for value in (*sites.values(), *tables.values())} == {number}
    assert number == 1 or len(set(lengths)) > 3 * 3  # of 3 + 6 + 6 orders


def test_a_seed_decides_the_tables():
    first, again, other = (pairs_in_strata(oracle_of("hmm"), np.random.default_rng(seed), 6)[1]["x"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


def test_pairs_stay_together():
    """Of every pair that is kept, the table has the parameters that it was drawn with, also beyond the first batch."""
    oracle, batches = oracle_of("hmm"), []

    def draw_parameters(rng, number):
        batches.append(len(batches))
        return {"place": np.arange(number) + number * batches[-1]}

    def draw_tables(rng, sites):
        lengths = np.where(
            sites["place"][:, None] % 5_000 == 7,
            [1, 5, 10],
            np.where(rng.random((len(sites["place"]), 1)) < 0.5, [1, 1, 2], [4, 3, 2]),
        )
        wide = np.zeros((len(lengths), 3, 10 + len(batches)), int)  # batches may have other widths
        wide[:, :, 0] = sites["place"][:, None]
        return {"length": lengths, "x": wide}

    made_up = oracle._replace(draw_parameters=draw_parameters, draw_tables=draw_tables)
    sites, tables = pairs_in_strata(made_up, np.random.default_rng(0), 12)
    np.testing.assert_array_equal(tables["x"][:, 0, 0], sites["place"])
    assert len(batches) == 2
    assert set(sites["place"][2::3] % 5_000) == {7}
    assert tables["x"].shape == (12, 3, 12)


def test_oracles_without_strata_draw_as_always():
    oracle = oracle_of("gmm_simple")
    rng = np.random.default_rng(3)
    sites, tables = pairs_in_strata(oracle, np.random.default_rng(3), 4)
    for name, value in oracle.draw_parameters(rng, 4).items():
        np.testing.assert_array_equal(sites[name], value)
    for name, value in oracle.draw_tables(rng, sites).items():
        np.testing.assert_array_equal(tables[name], value)


@pytest.fixture
def exact(monkeypatch):
    """`fit` by a stand-in: draws from the posterior by a sum over all paths, with long sequences cut after so many steps."""

    def of(steps, fitted):
        def draws(self, model, tables, place, seed):
            table = {name: value[place : place + 1] for name, value in tables.items()}
            length = table["length"]
            fitted.append(tuple(sorted(length[0].tolist())))
            cut = table | {"length": np.where(length > 4, np.minimum(length, steps), length)}
            sites = self.oracle.posterior(np.random.default_rng(seed), cut, CHAINS).sites
            return self.oracle.invariants(sites, repeated(table, CHAINS))

        monkeypatch.setattr(Fits, "_draws", draws)

    return of


def test_a_fault_that_only_long_sequences_show_is_rejected(exact):
    """A third of the tables has sequences of five or more steps, which are read as if they ended after two."""
    fitted = []
    exact(2, fitted)
    deviations = Fits("exact", oracle_of("hmm"), 150)(0, 1)
    assert max(map(abs, deviations.values())) > MOST + 1
    assert Counter(fitted) == {(1, 1, 2): 50, (2, 3, 4): 50, (1, 5, 10): 50}


@pytest.mark.slow
def test_exact_draws_of_sequences_are_calibrated(exact):
    exact(10, [])
    assert_standard_normal(lambda seed, times: list(Fits("exact", oracle_of("hmm"), 30)(seed, times).values()))
