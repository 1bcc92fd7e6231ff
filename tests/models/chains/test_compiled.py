"""Expected counts by loops compiled for the host: those of sums over all paths, or of the recursions in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from naive_chain import Weights, log, summed

import inference.row_sums.compiled
from inference import fit
from models import MODELS
from models.chains.compiled.expected import Counts, Logs, expected_counts
from models.chains.compiled.paths import best_paths
from models.chains.latent import Chain, chain, viterbi
from models.chains.posterior_counts import pair_counts
from models.data.documents import Sequences
from models.data.table import Data
from models.rows.packing import side_by_side

RNG = np.random.default_rng(0)
CODE = RNG.integers(0, 4, (19, 6))  # two groups of eight, and three sequences more
CODE[2, 3:5] = -1
LENGTH = np.append(np.arange(1, 7), RNG.integers(1, 7, 13))
WEIGHT = RNG.integers(0, 3, 19).astype(float)


def logs_of(size: int, boundary: bool, zeros: float = 0.0, num_symbols: int = 4) -> Logs:
    """Random probabilities; a share ``zeros`` of the transitions and emissions is impossible."""

    def probs(rows: int, columns: int) -> np.ndarray:
        found = rng.dirichlet(np.ones(columns), rows)
        return np.where(rng.random(found.shape) < zeros, 0.0, found)

    rng = np.random.default_rng(size)
    transition = probs(size, size + boundary)
    stop = transition[:, size] if boundary else np.ones(size)
    return Logs(*(log(part) for part in (probs(1, size)[0], transition[:, :size], stop, probs(size, num_symbols).T)))


def by_paths(code: np.ndarray, length: np.ndarray, weight: np.ndarray, given: Logs) -> Counts:
    """The definition."""
    symbols = np.vstack([given.symbol, np.zeros(len(given.start))])  # the last row, at −1, is for missing ones
    found = Counts(*(np.zeros_like(part) for part in (given.start, given.step, given.start, symbols)), np.zeros(()))
    for own, steps, codes in zip(weight, length, code, strict=True):
        row = summed(Weights(*given[:3], symbols[codes[:steps]]))
        np.add.at(found.symbol, codes[:steps], own * row.state)
        density = own * row.log_partition if own > 0 else 0.0
        parts = (own * row.state[0], own * row.pair, own * row.state[-1], np.zeros_like(symbols), density)
        found = Counts(*(total + part for total, part in zip(found, parts, strict=True)))
    return found._replace(symbol=found.symbol[:-1])


@pytest.mark.parametrize(("size", "boundary"), [(1, True), (2, False), (3, True)])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_counts_are_sums_over_paths(size, boundary, zeros, num_threads):
    """Lengths from one step, missing symbols, weights of 0; with zeros some sequences are impossible."""
    given = logs_of(size, boundary, zeros)
    found, wanted = expected_counts(CODE, LENGTH, WEIGHT, num_threads, given), by_paths(CODE, LENGTH, WEIGHT, given)
    for one, other in zip(found, wanted, strict=True):
        assert near(one, other, atol=1e-12)


@jax.jit
def recursions(local: Chain) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(expected states (L, N, S), transitions, log p(x)) by `models.chains.latent`."""
    z = chain.mean(jax.random.PRNGKey(0), local)
    return z.state, pair_counts(z, jnp.ones(local.emission.shape[1])), chain.log_partition(local).sum()


def by_recursions(code: np.ndarray, length: np.ndarray, given: Logs) -> Counts:
    number, longest = code.shape
    packing = jax.tree.map(np.asarray, side_by_side(jnp.asarray(length), longest))
    state, pair, total = map(np.asarray, recursions(Chain(*given[:3], given.symbol[code.T], packing)))
    symbol = np.zeros_like(given.symbol)
    np.add.at(symbol, code.T, state)
    return Counts(state[0].sum(0), pair, state[length - 1, np.arange(number)].sum(0), symbol, total)


def test_sequences_that_underflow_go_in_logarithms():
    """State 1 is e⁻⁸⁰⁰ times less likely than state 0, and yet explains the last five symbols better: by e³²⁰ each.

    As no single scale underflows, only the probability of state 1 shows it. Sequences without these symbols are sure.
    """
    step = np.array([[0.0, -800.0], [-np.inf, 0.0]])
    given = Logs(np.array([0.0, -np.inf]), step, np.zeros(2), np.array([[0.0, -1.0], [-320.0, -0.5]]))
    code = np.zeros((10, 40), int)
    code[[1, 9], 35:] = 1
    length = np.full(10, 40)
    found, wanted = expected_counts(code, length, None, 1, given), by_recursions(code, length, given)
    assert found.symbol[1, 1] == pytest.approx(10)
    for one, other in zip(found, wanted, strict=True):
        assert near(one, other, rtol=1e-12)


