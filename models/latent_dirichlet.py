"""Latent Dirichlet allocation (document 002, errata E12 and E13; Blei, Ng and Jordan 2003), M documents, V words, K topics:

    word_probs_k  ~ Dirichlet(word_concentration_k)                                              (K, V)
    topic_probs_d ~ Dirichlet(topic_concentration)                                               (M, K)
    z_dn ~ Categorical(topic_probs_d),    w_dn | z_dn = k ~ Categorical(word_probs_k)            n = 1 … N_d

The density is of the counts of words: x_d ~ Multinomial(N_d, topic_probs_d · word_probs). E-step: p(z_dn = k | w_dn = v) ∝
topic_probs_dk word_probs_kv. M-step: both sets of probabilities from expected counts of tokens, over the concentrations − 1.
"EM doesn't work" (document 002) where θ_d is summed out, whose integral has no closed form; where the proportions are
parameters it does: that is probabilistic latent semantic analysis (Hofmann 1999), smoothed by the prior. A mode needs
concentrations above 1.

Proportions are the documents' own (``Algebra.private``): a fit is of its documents, and others have proportions that follow
from the words of the topics.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.bags import Documents, Words, bags, check, encoded
from models.base import Algebra, Data, Hyper, Model, Permutation, Sites, Stats, ZooError, on_host
from models.classifier import unlabelled, unseen_classes
from models.collapsed_topics import COLLAPSED, TOPIC, WORD, prior_statistics
from models.data import as_data, is_table, require_complete, require_filled
from models.discrete import DISCRETE
from models.distributions import TopicWords
from models.documents import Sequences, bag_of_words, require_tokens
from models.families import dirichlet
from models.gaussian_rows import flat
from models.held_out_words import HELD_OUT
from models.rows import witnesses
from models.settled_topics import settle
from models.topics import Bags, Hard, Mixed, Soft, by_document, by_word, mixed, scaled, topics


class Shape(NamedTuple):
    """What tells one topic model from another."""

    documents: int  # M
    topics: int  # K
    words: int  # V
    proper: bool


def _mode_of_proportions(nu: Array) -> Array:
    """The mode of every document; of one without a token under a flat prior all are, and it is the middle."""
    return dirichlet.mode(jnp.where((nu == 0).all(-1, keepdims=True), 1.0, nu))


proportions = dirichlet._replace(mode=_mode_of_proportions)


class Structure(NamedTuple):
    """The static half of the model: one object for equal arguments, so that jitted code recognises it."""

    algebra: Algebra
    program: Callable[..., Any]
    functionals: Callable[..., dict[str, Array]]


@cache
def structure(shape: Shape, exchangeable: bool) -> Structure:
    """Topics of this shape."""
    algebra = Algebra(
        families=((TOPIC, proportions), (WORD, dirichlet)),
        private=(TOPIC,),
        settle=settle,
        latent=topics,
        proper=shape.proper,
        features=features,
        local=local,
        statistics=statistics,
        sites=lambda hyper, T: {TOPIC: jnp.exp(T[TOPIC]), WORD: jnp.exp(T[WORD])},
        natural=lambda hyper, sites: {name: jnp.log(jnp.asarray(sites[name])) for name in (TOPIC, WORD)},
        start=partial(start, shape),
        num_groups=shape.topics,
        collapsed=COLLAPSED if shape.proper else None,
    )
    return Structure(algebra, partial(program, shape), partial(functionals, exchangeable))


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
    """A topic model on documents, or on a table of counts of words.

    ``topic_concentration`` is a number or one a topic, ``word_concentration`` a number, one a word, or (K, V). ``seeds`` are
    words by the name of a topic, which get ``seed_weight`` more there. With ``labelled`` the labels of documents name the
    topics that they may have (``a|b``: either). ``prior=flat`` is maximum likelihood. Raises `ZooError` for what are no counts,
    a corpus without a token, concentrations outside their support, or seeds and labels that do not fit.
    """
    data = as_data(data)
    _check_options(num_topics, labelled, prior, seeds)
    if not (isinstance(data.x, Sequences) or is_table(data)):
        raise ZooError(f"{data.name} is no corpus: give documents or a table of counts of words")
    if is_table(data):
        require_filled(data)
        require_complete(data, "latent_dirichlet")
    require_tokens(data.name, data.columns)
    check(data)
    if not bag_of_words(data).x.sum():
        raise ZooError(f"{data.name}: there is not a single token in these documents")
    names = _topic_names(data, int(num_topics), seeds, labelled)
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
        rows=partial(_rows, data.columns, tuple(names) if labelled else None),
        functionals=static.functionals,
        witnesses=witnesses,
        symmetry=Permutation("topic") if alike else None,
        simulate=partial(simulate, shape),
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
            "word": list(data.columns),
            "rank": list(range(1, shape.topics + 1)),
            "pair": [f"documents {i + 1}, {j + 1}" for i, j in pairwise(witnesses(shape.documents))],
        },
        options=options,
        explains=DISCRETE["multinomial"].explains + ("; topic" if labelled else ""),
        warnings=tuple(_warnings(data, hyper, shape, names, labelled)),
        reports="topic_shares",
        held_out=HELD_OUT,
    )


def _are_words(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)


def _check_options(num_topics: Any, labelled: Any, prior: Any, seeds: Any) -> None:
    if isinstance(num_topics, bool) or not isinstance(num_topics, int | np.integer) or num_topics < 1:
        raise ZooError(f"num_topics must be a whole number above 0, got {num_topics!r}")
    if not isinstance(labelled, bool):
        raise ZooError(f"labelled must be true or false, got {labelled!r}")
    if not (seeds is None or (isinstance(seeds, Mapping) and all(map(_are_words, seeds.values())))):
        raise ZooError(f"seeds must be lists of words by the name of a topic, as {{fruit: [apple, pear]}}, got {seeds!r}")
    if prior not in ("default", "flat"):
        raise ZooError(f"prior={prior!r} is not one of default, flat; the concentrations are options of their own")


def _topic_names(data: Data, number: int, seeds: Mapping[str, Any] | None, labelled: bool) -> list[Any]:
    """Names of the topics: those of labels or seeds, then numbers."""
    if labelled and unlabelled(data):
        raise ZooError(f"{data.name} has no labels: labelled=true reads topics off them; name the column with data.label=")
    known = [*(data.levels if labelled else ()), *(name for name in seeds or {} if not labelled or name not in data.levels)]
    if len(known) > number:
        raise ZooError(f"{len(known)} topics have names ({', '.join(map(str, known[:5]))}, …): give num_topics={len(known)}")
    rest = (str(place) for place in count(len(known)) if str(place) not in known)
    return [*known, *islice(rest, number - len(known))] if known else list(range(number))


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
            raise ZooError("prior=flat has no place for seeds: they are part of a prior")
        return {}
    found = {
        "topic_concentration": _positive("topic_concentration", topic, (shape.topics,)),
        "word_concentration": _positive("word_concentration", word, (shape.topics, shape.words)),
    }
    places = {name: v for v, name in enumerate(columns)}
    for name, words in (seeds or {}).items():
        unknown = [each for each in words if each not in places]
        if unknown:
            raise ZooError(f"seeds of topic {name!r}: {unknown[0]!r} is no word of this corpus")
        _positive("seed_weight", seed_weight, ())
        found["word_concentration"][names.index(name), [places[each] for each in words]] += seed_weight
    return found


def _positive(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        found = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    except (TypeError, ValueError) as error:
        raise ZooError(f"{name}: expected a number or numbers of shape {shape}, got {value!r}") from error
    if not (np.isfinite(found) & (found > 0)).all():
        raise ZooError(f"{name} must be finite and above 0")
    return found


def _alike(hyper: Hyper) -> bool:
    """Whether the prior tells no topic from another."""
    return bool(np.ptp(hyper["topic_concentration"]) == 0 and np.ptp(hyper["word_concentration"], axis=0).max() == 0)


def _warnings(data: Data, hyper: Hyper, shape: Shape, names: list[Any], labelled: bool) -> list[str]:
    found = unseen_classes(data, tuple(names), "document", "topic") if labelled else []
    low = [name for name in ("topic_concentration", "word_concentration") if shape.proper and hyper[name].min() < 1]
    if low:
        found.append(
            f"{' and '.join(low)} below 1: the density of the probabilities has no mode, as it is infinite where one of them "
            "is 0; em and map have nothing to find, and cavi and the methods that draw have"
        )
    return found


def _rows(columns: tuple[str, ...], names: tuple[str, ...] | None, source: Any) -> Documents:
    return encoded(as_data(source), columns, names)


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(shape: Shape, hyper: Hyper, rows: Documents, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with the topics of tokens summed out when ``marginal``."""
    sizes = {TOPIC: (rows.own.shape[0], shape.topics), WORD: (shape.topics, shape.words)}
    if shape.proper:
        own = jnp.broadcast_to(hyper["topic_concentration"], sizes[TOPIC])
        priors = {TOPIC: dist.Dirichlet(own), WORD: dist.Dirichlet(hyper["word_concentration"])}
        topic, word = (numpyro.sample(name, prior.to_event(1)) for name, prior in priors.items())
    else:
        simplex = dist.constraints.independent(dist.constraints.simplex, 1)
        topic, word = (numpyro.sample(name, flat(simplex, size)) for name, size in sizes.items())
    probs = topic[rows.own]
    if rows.allowed is not None:
        probs = jnp.where(rows.allowed, probs, 0.0)
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", rows.own.shape[0]), numpyro.handlers.scale(scale=scale):
        if marginal:
            numpyro.sample("x", TopicWords(probs, word, rows.words.times, rows.carrier), obs=rows.words.word)
            return
        there = rows.tokens.times > 0
        each = jnp.broadcast_to(topic[rows.own][:, None, :], (*there.shape, shape.topics))
        z = numpyro.sample("topic", dist.Categorical(logits=jnp.log(each), validate_args=False).mask(there).to_event(1))
        numpyro.sample("x", TopicWords(probs, word, rows.tokens.times, rows.carrier, z), obs=rows.tokens.word)


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Features(NamedTuple):
    """What the documents bring."""

    bags: Bags
    own: Array  # (N,): where the proportions of a document are
    allowed: Array | None  # (N, K)


