"""Variational inference of topics in minibatches against gensim and scikit-learn: held-out perplexity against time.

All three run stochastic variational inference (Hoffman, Blei and Bach 2010) from one start of the topics, with batches of 64
documents, steps of length (1 + step)^-0.7, α = 0.1 and η = 0.01, none learnt, in double precision on one core; rows come in an
order of each library's own. A document's inner loop ends at a mean change of 1e-3 or after a number of turns, equal for all.
The clock is that of processor time, of passes alone. Perplexity is one function of E[β] for all: by document completion, of
documents that none saw. scikit-learn and gensim begin a document at random proportions, the zoo at equal ones.
"""

from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import sparse
from scipy.special import digamma
from threadpoolctl import threadpool_limits

from benchmarks.measure import Target, interleave, median, print_table
from benchmarks.topic_libraries import ALPHA, ETA, generated
from benchmarks.topic_variational import counts_of
from inference import perplexity
from inference.engine.row_source import StepSize
from inference.fitting.prepare import x64
from inference.minibatches import svi_on_host as minibatch
from inference.runtime.progress import SILENT, Silent
from models import MODELS, Data
from models.base import on_host

BATCH, FORGETTING, DELAY = 64, 0.7, 1.0
TOPICS = 50
TURNS = (10, 100)  # of a document at most: the zoo takes 10, scikit-learn 100 and gensim 50 unless told otherwise
PASSES = (1, 2, 4)  # after which perplexity is looked at
CHANGE = 1e-3  # of a document on average, at which its inner loop ends
CLOSE = 1.01  # how near the worst last perplexity counts as there
WANTED = 1.5
MOST_WORDS = 200  # of a held-out document


class Trained(NamedTuple):
    """After each of `PASSES`: processor seconds, and E[β]."""

    seconds: list[float]
    words: list[np.ndarray]


Passes = Callable[[int], np.ndarray]  # more passes over the corpus -> λ (K, V)


