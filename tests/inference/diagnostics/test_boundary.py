"""Maxima of the likelihood on the boundary: kept by EM, equal to shares of counts, and named; a collapse stays an error."""

import re
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest
from naive import table, two_groups

from inference import fit
from inference.diagnostics.boundary import EDGE, on_the_boundary
from inference.fitting.prepare import make_task
from inference.runtime.progress import Silent
from models import MODELS, Data, ZooError, load_data
from models.base import Iteration

LABELS = np.array(["a"] * 4 + ["b"] * 3)
ONES = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 1]], dtype=float)
COUNTS = np.array([[2, 0, 1], [1, 0, 0], [0, 0, 3], [1, 0, 1], [0, 2, 1], [0, 1, 0], [0, 1, 4]], dtype=float)
TEXTS = [["p", "q", "p"], ["p", "q"], ["p"], ["p", "q", "q"], ["q", "p"], ["q", "p", "q"], ["q", "p", "p"]]


def multinomial(count: np.ndarray) -> float:
    """Σ n log(n / Σ n) of every row of counts, 0 log 0 = 0: the log-likelihood of events at their own shares."""
    return sum(float(n * np.log(n / row.sum())) for row in np.atleast_2d(count) for n in row if n > 0)


def by_class(x: np.ndarray) -> list[np.ndarray]:
    return [x[name == LABELS] for name in "ab"]


def bernoulli() -> tuple[Data, dict[str, Any], float]:
    share = np.array([x.mean(0) for x in by_class(ONES)])
    total = sum(multinomial(np.stack([x.sum(0), (1 - x).sum(0)], axis=1)) for x in by_class(ONES))
    return load_data(ONES, labels=LABELS), {"feature_probs": share}, total


def poisson() -> tuple[Data, dict[str, Any], float]:
    from scipy.stats import poisson as law

    rate = np.array([x.mean(0) for x in by_class(COUNTS)])
    total = sum(law(x.mean(0)).logpmf(x).sum() for x in by_class(COUNTS))
    return load_data(COUNTS, labels=LABELS), {"rate": rate}, float(total)


def words() -> tuple[Data, dict[str, Any], float]:
    from scipy.special import gammaln

    share = np.array([x.sum(0) / x.sum() for x in by_class(COUNTS)])
    orders = float((gammaln(COUNTS.sum(1) + 1) - gammaln(COUNTS + 1).sum(1)).sum())
    return (
        load_data(COUNTS, labels=LABELS),
        {"word_probs": share},
        orders + sum(multinomial(x.sum(0)) for x in by_class(COUNTS)),
    )


def categories() -> tuple[Data, dict[str, Any], float]:
    codes = COUNTS[:, :1]  # 0, 1 or 2; class b has 0 only
    count = np.array([[(x == level).sum() for level in (0, 1, 2)] for x in by_class(codes)])
    return load_data(codes, labels=LABELS), {"probs_x0": count / count.sum(1, keepdims=True)}, multinomial(count)


BLOCKS = {"bernoulli": bernoulli, "poisson": poisson, "multinomial": words, "categorical": categories}
CLASSES = multinomial(np.array([4, 3]))


@pytest.mark.parametrize("emission", BLOCKS)
def test_labelled_rows_have_shares_of_counts(emission):
    """Classes are observed, so that the maximum is counting: 0 · log 0 = 0, and the line names the site."""
    data, wanted, total = BLOCKS[emission]()
    tree = fit(MODELS["naive_bayes"](data, emission=emission, prior="flat"), data, "em")
    for name, value in wanted.items():
        assert (value == 0).any()
        np.testing.assert_allclose(tree["point_estimate"][name], value, rtol=1e-13, atol=0)
        assert f"entries of {name} are 0" in tree.attrs["warnings"]
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(total + CLASSES, rel=1e-12)
    assert tree.attrs["exit_status"] == 0


