"""The probability of documents under given topics, estimated left to right without bias.

p(w_d | β, α), topic proportions and the topics of all tokens summed out, is the product over positions n of
p(w_n | w_<n, β, α). Particles hold topics of the tokens before n. As in algorithm 3 of Wallach, Murray, Salakhutdinov and Mimno
("Evaluation methods for topic models", ICML 2009), at every position each particle draws all its topics anew, one after another
from their conditionals, then gives its weight

    p(w_n | z_<n, β, α) = Σ_k β_k,w_n (n_dk + α_dk) / (n - 1 + Σ_k α_dk),

and draws a topic of token n. The estimate is the product over n of the mean weights.

One thing is added: particles are resampled by their weights before they go on (systematic resampling). Without it the product
of means is biased from three tokens and two particles on, and particles without number do not mend that: topics drawn from left
to right are not yet draws from their posterior, and only the weights would tell (`tests/test_left_to_right.py` computes it
exactly). With it this is a sequential Monte Carlo sampler whose moves leave p(z_<n | w_<n, β, α) invariant, and its estimate is
unbiased for any number of particles (Del Moral, 2004, section 7.4). The logarithm of an unbiased estimate is
too low on the average, by about half its variance: more particles lower both. Time grows with particles × K × the square of a
document's length.

The probability is that of the sequence of words. A bag of words with counts c has it times N! / Π_v c_v!, which is left out
here.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from models.data import ZooError
from models.tokens import Corpus

BATCH = 16  # documents in one call of the kernel: enough that a call costs nothing, few enough for threads to share them evenly


def left_to_right(
    corpus: Corpus,
    word_probs: Any,
    alpha: Any,
    particles: int = 20,
    seed: int = 0,
    num_threads: int = 1,
) -> np.ndarray:
    """Logs of unbiased estimates of p(w_d | β, α) (M,), without the multinomial coefficient; empty documents have 0.

    ``word_probs`` (K, V) are the topics β, ``alpha`` (K,) or a number the concentrations of their proportions. A document with
    a word that no topic has gets -inf. The random numbers of a document are those of the seed and its place in the corpus: the
    result does not depend on the number of threads.

    Raises `ZooError` for other shapes, probabilities below 0 or not finite, concentrations that are not positive and finite,
    and less than one particle or thread.
    """
    from models.given_topics import rows_of
    from models.particles import left_to_right_documents

    beta = np.asarray(word_probs, dtype=float)
    concentration = _checked(corpus, beta, alpha)
    if particles < 1 or num_threads < 1:
        raise ZooError(f"particles={particles}, num_threads={num_threads}: there must be one at least")
    table, width = rows_of(np.ascontiguousarray(beta.T))
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    found = np.zeros(corpus.num_documents)

    def run(begin: int) -> None:
        end = min(begin + BATCH, corpus.num_documents)
        left_to_right_documents(corpus.word, corpus.starts, concentration, table, width, particles, key, begin, end, found)

    batches = range(0, corpus.num_documents, BATCH)
    if num_threads == 1:
        for begin in batches:
            run(begin)
    else:
        with ThreadPoolExecutor(num_threads) as pool:
            list(pool.map(run, batches))
    return found


def _checked(corpus: Corpus, beta: np.ndarray, alpha: Any) -> np.ndarray:
    """α in its shape, or a `ZooError`."""
    from models.token_sampler import topic_prior

    if beta.ndim != 2 or beta.shape[1] != corpus.num_words:
        raise ZooError(f"word_probs has shape {beta.shape}, not (K, {corpus.num_words})")
    if not (np.isfinite(beta) & (beta >= 0)).all():
        raise ZooError("word_probs must be finite and not below 0: they are probabilities")
    return topic_prior(corpus, len(beta), alpha, 1.0).alpha
