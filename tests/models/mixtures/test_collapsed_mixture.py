"""Collapsed sampling of mixtures: its log joint, its split-merge proposal and its draws, by enumeration of all assignments."""

from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near, table
from scipy.special import betaln, gammaln, logsumexp
from two_modes import LOWER_LEFT, LOWER_RIGHT, ROWS, UPPER_LEFT, divisions
from two_stage import assert_standard_normal, of_batch_means, of_means

from inference import fit
from inference.certificates.laws.kernel_law import law_check
from inference.certificates.laws.kernels_on_reals import KERNELS
from inference.certificates.oracles import oracle_of
from models import MODELS, load_data
from models.base import ZooError
from models.mixtures import collapsed
from models.mixtures.collapsed import Chain, Table, allocated

K = 3
BINARY = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]], dtype=float)
CONCENTRATION = 1.5
PRIOR = {"class_probs": {"concentration": CONCENTRATION}}


@cache
def binary():
    """Latent classes of binary columns, whose classes nothing names."""
    data = table(BINARY)
    return MODELS["naive_bayes"](data, num_classes=K, prior=PRIOR), data


@cache
def assignments():
    return np.array(list(product(range(K), repeat=len(BINARY))))


@cache
def log_joints():
    """(243,): log p(x, z) by Beta and Dirichlet integrals; a Bernoulli's prior is Beta(2, 2), Laplace's."""
    found = []
    for z in assignments():
        counts = np.bincount(z, minlength=K)
        total = gammaln(K * CONCENTRATION) - gammaln(K * CONCENTRATION + len(z)) - K * gammaln(CONCENTRATION)
        total += gammaln(CONCENTRATION + counts).sum()
        for k in range(K):
            ones = BINARY[z == k].sum(0)
            total += (betaln(2 + ones, 2 + counts[k] - ones) - betaln(2, 2)).sum()
        found.append(total)
    return np.array(found)


def sampler_of(model, data):
    return model.algebra.structure.collapsed.sampler(dict(model.hyper), model.rows(data))


@pytest.mark.slow
def test_log_joints_are_those_of_all_assignments():
    """Of binary columns, up to the Beta and Dirichlet integrals; of Gaussian ones with the constant of their density."""
    model, data = binary()
    own = sampler_of(model, data)
    begun = own.start(0, 0, None)
    found = [own.log_joint(begun._replace(component=z)) for z in assignments()]
    assert near(found, log_joints(), rtol=1e-12)
    data = table(ROWS)
    own = sampler_of(MODELS["gmm_simple"](data, num_components=2), data)
    begun = own.start(0, 0, None)
    z, wanted = divisions()
    assert near([own.log_joint(begun._replace(component=one)) for one in z[::17]], wanted[::17], rtol=1e-12)


def proposal(order, moving, among, given):
    """(log weight of a proposal, the proposal, log weights of all assignments in its place)."""
    model, data = binary()
    hyper = dict(model.hyper)
    with jax.enable_x64(True):
        shared = jax.tree.map(jnp.asarray, Table(hyper, dict(model.prior), model.rows(data)))
        fixed = [jnp.asarray(value) for value in (order, moving, among)]
        move = jax.jit(lambda key, component, keep: allocated(model.algebra, K, shared, key, *fixed, component, keep))
        drawn = move(jax.random.PRNGKey(1), np.asarray(given), np.asarray(False))
        kept = [move(jax.random.PRNGKey(0), z, np.asarray(True)).log_weight for z in assignments()]
    return drawn, np.array(kept)


@pytest.mark.slow
def test_proposals_have_the_probability_that_is_said():
    """p(x, z) over the weight is the probability of an allocation, up to a constant: they sum to 1 over all allocations.

    A proposal's own weight is that of keeping it, and rows that do not move stay.
    """
    given, among = np.array([0, 2, 0, 1, 2]), np.array([True, False, True])
    moving = among[given]
    drawn, weights = proposal([3, 1, 4, 0, 2], moving, among, given)
    z = assignments()
    possible = (z[:, ~moving] == given[~moving]).all(1) & among[z[:, moving]].all(1)
    log_probs = (log_joints() - weights)[possible]
    all_alone, _ = proposal([3, 1, 4, 0, 2], np.zeros(5, bool), among, given)
    assert float(all_alone.log_weight) == 0.0
    component = np.asarray(drawn.component)
    assert (component[~moving] == given[~moving]).all()
    own = weights[(z == component).all(1)][0]
    assert near(float(drawn.log_weight), own, atol=1e-12)
    rest = logsumexp(_log_joint_of_rest(given, moving))
    assert near(logsumexp(log_probs), rest, atol=1e-10)


def _log_joint_of_rest(given, moving):
    """Log p(x, z) of the rows that stay, alone: what all proposals have in common."""
    model, data = binary()
    own = sampler_of(model, data._replace(x=data.x[~moving]))
    begun = own.start(0, 0, None)
    return [own.log_joint(begun._replace(component=given[~moving]))]


