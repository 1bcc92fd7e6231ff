"""`cavi` in minibatches: one step is the textbook's, an epoch's estimates average to the bound, and where it leads."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from sklearn.decomposition import LatentDirichletAllocation

from inference import fit
from inference.engine.initialise import start_states
from inference.fitting.prepare import make_task
from inference.fixed_points.local_ascent import local_ascent
from inference.minibatches import svi as minibatch
from inference.minibatches.svi import State, step
from inference.runtime.progress import Silent
from models import MODELS, ZooError, load_data
from models.algebra import at_mean
from models.datasets.corpora import bars

SIZE = 5


def tight(algebra, hyper, prior, shared, rows, *_):
    """Inner loops to the last digit."""
    return local_ascent(algebra, hyper, prior, shared, rows, 3000, 1e-13)


@cache
def given(name):
    """(task, state of one start before its first batch) on 20 documents, or on iris."""
    data = bars(20, 15, seed=2) if name == "latent_dirichlet" else load_data("iris")
    options = {"num_topics": 3, "topic_concentration": 0.7, "word_concentration": 0.3} if name == "latent_dirichlet" else {}
    with jax.enable_x64(True):
        task = make_task(MODELS[name](data, **options), data, 0, None, Silent())
        algebra = task.model.algebra
        _, nu, _ = start_states(task, algebra, at_mean, 1)
        shared = {
            block: jax.tree.map(lambda leaf: leaf[0], leaf)
            for block, leaf in nu.items()
            if block not in algebra.structure.local
        }
    total = len(jax.tree.leaves(task.rows)[0])
    return data, task, State(shared, np.zeros(total, int), np.zeros((), int))


def taken(name, state, delay, forgetting=0.7, size=SIZE):
    _, task, _ = given(name)
    arrays = (task.hyper, task.prior, task.rows, jnp.asarray(delay), jnp.asarray(forgetting))
    return step((task.model.algebra, size, 10), arrays, jax.random.PRNGKey(1), state)


@pytest.mark.slow
def test_a_step_on_topics_is_that_of_online_lda(monkeypatch):
    """scikit-learn's `partial_fit` from the same batch and λ; equal to 1e-6, as its digamma is a short series good to 1e-8."""
    monkeypatch.setattr(minibatch, "local_ascent", tight)
    data, _, state = given("latent_dirichlet")
    with jax.enable_x64(True):
        following, _, _ = taken("latent_dirichlet", state, 2.0)
    peer = LatentDirichletAllocation(
        3, doc_topic_prior=0.7, topic_word_prior=0.3, learning_decay=0.7, learning_offset=2.0, total_samples=20,
        max_doc_update_iter=3000, mean_change_tol=1e-13, random_state=0,
    )  # fmt: skip
    batch = data.x[np.asarray(following.order)[:SIZE]]
    peer._init_latent_vars(data.x.shape[1], dtype=np.float64)
    peer.components_ = np.asarray(state.nu["word_probs"]) + 1  # nu is concentration − 1
    peer.exp_dirichlet_component_ = np.exp(_expected_logs(peer.components_))
    peer._em_step(batch, total_samples=20, batch_update=False)
    assert near(np.asarray(following.nu["word_probs"]) + 1, peer.components_, rtol=1e-6)


def _expected_logs(concentration):
    from scipy.special import digamma

    return digamma(concentration) - digamma(concentration.sum(1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("latent_dirichlet", 5), ("gmm", 30)])
def test_estimates_of_an_epoch_average_to_the_bound(name, size, monkeypatch):
    """Where nu stays (a step of length 0) the batches' estimates average to the bound of all rows, each of which comes once."""
    monkeypatch.setattr(minibatch, "local_ascent", tight)
    _, task, state = given(name)
    with jax.enable_x64(True):
        total, estimates = len(state.order), []
        for _ in range(total // size):
            state, estimate, _ = taken(name, state, 1e300, 1.0, size)
            estimates.append(float(estimate))
        assert sorted(np.asarray(state.order)) == list(range(total))
        nu = jax.tree.map(lambda leaf: leaf[None], state.nu)
        _, _, bound, *_ = minibatch._finished.__wrapped__(task.model.algebra, task.hyper, task.prior, task.rows, nu)
    assert near(np.mean(estimates), float(bound[0]), rtol=1e-9)


@pytest.mark.slow
def test_minibatches_end_where_all_rows_do():
    """On iris: the bound is below that of plain cavi by less than 0.01 nats, as steps of (1 + 2000)^−0.7 = 0.005 leave it."""
    model, data = MODELS["gmm"](load_data("iris")), load_data("iris")
    small = {"num_samples": 5, "num_chains": 1, "num_starts": 3}
    plain = fit(model, data, "cavi", **small)
    tree = fit(model, data, "cavi", batch_size=30, **small)
    assert plain.attrs["elbo"] - 0.01 < tree.attrs["elbo"] < plain.attrs["elbo"] + 1e-6
    assert tree["optimization"]["objective"].shape == (3, 2001)
    assert tree["optimization"]["converged"].values[tree.attrs["best_start"]]
    short = fit(model, data, "cavi", batch_size=30, max_iter=2, **small)
    assert not short["optimization"]["converged"].values.any()
    assert "raise max_iter" in short.attrs["problems"]


@pytest.mark.slow
def test_minibatches_of_documents_raise_the_bound():
    """The last bound is above the first estimates by more than their spread; draws have the proportions of all documents."""
    data = bars(100, 30, seed=3)
    model = MODELS["latent_dirichlet"](data)
    tree = fit(model, data, "cavi", batch_size=20, max_iter=100, num_starts=1, num_samples=5, num_chains=1)
    trace = tree["optimization"]["objective"].values[0]
    assert trace[-1] > trace[:10].max()
    assert tree["posterior_raw"]["topic_probs"].shape == (1, 5, 100, 10)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gmm", {"batch_size": 178}, "must be less than the 178 rows"),
        ("gmm", {"batch_size": -1}, "batch_size must be at least 0"),
        ("gmm", {"batch_size": 10, "forgetting": 0.4}, "forgetting must be at least 0.5"),
        ("factor_analysis", {"batch_size": 10}, "independent a priori and conjugate all at once"),
    ],
)
def test_what_cannot_be_taken_in_batches(name, options, message):
    data = load_data("wine")
    model = MODELS[name](data, **({"relevance": True} if name == "factor_analysis" else {"covariance": "diag"}))
    with pytest.raises(ZooError, match=message):
        fit(model, data, "cavi", **options)
