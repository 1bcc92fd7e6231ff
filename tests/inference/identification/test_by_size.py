"""Exchangeable components are numbered by their sizes; nothing but the numbers changes."""

import numpy as np
import pytest

from inference import fit, log_likelihood, predict
from inference.report.traits import described
from models import MODELS, load_data
from models.data.documents import documents

RNG = np.random.default_rng(2)
SMALL, LARGE = 8, 24
X = np.concatenate([RNG.normal(-5, 1, SMALL), RNG.normal(5, 1, LARGE)])[:, None]
WEIGHT = np.concatenate([np.full(SMALL, 9.0), np.ones(LARGE)])


@pytest.fixture(scope="module", params=["em", *(pytest.param(method, marks=pytest.mark.slow) for method in ("gibbs", "cavi"))])
def fitted(request):
    data = load_data(X)
    model = MODELS["gmm"](data, num_components=2)
    few = {"em": {"num_starts": 2}, "gibbs": {"num_warmup": 20, "num_samples": 40}, "cavi": {"num_starts": 2}}
    return model, data, fit(model, data, request.param, progress=False, **few[request.param])


def test_the_first_component_is_the_largest(fitted):
    _, _, tree = fitted
    assert (tree["latent"]["decode"].values == (X[:, 0] < 0)).all()
    np.testing.assert_allclose(tree["latent"]["responsibilities"].values.mean(0), [LARGE / 32, SMALL / 32], atol=1e-3)


def test_sites_and_latents_have_the_same_order(fitted):
    model, data, tree = fitted
    again = predict(model, tree, data)["probs"].values
    np.testing.assert_allclose(again, tree["latent"]["responsibilities"].values, atol=1e-5)
    if "posterior" in tree:
        assert (tree["posterior"]["mean"].values[..., 0, 0] > tree["posterior"]["mean"].values[..., 1, 0]).all()


def test_shares_by_draw_average_to_the_responsibilities(fitted):
    _, _, tree = fitted
    share = tree["latent"]["share"].values if "share" in tree["latent"] else None
    if "posterior" in tree:
        assert share.shape[:2] == tree["posterior"]["mean"].shape[:2]
        mean = tree["latent"]["responsibilities"].values.mean(0)
        np.testing.assert_allclose(share.mean((0, 1)), mean, atol=1e-6)
        medians = np.median(share, (0, 1))  # in any interval of more than half of the draws; the mean need not be
        for group in described(tree):
            median = medians[int(group.name)]
            assert group.interval[0] - 1e-9 <= median <= group.interval[1] + 1e-9
    else:
        assert share is None
        assert all(group.interval is None for group in described(tree))


def test_weights_count():
    """The small group has the larger weight, and comes first."""
    data = load_data(X, weight=WEIGHT)
    model = MODELS["gmm"](data, num_components=2)
    tree = fit(model, data, "em", num_starts=2, progress=False)
    assert (tree["latent"]["decode"].values == (X[:, 0] > 0)).all()


@pytest.mark.slow
def test_a_given_start_keeps_its_numbers():
    data = load_data(X)
    model = MODELS["gmm"](data, num_components=2)
    start = {"mixture_probs": np.ones(2) / 2, "mean": np.array([[-5.0], [5.0]]), "precision": np.ones((2, 1, 1))}
    tree = fit(model, data, "em", start=start, progress=False)
    assert (tree["latent"]["decode"].values == (X[:, 0] > 0)).all()


@pytest.mark.slow
def test_states_are_counted_by_steps():
    """Padding beyond the end of a short sequence is no step; the log joint is that of the sites."""
    data = load_data(documents([list("aaaaaaaab"), list("bbb"), list("bb"), list("bb")]))
    model = MODELS["hmm"](data, num_states=2)
    tree = fit(model, data, "em", num_starts=2, progress=False)
    probs = tree["latent"]["state_probs"].values
    steps = np.nansum(np.where(np.isnan(probs), 0, probs), axis=(0, 1))
    assert steps[0] >= steps[1]
    sites = {name: site.values for name, site in tree["point_estimate"].data_vars.items()}
    again = np.asarray(log_likelihood(model, sites, data)).ravel()
    np.testing.assert_allclose(again, tree["log_likelihood"]["x"].values.ravel(), atol=1e-9)