def test_long_sequences_have_the_counts_of_the_recursions_in_jax():
    """Thousands of steps of which one in ten is improbable, so that scales are collected many times."""
    given = logs_of(3, False)
    given = given._replace(symbol=given.symbol - np.array([0.0, 0.0, 0.0, 300.0])[:, None])
    code = np.random.default_rng(1).choice(4, (3, 3000), p=[0.3, 0.3, 0.3, 0.1])
    length = np.array([3000, 1, 2000])
    found = expected_counts(code, length, None, 2, given)
    wanted = by_recursions(code, length, given)
    for one, other in zip(found, wanted, strict=True):
        assert near(one, other, rtol=1e-10)


@pytest.mark.parametrize(("size", "boundary"), [(1, True), (3, True), (9, False)])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_paths_are_those_of_viterbi_in_jax(size, boundary, num_threads):
    """Equal to the last digit, also of ties (rounded emissions) and impossible paths; nine states fill more than one vector."""
    given, (number, longest) = logs_of(size, boundary, 0.2), CODE.shape
    emission = np.random.default_rng(2).normal(size=(longest, number, size)).round(0)
    packing = jax.tree.map(np.asarray, side_by_side(jnp.asarray(LENGTH), longest))
    states, values = map(np.asarray, jax.jit(viterbi)(Chain(*given[:3], emission, packing)))
    found = best_paths(*given[:3], emission, LENGTH, num_threads)
    there = np.arange(longest)[:, None] < LENGTH
    np.testing.assert_array_equal(found.state, np.where(there, states, 0))
    np.testing.assert_array_equal(found.log_joint, values)


@pytest.mark.slow
@pytest.mark.parametrize(("boundary", "prior"), [(True, "default"), (False, "flat")])
def test_em_by_loops_climbs_as_by_the_algebra(monkeypatch, boundary, prior):
    """Traces and optima of two starts, with missing symbols and weights."""
    tokens = np.where(RNG.random(60) < 0.1, -1, RNG.integers(0, 3, 60))
    data = Data(
        "words", Sequences(tokens, np.array([0, 4, 5, 20, 33, 60])), ("a", "b", "c"), weight=np.array([1.0, 2, 1, 0, 3])
    )
    model = MODELS["hmm"](data, num_states=2, boundary=boundary, prior=prior)
    trees = []
    for fewest in (1000, 1):
        monkeypatch.setattr(inference.row_sums.compiled, "FEWEST_LATENTS", fewest)
        trees.append(fit(model, data, "em", num_starts=2, max_iter=15, tol=0))
    by_algebra, by_loops = (tree["optimization"]["objective"].values for tree in trees)
    np.testing.assert_allclose(by_loops, by_algebra, rtol=1e-10)


def test_of_equally_probable_paths_the_first_is_found():
    """States that nothing tells apart: the first one, in every step of every sequence."""
    start, step, emission = np.zeros(3), np.zeros((3, 3)), np.zeros((4, 2, 3))
    found = best_paths(start, step, np.zeros(3), emission, np.array([4, 2]), 2)
    np.testing.assert_array_equal(found.state, np.zeros((4, 2)))
    np.testing.assert_array_equal(found.log_joint, np.zeros(2))


def test_a_state_that_underflows_by_its_weight_is_not_lost():
    """Predicted with exp(−400), and a symbol of exp(−400): the way over it is exp(200) times more probable than the other."""
    step = np.array([[0, -600, -600], [-600, 0, -600], [-400.0, -400, 0]])
    symbol = np.array([[-np.inf, -np.inf, 0], [0, -400, -np.inf], [-np.inf, 0, -np.inf]])
    given = Logs(np.array([-600.0, -600, 0]), step, np.zeros(3), symbol)
    found = expected_counts(np.array([[0, 1, 2]]), np.array([3]), None, 1, given)
    assert found.log_partition == pytest.approx(-800, rel=1e-12)
    np.testing.assert_allclose(found.pair, [[0, 0, 0], [0, 1, 0], [0, 1, 0]], atol=1e-12)
