"""The wrong recursions of document 002, kept as functions that the checks of hidden Markov chains must reject (E9 to E11)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_chain import Weights, log, log_weight, summed

from models.chains.latent import Chain, chain, viterbi
from models.chains.posterior_counts import pair_counts
from models.rows.packing import side_by_side

STATES, WORDS, CASES = 3, 4, 60
RNG = np.random.default_rng(0)


class Words:
    """Some words, and what states make of them: P(* → i), P(i → j), P(i → *), P(i ⇒ w)."""

    def __init__(self, length: int = 5) -> None:
        transition = RNG.dirichlet(np.ones(STATES + 1), STATES)
        self.start, self.step, self.stop = RNG.dirichlet(np.ones(STATES)), transition[:, :-1], transition[:, -1]
        self.emit = RNG.dirichlet(np.ones(WORDS), STATES).T  # (W, S)
        self.x = RNG.integers(WORDS, size=length)

    @property
    def weights(self) -> Weights:
        return Weights(log(self.start), log(self.step), log(self.stop), log(self.emit[self.x]))


WORD_CASES = [Words() for _ in range(CASES)]


def forward(w: Words, emits: int = 1) -> np.ndarray:
    """(T, S): α_1 = P(* → i) P(i ⇒ x_1), α_{t+1} = (Σ_i α_t P(i → j)) P(j ⇒ x_{t+1}); the slide emits x_t (``emits=0``)."""
    alpha = [w.start * w.emit[w.x[0]]]
    for t in range(len(w.x) - 1):
        alpha.append((alpha[-1] @ w.step) * w.emit[w.x[t + emits]])
    return np.array(alpha)


def backward(w: Words, stops: bool = True) -> np.ndarray:
    """(T, S): β_T = P(i → *), β_t = Σ_j P(i → j) P(j ⇒ x_{t+1}) β_{t+1}(j); the slide sums over S, without the boundary."""
    beta = [w.stop if stops else np.ones(STATES)]
    for t in range(len(w.x) - 1, 0, -1):
        beta.append(w.step @ (w.emit[w.x[t]] * beta[-1]))
    return np.array(beta[::-1])


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


def transitions(w: Words, of_the_next: bool = False) -> np.ndarray:
    """(S, S): Σ_t α_t(i) P(i → j) P(j ⇒ x_{t+1}) β_{t+1}(j) / P(x); the slide has α_t(j) (E10)."""
    alpha, beta = forward(w), backward(w)
    counts = np.zeros((STATES, STATES))
    for t in range(len(w.x) - 1):
        ahead = w.step * w.emit[w.x[t + 1]] * beta[t + 1]
        counts += ahead * (alpha[t][None, :] if of_the_next else alpha[t][:, None])
    return counts / (alpha[-1] @ w.stop)


def are_expected_counts(counts: np.ndarray, w: Words) -> bool:
    """Whether as many steps are counted as were taken, each as often as in all paths."""
    return bool(np.isclose(counts.sum(), len(w.x) - 1) and np.allclose(counts, summed(w.weights).pair, atol=1e-10))


def test_right_counts_are_expected_counts():
    assert all(are_expected_counts(transitions(w), w) for w in WORD_CASES)


def test_counts_with_the_index_of_the_next_state_are_rejected():
    """E10; already their sum is not T − 1."""
    assert not any(are_expected_counts(transitions(w, of_the_next=True), w) for w in WORD_CASES)
    assert not any(np.isclose(transitions(w, of_the_next=True).sum(), len(w.x) - 1) for w in WORD_CASES)


def best_path(w: Words, first: bool = True, stops: bool = True) -> np.ndarray:
    """Viterbi: T_1(i) = P(* → i) P(i ⇒ x_1), and P(i → *) in the end; the slide's table starts without a word (E11)."""
    column, pointers = w.start * (w.emit[w.x[0]] if first else 1.0), []
    for word in w.x[1:]:
        reached = column[:, None] * w.step * w.emit[word]
        pointers.append(reached.argmax(0))
        column = reached.max(0)
    path = [int((column * (w.stop if stops else 1.0)).argmax())]
    for pointer in pointers[::-1]:
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1])


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


def test_the_zoo_has_the_right_recursions():
    """Probability, counts and path of every case, and so none of the mutants'."""
    for w in WORD_CASES:
        start, step, stop, emission = map(jnp.asarray, w.weights)
        total, mean, path = zoo(Chain(start, step, stop, emission[:, None], side_by_side(jnp.array([len(w.x)]), len(w.x))))
        assert np.exp(float(total)) == pytest.approx(forward(w)[-1] @ w.stop, rel=1e-12)
        np.testing.assert_allclose(pair_counts(mean, jnp.ones(1)), transitions(w), atol=1e-12)
        np.testing.assert_allclose(mean.state[:, 0], forward(w) * backward(w) / np.exp(float(total)), atol=1e-12)
        assert is_best(np.asarray(path), w)
