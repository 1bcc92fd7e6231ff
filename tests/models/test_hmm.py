"""The hidden Markov model: program, algebra and the sum over all paths are one density; laws of document 002."""

from functools import cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from chain_cells import cell_of
from identities import agree
from naive import near
from naive_chain import (
    CELLS,
    STARTS,
    all_paths,
    build,
    log_density,
    log_prior,
    random_sites,
    steps,
    summed,
    weights_of,
)
from numpyro.infer.util import compute_log_probs
from scipy.special import logsumexp
from two_stage import assert_standard_normal, of_frequencies

from inference import fit, log_likelihood
from models import MODELS, Data
from models import algebra as models_algebra
from models.chains.distributions import StatePath
from models.data.documents import documents

# Emissions without, and with, all complications; the others are in the slow tier
QUICK = {("categorical", True), ("poisson", True)} | {
    (name, False) for name in ("categorical", "diag", "full", "mixed", "tails")
}
every_cell = pytest.mark.parametrize(
    ("name", "plain"),
    [pytest.param(*cell, marks=[] if cell in QUICK else pytest.mark.slow) for cell in product(CELLS, (True, False))],
)


class Values(NamedTuple):
    log_prior: Any  # of the algebra
    log_partition: Any  # (N,)
    statistics: Any  # of the mean latents
    gradient: Any  # of Σ weight log_partition
    back: Any  # sites -> T -> sites
    prior_sites: Any  # log prior of the program
    marginal: Any  # (N,): log p(x | θ) of the program
    complete: Any  # (P, N): log p(x, z | θ) of the program at every path


@cache
def values_of(name: str, plain: bool, prior: str = "default") -> Values:
    model, data, sites, *_ = cell_of(name, plain, prior)
    algebra = model.algebra

    @jax.jit
    def both(hyper: Any, prior: Any, rows: Any, sites: Any, paths: Any) -> Values:
        weight = np.ones(5) if rows.weight is None else rows.weight

        def total(T: Any) -> Any:
            return (
                weight * algebra.latent.log_partition(algebra.local_natural_parameters(T)(algebra.features(hyper, rows)))
            ).sum()

        def of_program(extra: Any, marginal: bool) -> Any:
            found, _ = compute_log_probs(model.spec, (hyper, rows), {"marginal": marginal}, sites | extra, sum_log_prob=False)
            seen = found.pop("x") + (0.0 if marginal else found.pop("path"))
            return sum(part.sum() for part in found.values()), seen

        T = algebra.natural(hyper, sites)
        with jax.numpy_rank_promotion("raise"):
            features = algebra.features(hyper, rows)
            local = algebra.local_natural_parameters(T)(features)
            statistics = algebra.statistics(weight, algebra.latent.mean(None, local), features)
            gradient = jax.grad(total)(T)
        prior_sites, marginal = of_program({}, True)
        complete = jax.vmap(lambda path: of_program({"path": path}, False)[1])(paths)
        parts = (models_algebra.log_prior(algebra, prior, T), algebra.latent.log_partition(local), statistics, gradient)
        return Values(*parts, algebra.sites(hyper, T), prior_sites, marginal, complete)

    size = len(sites["start_probs"])
    paths = np.stack([np.broadcast_to(path, (5, 4)) for path in all_paths(size, 4)])
    return jax.tree.map(np.asarray, both(dict(model.hyper), dict(model.prior), model.rows(data), sites, paths))


@every_cell
def test_program_and_algebra_are_the_sum_over_all_paths(name, plain):
    """log p(x | θ) of every sequence, and log p(θ), against SciPy's densities and every path; the program scales by weights."""
    found, values = cell_of(name, plain), values_of(name, plain)
    wanted = np.array([row.log_partition for row in found.wanted])
    assert near(values.log_partition, wanted, rtol=1e-11, atol=1e-11)
    assert near(values.marginal, found.weight * wanted, rtol=1e-11, atol=1e-11)
    assert near(values.log_prior, log_prior(name, found.model, found.sites), rtol=1e-10)
    assert near(values.prior_sites, values.log_prior, rtol=1e-10)


@every_cell
def test_program_at_every_path(name, plain):
    """log p(x, z | θ) is the path's weight, −∞ where a state is not allowed; the log-sum over the paths is the marginal."""
    found, values = cell_of(name, plain), values_of(name, plain)
    for n, (row, weight) in enumerate(zip(found.wanted, found.weight, strict=True)):
        apart = len(row.paths[0])
        every = values.complete[:: len(found.sites["start_probs"]) ** (4 - apart), n]  # later states do not count
        if weight > 0:
            assert near(every, weight * row.logs, rtol=1e-10, atol=1e-10)
            assert near(logsumexp(every / weight), values.marginal[n] / weight, rtol=1e-11, atol=1e-11)


