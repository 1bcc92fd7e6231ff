"""Inner updates of documents of unequal lengths by compiled loops: the E-step of online LDA (Hoffman, Blei and Bach 2010).

With concentrations γ_d of the proportions of document d and φ_dvk = p(z = k | w = v, d),

    φ_dvk ∝ exp(E[log θ_dk] + E[log β_kv]),    γ_dk = α_k + weight_d Σ_v count_dv φ_dvk,

in turn until γ_d moves little. No φ is stored: with norm_dv = Σ_k exp(…), expected counts are sums of count / norm, weighed by
exp E[log θ] or exp E[log β]. Words of a document lie one after another, and no document is padded. Rows of topics are padded
with zeros to whole vectors of eight. Where a norm underflows, the word is taken by logarithms.

Loops over a range of documents or words write to separate places, so that threads do not change the result.
"""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled, compiled_sums
from models.host.simd import add_product, last, load, running_sums, splat, store
from models.topics.elementary import digamma, digamma_and_log_gamma, exp_of, inlined, log_of

# Smaller sums of weights have lost digits, as `models.topics.latent.is_precise` has it
SMALLEST = np.finfo(float).tiny / np.finfo(float).eps


# ---------------------------------------------------------------------------------------------------------------------
# Word probabilities


@compiled_sums
def expected_entries(nu: Any, prior: Any, psi: Any, ends: Any, parts: Any, first: int, end: int) -> None:
    """ψ(nu + 1) of all entries into ``psi``, and Σ ψ(nu + 1) (prior − nu) + log Γ(nu + 1) of every shard into ``parts``.

    Entries are flat. Shard s has those from ends[s] to ends[s + 1].
    """
    for shard in range(first, end):
        begin, after, total = ends[shard], ends[shard + 1], 0.0
        own_nu, own_prior, own_psi = nu[begin:after], prior[begin:after], psi[begin:after]
        for i in range(len(own_nu)):  # from 0, so that a compiler sees that no index is negative
            own_psi[i], log_gamma = digamma_and_log_gamma(own_nu[i] + 1.0)
            total += own_psi[i] * (own_prior[i] - own_nu[i]) + log_gamma
        parts[shard] = total


@compiled
def weights_of_words(used: Any, psi: Any, psi_of_sums: Any, logs: Any, weight: Any, shift: Any, first: int, end: int) -> None:
    """For words ``used`` (U,): E[log β] (U, K), exp(E[log β] − shift) (U, width) and shift (U,), the largest over topics.

    ``weight`` is zero from column K on, and stays so.
    """
    for j in range(first, end):
        psi_of_word, log_probs, largest = psi[used[j]], logs[j], -np.inf
        for k in range(len(psi_of_sums)):
            log_probs[k] = psi_of_word[k] - psi_of_sums[k]
        for k in range(len(psi_of_sums)):
            largest = log_probs[k] if log_probs[k] > largest else largest
        shift[j] = largest
        row = weight[j]
        for k in range(len(psi_of_sums)):
            row[k] = exp_of(log_probs[k] - largest)


# ---------------------------------------------------------------------------------------------------------------------
# The words of a batch


@compiled
def words_of_batch(word: Any, times: Any, starts: Any, picked: Any, place: Any, cells: Any, counts: Any, used: Any) -> int:
    """Words of documents ``picked``, numbered as they come: codes into ``cells``, counts, words into ``used`` -> how many.

    ``place`` (V,) is −1 for every word, and is so again afterwards.
    """
    at, number = 0, 0
    for d in picked:
        for i in range(starts[d], starts[d + 1]):
            v = word[i]
            if place[v] < 0:
                place[v], used[number] = number, v
                number += 1
            cells[at], counts[at] = place[v], times[i]
            at += 1
    for j in range(number):
        place[used[j]] = -1
    return number


@compiled
def cells_by_word(cells: Any, begins: Any, number: int, starts: Any, order: Any, document: Any) -> None:
    """Cells in the order of their words: word j has order[starts[j] : starts[j + 1]], and cell c is of document[c]."""
    for d in range(len(begins) - 1):
        for c in range(begins[d], begins[d + 1]):
            document[c] = d
            starts[cells[c]] += 1
    for j in range(number):
        starts[j + 1] += starts[j]
    for c in range(len(cells) - 1, -1, -1):  # from the end: the ends of words move down to their starts
        starts[cells[c]] -= 1
        order[starts[cells[c]]] = c


# ---------------------------------------------------------------------------------------------------------------------
# Documents


