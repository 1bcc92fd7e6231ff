"""Naive Bayes from counts to log odds, with a prior."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labs.parts.lab import Case, Lab, Mistake, made_once
from labs.parts.naive import exp_at_once, exp_less_largest_of_all, softmax
from labs.parts.values import Values

STORY = """\
Is a mail spam? Count in how many spam mails each word occurs, and in how many of the others, and Bayes' rule
does the rest. It needs a pencil and one idea: given the kind of mail, words do not know of one another. But
one word that no spam mail has ever had makes spam impossible, whatever else the mail says. A prior cures
this. You write the counts, the estimates, and the classifier, which turns out to be a straight line.
"""
MATHS = """\
Given the classes, the log posterior is a sum with one term for each class and word, and no parameter is in two
of them. So each is maximised alone: set the derivative of

    ones log p + (n − ones) log(1 − p) + (a − 1) log p + (b − 1) log(1 − p)

to zero. With a = b = 2 it is Laplace's rule, (ones + 1) / (n + 2). A new mail has P(y | x) ∝ P(y) Π_d P(x_d | y):
P(y) stands outside the product, once. In logarithms the product is a sum, and as x_d is 0 or 1, the
difference between two classes is linear in x.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles


def count(x: Any, y: Any, num_classes: Any) -> Any:
    """Mail by mail."""
    n, ones = [0] * num_classes, [[0] * x.shape[1] for _ in range(num_classes)]
    for row, label in zip(x, y, strict=True):
        n[label] += 1
        for d, value in enumerate(row):
            ones[label][d] += int(value)
    return np.array(n), np.array(ones)


def estimate(n: Any, ones: Any, alpha: Any, a: Any, b: Any) -> Any:
    """Word by word."""
    probs = [(own + alpha - 1) / (sum(n) + len(n) * (alpha - 1)) for own in n]
    features = [[(one + a - 1) / (size + a + b - 2) for one in row] for size, row in zip(n, ones, strict=True)]
    return np.array(probs), np.array(features)


def log_joint(x: Any, class_probs: Any, feature_probs: Any) -> Any:
    """Word by word: a product of probabilities would be 0 for a long mail."""
    found: list[list[float]] = []
    for row in x:
        found.append([])
        for share, probs in zip(class_probs, feature_probs, strict=True):
            words = sum(math.log(p if one else 1 - p) for one, p in zip(row, probs, strict=True))
            found[-1].append(math.log(share) + words)
    return np.array(found)


def log_odds(class_probs: Any, feature_probs: Any) -> Any:
    """From the log joint of mails without words, and with one."""
    mails = np.concatenate([np.zeros((1, feature_probs.shape[1])), np.eye(feature_probs.shape[1])])
    odds = np.diff(log_joint(mails, class_probs, feature_probs))[:, 0]
    return odds[0], odds[1:] - odds[0]


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _count_cases(rng: np.random.Generator) -> list[Case]:
    x, y = rng.integers(2, size=(20, 5)), rng.integers(3, size=20)
    return [
        Case("three classes", {"x": x, "y": y, "num_classes": 3}),
        Case("a class without mails", {"x": x, "y": y, "num_classes": 4}),
    ]


def _estimate_cases(rng: np.random.Generator) -> list[Case]:
    n = rng.integers(5, 12, 3).astype(float)
    ones = np.minimum(rng.integers(0, 9, (3, 4)), n[:, None]).astype(float)
    return [
        Case("three classes", {"n": n, "ones": ones, "alpha": 2.5, "a": 1.7, "b": 3.0}),
        Case("a word that was never seen", {"n": n[:2], "ones": 0 * ones[:2], "alpha": 2.0, "a": 2.0, "b": 2.5}),
    ]


def _probs(rng: np.random.Generator, classes: int, words: int = 5) -> dict[str, np.ndarray]:
    return {"class_probs": rng.dirichlet(np.full(classes, 3.0)), "feature_probs": rng.uniform(0.1, 0.9, (classes, words))}


def _joint_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("three classes", {"x": rng.integers(2, size=(8, 5))} | _probs(rng, 3)),
        Case("mails of 2,000 words", {"x": rng.integers(2, size=(3, 2_000))} | _probs(rng, 3, 2_000), True),
    ]