@every_cell
def test_statistics_are_the_expected_counts_of_all_paths(name, plain):
    """Starts, transitions and stops; and the gradient of the log-partition with respect to T is all statistics."""
    found, values = cell_of(name, plain), values_of(name, plain)
    first = sum(w * row.state[0] for w, row in zip(found.weight, found.wanted, strict=True))
    last = sum(w * row.state[-1] for w, row in zip(found.weight, found.wanted, strict=True))
    pair = sum(w * row.pair for w, row in zip(found.weight, found.wanted, strict=True))
    assert near(values.statistics["start_probs"], first, atol=1e-12)
    assert near(values.statistics["transition_probs"], pair if plain else np.column_stack([pair, last]), atol=1e-12)
    gradient = jax.tree.map(symmetric, values.gradient, values.statistics)
    assert agree(gradient, values.statistics, 1e-10)


def symmetric(gradient: Any, statistic: Any) -> Any:
    """The gradient with respect to a symmetric matrix sees both halves of it."""
    square = statistic.ndim >= 2 and statistic.shape[-2:] == (2, 2)
    matrices = square and np.allclose(statistic, np.swapaxes(statistic, -1, -2))
    return (gradient + np.swapaxes(gradient, -1, -2)) / 2 if matrices else gradient


@every_cell
def test_sites_survive_the_round_trip(name, plain):
    found, values = cell_of(name, plain), values_of(name, plain)
    assert set(values.back) == set(found.sites)
    assert agree(values.back, found.sites, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["categorical", "diag", "full", "tails", "mixed"])
def test_a_flat_prior_is_the_likelihood(name):
    found, values = cell_of(name, False, "flat"), values_of(name, False, "flat")
    assert values.log_prior == values.prior_sites == 0
    assert near(values.log_partition, [row.log_partition for row in found.wanted], rtol=1e-11, atol=1e-11)
    assert all(not leaf.any() for leaf in jax.tree.leaves(dict(found.model.prior)))


