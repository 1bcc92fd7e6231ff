"""The law of a kernel: right kernels pass, a kernel that stands still and planted faults do not."""

from functools import cache

import numpy as np
import pytest
import wrong_exchanges
from two_stage import assert_standard_normal

from inference.certificates.checks.cases import built
from inference.certificates.checks.figure import MOST, POWER, Figure, rejection
from inference.certificates.laws.kernel_law import (
    STILL,
    deviations,
    first,
    law_check,
    law_control,
    law_of,
    products,
)
from inference.certificates.laws.kernels import EXCHANGES, KernelOf, ran
from inference.certificates.laws.kernels_on_reals import KERNELS
from inference.certificates.oracles import oracle_of
from inference.methods import tempered_gibbs

NAME = "gmm_simple"


@cache
def oracle():
    return oracle_of(NAME)


def forgetful(model, sites, tables, seed, steps):
    """The parameters of another replicate: the right law of θ, and a wrong one of (θ, x)."""
    return ran(sites, {name: np.roll(value, 2, axis=0) for name, value in sites.items()})


def still(model, sites, tables, seed, steps):
    return ran(sites, sites)


def test_a_kernel_that_forgets_the_table_is_rejected():
    """Draws from the prior have the law of θ alone: only statistics of both θ and x can tell."""
    check = law_check(KernelOf(forgetful), oracle(), 1, 2_500)
    failed = {figure.name for figure in check.figures if not figure.passed}
    assert not check.passed
    assert "log likelihood" in failed
    assert not {name for name in failed if name.startswith(("mean of mean", "largest mean", "mean square"))}


def test_a_kernel_that_stands_still_is_rejected():
    check = law_check(KernelOf(still), oracle(), 1, 100)
    failed = [figure.name for figure in check.figures if not figure.passed]
    assert failed == ["share of mean left unchanged", "mean before and after"]
    assert not check.passed


def test_gibbs_is_exact_and_its_mutant_is_not():
    """Of one cell, the smallest; the command certifies all of them."""
    assert law_check(KERNELS["gibbs"], oracle(), 1, 2_500).passed
    assert law_control(KERNELS["gibbs"], oracle(), 1, 2_500).passed


@pytest.mark.slow
def test_temperatures_that_never_exchange_are_rejected(monkeypatch):
    monkeypatch.setattr(tempered_gibbs, "acceptance", lambda temperature, energy: 0 * energy[1:])
    check = law_check(KERNELS["tempered_gibbs"], oracle(), 1, 100)
    assert "share of exchanges left unchanged" in {figure.name for figure in check.figures if not figure.passed}


@pytest.mark.slow
def test_states_that_never_change_places_are_rejected(monkeypatch):
    """Accepted exchanges are reported, and none is made."""
    monkeypatch.setattr(tempered_gibbs, "order_after", lambda accepted, *others: np.arange(3))
    check = law_check(KERNELS["tempered_gibbs"], oracle(), 1, 100)
    assert "share of states left unchanged" in {figure.name for figure in check.figures if not figure.passed}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [wrong_exchanges.backwards, wrong_exchanges.always])
def test_wrong_exchanges_of_temperatures_are_rejected(wrong, monkeypatch):
    monkeypatch.setattr(tempered_gibbs, "acceptance", wrong)
    assert not law_check(KERNELS["tempered_gibbs"], oracle_of("gmm"), 1, 2_500).passed


def test_equal_seeds_give_equal_figures():
    law = law_of(oracle(), built(oracle()), KERNELS["gibbs"], 50)
    assert law(3, 1) == law(3, 1) != law(4, 1)


def test_a_site_that_stands_still_is_found_beside_one_that_moves():
    """Also where it went to ℝᵈ and back, and lost its last digits."""
    sites = {"mean": np.ones((4, 2)), "precision": np.arange(1.0, 5.0)}
    found = ran(sites, {"mean": np.ones((4, 2)) + 1e-13, "precision": np.array([1.0, 3.0, 2.0, 5.0])}, latents=0.5)
    assert found.still == {"latents": 0.5, "mean": 1.0, "precision": 0.25}


@pytest.mark.parametrize(("share", "passes"), [(0.95, True), (0.96, True), (1.0, False)])
def test_what_is_rare_may_stand_still_most_of_the_time(share, passes):
    """One proposal in twenty is accepted by a right kernel: only that none is accepted is a fault."""
    law = law_of(oracle(), built(oracle()), KERNELS["tempered_gibbs"], 50)
    law.still, law.rare = {"exchanges": share, "mean": 0.1}, EXCHANGES
    assert [figure.passed for figure in law.still_figures()] == [passes, True]
    law.rare = frozenset()
    assert not law.still_figures()[0].passed or share <= STILL


def test_no_number_rejects_nothing():
    def check(value, least=MOST):
        return rejection("law", "a mutant", [Figure("x", value, MOST, "deviation", value)], least).passed

    assert check(9.0)
    assert not check(3.0)
    assert not check(np.nan)
    assert not check(np.inf)
    assert (check(POWER - 0.1, POWER), check(-POWER - 0.1, POWER)) == (False, True)


def law_of_two_blocks(correlation, seed, times):
    """Deviations of a and b alone, and of their product: Normal before, and after with a correlation of their first entries."""
    rng = np.random.default_rng(seed)
    before, after = ({name: rng.normal(size=(2_500 * times, 2)) for name in "ab"} for _ in range(2))
    after["b"][:, 0] = correlation * after["a"][:, 0] + np.sqrt(1 - correlation**2) * after["b"][:, 0]
    before, after = ({name: first(value) for name, value in both.items()} for both in (before, after))
    alone = deviations(before, after)
    together = deviations(*(products(one, dict.fromkeys("ab", 0.0)) for one in (before, after)))
    return [*alone.values()], [*together.values()]


def test_blocks_that_share_random_numbers_are_seen_by_products_alone():
    """With a correlation of 0.3 each block has the law that it had. E[ab] is off by 0.3 / √(2/2500) = 10 standard errors."""
    assert_standard_normal(lambda seed, times: np.concatenate(law_of_two_blocks(0.0, seed, times)))
    assert_standard_normal(lambda seed, times: law_of_two_blocks(0.3, seed, times)[0])
    assert max(map(abs, law_of_two_blocks(0.3, 0, 1)[1])) > MOST + 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_a_kernel_that_does_not_see_the_last_row_is_rejected(method):
    check = law_control(KERNELS[method], oracle(), 1, 500)
    assert "a kernel that does not see the last row is rejected" in check.says
