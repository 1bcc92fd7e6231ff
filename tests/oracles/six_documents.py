"""A corpus of six documents, results with draws of its topics, and expected tokens one by one."""

from functools import cache, partial

import numpy as np
import xarray as xr
from naive import near as near_

from inference.topics.stability import matched_to
from models import MODELS
from models.data.documents import documents

near = partial(near_, atol=1e-12)  # sums of a few numbers of the size of 1
TEXTS = [list("aabc"), list("bbd"), list("acde"), [], list("ddea"), list("cab")]
WORDS = "abcde"
DATA = documents(TEXTS)
COUNTS = np.array([[row.count(word) for word in WORDS] for row in TEXTS], float)
K, V, M = 3, len(WORDS), len(TEXTS)


@cache
def model(**options):
    return MODELS["latent_dirichlet"](DATA, num_topics=K, **options)


def sites(seed=0):
    rng = np.random.default_rng(seed)
    return {"topic_probs": rng.dirichlet(np.ones(K), M), "word_probs": rng.dirichlet(np.ones(V), K)}


def result(draws, raw=None, log_joint=None, warnings=""):
    """A result with these draws (chain, draw, …), as `fit` makes them."""
    names = {"topic_probs": ("document", "topic"), "word_probs": ("topic", "word")}
    coords = {"topic": model().naming.coords["topic"], "word": model().naming.coords["word"]}

    def group(values):
        return xr.Dataset({name: (("chain", "draw", *names[name]), leaf) for name, leaf in values.items()}, coords=coords)

    size = draws["word_probs"].shape[:2]
    log_joint = np.zeros(size) if log_joint is None else log_joint
    groups = {"posterior": group(draws), "functionals": xr.Dataset({"log_joint": (("chain", "draw"), log_joint)})}
    tree = xr.DataTree.from_dict(groups | ({} if raw is None else {"posterior_raw": group(raw)}))
    tree.attrs |= {"warnings": warnings, "draws": "chains"}
    return tree


@cache
def drawn():
    """Two chains of three draws, any."""
    each = [sites(seed) for seed in range(6)]
    return result({name: np.stack([one[name] for one in each]).reshape(2, 3, *each[0][name].shape) for name in each[0]})


def flat(name):
    value = drawn()["posterior"][name].values
    return value.reshape(-1, *value.shape[2:])


def naive_tokens(theta, beta):
    """Tokens by document and topic, and by topic and word: one token after another."""
    document, word = np.zeros((M, K)), np.zeros((K, V))
    for d, text in enumerate(TEXTS):
        for token in text:
            weight = [theta[d, k] * beta[k, WORDS.index(token)] for k in range(K)]
            for k in range(K):
                document[d, k] += weight[k] / sum(weight)
                word[k, WORDS.index(token)] += weight[k] / sum(weight)
    return document, word


TRUE = np.array([[0.6, 0.3, 0.1, 0, 0], [0, 0.1, 0.8, 0.1, 0], [0, 0, 0, 0.3, 0.7]])


def chains(*means, seed=0, spread=1e4):
    """Draws around means, a chain each, the topics of every draw in any order."""
    rng = np.random.default_rng(seed)
    draws = np.array(
        [[[rng.dirichlet(spread * row + 1e-3) for row in mean[rng.permutation(K)]] for _ in range(8)] for mean in means]
    )
    return {"word_probs": draws, "topic_probs": rng.dirichlet(np.ones(K), (*draws.shape[:2], M))}


def in_order(draws):
    words = np.array([[matched_to(TRUE, draw) for draw in chain] for chain in draws["word_probs"]])
    return draws | {"word_probs": words}
