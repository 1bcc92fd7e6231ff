"""Samplers of hidden Markov models: Geweke's test with given lengths and with the boundary, and the exact posterior."""

from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import CHAINS, geweke, hidden
from naive import SHORT, distances_of_moments
from naive_chain import Exact, all_paths, build, exact_posterior
from scipy import stats
from two_stage import assert_standard_normal, in_blocks, of_distributions

from inference import fit
from inference.methods import gibbs
from models import MODELS, Data
from models.base import Model
from models.chains.sequences import Timed
from models.data.documents import documents

pytestmark = pytest.mark.slow
Arrays = dict[str, np.ndarray]
RNG = np.random.default_rng(3)
START, STAY = np.array([2.0, 3.0]), np.array([[3.0, 1.0], [0.8, 2.0]])  # concentrations


def chosen(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One value of every row of probabilities (C, K)."""
    return np.asarray((rng.random((len(probs), 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(1))


def dirichlets(concentration: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """(size, …): rows of a matrix of concentrations, each a Dirichlet."""
    return np.stack([rng.dirichlet(row, size) for row in concentration], axis=1)


# ---------------------------------------------------------------------------------------------------------------------
# Given lengths

LENGTHS = np.array([4, 1, 3, 2])
SEEN = np.array([[1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1]], dtype=bool)
HIDDEN = np.arange(32).reshape(4, 4, 2) % 5 == 1  # single cells, some of steps that were not seen
GAUSSIAN = {"location": [0.3, -0.2], "strength": 0.5, "dof": 10.0, "scatter": [6.0, 9.0]}
TAILS = {"tail_shape": 6.0, "tail_rate": 1.0}


def gaussian_prior(cell: str, rng: np.random.Generator) -> Arrays:
    """θ from the prior, by NumPy and SciPy; precisions are matrices."""
    if cell == "diag":
        each = rng.gamma(GAUSSIAN["dof"] / 2, 2 / np.array(GAUSSIAN["scatter"]), (CHAINS, 2, 2))
        precision = each[..., None] * np.eye(2)
    else:
        inverse = np.diag(1 / np.array(GAUSSIAN["scatter"]))
        drawn = stats.wishart.rvs(GAUSSIAN["dof"], inverse, size=2 * CHAINS, random_state=rng)
        precision = drawn.reshape(CHAINS, 2, 2, 2)
    away = about(GAUSSIAN["strength"] * precision, rng)
    sites = {
        "start_probs": rng.dirichlet(START, CHAINS),
        "transition_probs": dirichlets(STAY, CHAINS, rng),
        "mean": np.array(GAUSSIAN["location"]) + away,
        "precision": precision,
    }
    return sites | (
        {"degrees_of_freedom": rng.gamma(TAILS["tail_shape"], 1 / TAILS["tail_rate"], (CHAINS, 2))} if cell == "tails" else {}
    )


def about(precision: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal vectors about 0, one for every precision matrix."""
    root = np.linalg.cholesky(np.linalg.inv(precision))
    return np.einsum("...ij,...j->...i", root, rng.normal(size=precision.shape[:-1]))


def gaussian_rows(sites: Arrays, rng: np.random.Generator) -> np.ndarray:
    """(C, 4, 4, 2): sequences of every θ, step by step."""
    chain, x = np.arange(CHAINS), np.zeros((CHAINS, 4, 4, 2))
    for n in range(4):
        state = chosen(sites["start_probs"], rng)
        for t in range(LENGTHS[n]):
            state = state if t == 0 else chosen(sites["transition_probs"][chain, state], rng)
            away = about(sites["precision"][chain, state], rng)
            if "degrees_of_freedom" in sites:
                half = sites["degrees_of_freedom"][chain, state] / 2
                away = away / np.sqrt(rng.gamma(half) / half)[:, None]
            x[:, n, t] = sites["mean"][chain, state] + away
    return x


def gaussian_summaries(sites: Arrays, x: np.ndarray) -> Arrays:
    """Functions of θ and the steps that catch a wrong count, place or coupling."""
    x = x * (np.arange(4)[None, :] < LENGTHS[:, None])[None, :, :, None]
    away = (sites["mean"] - np.array(GAUSSIAN["location"])) ** 2
    step, mean, precision = sites["transition_probs"], sites["mean"], sites["precision"]
    found = {
        "start": sites["start_probs"][:, 0],
        "stay": step[:, 0, 0],
        "leave": step[:, 1, 0],
        "steps": (step**2).sum((1, 2)),
        "mean": mean[:, 0, 0],
        "last mean": mean[:, 1, 1],
        "precision": precision[:, 0, 1, 1],
        "coupling": away[:, 1, 0] * precision[:, 1, 0, 0],
        "start and mean": sites["start_probs"][:, 1] * mean[:, 1, 0],
        "step and mean": step[:, 0, 1] * (mean[:, 0, 0] - mean[:, 1, 0]) ** 2,
        "first": x[:, 0, 0, 0],
        "square": (x**2).sum((1, 2, 3)),
        "neighbours": (x[:, :, :-1] * x[:, :, 1:]).sum((1, 2, 3)),
        "turns": np.abs(x[:, 0, 1:] - x[:, 0, :-1]).sum((1, 2)),
        "columns": (x[..., 0] * x[..., 1]).sum((1, 2)),
    }
    if precision[:, 0, 0, 1].any():
        found["between columns"] = precision[:, 0, 0, 1] + precision[:, 1, 0, 1]
    return found | ({"degrees": sites["degrees_of_freedom"][:, 0]} if "degrees_of_freedom" in sites else {})


@pytest.mark.parametrize("cell", ["diag", "full", "tails"])
def test_geweke_given_lengths(cell):
    """Ragged sequences with steps and cells that were not seen: 15 to 17 functions of θ and the steps.

    Missing cells under full covariances, and the precision factors of Student-t tails, are drawn beside the states.
    """
    data = Data("steps", RNG.normal(size=(10, 2)), ("a", "b"), starts=np.concatenate([[0], np.cumsum(LENGTHS)]))
    chains = {"start_probs": {"concentration": START}, "transition_probs": {"concentration": STAY}}
    block = (
        GAUSSIAN | ({} if cell == "diag" else {"scatter": np.diag(GAUSSIAN["scatter"])}) | (TAILS if cell == "tails" else {})
    )
    model = build(cell, data, boundary=False, prior=chains | {"state": block})
    ragged = {"length": jnp.asarray(LENGTHS), "seen": jnp.asarray(SEEN)}

    def some(rows: Timed) -> Timed:
        return rows._replace(x=hidden(rows.x, HIDDEN), **ragged)

    run = geweke(model, some, 4)

    def in_matrices(sites: Arrays) -> Arrays:
        return sites | {"precision": sites["precision"][..., None] * np.eye(2)} if cell == "diag" else sites

    def found_and_wanted(seed: int) -> tuple[Arrays, Arrays]:
        rng = np.random.default_rng(seed)
        start, reference = gaussian_prior(cell, rng), gaussian_prior(cell, rng)
        if cell == "diag":
            start["precision"] = np.diagonal(start["precision"], axis1=-2, axis2=-1)
        sites, x = run(start, seed)
        return gaussian_summaries(in_matrices(sites), x), gaussian_summaries(reference, gaussian_rows(reference, rng))

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))


