"""Relabelling: permuted draws are put back, the assignment is the best of all K!, and doubt is spoken out."""

from itertools import permutations

import numpy as np
import pytest
from naive import equal
from scipy.special import softmax

from inference.identification import relabel
from inference.identification.relabel import identify_draws
from models.symmetries import Permutation

COMPONENTS, DRAWS = 4, 50
LABELS = Permutation("component")
DIMS = {
    "mixture_probs": ("component",),
    "mean": ("component", "feature"),
    "precision": ("feature", "feature_"),
    "transition": ("component", "component"),
}


def separated_draws(rng):
    """Draws of one labelling: sites near fixed values, and memberships of 40 rows that they imply."""
    centres = np.arange(COMPONENTS) * 6.0
    x = np.repeat(centres, 10) + rng.normal(size=40)
    mean = centres[:, None] + 0.2 * rng.normal(size=(DRAWS, COMPONENTS, 2))
    sites = {
        "mixture_probs": rng.dirichlet(np.full(COMPONENTS, 50.0), DRAWS),
        "mean": mean,
        "precision": rng.normal(size=(DRAWS, 2, 2)),
        "transition": rng.normal(size=(DRAWS, COMPONENTS, COMPONENTS)),
    }
    return sites, softmax(-0.5 * (x[None, :, None] - mean[:, None, :, 0]) ** 2, axis=-1)


def naive_permute(sites, orders):
    """Draw by draw with fancy indices: component k becomes what component order[k] was."""
    moved = {name: value.copy() for name, value in sites.items()}
    for s, order in enumerate(orders):
        for name in ("mixture_probs", "mean"):
            moved[name][s] = sites[name][s][order]
        moved["transition"][s] = sites["transition"][s][np.ix_(order, order)]
    return moved


@pytest.fixture
def scrambled():
    """(draws of one labelling, the same with labels permuted draw by draw, their memberships, the orders)."""
    rng = np.random.default_rng(0)
    sites, latents = separated_draws(rng)
    orders = np.array([rng.permutation(COMPONENTS) for _ in range(DRAWS)])
    orders[7] = np.arange(COMPONENTS)  # the pivot keeps its labels
    moved = np.stack([latent[:, order] for latent, order in zip(latents, orders, strict=True)])
    return sites, naive_permute(sites, orders), moved, orders


PIVOT = 7


def test_permute_is_fancy_indexing(scrambled):
    """Every axis with the labels moves, twice if it is there twice; others stay."""
    sites, moved, _, orders = scrambled
    for name, value in sites.items():
        assert equal(LABELS.moved({name: value}, DIMS, orders)[name], moved[name])


@pytest.mark.parametrize("hidden", [False, True], ids=["memberships", "sites"])
def test_permuted_draws_are_put_back(scrambled, hidden):
    """Exactly, by memberships or (where a program hides them) by the sites themselves; and every draw is sure."""
    sites, moved, latents, orders = scrambled
    found = identify_draws(moved, LABELS, DIMS, None if hidden else latents, PIVOT, 40)
    for name, value in sites.items():
        np.testing.assert_array_equal(found.sites[name], value)
    np.testing.assert_array_equal(np.take_along_axis(orders, found.moves, 1), np.tile(np.arange(COMPONENTS), (DRAWS, 1)))
    assert (found.confidence > 0.999).all()
    assert found.warnings == []


@pytest.mark.parametrize("size", [2, 5, 6])
def test_assignment_is_the_best_of_all_permutations(size):
    """Costs without structure: the least of K! totals, and the gap to the second; few components and many."""
    costs = np.random.default_rng(1).normal(size=(12, size, size))
    orders, gaps = relabel.assign(costs)
    for cost, order, gap in zip(costs, orders, gaps, strict=True):
        totals = sorted(sum(cost[k, p[k]] for k in range(size)) for p in permutations(range(size)))
        assert sum(cost[k, order[k]] for k in range(size)) == pytest.approx(totals[0], rel=1e-12)
        assert gap == pytest.approx(totals[1] - totals[0], rel=1e-9)


def test_assignment_minimises_stephens_divergence():
    """The labels minimise Σ p log(p / Q) for Q = the (smoothed) average of relabelled draws, written out for all K!."""
    latents = np.random.default_rng(2).dirichlet(np.full(3, 0.3), (6, 20))
    chosen, _ = relabel._by_membership(latents, 0)
    average = np.mean([latent[:, order] for latent, order in zip(latents, chosen, strict=True)], axis=0)
    reference = (6 * average + 1 / 3) / 7
    for latent, order in zip(latents, chosen, strict=True):

        def divergence(p, latent=latent):
            moved = latent[:, list(p)]
            return (moved * np.log(moved / reference)).sum()

        # The last round's reference differs from its result's by nothing once it has settled; logs are kept in float32.
        assert divergence(order) == pytest.approx(min(map(divergence, permutations(range(3)))), abs=1e-4)


