"""How far points are from one another, whatever a symmetry does to them."""

from itertools import permutations

import numpy as np
import pytest

from inference.identification.invariants import LabelledEntries, _apart_matched, distances
from models.symmetries import Permutation

RNG = np.random.default_rng


def test_distances_between_modes_are_in_standard_deviations():
    """Images under the symmetry are not apart; a point that is, is by as much as it is."""
    draws = {"x": np.array([-5.0, 5.0]) + 0.5 * RNG(5).normal(size=(4000, 2))}
    sites = {"x": np.array([[-5.0, 5.0], [5.0, -5.0], [-5.0, 7.0], [np.nan, 0.0]])}
    found = distances(sites, 0, draws, {"x": ("k",)}, Permutation("k"))
    np.testing.assert_allclose(found[:3], [0, 0, 4], atol=0.6)  # a deviation of 400 draws is known to 4 %
    assert np.isnan(found[3])


@pytest.mark.parametrize("seed", range(10))
def test_components_are_matched_as_a_whole(seed):
    """Points with other pairs of the same entries are apart, images under one permutation of all sites are not."""
    random = RNG(seed)
    size = 2 + seed % 4
    order = random.permutation(size)
    mean, weight = 10 * random.normal(size=(size, 2)), random.normal(size=size)
    mixed = mean.copy()
    mixed[:, 1] = np.roll(mixed[:, 1], 1)
    sites = {"mean": np.stack([mean, mean[order], mixed]), "weight": np.stack([weight, weight[order], weight])}
    draws = {name: value[0] + 0.01 * random.normal(size=(400, *value.shape[1:])) for name, value in sites.items()}
    found = distances(sites, 0, draws, {"mean": ("k", "feature"), "weight": ("k",)}, Permutation("k"))
    np.testing.assert_allclose(found[:2], 0, atol=1e-9)
    assert found[2] > 1


DIMS, STATES = {"mean": ("k", "feature"), "transition": ("k", "next_k")}, Permutation("k", ("next_k",))


@pytest.mark.parametrize("alike", [False, True], ids=["states apart", "states told by their transitions alone"])
@pytest.mark.parametrize("seed", range(12))
def test_transitions_are_matched_by_one_order_on_both_axes(seed, alike):
    """Images under one permutation are not apart, few states or many; those with other successors of the same rows are.

    The last column of the transitions is to stop, and has no label.
    """
    random = RNG(seed)
    size = 2 + seed % 6
    mean, square = 10 * random.normal(size=(size, 2)), random.dirichlet(np.full(size + 1, 0.5), size)
    order, turned = random.permutation(size), square[:, [*np.roll(np.arange(size), 1), size]]
    mean *= not alike
    sites = {
        "mean": np.stack([mean, mean[order], mean]),
        "transition": np.stack([square, square[order][:, [*order, size]], turned]),
    }
    draws = {name: value[0] + 1e-4 * random.normal(size=(400, *value.shape[1:])) for name, value in sites.items()}
    found = distances(sites, 0, draws, DIMS, STATES)
    np.testing.assert_allclose(found[:2], 0, atol=1e-9)
    assert found[2] > 1


@pytest.mark.parametrize("seed", range(12))
def test_the_distance_is_that_of_the_best_of_all_orders(seed):
    """Against all K! by hand, for points that are images of one another and a little off."""
    random = RNG(seed)
    size = 1 + seed % 6
    own, pairs = random.normal(size=(size, 2)), random.normal(size=(size, size, 1))
    order, off = random.permutation(size), 0.01
    other = LabelledEntries(
        np.stack([own, own[order] + off * random.normal(size=own.shape)]),
        np.stack([pairs, pairs[np.ix_(order, order)] + off * random.normal(size=pairs.shape)]),
    )
    by_hand = min(
        max(np.abs(other.singles[1] - own[list(p)]).max(), np.abs(other.pairs[1] - pairs[np.ix_(p, p)]).max())
        for p in permutations(range(size))
    )
    np.testing.assert_allclose(_apart_matched(other, 0), [0, by_hand], atol=1e-12)


def test_two_chains_of_the_same_rows_in_another_circle_are_two():
    """A state goes to the next one or to the one before: the same means, the same rows as sets, the same sorted entries."""
    forth = 0.9 * np.roll(np.eye(3), 1, axis=1) + 0.05 * (1 - np.roll(np.eye(3), 1, axis=1))
    sites = {"mean": np.tile(np.array([[0.0], [5.0], [10.0]]), (2, 1, 1)), "transition": np.stack([forth, forth.T])}
    draws = {name: value[0] + 1e-3 * RNG(0).normal(size=(400, *value.shape[1:])) for name, value in sites.items()}
    assert distances(sites, 0, draws, DIMS, STATES)[1] > 100
    alike = sites | {"mean": np.zeros((2, 3, 1))}  # states that emit the same: another order turns the circle round
    assert distances(alike, 0, draws, DIMS, STATES)[1] < 1e-9
