"""Rows in bins: every step has a cell of its own, and a chain is the same wherever its rows lie."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from naive_chain import Weights, log, summed
from scipy import stats
from two_stage import assert_standard_normal, in_blocks, of_frequencies

from models.chains.forward_backward_log import filter_logs, smooth_logs
from models.chains.latent import Chain, _steps, _weights, chain, forward, k_best, sample_states, viterbi
from models.chains.posterior_counts import Path, in_packing, pair_counts
from models.rows.packing import Packing, by_row, firsts, grid, laid_out, lasts, of_row, packed, row_by_row, side_by_side

LENGTHS = np.array([2, 6, 1, 1, 5, 3, 1, 2, 1])
EMISSION = np.array([[-5.7, 32.8], [-44.5, 10.9], [43.2, -24.0], [-15.4, -154.0]])


def packing_of(lengths) -> Packing:
    found = packed(np.asarray(lengths))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_every_step_has_a_cell_of_its_own(seed):
    """And no bin is longer than the steps shared out and one row more (Graham's bound), rounded up."""
    lengths = np.random.default_rng(seed).geometric(0.1, 50)
    packing = packing_of(lengths)
    found = jax.tree.map(np.asarray, jax.jit(grid)(packing))
    pairs = sorted(zip(found.row[found.there], found.time[found.there], strict=True))
    assert pairs == [(row, time) for row, length in enumerate(lengths) for time in range(length)]
    assert (found.first.sum(), (found.there & ~found.continues).sum()) == (len(lengths), len(lengths))
    assert (found.row[~found.there] == len(lengths)).all()
    number, longest = packing.extent.bins, lengths.max()
    assert longest <= packing.extent.steps <= 1.25 * (lengths.sum() / number + longest * (1 - 1 / number))
    assert 0.75 * (number - 1) * longest < lengths.sum() <= number * longest


def test_rows_of_other_lengths_mostly_share_a_compilation():
    """As many rows and the same longest: bins and their steps have one of two neighbouring sizes each, at most."""
    rng = np.random.default_rng(0)
    extents = {packing_of(np.append(500, rng.integers(1, 400, 199))).extent for _ in range(20)}
    assert len(extents) <= 4


@pytest.mark.parametrize("lengths", [[7], [4, 4, 4], [5, 4, 5, 4], [9, 1]])
def test_what_fits_side_by_side_stays_there(lengths):
    """Where little would be left empty, or no bin would be saved."""
    assert packed(np.array(lengths)) is None


@pytest.mark.parametrize("kind", ["packed", "side by side"])
def test_values_go_there_and_back(kind):
    packing = packing_of(LENGTHS) if kind == "packed" else side_by_side(LENGTHS, 6)
    there = np.arange(6)[None, :] < LENGTHS[:, None]
    value = np.random.default_rng(0).normal(size=(len(LENGTHS), 6, 2))

    @jax.jit
    def laid(value):
        steps = laid_out(packing, value)
        number = jnp.broadcast_to(of_row(packing, jnp.arange(len(LENGTHS))), steps.shape[:2])
        sums = by_row(packing, steps[..., 0])
        return row_by_row(packing, steps), sums, firsts(packing, steps), lasts(packing, steps), row_by_row(packing, number)

    back, sums, first, last, number = map(np.asarray, laid(value))
    assert near(back[there], value[there], atol=0)
    assert near(sums, (value[..., 0] * there).sum(1), atol=1e-14)
    assert near(first, value[:, 0], atol=0)
    assert near(last, value[np.arange(len(LENGTHS)), LENGTHS - 1], atol=0)
    assert (number[there] == np.nonzero(there)[0]).all()


# ---------------------------------------------------------------------------------------------------------------------
# A chain in bins


def some_chain(size, zeros, packing):
    rng = np.random.default_rng(size)
    transition = rng.dirichlet(np.ones(size + 1), size)
    if zeros:
        transition[0, 0] = transition[1, 1] = 0.0
    emission = rng.normal(-2, 2, (len(LENGTHS), 6, size))
    emission[3, 0] = -np.inf, *[0.0] * (size - 1)
    parts = [jnp.asarray(part) for part in (log(rng.dirichlet(np.ones(size))), log(transition[:, :size]))]
    return Chain(*parts, jnp.asarray(log(transition[:, size])), laid_out(packing, jnp.asarray(emission)), packing)


@jax.jit
def everything(local: Chain):
    """Of every row, whatever the layout; states beyond its end left out."""
    there = (jnp.arange(6)[None, :] < local.packing.length[:, None])[..., None]
    weight = jnp.arange(1.0, 10.0)

    def of_path(z: Path):
        return chain.reported.part(z) * there, pair_counts(z, weight), chain.energy(z, local)

    known, mean = forward(local), chain.mean(None, local)
    states, worth = viterbi(local)
    paths, worths = k_best(local, 3)
    gradient = jax.grad(lambda local: (weight * chain.log_partition(local)).sum(), allow_int=True)(local)
    return {
        "density": row_by_row(local.packing, known.density) * there[..., 0],
        "log partition": chain.log_partition(known),
        "mean": of_path(mean),
        "mode": of_path(chain.mode(None, local)),
        "entropy": chain.reported.entropy(mean, local),
        "viterbi": (row_by_row(local.packing, states) * there[..., 0], worth),
        "best": (jax.vmap(lambda path: row_by_row(local.packing, path) * there[..., 0])(paths), worths),
        "gradient": (*gradient[:3], row_by_row(local.packing, gradient.emission) * there),
    }


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_a_chain_is_the_same_wherever_its_rows_lie(size, zeros):
    apart = everything(some_chain(size, zeros, side_by_side(jnp.asarray(LENGTHS), 6)))
    together = everything(some_chain(size, zeros, packing_of(LENGTHS)))
    for name, wanted in apart.items():
        for one, other in zip(jax.tree.leaves(together[name]), jax.tree.leaves(wanted), strict=True):
            assert near(one, other, atol=1e-12), name


@pytest.mark.slow
def test_draws_in_lanes_have_the_probabilities_of_their_paths():
    """χ² of the paths of a row at its bin's start, of one that shares its bin and of one that follows others."""
    local = some_chain(2, True, packing_of(LENGTHS))

    @jax.jit
    def drawn(seed):
        keys = jax.random.split(jax.random.PRNGKey(seed), 10_000)
        return jax.vmap(lambda key: row_by_row(local.packing, sample_states(key, local)))(keys)

    def deviations(seed, times):
        draws, found = in_blocks(lambda one: np.asarray(drawn(one)), seed, times), []
        emission = np.asarray(row_by_row(local.packing, local.emission))
        for n in (0, 1, 5):
            wanted = summed(Weights(*(np.asarray(part) for part in local[:3]), emission[n, : LENGTHS[n]]))
            place = draws[:, n, : LENGTHS[n]] @ 2 ** np.arange(LENGTHS[n])[::-1]
            count = np.bincount(place, minlength=len(wanted.paths))
            found.append(of_frequencies(count, np.exp(wanted.logs - wanted.log_partition)))
        return found

    assert_standard_normal(deviations, 3)


def test_a_start_moves_into_lanes():
    """Its states and its pairs, which lie side by side, are counted alike."""
    probs = np.random.default_rng(0).dirichlet(np.ones(3), (len(LENGTHS), 6))
    probs = np.where(np.arange(6)[None, :, None] < LENGTHS[:, None, None], probs, 0.0)

    @jax.jit
    def started(probs, packing):
        z, weight = chain.independent(jax.random.PRNGKey(1), probs), jnp.arange(1.0, 10.0)
        moved = in_packing(z, packing)
        return chain.reported.part(moved), pair_counts(moved, weight), pair_counts(z, weight)

    part, moved, wanted = started(probs, packing_of(LENGTHS))
    assert near(part, probs, atol=0)
    assert near(moved, wanted, atol=1e-13)


# ---------------------------------------------------------------------------------------------------------------------
# Where rescaled probabilities lose what matters


def lost(step, start=(0.5, 0.5), stop=(1.0, 1.0), gap=45.0):
    """Normal emissions with means 0 and ``gap``: three steps near the first, five near the second."""
    x = np.repeat([0.1, gap - 0.2], [3, 5])
    return Weights(np.asarray(log(start)), log(np.asarray(step)), log(stop), stats.norm.logpdf(x[:, None], [0.0, gap]))


LOST = {
    "no way over": lost(np.eye(2)),
    "hardly a way over": lost([[1 - 1e-290, 1e-290], [1e-300, 1 - 1e-300]]),
    "hardly a beginning": lost([[0.5, 0.5], [0.0, 1.0]], start=(1.0, 1e-300)),
    "a beginning that is no number": lost(np.eye(2))._replace(start=np.array([0.0, -900.0])),
    "the only one that stops": lost([[1.0, 0.0], [0.0, 1.0]], stop=(0.0, 1.0), gap=60.0),
}


@cache
def lost_of(name, kind):
    row = LOST[name]
    emission = np.stack([row.emission, row.emission[::-1], row.emission, row.emission, row.emission])
    lengths = jnp.asarray([8, 3, 4, 1, 2])
    packing = side_by_side(lengths, 8) if kind == "side by side" else packing_of(lengths)
    local = Chain(*(jnp.asarray(part) for part in row[:3]), laid_out(packing, jnp.asarray(emission)), packing)
    wanted = [summed(row._replace(emission=emission[n, :length])) for n, length in enumerate(np.asarray(lengths))]
    return local, wanted, jax.tree.map(np.asarray, verbs(local))


@jax.jit
def verbs(local: Chain):
    mean, weight = chain.mean(None, local), jnp.ones(local.packing.extent.rows)
    drawn = jax.vmap(lambda key: row_by_row(local.packing, sample_states(key, local)))(
        jax.random.split(jax.random.PRNGKey(0), 50)
    )
    gradient = jax.grad(lambda local: chain.log_partition(local).sum(), allow_int=True)(local)
    counts, entropy = pair_counts(mean, weight), chain.reported.entropy(mean, local)
    return chain.log_partition(local), chain.reported.part(mean), counts, entropy, drawn, gradient.step


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["side by side", "packed"])
@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_beside_a_likelier_state_is_found_again(name, kind):
    """Less likely by a factor of 1e308, a state explains what follows: as the sum over all paths, in every verb."""
    _, wanted, (log_partition, state, pair, entropy, drawn, gradient) = lost_of(name, kind)
    for n, row in enumerate(wanted):
        assert near(log_partition[n], row.log_partition, rtol=1e-13)
        assert near(state[n, : len(row.state)], row.state, atol=1e-10)
        probs = np.exp(row.logs - row.log_partition)
        assert near(entropy[n], stats.entropy(probs), atol=1e-6)  # probabilities are right to 1e-11, energies are of size 1e4
        place = drawn[:, n, : len(row.state)] @ 2 ** np.arange(len(row.state))[::-1]
        assert (probs[place] > 1e-12).all()
    assert near(pair, sum(row.pair for row in wanted), atol=1e-10)
    assert near(gradient, pair, atol=1e-12)