@compiled_sums
def expected_proportions(nu: Any, allowed: Any, logs: Any, weight: Any) -> float:
    """E[log θ] of one document's nu into ``logs``, exp(E[log θ] − shift) into ``weight``; -> shift, the largest allowed."""
    K, total, largest = len(nu), 0.0, -np.inf
    for k in range(K):
        total += nu[k] + 1.0
    psi_of_sum = digamma(total)
    for k in range(K):
        logs[k] = digamma(nu[k] + 1.0) - psi_of_sum
    for k in range(K):
        largest = logs[k] if allowed[k] and logs[k] > largest else largest
    shift = largest if largest > -np.inf else 0.0
    for k in range(K):
        weight_of_topic = exp_of(min(logs[k] - shift, 0.0))  # above 0 only where it is not allowed
        weight[k] = weight_of_topic if allowed[k] else 0.0
    return shift


@inlined
def clear(values: Any) -> None:
    """Zeros in the place of numbers."""
    for k in range(len(values)):
        values[k] = 0.0


@inlined
def sum_of(values: Any) -> float:
    """The sum of eight numbers."""
    return float(last(running_sums(values)))


@inlined
def norm_of(word: Any, at: int, topic: Any) -> float:
    """Norm of one word, whose weights are word[at : at + width], in a document with weights ``topic`` (width,)."""
    total = splat(0.0)
    for k in range(0, len(topic), LANES):
        total = add_product(total, load(word, at + k), load(topic, k))
    return sum_of(total)


@inlined
def norms_of_four(word: Any, a: int, b: int, c: int, d: int, topic: Any) -> Any:
    """The same of four words at once, so that a processor need not wait for the sum of one."""
    of_a, of_b, of_c, of_d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(0, len(topic), LANES):
        weight = load(topic, k)
        of_a = add_product(of_a, load(word, a + k), weight)
        of_b = add_product(of_b, load(word, b + k), weight)
        of_c = add_product(of_c, load(word, c + k), weight)
        of_d = add_product(of_d, load(word, d + k), weight)
    return sum_of(of_a), sum_of(of_b), sum_of(of_c), sum_of(of_d)


@inlined
def add_row(total: Any, factor: float, table: Any, at: int) -> None:
    """``total`` (width,) += factor · table[at : at + width]."""
    wide = splat(factor)
    for k in range(0, len(total), LANES):
        store(total, k, add_product(load(total, k), wide, load(table, at + k)))


@inlined
def add_four(total: Any, factors: Any, table: Any, a: int, b: int, c: int, d: int) -> None:
    """The same of four rows at once."""
    of_a, of_b, of_c, of_d = splat(factors[0]), splat(factors[1]), splat(factors[2]), splat(factors[3])
    for k in range(0, len(total), LANES):
        left = add_product(add_product(load(total, k), of_a, load(table, a + k)), of_b, load(table, b + k))
        store(total, k, add_product(add_product(left, of_c, load(table, c + k)), of_d, load(table, d + k)))


@compiled
def shares_by_logs(topic: Any, allowed: Any, word: Any, share: Any) -> float:
    """φ from logarithms into ``share`` (K,), zeros where no topic is possible; -> the log of its norm."""
    largest = -np.inf
    for k in range(len(share)):
        if allowed[k]:
            largest = max(largest, topic[k] + word[k])
    total = 0.0
    for k in range(len(share)):
        share[k] = np.exp(topic[k] + word[k] - largest) if allowed[k] and largest > -np.inf else 0.0
        total += share[k]
    for k in range(len(share)):
        share[k] /= total if total > 0 else 1.0
    return largest + np.log(total) if total > 0 else -np.inf


@compiled
def add_by_logs(count: float, topic: Any, allowed: Any, word: Any, rest: Any) -> None:
    """``rest`` (K,) += count · φ."""
    share = np.empty(len(rest))
    shares_by_logs(topic, allowed, word, share)
    for k in range(len(rest)):
        rest[k] += count * share[k]


@compiled
def add_expected_counts(
    cells: Any, counts: Any, topic_logs: Any, allowed: Any, topic: Any, word_logs: Any, word: Any, total: Any, rest: Any
) -> None:
    """Σ_v count_v φ_v of one document: topic · ``total`` + ``rest``, the latter of words by logarithms; both begin at 0."""
    width, fours = len(total), len(cells) // 4 * 4
    for i in range(0, fours, 4):
        a, b, c, d = cells[i] * width, cells[i + 1] * width, cells[i + 2] * width, cells[i + 3] * width
        norms = norms_of_four(word, a, b, c, d, topic)
        if min(norms[0], norms[1], norms[2], norms[3]) > SMALLEST:
            factors = counts[i] / norms[0], counts[i + 1] / norms[1], counts[i + 2] / norms[2], counts[i + 3] / norms[3]
            add_four(total, factors, word, a, b, c, d)
        else:
            for j in range(4):
                if norms[j] > SMALLEST:
                    add_row(total, counts[i + j] / norms[j], word, cells[i + j] * width)
                else:
                    add_by_logs(counts[i + j], topic_logs, allowed, word_logs[cells[i + j]], rest)
    for i in range(fours, len(cells)):
        norm = norm_of(word, cells[i] * width, topic)
        if norm > SMALLEST:
            add_row(total, counts[i] / norm, word, cells[i] * width)
        else:
            add_by_logs(counts[i], topic_logs, allowed, word_logs[cells[i]], rest)


