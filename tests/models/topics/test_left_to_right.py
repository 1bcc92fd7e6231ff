"""The left-to-right estimator against sums over all topics: unbiased, exact where nothing is drawn, the same on any threads."""

import itertools

import numpy as np
import pytest
from naive import near
from naive_topics import log_dirichlet_multinomial
from scipy import stats
from scipy.special import logsumexp
from two_stage import LIMIT, assert_standard_normal, of_means, of_p_value, of_student

from models.data import ZooError
from models.topics.left_to_right import left_to_right
from models.topics.sampling.corpus import Corpus, corpus_of_documents


def log_probability(words, beta, alpha):
    """Log p(w | β, α): all K^N topics of a document."""
    logs = []
    for topics in itertools.product(range(len(alpha)), repeat=len(words)):
        counts = np.bincount(np.array(topics, int), minlength=len(alpha))
        with np.errstate(divide="ignore"):
            logs.append(log_dirichlet_multinomial(counts, alpha) + np.log(beta[list(topics), list(words)]).sum())
    return logsumexp(logs)


def case(kind, K=3, V=4):
    """β (K, V) and α (K,)."""
    rng = np.random.default_rng(7)
    beta, alpha = rng.dirichlet(np.full(V, 0.4), K), np.full(K, 0.2)
    if kind == "asymmetric":
        alpha = np.array([2.0, 0.05, 0.4])
    if kind == "zeros":
        beta[0, :2] = beta[1, 2] = 0.0
    return beta, alpha


KINDS = ("symmetric", "asymmetric", "zeros")
WORDS = ((0, 1, 1, 3, 0), (2, 2, 3), (3, 1, 2, 0, 1, 2))


def estimates(words, beta, alpha, copies, particles, seed):
    """Independent estimates of one document: it stands in the corpus many times."""
    corpus = Corpus(np.tile(np.array(words, np.int32), copies), np.arange(copies + 1) * len(words), beta.shape[1])
    return left_to_right(corpus, beta, alpha, particles, seed)


def errors_of_many(words, beta, alpha, wanted, seed, times):
    """Of estimates by 20,000 particles, whose standard deviation is a tenth of that by 200: their mean, and their size."""
    some = np.exp(estimates(words, beta, alpha, 200, 200, seed) - wanted)
    many = np.exp(estimates(words, beta, alpha, 4 * times, 20_000, seed + 1) - wanted) - 1
    error = some.std(ddof=1) / 10 + 1e-12
    size = stats.f(len(many), 199).sf((many**2).mean() / error**2)
    return [of_student(many.mean() / error * np.sqrt(len(many)), 199), of_p_value(size)]


@pytest.mark.slow
@pytest.mark.parametrize("particles", [1, 2, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_unbiased(kind, particles):
    """Means of estimates against the sum over all topics."""
    beta, alpha = case(kind)
    wanted = [log_probability(words, beta, alpha) for words in WORDS]

    def deviations(seed, times):
        size = 20_000 * times
        found = [estimates(words, beta, alpha, size, particles, seed) for words in WORDS]
        return [of_means(np.exp(each - log), 1.0) for each, log in zip(found, wanted, strict=True)]

    assert_standard_normal(deviations)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_particles(kind):
    """The variance falls as one over the particles."""
    beta, alpha = case(kind)
    wanted = [log_probability(words, beta, alpha) for words in WORDS]

    def deviations(seed, times):
        pairs = zip(WORDS, wanted, strict=True)
        return np.concatenate([errors_of_many(words, beta, alpha, log, seed, times) for words, log in pairs])

    assert_standard_normal(deviations)


def without_resampling(words, beta, alpha, particles):
    """The expected product of mean weights of three words if particles are not resampled; particles 0: the limit of many."""

    def weights(topics, word):
        counts = np.bincount(np.array(topics, int), minlength=len(alpha))
        return beta[:, word] * (counts + alpha) / (len(topics) + alpha.sum())

    def moved(topics):
        found = {topics: 1.0}
        for place in range(len(topics)):
            new = {}
            for state, prob in found.items():
                own = weights(state[:place] + state[place + 1 :], words[place])
                for k, share in enumerate(own / own.sum()):
                    after = (*state[:place], k, *state[place + 1 :])
                    new[after] = new.get(after, 0.0) + prob * share
            found = new
        return found

    start, second, third, both = weights((), words[0]), 0.0, 0.0, 0.0
    for k, first in enumerate(start / start.sum()):
        for state, prob in moved((k,)).items():
            own = weights(state, words[1])
            for j, share in enumerate(own / own.sum()):
                for last, chance in moved((*state, j)).items():
                    path, end = first * prob * share * chance, weights(last, words[2]).sum()
                    second, third, both = second + path * own.sum(), third + path * end, both + path * own.sum() * end
    same = 1 / particles if particles else 0.0
    return start.sum() * (same * both + (1 - same) * second * third)


@pytest.mark.slow
def test_resampling_is_needed():
    """One particle is unbiased; the mean of two is not, nor is the limit of many; ours has the right mean."""
    beta, alpha, words = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.1, 0.1]), (0, 1, 0)
    wanted = np.exp(log_probability(words, beta, alpha))
    assert without_resampling(words, beta, alpha, 1) == pytest.approx(wanted, rel=1e-12)
    assert without_resampling(words, beta, alpha, 2) > 1.03 * wanted
    assert without_resampling(words, beta, alpha, 0) > 1.07 * wanted

    def deviations(seed, times):
        ratios = np.exp(estimates(words, beta, alpha, 40_000 * times, 2, seed)) / wanted
        assert LIMIT * ratios.std() / np.sqrt(len(ratios)) < 0.013  # enough to tell
        return of_means(ratios, 1.0)

    assert_standard_normal(deviations)