# ---------------------------------------------------------------------------------------------------------------------
# With the boundary. Lengths are drawn, and unbounded: the joint law that is simulated is the one given that all sequences
# have stopped after `LONGEST` steps. That event is known from the data, so θ given data and states is what it was; sequences
# given θ are drawn step by step, with the probability of stopping in time; θ and sequences together by rejection.

LONGEST, SEQUENCES, SWEEPS, SYMBOLS = 4, 3, 5, 3
STEP = np.array([[1.5, 1.0, 3.0], [0.7, 2.0, 2.5]])
EMIT = np.array([1.5, 1.0, 2.0])
PLACE = np.arange(SEQUENCES)[:, None] + 2 * np.arange(LONGEST)[None, :]
WATCHED, KNOWN = PLACE % 4 != 1, PLACE % 3 == 0  # steps that are seen, steps whose state is


def in_time(sites: Any, key: Any) -> tuple[Timed, Any]:
    """(Sequences given θ and that all stop after `LONGEST` steps, their states)."""
    step, stop = sites["transition_probs"][:, :2], sites["transition_probs"][:, 2]
    soon = [stop]  # probability of stopping in the steps that are left, by state
    for _ in range(LONGEST - 1):
        soon.insert(0, stop + step @ soon[0])
    key_first, key_x, *keys = jax.random.split(key, LONGEST + 1)
    state = jax.random.categorical(key_first, jnp.log(sites["start_probs"] * soon[0]), shape=(SEQUENCES,))
    states, going = [state], [jnp.ones(SEQUENCES, bool)]
    for t in range(1, LONGEST):
        weights = jnp.concatenate([step * soon[t][None], stop[:, None]], axis=1)
        following = jax.random.categorical(keys[t - 1], jnp.log(weights)[states[-1]])
        going.append(going[-1] & (following < 2))
        states.append(jnp.where(going[-1], following, 0))
    z = jnp.stack(states, axis=1)
    x = jax.random.categorical(key_x, jnp.log(sites["emission_probs"])[z])
    known = jnp.where(jnp.asarray(KNOWN)[..., None], jax.nn.one_hot(z, 2, dtype=bool), True)
    return Timed(x, jnp.stack(going).sum(0), jnp.asarray(WATCHED), None, known), z