def _posterior_cases(rng: np.random.Generator) -> list[Case]:
    """A long mail beside one that is twice as long: the largest of all log_p is no help for its row."""
    near = rng.normal(size=(10, 3)) - 2
    long = near - 1_000 * (1 + np.arange(10)[:, None] % 2)
    return [Case("short mails", {"log_p": near}), Case("mails of a thousand words", {"log_p": long}, True)]


def _odds_cases(rng: np.random.Generator) -> list[Case]:
    return [Case(f"probabilities {number}", _probs(rng, 2)) for number in (1, 2)]


def _with_log_priors(times: float, x: Any, class_probs: Any, feature_probs: Any) -> Any:
    """The log joint with ``times`` more log class probabilities."""
    return log_joint(x, class_probs, feature_probs) + times * np.log(class_probs)


def _log_of_product(x: Any, class_probs: Any, feature_probs: Any) -> Any:
    factors = np.where(x[:, None] == 1, feature_probs, 1 - feature_probs)
    return np.log(class_probs * factors.prod(2))


def _divided(by: Callable[[Any, Any, Any, Any], Any]) -> Callable[..., Any]:
    """feature_probs that are divided by another number: ``by`` has (n, ones, a, b), with n as a column."""
    return lambda n, ones, alpha, a, b: (ones + a - 1) / by(n[:, None], ones, a, b)


