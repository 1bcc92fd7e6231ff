"""The hidden Markov model: program, algebra and the sum over all paths are one density; laws of document 002; hostile data."""

from functools import cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from identities import agree
from naive import near
from naive_chain import (
    CELLS,
    KNOWN,
    LENGTHS,
    STARTS,
    WEIGHT,
    Summed,
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
from scipy import sparse
from scipy.special import logsumexp

from inference import fit, log_likelihood
from models import MODELS, Data, Model, ZooError, load_data
from models import base as models_base
from models.documents import documents

HOLED = ("categories", "poisson", "diag", "spherical")  # whose single cells may be missing
STATES = ("cold", "hot", "2")  # of the labelled cells: two of the labels, and one more


class Cell(NamedTuple):
    """A model with all complications, or with none, at some θ."""

    model: Model
    data: Data
    sites: dict[str, np.ndarray]
    allowed: np.ndarray | None
    weight: np.ndarray
    wanted: list[Summed]  # of every sequence


@cache
def cell_of(name: str, plain: bool, prior: str = "default") -> Cell:
    """Plain: two states, lengths given. Else the boundary, three states, labels, weights, and steps and cells not observed."""
    data = steps(name) if plain else steps(name, unseen=True, partly=name in HOLED)
    allowed = None
    if not plain:
        data = load_data(data, labels=KNOWN, weight=np.repeat(WEIGHT, LENGTHS))
        allowed = np.array([[known is None or state in known.split("|") for state in STATES] for known in KNOWN])
    size = 2 if plain else 3
    model = build(name, data, size, boundary=not plain, labelled=not plain, prior=prior)
    sites = random_sites(name, size, not plain)
    wanted = [summed(weights) for weights in weights_of(name, sites, data, allowed)]
    return Cell(model, data, sites, allowed, np.ones(5) if plain else WEIGHT, wanted)


every_cell = pytest.mark.parametrize(("name", "plain"), list(product(CELLS, (True, False))))


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
            return (weight * algebra.latent.log_partition(algebra.local(T)(algebra.features(hyper, rows)))).sum()

        def of_program(extra: Any, marginal: bool) -> Any:
            found, _ = compute_log_probs(model.spec, (hyper, rows), {"marginal": marginal}, sites | extra, sum_log_prob=False)
            seen = found.pop("x") + (0.0 if marginal else found.pop("path"))
            return sum(part.sum() for part in found.values()), seen

        T = algebra.natural(hyper, sites)
        with jax.numpy_rank_promotion("raise"):
            features = algebra.features(hyper, rows)
            local = algebra.local(T)(features)
            statistics = algebra.statistics(weight, algebra.latent.mean(None, local), features)
            gradient = jax.grad(total)(T)
        prior_sites, marginal = of_program({}, True)
        complete = jax.vmap(lambda path: of_program({"path": path}, False)[1])(paths)
        parts = (models_base.log_prior(algebra, prior, T), algebra.latent.log_partition(local), statistics, gradient)
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


@pytest.mark.parametrize("name", ["categorical", "diag", "full"])
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


@pytest.mark.parametrize("longest", [1, 2, 8])
def test_probabilities_of_all_finite_sequences_sum_to_one(longest):
    """Those of at most M steps to 1 − start Aᴹ 1, the probability of having stopped by then, which goes to 1 (document 002)."""
    every = ["".join(row) for length in range(1, longest + 1) for row in product("ab", repeat=length)]
    model = MODELS["hmm"](texts(["ab", "b"]), num_states=3)
    sites = random_sites("categorical", 3) | {"emission_probs": np.random.default_rng(0).dirichlet([1, 1], 3)}
    total = np.exp(log_likelihood(model, sites, texts(every))).sum()
    steps = np.linalg.matrix_power(sites["transition_probs"][:, :3], longest)
    assert total == pytest.approx(1 - sites["start_probs"] @ steps @ np.ones(3), rel=1e-12)


def test_probabilities_of_all_sequences_of_a_length_sum_to_one():
    """Where lengths are given."""
    model = MODELS["hmm"](texts(["ab", "b"]), num_states=3, boundary=False)
    sites = random_sites("categorical", 3, False) | {"emission_probs": np.random.default_rng(0).dirichlet([1, 1], 3)}
    every = texts(["".join(row) for row in product("ab", repeat=5)])
    assert np.exp(log_likelihood(model, sites, every)).sum() == pytest.approx(1, rel=1e-12)


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


# ---------------------------------------------------------------------------------------------------------------------
# Hostile data and questions


def test_impossible_sequences():
    """Sequences with a symbol that no state emits have density 0, the other its own."""
    data = steps("categorical")
    model = build("categorical", data)
    sites = random_sites("categorical") | {"emission_probs": np.array([[0, 0.5, 0.5], [0, 0.4, 0.6]])}
    found = log_likelihood(model, sites, data)
    wanted = [summed(weights).log_partition for weights in weights_of("categorical", sites, data)]
    assert near(found, wanted, rtol=1e-12)
    assert np.isneginf(found).tolist() == [True, True, True, True, False]


def test_unseen_symbols():
    """A level that the model lacks is refused by name in a table; a token that it lacks is a step of which nothing is known."""
    model, sites = build("categorical", steps("categorical")), random_sites("categorical")
    other = steps("categorical")._replace(categories=(("a", "z", "c"),))
    with pytest.raises(ZooError, match="'z'"):
        log_likelihood(model, sites, other)
    text = MODELS["hmm"](documents([["a", "b", "c"], ["c"]]))
    hidden = np.array([[0], [np.nan], [2]])
    one = Data("one", hidden, ("a",), categories=(("a", "b", "c"),), kinds=("category",))
    wanted = summed(weights_of("categorical", sites, one)[0]).log_partition
    assert near(log_likelihood(text, sites, documents([["a", "z", "c"]])), [wanted], rtol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "full", "tied"])
