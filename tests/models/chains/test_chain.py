"""The chain of states: its verbs equal sums over all paths, whatever is missing or known (document 002, errata E9 to E11)."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from naive_chain import Summed, Weights, log, summed
from scipy import stats
from two_stage import assert_standard_normal, in_blocks, of_frequencies

from models.chains.forward_backward import FEW
from models.chains.latent import Chain, chain, forward, k_best, viterbi
from models.chains.posterior_counts import Path, pair_counts
from models.rows.packing import side_by_side

LENGTHS = np.tile(np.arange(1, 7), 3)  # of rows with everything observed, with missing steps, and with restricted states
LONGEST, DRAWS = 6, 10_000
CASES = [(size, boundary) for size in (1, 2, 3) for boundary in (True, False)]
every_case = pytest.mark.parametrize(("size", "boundary"), CASES)


class Case(NamedTuple):
    local: Chain
    wanted: list[Summed]  # of every row


def chain_of(start, step, stop, emission, length):
    """A chain from arrays (L, N, S)."""
    arrays = (np.asarray(part, float) for part in (start, step, stop, emission))
    return Chain(*arrays, side_by_side(np.asarray(length, np.int32), len(emission)))


def rows_of(local: Chain) -> list[Weights]:
    start, step, stop, emission = (np.asarray(part) for part in local[:4])
    return [Weights(start, step, stop, emission[:steps, n]) for n, steps in enumerate(np.asarray(local.packing.length))]


@cache
def case(size: int, boundary: bool) -> Case:
    """18 rows of 1 to 6 steps; what lies beyond a row's length is large, so that it would be noticed."""
    rng = np.random.default_rng(size)
    transition = rng.dirichlet(np.ones(size + boundary), size)
    stop = log(transition[:, -1]) if boundary else np.zeros(size)
    emission = rng.normal(-2, 2, (LONGEST, len(LENGTHS), size))
    emission[:, 6:12][rng.random((LONGEST, 6)) < 0.4] = 0.0
    known = rng.random((LONGEST, 6, size)) < 0.5
    known[np.arange(LONGEST)[:, None], np.arange(6), rng.integers(size, size=(LONGEST, 6))] = True
    emission[:, 12:] = np.where(known, emission[:, 12:], -np.inf)
    beyond = np.arange(LONGEST)[:, None] >= LENGTHS
    emission[beyond] = rng.normal(900, 50, (beyond.sum(), size))
    start = log(rng.dirichlet(np.ones(size)))
    local = chain_of(start, log(transition[:, :size]), stop, emission, LENGTHS)
    return Case(local, [summed(row) for row in rows_of(local)])


@jax.jit
def verbs(local: Chain):
    mean = chain.mean(None, local)
    mode = chain.mode(None, local)
    found = forward(local)
    steps = jnp.cumsum(found.density, axis=0)
    z = chain.sample(jax.random.PRNGKey(0), local)
    drawn = (z, chain.energy(z, local))
    return mean, mode, viterbi(local), found, steps, chain.log_partition(local), chain.reported.entropy(mean, local), drawn


def found_on(local: Chain):
    with jax.numpy_rank_promotion("raise"):
        return jax.tree.map(np.asarray, verbs(local))


@cache
def found_of(size: int, boundary: bool):
    return found_on(case(size, boundary).local)


@every_case
def test_forward_is_the_sum_over_all_paths(size, boundary):
    """Log partition; and step by step log p(x_1 … x_t) and p(z_t | x_1 … x_t), which know of no later step and no stop."""
    _, _, _, filtered, steps, log_partition, _, _ = found_of(size, boundary)
    assert near(log_partition, [row.log_partition for row in case(size, boundary).wanted], atol=1e-12, rtol=1e-13)
    for n, row in enumerate(rows_of(case(size, boundary).local)):
        for t in range(LENGTHS[n]):
            prefix = summed(row._replace(stop=np.zeros(size), emission=row.emission[: t + 1]))
            assert near(steps[t, n], prefix.log_partition, atol=1e-12)
            assert near(filtered.states.state[t, n], prefix.state[t], atol=1e-13)


@every_case
def test_expected_states_and_steps_are_the_sum_over_all_paths(size, boundary):
    """Forward and backward: every state and every pair; nothing beyond the length of a row."""
    mean = found_of(size, boundary)[0]
    for n, row in enumerate(case(size, boundary).wanted):
        assert near(mean.state[: LENGTHS[n], n], row.state, atol=1e-13)
        assert near(pair_of(mean, n), row.pair, atol=1e-13)
        assert (mean.state[LENGTHS[n] :, n] == 0).all()


