"""Collapsed Gibbs sampling for topics."""

import math
from typing import Any

import numpy as np

from labs.parts.draws import Draws
from labs.parts.lab import Case, Iterations, Lab, Mistake, State, made_once
from labs.parts.values import Values

STORY = """\
What are these texts about? A topic is a distribution over words, and each document mixes a few topics. Nobody
tells us which token belongs to which topic. EM would need an integral that nobody can do. But given the topics
of all *other* tokens, the topic of one token has K possible values, and their probabilities are ratios of
counts. So we draw token after token, and the counts become topics.
"""
MATHS = """\
Integrated over theta and beta, p(topics, words) is a product of Dirichlet-multinomial terms. When token i moves to
topic k, one count in its document and one in its word grow by 1, and Gamma functions of neighbours divide to
ratios: Γ(n + 1) / Γ(n) = n. What remains is

    p(topic_i = k | other topics, words) ∝ (in_doc_k + α) · (of_word_k + γ) / (size_k + V γ)

with counts that leave out token i itself. The denominator of the first factor is the same for all k. The
denominator of the second is not: without it, big topics swallow everything.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles: the joint density of topics and words, and nothing else


def log_joint(doc: Any, word: Any, topic: Any, num_words: Any, num_topics: Any, alpha: Any, gamma: Any) -> float:
    """The log joint density of topics and words by the chain rule: each token given those before it (Pólya urns)."""
    total = 0.0
    for i in range(len(doc)):
        before = range(i)
        in_doc = sum(doc[j] == doc[i] and topic[j] == topic[i] for j in before)
        length = sum(doc[j] == doc[i] for j in before)
        of_word = sum(word[j] == word[i] and topic[j] == topic[i] for j in before)
        size = sum(topic[j] == topic[i] for j in before)
        total += math.log((in_doc + alpha) / (length + num_topics * alpha))
        total += math.log((of_word + gamma) / (size + num_words * gamma))
    return total


def count(doc: Any, word: Any, topic: Any, num_docs: Any, num_words: Any, num_topics: Any) -> Any:
    """Token by token."""
    in_doc = [[0] * num_topics for _ in range(num_docs)]
    of_word = [[0] * num_words for _ in range(num_topics)]
    for d, w, k in zip(doc, word, topic, strict=True):
        in_doc[d][k] += 1
        of_word[k][w] += 1
    return np.array(in_doc), np.array(of_word)


def token_probs(i: Any, doc: Any, word: Any, topic: Any, num_words: Any, num_topics: Any, alpha: Any, gamma: Any) -> Any:
    """Bayes' rule: the joint density with the token in each topic."""
    logs = []
    for k in range(num_topics):
        moved = [k if place == i else int(old) for place, old in enumerate(topic)]
        logs.append(log_joint(doc, word, moved, num_words, num_topics, alpha, gamma))
    weights = np.exp(np.array(logs) - max(logs))
    return weights / weights.sum()


def sweep(rng: Any, doc: Any, word: Any, topic: Any, num_words: Any, num_topics: Any, alpha: Any, gamma: Any) -> Any:
    """Token by token, from weights that need not sum to 1."""
    found = list(topic)
    for i in range(len(doc)):
        weights = _weights(0, i, doc, word, found, num_words, num_topics, alpha, gamma)
        left, k = rng.random() * sum(weights), 0
        while left > weights[k]:
            left, k = left - weights[k], k + 1
        found[i] = k
    return np.array(found)


def topic_words(of_word: Any, gamma: Any) -> Any:
    """Topic by topic."""
    return np.array([[(one + gamma) / (sum(row) + len(row) * gamma) for one in row] for row in of_word])


def _weights(
    own: int, i: int, doc: Any, word: Any, topic: Any, num_words: int, num_topics: int, alpha: float, gamma: float
) -> list[float]:
    """The formula with counts from loops; ``own``: how often token i counts in them (0 is right)."""
    in_doc, of_word, size = ([own * (topic[i] == k) for k in range(num_topics)] for _ in range(3))
    for j, k in enumerate(topic):
        if j != i:
            in_doc[k] += doc[j] == doc[i]
            of_word[k] += word[j] == word[i]
            size[k] += 1
    return [(in_doc[k] + alpha) * (of_word[k] + gamma) / (size[k] + num_words * gamma) for k in range(num_topics)]


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _tokens(rng: np.random.Generator, size: int, topics: int) -> dict[str, np.ndarray]:
    return {
        "doc": np.sort(rng.integers(3, size=size)),
        "word": rng.integers(4, size=size),
        "topic": rng.integers(topics, size=size),
    }