def test_transitions_have_shares_of_counts():
    data = load_data(TEXTS, labels=LABELS)
    tree = fit(MODELS["markov_naive_bayes"](data, prior="flat"), data, "em")
    first, steps = np.zeros((2, 2)), np.zeros((2, 2, 2))
    for text, name in zip(TEXTS, LABELS, strict=True):
        first["ab".index(name), "pq".index(text[0])] += 1
        for before, after in pairwise(text):
            steps["ab".index(name), "pq".index(before), "pq".index(after)] += 1
    np.testing.assert_allclose(tree["point_estimate"]["initial_probs"], first / first.sum(-1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(tree["point_estimate"]["transition_probs"], steps / steps.sum(-1, keepdims=True), rtol=1e-13)
    wanted = CLASSES + multinomial(first) + multinomial(steps.reshape(4, 2))
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(wanted, rel=1e-12)
    assert "entries of initial_probs are 0 or 1" in tree.attrs["warnings"]


def states() -> tuple[np.ndarray, np.ndarray]:
    """Two states of three binary columns: the first never has column x0, and always column x2; it is the start."""
    rng = np.random.default_rng(0)
    z = np.zeros(120, int)
    for t in range(1, len(z)):
        z[t] = z[t - 1] if rng.random() < 0.9 else 1 - z[t - 1]
    probs = np.array([[0.0, 0.5, 1.0], [1.0, 0.3, 0.6]])
    return z, (rng.random((len(z), 3)) < probs[z]).astype(float)


@pytest.mark.slow
def test_states_of_binary_columns_reach_the_boundary():
    """Starts do not fail there, and Bernoulli columns are categories of two levels: the same maximum.

    It is at least what counting gives under the true states, and the entries at an edge are named.
    """
    z, x = states()
    data = load_data(x)
    options = {"num_states": 2, "prior": "flat", "boundary": False}
    found = {e: fit(MODELS["hmm"](data, emission=e, **options), data, "em", num_starts=4) for e in ("bernoulli", "categorical")}
    steps = np.array([[((z[:-1] == i) & (z[1:] == j)).sum() for j in (0, 1)] for i in (0, 1)])
    wanted = multinomial(steps) + sum(multinomial(np.stack([x[z == k].sum(0), (1 - x[z == k]).sum(0)], axis=1)) for k in (0, 1))
    for tree in found.values():
        assert np.isfinite(tree["optimization"]["final_objective"]).all()
        assert float(tree["functionals"]["log_joint"]) >= wanted - 1e-6
        assert tree.attrs["exit_status"] == 0
    pair = [float(tree["functionals"]["log_joint"]) for tree in found.values()]
    assert pair[0] == pytest.approx(pair[1], abs=1e-6)
    warnings = found["bernoulli"].attrs["warnings"]
    named = re.findall(r"entries of feature_probs (?:are|were on their way to) (?:([01])|0 or 1)\b", warnings)
    probs = found["bernoulli"]["point_estimate"]["feature_probs"].values
    edges = {edge for edge, there in {"0": probs < 1e-6, "1": probs > 1 - 1e-6}.items() if there.any()}
    assert {edge for each in named for edge in (each or "01")} == edges != set()
    assert "entries of start_probs are 0 or 1" in warnings


def test_sparse_columns_have_no_rounding_at_one():
    """A word in every document of a class: its probability is 1, not 1 − 1e-16, whatever the weights of the rows."""
    from scipy import sparse

    rng = np.random.default_rng(1)
    x = np.concatenate([np.ones((7, 1)), (rng.random((7, 40)) < 0.05)], axis=1)
    data = load_data(sparse.csr_array(x), labels=LABELS)._replace(weight=rng.gamma(1.0, 1.0, 7))
    for given in (data, data._replace(x=x)):
        tree = fit(MODELS["naive_bayes"](given, emission="bernoulli", prior="flat"), given, "em")
        np.testing.assert_array_equal(tree["point_estimate"]["feature_probs"][:, 0], 1.0)


def test_a_weight_on_its_way_to_zero_is_kept_and_named():
    """Rows of one Poisson rate, two components that are told apart from the start: more than one is not needed.

    The component far off loses its rows by the same factor in every iteration, and never reaches weight 0.
    """
    data = load_data(np.array([[2.0], [3.0], [2.0], [4.0], [3.0], [2.0]]))
    task_model = MODELS["mixed_mixture"](load_data(data.x, types={"x0": "count"}), num_components=2, prior="flat")
    start = {"mixture_probs": np.array([0.9, 0.1]), "rate": np.array([[2.6], [40.0]])}
    tree = fit(task_model, load_data(data.x, types={"x0": "count"}), "em", start=start)
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(float(tree["functionals"]["log_likelihood"]), rel=1e-12)
    assert "mixture_probs" in tree.attrs["warnings"]


def test_what_is_undefined_is_refused_with_its_reason():
    """One step has no transitions, and a state that is never left has none to share out: no number, no silent NaN."""
    data = load_data(np.array([[1.0]]))
    with pytest.raises(ZooError, match=r"undefined, because nothing was counted.*never left"):
        fit(MODELS["hmm"](data, emission="bernoulli", boundary=False, prior="flat"), data, "em")


def test_a_collapse_stays_an_error():
    """Two rows apart from the others: a component that takes one of them has no variance, and its density is unbounded."""
    x = np.concatenate([two_groups(8), [[50.0, 50.0]]])
    start = {"mixture_probs": np.array([0.9, 0.1]), "mean": np.array([[1.5, 1.5], [50.0, 50.0]]), "precision": np.ones((2, 2))}
    with pytest.raises(ZooError, match="component 1 collapses"):
        fit(MODELS["gmm"](table(x), covariance="diag", prior="flat"), table(x), "em", start=start)


def test_what_still_falls_is_named():
    """A small share that falls by half is on its way to 0; one that stays, or is large, is not."""
    data = load_data(ONES, labels=LABELS)
    with jax.enable_x64(True):
        task = make_task(MODELS["naive_bayes"](data, prior="flat", emission="bernoulli"), data, 0, None, Silent())

    def lines(before: float, after: float) -> list[str]:
        earlier, later = ({"class_probs": np.full(2, 0.5), "feature_probs": np.full((2, 3), p)} for p in (before, after))
        return on_the_boundary(task, later, Iteration(earlier, later))

    assert "6 of 6 entries of feature_probs were on their way to 0 " in lines(2e-8, 1e-8)[0]
    assert "6 of 6 entries of feature_probs were on their way to 1 " in lines(1 - 2e-8, 1 - 1e-8)[0]
    assert "are 0." in lines(0.5 * EDGE, 0.25 * EDGE)[0]
    assert [lines(1e-8, 1e-8), lines(0.2, 0.1), lines(1 - 1e-8, 1 - 1e-8)] == [[], [], []]


def test_what_has_one_value_only_is_on_no_boundary():
    """The weight of one component, and a category with one level, are 1 whatever the data."""
    data = load_data(np.array([[2.0], [3.0], [2.0], [4.0], [3.0], [2.0]]))
    model = MODELS["gmm"](data, num_components=1, covariance="diag")
    with jax.enable_x64(True):
        task = make_task(model, data, 0, None, Silent())
    sites = {"mixture_probs": np.ones(1), "mean": np.zeros((1, 1)), "precision": np.ones((1, 1))}
    assert on_the_boundary(task, sites) == []
    assert on_the_boundary(task, sites, Iteration(sites, sites)) == []
    level = load_data(np.zeros((7, 1)), labels=LABELS)
    with jax.enable_x64(True):
        task = make_task(MODELS["naive_bayes"](level, emission="categorical", prior="flat"), level, 0, None, Silent())
    assert on_the_boundary(task, {"class_probs": np.full(2, 0.5), "probs_x0": np.ones((2, 1))}) == []
