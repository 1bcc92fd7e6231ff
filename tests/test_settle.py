"""Rows with parameters of their own, brought to terms with the shared ones: the fast way is the plain one, no sweep falls."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near, neighbours_increase
from scipy.special import digamma, gammaln

from inference import fit, settle
from inference.settle import own_prior, settled, settling_sweep, updates
from models import MODELS, Data, load_data, settled_topics
from models.base import at_mean
from models.corpora import bars

TOPICS = 4
RNG = np.random.default_rng(3)
LENGTHS = (0, 1, 3, 40, 41, 5, 70, 33, 0, 2, 90, 64, 17, 20, 31, 32, 8, 12, 66)  # of several widths, more than a block
COUNTS = np.zeros((len(LENGTHS), 100))
for _row, _length in enumerate(LENGTHS):
    COUNTS[_row, RNG.permutation(100)[:_length]] = RNG.integers(1, 5, _length)
WORDS = tuple(f"w{v}" for v in range(100))


@cache
def given(kind):
    """(model, rows, T of the topics, nu where documents begin): plain, weighted, labelled, or with weights that are lost."""
    weight = RNG.integers(0, 3, len(LENGTHS)).astype(float) if kind == "weighted" else None
    data = Data("counts", COUNTS, WORDS, weight=weight)
    if kind == "labelled":
        data = data._replace(labels=np.arange(len(LENGTHS)) % TOPICS, levels=tuple("abcd"))
    alpha, eta = (1e-3, 1e-3) if kind == "lost" else (0.3, 0.1)
    model = MODELS["latent_dirichlet"](
        data, num_topics=TOPICS, topic_concentration=alpha, word_concentration=eta, labelled=kind == "labelled"
    )
    nu = RNG.gamma(0.5, 1.0, (TOPICS, 100)) - (1 if kind != "lost" else 0.999)
    return model, model.rows(data), nu, RNG.gamma(1.0, 1.0, (len(LENGTHS), TOPICS))


def both(kind, most, close):
    model, rows, nu, begun = given(kind)
    algebra = model.algebra
    prior = own_prior(algebra, model.prior, len(LENGTHS))
    shared = at_mean(algebra, None, {"topic_probs": jnp.asarray(begun), "word_probs": jnp.asarray(nu)})
    arguments = (dict(model.hyper), prior, {"topic_probs": jnp.asarray(begun)}, shared, rows, most, close)
    return [jax.jit(way)(*arguments)["topic_probs"] for way in (algebra.settle, lambda *rest: updates(algebra, *rest))]


@pytest.mark.parametrize("precision", [64, 32])
@pytest.mark.parametrize("kind", ["plain", "weighted", "labelled", "lost"])
def test_the_way_of_topics_is_that_of_any_model(kind, precision):
    """After seven turns, of documents from none to many words: sums of at most 400 numbers, rounded seven times over."""
    with jax.enable_x64(precision == 64):
        fast, plain = both(kind, 7, 0.0)
        assert fast.dtype == plain.dtype == (np.float64 if precision == 64 else np.float32)
    assert near(fast, plain, rtol=7 * 400 * np.finfo(fast.dtype).eps, atol=7 * 400 * np.finfo(fast.dtype).eps)


def test_documents_of_one_block_settle_by_themselves():
    """The plain way goes on until the last document moves by less than 1e-9 of its concentrations: so near are both."""
    fast, plain = both("plain", 5000, 1e-11)
    assert near(fast, plain, atol=1e-8)


def test_what_weighs_nothing_and_what_is_empty_stays_at_the_prior():
    _model, _, _, _ = given("weighted")
    fast, _ = both("weighted", 3, 0.0)
    weight = np.asarray(given("weighted")[1].weight)
    nothing = (weight == 0) | (COUNTS.sum(1) == 0)
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


def test_new_documents_that_would_let_the_bound_fall_are_not_taken(monkeypatch):
    """One turn from nowhere is worse than documents that have settled: these go on, and from then on do in every sweep."""
    model, rows, nu, begun = given("plain")
    algebra, prior = model.algebra, dict(model.prior)
    own = own_prior(algebra, prior, len(LENGTHS))
    T = at_mean(algebra, None, {"topic_probs": jnp.asarray(begun), "word_probs": jnp.asarray(nu)})
    T, private = settled(algebra, model.hyper, own, T, rows, 500, 1e-9)
    entering = {**private, "word_probs": jnp.asarray(nu)}
    monkeypatch.setattr(settle, "ANEW", 1)
    found = [settling_sweep(algebra, model.hyper, prior, T, entering, jnp.asarray(anew), rows) for anew in (True, False)]
    for (_, new, _, still), (_, old, _, _) in [found]:
        assert not still
        assert all(near(new[name], old[name], rtol=1e-12) for name in new)
        assert bound(model, new) > bound(model, entering)
    one_turn = settled(algebra, model.hyper, own, T, rows, 1)[1]
    assert bound(model, {**entering, **one_turn}) < bound(model, entering)  # or else the test shows nothing


def test_new_documents_that_raise_the_bound_are_taken():
    """As where topics stand for other words than those that documents settled with."""
    model, rows, nu, _ = given("plain")
    algebra, prior = model.algebra, dict(model.prior)
    own = own_prior(algebra, prior, len(LENGTHS))
    other = at_mean(algebra, None, {"topic_probs": own["topic_probs"], "word_probs": jnp.asarray(nu[::-1])})
    private = settled(algebra, model.hyper, own, other, rows, 500, 1e-9)[1]
    entering = {**private, "word_probs": jnp.asarray(nu)}
    T = at_mean(algebra, None, entering)
    _, following, _, still = settling_sweep(algebra, model.hyper, prior, T, entering, jnp.asarray(True), rows)
    assert still
    assert near(
        following["topic_probs"], settled(algebra, model.hyper, own, T, rows, settle.ANEW)[1]["topic_probs"], rtol=1e-12
    )


def test_the_bound_never_falls_from_several_starts():
    """Starts side by side, some of which begin anew longer than others; each to its own end."""
    data = bars(60, 40, seed=5)
    model = MODELS["latent_dirichlet"](data, topic_concentration=0.1, word_concentration=0.05)
    tree = fit(model, data, "cavi", num_starts=3, num_samples=5, num_chains=1, tol=1e-8, progress=False)
    for trace in tree["optimization"]["criterion"].values:
        assert neighbours_increase(trace[np.isfinite(trace)], 1e-12)
    assert tree["optimization"]["converged"].values.all()


def test_beginning_anew_ends_higher():
    """On bars from ten starts, against documents that only ever go on: higher on the average by more than its standard error.

    Seeds are fixed. Were there no difference, a gap of three standard errors would be seen once in a thousand times.
    """
    data = bars(200, 50, seed=6)
    model = MODELS["latent_dirichlet"](data, topic_concentration=0.1, word_concentration=0.05)
    options = {"num_starts": 10, "num_samples": 2, "num_chains": 1, "tol": 1e-7, "progress": False}
    anew = fit(model, data, "cavi", **options)["optimization"]["criterion"].max("iteration").values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle, "MUCH", np.inf)
        jax.clear_caches()
        warm = fit(model, data, "cavi", **options)["optimization"]["criterion"].max("iteration").values
    jax.clear_caches()
    gap = anew - warm
    assert gap.mean() > 3 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_widths_reach_any_length():
    assert settled_topics.WIDTHS[-1] > max(len(load_data("bars").columns), 10**9)
