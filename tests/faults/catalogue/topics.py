"""Faults in topic models and their samplers, estimators, and how topics are judged."""

from ..fault import Fault

LATENT = "models/topics/latent.py"
COLLAPSED = "models/topics/collapsed.py"
LOCAL = "models/topics/local_variational.py"
HELD_OUT = "models/topics/held_out.py"
DENSE = "models/topics/sampling/dense_sampler.py"
SPARSE = "models/topics/sampling/sparse_sampler.py"
CONDITIONAL = "models/topics/sampling/conditional_sampler.py"
PARTICLES = "models/topics/sampling/particle_filter.py"
CHAINS = "models/topics/sampling/chains.py"
DISTANCES = "inference/topics/relevance.py"

FAULTS = (
    Fault(
        "tokens-count-once",
        LATENT,
        'return local.bags.carrier.at[words.row].add(_weighed(words.times, value), mode="drop")',
        'return local.bags.carrier.at[words.row].add(_weighed(jnp.minimum(words.times, 1), value), mode="drop")',
        "a word counts once in the likelihood, however often it occurs",
        "weight",
    ),
    Fault(
        "tokens-weights-of-documents",
        LATENT,
        "counts = z.cells.times * _of_document(weight, z.cells)",
        "counts = z.cells.times",
        "weights of documents are forgotten in counts of drawn topics",
        "weight",
    ),
    Fault(
        "tokens-expected-without-weights",
        LATENT,
        "found = _weighed(_summed(add, jnp.zeros_like(side.logs), _ratios(local), shape), side.weight)",
        "found = _summed(add, jnp.zeros_like(side.logs), _ratios(local), shape)",
        "expected counts lack the weight of their own side",
        "weight",
    ),
    Fault(
        "tokens-blocks-share-a-key",
        LATENT,
        "uniform = jax.random.uniform(jax.random.fold_in(key, index), (weights.shape[0], 1), weights.dtype)",
        "uniform = jax.random.uniform(key, (weights.shape[0], 1), weights.dtype)",
        "all blocks of tokens are drawn with one key",
        "key reuse",
    ),
    Fault(
        "bound-stops-at-once",
        LOCAL,
        "return lax.while_loop(lambda carry: (carry[0] < most) & (carry[2] > close), again, start)[1]",
        "return lax.while_loop(lambda carry: (carry[0] < most) & (carry[2] < close), again, start)[1]",
        "proportions of documents are never updated",
        "threshold",
    ),
    Fault(
        "bound-prior-forgotten",
        LOCAL,
        "return prior + (counts if weight is None else weight * counts)",
        "return prior + counts",
        "weights of documents are forgotten in their proportions",
        "weight",
    ),
    Fault(
        "bound-allowed-topics",
        LOCAL,
        "topic = scaled(logs if allowed_topics is None else jnp.where(allowed_topics, logs, -jnp.inf))",
        "topic = scaled(logs)",
        "labels of documents do not restrict their topics",
        "mask",
    ),
    Fault(
        "held-out-mean-of-logs",
        HELD_OUT,
        "found: np.ndarray = logsumexp(each, axis=0) - np.log(len(words))",
        "found: np.ndarray = np.mean(each, axis=0)",
        "held-out probabilities are averaged as logarithms",
        "evidence",
    ),
    Fault(
        "completion-of-draws",
        HELD_OUT,
        "logs = np.log(mean / len(draws[TOPIC]))",
        "logs = np.log(mean)",
        "document completion sums over draws",
        "divisor",
    ),
    Fault(
        "halves-overlap",
        HELD_OUT,
        "return _with_times(rows, word, first), _with_times(rows, word, times - first)",
        "return _with_times(rows, word, first), _with_times(rows, word, times)",
        "the half that is scored holds the half that was seen",
        "mask",
    ),
    Fault(
        "collapsed-density-of-words",
        COLLAPSED,
        "density = log_dirichlet(logs[TOPIC], prior.alpha) + log_dirichlet(logs[WORD], prior.eta)",
        "density = log_dirichlet(logs[TOPIC], prior.alpha)",
        "the log prior of a draw forgets the words of the topics",
        "prior",
    ),
    Fault(
        "collapsed-alignment-inverse",
        COLLAPSED,
        "found.append(chain._replace(topic=own[np.argsort(theirs)][chain.topic].astype(np.int32)))",
        "found.append(chain._replace(topic=np.argsort(own)[chain.topic].astype(np.int32)))",
        "topics of chains are matched by the inverse permutation",
        "permutation",
    ),
    Fault(
        "collapsed-seed-of-chains",
        CHAINS,
        "states, topics = np.random.SeedSequence(seed, spawn_key=(chain,)).spawn(2)",
        "states, topics = np.random.SeedSequence(seed).spawn(2)",
        "all chains of topics have the same random numbers",
        "key reuse",
    ),
    Fault(
        "corpus-total-of-vocabulary",
        CHAINS,
        "total = eta[0] * corpus.num_words if prior.eta.ndim == 0 else prior.eta.sum(1)",
        "total = eta[0] if prior.eta.ndim == 0 else prior.eta.sum(1)",
        "the words' concentrations are not summed over the vocabulary",
        "divisor",
    ),
    Fault(
        "dense-own-token-kept",
        DENSE,
        "nd[drawn] += 1",
        "nd[drawn] += 2",
        "a drawn token counts twice in its document",
        "index",
    ),
    Fault(
        "dense-word-prior-forgotten",
        DENSE,
        "extra = (counts[row + drawn] + flat_eta[eta_row + drawn]) * q[drawn] - without",
        "extra = counts[row + drawn] * q[drawn] - without",
        "the next token forgets the prior of the word just drawn",
        "prior",
    ),
    Fault(
        "sparse-smoothing-with-old-q",
        SPARSE,
        "blocks[k // BLOCK] += new - q[k]",
        "blocks[k // BLOCK] += q[k] - new",
        "sums over blocks of topics drift away",
        "sign",
    ),
    Fault(
        "sparse-eta-of-one-word",
        SPARSE,
        "width, eta_sum = -(-K // BLOCK) * BLOCK, num_words * eta",
        "width, eta_sum = -(-K // BLOCK) * BLOCK, eta",
        "the words' concentrations are not summed over the vocabulary",
        "prior",
    ),
    Fault(
        "conditional-own-token-kept",
        CONDITIONAL,
        "pending, extra = drawn, table[row + drawn] * (q[drawn] - without)",
        "pending, extra = drawn, 0.0",
        "a token does not see the draw of the one before",
        "index",
    ),
    Fault(
        "particles-total-of-prior",
        PARTICLES,
        "estimate += np.log(mean / (n + whole))",
        "estimate += np.log(mean / (n + 1 + whole))",
        "the predictive of a token divides by one token too many",
        "divisor",
    ),
    Fault(
        "particles-not-resampled",
        PARTICLES,
        "while (r + u) * step >= past and own < len(weights) - 1:",
        "while (r + u) * step >= past and own < 0 * len(weights):",
        "all particles go on from the first",
        "weight",
    ),
    Fault(
        "distance-base",
        DISTANCES,
        "return np.sqrt(np.maximum(between - (entropy[:, None] + entropy) / 2, 0.0) / np.log(2))",
        "return np.sqrt(np.maximum(between - (entropy[:, None] + entropy) / 2, 0.0))",
        "Jensen and Shannon's divergence in nats instead of bits",
        "divisor",
    ),
)
