"""Topics of documents in blocks, drawn exactly: every process keeps the tokens and topics of its documents in memory.

A sweep of a chain is that of `models.topics.sampling.partially_collapsed`, with the counts of topics by words added up over all
processes:

    β_k | z, w ~ Dirichlet(n_kv + η_kv),      p(z = k | z⁻, w, β) ∝ (n⁻_dk + α_dk) β_kv

Given β documents are independent, so that each process draws the topics of its part. Counts are whole numbers. Their sums are
the same bits in any order, and all processes draw the same β from them. The random numbers of tokens belong to the seed, the
chain, the sweep and the number of their block. So draws are the same for any number of processes.

A state gives a draw of β and of the proportions θ of the sampled documents, from p(θ, β | z, w). Sampled documents are
documents of the blocks, and count as all do. It would not be exact to draw the topics of copies that do not count: their topics
would be one sweep of Gibbs sampling away from those of the β before, and would lag behind a β that moves (a cut; Plummer 2015).
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
from inference.streaming.source.encoding import EncodedBlock
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

START, WORDS, TOKENS, DRAWS = range(4)  # purposes of random numbers
TOPIC_BYTES = 4  # of the topic of a token of a chain


class BlockDocuments(NamedTuple):
    """The documents of one block, among those of this process."""

    number: int  # of the block among all
    first: int  # its first document
    past: int  # the document after its last


class ProcessCorpus(NamedTuple):
    """The documents of this process."""

    corpus: Corpus  # their tokens
    prior: TopicPrior
    parts: tuple[BlockDocuments, ...]  # their blocks
    sampled: np.ndarray  # (S,): the documents of the sample, −1 for those of other processes
    carrier: float  # sum of the logs of the multinomial coefficients
    weight: float  # of the documents
    size: float  # of the documents, as BIC counts them

    def tokens(self, part: BlockDocuments) -> slice:
        """The tokens of a block, among those of this process."""
        return slice(int(self.corpus.starts[part.first]), int(self.corpus.starts[part.past]))


class ChainDraws(NamedTuple):
    """A draw of the parameters from every chain."""

    sites: dict[str, np.ndarray]  # (chain, …)
    log_prior: np.ndarray  # (chain,)
    log_joint: np.ndarray  # (chain,): log p(w, z) over all documents, parameters integrated out


def process_corpus(
    task: Task, stream: Stream, numbers: np.ndarray, seed: int, num_chains: int
) -> tuple[ProcessCorpus, np.ndarray]:
    """(the documents of this process, the first topics (C, T) of its chains); ``numbers`` are those of the sample's documents.

    It reads the blocks once. Raises `ZooError` for weights other than 0 and 1, and where memory does not hold the topics.
    """
    hyper = {name: np.asarray(value, dtype=float) for name, value in task.hyper.items()}
    algebra, of_blocks, topics, tokens = require_algebra(task), [], [], 0
    blocks = stream.blocks([stream.ends])
    try:
        for block in blocks:
            require_single_rows(task._replace(rows=block.rows), algebra)
            of_blocks.append(_of_block(stream, hyper, numbers, block))
            tokens += len(of_blocks[-1].corpus.word)
            require_memory(TOPIC_BYTES * num_chains * float(tokens), f"topics of {tokens} tokens in {num_chains} chains")
            topics.append(_first_topics(task, hyper, block, seed, num_chains))
    finally:
        blocks.close()
    return _joined(of_blocks), np.concatenate(topics, axis=1)


def _of_block(stream: Stream, hyper: Hyper, numbers: np.ndarray, block: EncodedBlock) -> ProcessCorpus:
    """The documents of one block."""
    rows = block.rows
    corpus = corpus_of(rows, np.shape(hyper[CONCENTRATION[WORD]])[1])
    place = numbers - block.first
    sampled = np.where((place >= 0) & (place < corpus.num_documents), place, -1)
    counts = np.ones(corpus.num_documents) if rows.weight is None else np.asarray(rows.weight)
    return ProcessCorpus(
        corpus,
        prior_of(hyper, rows, corpus),
        (BlockDocuments(block.number, 0, corpus.num_documents),),
        sampled,
        float(np.sum(rows.carrier * counts)),
        total_weight(rows),
        sample_size(stream.model, rows),
    )


def _first_topics(task: Task, hyper: Hyper, block: EncodedBlock, seed: int, num_chains: int) -> np.ndarray:
    """(C, T): the first topics of the tokens of a block, from the prior means or the word probabilities given."""
    collapsed = require_algebra(task).structure.collapsed
    assert collapsed is not None
    assert collapsed.by_rows is not None
    sampler = collapsed.by_rows(hyper, block.rows, 1)
    start: Sites | None = None
    if task.start is not None:
        alpha = hyper[CONCENTRATION[TOPIC]]
        proportions = np.tile(alpha / alpha.sum(), (len(block.rows.document), 1))
        start = {TOPIC: proportions, WORD: np.asarray(task.start[WORD], dtype=float)}
    block_seed = int(np.random.SeedSequence(seed, spawn_key=(START, block.number)).generate_state(1, np.uint64)[0])
    return np.stack([sampler.start(block_seed, chain, start).topic for chain in range(num_chains)])


def _joined(blocks: list[ProcessCorpus]) -> ProcessCorpus:
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
    return ProcessCorpus(
        Corpus(np.concatenate([one.corpus.word for one in blocks]), starts, first.corpus.num_words),
        first.prior._replace(allowed_topics=allowed),
        tuple(BlockDocuments(one.parts[0].number, *span) for one, span in zip(blocks, itertools.pairwise(ends), strict=True)),
        sampled,
        sum(one.carrier for one in blocks),
        sum(one.weight for one in blocks),
        sum(one.size for one in blocks),
    )


class TopicChains:
    """The topics of all chains in the documents of this process, and counts over all processes.

    All processes call the same methods in the same order: sums over processes are made inside.
    """

    def __init__(self, documents: ProcessCorpus, topic: np.ndarray, seed: int, group: Group, pool: ThreadPoolExecutor) -> None:
        self.documents, self.topic, self.sweeps = documents, topic, 0
        self._seed, self._group, self._pool = seed, group, pool
        self._word_topic: np.ndarray | None = None  # (C, V, K): of all processes, after their sum

    def go_on(self, topic: np.ndarray, sweeps: int) -> None:
        """Continue from the topics (C, T) after some sweeps, as in a checkpoint."""
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
            counts = np.stack(list(self._pool.map(self._by_word, self.topic)))
            self._word_topic = self._group.all_sum(counts).astype(np.int64)
        return self._word_topic

    def log_joint(self) -> np.ndarray:
        """(C,): log p(w, z) over all documents, parameters integrated out."""
        return self._with_words(np.array([log for log, _ in self._pool.map(self._of_documents, self.topic)]))

    def draws(self) -> ChainDraws:
        """A draw of β, and of θ of the sampled documents, given the topics of every chain."""
        logs, tables = zip(*self._pool.map(self._of_documents, self.topic), strict=True)
        of_documents = self._group.all_sum(np.stack(tables))
        drawn = list(self._pool.map(self._drawn, range(len(self.topic)), of_documents, self.word_topic()))
        sites = {name: np.stack([one[name] for one, _ in drawn]) for name in (TOPIC, WORD)}
        return ChainDraws(sites, np.array([density for _, density in drawn]), self._with_words(np.array(logs)))

    def shape_of_draws(self) -> ChainDraws:
        """`draws` of a single chain, for its shapes."""
        K, V = len(self.documents.prior.alpha), self.documents.corpus.num_words
        sites = {TOPIC: np.zeros((len(self.documents.sampled), K)), WORD: np.zeros((K, V))}
        return ChainDraws(sites, np.zeros(()), np.zeros(()))

    def _random(self, role: int, chain: int, *more: int) -> np.random.SeedSequence:
        """The random numbers of this sweep for one purpose."""
        return np.random.SeedSequence(self._seed, spawn_key=(role, chain, self.sweeps, *more))

    def _table(self, chain: int, word_topic: np.ndarray) -> tuple[np.ndarray, int]:
        """A draw of β as the compiled loops read it."""
        prior, rng = self.documents.prior, np.random.default_rng(self._random(WORDS, chain))
        nothing = np.zeros((0, len(prior.alpha)), np.int64)
        logs = posterior_draws(rng, _counts(nothing, word_topic), prior.alpha, prior.eta)[1]
        return rows_of(probabilities(logs).T)

    def _tasks(self, tables: list[tuple[np.ndarray, int]]) -> Iterator[Callable[[], None]]:
        """The draws of topics given β, enough of them at once for all cores."""
        corpus, prior, parts = self.documents.corpus, self.documents.prior, self.documents.parts
        allowed = np.zeros((0, 0), bool) if prior.allowed_topics is None else prior.allowed_topics
        pieces = -(-num_cores() // (len(tables) * len(parts)))
        ends = np.linspace(0, SHARDS, pieces + 1).astype(int).tolist()
        for part, (chain, (beta, width)) in itertools.product(parts, enumerate(tables)):
            states = self._random(TOKENS, chain, part.number).generate_state(4 * SHARDS, np.uint64).reshape(SHARDS, 4)
            cuts = _cuts(corpus.starts, part)
            arrays = (corpus.word, corpus.starts, self.topic[chain], prior.alpha, allowed, beta, width, states, cuts)
            for begin, end in itertools.pairwise(ends):
                yield partial(dense_shards, *arrays, begin, end)

    def _by_word(self, topic: np.ndarray) -> np.ndarray:
        """(V, K): all documents of this process as one."""
        corpus = self.documents.corpus
        as_one = Corpus(corpus.word, np.array([0, len(corpus.word)]), corpus.num_words)
        return counted(as_one, topic, len(self.documents.prior.alpha)).word_topic

    def _by_document(self, topic: np.ndarray, first: int, past: int) -> np.ndarray:
        """(D, K): of some documents, all words as one."""
        starts = self.documents.corpus.starts[first : past + 1]
        as_one = Corpus(np.zeros(starts[-1] - starts[0], np.int32), starts - starts[0], 1)
        return counted(as_one, topic[starts[0] : starts[-1]], len(self.documents.prior.alpha)).document_topic

    def _of_documents(self, topic: np.ndarray) -> tuple[float, np.ndarray]:
        """(log p(z) of the documents of this process; (S, K): of those of the sample, 0 for those of other processes)."""
        documents, alpha = self.documents, self.documents.prior.alpha
        total, counts = documents.carrier, np.zeros((len(documents.sampled), len(alpha)))
        nothing = np.zeros((1, len(alpha)), np.int64)
        for part in documents.parts:
            table = self._by_document(topic, part.first, part.past)
            total += log_joint(_counts(table, nothing), alpha, 1.0)
            here = (documents.sampled >= part.first) & (documents.sampled < part.past)
            counts[here] = table[documents.sampled[here] - part.first]
        return total, counts

    def _with_words(self, of_documents: np.ndarray) -> np.ndarray:
        """(C,): log p(w, z) over all documents, from the part (C,) of the documents of this process."""
        of_words = np.array([_log_of_words(counts, self.documents.prior.eta) for counts in self.word_topic()])
        return np.asarray(self._group.all_sum(of_documents) + of_words)

    def _drawn(self, chain: int, of_documents: np.ndarray, word_topic: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """A draw from p(θ, β | z, w), and its log prior density."""
        prior, rng = self.documents.prior, np.random.default_rng(self._random(DRAWS, chain))
        proportions, words = posterior_draws(rng, _counts(of_documents, word_topic), prior.alpha, prior.eta)
        density = log_dirichlet(proportions, prior.alpha) + log_dirichlet(words, prior.eta)
        return {TOPIC: probabilities(proportions), WORD: probabilities(words)}, density


def _called(task: Callable[[], None]) -> None:
    task()


def _counts(document_topic: np.ndarray, word_topic: np.ndarray) -> TopicCounts:
    """Counts without the topics that they count."""
    return TopicCounts(np.zeros(0, np.int32), document_topic, word_topic, word_topic.sum(0))


def _log_of_words(word_topic: np.ndarray, eta: np.ndarray) -> float:
    """Log p(w | z)."""
    return log_joint(_counts(np.zeros((0, word_topic.shape[1]), np.int64), word_topic), 1.0, eta)


def _cuts(starts: np.ndarray, part: BlockDocuments) -> np.ndarray:
    """The documents of a block cut into shards (`SHARDS` + 1,) of about equally many tokens."""
    ends = starts[part.first : part.past + 1]
    cuts = part.first + np.searchsorted(ends, np.linspace(ends[0], ends[-1], SHARDS + 1))
    cuts[-1] = part.past
    return cuts