def zoo(counts: Any, start: np.ndarray, turns: int) -> Passes:
    """The steps of `inference.minibatches.svi_on_host`, on one thread."""
    data = Data("counts", counts, tuple(map(str, range(counts.shape[1]))))
    model = MODELS["latent_dirichlet"](data, num_topics=TOPICS, topic_concentration=ALPHA, word_concentration=ETA)
    assert model.algebra is not None
    rows, total = model.rows(data), counts.shape[0]
    loops = minibatch.loops_of(model.algebra, rows)
    assert loops is not None
    plan = minibatch.BatchPlan(BATCH, turns, CHANGE, StepSize(DELAY, FORGETTING))
    state = minibatch.State(
        {"word_probs": on_host((start - 1)[None])}, on_host(np.zeros((1, total), int)), on_host(np.zeros(1, int))
    )
    key = jax.random.PRNGKey(0)
    run = partial(minibatch.drive_batches, loops, plan, dict(model.prior), rows, key, watch=SILENT, num_threads=1)
    held, taken = [state], [0]

    def passes(number: int) -> np.ndarray:
        steps = number * (total // BATCH)
        held[0] = run(held[0], steps, Silent(), "iterating", first=taken[0]).state
        taken[0] += steps
        return np.asarray(held[0].nu["word_probs"])[0] + 1

    run(state, 1, Silent(), "iterating")  # compiles
    return passes


def scikit_learn(counts: Any, start: np.ndarray, turns: int) -> Passes:
    """Batches of `LatentDirichletAllocation`, in random order."""
    from sklearn.decomposition import LatentDirichletAllocation

    total, rng = counts.shape[0], np.random.default_rng(0)
    rows = sparse.csr_matrix(counts)
    model = LatentDirichletAllocation(
        TOPICS, doc_topic_prior=ALPHA, topic_word_prior=ETA, learning_decay=FORGETTING, learning_offset=DELAY, n_jobs=1,
        max_doc_update_iter=turns, mean_change_tol=CHANGE, total_samples=total, random_state=0,
    )  # fmt: skip
    model._init_latent_vars(counts.shape[1])
    model.components_ = start.copy()
    model.exp_dirichlet_component_ = np.exp(digamma(start) - digamma(start.sum(1, keepdims=True)))

    def passes(number: int) -> np.ndarray:
        for _ in range(number):
            order = rng.permutation(total)[: total // BATCH * BATCH].reshape(-1, BATCH)
            for batch in order:
                model._em_step(rows[batch], total_samples=total, batch_update=False)
        return np.array(model.components_)

    return passes


def gensim(counts: Any, start: np.ndarray, turns: int) -> Passes:
    """Passes of `LdaModel` on one core."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    corpus = list(Sparse2Corpus(sparse.csc_matrix(counts), documents_columns=False))
    names = {word: str(word) for word in range(counts.shape[1])}
    model = LdaModel(
        id2word=names, num_topics=TOPICS, alpha=[ALPHA] * TOPICS, eta=ETA, decay=FORGETTING, offset=DELAY, iterations=turns,
        gamma_threshold=CHANGE, chunksize=BATCH, passes=1, update_every=1, eval_every=None, random_state=0, dtype=np.float64,
    )  # fmt: skip
    model.state.sstats[...] = start - ETA
    model.sync_state()

    def passes(number: int) -> np.ndarray:
        for _ in range(number):
            model.update(corpus, chunksize=BATCH)
        return np.array(model.state.get_lambda())

    return passes


LIBRARIES: Mapping[str, Callable[[Any, np.ndarray, int], Passes]] = {"zoo": zoo, "gensim": gensim, "scikit-learn": scikit_learn}


def trained(library: str, counts: Any, turns: int, index: int) -> Trained:
    """All passes of one library from the start of this number."""
    start = np.random.default_rng(index).gamma(100.0, 0.01, (TOPICS, counts.shape[1]))
    with x64(64), threadpool_limits(1):
        passes = LIBRARIES[library](counts, start, turns)
        spent, before, seconds, words = 0.0, 0, [], []
        for until in PASSES:
            clock = process_time()
            found = passes(until - before)
            spent, before = spent + process_time() - clock, until
            seconds.append(spent)
            words.append(found / found.sum(1, keepdims=True))
    return Trained(seconds, words)


def held_out(counts: Any, words: np.ndarray) -> float:
    """Perplexity of documents by completion, at given words of topics."""
    data = Data("held out", counts, tuple(map(str, range(counts.shape[1]))))
    model = MODELS["latent_dirichlet"](data, num_topics=TOPICS, topic_concentration=ALPHA, word_concentration=ETA)
    sites = {"word_probs": words, "topic_probs": np.full((counts.shape[0], TOPICS), 1 / TOPICS)}
    return float(perplexity(model, sites, data, "completion", num_draws=50)["perplexity"])


def corpora() -> dict[str, Any]:
    """Two generated ones with 5,000 words: documents of 200 words each, and of 1 to some 10,000, log-normal."""
    unequal = np.random.default_rng(1).lognormal(4.0, 1.5, 2_000).clip(1).astype(int)
    return {
        "equal": counts_of(generated(400_000, num_words=5_000, num_topics=TOPICS)),
        "unequal": counts_of(generated(num_words=5_000, num_topics=TOPICS, lengths=unequal)),
    }


def measure() -> list[Target]:
    """Print perplexities against seconds; the targets are of time to the worst library's last perplexity."""
    return [target for name, counts in corpora().items() for target in _of_corpus(name, counts)]


def _of_corpus(corpus: str, counts: Any) -> list[Target]:
    order, lengths = np.random.default_rng(0).permutation(counts.shape[0]), counts.sum(1)
    held = order[lengths[order] <= MOST_WORDS][:200]  # the perplexity of long documents takes minutes
    unseen, seen = counts[held], counts[order[~np.isin(order, held)]]
    rows: list[tuple[str, ...]] = []
    targets: list[Target] = []
    for turns in TURNS:
        found = interleave({name: partial(_measured, name, seen, unseen, turns) for name in LIBRARIES}, 3)
        worst = max(median(run[1][-1] for run in runs) for runs in found.values())
        reached = {}
        for name, runs in found.items():
            seconds, levels = ([median(values) for values in zip(*part, strict=True)] for part in zip(*runs, strict=True))
            rows += [
                (name, str(turns), str(number), f"{second:.2f}", f"{level:.1f}")
                for number, second, level in zip(PASSES, seconds, levels, strict=True)
            ]
            reached[name] = next(second for second, level in zip(seconds, levels, strict=True) if level <= CLOSE * worst)
        targets += [
            Target(f"{corpus} documents, {turns} turns, against {name}", reached[name] / reached["zoo"], WANTED)
            for name in LIBRARIES
            if name != "zoo"
        ]
    print_table(
        f"minibatches, {seen.shape[0]} {corpus} generated documents, K = {TOPICS}, medians over 3 starts",
        ("", "turns", "passes", "seconds of processor", "held-out perplexity"),
        rows,
        "200 documents held out. Targets: seconds until within 1 % of the worst library's last perplexity.",
    )
    return targets


def _measured(name: str, seen: Any, unseen: Any, turns: int, index: int) -> tuple[list[float], list[float]]:
    """Seconds and perplexities of one library and start."""
    run = trained(name, seen, turns, index)
    return run.seconds, [held_out(unseen, words) for words in run.words]