@every_case
def test_alpha_beta_is_constant(size, boundary):
    """Σ_i α_t(i) β_t(i) = p(x) at every t, divided by p(x); and pairs add up to the steps taken (E9, E10)."""
    mean = found_of(size, boundary)[0]
    there = np.arange(LONGEST)[:, None] < LENGTHS
    assert near(mean.state.sum(-1), there.astype(float), atol=1e-13)
    assert near([pair_of(mean, n).sum() for n in range(len(LENGTHS))], LENGTHS - 1.0, atol=1e-12)


@every_case
def test_gradient_of_the_log_partition_is_the_expected_counts(size, boundary):
    """With respect to starts, steps, stops and emissions of all rows together."""
    local, mean = case(size, boundary).local, found_of(size, boundary)[0]
    parts = tuple(local[:4])
    gradient = jax.jit(jax.grad(lambda parts: chain.log_partition(Chain(*parts, local.packing)).sum()))(parts)
    last = mean.state[LENGTHS - 1, np.arange(len(LENGTHS))]
    wanted = (mean.state[0].sum(0), pairs_of(mean, np.ones(len(LENGTHS))), last.sum(0), mean.state)
    assert all(near(one, other, atol=1e-12) for one, other in zip(gradient, wanted, strict=True))


@every_case
def test_viterbi_is_the_largest_of_all_paths(size, boundary):
    """Its weight, the path, and the path's counts (E11)."""
    _, mode, (states, largest), *_ = found_of(size, boundary)
    for n, row in enumerate(case(size, boundary).wanted):
        steps = LENGTHS[n]
        assert near(largest[n], row.logs.max(), atol=1e-12)
        assert (states[:steps, n] == row.best).all()
        assert (mode.state[:steps, n] == np.eye(size)[row.best]).all()
        assert (mode.state[steps:, n] == 0).all()
        assert near(pair_of(mode, n), counted(row.best, size))


pairs_of = jax.jit(pair_counts)  # one program for every shape


def pair_of(z, n):
    """(S, S): how often each state followed each in one row."""
    return np.asarray(pairs_of(z, np.arange(len(z.packing.length)) == n))


def counted(path, size):
    """(S, S): how often each state followed each."""
    pair = np.zeros((size, size))
    np.add.at(pair, (path[:-1], path[1:]), 1)
    return pair


@every_case
def test_energy_and_entropy(size, boundary):
    """< z, local > of a drawn path is its log weight, which is finite; the entropy is that of all paths."""
    *_, entropy, (z, energy) = found_of(size, boundary)
    for n, row in enumerate(case(size, boundary).wanted):
        path = z.state[: LENGTHS[n], n].argmax(-1)
        assert near(energy[n], row.logs[(row.paths == path).all(1)][0], atol=1e-11)
        assert near(pair_of(z, n), counted(path, size))
        assert near(entropy[n], stats.entropy(np.exp(row.logs - row.log_partition)), atol=1e-11)
    assert np.isfinite(energy).all()


@pytest.mark.slow
@every_case
def test_draws_have_the_probabilities_of_their_paths(size, boundary):
    """χ² of all paths of every row, of which one of probability 0 is never drawn."""
    local, wanted = case(size, boundary)
    local = jax.tree.map(jnp.asarray, local)

    @jax.jit
    def drawn(seed):
        keys = jax.random.split(jax.random.PRNGKey(seed), DRAWS)
        return jax.vmap(lambda key: chain.sample(key, local).state.argmax(-1).T)(keys)  # (D, N, L)

    def deviations(seed, times):
        draws, found = in_blocks(lambda one: np.asarray(drawn(one)), seed, times), []
        for n, row in enumerate(wanted):
            place = draws[:, n, : LENGTHS[n]] @ size ** np.arange(LENGTHS[n])[::-1]  # in the order of `all_paths`
            count = np.bincount(place, minlength=len(row.paths))
            found.append(of_frequencies(count, np.exp(row.logs - row.log_partition)))
        return found

    assert_standard_normal(deviations, 7)


@pytest.mark.slow
@pytest.mark.parametrize("size", [FEW, FEW + 2])
def test_many_states(size):
    """Up to so many states a product is written out, beyond it is the library's: both are the sum over all paths."""
    rng = np.random.default_rng(0)
    emission = rng.normal(size=(3, 2, size))
    local = chain_of(*(rng.normal(size=shape) for shape in (size, (size, size), size)), emission, [3, 2])
    mean, _, (states, largest), _, _, log_partition, _, _ = jax.tree.map(np.asarray, verbs(local))
    for n, row in enumerate(map(summed, rows_of(local))):
        assert near(log_partition[n], row.log_partition, atol=1e-12)
        assert near(pair_of(mean, n), row.pair, atol=1e-13)
        assert near(largest[n], row.logs.max(), atol=1e-12)
        assert (states[: len(row.best), n] == row.best).all()


