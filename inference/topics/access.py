"""Access to the topics of a model and its results: sites, words, counts, tokens by topic.

A model has topics if one of its sites has the dimensions (topic, word). A site with the dimensions (document, topic) holds the
topic proportions of the documents.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from scipy import sparse

from inference.engine.sweep import num_rows, rows_weight
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.methods.options import check_seed
from inference.predictions.local_posterior import completed_draws, evenly
from inference.predictions.new_rows import as_learnt
from inference.results.draws import draws_of, forget_labels
from models.base import Algebra, Data, Hyper, Model, Pytree, Sites, ZooError
from models.data.documents import bag_of_words, with_vocabulary
from models.data.table import is_sparse, is_table
from models.rows.encoded import matched, spread

OF_WORDS, OF_DOCUMENTS = ("topic", "word"), ("document", "topic")
AVERAGED = 200  # draws, evenly spread, over which expected tokens are averaged


class Topics(NamedTuple):
    """The topics of S draws, or of one point: K topics, V words, M documents."""

    names: list[Any]  # K
    words: list[str]  # V
    word_probs: np.ndarray  # (S, K, V)
    topic_probs: np.ndarray | None  # (S, M, K)


def site_of(dims: Mapping[str, tuple[str, ...]], wanted: tuple[str, ...], sites: Any) -> str | None:
    """The first of ``sites`` whose dimensions in ``dims`` are ``wanted``; None if there is none."""
    return next((str(name) for name in sites if tuple(dims.get(str(name), ())) == wanted), None)


def has_topics(model: Model) -> bool:
    """Whether a model has topics; a user's program has none."""
    return OF_WORDS in model.naming.dims.values() and model.algebra is not None


def require_topics(model: Model) -> None:
    """Raises `ZooError` for a model without topics."""
    require_model(model)
    if not has_topics(model):
        raise ZooError(f"{model.name} has no topics: none of its sites has the dimensions (topic, word)")


def topics_of(model: Model, source: xr.DataTree | Sites) -> Topics:
    """The topics of a result, or of a dict of sites. Raises `ZooError` if there are none, or their shape is not the model's."""
    require_topics(model)
    draws = draws_of(model, source)
    names, words = list(model.naming.coords["topic"]), [str(word) for word in model.naming.coords["word"]]
    word, topic = (site_of(model.naming.dims, wanted, draws) for wanted in (OF_WORDS, OF_DOCUMENTS))
    if word is None:
        raise ZooError("this result has no word probabilities of topics; is it a result of this model?")
    probs = draws[word]
    if probs.shape[1:] != (len(names), len(words)):
        raise ZooError(
            f"{word} has shape {probs.shape[1:]}, but the model has {len(names)} topics and {len(words)} words: the result "
            "belongs to another model"
        )
    return Topics(names, words, probs, None if topic is None else draws[topic])


def proportions_of(topics: Topics) -> np.ndarray:
    """Topic proportions of documents, (S, M, K); raises `ZooError` if there are none."""
    if topics.topic_probs is None:
        raise ZooError("this result has no topic proportions of documents")
    return topics.topic_probs


def require_document_count(topics: Topics, number: int) -> None:
    """Raises `ZooError` unless ``number`` is the number of documents whose topic proportions are known."""
    documents = proportions_of(topics).shape[1]
    if number != documents:
        raise ZooError(
            f"this result has topic proportions of {documents} documents, but the data has {number}: give the fitted documents"
        )


def new_proportions(
    model: Model, source: xr.DataTree | Sites, data: Any, seed: int = 0, num_draws: int = AVERAGED
) -> tuple[np.ndarray, np.ndarray]:
    """Joint draws of topic proportions: of the fitted documents (S, M, K), and of new ones (S, N, K)."""
    topics, model = topics_of(model, source), as_learnt(model, source)
    name = site_of(model.naming.dims, OF_DOCUMENTS, model.naming.dims)
    check_seed(seed)
    with x64(64):
        draws = completed_draws(model, source, model.rows(forget_labels(model, data)), num_draws, seed)
    stored = proportions_of(topics)
    return stored[evenly(len(stored), num_draws)], draws[str(name)]


def by_share(topics: Topics) -> tuple[np.ndarray, np.ndarray | None]:
    """(topics by decreasing share, mean share of a document (K,)); in the model's order, and None, if shares are not known."""
    if topics.topic_probs is None:
        return np.arange(len(topics.names)), None
    share = topics.topic_probs.mean((0, 1))
    return np.argsort(-share, kind="stable"), share


def most_probable(probs: np.ndarray, number: int) -> np.ndarray:
    """(K, number): indices of the largest entries per row of ``probs`` (K, V), largest first; ties in their order."""
    return np.argsort(-probs, axis=1, kind="stable")[:, :number]


