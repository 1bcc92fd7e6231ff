"""Which topics chains and results find again, against assignments by enumeration."""

from itertools import permutations

import numpy as np
import pytest
from six_documents import (
    DATA,
    TRUE,
    K,
    chains,
    in_order,
    model,
    near,
    result,
    sites,
)

from inference import (
    coherence,
    fit,
    topic_stability,
)
from inference.topics.stability import match_draws, matched_to, overlap
from inference.topics.summary import topics_agree
from models import ZooError


def test_the_assignment_is_the_best_of_all_orders():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        left, right = rng.dirichlet(np.ones(6), (2, 4))
        totals = {order: sum(np.minimum(left[k], right[order[k]]).sum() for k in range(4)) for order in permutations(range(4))}
        assert near(matched_to(left, right), right[list(max(totals, key=totals.get))])
        assert near(overlap(left, right), 1 - 0.5 * np.abs(left[:, None] - right[None]).sum(-1))


def test_a_draw_that_is_left_as_it_is_is_in_order():
    """Draws near the reference, some of them in another order: what is not matched is what matching would leave."""
    rng = np.random.default_rng(4)
    reference = rng.dirichlet(np.full(8, 0.2), 4)
    orders = [rng.permutation(4) if n % 3 else np.arange(4) for n in range(30)]
    draws = [np.stack([rng.dirichlet(30 * row + 0.01) for row in reference])[order] for order in orders]
    assert near(match_draws(reference, np.stack(draws)), [matched_to(reference, draw) for draw in draws])


def test_topics_that_all_chains_find_are_stable():
    """Chains around the same topics in other orders agree on all; one that has another topic does not on that."""
    same = chains(TRUE, TRUE)
    found = topic_stability(model(), result(in_order(same), same))
    assert found["stable"].all()
    assert (found["agreement"] > 0.95).all()
    assert near(found["nearest_other"], [0.2, 0.2, 0.1], atol=0.05)
    assert found.attrs["summary"].startswith("3 of 3 topics are found by each of 2 chains")
    other = TRUE.copy()
    other[2] = [0.5, 0, 0, 0, 0.5]
    mixed = chains(TRUE, other)
    found = topic_stability(model(), result(in_order(mixed), mixed, np.array([[1.0], [0.0]]) + np.zeros((2, 8))))
    assert list(found["stable"]) == [True, True, False]
    assert found["agreement"][2] == pytest.approx(0.5, abs=0.05)
    assert "but not topic 2 (0.5" in found.attrs["summary"]


def test_topics_that_look_like_another_are_not_counted_and_the_reason_is_said():
    """An overlap of 0.8 between chains, and 0.9 with another topic of the same chain: it may be either."""
    near_twin = TRUE.copy()
    near_twin[1] = 0.9 * TRUE[0] + 0.1 * TRUE[2]
    far = near_twin.copy()
    far[1] = 0.75 * TRUE[0] + 0.25 * TRUE[2]
    draws = chains(near_twin, far, spread=1e5)
    found = topic_stability(model(), result(in_order(draws), draws, np.array([[1.0], [0.0]]) + np.zeros((2, 8))))
    row = found[~found["stable"]].iloc[0]
    assert row["nearest_other"] > row["agreement"] > 0.7
    said = found.attrs["summary"]
    assert "an overlap of 0.7 or more that is above the overlap with any other topic" in said
    assert f"({row['agreement']:.2f}, and {row['nearest_other']:.2f} with another topic)" in said


def test_draws_that_wander_are_less_alike_within_a_chain():
    narrow, wide = (
        topic_stability(model(), result(in_order(draws), draws))["within"]
        for draws in (chains(TRUE, TRUE), chains(TRUE, TRUE, spread=20.0))
    )
    assert (narrow > 0.95).all()
    assert (wide < narrow).all()


def test_named_topics_are_not_matched():
    """Where symmetry permutes nothing, a chain that has two topics the other way round disagrees."""
    named = model()._replace(symmetry=None)
    draws = {"word_probs": TRUE, "topic_probs": sites()["topic_probs"]}
    draws = {name: np.tile(leaf, (2, 4, 1, 1)) for name, leaf in draws.items()}
    assert topic_stability(named, result(draws))["stable"].all()
    draws["word_probs"] = draws["word_probs"].copy()
    draws["word_probs"][1] = draws["word_probs"][1][:, [1, 0, 2]]
    assert list(topic_stability(named, result(draws))["stable"]) == [False, False, True]


@pytest.mark.slow
def test_draws_from_one_approximation_are_no_runs():
    """Variational Bayes has one optimum, whatever the number of its chains: they say nothing of what other starts find."""
    tree = fit(model(), DATA, "cavi", num_starts=2, max_iter=20, num_samples=5, num_chains=2, progress=False)
    assert topics_agree(tree) == ""
    with pytest.raises(ZooError, match="draws from one approximation"):
        topic_stability(model(), tree)
    found = topic_stability(model(), {"one": tree, "again": tree})
    assert near(found["agreement"], np.ones(K), atol=1e-12)


@pytest.mark.slow
def test_several_results_are_compared():
    """Points and draws; of one with draws the best chain."""
    points = {
        str(seed): fit(model(), DATA, "em", seed=seed, num_starts=1, max_iter=50, tol=0, progress=False) for seed in range(2)
    }
    found = topic_stability(model(), points)
    assert coherence(model(), points["0"]).equals(coherence(model(), points["0"], DATA))  # the documents of the fit
    both = [tree["point_estimate"]["word_probs"].values for tree in points.values()]
    best = max(range(2), key=lambda n: float(points[str(n)]["functionals"]["log_joint"]))
    wanted = [np.minimum(a, b).sum() for a, b in zip(both[best], matched_to(both[best], both[1 - best]), strict=True)]
    assert near(found["agreement"], wanted)
    assert found["within"].isna().all()
    draws = chains(TRUE, TRUE)
    tree = result(in_order(draws), draws)
    assert topic_stability(model(), {"one": tree, "two": tree})["agreement"].min() > 1 - 1e-12
    assert len(topic_stability(model(), points | {"draws": tree})) == K
    with pytest.raises(ZooError, match="best start alone"):
        topic_stability(model(), points["0"])
    with pytest.raises(ZooError, match="at least two"):
        topic_stability(model(), {"one": tree})
    with pytest.raises(ZooError, match="only one chain"):
        topic_stability(model(), result({name: leaf[:1] for name, leaf in draws.items()}))
    with pytest.raises(ZooError, match="threshold"):
        topic_stability(model(), tree, threshold=2)