def symbols_of(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """(θ, sequences) by rejection: from the prior, and kept where all sequences have stopped in time."""
    size = 2 * CHAINS
    sites = {
        "start_probs": rng.dirichlet(START, size),
        "transition_probs": dirichlets(STEP, size, rng),
        "emission_probs": rng.dirichlet(EMIT, (size, 2)),
    }
    draw, x = np.arange(size), np.zeros((size, SEQUENCES, LONGEST), int)
    z, length = np.zeros_like(x), np.zeros((size, SEQUENCES), int)
    kept = np.ones(size, bool)
    for n in range(SEQUENCES):
        state, going = chosen(sites["start_probs"], rng), np.ones(size, bool)
        for t in range(LONGEST):
            length[:, n] += going
            z[:, n, t] = np.where(going, state, 0)
            x[:, n, t] = np.where(going, chosen(sites["emission_probs"][draw, state], rng), 0)
            following = chosen(sites["transition_probs"][draw, state], rng)
            going &= following < 2
            state = np.where(going, following, 0)
        kept &= ~going
    chosen_draws = np.flatnonzero(kept)[:CHAINS]
    assert len(chosen_draws) == CHAINS
    rows = {"x": x, "z": z, "length": length}
    return tuple({name: part[chosen_draws] for name, part in parts.items()} for parts in (sites, rows))


def symbol_summaries(sites: Arrays, rows: Arrays) -> Arrays:
    """Functions of θ, symbols, states and lengths."""
    step, emit, length = sites["transition_probs"], sites["emission_probs"], rows["length"]
    there = np.arange(LONGEST)[None, None, :] < length[..., None]
    same = there[..., 1:] & (rows["z"][..., 1:] == rows["z"][..., :-1])
    last = np.take_along_axis(rows["z"], length[..., None] - 1, axis=2)[..., 0]
    symbol = (there & (rows["x"] == 2)).sum((1, 2))
    return {
        "start": sites["start_probs"][:, 0],
        "stay": step[:, 0, 0],
        "leave": step[:, 1, 0],
        "stop": step[:, 0, 2],
        "last stop": step[:, 1, 2],
        "steps": (step**2).sum((1, 2)),
        "symbol": emit[:, 0, 0],
        "last symbol": emit[:, 1, 2],
        "symbols": (emit**2).sum((1, 2)),
        "length": length.sum(1) + 0.0,
        "same": same.sum((1, 2)) + 0.0,
        "twos": symbol + 0.0,
        "stop and length": step[:, 0, 2] * length.sum(1),
        "stop and last": step[:, 1, 2] * (last == 1).sum(1),
        "stay and same": step[:, 0, 0] * same.sum((1, 2)),
        "symbol and start": emit[:, 1, 2] * sites["start_probs"][:, 1] * symbol,
    }


def test_geweke_with_the_boundary():
    """Steps that were not seen, states that are known: 16 functions, of stops and lengths too."""
    blocks = {"start_probs": START, "transition_probs": STEP, "state": EMIT}
    names = dict.fromkeys(("start_probs", "transition_probs"), "concentration") | {"state": "emission_concentration"}
    data = documents([["a", "b", "c"], ["a"]])
    model = MODELS["hmm"](data, prior={block: {names[block]: value} for block, value in blocks.items()})
    hyper, prior, algebra = dict(model.hyper), dict(model.prior), model.algebra

    def sweep(T: Any, key: Any) -> tuple[Any, None]:
        key_rows, key_step = jax.random.split(key)
        rows, _ = in_time(algebra.sites(hyper, T), key_rows)
        return gibbs.step(algebra, (hyper, prior, rows), key_step, T)[0], None

    @jax.jit
    @jax.vmap
    def chain(sites: Any, key: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, SWEEPS + 1)
        T, _ = jax.lax.scan(sweep, algebra.natural(hyper, sites), keys[1:])
        after = algebra.sites(hyper, T)
        rows, z = in_time(after, keys[0])
        return after, {"x": rows.x, "z": z, "length": rows.length}

    def found_and_wanted(seed: int) -> tuple[Arrays, Arrays]:
        rng = np.random.default_rng(seed)
        (start, _), reference = symbols_of(rng), symbols_of(rng)
        found = jax.tree.map(np.asarray, chain(start, jax.random.split(jax.random.PRNGKey(seed + 1), CHAINS)))
        return symbol_summaries(*found), symbol_summaries(*reference)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))


