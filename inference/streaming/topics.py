"""Topics of documents in blocks, drawn exactly: every process keeps the tokens and topics of its own documents in memory.

A sweep of a chain is that of `models.topics.sampling.partially_collapsed`, with the counts of topics by words added up over all
processes:

    β_k | z, w ~ Dirichlet(n_kv + η_kv),      p(z = k | z⁻, w, β) ∝ (n⁻_dk + α_dk) β_kv

Given β documents are independent, so that each process draws the topics of its own. Counts are whole numbers. Their sums are
the same bits in any order, and all processes draw the same β from them. The random numbers of tokens belong to the seed, the
chain, the sweep and the number of their block. So draws are the same for any number of processes.

A kept state gives a draw of β and of the proportions θ of the sampled documents, from p(θ, β | z, w). Sampled documents are
documents of the blocks, and count as all do. It would not be exact to draw the topics of copies that do not count: their topics
would be one sweep of Gibbs sampling away from those of the β before, and would lag behind a β that moves (as cuts in graphical
models do; Plummer 2015).
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from inference.engine.driver import num_cores
from inference.engine.requirements import require_algebra, require_single_rows
from inference.engine.task import Task
from inference.row_sums.sizes import sample_size, total_weight
from inference.streaming.passes import Stream
from inference.streaming.source.encoding import Encoded
from inference.streaming.source.processes import Group
from models.base import Hyper, Sites
from models.data.memory import require_memory
from models.topics.collapsed import CONCENTRATION, TOPIC, WORD, corpus_of, prior_of
from models.topics.sampling.chains import TopicPrior
from models.topics.sampling.conditional_sampler import dense_shards, rows_of
from models.topics.sampling.corpus import (
    Corpus,
    TopicCounts,
    counted,
    log_dirichlet,
    log_joint,
    posterior_draws,
    probabilities,
)
from models.topics.sampling.partially_collapsed import SHARDS

START, WORDS, TOKENS, KEPT = range(4)  # what random numbers are for
TOPIC_BYTES = 4  # of the topic of a token of a chain


class Part(NamedTuple):
    """The documents of one block, among those of this process."""

    number: int  # of the block among all
    first: int  # its first document
    past: int  # the document after its last


class Held(NamedTuple):
    """The documents of this process."""

    corpus: Corpus  # their tokens
    prior: TopicPrior
    parts: tuple[Part, ...]  # their blocks
    sampled: np.ndarray  # (S,): the documents of the sample, −1 for those of other processes
    carrier: float  # sum of the logs of the multinomial coefficients
    weight: float  # of the documents
    size: float  # of the documents, as BIC counts them

    def tokens(self, part: Part) -> slice:
        """The tokens of a block, among those of this process."""
        return slice(int(self.corpus.starts[part.first]), int(self.corpus.starts[part.past]))


class Kept(NamedTuple):
    """What is kept of the state of all chains."""

    sites: dict[str, np.ndarray]  # (chain, …)
    log_prior: np.ndarray  # (chain,)
    log_joint: np.ndarray  # (chain,): log p(w, z) over all documents, parameters integrated out


def held_by(task: Task, stream: Stream, numbers: np.ndarray, seed: int, num_chains: int) -> tuple[Held, np.ndarray]:
    """(the documents of this process, the topics (C, T) where chains begin); ``numbers`` are those of the sample's documents.

    It reads the blocks of this process once. Raises `ZooError` for documents of other weights than 0 and 1, and where memory
    does not hold the topics.
    """
    hyper = {name: np.asarray(value, dtype=float) for name, value in task.hyper.items()}
    algebra, found, topics, tokens = require_algebra(task), [], [], 0
    blocks = stream.blocks([stream.ends])
    try:
        for block in blocks:
            require_single_rows(task._replace(rows=block.rows), algebra)
            found.append(_of_block(stream, hyper, numbers, block))
            tokens += len(found[-1].corpus.word)
            require_memory(TOPIC_BYTES * num_chains * float(tokens), f"topics of {tokens} tokens in {num_chains} chains")
            topics.append(_begun(task, hyper, block, seed, num_chains))
    finally:
        blocks.close()
    return _joined(found), np.concatenate(topics, axis=1)


def _of_block(stream: Stream, hyper: Hyper, numbers: np.ndarray, block: Encoded) -> Held:
    """The documents of one block."""
    rows = block.rows
    corpus = corpus_of(rows, np.shape(hyper[CONCENTRATION[WORD]])[1])
    place = numbers - block.first
    sampled = np.where((place >= 0) & (place < corpus.num_documents), place, -1)
    counts = np.ones(corpus.num_documents) if rows.weight is None else np.asarray(rows.weight)
    return Held(
        corpus,
        prior_of(hyper, rows, corpus),
        (Part(block.number, 0, corpus.num_documents),),
        sampled,
        float(np.sum(rows.carrier * counts)),
        total_weight(rows),
        sample_size(stream.model, rows),
    )


def _begun(task: Task, hyper: Hyper, block: Encoded, seed: int, num_chains: int) -> np.ndarray:
    """(C, T): the topics of the tokens of a block where chains begin, from the prior means or the word probabilities given."""
    collapsed = require_algebra(task).structure.collapsed
    assert collapsed is not None
    assert collapsed.by_rows is not None
    sampler = collapsed.by_rows(hyper, block.rows, 1)
    started: Sites | None = None
    if task.start is not None:
        alpha = hyper[CONCENTRATION[TOPIC]]
        own = np.tile(alpha / alpha.sum(), (len(block.rows.document), 1))
        started = {TOPIC: own, WORD: np.asarray(task.start[WORD], dtype=float)}
    own_seed = int(np.random.SeedSequence(seed, spawn_key=(START, block.number)).generate_state(1, np.uint64)[0])
    return np.stack([sampler.start(own_seed, chain, started).topic for chain in range(num_chains)])


def _joined(blocks: list[Held]) -> Held:
    """The documents of several blocks, one after another."""
    first = blocks[0]
    lengths = [np.diff(one.corpus.starts) for one in blocks]
    starts = np.append(0, np.cumsum(np.concatenate(lengths))).astype(np.int64)
    ends = list(itertools.accumulate(map(len, lengths), initial=0))
    sampled = np.full(len(first.sampled), -1)
    for one, begin in zip(blocks, ends, strict=False):
        sampled = np.where(one.sampled >= 0, one.sampled + begin, sampled)
    allowed = None
    if first.prior.allowed_topics is not None:
        allowed = np.concatenate([one.prior.allowed_topics for one in blocks if one.prior.allowed_topics is not None])
    return Held(
        Corpus(np.concatenate([one.corpus.word for one in blocks]), starts, first.corpus.num_words),
        first.prior._replace(allowed_topics=allowed),
        tuple(Part(one.parts[0].number, *span) for one, span in zip(blocks, itertools.pairwise(ends), strict=True)),
        sampled,
        sum(one.carrier for one in blocks),
        sum(one.weight for one in blocks),
        sum(one.size for one in blocks),
    )


class Chains:
    """The topics of all chains in the documents of this process, and what all processes know of the others.

    All processes call the same methods in the same order: sums over processes are made inside.
    """

    def __init__(self, held: Held, topic: np.ndarray, seed: int, group: Group, pool: ThreadPoolExecutor) -> None:
        self.held, self.topic, self.sweeps = held, topic, 0
        self._seed, self._group, self._pool = seed, group, pool
        self._word_topic: np.ndarray | None = None  # (C, V, K): of all processes, once they have been added up

    def go_on(self, topic: np.ndarray, sweeps: int) -> None:
        """The topics (C, T) after some sweeps, as a checkpoint has them."""
        self.topic, self.sweeps, self._word_topic = topic, sweeps, None

    def advance(self, sweeps: int) -> None:
        """Some sweeps of all chains."""
        for _ in range(sweeps):
            tables = list(self._pool.map(self._table, range(len(self.topic)), self.word_topic()))
            list(self._pool.map(_called, self._tasks(tables)))
            self.sweeps, self._word_topic = self.sweeps + 1, None

    def word_topic(self) -> np.ndarray:
        """(C, V, K): how often each word has each topic, over all processes."""
        if self._word_topic is None:
            own = np.stack(list(self._pool.map(self._by_word, self.topic)))
            self._word_topic = self._group.all_sum(own).astype(np.int64)
        return self._word_topic

    def log_joint(self) -> np.ndarray:
        """(C,): log p(w, z) over all documents, parameters integrated out."""
        return self._with_words(np.array([log for log, _ in self._pool.map(self._of_documents, self.topic)]))

    def kept(self) -> Kept:
        """A draw of β, and of θ of the sampled documents, given the topics of every chain."""
        logs, tables = zip(*self._pool.map(self._of_documents, self.topic), strict=True)
        documents = self._group.all_sum(np.stack(tables))
        drawn = list(self._pool.map(self._drawn, range(len(self.topic)), documents, self.word_topic()))
        sites = {name: np.stack([one[name] for one, _ in drawn]) for name in (TOPIC, WORD)}
        return Kept(sites, np.array([density for _, density in drawn]), self._with_words(np.array(logs)))

    def shape_of_kept(self) -> Kept:
        """`kept` of a single chain, for its shapes."""
        K, V = len(self.held.prior.alpha), self.held.corpus.num_words
        sites = {TOPIC: np.zeros((len(self.held.sampled), K)), WORD: np.zeros((K, V))}
        return Kept(sites, np.zeros(()), np.zeros(()))

    def _random(self, role: int, chain: int, *more: int) -> np.random.SeedSequence:
        """The random numbers of this sweep for one thing."""
        return np.random.SeedSequence(self._seed, spawn_key=(role, chain, self.sweeps, *more))

    def _table(self, chain: int, word_topic: np.ndarray) -> tuple[np.ndarray, int]:
        """A draw of β as the compiled loops read it."""
        prior, rng = self.held.prior, np.random.default_rng(self._random(WORDS, chain))
        nothing = np.zeros((0, len(prior.alpha)), np.int64)
        logs = posterior_draws(rng, _counts(nothing, word_topic), prior.alpha, prior.eta)[1]
        return rows_of(probabilities(logs).T)

    def _tasks(self, tables: list[tuple[np.ndarray, int]]) -> Iterator[Callable[[], None]]:
        """The draws of topics given β, enough of them at once for all cores."""
        corpus, prior, parts = self.held.corpus, self.held.prior, self.held.parts
        allowed = np.zeros((0, 0), bool) if prior.allowed_topics is None else prior.allowed_topics
        pieces = -(-num_cores() // (len(tables) * len(parts)))
        ends = np.linspace(0, SHARDS, pieces + 1).astype(int).tolist()
        for part, (chain, (beta, width)) in itertools.product(parts, enumerate(tables)):
            states = self._random(TOKENS, chain, part.number).generate_state(4 * SHARDS, np.uint64).reshape(SHARDS, 4)
            cuts = _cuts(corpus.starts, part)
            given = (corpus.word, corpus.starts, self.topic[chain], prior.alpha, allowed, beta, width, states, cuts)
            for begin, end in itertools.pairwise(ends):
                yield partial(dense_shards, *given, begin, end)

    def _by_word(self, topic: np.ndarray) -> np.ndarray:
        """(V, K): all documents of this process as one."""
        corpus = self.held.corpus
        as_one = Corpus(corpus.word, np.array([0, len(corpus.word)]), corpus.num_words)
        return counted(as_one, topic, len(self.held.prior.alpha)).word_topic

    def _by_document(self, topic: np.ndarray, first: int, past: int) -> np.ndarray:
        """(D, K): of some documents, all words as one."""
        starts = self.held.corpus.starts[first : past + 1]
        as_one = Corpus(np.zeros(starts[-1] - starts[0], np.int32), starts - starts[0], 1)
        return counted(as_one, topic[starts[0] : starts[-1]], len(self.held.prior.alpha)).document_topic

    def _of_documents(self, topic: np.ndarray) -> tuple[float, np.ndarray]:
        """(log p(z) of the documents of this process; (S, K): of those of the sample, 0 for those of other processes)."""
        held, alpha = self.held, self.held.prior.alpha
        total, found = held.carrier, np.zeros((len(held.sampled), len(alpha)))
        nothing = np.zeros((1, len(alpha)), np.int64)
        for part in held.parts:
            table = self._by_document(topic, part.first, part.past)
            total += log_joint(_counts(table, nothing), alpha, 1.0)
            own = (held.sampled >= part.first) & (held.sampled < part.past)
            found[own] = table[held.sampled[own] - part.first]
        return total, found

    def _with_words(self, of_documents: np.ndarray) -> np.ndarray:
        """(C,): log p(w, z) over all documents, from the part (C,) of the documents of this process."""
        of_words = np.array([_log_of_words(counts, self.held.prior.eta) for counts in self.word_topic()])
        return np.asarray(self._group.all_sum(of_documents) + of_words)

    def _drawn(self, chain: int, documents: np.ndarray, word_topic: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """A draw from p(θ, β | z, w), and its log prior density."""
        prior, rng = self.held.prior, np.random.default_rng(self._random(KEPT, chain))
        own, words = posterior_draws(rng, _counts(documents, word_topic), prior.alpha, prior.eta)
        density = log_dirichlet(own, prior.alpha) + log_dirichlet(words, prior.eta)
        return {TOPIC: probabilities(own), WORD: probabilities(words)}, density


def _called(task: Callable[[], None]) -> None:
    task()


def _counts(document_topic: np.ndarray, word_topic: np.ndarray) -> TopicCounts:
    """Counts without the topics that they count."""
    return TopicCounts(np.zeros(0, np.int32), document_topic, word_topic, word_topic.sum(0))


def _log_of_words(word_topic: np.ndarray, eta: np.ndarray) -> float:
    """Log p(w | z)."""
    return log_joint(_counts(np.zeros((0, word_topic.shape[1]), np.int64), word_topic), 1.0, eta)


def _cuts(starts: np.ndarray, part: Part) -> np.ndarray:
    """The documents of a block cut into shards (`SHARDS` + 1,) of about equally many tokens."""
    own = starts[part.first : part.past + 1]
    cuts = part.first + np.searchsorted(own, np.linspace(own[0], own[-1], SHARDS + 1))
    cuts[-1] = part.past
    return cuts
