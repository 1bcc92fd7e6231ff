"""Latent Dirichlet allocation (document 002, errata E12 and E13; Blei, Ng and Jordan 2003): M documents, V words, K topics.

    word_probs_k  ~ Dirichlet(word_concentration_k)                                              (K, V)
    topic_probs_d ~ Dirichlet(topic_concentration)                                               (M, K)
    z_dn ~ Categorical(topic_probs_d),    w_dn | z_dn = k ~ Categorical(word_probs_k)            n = 1 … N_d

The likelihood is that of word counts: x_d ~ Multinomial(N_d, topic_probs_d · word_probs). E-step: p(z_dn = k | w_dn = v) ∝
topic_probs_dk word_probs_kv. M-step: both sets of probabilities ∝ concentration − 1 + expected counts of tokens.

Document 002 says that "EM doesn't work": it integrates the proportions out, and that integral has no closed form. EM works
with the proportions as parameters. It is then probabilistic latent semantic analysis (Hofmann 1999), smoothed by the prior. A
posterior mode requires concentrations above 1.

The proportions are local parameters, one vector per document (``Structure.local``). New documents get new proportions, inferred
with the word probabilities of the topics held fixed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.abilities import Abilities
from models.base import (
    Algebra,
    Data,
    Hyper,
    Initial,
    Model,
    Naming,
    Reading,
    Sites,
    Stats,
    Structure,
    Summaries,
    ZooError,
    on_host,
)
from models.data.classes import unseen_classes
from models.data.documents import Sequences, bag_of_words, require_tokens
from models.data.table import is_table, require_complete, require_filled
from models.distributions.observed import TopicWords
from models.emissions.discrete import multinomial
from models.families.conjugate import dirichlet
from models.reading.load import as_data
from models.rows.centring import flat
from models.rows.encoded import probe_rows
from models.symmetries import Permutation
from models.topics.checks import check_options, positive, topic_names
from models.topics.collapsed import COLLAPSED, TOPIC, WORD, prior_statistics
from models.topics.documents import Documents, Words, bags, check, counted, encoded
from models.topics.held_out import HELD_OUT
from models.topics.latent import Bags, Hard, Mixed, Soft, by_document, by_word, mixed, scaled, topics
from models.topics.minibatch import ASCENT


class Shape(NamedTuple):
    """Sizes of the model, and whether its prior is proper."""

    documents: int  # M
    topics: int  # K
    words: int  # V
    proper: bool


def _mode_of_proportions(nu: Array) -> Array:
    """The mode of each document. With a flat prior and no tokens every value is a mode: return uniform proportions."""
    return dirichlet.mode(jnp.where((nu == 0).all(-1, keepdims=True), 1.0, nu))


proportions = dirichlet._replace(mode=_mode_of_proportions)


class Parts(NamedTuple):
    """The functions of the model. Cached: equal arguments give the same object, so jitted code is not compiled again."""

    algebra: Algebra
    program: Callable[..., Any]
    functionals: Callable[..., dict[str, Array]]


@cache
def structure(shape: Shape, exchangeable: bool) -> Parts:
    """Algebra, program and functionals for this shape."""
    algebra = Algebra(
        families=((TOPIC, proportions), (WORD, dirichlet)),
        latent=topics,
        proper=shape.proper,
        features=features,
        local_natural_parameters=local,
        statistics=statistics,
        sites=lambda hyper, T: {TOPIC: jnp.exp(T[TOPIC]), WORD: jnp.exp(T[WORD])},
        natural=lambda hyper, sites: {name: jnp.log(jnp.asarray(sites[name])) for name in (TOPIC, WORD)},
        initial=Initial(num_groups=shape.topics, draw=partial(start, shape)),
        structure=Structure(local=(TOPIC,), ascend=ASCENT, collapsed=COLLAPSED if shape.proper else None),
    )
    return Parts(algebra, partial(program, shape), partial(functionals, exchangeable))


def build(
    data: Any,
    num_topics: int = 10,
    topic_concentration: float | Sequence[float] = 1.1,
    word_concentration: float | Sequence[float] = 1.1,
    seeds: Mapping[str, Sequence[str]] | None = None,
    seed_weight: float = 10.0,
    labelled: bool = False,
    prior: str = "default",
) -> Model:
    """Build a topic model of documents, or of a table of word counts.

    ``topic_concentration`` is one number or (K,), ``word_concentration`` one number, (V,) or (K, V). ``seeds`` maps topic names
    to words, whose concentration in that topic is raised by ``seed_weight``. With ``labelled`` the label of a document names
    the topics that it may have (``a|b`` for either). ``prior="flat"`` is maximum likelihood. Raises `ZooError` for values that
    are not counts, a corpus without tokens, concentrations that are not positive, or unknown seed words and topics.

    >>> from models import load_data
    >>> model = build(load_data(["apple pear apple", "dog cat", "pear dog"]), num_topics=2, seeds={"fruit": ["apple"]})
    >>> model.naming.dims["topic_probs"], model.naming.coords["topic"]
    (('document', 'topic'), ['fruit', '1'])
    """
    data = as_data(data)
    check_options(num_topics, labelled, prior, seeds)
    _require_corpus(data)
    names = topic_names(data, int(num_topics), seeds, labelled)
    shape = Shape(data.num_rows, int(num_topics), len(data.columns), prior != "flat")
    hyper = _hyperparameters(data.columns, shape, topic_concentration, word_concentration, seeds, seed_weight, names)
    alike = shape.topics > 1 and not labelled and (not shape.proper or _alike(hyper))
    static = structure(shape, alike)
    nu = {TOPIC: np.zeros((shape.documents, shape.topics)), WORD: np.zeros((shape.topics, shape.words))}
    if shape.proper:
        nu = prior_statistics(hyper, nu)
    options = {
        "num_topics": int(num_topics),
        "topic_concentration": topic_concentration,
        "word_concentration": word_concentration,
        "seeds": seeds,
        "seed_weight": seed_weight,
        "labelled": labelled,
        "prior": prior,
    }
    return Model(
        name="latent_dirichlet",
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior={name: on_host(leaf) for name, leaf in nu.items()},
        reading=Reading(rows=partial(_rows, data.columns, tuple(names) if labelled else None), read=as_data),
        summaries=Summaries(
            functionals=static.functionals,
            probe_rows=probe_rows,
            warnings=tuple(_warnings(data, hyper, shape, names, labelled)),
        ),
        symmetry=Permutation("topic") if alike else None,
        abilities=Abilities(
            simulate=partial(simulate, shape),
            held_out=HELD_OUT,
            replicated=lambda rows, drawn: {"x": counted(rows, drawn["x"], shape.words)},
        ),
        naming=_naming(data.columns, shape, names, alike, labelled),
        options=options,
        description=__doc__,
    )


def _require_corpus(data: Data) -> None:
    """A `ZooError` for data that are neither documents nor a complete table of counts, and for a corpus without tokens."""
    if not (isinstance(data.x, Sequences) or is_table(data)):
        raise ZooError(f"{data.name} is not a corpus: give documents or a table of word counts")
    if is_table(data):
        require_filled(data)
        require_complete(data, "latent_dirichlet")
    require_tokens(data.name, data.columns)
    check(data)
    if not bag_of_words(data).x.sum():
        raise ZooError(f"{data.name}: these documents contain no tokens")


def _naming(columns: tuple[str, ...], shape: Shape, names: list[str], alike: bool, labelled: bool) -> Naming:
    """Names of the dimensions; ``alike`` topics are reported by rank, since their labels mean nothing."""
    return Naming(
        dims={
            TOPIC: ("document", "topic"),
            WORD: ("topic", "word"),
            "topic_share": ("rank" if alike else "topic",),
            "co_occurrence": ("pair",),
            "topic_concentration": ("topic",),
            "word_concentration": ("topic", "word"),
            "topic_shares": ("row", "topic"),
        },
        coords={
            "document": list(range(shape.documents)),
            "topic": names,
            "word": list(columns),
            "rank": list(range(1, shape.topics + 1)),
            "pair": [f"documents {i + 1}, {j + 1}" for i, j in pairwise(probe_rows(shape.documents))],
        },
        density_of=multinomial.naming.density_of + ("; topic" if labelled else ""),
        reports="topic_shares",
    )


def _hyperparameters(
    columns: tuple[str, ...],
    shape: Shape,
    topic: Any,
    word: Any,
    seeds: Mapping[str, Sequence[str]] | None,
    seed_weight: float,
    names: list[Any],
) -> dict[str, np.ndarray]:
    if not shape.proper:
        if seeds:
            raise ZooError("seeds change the prior, so they cannot be combined with prior=flat")
        return {}
    concentrations = {
        "topic_concentration": positive("topic_concentration", topic, (shape.topics,)),
        "word_concentration": positive("word_concentration", word, (shape.topics, shape.words)),
    }
    places = {name: v for v, name in enumerate(columns)}
    for name, words in (seeds or {}).items():
        unknown = [each for each in words if each not in places]
        if unknown:
            raise ZooError(f"seeds of topic {name!r}: {unknown[0]!r} is not a word of this corpus")
        positive("seed_weight", seed_weight, ())
        concentrations["word_concentration"][names.index(name), [places[each] for each in words]] += seed_weight
    return concentrations


def _alike(hyper: Hyper) -> bool:
    """Whether the prior is the same for all topics."""
    return bool(np.ptp(hyper["topic_concentration"]) == 0 and np.ptp(hyper["word_concentration"], axis=0).max() == 0)


def _warnings(data: Data, hyper: Hyper, shape: Shape, names: list[Any], labelled: bool) -> list[str]:
    warnings = unseen_classes(data, tuple(names), "document", "topic") if labelled else []
    low = [name for name in ("topic_concentration", "word_concentration") if shape.proper and hyper[name].min() < 1]
    if low:
        warnings.append(
            f"{' and '.join(low)} below 1: the density of the probabilities is unbounded at 0, so it has no mode; em and map "
            "cannot be used, cavi and the sampling methods can"
        )
    return warnings


def _rows(columns: tuple[str, ...], names: tuple[str, ...] | None, source: Any) -> Documents:
    return encoded(as_data(source), columns, names)


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(shape: Shape, hyper: Hyper, rows: Documents, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with the topics of tokens summed out when ``marginal``."""
    sizes = {TOPIC: (rows.document.shape[0], shape.topics), WORD: (shape.topics, shape.words)}
    if shape.proper:
        concentration = jnp.broadcast_to(hyper["topic_concentration"], sizes[TOPIC])
        priors = {TOPIC: dist.Dirichlet(concentration), WORD: dist.Dirichlet(hyper["word_concentration"])}
        topic, word = (numpyro.sample(name, prior.to_event(1)) for name, prior in priors.items())
    else:
        simplex = dist.constraints.independent(dist.constraints.simplex, 1)
        topic, word = (numpyro.sample(name, flat(simplex, size)) for name, size in sizes.items())
    probs = topic[rows.document]
    if rows.allowed_topics is not None:
        probs = jnp.where(rows.allowed_topics, probs, 0.0)
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", rows.document.shape[0]), numpyro.handlers.scale(scale=scale):
        if marginal:
            numpyro.sample("x", TopicWords(probs, word, rows.words.times, rows.carrier), obs=rows.words.word)
            return
        there = rows.tokens.times > 0
        each = jnp.broadcast_to(topic[rows.document][:, None, :], (*there.shape, shape.topics))
        z = numpyro.sample("topic", dist.Categorical(logits=jnp.log(each), validate_args=False).mask(there).to_event(1))
        numpyro.sample("x", TopicWords(probs, word, rows.tokens.times, rows.carrier, z), obs=rows.tokens.word)


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Features(NamedTuple):
    """The inputs of the E-step."""

    bags: Bags
    document: Array  # (N,): index of each document in ``topic_probs``
    allowed_topics: Array | None  # (N, K)


