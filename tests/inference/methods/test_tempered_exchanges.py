"""Parallel tempering: exchanges, temperatures and what is said of them, by hand."""

from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_summaries import informative
from naive import build, equal, near, two_groups
from wrong_exchanges import always, backwards, of_the_colder

from inference.methods import tempered_gibbs
from inference.methods.method import checked_options
from inference.methods.tempered_gibbs import (
    Replicas,
    acceptance,
    exchange_rates,
    exchange_warnings,
    order_after,
    proposals,
    tuned,
)
from models import MODELS, ZooError, load_data
from models.data.documents import documents

# ---------------------------------------------------------------------------------------------------------------------
# Exchanges by hand

ENERGY = np.array([-1.0, 0.5, 2.0])  # U of the three states that there are
PRIOR = np.array([0.5, 0.3, 0.2])
LADDER = np.array([1.0, 0.6, 0.25, 0.1])


def kernel(accept: Any, sweeps: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of moves of one sweep's exchanges among the 3⁴ joint states, and those of the joint density."""
    states = list(product(range(3), repeat=len(LADDER)))
    places = np.array(states)
    joint = (PRIOR[places] * np.exp(LADDER * ENERGY[places])).prod(1)
    moves = np.zeros((len(states), len(states)))
    pairs = [pair for pair in range(len(LADDER) - 1) if pair % 2 == sweeps % 2]
    probabilities = np.asarray(jax.jit(jax.vmap(partial(accept, LADDER)))(ENERGY[places]))
    for place, state in enumerate(states):
        for chosen in product([False, True], repeat=len(pairs)):
            after, probability = list(state), 1.0
            for pair, accepted in zip(pairs, chosen, strict=True):
                probability *= probabilities[place, pair] if accepted else 1 - probabilities[place, pair]
                if accepted:
                    after[pair], after[pair + 1] = after[pair + 1], after[pair]
            moves[place, states.index(tuple(after))] += probability
    return moves, joint / joint.sum()


@pytest.mark.parametrize("sweeps", [0, 1])
def test_exchanges_are_reversible(sweeps):
    """π_s P(s → t) = π_t P(t → s) among all joint states of four replicas; not so by any of the wrong formulas."""
    moves, joint = kernel(acceptance, sweeps)
    flow = joint[:, None] * moves
    assert near(flow, flow.T, atol=1e-15)
    assert near(moves.sum(1), 1, rtol=1e-12)
    for wrong in (backwards, of_the_colder, always):
        moves, joint = kernel(wrong, sweeps)
        assert np.abs(joint @ moves - joint).max() > 1e-3


def test_what_has_no_density_is_exchanged_for_what_has():
    """U = −∞ or no number: 1 where the colder gains a density, 0 where it loses it, and where there is none at either."""
    energies = np.array([(-np.inf, 1.0), (1.0, -np.inf), (-np.inf, -np.inf), (1.0, np.nan)])
    accepted = jax.jit(partial(acceptance, np.array([1.0, 0.5])))
    found = [float(np.asarray(accepted(energy))[0]) for energy in energies]
    assert found == [1.0, 0.0, 0.0, 0.0]


def test_pairs_take_turns_and_states_change_places():
    turns, order = jax.jit(partial(proposals, 5)), jax.jit(order_after)
    assert equal(turns(4), [True, False, True, False])
    assert equal(turns(7), [False, True, False, True])
    assert equal(order(np.array([True, False, True, False])), [1, 0, 3, 2, 4])
    assert equal(order(np.array([False, True, False, False])), [0, 2, 1, 3, 4])
    assert equal(order(np.zeros(0, bool)), [0])


def test_walkers_and_round_trips():
    """Against lists of names that change places: trips from the coldest to the hottest and back, counted at their end."""
    rng, size = np.random.default_rng(0), 4
    nothing = jnp.zeros(())
    state = Replicas(nothing, nothing, nothing, nothing, nothing, jnp.arange(size), jnp.zeros(size, bool), jnp.asarray(0))
    wandered = jax.jit(lambda state, accepted: tempered_gibbs._wandered(state, order_after(accepted)))
    names, been, trips = list("abcd"), set[str](), 0
    for sweep in range(200):
        accepted = (np.arange(size - 1) % 2 == sweep % 2) & (rng.random(size - 1) < 0.7)
        for pair in np.flatnonzero(accepted):
            names[pair], names[pair + 1] = names[pair + 1], names[pair]
        trips += names[0] in been
        been = (been - {names[0]}) | {names[-1]}
        state = wandered(state, accepted)
        assert ["abcd"[walker] for walker in np.asarray(state.walker)] == names
    assert int(state.round_trips) == trips
    assert trips > 10


def test_temperatures_are_tuned_to_equal_rejections():
    """Rejection rates that grow with a function of log β, linear between the temperatures, are equal after one round.

    Ends stay where they are, equal rates change nothing, and a pair that is never rejected stays apart.
    """
    ladder = np.linspace(0, np.log(0.05), 6)
    rejection = np.array([0.1, 0.3, 0.2, 0.6, 0.05])
    after_a_round = jax.jit(tuned)
    found = np.asarray(after_a_round(ladder, rejection))
    barrier = np.append(0, np.cumsum(rejection))
    after = np.diff(np.interp(-found, -ladder, barrier))
    assert near(after, rejection.mean(), rtol=1e-12)
    assert found[0] == 0
    assert near(found[-1], ladder[-1], rtol=1e-12)
    assert near(after_a_round(found, np.full(5, 0.3)), found, rtol=1e-12, atol=1e-15)
    assert (np.diff(after_a_round(ladder, np.array([0.0, 1.0, 0.0, 0.0, 0.0]))) < 0).all()


def test_rates_and_doubts():
    probability = np.array([[[0.5, np.nan], [np.nan, 0.02]], [[0.7, np.nan], [np.nan, 0.04]]])
    assert near(exchange_rates(probability), [0.6, 0.03], rtol=1e-12)
    assert np.isnan(exchange_rates(probability[:, :1])).tolist() == [False, True]
    (line,) = exchange_warnings(np.array([0.6, 0.03]), 0)
    assert "2 and 3 (3.0%)" in line
    assert "num_temperatures" in line
    assert "num_samples" in exchange_warnings(np.array([0.6, 0.5]), 0)[0]
    assert exchange_warnings(np.array([0.6, 0.5]), 1) == exchange_warnings(np.array([]), 0) == []


def refused() -> dict[str, Any]:
    """Models of every structure that has no temperatures."""
    texts = load_data(documents([list("abca"), list("bb")] * 3))
    numbers, holes = np.random.default_rng(0).normal(size=(12, 4)), two_groups(12)
    holes[0, 0] = np.nan
    return {
        "hmm": MODELS["hmm"](texts),
        "topics": MODELS["latent_dirichlet"](texts, num_topics=2),
        "factors": MODELS["factor_analysis"](load_data(numbers), num_factors=1),
        "regression": MODELS["logistic_regression"](load_data(numbers, labels=list("ab" * 6))),
        "missing cells": build(holes, "full"),
    }


def test_models_without_temperatures_are_refused():
    for name, model in refused().items():
        assert "discrete and independent latents" in (tempered_gibbs.METHOD.support.why_not(model.algebra) or ""), name
    assert tempered_gibbs.METHOD.support.why_not(informative("full").algebra) is None


def test_hottest_has_a_range():
    for value in (0.0, 1.5):
        with pytest.raises(ZooError, match="hottest must be at least 1e-06 and at most 1"):
            checked_options(tempered_gibbs.METHOD, {"hottest": value})
