"""Likelihood block for sequences: one Markov chain of tokens per component.

    initial_probs_k      ~ Dirichlet(initial_concentration)                          (K, V)
    transition_probs_kv  ~ Dirichlet(transition_concentration)                       (K, V, V)
    x_n1 | z_n = k ~ Categorical(initial_probs_k),    x_ni | x_n,i−1 = v ~ Categorical(transition_probs_kv)

Only counts of events matter: the first token, and how often each token follows each. There are three forms. The events are all
pairs of tokens; or, for fixed lengths, all pairs at each position (K, D − 1, V, V); or, for large vocabularies, the observed
pairs, and for each token the event "another token", in one ragged vector (K, P) (`models.families.ragged_dirichlet`), which
avoids arrays of V × V. Transitions from and to tokens outside the vocabulary are ignored.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints
from scipy import sparse

from models.abilities import Discriminant, Linear
from models.base import Data, Hyper, Sites, Stats, ZooError, on_host
from models.data.documents import Sequences
from models.distributions.observed import EventSequence
from models.emissions import counts
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.emissions.counts import SparseCounts
from models.families.conjugate import dirichlet, joint
from models.families.ragged_dirichlet import RaggedDirichlet, RaggedSimplex, ragged_dirichlet
from models.rows.centring import flat

DRAWN_TOKENS = 8  # length of simulated sequences: the model does not describe lengths


class Chains(NamedTuple):
    """Encoded sequences: event numbers in order (N, L), from 1, padded with 0; and counts of events (N, E)."""

    events: Array
    counts: Array | SparseCounts


class Alphabet(NamedTuple):
    """The events of a model: V first tokens, then transitions in one of the three forms. Hashable."""

    size: int  # V
    positions: int | None = None  # D for fixed-length rows with transitions per position
    seen: tuple[int, ...] | None = None  # sorted observed pairs, before · V + after; None: all pairs

    @property
    def successors(self) -> np.ndarray:
        """(V,): number of distinct tokens observed after each token."""
        return np.bincount(np.array(self.seen or (), dtype=np.int64) // self.size, minlength=self.size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries per row of the ragged form: observed successors, and one for all others if there are any."""
        return tuple(int(n + (n < self.size)) for n in self.successors)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the transition site, without the component dimension."""
        if self.seen is not None:
            return (sum(self.sizes),)
        return (self.size, self.size) if self.positions is None else (self.positions - 1, self.size, self.size)

    @property
    def num_events(self) -> int:
        """E, the number of events."""
        return self.size + int(np.prod(self.shape))


def event_ids(alphabet: Alphabet, x: Sequences) -> np.ndarray:
    """(total,): the event of each token, −1 for a transition from or to an unknown token."""
    tokens, first = x.tokens.astype(np.int64), np.zeros(len(x.tokens), dtype=bool)
    first[x.starts[:-1][x.lengths > 0]] = True
    before = np.concatenate([[-1], tokens[:-1]])
    known = (tokens >= 0) & (before >= 0) & ~first
    pair = np.where(known, before * alphabet.size + tokens, 0)
    if alphabet.seen is not None:
        place = _ragged_place(alphabet, pair)
    else:
        position = np.arange(len(tokens)) - np.repeat(x.starts[:-1], x.lengths)
        place = pair if alphabet.positions is None else (position - 1) * alphabet.size**2 + pair
    return np.where(first, tokens, np.where(known, alphabet.size + place, -1))


def _ragged_place(alphabet: Alphabet, pair: np.ndarray) -> np.ndarray:
    """Index of a pair in the ragged vector: its own entry, or "another token", the last of its row."""
    seen, sizes = np.array(alphabet.seen, dtype=np.int64), np.array(alphabet.sizes)
    before = pair // alphabet.size
    rank = np.searchsorted(seen, pair)
    found = (rank < len(seen)) & (seen[np.minimum(rank, len(seen) - 1)] == pair) if len(seen) else np.zeros(len(pair), bool)
    rests = np.concatenate([[0], np.cumsum(sizes - alphabet.successors)[:-1]])  # entries "another token" in previous rows
    return np.where(found, rank + rests[before], np.cumsum(sizes)[before] - 1)


def encode(alphabet: Alphabet, data: Data) -> Chains:
    """Encode documents, or the rows of a binary table; raises `ZooError` for other tables."""
    x = sequences_of(alphabet, data)
    ids = event_ids(alphabet, x)
    row = np.repeat(np.arange(data.num_rows), x.lengths)
    padded = np.zeros((data.num_rows, max(1, int(x.lengths.max(initial=0)))), dtype=np.int32)
    padded[row, np.arange(len(ids)) - np.repeat(x.starts[:-1], x.lengths)] = ids + 1
    known = ids >= 0
    cells = sparse.csr_array((np.ones(known.sum()), (row[known], ids[known])), shape=(data.num_rows, alphabet.num_events))
    return Chains(on_host(padded), counts.encode(cells))


def sequences_of(alphabet: Alphabet, data: Data) -> Sequences:
    """The rows as sequences of codes; raises `ZooError` for documents if lengths must be equal."""
    if isinstance(data.x, Sequences):
        if alphabet.positions is not None:
            raise ZooError(f"{data.name} holds documents: homogeneous=false is for tables whose rows have the same length")
        return data.x
    return Sequences(data.x.ravel().astype(np.int32), np.arange(data.num_rows + 1) * data.x.shape[1])


# ---------------------------------------------------------------------------------------------------------------------
# The block


@cache
def markov(alphabet: Alphabet) -> Emission:
    """The block for an alphabet, cached."""
    rows = dirichlet if alphabet.seen is None else ragged_dirichlet(alphabet.sizes)
    parameters = tuple(concentrations(alphabet, 1.0))
    site_dims = _dims(alphabet)
    return Emission(
        family=joint({"initial": dirichlet, "transition": rows}),
        prior=BlockPrior(
            parameters=parameters,
            defaults=lambda data, num_components: concentrations(alphabet, 1.1),
            bounds=lambda columns: {},
            constants=lambda data: {},
            nu=partial(_prior, alphabet),
            shapes=lambda columns: {name: (alphabet.size,) if name.startswith("unseen") else () for name in parameters},
        ),
        likelihood=Likelihood(
            program=partial(_program, alphabet),
            features=lambda hyper, x: counts.as_float(x.counts),
            log_density=_log_density,
            statistics=partial(_statistics, alphabet),
            draw=partial(_draw, alphabet),
        ),
        encoding=Encoding(
            encode=partial(encode, alphabet),
            observation=lambda x: x.events,
            replicated=partial(_replicated, alphabet),
            check=lambda data: None,
        ),
        coordinates=lambda hyper, x: counts.coordinates(counts.as_float(x.counts)),
        sites=lambda hyper, T: {f"{name}_probs": jnp.exp(leaf) for name, leaf in T.items()},
        natural=lambda hyper, sites: {name: jnp.log(jnp.asarray(sites[f"{name}_probs"])) for name in ("initial", "transition")},
        naming=BlockNaming(
            dims=(
                ("initial_probs", ("component", "token")),
                ("transition_probs", ("component", *site_dims)),
                ("unseen_concentration", ("token",)),
            ),
            coords=partial(_coords, alphabet),
            density_of="sequences given their lengths" if alphabet.positions is None else "binary columns",
        ),
        discriminant=_by_position(alphabet) if alphabet.positions is not None else _by_event(alphabet, site_dims),
    )


def concentrations(alphabet: Alphabet, each: float) -> dict[str, Any]:
    """Hyperparameters with concentration ``each`` for every token and transition.

    "Another token" stands for all unobserved successors and gets concentration 1 + (each − 1) × their number: the mode is then
    the same as that of a chain over all pairs.
    """
    shared: dict[str, Any] = {"initial_concentration": each, "transition_concentration": each}
    if alphabet.seen is None:
        return shared
    return shared | {"unseen_concentration": 1 + (each - 1) * np.maximum(alphabet.size - alphabet.successors, 1)}


def _dims(alphabet: Alphabet) -> tuple[str, ...]:
    """Dimensions of the transitions of one component."""
    if alphabet.seen is not None:
        return ("transition",)
    return ("token", "next_token") if alphabet.positions is None else ("step", "token", "next_token")


def _concentrations(alphabet: Alphabet, hyper: Hyper) -> Any:
    """Concentrations of the transitions of one component, in the shape of their site."""
    if alphabet.seen is None:
        return hyper["transition_concentration"] * np.ones(alphabet.shape)
    entries = [np.repeat([0, 1], [n, size - n]) for n, size in zip(alphabet.successors, alphabet.sizes, strict=True)]
    rest = np.concatenate(entries)  # 1 at the entries for all other tokens
    token = np.repeat(np.arange(alphabet.size), alphabet.sizes)
    return rest * hyper["unseen_concentration"][token] + (1 - rest) * hyper["transition_concentration"]


def _prior(alphabet: Alphabet, hyper: Hyper, num_components: int) -> dict[str, Array]:
    transition = np.asarray(_concentrations(alphabet, hyper)) - 1
    return {
        "initial": on_host(np.full((num_components, alphabet.size), float(hyper["initial_concentration"]) - 1)),
        "transition": on_host(np.tile(transition, (num_components, *[1] * transition.ndim))),
    }


def _program(alphabet: Alphabet, hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    initial, transition = _site_priors(alphabet, hyper, num_components) if proper else _flat_sites(alphabet, num_components)
    probs = {"initial": numpyro.sample("initial_probs", initial), "transition": numpyro.sample("transition_probs", transition)}
    log_probs = jnp.log(jnp.concatenate([leaf.reshape(num_components, -1) for leaf in probs.values()], axis=1))
    return EventSequence(log_probs, x, alphabet.size, None if alphabet.positions is None else alphabet.positions - 1)


def _site_priors(alphabet: Alphabet, hyper: Hyper, num_components: int) -> tuple[Any, Any]:
    first = dist.Dirichlet(jnp.broadcast_to(hyper["initial_concentration"], (alphabet.size,)))
    concentration = _concentrations(alphabet, hyper)
    rows = dist.Dirichlet(concentration) if alphabet.seen is None else RaggedDirichlet(concentration, alphabet.sizes)
    rows = rows.expand([num_components, *rows.batch_shape])
    return first.expand([num_components]).to_event(1), rows.to_event(len(rows.batch_shape))


def _flat_sites(alphabet: Alphabet, num_components: int) -> tuple[Any, Any]:
    simplex = constraints.simplex if alphabet.seen is None else RaggedSimplex(alphabet.sizes)
    batch = len(alphabet.shape)  # K and all but the last axis
    first = flat(constraints.independent(constraints.simplex, 1), (num_components, alphabet.size))
    return first, flat(constraints.independent(simplex, batch), (num_components, *alphabet.shape))


def _log_density(T: Stats) -> Callable[[Any], Array]:
    table = jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in (T["initial"], T["transition"])], axis=1)
    return lambda x: counts.log_mass(x, table)


def _statistics(alphabet: Alphabet, weight: Array, x: Any) -> dict[str, Array]:
    totals = counts.totals(weight, x)
    transition = totals[:, alphabet.size :].reshape(-1, *alphabet.shape)
    return {"initial": totals[:, : alphabet.size], "transition": transition}


def _coords(alphabet: Alphabet, data: Data) -> dict[str, list[Any]]:
    if alphabet.positions is not None:
        steps = [f"{a} → {b}" for a, b in zip(data.columns, data.columns[1:], strict=False)]
        return {"token": [0, 1], "next_token": [0, 1], "step": steps, "feature": list(data.columns)}
    words = list(data.columns)
    if alphabet.seen is None:
        return {"token": words, "next_token": words}
    names, seen = [], iter(alphabet.seen)
    for token, (number, size) in enumerate(zip(alphabet.successors, alphabet.sizes, strict=True)):
        names += [f"{words[token]} → {words[next(seen) % alphabet.size]}" for _ in range(number)]
        names += [f"{words[token]} → (another)"] * (size - number)
    return {"token": words, "transition": names}


def _draw(alphabet: Alphabet, key: Array, sites: Sites, z: Array) -> Chains:
    """Draw sequences of `DRAWN_TOKENS` tokens, or of the fixed length; raises `ZooError` for the ragged form."""
    if alphabet.seen is not None:
        raise ZooError('sequences over observed pairs cannot be simulated: the token behind "another token" is unknown')
    length, V = alphabet.positions or DRAWN_TOKENS, alphabet.size
    shape = (sites["transition_probs"].shape[0], length - 1, V, V)
    transition = sites["transition_probs"]
    by_step = jnp.log(transition if alphabet.positions else jnp.broadcast_to(transition[:, None], shape))

    def one(key: Array, k: Array) -> Array:
        key_first, key_rest = jax.random.split(key)
        first = jax.random.categorical(key_first, jnp.log(sites["initial_probs"])[k])

        def step(before: Array, each: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            key, rows, offset = each
            after = jax.random.categorical(key, rows[before])
            return after, V + offset + before * V + after

        offsets = jnp.arange(length - 1) * (V**2 if alphabet.positions else 0)
        _, rest = jax.lax.scan(step, first, (jax.random.split(key_rest, length - 1), by_step[k], offsets))
        return jnp.concatenate([first[None], rest])

    events = jax.vmap(one)(jax.random.split(key, z.shape[0]), z)
    return Chains(events + 1, jax.nn.one_hot(events, alphabet.num_events).sum(1))


def _replicated(alphabet: Alphabet, x: Chains, events: np.ndarray) -> dict[str, np.ndarray]:
    """Tokens of drawn events (S, N, L): rows of fixed length, or the concatenated tokens of all sequences."""
    V = alphabet.size
    tokens = np.where(events > V, (events - 1 - V) % V, events - 1)
    return {"x": tokens} if alphabet.positions is not None else {"token": tokens[:, np.asarray(x.events) > 0]}


# ---------------------------------------------------------------------------------------------------------------------
# Discriminants


def _by_event(alphabet: Alphabet, site_dims: tuple[str, ...]) -> Discriminant:
    """Weights log p of every first token and every transition; features are their counts."""

    def features(x: Chains) -> dict[str, Array]:
        table = counts.dense(counts.as_float(x.counts))
        return {"first": table[:, : alphabet.size], "transition": table[:, alphabet.size :].reshape(-1, *alphabet.shape)}

    def linear(hyper: Hyper, sites: Sites) -> Linear:
        weights = {"first": jnp.log(sites["initial_probs"]), "transition": jnp.log(sites["transition_probs"])}
        return Linear(jnp.zeros(sites["initial_probs"].shape[0]), weights)

    return Discriminant(linear, features, (("first", ("token",)), ("transition", site_dims)))


def _by_position(alphabet: Alphabet) -> Discriminant:
    """Binary rows: log p(x) is linear in (1, x_i, x_i x_{i−1}), and not in x alone (errata E4)."""

    def features(x: Chains) -> dict[str, Array]:
        first, rest = x.events[:, :1] - 1, (x.events[:, 1:] - 1 - alphabet.size) % alphabet.size
        bits = jnp.concatenate([first, rest], axis=1).astype(float)
        return {"x": bits, "xx": bits[:, 1:] * bits[:, :-1]}

    def linear(hyper: Hyper, sites: Sites) -> Linear:
        first, rest = jnp.log(sites["initial_probs"]), jnp.log(sites["transition_probs"])  # (K, 2), (K, D − 1, 2, 2)
        base, after, before = rest[..., 0, 0], rest[..., 0, 1] - rest[..., 0, 0], rest[..., 1, 0] - rest[..., 0, 0]
        both = rest[..., 1, 1] - rest[..., 1, 0] - after
        alone = jnp.concatenate([(first[:, 1] - first[:, 0])[:, None], after], axis=1).at[:, :-1].add(before)
        return Linear(first[:, 0] + base.sum(1), {"x": alone, "xx": both})

    return Discriminant(linear, features, (("x", ("feature",)), ("xx", ("step",))))


def observed_pairs(x: Sequences, size: int) -> tuple[int, ...]:
    """The pairs of known tokens that follow each other in some row, sorted: before · V + after."""
    ids = event_ids(Alphabet(size), x)
    return tuple(int(pair) for pair in np.unique(ids[ids >= size]) - size)