def features(hyper: Hyper, rows: Documents) -> Features:
    return Features(bags(rows), rows.document, rows.allowed_topics)


def local(T: Stats) -> Callable[[Features], Mixed]:
    """E-step: log topic weights of each document, log word weights of each topic."""
    word = scaled(T[WORD].T)

    def natural_parameters(features: Features) -> Mixed:
        topic = T[TOPIC][features.document]
        if features.allowed_topics is not None:
            topic = jnp.where(features.allowed_topics, topic, -jnp.inf)
        return mixed(scaled(topic), word, features.bags)

    return natural_parameters


def statistics(weight: Array, z: Soft | Hard, features: Features) -> dict[str, Stats]:
    """Token counts by document and topic, times the document weight; by topic and word, summed over documents."""
    return {TOPIC: weight[:, None] * by_document(z), WORD: by_word(z, weight).T}


def start(shape: Shape, hyper: Hyper, key: Array) -> dict[str, Stats]:
    """Random start: about one pseudo-count per topic and word; uniform proportions in all documents."""
    noise = jax.random.gamma(key, 10.0, (shape.topics, shape.words)) / 10
    given = hyper["word_concentration"] - 1 if shape.proper else 0.0
    return {TOPIC: jnp.ones((shape.documents, shape.topics)), WORD: jnp.maximum(given, 0.0) + noise}


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, simulation


