"""Rows with parameters of their own, brought to terms with the shared ones: the fast way is the plain one, no sweep falls."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near, neighbours_increase
from scipy.special import digamma, gammaln

from inference import fit
from inference.fitting.prepare import make_task
from inference.fixed_points import local_ascent as settle
from inference.fixed_points.climbing import step
from inference.fixed_points.fixed_point import initial
from inference.fixed_points.local_ascent import ascent_sweep, local_ascent, local_prior, updates
from inference.methods import cavi
from inference.runtime.progress import Silent
from models import MODELS, Data, load_data
from models.algebra import at_mean
from models.datasets.corpora import bars
from models.topics import local_variational as settled_topics

TOPICS = 4
LENGTHS = (0, 1, 3, 40, 41, 5, 70, 33, 0, 2, 90, 64, 17, 20, 31, 32, 8, 12, 66)  # of several widths, more than a block
WORDS = tuple(f"w{v}" for v in range(100))


def counts():
    rng = np.random.default_rng(3)
    found = np.zeros((len(LENGTHS), 100))
    for row, length in enumerate(LENGTHS):
        found[row, rng.permutation(100)[:length]] = rng.integers(1, 5, length)
    return found


COUNTS = counts()


@cache
def given(kind):
    """(model, rows, nu of the topics, nu where documents begin): plain, weighted, labelled, or with weights that are lost."""
    rng = np.random.default_rng(4)
    weight = rng.integers(0, 3, len(LENGTHS)).astype(float) if kind == "weighted" else None
    data = Data("counts", COUNTS, WORDS, weight=weight)
    if kind == "labelled":
        data = data._replace(labels=np.arange(len(LENGTHS)) % TOPICS, levels=tuple("abcd"))
    alpha, eta = (1e-3, 1e-3) if kind == "lost" else (0.3, 0.1)
    model = MODELS["latent_dirichlet"](
        data, num_topics=TOPICS, topic_concentration=alpha, word_concentration=eta, labelled=kind == "labelled"
    )
    nu = rng.gamma(0.5, 1.0, (TOPICS, 100)) - (1 if kind != "lost" else 0.999)
    return model, model.rows(data), nu, rng.gamma(1.0, 1.0, (len(LENGTHS), TOPICS))


def both(kind, most, close, rows=None):
    model, whole, nu, begun = given(kind)
    algebra, rows = model.algebra, whole if rows is None else rows
    prior = local_prior(algebra, model.prior, len(LENGTHS))
    shared = jax.jit(partial(at_mean, algebra, None))({"topic_probs": begun, "word_probs": nu})
    arguments = (dict(model.hyper), prior, {"topic_probs": begun}, shared, rows, most, close)
    return [
        jax.jit(way)(*arguments)["topic_probs"] for way in (algebra.structure.ascend, lambda *rest: updates(algebra, *rest))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("precision", [64, 32])
@pytest.mark.parametrize("kind", ["plain", "weighted", "labelled", "lost"])
def test_the_way_of_topics_is_that_of_any_model(kind, precision):
    """After seven turns, of documents from none to many words: sums of at most 400 numbers, rounded seven times over."""
    with jax.enable_x64(precision == 64):
        fast, plain = both(kind, 7, 0.0)
        assert fast.dtype == plain.dtype == (np.float64 if precision == 64 else np.float32)
    assert near(fast, plain, rtol=7 * 400 * np.finfo(fast.dtype).eps, atol=7 * 400 * np.finfo(fast.dtype).eps)


def test_halves_of_documents_have_gaps_among_their_words():
    """What `HeldOut.halves` keeps may stand anywhere among the words of a document: none is cut off."""
    model, rows, _, _ = given("plain")
    for half in model.abilities.held_out.halves(1, rows):
        fast, plain = both("plain", 7, 0.0, half)
        assert near(fast, plain, rtol=1e-12)
        assert near((fast - (0.3 - 1)).sum(1), half.words.times.sum(1), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_an_early_end_is_an_end():
    """Documents that stop when they move by less than `close` have moved by less: one more turn changes none by more.

    Every turn is a contraction once topics of a document have parted, so that the next step is shorter than the last.
    """
    model, rows, nu, _ = given("plain")
    close = 1e-6
    fast, _ = both("plain", 5000, close)
    shared = at_mean(model.algebra, None, {"topic_probs": fast, "word_probs": jnp.asarray(nu)})
    own = local_prior(model.algebra, model.prior, len(LENGTHS))
    again = model.algebra.structure.ascend(dict(model.hyper), own, {"topic_probs": fast}, shared, rows, 1, 0.0)["topic_probs"]
    assert jnp.abs(again - fast).mean(1).max() < close


@pytest.mark.slow
def test_starts_side_by_side_settle_as_each_by_itself():
    model, rows, nu, begun = given("plain")
    own = local_prior(model.algebra, model.prior, len(LENGTHS))

    def one(nu):
        shared = at_mean(model.algebra, None, {"topic_probs": jnp.asarray(begun), "word_probs": nu})
        return local_ascent(model.algebra, dict(model.hyper), own, shared, rows, 20)[1]["topic_probs"]

    stacked = jnp.stack([jnp.asarray(nu), jnp.asarray(nu[::-1])])
    assert near(jax.vmap(one)(stacked), jnp.stack([one(each) for each in stacked]), rtol=1e-13)


@pytest.mark.slow
def test_what_weighs_nothing_and_what_is_empty_stays_at_the_prior():
    fast, _ = both("weighted", 3, 0.0)
    nothing = (np.asarray(given("weighted")[1].weight) == 0) | (COUNTS.sum(1) == 0)
    assert nothing.sum() > 2
    assert near(fast[nothing], np.full((nothing.sum(), TOPICS), 0.3 - 1), rtol=1e-15)


def bound(model, nu):
    """Token by token, from the textbook's formula, less the carrier."""
    gamma, concentration = (np.asarray(nu[name]) + 1 for name in ("topic_probs", "word_probs"))

    def expectation(value):
        return digamma(value) - digamma(value.sum(-1, keepdims=True))

    def divergence(value, prior):
        normaliser = (
            gammaln(value.sum(-1)) - gammaln(value).sum(-1) - gammaln(prior * value.shape[1]) + value.shape[1] * gammaln(prior)
        )
        return (normaliser + ((value - prior) * expectation(value)).sum(-1)).sum()

    logs = expectation(gamma)[:, :, None] + expectation(concentration)[None]
    return (COUNTS * np.logaddexp.reduce(logs, axis=1)).sum() - divergence(gamma, 0.3) - divergence(concentration, 0.1)


