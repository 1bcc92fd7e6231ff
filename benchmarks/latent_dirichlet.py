"""The topic model's collapsed Gibbs sampler against tomotopy (C++) and lda (Cython), at equal priors, none of them learnt.

Tokens a second are tokens times sweeps by seconds of processor time (all threads of the process), so that other work on the
machine counts less; every library runs on one core. tomotopy and lda are in the extra ``bench``.

- *sampler*: Reuters (84,010 tokens, 395 stories, from ``lda``) and a generated corpus of ten million tokens, K = 20, 100, 1000,
  α = 0.1, η = 0.01. Sweeps before the clock starts, and those under it, are equal in all libraries; the log joint of the words
  and the last topics must agree within 1 %. Set-up of a call is within the zoo's time.
- *chains*: two chains on two threads against one after another, by the wall clock.
- *kernels*: the kernel for few topics against that for many, by K: where the rule of `token_sampler` comes from.
"""

import importlib.util
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Target, interleave, median, print_table
from models.token_sampler import start_chain, swept, swept_chains, topic_prior
from models.tokens import Corpus, TopicCounts, corpus_of_counts, counted, log_joint

ALPHA, ETA = 0.1, 0.01
AGREEMENT = 0.01  # relative, of log joints


class Run(NamedTuple):
    """A library's chain: sweeps on demand, and the counts it stands at."""

    sweep: Callable[[int], Any]
    counts: Callable[[], TopicCounts]


class Plan(NamedTuple):
    """Sweeps before the clock, sweeps of one timing, timings."""

    before: int
    timed: int
    repeats: int


def reuters() -> Corpus:
    """395 stories of 1987, V = 4258."""
    import lda.datasets

    return corpus_of_counts(lda.datasets.load_reuters())


def generated(num_tokens: int = 10_000_000, length: int = 200, num_words: int = 20_000, num_topics: int = 100) -> Corpus:
    """Documents of one length from the model itself; the mean of the topics follows Zipf's law. Words that never occur go."""
    rng = np.random.default_rng(0)
    number = num_tokens // length
    sums = rng.dirichlet(np.full(num_topics, 0.1), number).cumsum(1)
    topic = np.empty((number, length), np.int32)
    for row, own, u in zip(topic, sums, rng.random((number, length)), strict=True):
        row[:] = np.minimum(np.searchsorted(own, u), num_topics - 1)
    base, word = 1 / (np.arange(num_words) + 10.0), np.empty(number * length, np.int64)
    for k in range(num_topics):
        weights, own_tokens = rng.gamma(0.02 * num_words * base / base.sum() + 1e-3), topic.reshape(-1) == k
        word[own_tokens] = rng.choice(num_words, own_tokens.sum(), p=weights / weights.sum())
    used, codes = np.unique(word, return_inverse=True)
    return Corpus(codes.astype(np.int32), np.arange(number + 1) * length, len(used))


def zoo(corpus: Corpus, num_topics: int, kernel: str | None = None) -> Run:
    """The zoo's chain."""
    prior = topic_prior(corpus, num_topics, ALPHA, ETA)
    chain = [start_chain(corpus, prior, 1)]

    def sweep(number: int) -> None:
        chain[0], _ = swept(corpus, prior, chain[0], number, kernel)

    return Run(sweep, lambda: counted(corpus, chain[0].topic, num_topics))


def tomotopy(corpus: Corpus, num_topics: int) -> Run:
    """Tomotopy's, with one worker and without its optimisation of hyperparameters."""
    import tomotopy as tp

    model = tp.LDAModel(k=num_topics, alpha=ALPHA, eta=ETA, seed=1)
    names = np.array([str(v) for v in range(corpus.num_words)], dtype=object)
    for begin, end in zip(corpus.starts[:-1], corpus.starts[1:], strict=True):
        model.add_doc(list(names[corpus.word[begin:end]]))
    model.optim_interval = model.burn_in = 0

    def counts() -> TopicCounts:
        topic = np.concatenate([np.asarray(document.topics) for document in model.docs]).astype(np.int32)
        codes = np.concatenate([np.asarray(document.words) for document in model.docs]).astype(np.int32)
        return counted(corpus._replace(word=codes), topic, num_topics)

    return Run(lambda number: model.train(number, workers=1, parallel=tp.ParallelScheme.NONE), counts)


def lda(corpus: Corpus, num_topics: int) -> Run:
    """The package ``lda``, its sweeps without the log-likelihood that it computes between them."""
    from lda import LDA

    logging.getLogger("lda").setLevel(logging.ERROR)
    model = LDA(n_topics=num_topics, alpha=ALPHA, eta=ETA, random_state=1)
    table = np.zeros((corpus.num_documents, corpus.num_words), np.intc)
    np.add.at(table, (np.repeat(np.arange(corpus.num_documents), np.diff(corpus.starts)), corpus.word), 1)
    model._initialize(table)
    numbers, rng = model._rands.copy(), np.random.default_rng(1)

    def sweep(number: int) -> None:
        for _ in range(number):
            rng.shuffle(numbers)  # as its own loop does
            model._sample_topics(numbers)

    return Run(sweep, lambda: TopicCounts(np.zeros(0), model.ndz_, model.nzw_.T, model.nz_.astype(np.int64)))


def _processor(run: Callable[[], Any], index: int) -> float:
    clock = time.process_time()
    run()
    return time.process_time() - clock


