"""Left-to-right estimation of the probability of documents under given topics, without bias.

p(w_d | β, α), with topic proportions and topics integrated out, is the product over positions n of p(w_n | w_<n, β, α).
Particles hold the topics of the tokens before n. As in algorithm 3 of Wallach, Murray, Salakhutdinov and Mimno
("Evaluation methods for topic models", ICML 2009), at every position each particle redraws all its topics, one after another
from their conditionals, then computes its weight

    p(w_n | z_<n, β, α) = Σ_k β_k,w_n (n_dk + α_dk) / (n - 1 + Σ_k α_dk),

and draws a topic of token n. The estimate is the product over n of the mean weights.

Unlike algorithm 3, particles are then resampled by their weights (systematic resampling). Without resampling the product of
means is biased from three tokens and two particles on, for any number of particles, because topics drawn from left to right
are not draws from their posterior (`tests/models/topics/test_left_to_right.py` computes this bias exactly). With resampling
this is a sequential Monte Carlo sampler whose moves leave p(z_<n | w_<n, β, α) invariant, and the estimate is unbiased for
any number of particles (Del Moral, 2004, section 7.4). Its logarithm is too low on average, by about half its variance; more
particles reduce both. Time grows with particles × K × squared document length.

This is the probability of the ordered words. That of a bag of words with counts c has another factor N! / Π_v c_v!.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from models.errors import ZooError
from models.topics.sampling.corpus import Corpus

BATCH = 16  # documents per call of the kernel: large enough to hide its overhead, small enough for even loads of threads


def left_to_right(
    corpus: Corpus,
    word_probs: Any,
    alpha: Any,
    particles: int = 20,
    seed: int = 0,
    num_threads: int = 1,
) -> np.ndarray:
    """Logs of unbiased estimates of p(w_d | β, α) (M,), without the multinomial coefficient; 0 for empty documents.

    ``word_probs`` (K, V) are the topics β, ``alpha``, (K,) or a number, the concentrations of the proportions. A document with
    a word of probability 0 in all topics gets -inf. Random numbers depend on the seed and the index of the document, not on
    the number of threads.

    Raises `ZooError` for wrong shapes, probabilities that are negative or not finite, concentrations that are not positive
    and finite, or less than one particle or thread.
    """
    from models.topics.sampling.conditional_sampler import rows_of
    from models.topics.sampling.particle_filter import left_to_right_documents

    beta = np.asarray(word_probs, dtype=float)
    concentration = _checked(corpus, beta, alpha)
    if particles < 1 or num_threads < 1:
        raise ZooError(f"particles={particles}, num_threads={num_threads}: both must be at least 1")
    table, width = rows_of(np.ascontiguousarray(beta.T))
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    estimates = np.zeros(corpus.num_documents)

    def run(begin: int) -> None:
        end = min(begin + BATCH, corpus.num_documents)
        left_to_right_documents(corpus.word, corpus.starts, concentration, table, width, particles, key, begin, end, estimates)

    batches = range(0, corpus.num_documents, BATCH)
    if num_threads == 1:
        for begin in batches:
            run(begin)
    else:
        with ThreadPoolExecutor(num_threads) as pool:
            list(pool.map(run, batches))
    return estimates


def _checked(corpus: Corpus, beta: np.ndarray, alpha: Any) -> np.ndarray:
    """Check the arguments; return α (K,)."""
    from models.topics.sampling.chains import topic_prior

    if beta.ndim != 2 or beta.shape[1] != corpus.num_words:
        raise ZooError(f"word_probs has shape {beta.shape}, not (K, {corpus.num_words})")
    if not (np.isfinite(beta) & (beta >= 0)).all():
        raise ZooError("word_probs must be finite and not negative: they are probabilities")
    return topic_prior(corpus, len(beta), alpha, 1.0).alpha
