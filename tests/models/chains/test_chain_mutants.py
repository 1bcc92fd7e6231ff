"""The wrong recursions of document 002 (`errata_chains`), which the checks of hidden Markov chains must reject (E9 to E11)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from errata_chains import Words, backward, best_path, forward, random_words, transitions
from naive_chain import log_weight, summed

from models.chains.latent import Chain, chain, viterbi
from models.chains.posterior_counts import pair_counts
from models.rows.packing import side_by_side

CASES = 60
RNG = np.random.default_rng(0)
WORD_CASES = [random_words(RNG) for _ in range(CASES)]


def is_the_probability(alpha: np.ndarray, beta: np.ndarray, w: Words) -> bool:
    """Whether Σ_i α_t(i) β_t(i) is the same number at all t, the sum over all paths."""
    return bool(np.allclose((alpha * beta).sum(1), np.exp(summed(w.weights).log_partition), rtol=1e-10, atol=0))


def test_right_recursions_are_the_probability():
    assert all(is_the_probability(forward(w), backward(w), w) for w in WORD_CASES)


def test_emitting_the_word_before_is_rejected():
    """E9: as printed, a word is skipped and another doubled; unless these happen to be the same word throughout."""
    assert not any(is_the_probability(forward(w, emits=0), backward(w), w) for w in WORD_CASES if len(set(w.x)) > 1)


def test_sums_that_forget_the_boundary_are_rejected():
    """E9: the sum over S alone is constant in t, but is the probability of starting so, not of the sequence."""
    for w in WORD_CASES:
        total = (forward(w) * backward(w, stops=False)).sum(1)
        assert np.ptp(total) < 1e-10 * total.max()
        assert not is_the_probability(forward(w), backward(w, stops=False), w)


def are_expected_counts(counts: np.ndarray, w: Words) -> bool:
    """Whether as many steps are counted as were taken, each as often as in all paths."""
    return bool(np.isclose(counts.sum(), len(w.x) - 1) and np.allclose(counts, summed(w.weights).pair, atol=1e-10))


def test_right_counts_are_expected_counts():
    assert all(are_expected_counts(transitions(w), w) for w in WORD_CASES)


def test_counts_with_the_index_of_the_next_state_are_rejected():
    """E10; already their sum is not T − 1."""
    assert not any(are_expected_counts(transitions(w, of_the_next=True), w) for w in WORD_CASES)
    assert not any(np.isclose(transitions(w, of_the_next=True).sum(), len(w.x) - 1) for w in WORD_CASES)


def share_found(decode: Callable[[Words], np.ndarray]) -> float:
    """How often the path found is one of the best of all paths, of which a word that comes twice can make several."""
    return float(np.mean([is_best(decode(w), w) for w in WORD_CASES]))


def is_best(path: np.ndarray, w: Words) -> bool:
    return bool(log_weight(w.weights, path) > summed(w.weights).logs.max() - 1e-12)


def test_right_table_finds_the_best_path():
    assert share_found(best_path) == 1


@pytest.mark.parametrize(("first", "stops"), [(False, True), (True, False), (False, False)])
def test_tables_without_an_end_are_rejected(first, stops):
    """E11: without the first word or the stop, a good part of the paths is another one."""
    assert share_found(lambda w: best_path(w, first, stops)) < 0.9


@jax.jit
def zoo(local: Chain) -> tuple[Any, ...]:
    return chain.log_partition(local)[0], chain.mean(None, local), viterbi(local)[0][:, 0]


def run(w: Words, emission: np.ndarray, stop: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The zoo on log probabilities (T, S) of the words and (S,) of the end: P(x), expected states and steps, best path."""
    start, step = jnp.asarray(w.weights.start), jnp.asarray(w.weights.step)
    steps = side_by_side(jnp.array([len(w.x)]), len(w.x))
    total, mean, path = zoo(Chain(start, step, jnp.asarray(stop), jnp.asarray(emission)[:, None], steps))
    return np.exp(float(total)), np.asarray(mean.state[:, 0]), np.asarray(pair_counts(mean, jnp.ones(1))), np.asarray(path)


def test_the_zoo_has_the_right_recursions():
    """Probability, counts and path of every case, and so none of the mutants'."""
    for w in WORD_CASES:
        total, state, pair, path = run(w, w.weights.emission, w.weights.stop)
        assert total == pytest.approx(forward(w)[-1] @ w.stop, rel=1e-12)
        np.testing.assert_allclose(pair, transitions(w), atol=1e-12)
        np.testing.assert_allclose(state, forward(w) * backward(w) / total, atol=1e-12)
        assert is_best(path, w)
        assert not are_expected_counts(transitions(w, of_the_next=True), w)


def test_mutants_in_the_zoo_are_rejected():
    """The slides' recursions run by the zoo itself: E9 with the word before, E11 without the first word and the stop."""
    before = [run(w, w.weights.emission[[0, *range(len(w.x) - 1)]], w.weights.stop)[0] for w in WORD_CASES]
    wanted = [forward(w, emits=0)[-1] @ w.stop for w in WORD_CASES]
    np.testing.assert_allclose(before, wanted, rtol=1e-12)
    right = np.array([np.exp(summed(w.weights).log_partition) for w in WORD_CASES])
    differ = np.array([len(set(w.x)) > 1 for w in WORD_CASES])
    assert (abs(np.array(before) / right - 1) > 1e-10)[differ].all()

    def endless(w: Words) -> np.ndarray:
        emission = w.weights.emission.copy()
        emission[0] = 0.0
        return run(w, emission, np.zeros_like(w.weights.stop))[3]

    assert share_found(endless) < 0.9