@jax.jit
def filtered_and_smoothed(local: Chain):
    found, logs, mean = forward(local), filter_logs(_weights(local), _steps(local)), chain.mean(None, local)
    _, ways = smooth_logs(_weights(local), _steps(local), jnp.broadcast_to(found.end[None], found.density.shape))
    return found.states.lost, found.density, logs.scale, mean.state, ways.both


@pytest.mark.parametrize(
    ("name", "step", "outlier", "is_lost"),
    [
        ("from left to right", [[0.95, 0.05], [0.0, 1.0]], 0.0, False),
        ("one step like those before", [[0.95, 0.05], [0.0, 1.0]], 40.0, True),
        ("never over", np.eye(2), 0.0, False),
    ],
)
def test_a_state_that_was_left_for_good_is_not_lost(name, step, outlier, is_lost):
    """It is next to nothing, and nothing later is like it. If a step is, the densities up to there have it; all are as in
    logarithms: 300 steps of numbers of size 1000, 1e-11.
    """
    x = np.where(np.arange(300) < 100, 0.0, 40.0) if name != "never over" else np.full(300, 40.0)
    x[250] -= outlier
    emission = -0.5 * (x[:, None, None] - np.array([0.0, 40.0])) ** 2
    parts = (log(part) for part in ([0.5, 0.5], step, [1.0, 1.0]))
    lost, density, density_in_logs, state, state_in_logs = filtered_and_smoothed(
        Chain(*parts, emission, side_by_side(np.array([300]), 300))
    )
    assert bool(lost) is is_lost
    assert near(density, density_in_logs, rtol=1e-11, atol=1e-11)
    assert near(state, state_in_logs, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["side by side", "packed"])