COUNT = Values(
    "count",
    3,
    _count_cases,
    count,
    (
        Mistake(
            "the second result of `count` has how often each word is absent; count the ones",
            lambda x, y, classes: count(1 - x, y, classes)[1],
            "ones",
        ),
        Mistake(
            "the second result of `count` is a share: keep the counts, the prior is added to them",
            lambda x, y, classes: count(x, y, classes)[1] / count(x, y, classes)[0][:, None],
            "ones",
        ),
        Mistake("`count` counts words in its first result; count rows", lambda x, y, c: count(x, y, c)[1].sum(1), "n"),
    ),
    ("n", "ones"),
    plural=("ones",),
)
ESTIMATE = Values(
    "estimate",
    6,
    _estimate_cases,
    estimate,
    (
        Mistake(
            "class_probs of `estimate` are n / N: the prior's α − 1 is forgotten", lambda n, *rest: n / n.sum(), "class_probs"
        ),
        Mistake(
            "class_probs of `estimate` have α for α − 1: that is the posterior mean; the mode is asked for",
            lambda n, ones, alpha, a, b: (n + alpha) / (n.sum() + len(n) * alpha),
            "class_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are ones / n: a word that was never seen has probability 0; add the prior",
            lambda n, ones, *prior: ones / n[:, None],
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` have a for a − 1 and b for b − 1: that is the posterior mean, not the mode",
            lambda n, ones, alpha, a, b: (ones + a) / (n[:, None] + a + b),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are divided by n + a − 1: the prior of absence, b − 1, is forgotten",
            lambda n, ones, alpha, a, b: (ones + a - 1) / (n[:, None] + a - 1),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` exchange a and b: a belongs to words that are present",
            lambda n, ones, alpha, a, b: (ones + b - 1) / (n[:, None] + a + b - 2),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are divided by n + a + b − 1: each of a and b is less 1, so it is n + a + b − 2",
            _divided(lambda n, ones, a, b: n + a + b - 1),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are divided by n alone: what the prior adds to the counts belongs there, too",
            _divided(lambda n, ones, a, b: n),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are divided by n + 2a − 2: it is n + a + b − 2",
            _divided(lambda n, ones, a, b: n + 2 * a - 2),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` count the mails of all classes below: divide by those of the class, n_c + a + b − 2",
            _divided(lambda n, ones, a, b: n.sum() + a + b - 2),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are divided by a number of words: count the mails of the class, n_c + a + b − 2",
            _divided(lambda n, ones, a, b: ones.sum(1, keepdims=True) + a + b - 2),
            "feature_probs",
        ),
        Mistake(
            "feature_probs of `estimate` are Laplace's rule whatever a and b are: it is their case a = b = 2",
            lambda n, ones, *prior: (ones + 1) / (n[:, None] + 2),
            "feature_probs",
        ),
    ),
    ("class_probs", "feature_probs"),
    shares=("class_probs", "feature_probs"),
    plural=("class_probs", "feature_probs"),
)
JOINT = Values(
    "log_joint",
    4,
    _joint_cases,
    log_joint,
    (
        Mistake(
            "`log_joint` ignores absent words: each adds log(1 − p)",
            lambda x, probs, p: np.log(probs) + x @ np.log(p).T,
        ),
        Mistake(
            "`log_joint` has the class probability once for every word: it stands outside the product, once",
            lambda x, *probs: _with_log_priors(x.shape[1] - 1, x, *probs),
        ),
        Mistake("`log_joint` leaves out log class_probs", lambda x, *probs: _with_log_priors(-1, x, *probs)),
        Mistake(
            "`log_joint` adds probabilities of words: add their logarithms",
            lambda x, probs, p: np.log(probs) + x @ p.T + (1 - x) @ (1 - p).T,
        ),
        Mistake("`log_joint` is −infinity for long mails: a product underflows; add logarithms", _log_of_product),
        Mistake(
            "`log_joint` adds class_probs; add their logarithms",
            lambda x, probs, p: _with_log_priors(-1, x, probs, p) + probs,
        ),
        Mistake(
            "`log_joint` exchanges p and 1 − p: a word that is present has p",
            lambda x, *probs: log_joint(1 - x, *probs),
        ),
        Mistake(
            "`log_joint` makes the probabilities of every row sum to 1: that is p(y | x); p(y, x) is asked for",
            lambda *given: (found := log_joint(*given)) - np.logaddexp.reduce(found, 1, keepdims=True),
        ),
    ),
    ("log p(y, x)",),
)
POSTERIOR = Values(
    "posterior",
    3,
    _posterior_cases,
    softmax,
    (
        Mistake("`posterior` is 0 / 0 for long mails: subtract the largest log_p of each row before exp", exp_at_once),
        Mistake(
            "`posterior` is 0 / 0 where a row is far below others: subtract the largest of each row, not of the whole table",
            exp_less_largest_of_all,
        ),
        Mistake("`posterior` makes columns sum to 1; the rows should", lambda log_p: softmax(log_p.T).T),
        Mistake(
            "`posterior` divides every column by its sum; divide every row by its own",
            lambda log_p: (scaled := np.exp(log_p - log_p.max(1, keepdims=True))) / scaled.sum(0),
        ),
        Mistake(
            "`posterior` gives all to the best class; share by probability",
            lambda log_p: np.eye(3)[log_p.argmax(1)],
        ),
    ),
    ("probabilities",),
    shares=("probabilities",),
    plural=("probabilities",),
)
ODDS = Values(
    "log_odds",
    4,
    _odds_cases,
    log_odds,
    (
        Mistake(
            "weights of `log_odds` are log p_1 / p_0: subtract what an absent word says, log (1 − p_1) / (1 − p_0)",
            lambda probs, p: np.log(p[1] / p[0]),
            "weights",
        ),
        Mistake(
            "the bias of `log_odds` leaves out the classes: add log class_probs_1 / class_probs_0",
            lambda probs, p: np.log((1 - p[1]) / (1 - p[0])).sum(),
            "bias",
        ),
        Mistake(
            "the bias of `log_odds` has the classes alone: a mail without words says something, too",
            lambda probs, p: np.log(probs[1] / probs[0]),
            "bias",
        ),
        Mistake(
            "weights of `log_odds` are for class 0 against class 1; turn them round",
            lambda probs, p: -log_odds(probs, p)[1],
            "weights",
        ),
    ),
    ("bias", "weights"),
    plural=("weights",),
)


@made_once
def data() -> dict[str, np.ndarray]:
    """Mails: which words each has (`x`), whether it is spam (`y`), and the words."""
    from models.datasets.tables import spam

    found = spam()
    return {"x": (np.asarray(found.x) > 0).astype(int), "y": np.asarray(found.labels), "words": np.array(found.columns)}


LAB = Lab("map_naive_bayes", "Naive Bayes with a prior", 50, STORY, MATHS, (COUNT, ESTIMATE, JOINT, POSTERIOR, ODDS), data)