def counts_of(model: Model, data: Any) -> sparse.csr_array:
    """(M, V): how often each word of the model occurs in each document of ``data``; words unknown to the model are left out."""
    require_topics(model)
    return counts_in(model.read(data), tuple(model.naming.coords["word"]))


def counts_in(data: Data, words: tuple[str, ...]) -> sparse.csr_array:
    """(M, V): counts of these words; raises `ZooError` for a table that lacks one of them as a column."""
    bags = bag_of_words(matched(data, words))
    return _as_counts(bags)


def counts_elsewhere(data: Data, words: list[str]) -> sparse.csr_array:
    """(M, V): counts of these words in another corpus, which may lack some of them."""
    if not is_table(data):
        return _as_counts(bag_of_words(with_vocabulary(data, tuple(words))))
    counts, places = _as_counts(data).tocsc(), {column: place for place, column in enumerate(data.columns)}
    picked = [places.get(word, -1) for word in words]
    empty = sparse.csc_array((data.num_rows, 1))
    return sparse.csr_array(sparse.hstack([counts, empty], format="csc")[:, picked])


def _as_counts(data: Data) -> sparse.csr_array:
    if not (is_sparse(data.x) or is_table(data)):
        raise ZooError(f"{data.name} is not a corpus")
    counts = sparse.csr_array(data.x if is_sparse(data.x) else np.asarray(data.x, np.float64)).copy()
    counts.sum_duplicates()
    counts.eliminate_zeros()
    if len(counts.data) and not (np.isfinite(counts.data).all() and (counts.data > 0).all()):
        raise ZooError(f"{data.name}: counts of words must be 0 or more, and none may be missing")
    return counts


class Tokens(NamedTuple):
    """Expected numbers of tokens, averaged over draws."""

    document: np.ndarray  # (M, K)
    word: np.ndarray  # (K, V)


def expected_tokens(model: Model, source: xr.DataTree | Sites, data: Any) -> Tokens:
    """Σ p(z = k | w, d, θ) over the tokens of ``data``, averaged over at most `AVERAGED` draws; documents count by weight."""
    topics, draws = topics_of(model, source), draws_of(model, source)
    assert model.algebra is not None
    places = [site_of(model.naming.dims, wanted, draws) for wanted in (OF_DOCUMENTS, OF_WORDS)]
    chosen = spread(len(next(iter(draws.values()))), AVERAGED)
    some = {name: leaf[chosen] for name, leaf in draws.items()}
    with x64(64):
        hyper, rows, some = as_arrays((dict(model.hyper), model.rows(model.read(data)), some))
        require_document_count(topics, num_rows(rows))
        expected = _expected(model.algebra, hyper, rows, some)
    document, word = (np.asarray(expected[str(place)], np.float64) for place in places)
    return Tokens(document, word)


@partial(jax.jit, static_argnames=("algebra",))
def _expected(algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Sites) -> dict[str, Array]:
    features = algebra.features(hyper, rows)
    weight = rows_weight(rows).astype(float)

    def at(sites: Sites) -> dict[str, Array]:
        z = algebra.latent.mean(
            jax.random.PRNGKey(0), algebra.local_natural_parameters(algebra.natural(hyper, sites))(features)
        )
        return algebra.statistics(weight, z, features)

    start = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(lambda: at(_first(draws))))
    total, _ = jax.lax.scan(lambda sums, sites: (jax.tree.map(jnp.add, sums, at(sites)), None), start, draws)
    return jax.tree.map(lambda leaf: leaf / jax.tree.leaves(draws)[0].shape[0], total)


def _first(draws: Sites) -> Sites:
    return {name: leaf[0] for name, leaf in draws.items()}


class Drawn(NamedTuple):
    """All T tokens, each with a drawn topic."""

    row: np.ndarray  # (T,): the document of the token
    word: np.ndarray  # (T,)
    topic: np.ndarray  # (T,)


def topic_sampler(model: Model, topics: Topics, data: Any) -> Callable[[Sites, int], Drawn]:
    """(sites of one draw, seed) -> the tokens of ``data``, each with a topic drawn given its word and document."""
    algebra = model.algebra
    assert algebra is not None
    units = algebra.latent.reported.units
    assert units is not None
    with x64(64):
        hyper, rows = as_arrays((dict(model.hyper), model.rows(model.read(data))))
    require_document_count(topics, num_rows(rows))

    @jax.jit
    def draw(rows: Pytree, sites: Sites, key: Array) -> tuple[Array, Array, Array, Array]:
        local = algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
        return units(algebra.latent.sample(key, local))

    def sample(sites: Sites, seed: int) -> Drawn:
        with x64(64):
            row, word, times, topic = map(np.asarray, draw(rows, as_arrays(dict(sites)), jax.random.PRNGKey(seed)))
        return Drawn(*(np.repeat(part, times.astype(int)) for part in (row, word, topic)))  # padding counts 0 times

    return sample