def functionals(exchangeable: bool, hyper: Hyper, sites: Sites, latents: Array) -> dict[str, Array]:
    """Summaries invariant to the order of the topics: mean topic shares, sorted; the effective number of topics (exp of the
    entropy of the shares); for neighbouring probe rows the probability that a token of each has the same topic.
    """
    share = jnp.asarray(sites[TOPIC]).mean(0)
    effective = jnp.exp(-(jnp.where(share > 0, share * jnp.log(jnp.where(share > 0, share, 1.0)), 0.0)).sum())
    summaries = {"topic_share": -jnp.sort(-share) if exchangeable else share, "effective_topics": effective}
    return summaries | ({"co_occurrence": (latents[:-1] * latents[1:]).sum(-1)} if latents.shape[0] > 1 else {})


def simulate(shape: Shape, key: Array, hyper: Hyper, sites: Sites, num_rows: int, length: int = 20) -> Documents:
    """Draw documents of ``length`` tokens at ``sites``; raises `ZooError` unless ``num_rows`` matches the proportions."""
    if num_rows != shape.documents:
        raise ZooError(f"there are topic proportions for {shape.documents} documents, not {num_rows}")
    key_z, key_x = jax.random.split(key)
    z = jax.random.categorical(key_z, jnp.log(sites[TOPIC])[:, None, :], axis=-1, shape=(num_rows, length))
    word = jax.random.categorical(key_x, jnp.log(sites[WORD])[z])
    tokens = Words(word, jnp.ones_like(word))
    counts = jax.vmap(lambda row: jnp.bincount(row, length=shape.words))(word)
    carrier = jax.scipy.special.gammaln(length + 1.0) - jax.scipy.special.gammaln(counts + 1.0).sum(1)
    return Documents(tokens, tokens, jnp.arange(num_rows), carrier)