@compiled_sums
def ascend_documents(
    begins: Any, cells: Any, counts: Any, weights: Any, allowed: Any, prior: Any, word_logs: Any, word: Any,
    most: int, close: float, nu: Any, logs: Any, topic: Any, shift: Any, first: int, end: int,
) -> None:  # fmt: skip
    """Nu of documents (B, K) to its fixed point from prior + 1; then E[log θ], exp(E[log θ] − shift) and shift at its end.

    ``word`` is the weight (U, width) of `weights_of_words`, ``topic`` (B, width) has zeros from K on.
    """
    K, flat = nu.shape[1], word.reshape(-1)
    total, rest = np.zeros(topic.shape[1]), np.zeros(K)
    for d in range(first, end):
        words_of_document, mine = cells[begins[d] : begins[d + 1]], counts[begins[d] : begins[d + 1]]
        now, theirs = nu[d], topic[d]
        for k in range(K):
            now[k] = prior[k] + 1.0
        for _ in range(most):
            expected_proportions(now, allowed[d], logs[d], theirs)
            clear(total)
            clear(rest)
            add_expected_counts(words_of_document, mine, logs[d], allowed[d], theirs, word_logs, flat, total, rest)
            moved = 0.0
            for k in range(len(now)):
                following = prior[k] + weights[d] * (theirs[k] * total[k] + rest[k])
                moved += abs(following - now[k])
                now[k] = following
            if moved <= close * K:
                break
        shift[d] = expected_proportions(now, allowed[d], logs[d], theirs)


@compiled_sums
def bounds_of_documents(
    begins: Any, cells: Any, counts: Any, weights: Any, allowed: Any, prior: Any, word_logs: Any, word: Any, word_shift: Any,
    nu: Any, logs: Any, topic: Any, shift: Any, ratio: Any, bound: Any, first: int, end: int,
) -> None:  # fmt: skip
    """Every document's part of the evidence bound, but constants; weight · count / norm of its words into ``ratio``.

    A word that is taken by logarithms has the ratio −1. Bounds are weight_d Σ_v count_dv log Σ_k exp(…) and the divergence of
    the proportions without log Z of their prior.
    """
    K, width, flat, share = nu.shape[1], topic.shape[1], word.reshape(-1), np.empty(nu.shape[1])
    for d in range(first, end):
        evidence = 0.0
        for c in range(begins[d], begins[d + 1]):
            j = cells[c]
            norm = norm_of(flat, j * width, topic[d])
            if norm > SMALLEST:
                ratio[c] = weights[d] * counts[c] / norm
                evidence += counts[c] * (log_of(norm) + shift[d] + word_shift[j])
            else:
                ratio[c] = -1.0
                evidence += counts[c] * shares_by_logs(logs[d], allowed[d], word_logs[j], share)
        divergence, whole = 0.0, 0.0
        for k in range(K):
            divergence += logs[d, k] * (prior[k] - nu[d, k]) + digamma_and_log_gamma(nu[d, k] + 1.0)[1]
            whole += nu[d, k] + 1.0
        divergence -= digamma_and_log_gamma(whole)[1]
        bound[d] = divergence + (weights[d] * evidence if weights[d] != 0.0 else 0.0)


# ---------------------------------------------------------------------------------------------------------------------
# Statistics of words


@compiled
def counts_of_words(
    used: Any, starts: Any, order: Any, document: Any, counts: Any, weights: Any, allowed: Any, word_logs: Any, word: Any,
    logs: Any, topic: Any, ratio: Any, stats: Any, first: int, end: int,
) -> None:  # fmt: skip
    """Weighted expected counts by word and topic, Σ_d weight_d count_dv φ_dvk, into rows ``used`` of ``stats`` (V, K)."""
    K, width = logs.shape[1], topic.shape[1]
    flat, total, rest, share = topic.reshape(-1), np.zeros(width), np.zeros(K), np.empty(K)
    for j in range(first, end):
        clear(total)
        clear(rest)
        for i in range(starts[j], starts[j + 1]):
            c = order[i]
            d = document[c]
            if ratio[c] >= 0.0:
                add_row(total, ratio[c], flat, d * width)
            else:
                shares_by_logs(logs[d], allowed[d], word_logs[j], share)
                for k in range(K):
                    rest[k] += weights[d] * counts[c] * share[k]
        for k in range(K):
            stats[used[j], k] = word[j, k] * total[k] + rest[k]
