"""The topic model's variational inference against scikit-learn's `LatentDirichletAllocation` in batches.

Both climb one bound, of Dirichlet distributions of documents and topics, from one start of the topics, in double precision,
with concentrations α = 0.1 and η = 0.01 that are not learnt. A sweep of the zoo updates documents several times
(`inference.fixed_points.local_ascent`) and topics once, and brings the bound with it. A round of scikit-learn's repeats the
documents, from a random start, until they change little; its bound is computed with the clock stopped. They end in optima that
need not be the same: the target counts where the zoo's is not the lower one. Time is that of the sweeps or rounds until the
bound is first within 1e-4 of the lower one of both last bounds, which both then pass; set-up and compilation are left out.
"""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.special import digamma
from threadpoolctl import threadpool_limits

from benchmarks.measure import Target, interleave, median, print_table
from inference.engine.driver import drive
from inference.fitting.prepare import as_arrays, x64
from inference.fixed_points.climbing import step
from inference.fixed_points.fixed_point import Climb
from inference.methods import cavi
from inference.runtime.progress import Silent
from models import MODELS, Data
from models.algebra import at_mean
from models.topics.sampling.corpus import Corpus

ALPHA, ETA = 0.1, 0.01
CLOSE = 1e-4  # relative, of bounds


class Climbed(NamedTuple):
    """The bound after every sweep or round, and seconds until then."""

    bound: np.ndarray
    wall: np.ndarray
    processor: np.ndarray


class Case(NamedTuple):
    """A corpus, and how often it is gone through by either."""

    name: str
    counts: Any  # (M, V), sparse
    num_topics: int
    sweeps: int
    rounds: int
    repeats: int


def counts_of(corpus: Corpus) -> Any:
    """(M, V): how often every word stands in every document."""
    found = sparse.csr_array((np.ones(len(corpus.word)), corpus.word, corpus.starts), (corpus.num_documents, corpus.num_words))
    found.sum_duplicates()
    return found


def start_of(case: Case, index: int) -> np.ndarray:
    """(K, V): concentrations of the words of topics, as scikit-learn draws them."""
    return np.random.default_rng(index).gamma(100.0, 0.01, (case.num_topics, case.counts.shape[1]))


def scikit_learn(case: Case, index: int) -> Climbed:
    """Rounds of batch learning, each timed by itself."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        case.num_topics, doc_topic_prior=ALPHA, topic_word_prior=ETA, learning_method="batch", n_jobs=1, random_state=index
    )
    counts = sparse.csr_matrix(case.counts)
    model._init_latent_vars(counts.shape[1])
    start = start_of(case, index)
    model.components_ = start.copy()
    model.exp_dirichlet_component_ = np.exp(digamma(start) - digamma(start.sum(1, keepdims=True)))
    bounds, clocks = [], []
    with threadpool_limits(1):
        for _ in range(case.rounds):
            wall, processor = time.perf_counter(), time.process_time()
            model._em_step(counts, total_samples=counts.shape[0], batch_update=True)
            clocks.append((time.perf_counter() - wall, time.process_time() - processor))
            documents, _ = model._e_step(counts, cal_sstats=False, random_init=False)
            bounds.append(model._approx_bound(counts, documents, sub_sampling=False))
    return Climbed(np.array(bounds), *np.cumsum(clocks, axis=0).T)


class Zoo(NamedTuple):
    """What all repetitions share."""

    algebra: Any
    arrays: tuple[Any, ...]
    carrier: float


def zoo_of(case: Case) -> Zoo:
    """The model of a corpus, as numbers."""
    data = Data("counts", case.counts, tuple(map(str, range(case.counts.shape[1]))))
    model = MODELS["latent_dirichlet"](data, num_topics=case.num_topics, topic_concentration=ALPHA, word_concentration=ETA)
    arrays = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data), np.zeros(())))
    return Zoo(model.algebra, arrays, float(np.asarray(arrays[2].carrier).sum()))


def zoo(case: Case, shared: Zoo, index: int) -> Climbed:
    """All sweeps by the library's own loop, a time each; the bound, there anyway, less what scikit-learn's leaves out."""
    key = jax.random.PRNGKey(0)
    nu = {
        "topic_probs": jnp.zeros((1, case.counts.shape[0], case.num_topics)),
        "word_probs": jnp.asarray(start_of(case, index) - 1)[None],
    }
    T = jax.jit(jax.vmap(partial(at_mean, shared.algebra, key)))(nu)
    lowest, no = jnp.full(1, -jnp.inf), jnp.zeros(1, bool)
    state = Climb(T, T, nu, ~no, ~no, no, lowest, lowest, no, no, T, lowest)
    run = partial(drive, step, (shared.algebra, cavi.FIXED_POINT), shared.arrays, key, state)
    run(1, Silent(), "iterating")
    wall, processor = time.perf_counter(), time.process_time()
    found = run(case.sweeps, Silent(), "iterating")
    seconds = time.perf_counter() - wall, time.process_time() - processor
    share = np.arange(1, case.sweeps + 1) / case.sweeps
    return Climbed(found.records.criterion[0] - shared.carrier, seconds[0] * share, seconds[1] * share)


def reached(climbed: Climbed, bound: float) -> tuple[int, float, float]:
    """Sweeps or rounds, wall and processor seconds until the bound is there."""
    place = int((climbed.bound >= bound).argmax())
    return place + 1, float(climbed.wall[place]), float(climbed.processor[place])


def measured(case: Case) -> tuple[list[Any], list[Target]]:
    """Rows of the table and the target of one corpus."""
    with x64(64):
        shared = zoo_of(case)
        runs = {"zoo": partial(zoo, case, shared), "scikit-learn": partial(scikit_learn, case)}
        found = interleave(runs, case.repeats)
    pairs = list(zip(*found.values(), strict=True))
    wanted = [bound - CLOSE * abs(bound) for bound in (min(one.bound[-1] for one in pair) for pair in pairs)]
    times = {
        name: [median(values) for values in zip(*map(reached, climbs, wanted), strict=True)] for name, climbs in found.items()
    }
    rows = []
    for name, (number, wall, processor) in times.items():
        last = median(one.bound[-1] for one in found[name])
        rows.append((case.name, name, f"{number:.0f}", f"{wall:.2f}", f"{processor:.2f}", f"{last:.0f}"))
    as_high = all(zoo.bound[-1] > peer.bound[-1] * (1 + CLOSE) for zoo, peer in pairs)  # bounds are negative
    ratio = times["scikit-learn"][2] / times["zoo"][2]
    return rows, [Target(f"cavi to one bound, {case.name}, against scikit-learn", ratio, 2.0, agreed=as_high)]


def report(cases: list[Case]) -> list[Target]:
    """Measure and print."""
    rows: list[Any] = []
    targets: list[Target] = []
    for case in cases:
        found = measured(case)
        rows, targets = rows + found[0], targets + found[1]
    print_table(
        "variational inference to one bound, medians over starts",
        ("corpus", "", "sweeps or rounds", "seconds", "of processor", "last bound"),
        rows,
        "Seconds: until the bound is within 1e-4 of the lower last one. Targets are of processor time.",
    )
    return targets
