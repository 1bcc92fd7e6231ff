"""The algebra of chapters 7 and 8 of docs/course, statement by statement, against sums over every path and every topic."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

ROUNDING = 1e-10  # sums of at most a few thousand terms near 1

# ---------------------------------------------------------------------------------------------------------------------
# Chapter 7: hidden Markov models with a boundary state

STATES, LENGTH = 3, 5


@pytest.fixture
def chain():
    """(start, moves between states, stop, emission probabilities of the words that were seen)."""
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(STATES + 1), STATES)
    return (
        rng.dirichlet(np.ones(STATES)),
        rows[:, :STATES],
        rows[:, STATES],
        rng.dirichlet(np.ones(4), STATES)[:, [0, 3, 1, 1, 2]].T,
    )


def joint(chain, path):
    """Statement 7.2."""
    start, step, stop, emitted = chain
    moves = np.prod([step[i, j] for i, j in pairwise(path)])
    return start[path[0]] * moves * stop[path[-1]] * np.prod(emitted[np.arange(len(path)), list(path)])


def all_paths(chain):
    paths = np.array(list(product(range(STATES), repeat=LENGTH)))
    return paths, np.array([joint(chain, path) for path in paths])


def forward_backward(chain):
    """Statements 7.5 and 7.6."""
    start, step, stop, emitted = chain
    alpha, beta = [start * emitted[0]], [stop]
    for word in emitted[1:]:
        alpha.append((alpha[-1] @ step) * word)
    for word in emitted[:0:-1]:
        beta.append(step @ (word * beta[-1]))
    return np.array(alpha), np.array(beta[::-1])


def counts_of(chain):
    """Statement 7.11: starts, moves, stops, and the probabilities of the states at each step."""
    start, step, stop, emitted = chain
    alpha, beta = forward_backward(chain)
    total = alpha[-1] @ stop
    moves = sum(np.outer(alpha[t], emitted[t + 1] * beta[t + 1]) * step for t in range(LENGTH - 1)) / total
    return start * emitted[0] * beta[0] / total, moves, alpha[-1] * stop / total, alpha * beta / total


def test_forward_and_backward_sum_over_all_paths(chain):
    """Statements 7.5 to 7.8."""
    paths, weights = all_paths(chain)
    alpha, beta = forward_backward(chain)
    np.testing.assert_allclose((alpha * beta).sum(1), weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(alpha[-1] @ chain[2], weights.sum(), rtol=1e-12)
    for t, i in product(range(LENGTH), range(STATES)):
        assert alpha[t, i] * beta[t, i] == pytest.approx(weights[paths[:, t] == i].sum(), rel=1e-12)


def test_counts_are_those_of_the_paths_and_what_enters_leaves(chain):
    """Statement 7.11."""
    paths, weights = all_paths(chain)
    probs = weights / weights.sum()
    starts, moves, stops, states = counts_of(chain)
    for i, j in product(range(STATES), repeat=2):
        taken = ((paths[:, :-1] == i) & (paths[:, 1:] == j)).sum(1)
        assert moves[i, j] == pytest.approx(probs @ taken, rel=1e-12)
    assert moves.sum() == pytest.approx(LENGTH - 1, rel=1e-12)
    np.testing.assert_allclose([starts.sum(), stops.sum()], 1, rtol=1e-12)
    np.testing.assert_allclose(starts + moves.sum(0), moves.sum(1) + stops, rtol=1e-12)
    np.testing.assert_allclose(starts, states[0], rtol=1e-12)
    np.testing.assert_allclose(stops, states[-1], rtol=1e-12)


def test_counts_are_the_gradient_of_the_log_probability(chain):
    """Statement 7.13, by central differences: their error is about 1e-5 squared."""
    _, moves, _, _ = counts_of(chain)
    start, step, stop, emitted = chain
    for i, j in product(range(STATES), repeat=2):
        ends = []
        for sign in (1, -1):
            moved = step.copy()
            moved[i, j] *= np.exp(sign * 1e-5)
            changed = start, moved, stop, emitted
            ends.append(np.log(forward_backward(changed)[0][-1] @ stop))
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(moves[i, j], abs=1e-8)


def test_lengths_sum_to_one_and_have_their_mean(chain):
    """Statement 7.4."""
    start, step, stop, _ = chain
    powers, here = [], start
    for _ in range(2000):
        powers.append(here @ stop)
        here = here @ step
    assert sum(powers) == pytest.approx(1, rel=1e-12)
    mean = start @ np.linalg.solve(np.eye(STATES) - step, np.ones(STATES))
    assert np.arange(1, 2001) @ powers == pytest.approx(mean, rel=1e-10)


def test_viterbi_finds_the_best_of_all_paths(chain):
    """Statement 7.15."""
    start, step, stop, emitted = chain
    column, pointers = start * emitted[0], []
    for word in emitted[1:]:
        reached = column[:, None] * step
        pointers.append(reached.argmax(0))
        column = reached.max(0) * word
    path = [int((column * stop).argmax())]
    for pointer in pointers[::-1]:
        path.append(int(pointer[path[-1]]))
    paths, weights = all_paths(chain)
    assert path[::-1] == list(paths[weights.argmax()])
    assert (column * stop).max() == pytest.approx(weights.max(), rel=1e-12)


def test_backward_draws_have_the_posterior_of_paths(chain):
    """Statement 7.17: the probability of each path as a product of the conditionals that are drawn from."""
    _, step, stop, _ = chain
    alpha, _ = forward_backward(chain)
    paths, weights = all_paths(chain)
    last = alpha[-1] * stop
    for path, weight in zip(paths, weights, strict=True):
        chance = last[path[-1]] / last.sum()
        for t in range(LENGTH - 2, -1, -1):
            before = alpha[t] * step[:, path[t + 1]]
            chance *= before[path[t]] / before.sum()
        assert chance == pytest.approx(weight / weights.sum(), rel=1e-11)


def test_three_days_of_ice_creams():
    """The numbers of Statements 7.9 and 7.15."""
    step, emit = np.array([[0.8, 0.1], [0.1, 0.8]]), np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    days = np.full(2, 0.5), step, np.full(2, 0.1), emit[:, [1, 2, 2]].T
    alpha, beta = forward_backward(days)
    np.testing.assert_allclose(alpha, [[0.1, 0.1], [0.009, 0.063], [0.00135, 0.03591]], rtol=1e-12)
    np.testing.assert_allclose(beta, [[0.00519, 0.03207], [0.015, 0.057], [0.1, 0.1]], rtol=1e-12)
    np.testing.assert_allclose((alpha * beta).sum(1), 0.003726, rtol=1e-12)
    np.testing.assert_allclose((alpha * beta)[:, 1] / 0.003726, [0.861, 0.964, 0.964], atol=5e-4)
    assert joint(days, (1, 1, 1)) == pytest.approx(0.003136, rel=1e-12)
    assert pytest.approx(0.842, abs=5e-4) == 0.003136 / 0.003726


def test_equal_rows_are_a_mixture(chain):
    """Statement 7.21."""
    start, _, _, emitted = chain
    alike = start, np.tile(0.7 * start, (STATES, 1)), np.full(STATES, 0.3), emitted
    _, _, _, states = counts_of(alike)
    mixture = start * emitted
    np.testing.assert_allclose(states, mixture / mixture.sum(1, keepdims=True), rtol=ROUNDING)


# ---------------------------------------------------------------------------------------------------------------------
# Chapter 8: topic models

TOPICS, ALPHA, ETA = 2, 0.7, 0.4
BETA = np.array([[0.8, 0.2], [0.2, 0.8]])
DOCUMENTS = ((0, 1, 1), (2, 0, 2))
WORDS = 3


def log_dirichlet_integral(counts, concentration):
    """Of a product of probabilities to these powers: the log of the ratio of two normalisers, vector by vector."""
    counts = np.asarray(counts, dtype=float)
    size = counts.shape[-1]
    whole = gammaln(size * concentration) - gammaln(size * concentration + counts.sum(-1))
    return (whole + (gammaln(concentration + counts) - gammaln(concentration)).sum(-1)).sum()


def terms_of(words, alpha):
    """Statement 8.4: the topics of all tokens, and p(w, z)."""
    topics = np.array(list(product(range(TOPICS), repeat=len(words))))
    counts = (topics[:, :, None] == np.arange(TOPICS)).sum(1)
    prior = np.exp([log_dirichlet_integral(count, alpha) for count in counts])
    return topics, prior * BETA[topics, list(words)].prod(1)


def by_quadrature(words, alpha):
    """The integral of Statement 8.4 over the share of the first topic."""
    share, weight = np.polynomial.legendre.leggauss(400)
    share, weight = (share + 1) / 2, weight / 2
    log_prior = gammaln(2 * alpha) - 2 * gammaln(alpha) + (alpha - 1) * (np.log(share) + np.log1p(-share))
    likelihood = np.prod([share * BETA[0, w] + (1 - share) * BETA[1, w] for w in words], axis=0)
    return weight @ (np.exp(log_prior) * likelihood)


def log_joint(topics):
    """Statement 8.11, for topics of the tokens of `DOCUMENTS`, one after another."""
    in_documents, in_topics = np.zeros((len(DOCUMENTS), TOPICS)), np.zeros((TOPICS, WORDS))
    places = [(d, v) for d, words in enumerate(DOCUMENTS) for v in words]
    for (d, v), k in zip(places, topics, strict=True):
        in_documents[d, k] += 1
        in_topics[k, v] += 1
    return log_dirichlet_integral(in_documents, ALPHA) + log_dirichlet_integral(in_topics, ETA)


@pytest.mark.parametrize("words", [(0, 0), (0, 1), (0, 1, 1, 0, 0)])
def test_the_integral_is_a_sum_over_topics(words):
    """Statement 8.4; with alpha = 2 the integrand is a polynomial, for which the quadrature is exact."""
    assert terms_of(words, 2.0)[1].sum() == pytest.approx(by_quadrature(words, 2.0), rel=1e-12)


def test_two_tokens():
    """The numbers of Statements 8.5 and 8.23."""
    for words, total, together, first in (((0, 0), 0.28, 0.810, 0.857), ((0, 1), 0.22, 0.485, 0.727)):
        topics, terms = terms_of(words, 1.0)
        assert terms.sum() == pytest.approx(total, rel=1e-12)
        assert terms[topics[:, 0] == topics[:, 1]].sum() / total == pytest.approx(together, abs=5e-4)
        assert terms[topics[:, 0] == 0].sum() / total == pytest.approx(first, abs=5e-4)


def test_conditionals_are_ratios_of_the_collapsed_joint():
    """Statement 8.12, for each token and all topics of the others."""
    places = np.array([(d, v) for d, words in enumerate(DOCUMENTS) for v in words])
    for topics in product(range(TOPICS), repeat=len(places)):
        topics = np.array(topics)
        for i, (d, v) in enumerate(places):
            logs = np.array([log_joint(np.where(np.arange(len(topics)) == i, k, topics)) for k in range(TOPICS)])
            others = np.arange(len(topics)) != i
            weights = []
            for k in range(TOPICS):
                here = others & (topics == k)
                in_document, of_word = (here & (places[:, 0] == d)).sum(), (here & (places[:, 1] == v)).sum()
                weights.append((in_document + ALPHA) * (of_word + ETA) / (here.sum() + WORDS * ETA))
            np.testing.assert_allclose(np.exp(logs - logsumexp(logs)), weights / np.sum(weights), rtol=ROUNDING)


def test_the_gap_of_mean_field_is_a_divergence():
    """Statements 8.15 to 8.17: the bound by updates, and KL(q || p) by a grid over theta and a sum over z."""
    words = [0, 0]
    g = np.array([1.5, 1.2])
    for _ in range(500):
        expected = digamma(g) - digamma(g.sum())
        q = np.exp(expected) * BETA[:, words].T
        q /= q.sum(1, keepdims=True)
        g = 1 + q.sum(0)
    expected = digamma(g) - digamma(g.sum())
    entropy = gammaln(g).sum() - gammaln(g.sum()) - (g - 1) @ expected - (q * np.log(q)).sum()
    bound = (q * (expected + np.log(BETA[:, words].T))).sum() + entropy  # the prior's density is 1
    share = (np.arange(200_000) + 0.5) / 200_000
    logs = np.log(np.stack([share, 1 - share]))
    log_q = (g - 1) @ logs - gammaln(g).sum() + gammaln(g.sum())
    divergence = 0.0
    for z in product(range(TOPICS), repeat=2):
        chance = q[0, z[0]] * q[1, z[1]]
        log_p = logs[z[0]] + logs[z[1]] + np.log(BETA[z[0], 0] * BETA[z[1], 0] / 0.28)
        divergence += chance * (np.exp(log_q) * (np.log(chance) + log_q - log_p)).mean()
    assert np.log(0.28) - bound == pytest.approx(divergence, rel=1e-6)  # midpoints of 200,000 cells
    assert bound == pytest.approx(-1.423, abs=5e-4)
    assert g[0] * g[1] / g.sum() ** 2 / (g.sum() + 1) == pytest.approx(0.041, abs=5e-4)
    posterior = (share * BETA[0, 0] + (1 - share) * BETA[1, 0]) ** 2 / 0.28
    variance = (share**2 * posterior).mean() - (share * posterior).mean() ** 2
    assert variance == pytest.approx(0.059, abs=5e-4)


def test_one_particle_is_unbiased():
    """Statement 8.20: the mean of its weight over every way it can go."""
    words = (0, 1, 1, 0)
    mean = 0.0
    for path in product(range(TOPICS), repeat=len(words)):
        chance = weight = 1.0
        for n, (k, v) in enumerate(zip(path, words, strict=True)):
            counts = np.bincount(path[:n], minlength=TOPICS)
            terms = BETA[:, v] * (counts + ALPHA) / (n + TOPICS * ALPHA)
            weight, chance = weight * terms.sum(), chance * terms[k] / terms.sum()
        mean += chance * weight
    assert mean == pytest.approx(terms_of(words, ALPHA)[1].sum(), rel=1e-12)


def test_softmax_turns_counts_minus_one_into_counts():
    """Statement 8.9: the slope of the log density over logits is 0 at counts + alpha, for alpha below 1."""
    counts, alpha = np.array([3.0, 0.0, 1.5]), 0.3
    mode = np.log((counts + alpha) / (counts + alpha).sum())

    def density(logits):
        log_theta = logits - logsumexp(logits)
        return (counts + alpha - 1) @ log_theta + log_theta.sum()

    slopes = [(density(mode + step) - density(mode - step)) / 2e-5 for step in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(slopes, 0, atol=1e-8)  # central differences are wrong by 1e-5 squared
    sites = [np.log(row) for row in ([0.6, 0.2, 0.2], [0.3, 0.3, 0.4])]
    jacobian = [np.linalg.det(np.diag(np.exp(x)) - np.outer(np.exp(x), np.exp(x)) + np.ones((3, 3)) / 3) for x in sites]
    np.testing.assert_allclose(jacobian[0] / jacobian[1], np.exp(sites[0].sum() - sites[1].sum()), rtol=ROUNDING)
