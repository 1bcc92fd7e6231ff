"""A corpus so small that all topics of all tokens can be summed over, and what tests ask of models on it."""

from functools import cache
from itertools import product

import numpy as np
from scipy.special import gammaln, logsumexp
from two_stage import of_batch_means

from models import MODELS, load_data
from models.data.documents import documents

DOCUMENTS = [list("aba"), [], list("bcc"), list("a")]  # 2⁷ assignments of two topics


WORDS = "abc"


TOKENS = [(d, WORDS.index(word)) for d, row in enumerate(DOCUMENTS) for word in row]


OPTIONS = {
    "default": {},
    "flat": {"prior": "flat"},
    "asymmetric": {"topic_concentration": [0.7, 2.0], "word_concentration": [1.5, 1.1, 2.0]},
    "labelled": {"labelled": True},
}


LABELS = ["x", None, "x|y", "y"]


ALLOWED = np.array([[True, False], [True, True], [True, True], [False, True]])


def build(kind="default", data=None):
    data = documents(DOCUMENTS) if data is None else data
    labelled = load_data(data, labels=LABELS) if kind == "labelled" else data
    return MODELS["latent_dirichlet"](labelled, num_topics=2, **OPTIONS[kind]), labelled


def random_sites(seed=0):
    rng = np.random.default_rng(seed)
    return {"topic_probs": rng.dirichlet(np.ones(2), len(DOCUMENTS)), "word_probs": rng.dirichlet(np.ones(3), 2)}


def allowed(kind):
    return ALLOWED if kind == "labelled" else np.ones_like(ALLOWED)


@cache
def exact():
    """Posterior means of θ_d1 θ_d2, whatever the labels, by the collapsed joint of all 2⁷ assignments of the default prior."""
    alpha, eta = np.full(2, 1.1), np.full(3, 1.1)
    logs, means = [], []
    for z in product(range(2), repeat=len(TOKENS)):
        topic, word = np.zeros((len(DOCUMENTS), 2)), np.zeros((2, 3))
        for (d, w), k in zip(TOKENS, z, strict=True):
            topic[d, k] += 1
            word[k, w] += 1
        both = [gammaln(part).sum() - gammaln(part.sum(1)).sum() for part in (topic + alpha, word + eta)]
        logs.append(sum(both))
        a, b = topic + alpha, word + eta
        a0, b0 = a.sum(1), b.sum(1)
        means.append([(a[:, 0] * a[:, 1] / (a0 * (a0 + 1))).sum(), (b[0] / b0[0] * b[1] / b0[1]).sum()])
    share = np.exp(np.array(logs) - logsumexp(logs))
    return share @ np.array(means)


def distances_of_overlaps(tree):
    """Of Σ_d θ_d1 θ_d2 and Σ_v β_1v β_2v, by 80 batch means of four chains."""
    theta, beta = (np.asarray(tree["posterior_raw"].to_dataset()[name]) for name in ("topic_probs", "word_probs"))
    found = np.stack([theta.prod(-1).sum(-1).ravel(), beta.prod(-2).sum(-1).ravel()], axis=1)
    return of_batch_means(found, exact(), batches=80)
