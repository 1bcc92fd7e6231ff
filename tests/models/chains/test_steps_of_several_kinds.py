"""Hidden Markov models of numbers, categories and counts side by side: how steps are read, and what follows from them."""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from chain_cells import cell_of
from identities import climbed
from naive import near, neighbours_increase
from naive_chain import Weights, log, summed
from naive_mixed import COLUMNS, KINDS, LEVELS, X, log_local, m_step, random_sites, survey

from inference import log_likelihood, plot_emissions, predict
from inference.estimators.sequences import HiddenMarkov
from models import MODELS, Data, ZooError, load_data
from models.base import Model

STARTS = np.array([0, 4, 5, 9, 12])
CHAIN = {"start_probs": np.array([0.3, 0.7]), "transition_probs": np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])}


def diary(x: np.ndarray = X) -> Data:
    """Four sequences of the answers of `naive_mixed`, some cells of which are missing."""
    return survey(x)._replace(starts=STARTS)


class Summed(NamedTuple):
    """The diary under a model, by a sum over all paths."""

    model: Model
    sites: dict[str, Any]
    log_density: np.ndarray  # (N,)
    state: np.ndarray  # (T, S): expected


@cache
def by_enumeration() -> Summed:
    emission = {name: value for name, value in random_sites().items() if name != "mixture_probs"}
    density = log_local(emission | {"mixture_probs": np.ones(2)}, X)
    step = log(CHAIN["transition_probs"])
    rows = [
        summed(Weights(log(CHAIN["start_probs"]), step[:, :2], step[:, 2], density[first:last]))
        for first, last in pairwise(STARTS)
    ]
    state = np.concatenate([row.state for row in rows])
    model = MODELS["hmm"](diary(), emission="mixed")
    return Summed(model, CHAIN | emission, np.array([row.log_partition for row in rows]), state)


def test_columns_have_the_kinds_and_levels_of_a_mixed_mixture():
    model = by_enumeration().model
    like = model.reading.layout
    assert like is not None
    assert like[:3] == MODELS["mixed_mixture"](survey()).reading.layout[:3] == (COLUMNS, KINDS, LEVELS)
    assert dict(model.naming.levels) == {"planet": LEVELS[1], "armed": LEVELS[4]}


def test_new_steps_are_matched_by_the_names_of_columns_and_levels():
    """Columns in another order beside others, levels in another order: the same density, that of all paths."""
    found, order = by_enumeration(), [4, 0, 3, 1, 2]
    x = X[:, order].copy()
    x[:, 0], x[:, 3] = 1 - x[:, 0], 2 - x[:, 3]
    levels = (LEVELS[4][::-1], (), (), LEVELS[1][::-1], ())
    kinds = tuple(KINDS[d] for d in order)
    other = Data(
        "new",
        np.column_stack([x, np.arange(12.0)]),
        (*(COLUMNS[d] for d in order), "more"),
        categories=(*levels, ()),
        kinds=(*kinds, "number"),
        starts=STARTS,
    )
    assert near(log_likelihood(found.model, found.sites, other), found.log_density, rtol=1e-12)


def test_a_level_that_the_model_lacks():
    """It is refused by its name, or read as a missing cell, whose factor is 1."""
    found = by_enumeration()
    place = int(np.flatnonzero(~np.isnan(X[:, 1]))[0])
    x, levels = X.copy(), ((), (*LEVELS[1], "moon"), (), (), LEVELS[4])
    x[place, 1] = 3
    new = diary(x)._replace(categories=levels)
    with pytest.raises(ZooError, match="'moon' is a level unknown to the model"):
        found.model.rows(new)
    lenient = MODELS["hmm"](diary(), emission="mixed", unseen="missing")
    without = np.where((np.arange(12) == place)[:, None] & (np.arange(5) == 1), np.nan, X)
    wanted = log_likelihood(found.model, found.sites, diary(without))
    assert near(log_likelihood(lenient, found.sites, new), wanted, rtol=1e-13)