def test_single_cells_that_these_emissions_need(name):
    """Whole steps may be missing in any, single cells not where a covariance couples them, nor of zeros and ones."""
    data = steps(name, unseen=True, partly=True)
    with pytest.raises(ZooError, match="missing"):
        build(name, data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_states": 0}, "num_states must be a whole number above 0"),
        ({"num_states": True}, "num_states must be a whole number above 0"),
        ({"emission": "multinomial"}, "is not one of categorical, gaussian, poisson, bernoulli"),
        ({"emission": "gaussian", "covariance": "unit"}, "is not one of full, tied, diag, spherical"),
        ({"boundary": 1}, "boundary must be true or false"),
        ({"labelled": True}, "has no labels"),
        ({"prior": "weak"}, "expected default, flat"),
        ({"prior": {"transition_probs": {"concentration": [1.0, 2.0]}}}, "expected numbers of shape"),
        ({"prior": {"transition_probs": {"concentration": 0.0}}}, "must be finite and above 0"),
        ({"prior": {"start_probs": {"concentration": -1.0}}}, "must be above 0"),
        ({"prior": {"start": {"concentration": 1.0}}}, "the blocks are start_probs, transition_probs, state"),
    ],
)
def test_what_cannot_be_built(options, message):
    with pytest.raises(ZooError, match=message):
        MODELS["hmm"](steps("categorical"), **options)


def test_data_without_steps_in_order():
    with pytest.raises(ZooError, match="sequence 2 has no step"):
        MODELS["hmm"](documents([["a"], []]))
    with pytest.raises(ZooError, match="no order in time"):
        MODELS["hmm"](load_data(sparse.csr_array(np.eye(3))), emission="poisson")
    heavier = load_data(steps("diag"), weight=np.arange(11) + 1.0)
    with pytest.raises(ZooError, match="weighs other than the first"):
        build("diag", heavier).rows(heavier)


def test_labels_are_states_by_name():
    """Whatever levels another table has, and in which order; a missing label may be any state, a candidate set not."""
    data = load_data(steps("categorical"), labels=KNOWN)
    model = build("categorical", data, 3, labelled=True)
    assert list(model.coords["state"]) == list(STATES)
    assert model.symmetry is None
    some = load_data(steps("categorical"), labels=["hot", "2", "hot|2", *[None] * 8])
    allowed = np.asarray(model.rows(some).allowed)[0]
    assert allowed.tolist() == [[False, True, False], [False, False, True], [False, True, True], [True, True, True]]
    with pytest.raises(ZooError, match="'warm'"):
        model.rows(load_data(steps("categorical"), labels=["warm", *["hot"] * 10]))
    with pytest.raises(ZooError, match="has no labels"):
        build("categorical", load_data(steps("categorical"), labels=[None] * 11), labelled=True)
    with pytest.raises(ZooError, match="has 2 labels"):
        build("categorical", data, 1, labelled=True)


@pytest.mark.parametrize(
    ("prior", "exchangeable"),
    [
        ({"transition_probs": {"concentration": [[5.0, 1.0, 2.0], [1.0, 5.0, 2.0]]}}, True),
        ({"transition_probs": {"concentration": [1.0, 1.0, 9.0]}}, True),
        ({"transition_probs": {"concentration": [[5.0, 1.0, 2.0], [0.1, 5.0, 2.0]]}}, False),
        ({"transition_probs": {"concentration": [1.0, 1.0, 2.0]}, "start_probs": {"concentration": [3.0, 1.0]}}, False),
    ],
)
def test_a_prior_that_tells_states_apart(prior, exchangeable):
    """Sticky states are exchangeable, those of a prior from left to right are not, and their labels stay as they are."""
    assert (build("categorical", steps("categorical"), prior=prior).symmetry is not None) is exchangeable


def test_other_data_may_be_shorter():
    """Fewer and shorter sequences than the model was built on, also one of a single step, are read by a fitted model."""
    model, sites = build("diag", steps("diag")), random_sites("diag")
    short = Data("short", steps("diag").x[:1], ("a", "b"))
    wanted = summed(weights_of("diag", sites, short)[0]).log_partition
    assert near(log_likelihood(model, sites, short), [wanted], rtol=1e-12)