PEERS: Mapping[str, Callable[[Corpus, int], Run]] = {"tomotopy": tomotopy, "lda": lda}
WANTED = {("tomotopy", 20): 1.3, ("tomotopy", 100): 1.3, ("tomotopy", 1000): 3.0}


def _speeds(name: str, corpus: Corpus, num_topics: int, plan: Plan, peers: tuple[str, ...]) -> tuple[list[Any], list[Target]]:
    """Rows of the table and targets of one corpus and K."""
    here = [peer for peer in peers if importlib.util.find_spec(peer) is not None]
    runs = {"zoo": zoo(corpus, num_topics)} | {peer: PEERS[peer](corpus, num_topics) for peer in here}
    for run in runs.values():
        run.sweep(plan.before)
    timings = {which: partial(_processor, partial(run.sweep, plan.timed)) for which, run in runs.items()}
    speeds = {
        which: len(corpus.word) * plan.timed / median(times) / 1e6 for which, times in interleave(timings, plan.repeats).items()
    }
    levels = {which: log_joint(run.counts(), ALPHA, ETA) for which, run in runs.items()}
    rows, targets = [], []
    for which, speed in speeds.items():
        ratio, gap = speeds["zoo"] / speed, abs(levels[which] / levels["zoo"] - 1)
        level = f"{levels[which] / len(corpus.word):.4f}"
        rows.append((f"{name}, K = {num_topics}", which, f"{speed:.2f}", f"{ratio:.2f}", level))
        if which != "zoo":
            wanted = WANTED.get((which, num_topics), 3.0)
            title = f"collapsed Gibbs, {name}, K = {num_topics}, against {which}"
            targets.append(Target(title, ratio, wanted, agreed=gap < AGREEMENT))
    return rows, targets


def measure_sampler() -> list[Target]:
    """Tokens a second on one core."""
    rows: list[Any] = []
    targets: list[Target] = []
    small = reuters()
    for num_topics, plan in {20: Plan(200, 20, 7), 100: Plan(200, 10, 7), 1000: Plan(60, 2, 5)}.items():
        found = _speeds("Reuters", small, num_topics, plan, ("tomotopy", "lda"))
        rows, targets = rows + found[0], targets + found[1]
    large = generated()
    for num_topics, plan in {20: Plan(10, 2, 3), 100: Plan(10, 2, 3), 1000: Plan(10, 2, 3)}.items():
        found = _speeds("generated", large, num_topics, plan, ("tomotopy",))
        rows, targets = rows + found[0], targets + found[1]
    print_table(
        "sweeps on one core, million tokens a second of processor time",
        ("corpus", "", "speed", "ratio", "log joint / token"),
        rows,
        "Clock after 200 sweeps (K = 1000: 60) of Reuters, after 10 of ten million tokens.",
    )
    return targets


def measure_chains() -> list[Target]:
    """Two chains at once and one by one, seconds of the wall clock."""
    corpus, rows, targets = reuters(), [], []
    for num_topics, sweeps in ((20, 200), (1000, 40)):
        prior = topic_prior(corpus, num_topics, ALPHA, ETA)
        chains = swept_chains(corpus, prior, [start_chain(corpus, prior, 1, chain) for chain in range(2)], 60)

        def seconds(
            threads: int, index: int, prior: Any = prior, chains: Any = chains, sweeps: int = sweeps
        ) -> tuple[float, float]:
            wall, processor = time.perf_counter(), time.process_time()
            swept_chains(corpus, prior, chains, sweeps, threads)
            return time.perf_counter() - wall, time.process_time() - processor

        found = interleave({"one thread": partial(seconds, 1), "two threads": partial(seconds, 2)}, 7)
        one, two = ([median(times) for times in zip(*pairs, strict=True)] for pairs in found.values())
        rows.append((f"K = {num_topics}", *(f"{value:.3f}" for value in (*one, *two)), f"{one[0] / two[0]:.2f}"))
        targets.append(Target(f"collapsed Gibbs, two chains on two cores, K = {num_topics}", one[0] / two[0], 1.8))
    print_table(
        "two chains, Reuters, seconds",
        ("", "one thread, wall", "processor", "two threads, wall", "processor", "ratio"),
        rows,
        "ratio: of wall clocks. Where other work takes a core it says nothing: processor times that are equal say that chains "
        "neither wait for each other nor slow each other.",
    )
    return targets


def measure_kernels() -> list[Target]:
    """Both kernels by number of topics."""
    rows = []
    for name, corpus, sizes, plan in (
        ("Reuters", reuters(), (50, 100, 150, 200, 300, 500), Plan(50, 5, 5)),
        ("generated, 2 million tokens", generated(2_000_000), (100, 150, 200, 300), Plan(10, 1, 3)),
    ):
        for num_topics in sizes:
            runs = {kernel: zoo(corpus, num_topics, kernel) for kernel in ("few", "many")}
            for run in runs.values():
                run.sweep(plan.before)
            found = interleave(
                {kernel: partial(_processor, partial(run.sweep, plan.timed)) for kernel, run in runs.items()}, plan.repeats
            )
            speeds = [len(corpus.word) * plan.timed / median(times) / 1e6 for times in found.values()]
            rows.append((f"{name}, K = {num_topics}", *(f"{speed:.2f}" for speed in speeds)))
    print_table("million tokens a second of processor time", ("", "few topics", "many topics"), rows)
    return []


PARTS: Mapping[str, Callable[[], list[Target]]] = {
    "sampler": measure_sampler,
    "chains": measure_chains,
    "kernels": measure_kernels,
}
