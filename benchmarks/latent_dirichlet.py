"""The topic model's collapsed Gibbs sampler against tomotopy (C++) and lda (Cython), at equal priors, none of them learnt.

Tokens per second are tokens times sweeps, divided by seconds of processor time (all threads of the process), so that other work
on the machine matters less. Every library runs on one core. tomotopy and lda are in the extra ``bench``.

- *sampler*: Reuters (84,010 tokens, 395 stories, from ``lda``) and a generated corpus of ten million tokens, K = 20, 100, 1000,
  α = 0.1, η = 0.01. Sweeps before the clock starts, and those under it, are equal in all libraries; the log joint of the words
  and the last topics must agree within 1 %. Set-up of a call is within the zoo's time.
- *chains*: two chains on two threads against one after the other, by the wall clock.
- *sharded*: the partially collapsed sampler, whose shards of documents run on threads, against one fully collapsed chain.
- *likelihood*: log p(w, z) of Reuters at K = 20 after 500 sweeps, five seeds of every library.
- *kernels*: the kernel for few topics against that for many, by K: where the rule of `token_sampler` comes from.
- *cavi*: variational inference against scikit-learn's (`topic_variational`).
- *minibatch*: the same in minibatches, against gensim and scikit-learn (`topic_minibatch`).
"""

import importlib.util
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from benchmarks import topic_minibatch, topic_variational
from benchmarks.measure import Target, interleave, median, print_table
from benchmarks.topic_libraries import ALPHA, ETA, PEERS, Run, generated, reuters, sharded, zoo
from models.topics.sampling.chains import start_chain, swept_chains, topic_prior
from models.topics.sampling.corpus import Corpus, log_joint

AGREEMENT = 0.01  # relative, of log joints


class Plan(NamedTuple):
    """Sweeps before the clock, sweeps of one timing, timings."""

    before: int
    timed: int
    repeats: int


def _clocks(run: Callable[[], Any], index: int) -> tuple[float, float]:
    """Seconds of the wall clock and of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def _processor(run: Callable[[], Any], index: int) -> float:
    clock = time.process_time()
    run()
    return time.process_time() - clock


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
    """Tokens per second on one core."""
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
        "sweeps on one core, million tokens per second of processor time",
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
        "ratio: of wall clocks. It means nothing while other work occupies a core; equal processor times then still show that "
        "chains neither wait for each other nor slow each other down.",
    )
    return targets


def measure_sharded() -> list[Target]:
    """Tokens per second of one chain: fully collapsed, and partially collapsed on one thread and two."""
    rows, targets = [], []
    for name, corpus, sizes, plan in (
        ("Reuters", reuters(), (20, 100, 1000), Plan(100, 20, 7)),
        ("generated, 2 million", generated(2_000_000), (20, 100, 1000), Plan(8, 2, 5)),
    ):
        for num_topics in sizes:
            runs = {
                "collapsed": zoo(corpus, num_topics),
                "sharded, 1 thread": sharded(corpus, num_topics),
                "sharded, 2 threads": sharded(corpus, num_topics, num_threads=2),
            }
            for run in runs.values():
                run.sweep(plan.before)
            found = interleave(
                {which: partial(_clocks, partial(run.sweep, plan.timed)) for which, run in runs.items()}, plan.repeats
            )
            work = len(corpus.word) * plan.timed / 1e6
            walls = {}
            for which, pairs in found.items():
                wall, processor = (work / median(times) for times in zip(*pairs, strict=True))
                walls[which] = wall
                level = log_joint(runs[which].counts(), ALPHA, ETA) / len(corpus.word)
                rows.append((f"{name}, K = {num_topics}", which, f"{processor:.2f}", f"{wall:.2f}", f"{level:.4f}"))
            if name != "Reuters":
                ratio = walls["sharded, 2 threads"] / walls["sharded, 1 thread"]
                targets.append(Target(f"partially collapsed Gibbs on two cores, {name}, K = {num_topics}", ratio, 1.8))
    print_table(
        "one chain, million tokens per second",
        ("corpus", "", "of processor time", "of wall clock", "log joint / token"),
        rows,
        "Log joints after equally many sweeps show how far the partially collapsed chain is behind. Wall clocks mean nothing "
        "while other work occupies a core.",
    )
    return targets


def measure_likelihood() -> list[Target]:
    """Log p(w, z) of all libraries, by one function of their counts, after equally many sweeps; to agree within the seeds."""
    corpus, num_topics, sweeps, seeds = reuters(), 20, 500, range(1, 6)
    here = {peer: make for peer, make in PEERS.items() if importlib.util.find_spec(peer) is not None}
    libraries: dict[str, Callable[..., Run]] = {"zoo": zoo, "zoo, sharded": sharded, **here}
    levels: dict[str, list[float]] = {}
    for name, make in libraries.items():
        levels[name] = []
        for seed in seeds:
            run = make(corpus, num_topics, seed)
            run.sweep(sweeps)
            levels[name].append(log_joint(run.counts(), ALPHA, ETA))
    rows, targets = [], []
    for name, found in levels.items():
        mean, low, high = sum(found) / len(found), min(found), max(found)
        rows.append((name, *(f"{value:.0f}" for value in (mean, low, high, high - low))))
        if name in PEERS:
            ours = levels["zoo"]
            gap = abs(sum(ours) / len(ours) - mean)
            spread = max(max(ours) - min(ours), high - low)
            targets.append(
                Target(f"difference of mean log joints from {name}'s", gap / spread, 1.0, at_least=False, unit="spread")
            )
    print_table(
        f"log p(w, z), Reuters, K = {num_topics}, {sweeps} sweeps, {len(seeds)} seeds",
        ("", "mean", "least", "largest", "spread"),
        rows,
        "spread: largest less least of one library's seeds; the target takes the wider of the two.",
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
            runs = {kernel: zoo(corpus, num_topics, kernel=kernel) for kernel in ("few", "many")}
            for run in runs.values():
                run.sweep(plan.before)
            found = interleave(
                {kernel: partial(_processor, partial(run.sweep, plan.timed)) for kernel, run in runs.items()}, plan.repeats
            )
            speeds = [len(corpus.word) * plan.timed / median(times) / 1e6 for times in found.values()]
            rows.append((f"{name}, K = {num_topics}", *(f"{speed:.2f}" for speed in speeds)))
    print_table("million tokens per second of processor time", ("", "few topics", "many topics"), rows)
    return []


def measure_cavi() -> list[Target]:
    """Variational inference, Reuters and a million generated tokens."""
    large = generated(1_000_000, num_topics=50)
    cases = [
        topic_variational.Case("Reuters, K = 20", topic_variational.counts_of(reuters()), 20, 120, 50, 5),
        topic_variational.Case("generated, K = 50", topic_variational.counts_of(large), 50, 60, 15, 3),
    ]
    return topic_variational.report(cases)


PARTS: Mapping[str, Callable[[], list[Target]]] = {
    "sampler": measure_sampler,
    "chains": measure_chains,
    "sharded": measure_sharded,
    "likelihood": measure_likelihood,
    "kernels": measure_kernels,
    "cavi": measure_cavi,
    "minibatch": topic_minibatch.measure,
}
