"""Latent Dirichlet allocation (document 002, errata E12 and E13): a topic for every token.

word_probs_k ~ Dirichlet(word_concentration),  topic_probs_d ~ Dirichlet(topic_concentration),
w_dn ~ Categorical(Σ_k topic_probs_dk word_probs_k)

Topics of tokens are summed out one by one, which is exact given both kinds of probabilities.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import gammaln

from inference.certificates.oracles.answers import Answers
from inference.certificates.oracles.conjugate import chosen, counted, dirichlet, log_counts, log_dirichlet, one_hot, total
from inference.certificates.oracles.contracts import Contracts, reordered
from inference.certificates.oracles.oracle import Oracle, Sites, Slip, Statistics, Tables, pointed_at, ten_percent
from inference.certificates.oracles.posterior import Enumeration, enumerated
from models.data.documents import joined
from models.data.table import Data

DOCUMENTS, TOKENS, TOPICS, WORDS = 3, 4, 2, 3
STORED = frozenset({"topic_shares"})  # a result has them, and predictions do not
TOPIC = np.full(TOPICS, 1.5)
WORD = np.array([2.0, 3.0, 6.0])


def _draw_parameters(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    return {
        "topic_probs": dirichlet(rng, TOPIC, (replicates, DOCUMENTS)),
        "word_probs": dirichlet(rng, WORD, (replicates, TOPICS)),
    }


def _probs(sites: Sites) -> np.ndarray:
    """(R, M, V): p(word) in every document."""
    return np.einsum("rmk,rkv->rmv", sites["topic_probs"], sites["word_probs"])


def _draw_tables(rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
    """A topic for every token, and a word of that topic."""
    shape = (*sites["topic_probs"].shape[:2], TOKENS, TOPICS)
    topic = chosen(rng, np.broadcast_to(sites["topic_probs"][:, :, None], shape))
    return {"x": chosen(rng, sites["word_probs"][np.arange(len(topic))[:, None, None], topic]), "topic": topic}


def _factors(sites: Sites, tables: Tables) -> Statistics:
    """The factors of p(words, topics | θ), of tokens in their order."""
    replicate, topic = np.arange(len(tables["x"]))[:, None, None], tables["topic"]
    log_probs = np.log(sites["topic_probs"])[replicate, np.arange(DOCUMENTS)[:, None], topic]
    return {
        "log probability of topics": total(log_probs),
        "log probability of words given topics": total(np.log(sites["word_probs"])[replicate, topic, tables["x"]]),
    }


def _counts(tables: Tables) -> np.ndarray:
    """(R, M, V): how often each word is in each document."""
    return (tables["x"][..., None] == np.arange(WORDS)).sum(2)


def _log_likelihood(sites: Sites, tables: Tables) -> np.ndarray:
    """That of word counts: the order of the tokens does not count."""
    return _orders(tables) + (_counts(tables) * np.log(_probs(sites))).sum((1, 2))


def _orders(tables: Tables) -> np.ndarray:
    """(R,): log of the number of orders that the tokens may have."""
    return (gammaln(TOKENS + 1) - gammaln(_counts(tables) + 1).sum(-1)).sum(-1)


def _topic_counts(tables: Tables, z: np.ndarray) -> dict[str, np.ndarray]:
    """Of topics z (A, M · tokens): tokens of each topic by document (A, M, K), and by word (A, K, V)."""
    topic = one_hot(z, TOPICS).reshape(len(z), DOCUMENTS, TOKENS, TOPICS)
    words = one_hot(tables["x"][0], WORDS)
    return {"topic_probs": topic.sum(2), "word_probs": np.einsum("amtk,mtv->akv", topic, words)}


def _complete(sites: Sites, tables: Tables, z: np.ndarray) -> np.ndarray:
    """(R,): log p(w, z | θ)."""
    return _orders(tables) + log_counts(sites, _topic_counts(tables, z))


def _enumeration() -> Enumeration:
    """A topic for every token."""
    blocks = counted({"topic_probs": TOPIC, "word_probs": WORD}, _topic_counts)
    return Enumeration(
        lambda table: TOPICS ** (DOCUMENTS * TOKENS),
        lambda table: np.array(list(product(range(TOPICS), repeat=DOCUMENTS * TOKENS))),
        lambda table, z: _orders(table) + blocks.log_marginal(table, z),
        blocks.draw,
        blocks.mode,
        _complete,
    )


def _answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
    """Proportions of fitted documents are draws; the shares of topics are those of the tokens, by Bayes' rule for each."""
    replicate = np.arange(len(sites["word_probs"]))[:, None, None]
    word = np.swapaxes(sites["word_probs"], 1, 2)[replicate, table["x"]]  # (S, M, token, K)
    joint = sites["topic_probs"][:, :, None, :] * word
    shares = (joint / joint.sum(-1, keepdims=True)).mean(2)
    topic = sites["topic_probs"]
    return Answers(None, {"topic_shares": shares}, {"topic_probs": (topic, 0 * topic)}, reported="topic_shares", stored=STORED)


def _without_words(sites: Sites, table: Tables, with_label: bool) -> Answers:
    answers = _answers(sites, table, with_label)
    return answers._replace(values={"topic_shares": sites["topic_probs"]})


def _functions(sites: Sites, tables: Tables) -> Statistics:
    probs, shares = _probs(sites), _counts(tables) / TOKENS
    topic, word = sites["topic_probs"], sites["word_probs"]
    return {
        "product of word shares and probabilities": (shares * probs).sum((1, 2)),
        "last word": probs[:, :, -1].mean(1),
        "last word in the topics": word[:, :, -1].mean(1),
        "distance of the topics": np.linalg.norm(word[:, 0] - word[:, 1], axis=-1),
        "likeness of the first two documents": (topic[:, 0] * topic[:, 1]).sum(-1),
        "distance of the word probabilities of two documents": np.linalg.norm(probs[:, 0] - probs[:, 1], axis=-1),
    }


def _table(tables: Tables, replicate: int) -> Data:
    return Data("documents", joined(list(tables["x"][replicate])), ("u", "v", "w"))


def latent_dirichlet() -> Oracle:
    """Two topics of three words in three documents of four tokens."""

    def options(last: float) -> dict[str, Any]:
        concentration = {"topic_concentration": TOPIC.tolist(), "word_concentration": [*WORD[:-1].tolist(), last]}
        return {"num_topics": TOPICS, **concentration}

    return Oracle(
        model="latent_dirichlet",
        options=options(WORD[-1]),
        draw_parameters=_draw_parameters,
        draw_tables=_draw_tables,
        table=_table,
        log_prior=lambda sites: log_dirichlet(TOPIC, sites["topic_probs"]) + log_dirichlet(WORD, sites["word_probs"]),
        log_likelihood=_log_likelihood,
        functions=_functions,
        mutant=ten_percent("word concentration", WORD[-1], options, " at the last word"),
        answers=_answers,
        contracts=Contracts(
            DOCUMENTS * (TOPICS - 1) + TOPICS * (WORDS - 1),
            reordered((2, 0, 1), {"word_probs": (-1,)}, {("word_concentration",): (0,)}),
            by_row=("topic_probs",),
            weighted=False,
        ),
        slips=(Slip("topics of tokens without their words (E13)", _without_words),),
        posterior=partial(enumerated, _enumeration()),
        enumeration=_enumeration(),
        simplices=("topic_probs", "word_probs"),
        latent="topic",
        sorted_places=lambda tables: np.argsort(np.argsort(tables["x"], axis=-1, kind="stable"), axis=-1),
        complete=_factors,
        pointed=pointed_at("topic", 0, {"word_probs": 1}),
    )
