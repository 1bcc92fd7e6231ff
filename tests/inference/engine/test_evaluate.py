"""Evaluation and prediction at many draws: the same as one draw at a time."""

from importlib import import_module

import jax
import numpy as np
import pytest
from naive import random_sites
from scipy import sparse
from scipy.special import logsumexp

from inference import METHODS, fit, log_likelihood, predict
from inference.engine.evaluate import DRAWS_AT_ONCE, evaluate, evaluate_in_parts
from inference.fitting.assembly import of_draws
from inference.fitting.prepare import make_task, x64
from inference.identification import symmetry
from inference.results.draws import one_axis
from inference.results.triangles import sites_of
from inference.runtime.progress import Silent
from models import MODELS, load_data
from models.emissions.counts import encode

NUM_ROWS = 2048 // DRAWS_AT_ONCE + 17  # more than one block of the rows that a group of draws is evaluated on


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, DRAWS_AT_ONCE - 1, DRAWS_AT_ONCE, 11, 2 * DRAWS_AT_ONCE])
def test_many_draws_are_evaluated_as_one_by_one(size):
    """Sums and averages over draws differ from those of single evaluations by rounding alone, however draws are grouped."""
    data = load_data("blobs", num_rows=NUM_ROWS, seed=1)
    model = MODELS["gmm"](data, num_components=2, covariance="full")
    draws = [random_sites("full", 2, data.x, seed) for seed in range(size)]
    stacked = {name: np.stack([sites[name] for sites in draws]) for name in draws[0]}
    with jax.enable_x64(True):
        task = make_task(model, data, 0, None, Silent())
        found = evaluate(model, task.hyper, task.prior, task.rows, stacked)
    single = np.stack([log_likelihood(model, sites, data) for sites in draws])
    probs = np.stack([predict(model, sites, data)["probs"].values for sites in draws])
    np.testing.assert_allclose(found.log_likelihood, single, rtol=1e-10)
    np.testing.assert_allclose(found.functionals["log_likelihood"], single.sum(1), rtol=1e-10)
    np.testing.assert_allclose(found.latents, probs.mean(0), atol=2e-6)  # kept in single precision
    tree = fit(model, data, "gibbs", num_warmup=1, num_samples=size, num_chains=1)
    kept = sites_of(tree, "posterior")
    each = [{name: values[0, s] for name, values in kept.items()} for s in range(size)]
    density = np.stack([log_likelihood(model, sites, data) for sites in each])
    joint = density[:, :, None] + np.log(np.stack([predict(model, sites, data)["probs"].values for sites in each]))
    averaged = logsumexp(joint, axis=0) - np.log(size)
    expected = np.exp(averaged - logsumexp(averaged, axis=1, keepdims=True))
    np.testing.assert_allclose(predict(model, tree, data, fitted=False)["probs"], expected, atol=1e-12)
    np.testing.assert_allclose(predict(model, tree, data)["probs"], np.exp(joint - density[:, :, None]).mean(0), atol=1e-12)


@pytest.mark.parametrize("name", ["gibbs", "nuts"])
def test_samplers_know_the_log_joint_of_their_draws(name, monkeypatch):
    """Theirs is that of the program at every draw, the last of a chain of sweeps apart, so that draws are evaluated once."""
    module, data = import_module(METHODS[name]), load_data("blobs", num_rows=12, seed=1)
    model = MODELS["gmm"](data, num_components=2)
    options = module.Options(num_warmup=2, num_samples=3, num_chains=2)
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        draws = module.run(task, options)
        flat = one_axis(draws.sites)
        expected = evaluate(model, task.hyper, task.prior, task.rows, flat).log_joint.reshape(2, 3)
        known = slice(None, -1) if name == "gibbs" else slice(None)
        np.testing.assert_allclose(draws.log_joint[:, known], expected[:, known], rtol=1e-10)
        assert np.isnan(draws.log_joint[:, -1]).all() == (name == "gibbs")
        monkeypatch.setattr(symmetry, "evaluate", None)  # a second evaluation fails
        assert of_draws(task, draws)[0]["sample_stats"]["lp"].shape == (2, 3)


def test_sparse_rows_are_encoded_as_they_are_and_left_alone():
    """Events that are listed twice or with a count of 0, in any order: the rows are the matrix, which stays as it was."""
    values = np.array([1.0, 0.0, 2.0, 3.0, 1.0])
    matrix = sparse.csr_array((values, (np.array([0, 0, 0, 2, 2]), np.array([30, 5, 7, 9, 9]))), shape=(3, 40))
    doubled = sparse.csr_array((values, np.array([30, 5, 7, 9, 9]), np.array([0, 3, 3, 5])), shape=(3, 40))
    before = doubled.data.copy()
    rows = encode(doubled)
    dense = np.zeros((3, 40))
    np.add.at(dense, (np.arange(3)[:, None], rows.index), rows.count)
    np.testing.assert_array_equal(dense, matrix.toarray())
    np.testing.assert_array_equal(doubled.data, before)


def test_rows_in_parts_say_what_rows_at_once_say(monkeypatch):
    """Factor scores, likelihoods and summaries of rows that stay on the host, 16 at a time, the last part sliding back."""
    monkeypatch.setattr("inference.engine.evaluate.PART", 16)
    x = np.random.default_rng(0).normal(size=(41, 4)) @ (np.eye(4) + 0.5)
    data = load_data(x)
    model = MODELS["factor_analysis"](data, num_factors=1)
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        assert not task.resident
        sites = {"loading": np.ones((1, 4, 1)), "mean": np.zeros((1, 4)), "precision": np.ones((1, 4))}
        rows = task.rows._replace(weight=np.linspace(0.0, 2.0, 41))
        arguments = (model, task.hyper, task.prior, rows, sites)
        parts, whole = evaluate_in_parts(*arguments), evaluate(*arguments)
    for mine, theirs in zip(jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True):
        assert np.allclose(mine, theirs, rtol=1e-6 if np.asarray(mine).dtype == np.float32 else 1e-12)
    assert parts.functionals.keys() == whole.functionals.keys()