def test_the_best_paths_are_the_largest_of_all_paths():
    """With the log weight of each, its stop included; where there are fewer paths, the others have log weight −∞."""
    local, wanted = case(2, True)
    states, logs = map(np.asarray, jax.jit(k_best, static_argnums=1)(local, 4))
    for n, row in enumerate(wanted):
        found = min(4, len(row.paths))
        assert near(logs[:found, n], np.sort(row.logs)[::-1][:found], atol=1e-12)
        assert (logs[found:, n] == -np.inf).all()
        for path, value in zip(states[:, : LENGTHS[n], n], logs[:, n], strict=True):
            assert not np.isfinite(value) or near(row.logs[(row.paths == path).all(1)][0], value, atol=1e-12)


def like_cases(start, step, emission=0.0) -> Chain:
    """Of the shape of a case, with the same emissions (L, S) for all rows, which tell nothing unless they are given."""
    size = len(start)
    emissions = np.broadcast_to(np.asarray(emission, float), (LONGEST, size))[:, None, :]
    return chain_of(log(start), log(step), np.zeros(size), np.tile(emissions, (1, len(LENGTHS), 1)), LENGTHS)


def test_from_left_to_right():
    """A state that is left for good: densities are the sum over all paths, 1 here, and no drawn path returns to it."""
    *_, log_partition, _, (z, energy) = found_on(like_cases([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]]))
    assert near(log_partition, np.zeros(len(LENGTHS)), atol=1e-14)
    assert np.isfinite(energy).all()
    for n, length in enumerate(LENGTHS):
        path = z.state[:length, n].argmax(-1)
        assert path[0] == 0
        assert (np.diff(path) >= 0).all()


def test_drawn_steps_of_a_fair_coin_are_independent():
    """45 pairs of neighbours, half of which agree: fewer than 5 or more than 40 do with probability 1e-8."""
    *_, (z, _) = found_on(like_cases([0.5, 0.5], np.full((2, 2), 0.5)))
    paths = [z.state[:length, n].argmax(-1) for n, length in enumerate(LENGTHS)]
    assert 5 <= sum(int((path[1:] == path[:-1]).sum()) for path in paths) <= 40


# ---------------------------------------------------------------------------------------------------------------------
# Ends of the range


def test_a_million_steps():
    """Where all rows of the transitions are alike steps are independent: Σ_t log Σ_i p_i exp(emission), of any size.

    A sum of 1e6 terms of size 600 that are rounded at 1e-16 each: 1e-12 relative.
    """
    rng = np.random.default_rng(0)
    probs, level = np.array([0.7, 0.3]), rng.normal(-500, 300, (1_000_000, 1, 1))
    emission = level + rng.normal(0, 3, (1_000_000, 1, 2))
    local = chain_of(log(probs), log(np.tile(probs, (2, 1))), np.zeros(2), emission, [1_000_000])
    wanted = np.logaddexp(*(log(probs) + emission[:, 0]).T).sum()
    assert near(jax.jit(chain.log_partition)(local)[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2])
def test_a_single_step(size):
    """No step to follow: start, emission and stop."""
    local = chain_of(log(np.full(size, 1 / size)), np.zeros((size, size)), -np.arange(size), np.ones((1, 3, size)), [1, 1, 1])
    mean, mode, *_, log_partition, _, (z, _) = jax.tree.map(np.asarray, verbs(local))
    wanted = summed(rows_of(local)[0])
    assert near(log_partition, np.full(3, wanted.log_partition), atol=1e-14)
    assert near(mean.state[0], np.tile(wanted.state, (3, 1)), atol=1e-14)
    assert not any(np.any(pairs_of(part, np.ones(3))) for part in (mean, mode, z))


def test_ties_go_to_the_state_that_comes_first():
    local = chain_of(np.zeros(3), np.zeros((3, 3)), np.zeros(3), np.zeros((4, 1, 3)), [4])
    assert (np.asarray(jax.jit(viterbi)(local)[0]) == 0).all()


def test_an_impossible_row():
    """Its log density is −∞, its expected states are none, and the row beside it is what it is alone."""
    emission = np.zeros((3, 2, 2))
    emission[1, 0] = -np.inf
    local = chain_of(log([0.5, 0.5]), log(np.full((2, 2), 0.5)), np.zeros(2), emission, [3, 3])
    mean, _, (_, largest), _, _, log_partition, *_ = jax.tree.map(np.asarray, verbs(local))
    assert log_partition[0] == largest[0] == -np.inf
    assert not mean.state[:, 0].any()
    assert near(log_partition[1], 0.0, atol=1e-14)
    assert near(mean.state[:, 1], np.full((3, 2), 0.5), atol=1e-14)