def features(hyper: Hyper, rows: Documents) -> Features:
    return Features(bags(rows), rows.own, rows.allowed)


def local(T: Stats) -> Callable[[Features], Mixed]:
    """E-step: log weights of topics by document and of words by topic."""
    word = scaled(T[WORD].T)

    def natural_parameters(features: Features) -> Mixed:
        topic = T[TOPIC][features.own]
        if features.allowed is not None:
            topic = jnp.where(features.allowed, topic, -jnp.inf)
        return mixed(scaled(topic), word, features.bags)

    return natural_parameters


def statistics(weight: Array, z: Soft | Hard, features: Features) -> dict[str, Stats]:
    """Weight_n times (tokens by topic of every document), and Σ_n weight_n (tokens by topic and word)."""
    return {TOPIC: weight[:, None] * by_document(z), WORD: by_word(z, weight).T}


def start(shape: Shape, hyper: Hyper, key: Array) -> dict[str, Stats]:
    """Nu of one start: words by topic at random, as if each had been seen about once; documents of all topics alike."""
    noise = jax.random.gamma(key, 10.0, (shape.topics, shape.words)) / 10
    given = hyper["word_concentration"] - 1 if shape.proper else 0.0
    return {TOPIC: jnp.ones((shape.documents, shape.topics)), WORD: jnp.maximum(given, 0.0) + noise}


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, simulation