def test_identical_components_are_unsure():
    """Memberships that do not tell components apart: a coin toss, and a warning that points to the functionals."""
    rng = np.random.default_rng(3)
    latents = np.full((DRAWS, 40, 2), 0.5) + 1e-3 * rng.normal(size=(DRAWS, 40, 1)) * np.array([1, -1])
    sites = {"mean": rng.normal(size=(DRAWS, 2, 2))}
    found = identify_draws(sites, LABELS, DIMS, latents, PIVOT, 40)
    assert np.abs(found.confidence - 0.5).max() < 0.05
    assert any("overlap" in warning and "functionals" in warning for warning in found.warnings)


@pytest.mark.parametrize("hidden", [False, True], ids=["memberships", "sites"])
def test_draws_of_an_approximation_keep_their_labels(hidden):
    """One that has two components the other way round stays as it is, and is sure that another labelling would fit."""
    sites, latents = separated_draws(np.random.default_rng(0))
    sites, order = dict(sites, mean=sites["mean"].copy()), [1, 0, 2, 3]
    sites["mean"][3], latents[3] = sites["mean"][3][order], latents[3][:, order]
    found = identify_draws(sites, LABELS, DIMS, None if hidden else latents, PIVOT, 40, keep_labels=True)
    assert all(equal(found.sites[name], value) for name, value in sites.items())
    assert (found.moves == np.arange(COMPONENTS)).all()
    assert (found.confidence > 0.95).sum() == DRAWS - 1
    assert found.confidence[3] < 0.05
    assert found.warnings == []


@pytest.mark.parametrize(("share", "doubted"), [(0.4, False), (0.6, True)])
def test_an_approximation_with_components_alike_is_doubted(share, doubted):
    """Where more than half of its draws do not tell them apart; draws that have to be relabelled are doubted from 5 % on."""
    latents = np.zeros((DRAWS, 40, 2))
    latents[:, :20, 0] = latents[:, 20:, 1] = 1.0
    latents[: int(share * DRAWS)] = 0.5
    sites = {"mean": np.random.default_rng(4).normal(size=(DRAWS, 2, 2))}
    for kept, expected in ((True, doubted), (False, True)):
        found = identify_draws(sites, LABELS, DIMS, latents, PIVOT, 40, keep_labels=kept)
        assert (len(found.warnings) > 0) == expected


def test_empty_component_is_named():
    latents = np.zeros((DRAWS, 40, 3))
    latents[:, :20, 0] = latents[:, 20:, 2] = 1.0
    sites = {"mean": np.random.default_rng(4).normal(size=(DRAWS, 3, 2))}
    found = identify_draws(sites, LABELS, DIMS, latents, PIVOT, 40)
    assert [warning for warning in found.warnings if "component 1 holds less than one row" in warning]
    assert len(found.warnings) == 1


def test_one_component_is_always_sure():
    found = identify_draws({"mean": np.ones((5, 1, 2))}, LABELS, DIMS, np.ones((5, 10, 1)), 0, 10)
    assert (found.confidence == 1).all()
    assert (found.moves == 0).all()


def test_result_does_not_depend_on_the_labels_given(scrambled):
    """Scrambling the draws other than the pivot once more changes nothing: a law, whatever the draws are."""
    _, moved, latents, _ = scrambled
    orders = np.array([np.random.default_rng(s).permutation(COMPONENTS) for s in range(DRAWS)])
    orders[7] = np.arange(COMPONENTS)
    again = np.stack([latent[:, order] for latent, order in zip(latents, orders, strict=True)])
    first = identify_draws(moved, LABELS, DIMS, latents, PIVOT, 40)
    second = identify_draws(naive_permute(moved, orders), LABELS, DIMS, again, PIVOT, 40)
    for name, value in first.sites.items():
        assert equal(second.sites[name], value)


def test_what_components_hold_is_counted_in_units():
    """Half of one long row is many units; all of an empty one is none."""
    latents = np.tile(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), (DRAWS, 1, 1))
    sites = {"mixture_probs": np.full((DRAWS, 3), 1 / 3)}
    rows = identify_draws(sites, LABELS, DIMS, latents, PIVOT, 2)
    assert [line[:11] for line in rows.warnings if "less than one row" in line] == ["component 0", "component 1"]
    units = identify_draws(sites, LABELS, DIMS, latents, PIVOT, 2, np.array([100, 0]), "token")
    assert [line[:11] for line in units.warnings if "less than one token" in line] == ["component 2"]
    assert units.fewest == 0.0