@pytest.mark.slow
def test_new_documents_that_would_let_the_bound_fall_are_not_taken(monkeypatch):
    """One turn from nowhere is worse than documents that have settled: these go on, and from then on do in every sweep."""
    model, rows, nu, begun = given("plain")
    algebra, prior = model.algebra, dict(model.prior)
    own = local_prior(algebra, prior, len(LENGTHS))
    T = at_mean(algebra, None, {"topic_probs": jnp.asarray(begun), "word_probs": jnp.asarray(nu)})
    T, local_nu = local_ascent(algebra, model.hyper, own, T, rows, 500, 1e-9)
    entering = {**local_nu, "word_probs": jnp.asarray(nu)}
    monkeypatch.setattr(settle, "RESTART_STEPS", 1)
    found = [ascent_sweep(algebra, model.hyper, prior, T, entering, jnp.asarray(restart), rows) for restart in (True, False)]
    (_, new, _, still, warm_started), (_, old, *_) = found
    assert not still
    assert warm_started
    assert all(near(new[name], old[name], rtol=1e-12) for name in new)
    assert bound(model, new) > bound(model, entering)
    one_turn = local_ascent(algebra, model.hyper, own, T, rows, 1)[1]
    assert bound(model, {**entering, **one_turn}) < bound(model, entering)  # or else the test shows nothing


@pytest.mark.slow
def test_new_documents_that_raise_the_bound_are_taken():
    """As where topics stand for other words than those that documents settled with."""
    model, rows, nu, _ = given("plain")
    algebra, prior = model.algebra, dict(model.prior)
    own = local_prior(algebra, prior, len(LENGTHS))
    other = at_mean(algebra, None, {"topic_probs": own["topic_probs"], "word_probs": jnp.asarray(nu[::-1])})
    local_nu = local_ascent(algebra, model.hyper, own, other, rows, 500, 1e-9)[1]
    entering = {**local_nu, "word_probs": jnp.asarray(nu)}
    T = at_mean(algebra, None, entering)
    _, following, _, still, _ = ascent_sweep(algebra, model.hyper, prior, T, entering, jnp.asarray(True), rows)
    assert still
    assert near(
        following["topic_probs"],
        local_ascent(algebra, model.hyper, own, T, rows, settle.RESTART_STEPS)[1]["topic_probs"],
        rtol=1e-12,
    )


@pytest.mark.slow
def test_the_bound_never_falls_from_several_starts():
    """Starts side by side, some of which begin restart longer than others; each to its own end."""
    data = bars(60, 40, seed=5)
    model = MODELS["latent_dirichlet"](data, topic_concentration=0.1, word_concentration=0.05)
    tree = fit(model, data, "cavi", num_starts=3, num_samples=5, num_chains=1, tol=1e-8, progress=False)
    for trace in tree["optimization"]["criterion"].values:
        assert neighbours_increase(trace[np.isfinite(trace)], 1e-12)
    assert tree["optimization"]["converged"].values.all()


@pytest.mark.slow
def test_no_tolerance_ends_with_rows_that_began_anew():
    """What a sweep of such rows gained says nothing of how near the end is; that of rows that went on does."""
    model, data = given("plain")[0], Data("counts", COUNTS, WORDS)
    with jax.enable_x64(True):
        task = make_task(model, data, 0, None, Silent())
        state = jax.tree.map(lambda leaf: leaf[0], initial(task, model.algebra, cavi.FIXED_POINT, 1))
        arrays = (task.hyper, task.prior, task.rows, jnp.asarray(1e9))
        for _ in range(2):
            state, _, done = step((model.algebra, cavi.FIXED_POINT), arrays, jax.random.PRNGKey(0), state)
            assert state.restart
            assert not done
        assert step(
            (model.algebra, cavi.FIXED_POINT), arrays, jax.random.PRNGKey(0), state._replace(warm_started=jnp.array(True))
        )[2]


@pytest.mark.slow
def test_beginning_anew_ends_higher():
    """On bars from ten starts, against documents that go on after the first sweep: higher by standard errors of the mean.

    Seeds are fixed. Were there no difference, t with nine degrees of freedom would pass 4.3 once in a thousand times.
    """
    data = bars(200, 50, seed=6)
    model = MODELS["latent_dirichlet"](data, topic_concentration=0.1, word_concentration=0.05)
    options = {"num_starts": 10, "num_samples": 2, "num_chains": 1, "tol": 1e-7, "progress": False}
    restart = fit(model, data, "cavi", **options)["optimization"]["criterion"].max("iteration").values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle, "MIN_GAIN", np.inf)
        jax.clear_caches()
        warm = fit(model, data, "cavi", **options)["optimization"]["criterion"].max("iteration").values
    jax.clear_caches()
    gap = restart - warm
    assert gap.mean() > 4.3 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_widths_reach_any_length():
    assert settled_topics.WIDTHS[-1] > max(len(load_data("bars").columns), 10**9)