def test_emissions_statistics_are_those_of_expected_states():
    """Of symbols: how often every state is expected to have emitted each, step by step; of steps that were seen only."""
    found, values = cell_of("categorical", False), values_of("categorical", False)
    wanted = np.zeros((3, 3))
    for first, weight, row in zip(STARTS[:-1], found.weight, found.wanted, strict=True):
        for t, state in enumerate(row.state):
            code = found.data.x[first + t, 0]
            if not np.isnan(code):
                wanted[:, int(code)] += weight * state
    assert near(values.statistics["state"], wanted, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Laws


def texts(rows: Any) -> Data:
    return documents([list(row) for row in rows], vocabulary=("a", "b"))


def test_probabilities_of_all_finite_sequences_sum_to_one():
    """Those of at most M steps to 1 − start Aᴹ 1, the probability of having stopped by then, which goes to 1 (document 002)."""
    every = ["".join(row) for length in range(1, 9) for row in product("ab", repeat=length)]
    model = MODELS["hmm"](texts(["ab", "b"]), num_states=3)
    sites = random_sites("categorical", 3) | {"emission_probs": np.random.default_rng(0).dirichlet([1, 1], 3)}
    probs = np.exp(log_likelihood(model, sites, texts(every)))
    for longest in (1, 2, 8):
        total = probs[[len(text) <= longest for text in every]].sum()
        steps = np.linalg.matrix_power(sites["transition_probs"][:, :3], longest)
        assert total == pytest.approx(1 - sites["start_probs"] @ steps @ np.ones(3), rel=1e-12)


def test_probabilities_of_all_sequences_of_a_length_sum_to_one():
    """Where lengths are given."""
    model = MODELS["hmm"](texts(["ab", "b"]), num_states=3, boundary=False)
    sites = random_sites("categorical", 3, False) | {"emission_probs": np.random.default_rng(0).dirichlet([1, 1], 3)}
    every = texts(["".join(row) for row in product("ab", repeat=5)])
    assert np.exp(log_likelihood(model, sites, every)).sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.slow
def test_functionals_are_free_of_labels():
    """Sorted probabilities to stay, the expected length as a sum over lengths, and how two steps go together."""
    data = steps("diag")
    model, sites = build("diag", data, 3), random_sites("diag", 3)
    tree = fit(model, data, "em", start=sites, max_iter=1, tol=0)
    at = {name: np.asarray(value) for name, value in tree["point_estimate"].to_dataset().data_vars.items()}
    step = at["transition_probs"][:, :3]
    lengths = sum(at["start_probs"] @ np.linalg.matrix_power(step, t) @ np.ones(3) for t in range(4000))
    found = tree["functionals"]
    assert near(found["stay_probs"], np.sort(np.diag(step))[::-1], rtol=1e-13)
    assert float(found["expected_length"]) == pytest.approx(lengths, rel=1e-9)
    state = np.concatenate([summed(weights).state for weights in weights_of("diag", at, data)])
    places = [0, 2, 5, 8, 10]  # evenly spread over eleven steps; a half is rounded to the even number
    wanted = [state[one] @ state[other] for one, other in pairwise(places)]
    assert near(found["co_occurrence"], wanted, atol=1e-10)
    assert near(found["log_likelihood"], sum(summed(w).log_partition for w in weights_of("diag", at, data)), rtol=1e-11)


def test_one_state_is_independent_steps():
    """S = 1: the density is that of the steps, and of the geometric length."""
    data = steps("diag")
    sites = random_sites("diag", 1)
    density = log_density("diag", sites, data.x)[:, 0]
    stay, stop = np.log(sites["transition_probs"][0])
    wanted = [density[first:last].sum() + (last - first - 1) * stay + stop for first, last in pairwise(STARTS)]
    model = build("diag", data, 1)
    assert near(log_likelihood(model, sites, data), wanted, rtol=1e-12)
    assert model.symmetry is None


def test_a_table_that_is_one_sequence_and_documents():
    """Without a column of sequences all rows are one; documents are one each; both are the same steps."""
    codes = steps("categorical").x[:4]
    one = Data("one", codes, ("a",), categories=(("a", "b", "c"),), kinds=("category",))
    sites = random_sites("categorical")
    text = documents([["abc"[int(code)] for code in codes[:, 0]]], vocabulary=("a", "b", "c"))
    found = [log_likelihood(build("categorical", data), sites, data) for data in (one, text)]
    assert near(found[0], [summed(weights_of("categorical", sites, one)[0]).log_partition], rtol=1e-12)
    assert near(*found, rtol=1e-14)


@pytest.mark.slow
def test_simulated_sequences_stop_as_the_chain_does():
    """Lengths of sequences, those cut at the longest among them, and last symbols of two: χ²."""
    model, sites = build("categorical", steps("categorical")), random_sites("categorical")
    step, stop = sites["transition_probs"][:, :2], sites["transition_probs"][:, 2]
    at = [sites["start_probs"] @ np.linalg.matrix_power(step, t) for t in range(4)]
    last = (at[1] * stop) @ sites["emission_probs"]

    def deviations(seed, times):
        rows = model.abilities.simulate(jax.random.PRNGKey(seed), dict(model.hyper), sites, 12_000 * times)
        length, x = np.asarray(rows.length), np.asarray(rows.x)
        lengths = of_frequencies(np.bincount(length)[1:], np.array([*(state @ stop for state in at[:3]), at[3].sum()]))
        return [lengths, of_frequencies(np.bincount(x[length == 2, 1], minlength=len(last)), last)]

    assert_standard_normal(deviations)


@pytest.mark.slow
@pytest.mark.parametrize("boundary", [True, False])
def test_paths_drawn_from_the_program(boundary):
    """Given their lengths: in proportion to the density of every path, whose last state has to stop. χ²."""
    sites = random_sites("categorical", 2, boundary)
    sites["transition_probs"][0] = [0.05, 0.05, 0.9] if boundary else [0.3, 0.7]
    path = StatePath(sites["start_probs"], sites["transition_probs"], np.array([3, 1]), 3)
    every = all_paths(2, 3)
    logs = np.array([np.asarray(path.log_prob(np.stack([row, row])))[0] for row in every])

    def deviations(seed, times):
        draws = np.asarray(path.sample(jax.random.PRNGKey(seed), (12_000 * times,)))
        assert draws.shape == (12_000 * times, 2, 3)
        assert not draws[:, 1, 1:].any()
        return of_frequencies(np.bincount(draws[:, 0] @ [4, 2, 1], minlength=8), np.exp(logs - logsumexp(logs)))

    assert_standard_normal(deviations)