def _count_cases(rng: np.random.Generator) -> list[Case]:
    return [Case("18 tokens", _tokens(rng, 18, 3) | {"num_docs": 3, "num_words": 5, "num_topics": 4})]


def _prob_cases(rng: np.random.Generator) -> list[Case]:
    tokens = _tokens(rng, 14, 3)
    numbers = {"num_words": 4, "num_topics": 3, "alpha": 0.6, "gamma": 0.3}
    return [Case(f"token {i} of 14", {"i": i} | tokens | numbers) for i in (0, 5, 13)]


def _sweep_cases(rng: np.random.Generator) -> list[Case]:
    """Six tokens, of which the first in each document depends much on the topics of the others."""
    tokens = {"doc": np.array([0, 0, 0, 1, 1, 1]), "word": np.array([0, 0, 1, 1, 2, 2]), "topic": np.array([0, 1, 0, 1, 0, 1])}
    return [Case("six tokens", tokens | {"num_words": 3, "num_topics": 2, "alpha": 0.4, "gamma": 0.3})]


def _word_cases(rng: np.random.Generator) -> list[Case]:
    return [Case("three topics", {"of_word": rng.integers(6, size=(3, 5)), "gamma": 0.4})]


def _normal(weights: Any) -> Any:
    return np.asarray(weights) / np.sum(weights)