def functions(z):
    """Of assignments (S, N): which pairs of rows are together, and how many components are empty."""
    left, right = np.triu_indices(len(BINARY), 1)
    occupied = sum((z == k).any(1).astype(int) for k in range(K))
    return np.column_stack([z[:, left] == z[:, right], occupied == 1, occupied == K]).astype(float)


def posterior():
    """(243,): the probability of every assignment."""
    return np.exp(log_joints() - logsumexp(log_joints()))


def _visited(seed, times):
    """How far the frequencies in one chain are from their probabilities."""
    own = sampler_of(*binary())
    state, states = own.start(seed, 0, None), []
    for _ in range(800 * times):
        state = own.advance(state, 2)
        states.append(state.component)
    return of_batch_means(functions(np.array(states)), posterior() @ functions(assignments()))


@pytest.mark.slow
def test_all_assignments_are_visited_as_often_as_they_are_probable():
    """Of pairs of rows together, and of occupied components; from 243 assignments."""
    assert_standard_normal(_visited)


def _moved(seed, times):
    """Draws from a posterior with two modes after one split-merge move each: how far they are from it."""
    data = table(ROWS)
    model = MODELS["gmm_simple"](data, num_components=2)
    number, rng = 4_000 * times, np.random.default_rng(seed)
    z, log_joint = divisions()
    probs = np.exp(log_joint - logsumexp(log_joint))
    before = z[rng.choice(len(z), number, p=probs)]
    with jax.enable_x64(True):
        shared = jax.tree.map(jnp.asarray, Table(dict(model.hyper), dict(model.prior), model.rows(data)))
        keys = jax.random.split(jax.random.PRNGKey(seed), number)
        after = jax.jit(jax.vmap(partial(collapsed.reallocated, model.algebra, 2, shared)))(keys, before)
    after = np.asarray(after)
    assert (after != before).any(1).mean() > 0.2  # the move moves
    first = [LOWER_LEFT, LOWER_LEFT]
    neighbours = [UPPER_LEFT, LOWER_RIGHT]
    together = (z[:, first] == z[:, neighbours]).astype(float)
    return of_means((after[:, first] == after[:, neighbours]).astype(float), probs @ together)


@pytest.mark.slow
def test_the_move_alone_leaves_the_posterior_alone():
    assert_standard_normal(_moved)


@pytest.mark.slow
def test_a_move_that_accepts_every_proposal_does_not(monkeypatch):
    """The positive control: without the ratio of weights the law of the proposals comes out."""
    honest = collapsed.allocated

    def forgetful(*arguments):
        found = honest(*arguments)
        return found._replace(log_weight=0 * found.log_weight)

    monkeypatch.setattr(collapsed, "allocated", forgetful)
    assert np.abs(_moved(1, 4)).max() > 6


@pytest.mark.slow
def test_the_kernel_has_the_right_law():
    """Of one cell with few replicates; the command certifies all of them."""
    assert law_check(KERNELS["collapsed_gibbs"], oracle_of("gmm"), 1, 500).passed


@pytest.mark.slow
def test_a_resumed_chain_is_an_unbroken_one():
    model, data = binary()
    own = sampler_of(model, data)
    begun = own.start(3, 1, None)
    assert not np.array_equal(own.start(2**64 - 1, 1, None).key, begun.key)  # of all seeds that a method may give
    whole, parts = own.advance(begun, 7), own.advance(own.advance(begun, 3), 4)
    np.testing.assert_array_equal(whole.component, parts.component)
    assert isinstance(whole, Chain)
    assert not np.array_equal(own.start(3, 2, None).key, begun.key)


def test_only_mixtures_whose_parameters_integrate_out_are_taken():
    x = load_data([[0.0], [1.0], [2.0], [5.0]])
    missing = load_data([[0.0, 1.0], [1.0, np.nan], [2.0, 3.0], [5.0, 4.0]])
    taken = {
        "gmm": MODELS["gmm"](x),
        "tied": MODELS["gmm"](x, covariance="tied"),
        "classes": binary()[0],
        "cells of columns alone": MODELS["gmm"](missing, covariance="diag"),
    }
    refused = {
        "flat": MODELS["gmm"](x, prior="flat"),
        "heavy tails": MODELS["gmm"](x, tails="student_t"),
        "missing cells": MODELS["gmm"](missing),
        "labels": MODELS["naive_bayes"](load_data(BINARY, labels=list("abaab"))),
    }
    assert all(model.algebra.structure.collapsed is not None for model in taken.values())
    assert not any(model.algebra.structure.collapsed is not None for model in refused.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [({"learn": "symmetric"}, "hyperparameters are not learnt"), ({"integrate": "local"}, "no parameters of single rows")],
)
def test_options_of_topics_are_refused(options, said):
    model, data = binary()
    with pytest.raises(ZooError, match=said):
        fit(model, data, "collapsed_gibbs", **options)


@pytest.mark.slow
def test_missing_cells_given_to_a_model_of_complete_rows_are_refused():
    model = MODELS["gmm"](table([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [5.0, 4.0]]))
    with pytest.raises(ZooError, match="without missing cells under this covariance"):
        fit(model, table([[0.0, 1.0], [1.0, np.nan], [2.0, 3.0], [5.0, 4.0]]), "collapsed_gibbs")