def functionals(exchangeable: bool, hyper: Hyper, sites: Sites, latents: Array) -> dict[str, Array]:
    """What no order of the topics changes: their mean shares of a document, sorted; how many that is, exp of the entropy; and
    for neighbouring witnesses how likely a token of each is of one topic.
    """
    share = jnp.asarray(sites[TOPIC]).mean(0)
    effective = jnp.exp(-(jnp.where(share > 0, share * jnp.log(jnp.where(share > 0, share, 1.0)), 0.0)).sum())
    found = {"topic_share": -jnp.sort(-share) if exchangeable else share, "effective_topics": effective}
    return found | ({"co_occurrence": (latents[:-1] * latents[1:]).sum(-1)} if latents.shape[0] > 1 else {})


def simulate(shape: Shape, key: Array, hyper: Hyper, sites: Sites, num_rows: int, length: int = 20) -> Documents:
    """Documents of ``length`` tokens each, drawn at ``sites``; raises `ZooError` for more or fewer than have proportions."""
    if num_rows != shape.documents:
        raise ZooError(f"there are topic proportions for {shape.documents} documents, not for {num_rows}")
    key_z, key_x = jax.random.split(key)
    z = jax.random.categorical(key_z, jnp.log(sites[TOPIC])[:, None, :], axis=-1, shape=(num_rows, length))
    word = jax.random.categorical(key_x, jnp.log(sites[WORD])[z])
    tokens = Words(word, jnp.ones_like(word))
    counts = jax.vmap(lambda row: jnp.bincount(row, length=shape.words))(word)
    carrier = jax.scipy.special.gammaln(length + 1.0) - jax.scipy.special.gammaln(counts + 1.0).sum(1)
    return Documents(tokens, tokens, jnp.arange(num_rows), carrier)