def _factors(i: Any, doc: Any, word: Any, topic: Any, topics: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three counts without token i."""
    others = np.arange(len(doc)) != i
    held = (others & (doc == doc[i]), others & (word == word[i]), others)
    in_doc, of_word, size = (np.bincount(topic[rows], minlength=topics) for rows in held)
    return in_doc, of_word, size


def _no_words(i: Any, doc: Any, word: Any, topic: Any, words: Any, topics: Any, alpha: Any, gamma: Any) -> Any:
    return _normal(_factors(i, doc, word, topic, topics)[0] + alpha)


def _no_document(i: Any, doc: Any, word: Any, topic: Any, words: Any, topics: Any, alpha: Any, gamma: Any) -> Any:
    _, of_word, size = _factors(i, doc, word, topic, topics)
    return _normal((of_word + gamma) / (size + words * gamma))


def _no_size(i: Any, doc: Any, word: Any, topic: Any, words: Any, topics: Any, alpha: Any, gamma: Any) -> Any:
    in_doc, of_word, _ = _factors(i, doc, word, topic, topics)
    return _normal((in_doc + alpha) * (of_word + gamma))


def _gamma_once(i: Any, doc: Any, word: Any, topic: Any, words: Any, topics: Any, alpha: Any, gamma: Any) -> Any:
    in_doc, of_word, size = _factors(i, doc, word, topic, topics)
    return _normal((in_doc + alpha) * (of_word + gamma) / (size + gamma))


def _no_prior(i: Any, doc: Any, word: Any, topic: Any, words: Any, topics: Any, alpha: Any, gamma: Any) -> Any:
    in_doc, of_word, size = _factors(i, doc, word, topic, topics)
    return _normal(in_doc * of_word / size)


def _all_at_once(rng: Any, doc: Any, word: Any, topic: Any, *numbers: Any) -> Any:
    probs = [_normal(_weights(0, i, doc, word, topic, *numbers)) for i in range(len(doc))]
    return np.array([(rng.random() > each.cumsum()[:-1]).sum() for each in probs])


def _best(rng: Any, doc: Any, word: Any, topic: Any, *numbers: Any) -> Any:
    found = list(topic)
    for i in range(len(doc)):
        found[i] = int(np.argmax(_weights(0, i, doc, word, found, *numbers)))
    return np.array(found)


def _with_itself(rng: Any, doc: Any, word: Any, topic: Any, *numbers: Any) -> Any:
    found = list(topic)
    for i in range(len(doc)):
        found[i] = int((rng.random() > _normal(_weights(1, i, doc, word, found, *numbers)).cumsum()[:-1]).sum())
    return np.array(found)


COUNT = Values(
    "count",
    3,
    _count_cases,
    count,
    (
        Mistake(
            "in_doc of `count` has shares of topics; keep the counts",
            lambda *given: count(*given)[0] / count(*given)[0].sum(1, keepdims=True),
            "in_doc",
        ),
        Mistake(
            "of_word of `count` says whether a word is in a topic, not how often",
            lambda *given: np.minimum(count(*given)[1], 1),
            "of_word",
        ),
        Mistake(
            "in_doc of `count` says whether a topic is in a document, not how often",
            lambda *given: np.minimum(count(*given)[0], 1),
            "in_doc",
        ),
    ),
    ("in_doc", "of_word"),
)
PROBS = Values(
    "token_probs",
    8,
    _prob_cases,
    token_probs,
    (
        Mistake(
            "`token_probs` counts token i itself: leave it out of all three counts", lambda *given: _normal(_weights(1, *given))
        ),
        Mistake("`token_probs` does not look at the word: the second factor is missing", _no_words),
        Mistake("`token_probs` does not look at the document: the first factor is missing", _no_document),
        Mistake("`token_probs` does not divide by size_k + V γ: big topics swallow the others", _no_size),
        Mistake("`token_probs` divides by size_k + γ; γ counts once for each of V words", _gamma_once),
        Mistake("`token_probs` has no prior: α and γ are missing", _no_prior),
    ),
    ("probabilities",),
    shares=("probabilities",),
    plural=("probabilities",),
)
SWEEP = Draws(
    "sweep",
    6,
    _sweep_cases,
    sweep,
    (
        Mistake("`sweep` draws all tokens from the old topics: each must see the newest topics of the others", _all_at_once),
        Mistake("`sweep` takes the most probable topic: draw from the probabilities", _best),
        Mistake("`sweep` counts the token itself when it draws it", _with_itself),
    ),
)
WORDS = Values(
    "topic_words",
    3,
    _word_cases,
    topic_words,
    (
        Mistake("`topic_words` has no prior: γ is missing", lambda of_word, gamma: topic_words(of_word, 0.0)),
        Mistake(
            "`topic_words` makes columns sum to 1; each topic should", lambda of_word, gamma: topic_words(of_word.T, gamma).T
        ),
        Mistake(
            "`topic_words` adds γ above and not V γ below",
            lambda of_word, gamma: (of_word + gamma) / of_word.sum(1, keepdims=True),
        ),
    ),
    ("probabilities",),
    shares=("probabilities",),
    plural=("probabilities",),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run


@made_once
def data() -> dict[str, np.ndarray]:
    """12 documents of 20 tokens: for each token its document and its word, a pixel of a grid of 4 × 4.

    The topics are two rows and two columns of the grid.
    """
    rng = np.random.default_rng(6)
    grid = np.arange(16).reshape(4, 4)
    topics = np.array([grid[0], grid[2], grid[:, 0], grid[:, 2]])
    shares = rng.dirichlet(np.full(4, 0.3), 12)
    words = [[rng.choice(topics[rng.choice(4, p=share)]) for _ in range(20)] for share in shares]
    return {"doc": np.repeat(np.arange(12), 20), "word": np.ravel(words)}


def _start() -> State:
    return {"topic": np.random.default_rng(0).integers(4, size=240), "beta": np.full((4, 16), 1 / 16)}


def _advance(student: Any, state: State, iteration: int) -> State:
    doc, word = data().values()
    topic = student.sweep(np.random.default_rng(iteration), doc, word, state["topic"].astype(int), 16, 4, 0.3, 0.1)
    return {"topic": topic, "beta": student.topic_words(count(doc, word, np.asarray(topic), 12, 16, 4)[1], 0.1)}


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import matrix

    matrix(axes, np.concatenate([np.pad(row.reshape(4, 4), 1, constant_values=np.nan) for row in state["beta"]], axis=1))
    axes.set(xticks=[], yticks=[], xlabel="words of the four topics")


ITERATIONS = Iterations(_start, _advance, 20, panels=_panels, random=True)
LAB = Lab(
    "collapsed_gibbs",
    "Collapsed Gibbs sampling for topics",
    75,
    STORY,
    MATHS,
    (COUNT, PROBS, SWEEP, WORDS),
    data,
    iterations=ITERATIONS,
)