def test_exact_where_nothing_is_drawn():
    """No token: 0. One: Σ_k β_kv α_k / Σ α. One topic: the product of its words. Up to rounding."""
    rng = np.random.default_rng(0)
    beta, alpha = rng.dirichlet(np.ones(6), 11), rng.gamma(1.0, size=11) + 0.01
    words = [[], *([v] for v in range(6)), []]
    wanted = [0.0, *np.log(alpha @ beta / alpha.sum()), 0.0]
    assert near(left_to_right(corpus_of_documents(words, 6), beta, alpha), wanted, rtol=1e-12)
    long = corpus_of_documents([rng.integers(6, size=40) for _ in range(20)], 6)
    sums = [np.log(beta[2, word]).sum() for word in np.split(long.word, long.starts[1:-1])]
    assert near(left_to_right(long, beta[2:3], 0.3, 5), sums, rtol=1e-12)


def test_impossible_words():
    """A word that no topic has: -inf, wherever it stands; other documents are as they would be without it."""
    beta = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    corpus = corpus_of_documents([[0, 1, 2], [0, 3, 1], [2, 0, 3], [1, 2]], 4)
    found = left_to_right(corpus, beta, 0.5)
    assert np.isneginf(found).tolist() == [False, True, True, False]
    assert not np.isnan(found).any()


def test_seed_and_document_alone():
    """The same on one thread and two, whatever the other documents; another seed and another place are other numbers."""
    rng = np.random.default_rng(1)
    beta = rng.dirichlet(np.full(30, 0.2), 9)
    corpus = corpus_of_documents([rng.integers(30, size=25)] * 40, 30)
    found = left_to_right(corpus, beta, 0.1, 3, seed=5)
    assert (found == left_to_right(corpus, beta, 0.1, 3, seed=5, num_threads=2)).all()
    changed = corpus._replace(word=np.concatenate([corpus.word[:500], rng.integers(30, size=500).astype(np.int32)]))
    assert (found[:20] == left_to_right(changed, beta, 0.1, 3, seed=5)[:20]).all()
    assert len(set(found)) == 40
    assert (found != left_to_right(corpus, beta, 0.1, 3, seed=6)).all()


def test_tiny_concentrations():
    """α far below the rounding of counts: every document keeps to one topic, Σ_k Π β_kv / K, but for terms of order α.

    As in `test_many_particles`, 20,000 particles against the spread of 200.
    """
    beta, words = np.random.default_rng(2).dirichlet(np.ones(5), 3), (0, 1, 2, 3, 4, 0)
    wanted = np.log(beta[:, words].prod(1).mean())
    assert_standard_normal(lambda seed, times: errors_of_many(words, beta, 1e-20, wanted, seed, times))


def test_refusals():
    """What the estimator cannot take, in one message each."""
    corpus, beta = corpus_of_documents([[0, 1]], 2), np.full((3, 2), 0.5)
    wrong = [
        {"word_probs": beta.T},
        {"word_probs": -beta},
        {"word_probs": beta * np.nan},
        {"alpha": 0.0},
        {"alpha": [1.0]},
        {"particles": 0},
        {"num_threads": 0},
    ]
    for change in wrong:
        with pytest.raises(ZooError):
            left_to_right(corpus, **({"word_probs": beta, "alpha": 0.1} | change))