def test_steps_that_forget_the_one_before_are_rows_of_a_mixture():
    """Where all transitions are the start probabilities, a sequence is as probable as its rows under `mixed_mixture`."""
    sites = random_sites()
    probs = sites.pop("mixture_probs")
    model = MODELS["hmm"](diary(), emission="mixed", boundary=False)
    found = log_likelihood(model, sites | {"start_probs": probs, "transition_probs": np.tile(probs, (2, 1))}, diary())
    rows = log_likelihood(MODELS["mixed_mixture"](survey()), sites | {"mixture_probs": probs}, survey())
    assert near(found, np.add.reduceat(np.asarray(rows), STARTS[:-1]), rtol=1e-12)


def test_a_step_of_em_counts_the_expected_states():
    """The M-step of every column is that of the mixture, with the expected states of all paths as memberships (errata E19)."""
    found = by_enumeration()
    points = climbed(found.model, diary(), found.sites, max_iter=1, tol=0)
    wanted = m_step({**found.model.hyper, "concentration": np.full(2, 2.0)}, found.state, X)
    assert all(near(points.sites[site][0], value, rtol=1e-10) for site, value in wanted.items() if site != "mixture_probs")


@pytest.mark.slow
def test_em_climbs():
    found = cell_of("mixed", False)
    assert neighbours_increase(climbed(found.model, found.data, found.sites).objective[0], 1e-11)


@pytest.mark.slow
def test_predictions_are_sums_over_all_paths():
    found = cell_of("mixed", True)
    said = predict(found.model, found.sites, found.data)
    there = said["assignment"].values >= 0
    assert near(said["probs"].values[there], np.concatenate([row.state for row in found.wanted]), atol=1e-11)
    assert near(said["log_density"], [row.log_partition for row in found.wanted], rtol=1e-11)
    assert (said["viterbi"].values[there] == np.concatenate([row.best for row in found.wanted])).all()


def test_the_picture_has_a_panel_for_every_column():
    found = by_enumeration()
    figure = plot_emissions(found.model, found.sites)
    assert {axis.get_title() for axis in figure.axes} >= set(COLUMNS)


@pytest.mark.slow
def test_the_estimator_reads_frames_and_draws_steps_like_them():
    frame = pd.DataFrame({"size": X[:, 0], "planet": [None if np.isnan(v) else LEVELS[1][int(v)] for v in X[:, 1]]})
    fitted = HiddenMarkov(emission="mixed", unseen="missing", random_state=0).fit(frame, lengths=np.diff(STARTS))
    steps, states = fitted.sample(5)
    assert steps.columns.tolist() == ["size", "planet"]
    assert set(steps["planet"]) <= set(LEVELS[1])
    assert len(states) == 5
    new = pd.DataFrame({"planet": ["moon", "mars"], "size": [0.5, 1.5]})[["size", "planet"]]
    assert np.isfinite(fitted.score_samples(new)).all()


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (diary(), {"emission": "mixed", "unseen": "guess"}, "unseen='guess' is not one of error, missing"),
        (diary(), {"emission": "gaussian", "unseen": "missing"}, "unseen=missing is an option of emission=mixed"),
        (diary(), {"emission": "gaussian"}, "emission=mixed columns of all kinds"),
        (["a b", "b"], {"emission": "mixed"}, "has no columns of several kinds; emission=mixed reads a table"),
        (
            diary(),
            {"emission": "mix"},
            "emission='mix' is not one of categorical, multinomial, gaussian, poisson, negative_binomial, "
            "zero_inflated_poisson, zero_inflated_negative_binomial, bernoulli, student_t, mixed",
        ),
    ],
)
def test_wrong_words(source, options, message):
    data = source if isinstance(source, Data) else load_data(source)
    with pytest.raises(ZooError, match=message):
        MODELS["hmm"](data, **options)
