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
        f"{LATENT}::_log_partition",
        "words.times",
        "jnp.minimum(words.times, 1)",
        "a word counts once in the likelihood, however often it occurs",
        "weight",
    ),
    Fault(
        "tokens-weights-of-documents",
        f"{LATENT}::by_word",
        "_1 * _of_document(weight, z.cells)",
        "_1",
        "weights of documents are forgotten in counts of drawn topics",
        "weight",
    ),
    Fault(
        "tokens-expected-without-weights",
        f"{LATENT}::_expected",
        "_weighed(_1, side.weight)",
        "_1",
        "expected counts lack the weight of their own side",
        "weight",
    ),
    Fault(
        "tokens-blocks-share-a-key",
        f"{LATENT}::_drawn.one",
        "jax.random.fold_in(key, index)",
        "key",
        "all blocks of tokens are drawn with one key",
        "key reuse",
    ),
    Fault(
        "bound-stops-at-once",
        f"{LOCAL}::_of_width.few",
        "carry[2] > close",
        "carry[2] < close",
        "proportions of documents are never updated",
        "threshold",
    ),
    Fault(
        "bound-prior-forgotten",
        f"{LOCAL}::_turn.turn",
        "counts if weight is None else weight * counts",
        "counts",
        "weights of documents are forgotten in their proportions",
        "weight",
    ),
    Fault(
        "bound-allowed-topics",
        f"{LOCAL}::_turn.turn",
        "logs if allowed_topics is None else jnp.where(allowed_topics, logs, -jnp.inf)",
        "logs",
        "labels of documents do not restrict their topics",
        "mask",
    ),
    Fault(
        "held-out-mean-of-logs",
        f"{HELD_OUT}::log_probability",
        "logsumexp(each, axis=0) - np.log(len(words))",
        "np.mean(each, axis=0)",
        "held-out probabilities are averaged as logarithms",
        "evidence",
    ),
    Fault(
        "completion-of-draws",
        f"{HELD_OUT}::completion",
        "mean / len(draws[TOPIC])",
        "mean",
        "document completion sums over draws",
        "divisor",
    ),
    Fault(
        "halves-overlap",
        f"{HELD_OUT}::halves",
        "times - first",
        "times",
        "the half that is scored holds the half that was seen",
        "mask",
    ),
    Fault(
        "collapsed-density-of-words",
        f"{COLLAPSED}::_sites",
        "_1 + log_dirichlet(logs[WORD], prior.eta)",
        "_1",
        "the log prior of a draw forgets the words of the topics",
        "prior",
    ),
    Fault(
        "collapsed-alignment-inverse",
        f"{COLLAPSED}::_aligned",
        "order[np.argsort(theirs)]",
        "np.argsort(order)",
        "topics of chains are matched by the inverse permutation",
        "permutation",
    ),
    Fault(
        "collapsed-seed-of-chains",
        f"{CHAINS}::start_chain",
        "np.random.SeedSequence(seed, spawn_key=(chain,))",
        "np.random.SeedSequence(seed)",
        "all chains of topics have the same random numbers",
        "key reuse",
    ),
    Fault(
        "corpus-total-of-vocabulary",
        f"{CHAINS}::swept",
        "eta[0] * corpus.num_words",
        "eta[0]",
        "the words' concentrations are not summed over the vocabulary",
        "divisor",
    ),
    Fault(
        "dense-own-token-kept",
        f"{DENSE}::few_topics",
        "nd[drawn] += 1",
        "nd[drawn] += 2",
        "a drawn token counts twice in its document",
        "index",
    ),
    Fault(
        "dense-word-prior-forgotten",
        f"{DENSE}::few_topics",
        "(_1 + flat_eta[eta_row + drawn]) * q[drawn] - without",
        "_1 * q[drawn] - without",
        "the next token forgets the prior of the word just drawn",
        "prior",
    ),
    Fault(
        "sparse-smoothing-with-old-q",
        f"{SPARSE}::many_topics",
        "blocks[k // BLOCK] += new - q[k]",
        "blocks[k // BLOCK] += q[k] - new",
        "sums over blocks of topics drift away",
        "sign",
    ),
    Fault(
        "sparse-eta-of-one-word",
        f"{SPARSE}::many_topics",
        "num_words * eta",
        "eta",
        "the words' concentrations are not summed over the vocabulary",
        "prior",
    ),
    Fault(
        "conditional-own-token-kept",
        f"{CONDITIONAL}::dense_documents",
        "table[row + drawn] * (q[drawn] - without)",
        "0.0",
        "a token does not see the draw of the one before",
        "index",
    ),
    Fault(
        "particles-total-of-prior",
        f"{PARTICLES}::left_to_right_documents",
        "n + whole",
        "n + 1 + whole",
        "the predictive of a token divides by one token too many",
        "divisor",
    ),
    Fault(
        "particles-not-resampled",
        f"{PARTICLES}::_resampled",
        "len(weights) - 1",
        "0 * len(weights)",
        "all particles go on from the first",
        "weight",
    ),
    Fault(
        "distance-base",
        f"{DISTANCES}::jensen_shannon",
        "_1 / np.log(2)",
        "_1",
        "Jensen and Shannon's divergence in nats instead of bits",
        "divisor",
    ),
)
