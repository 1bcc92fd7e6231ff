"""Document 002's hidden Markov model with a boundary state *: forward, transition counts, Viterbi (errata E9 to E11)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from naive_chain import Weights, log, log_weight, summed


class Words(NamedTuple):
    """Some words x (T,), and what states make of them."""

    start: np.ndarray  # (S,): P(* → i)
    step: np.ndarray  # (S, S): P(i → j)
    stop: np.ndarray  # (S,): P(i → *)
    emit: np.ndarray  # (W, S): P(i ⇒ w)
    x: np.ndarray

    @property
    def weights(self) -> Weights:
        """For the sums over all paths."""
        return Weights(log(self.start), log(self.step), log(self.stop), log(self.emit[self.x]))


def random_words(rng: np.random.Generator, states: int = 3, words: int = 4, length: int = 5) -> Words:
    transition = rng.dirichlet(np.ones(states + 1), states)
    start, emit = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(words), states).T
    return Words(start, transition[:, :-1], transition[:, -1], emit, rng.integers(words, size=length))


# ---------------------------------------------------------------------------------------------------------------------
# E9: Σ_i α_t(i) β_t(i) is the probability of the words at every t


def forward(w: Words, emits: int = 1) -> np.ndarray:
    """(T, S): α_1 = P(* → i) P(i ⇒ x_1), α_{t+1} = (Σ_i α_t P(i → j)) P(j ⇒ x_{t+1}); the slide emits x_t (``emits=0``)."""
    alpha = [w.start * w.emit[w.x[0]]]
    for t in range(len(w.x) - 1):
        alpha.append((alpha[-1] @ w.step) * w.emit[w.x[t + emits]])
    return np.array(alpha)


def backward(w: Words, stops: bool = True) -> np.ndarray:
    """(T, S): β_T = P(i → *), β_t = Σ_j P(i → j) P(j ⇒ x_{t+1}) β_{t+1}(j); without ``stops``, as if nothing ended."""
    beta = [w.stop if stops else np.ones(len(w.start))]
    for t in range(len(w.x) - 1, 0, -1):
        beta.append(w.step @ (w.emit[w.x[t]] * beta[-1]))
    return np.array(beta[::-1])


def probability(w: Words) -> np.ndarray:
    """(T,): right."""
    return (forward(w) * backward(w)).sum(1)


def printed_probability(w: Words) -> np.ndarray:
    return (forward(w, emits=0) * backward(w)).sum(1)


def probability_of_all_paths(w: Words) -> np.ndarray:
    """The judge: one number, at every t."""
    return np.full(len(w.x), np.exp(summed(w.weights).log_partition))


# ---------------------------------------------------------------------------------------------------------------------
# E10: expected transitions, (S, S), and their sum T − 1


def transitions(w: Words, of_the_next: bool = False) -> np.ndarray:
    """(S, S): Σ_t α_t(i) P(i → j) P(j ⇒ x_{t+1}) β_{t+1}(j) / P(x); the slide has α_t(j) (``of_the_next``)."""
    alpha, beta = forward(w), backward(w)
    counts = np.zeros(w.step.shape)
    for t in range(len(w.x) - 1):
        ahead = w.step * w.emit[w.x[t + 1]] * beta[t + 1]
        counts += ahead * (alpha[t][None, :] if of_the_next else alpha[t][:, None])
    return counts / (alpha[-1] @ w.stop)


def with_sum(counts: np.ndarray) -> np.ndarray:
    return np.append(counts, counts.sum())


def right_transitions(w: Words) -> np.ndarray:
    return with_sum(transitions(w))


def printed_transitions(w: Words) -> np.ndarray:
    return with_sum(transitions(w, of_the_next=True))


def transitions_of_all_paths(w: Words) -> np.ndarray:
    """The judge: every path counts its steps, by its probability."""
    return with_sum(summed(w.weights).pair)


# ---------------------------------------------------------------------------------------------------------------------
# E11: the most probable path


def best_path(w: Words, first: bool = True, stops: bool = True) -> np.ndarray:
    """Viterbi: T_1(i) = P(* → i) P(i ⇒ x_1), and P(i → *) in the end; the slide's table has neither emission nor end."""
    column, pointers = w.start * (w.emit[w.x[0]] if first else 1.0), []
    for word in w.x[1:]:
        reached = column[:, None] * w.step * w.emit[word]
        pointers.append(reached.argmax(0))
        column = reached.max(0)
    path = [int((column * (w.stop if stops else 1.0)).argmax())]
    for pointer in pointers[::-1]:
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1])


def path_probability(w: Words) -> float:
    return float(np.exp(log_weight(w.weights, best_path(w))))


def printed_path_probability(w: Words) -> float:
    return float(np.exp(log_weight(w.weights, best_path(w, first=False, stops=False))))


def largest_of_all_paths(w: Words) -> float:
    """The judge: P(path, x) of the best of the S^T paths."""
    return float(np.exp(summed(w.weights).logs.max()))


def case() -> Mapping[str, Any]:
    """Five words of four, three states: one of the cases in which Viterbi's slips matter."""
    return {"w": random_words(np.random.default_rng(1))}


ENTRIES = (
    (9, "002", printed_probability, probability, probability_of_all_paths, case),
    (10, "002", printed_transitions, right_transitions, transitions_of_all_paths, case),
    (11, "002", printed_path_probability, path_probability, largest_of_all_paths, case),
)
