"""Samplers of Markov naive Bayes: NUTS against Gibbs, and Geweke's test of the form for large vocabularies."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import SHORT, distances
from naive_markov import build, every_form, table
from two_stage import assert_standard_normal, in_blocks, of_distributions

from inference import fit
from inference.methods import gibbs
from models import Model, load_data
from models.data.documents import documents
from models.emissions.markov import Alphabet, Chains, observed_pairs
from models.rows.encoded import Rows

NUMBERS = {"initial_concentration": 1.5, "transition_concentration": 1.5}  # densities that NUTS can follow to their edges


@pytest.mark.slow
@every_form
def test_gibbs_agrees_with_nuts(form):
    """Means of functionals and sites and their squares, labels partly missing."""
    model, warmup = build(form, prior={"class": NUMBERS}), {"gibbs": {"num_warmup": 500}, "nuts": {}}

    def deviations(seed: int, times: int) -> Any:
        draws = {"gibbs": 2560 * times, "nuts": 1280 * times}
        options = {method: SHORT[method] | warmup[method] | {"num_samples": draws[method], "seed": seed} for method in draws}
        return distances(*(fit(model, table(form), method=method, **chosen) for method, chosen in options.items()))

    assert_standard_normal(deviations, 2)


# ---------------------------------------------------------------------------------------------------------------------
# Geweke's test

CHAINS, SWEEPS, ROWS, LENGTH = 5000, 6, 5, 6
TOLD = 2  # rows whose class is observed; that of the others is drawn
PAIRS = ["ab", "ac", "bd", "ca", "cb", "cc", "cd"]  # a → b, c; b → d; c → all; d → nothing
SIZES = (3, 2, 4, 1)  # entries of every token's row: those pairs, and "another token" but after c
AFTER = [(1, 2, -1), (3, -1), (0, 1, 2, 3), (-1,)]  # the token that an entry leads to; −1: another, which nobody knows


def ragged_model() -> Model:
    """Every concentration a number of its own."""
    data = load_data(documents([list(pair) for pair in PAIRS]), labels=list("xyxyxyx"))
    assert Alphabet(4, seen=observed_pairs(data.x, 4)).sizes == SIZES
    block = {"initial_concentration": 1.5, "transition_concentration": 0.8, "unseen_concentration": [2.5, 0.6, 1.0, 2.0]}
    return build("seen", data, prior={"class_probs": {"concentration": [2.0, 3.0]}, "class": block})


def prior_draws(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """θ from the prior, one Dirichlet at a time, by NumPy."""
    concentrations = [[0.8, 0.8, 2.5], [0.8, 0.6], [0.8, 0.8, 0.8, 0.8], [2.0]]
    rows = [rng.dirichlet(concentration, (CHAINS, 2)) for concentration in concentrations]
    return {
        "class_probs": rng.dirichlet([2.0, 3.0], CHAINS),
        "initial_probs": rng.dirichlet(np.full(4, 1.5), (CHAINS, 2)),
        "transition_probs": np.concatenate(rows, axis=-1),
    }


def simulated(key: Any, sites: Any) -> Rows:
    """Documents given θ: events one after another, until "another token", after which nothing is known."""
    starts = np.concatenate([[0], np.cumsum(SIZES)[:-1]])
    place = jnp.array([[start + min(i, size - 1) for i in range(4)] for start, size in zip(starts, SIZES, strict=True)])
    entry = jnp.arange(4)[None, :] < jnp.array(SIZES)[:, None]
    following = jnp.array([(*after, *[-1] * (4 - len(after))) for after in AFTER])
    key_class, key_first, key_rest = jax.random.split(key, 3)
    z = jax.random.categorical(key_class, jnp.log(sites["class_probs"]), shape=(ROWS,))
    first = jax.random.categorical(key_first, jnp.log(sites["initial_probs"])[z])

    def step(token: Any, key: Any) -> tuple[Any, Any]:
        logits = jnp.where(entry[token], jnp.log(sites["transition_probs"])[z[:, None], place[token]], -jnp.inf)
        chosen = jax.random.categorical(key, logits)
        event = jnp.where(token < 0, 0, 1 + 4 + place[token, chosen])  # from 1; 0 is no event
        return jnp.where(token < 0, -1, following[token, chosen]), event

    _, rest = jax.lax.scan(step, first, jax.random.split(key_rest, LENGTH - 1))
    events = jnp.concatenate([1 + first[:, None], rest.T], axis=1)
    allowed = (jnp.arange(ROWS)[:, None] >= TOLD) | (z[:, None] == jnp.arange(2)[None, :])
    return Rows(Chains(events, jax.nn.one_hot(events - 1, 4 + sum(SIZES)).sum(1)), None, allowed)


def naive_events(sites: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """(CHAINS, E): how often every event happened in `ROWS` documents, token by token."""
    counts = np.zeros((CHAINS, 4 + sum(SIZES)))
    uniform = rng.random((CHAINS, ROWS, 1 + LENGTH))
    cuts = np.cumsum(SIZES)[:-1]
    for chain in range(CHAINS):
        rows = [np.split(vector, cuts) for vector in sites["transition_probs"][chain]]
        for n in range(ROWS):
            z = int(uniform[chain, n, -1] > sites["class_probs"][chain, 0])
            token = draw(sites["initial_probs"][chain, z], uniform[chain, n, 0])
            counts[chain, token] += 1
            for u in uniform[chain, n, 1:-1]:
                entry = draw(rows[z][token], u)
                counts[chain, 4 + sum(SIZES[:token]) + entry] += 1
                token = AFTER[token][entry]
                if token < 0:
                    break
    return counts


def draw(probs: np.ndarray, u: float) -> int:
    return min(int(np.searchsorted(np.cumsum(probs), u)), len(probs) - 1)


def summaries(sites: dict[str, np.ndarray], counts: np.ndarray) -> dict[str, np.ndarray]:
    """Functions of θ and the events that catch a wrong concentration, place or coupling."""
    transition = sites["transition_probs"]
    found = {"class": sites["class_probs"][:, 0], "first": sites["initial_probs"][:, 0, 0]}
    found |= {f"entry {place}": transition[:, place % 2, place] for place in range(sum(SIZES) - 1)}
    found |= {name: (sites[name] ** 2).sum((1, 2)) for name in ("initial_probs", "transition_probs")}
    another = np.cumsum(SIZES)[:2] - 1  # after a, and after b
    found |= {f"another {place}": counts[:, 4 + place] + 0.0 for place in another}
    found["events"] = counts.sum(1)
    return found | {"coupling": counts[:, 4] * transition[:, 0, 0], "other": counts[:, 4 + 2] * transition[:, 1, 2]}


@pytest.mark.slow
def test_geweke_of_a_large_vocabulary():
    """Started from the prior, "documents given θ, then θ by Gibbs" leaves both at the prior; two of five labels are observed.

    Kolmogorov-Smirnov on 18 functions. Documents and prior draws that they are compared with are NumPy's.
    """
    model = ragged_model()
    hyper, prior, algebra = dict(model.hyper), dict(model.prior), model.algebra

    def sweep(T: Any, key: Any) -> tuple[Any, None]:
        key_rows, key_step = jax.random.split(key)
        rows = simulated(key_rows, algebra.sites(hyper, T))
        return gibbs.step(algebra, (hyper, prior, rows), key_step, T)[0], None

    @jax.jit
    @jax.vmap
    def chain(sites: Any, key: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, SWEEPS + 1)
        T, _ = jax.lax.scan(sweep, algebra.natural(hyper, sites), keys[1:])
        after = algebra.sites(hyper, T)
        return after, simulated(keys[0], after).x.counts.sum(0)

    def found_and_wanted(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        rng = np.random.default_rng(seed)
        start, reference = prior_draws(rng), prior_draws(rng)
        after = jax.tree.map(np.asarray, chain(start, jax.random.split(jax.random.PRNGKey(seed + 1), CHAINS)))
        return summaries(*after), summaries(reference, naive_events(reference, rng))

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))