@pytest.mark.parametrize("name", ["no way over", "the only one that stops"])
def test_single_precision_loses_nothing_either(name, kind):
    """Its smallest number is 1e-38. Sums of numbers of size 1000, rounded at 6e-8 each: 1e-5, and 1e-2 of probabilities."""
    local, wanted, _ = lost_of(name, kind)
    with jax.enable_x64(False):
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32 if leaf.dtype == jnp.float64 else jnp.int32), local)
        log_partition, state, pair, *_ = jax.tree.map(np.asarray, verbs(single))
    assert log_partition.dtype == np.float32
    assert near(log_partition, [row.log_partition for row in wanted], rtol=1e-5)
    assert near(pair, sum(row.pair for row in wanted), atol=1e-2)
    for n, row in enumerate(wanted):
        assert near(state[n, : len(row.state)], row.state, atol=1e-2)


def test_numbers_that_are_small_together():
    """Next to nothing are the weight of a step, the way to it, and the stop: their product is no number, their ratio is."""
    row = Weights(np.array([-300.0, 0]), np.array([[-280.0, 0], [-np.inf, -630]]), np.array([-np.inf, -630.0]), EMISSION)
    wanted, packing = summed(row), side_by_side(np.array([4]), 4)
    local = Chain(*row[:3], row.emission[:, None], packing)
    lost, state = jax.jit(lambda local: (forward(local).states.lost, chain.reported.part(chain.mean(None, local))))(local)
    assert not lost
    assert near(state[0], wanted.state, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no way over", "the only one that stops"])
def test_second_derivatives_in_logarithms(name):
    """By the change of where the second state's emissions stand: the variance of how often it is visited."""
    local, wanted, _ = lost_of(name, "side by side")
    towards = jnp.array([0.0, 1.0])

    def total(shift):
        return chain.log_partition(local._replace(emission=local.emission + shift * towards)).sum()

    variance = 0.0
    for row in wanted:
        probs, visits = np.exp(row.logs - row.log_partition), row.paths.sum(1)
        variance += probs @ visits**2 - (probs @ visits) ** 2
    assert near(jax.jit(jax.hessian(total))(0.0), variance, atol=1e-9)


@pytest.mark.slow
def test_many_chains_at_once_lose_nothing():
    """One that needs logarithms beside one that does not."""
    local, wanted, _ = lost_of("no way over", "side by side")
    steps = jnp.stack([local.step, jnp.log(jnp.full((2, 2), 0.5))])
    found = jax.jit(jax.vmap(lambda step: chain.log_partition(local._replace(step=step))))(steps)
    assert near(found[0], [row.log_partition for row in wanted], rtol=1e-13)
    assert near(found[1], chain.log_partition(local._replace(step=steps[1])), rtol=1e-14)


def test_the_entropy_of_a_path_that_is_known_is_zero():
    """Exactly: the sums that are subtracted are rounded, and noise would get an effective size of its own."""
    rng = np.random.default_rng(0)
    emission = np.where(np.eye(2, dtype=bool)[rng.integers(2, size=(200, 3))], rng.normal(-50, 9, (200, 3, 2)), -np.inf)
    weights = (log(part) for part in ([0.3, 0.7], [[0.6, 0.4], [0.2, 0.8]], [1.0, 1.0]))
    local = Chain(*weights, emission, side_by_side(np.array([200, 3, 77]), 200))
    assert (np.asarray(jax.jit(lambda local: chain.reported.entropy(chain.mean(None, local), local))(local)) == 0).all()