def alone(emission, step, start=(0.5, 0.5), steps=None):
    """One row of two states, and what it should be."""
    emission = np.asarray(emission, float)[:, None, :]
    local = chain_of(log(start), log(step), np.zeros(2), emission, [steps or len(emission)])
    return jax.tree.map(np.asarray, verbs(local)), summed(rows_of(local)[0])


@pytest.mark.slow
def test_the_likeliest_emission_is_of_a_state_that_cannot_be():
    """A state of probability 0 says nothing, also where its emission is exp(1000) times likelier than all that can be.

    Differences of numbers of size 1000: 1e-12.
    """
    (mean, _, (_, largest), _, _, log_partition, *_), wanted = alone([[-1000, 0], [0, 0]], np.full((2, 2), 0.5), (1.0, 0.0))
    assert near(log_partition, [-1000.0], rtol=1e-14)
    assert near(mean.state[:, 0], wanted.state, atol=1e-12)
    assert near(largest[0], wanted.logs.max(), rtol=1e-14)


@pytest.mark.slow
def test_a_state_that_was_ruled_out_would_explain_all_that_follows():
    """β of a state that is not possible overflows, and 0 times ∞ is no number."""
    (mean, *_, log_partition, _, _), wanted = alone([[0, -np.inf], [-2000, 0], [-2000, 0]], np.eye(2))
    assert near(log_partition, [wanted.log_partition], rtol=1e-14)
    assert near(mean.state[:, 0], wanted.state, atol=1e-12)
    assert near(pair_of(mean, 0), wanted.pair, atol=1e-12)


def test_a_state_that_underflows_by_its_weight_is_not_lost():
    """A state is predicted with exp(−400), weighs exp(−400), and alone leads on at no cost: the sum of both ways by hand.

    Neither number underflows; their product does, and the other way is exp(200) times less probable.
    """
    emission = np.array([[-np.inf, -np.inf, 0], [0, -400, -np.inf], [-np.inf, 0, -np.inf]])
    step = np.array([[0, -600, -600], [-600, 0, -600], [-400.0, -400, 0]])
    local = chain_of(np.array([-600.0, -600, 0]), step, np.zeros(3), emission[:, None], [3])
    assert near(jax.jit(chain.log_partition)(local), [np.logaddexp(-800, -1000)], rtol=1e-12)
    assert near(jax.jit(chain.mean)(jax.random.PRNGKey(0), local).state[1, 0], [0, 1, 0], atol=1e-12)


def test_a_state_that_underflows_counts_neither_forward_nor_backward():
    """Whatever becomes of a state of probability exp(−400) that all later steps need, expected states add up to one."""
    emission = np.zeros((LONGEST, 3))
    emission[:3] = [[-np.inf, -np.inf, 0], [0, -400, -np.inf], [-np.inf, 0, -np.inf]]
    step = np.exp([[0, -600, -600], [-600, 0, -600], [-400, -400, 0]])
    mean = found_on(like_cases([0.0, 0.0, 1.0], step, emission))[0]
    assert near(mean.state.sum(-1), np.arange(LONGEST)[:, None] < LENGTHS, atol=1e-12)


@pytest.mark.slow
def test_large_densities_beyond_the_end_of_a_row():
    """What stands beyond a row's length has no part in a gradient, also where its exponential overflows."""
    local = chain_of(log([0.5, 0.5]), log(np.full((2, 2), 0.5)), np.zeros(2), [[[0, -1]], [[1000, 999]]], [1])
    gradient = jax.grad(lambda e: chain.log_partition(local._replace(emission=e)).sum())(local.emission)
    assert near(gradient[0, 0], np.exp([0, -1]) / np.exp([0, -1]).sum(), atol=1e-14)
    assert not gradient[1].any()


def test_a_start_has_the_states_it_was_given():
    """Of single steps as given; pairs of neighbours add up to the steps taken, whatever share of them stays."""
    rng = np.random.default_rng(0)
    probs = np.where(np.arange(5)[None, :, None] < np.array([5, 1, 3])[:, None, None], rng.dirichlet(np.ones(3), (3, 5)), 0.0)
    z: Path = jax.jit(chain.independent)(jax.random.PRNGKey(0), probs)
    assert near(z.state, np.swapaxes(probs, 0, 1))
    assert near([pair_of(z, n).sum() for n in range(3)], [4, 0, 2], atol=1e-13)
    assert (pair_of(z, 0) >= 0).all()
