"""Contracts: what maps a case to an equal one, counts by hand, and mutants that the check rejects."""

import numpy as np
import pytest

from inference.certificates.checks import contracts
from inference.certificates.checks.cases import small_table
from inference.certificates.checks.contracts import OFFSETS, ROUNDING, SAME, CaseValues, Contracted, off
from inference.certificates.checks.optimum import tangents
from inference.certificates.oracles import ORACLES, oracle_of
from inference.certificates.oracles.contracts import Case, changed, counted_cell, real_cell
from inference.fitting.prepare import x64

OFFSET = [name for name in ORACLES if oracle_of(name).contracts.offset is not None]
KINDS = ["gmm", "latent_dirichlet"]  # certificates have the others


def case_of(name):
    oracle = oracle_of(name)
    sites = oracle.draw_parameters(np.random.default_rng(0), 1)
    return oracle, Case(oracle.options, oracle.table(small_table(oracle, 0), 0), {key: v[0] for key, v in sites.items()})


@pytest.mark.parametrize("name", ORACLES)
def test_free_parameters_are_the_directions_in_which_sites_can_move(name):
    """The count by hand is the number of directions within the support; one factor has no rotation."""
    oracle = oracle_of(name)
    basis = tangents(oracle, oracle.draw_parameters(np.random.default_rng(0), 1))
    assert len(next(iter(basis.values()))) == oracle.contracts.free


@pytest.mark.parametrize("name", OFFSET)
def test_offsets_move_cells_and_what_has_their_location(name):
    """By the offset alone, and no others: what is moved there and back is the case, up to rounding."""
    oracle, case = case_of(name)
    there = oracle.contracts.offset(case, OFFSETS[0])
    difference = there.data.x - case.data.x
    assert set(np.unique(np.round(difference[~np.isnan(difference)], 6))) <= {0.0, OFFSETS[0]}
    assert np.nanmax(difference) > 0
    back = oracle.contracts.offset(there, -OFFSETS[0])
    np.testing.assert_allclose(back.data.x, case.data.x, atol=1e-11)
    for site, value in case.sites.items():
        np.testing.assert_allclose(back.sites[site], value, atol=1e-11)


@pytest.mark.parametrize("name", ORACLES)
def test_orders_keep_every_entry(name):
    """What is in another order has the same entries, and six times an order of up to three is the case again."""
    oracle, case = case_of(name)
    again = case
    for _ in range(6):
        again = oracle.contracts.order(again)
        for site, value in case.sites.items():
            np.testing.assert_array_equal(np.sort(again.sites[site], axis=None), np.sort(value, axis=None))
    for site, value in case.sites.items():
        np.testing.assert_array_equal(again.sites[site], value)


def test_values_of_a_missing_cell_integrate_a_density():
    cell = real_cell(0, 0)
    assert np.exp(-0.5 * (cell.values / 0.1) ** 2).sum() * cell.step / np.sqrt(2 * np.pi) / 0.1 == pytest.approx(1, abs=1e-12)
    assert counted_cell(0, 0, 2).values.tolist() == [0, 1, 2]


def test_nested_options_are_changed_in_one_place():
    options = {"prior": {"component": {"location": 1.0, "dof": 2.0}}, "size": 3}
    found = changed(options, ("prior", "component", "location"), lambda value: value + 1)
    assert found == {"prior": {"component": {"location": 2.0, "dof": 2.0}}, "size": 3}
    assert options["prior"]["component"]["location"] == 1.0
    assert changed({"a": {}}, ("a", "b"), lambda value: value, 5) == {"a": {"b": 5}}


def test_anything_that_differs_is_noticed():
    """Of a joint density, of the density of a row, and of a parameter after a step."""
    after = {"mean": np.array([1.0, 2.0])}
    found = CaseValues(np.array([-3.0, -3.0]), np.array([-1.0, -2.0]), after)
    assert off(found, found, after) == 0
    for wrong in (
        found._replace(joint=-found.joint),
        found._replace(rows=found.rows[::-1]),
        found._replace(after={"mean": np.array([1.0, 2.1])}),
    ):
        assert off(wrong, found, after) > SAME


def test_what_is_no_number_is_unequal():
    """Also on both sides, and an infinity beside an infinity."""
    right = CaseValues(np.array([-3.0, -3.0]), np.array([-1.0]), {"mean": np.array([1.0])})
    for value in (np.nan, np.inf):
        for odd in (right._replace(rows=np.array([value])), right._replace(after={"mean": np.array([value])})):
            assert off(odd, odd, odd.after) == np.inf


def test_a_mean_of_an_offset_table_may_be_off_by_rounding_alone(monkeypatch):
    """One that a step moves by a thousandth is rejected at every offset: the limit is not multiplied by the offset again."""
    oracle, case = case_of("gmm")
    begun = CaseValues(np.zeros(2), np.zeros(3), case.sites)
    contracted = Contracted.__new__(Contracted)
    contracted.oracle, contracted.contracts, contracted.case, contracted.values = oracle, oracle.contracts, case, begun

    def found(by):
        return lambda _, moved: begun._replace(after=moved.sites | {"mean": moved.sites["mean"] + by})

    monkeypatch.setattr(contracts, "values_of_case", found(0.0))
    assert all(figure.passed for figure in contracted.offsets())
    monkeypatch.setattr(contracts, "values_of_case", found(1e-3))
    assert not any(figure.passed for figure in contracted.offsets())


def test_rounding_of_offsets_is_far_below_that_of_squares():
    """The limit grows with the offset c; what squares before it centres is off by ε c², a million limits for the largest."""
    eps = np.finfo(float).eps
    assert eps * OFFSETS[-1] ** 2 > 1e6 * (SAME + ROUNDING * OFFSETS[-1])


def test_columns_that_are_reordered_differ():
    """Another order of columns that are alike would be no other case; raters of columns follow them."""
    oracle, case = case_of("annotators")
    raters = list(oracle.contracts.order(case).options["raters"])
    assert raters != list(case.options["raters"])
    assert sorted(raters) == sorted(case.options["raters"])
    for name in ORACLES:
        oracle, case = case_of(name)
        follows = oracle.contracts.order(case)
        same = all(np.array_equal(follows.sites[site], value) for site, value in case.sites.items())
        assert same is (oracle.contracts.named or name == "annotators"), name


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_contracts_hold_and_mutants_are_noticed(name):
    with x64(64):
        case = Contracted(oracle_of(name), 3)
        assert all(figure.passed for figure in case.figures()), case.figures()
        assert not any(figure.passed for figure in case.wrong()), case.wrong()