# ---------------------------------------------------------------------------------------------------------------------
# One posterior

TEXTS = [[0, 0, 1], [1], [1, 0]]
DRAWS = 20_000


@cache
def tiny() -> tuple[Model, Data, Exact]:
    data = documents([["ab"[code] for code in row] for row in TEXTS])
    prior = {"start_probs": {"concentration": 1.5}, "transition_probs": {"concentration": [[2.0, 1.5, 2.5], [1.5, 2.0, 2.5]]}}
    model = MODELS["hmm"](data, prior=prior | {"state": {"emission_concentration": [1.5, 2.0]}})
    return model, data, exact_posterior(model, TEXTS, 2)


def functionals(sites: Arrays) -> Arrays:
    """What the model reports, of D draws, by sums over the paths of every sequence."""
    start, transition, emit = (sites[name] for name in ("start_probs", "transition_probs", "emission_probs"))
    states, total = [], np.zeros(len(start))
    for row in TEXTS:
        paths = all_paths(2, len(row))
        probs = start[:, paths[:, 0]] * transition[:, paths[:, -1], 2]
        for t, code in enumerate(row):
            probs = probs * emit[:, paths[:, t], code]
            probs = probs if t == 0 else probs * transition[:, paths[:, t - 1], paths[:, t]]
        total += np.log(probs.sum(1))
        share = probs / probs.sum(1, keepdims=True)
        states += [np.stack([share[:, paths[:, t] == i].sum(1) for i in (0, 1)], axis=1) for t in range(len(row))]
    places = [0, 1, 2, 4, 5]  # evenly spread
    pairs = [(states[one] * states[other]).sum(1) for one, other in pairwise(places)]
    left = np.linalg.solve(np.eye(2) - transition[:, :, :2], np.ones((len(start), 2, 1)))[..., 0]
    stay = np.sort(transition[:, [0, 1], [0, 1]], axis=1)[:, ::-1]
    found = {"log_likelihood": total, "expected_length": np.log((start * left).sum(1))}
    return found | {f"stay {i}": stay[:, i] for i in (0, 1)} | {f"pair {i}": part for i, part in enumerate(pairs)}


def of_tree(tree: Any) -> Arrays:
    """The same of a result, (chain, draw); log of the expected length, which has no mean where a state may never stop."""
    found = {name: value.values for name, value in tree["functionals"].data_vars.items()}
    chosen = {"log_likelihood": found["log_likelihood"], "expected_length": np.log(found["expected_length"])}
    chosen |= {f"stay {i}": found["stay_probs"][..., i] for i in (0, 1)}
    return chosen | {f"pair {i}": found["co_occurrence"][..., i] for i in range(4)}


def test_samplers_agree_with_the_sum_over_all_paths():
    """Means and squares of 8 functionals by Gibbs and by NUTS against independent draws of the exact posterior.

    That is a mixture over 64 paths of products of Dirichlets.
    """
    model, data, exact = tiny()
    draws = {"gibbs": {"num_warmup": 200, "num_samples": 2560}, "nuts": {"num_samples": 1280}}

    def deviations(seed: int, times: int) -> np.ndarray:
        wanted, scores = functionals(exact.draws(DRAWS * times, np.random.default_rng(seed))), []
        for method, options in draws.items():
            longer = {name: value * (times if name == "num_samples" else 1) for name, value in options.items()}
            found = of_tree(fit(model, data, method=method, seed=seed, **SHORT[method] | longer))
            scores += [distances_of_moments(found[name].reshape(-1, 1), value[:, None]) for name, value in wanted.items()]
        return np.concatenate(scores)

    assert_standard_normal(deviations, 2)
