"""The evidence bound of the topic model: scikit-learn's, and what climbs it.

The density is of counts of words, scikit-learn's of tokens in their order: its bound is lower by Σ_d log(N_d! / Π_v n_dv!),
the `carrier` of the rows, which no parameter enters. Its digamma function is a series cut off: wrong by 2.5e-9.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.decomposition._lda
from naive import near, neighbours_increase
from scipy.special import digamma, gammaln
from sklearn.decomposition import LatentDirichletAllocation

from inference import fit
from inference.fixed_points import local_ascent as settle
from inference.fixed_points.fixed_point import Climb, elbo
from inference.fixed_points.local_ascent import ascent_sweep
from models import MODELS, Data
from models.algebra import at_mean

ALPHA, ETA, TOPICS = 1.5, 0.6, 2
RNG = np.random.default_rng(4)
PROBS = np.array([[0.3, 0.3, 0.3, 0.05, 0.03, 0.02], [0.02, 0.03, 0.05, 0.3, 0.3, 0.3]])
COUNTS = np.array([RNG.multinomial(size, PROBS[d % 2]) for d, size in enumerate((30, 41, 25, 60, 33, 12, 20, 28))])
DATA = Data("counts", COUNTS.astype(float), tuple("abcdef"))
START = np.random.default_rng(5).gamma(100.0, 0.01, (TOPICS, COUNTS.shape[1])) + 10 * PROBS


def build():
    return MODELS["latent_dirichlet"](DATA, num_topics=TOPICS, topic_concentration=ALPHA, word_concentration=ETA)


def peer(**options):
    return LatentDirichletAllocation(
        TOPICS, doc_topic_prior=ALPHA, topic_word_prior=ETA, learning_method="batch", random_state=0, **options
    )


def their_bound(gamma, concentration):
    """Scikit-learn's at q(θ_d) = Dirichlet(gamma_d), q(β_k) = Dirichlet(concentration_k)."""
    other = peer()
    other.components_, other.doc_topic_prior_, other.topic_word_prior_ = concentration, ALPHA, ETA
    return other._approx_bound(COUNTS.astype(float), gamma, sub_sampling=False)


@cache
def swept():
    """(gamma, concentrations, whether documents restart) -> (our bound there, less the carrier, and both after a sweep)."""
    model = build()
    rows = model.rows(DATA)

    @jax.jit
    def one(gamma, concentration, restart=False):
        nu = {"topic_probs": gamma - 1, "word_probs": concentration - 1}
        T = at_mean(model.algebra, jax.random.PRNGKey(0), nu)
        _, following, local, *_ = ascent_sweep(model.algebra, model.hyper, dict(model.prior), T, nu, jnp.asarray(restart), rows)
        nothing = jnp.zeros(())
        state = Climb(T, T, nu, jnp.array(True), jnp.array(False), jnp.array(True), *[nothing] * 4, T, nothing)
        bound = elbo(model.algebra, dict(model.prior), state, local) - jnp.asarray(rows.carrier).sum()
        return bound, following["topic_probs"] + 1, following["word_probs"] + 1

    return one


def expectation(concentration):
    """E[log p] (…, K) under Dirichlet distributions."""
    return digamma(concentration) - digamma(concentration.sum(-1, keepdims=True))


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
def test_the_bound_is_scikit_learns_at_any_q(scale, monkeypatch):
    """To the error of its digamma, two for a token or pseudo-count of either table; with SciPy's to 1e-11."""
    rng = np.random.default_rng(6)
    gamma, concentration = rng.gamma(2.0, scale, (len(COUNTS), TOPICS)), rng.gamma(2.0, scale, (TOPICS, COUNTS.shape[1]))
    found = float(swept()(gamma, concentration)[0])
    number = 2 * COUNTS.sum() + np.abs(gamma - ALPHA).sum() + np.abs(concentration - ETA).sum()
    assert found == pytest.approx(their_bound(gamma, concentration), abs=2 * 2.5e-9 * number)
    monkeypatch.setattr(sklearn.decomposition._lda, "_dirichlet_expectation_2d", expectation)
    assert found == pytest.approx(their_bound(gamma, concentration), rel=1e-11)


@cache
def theirs():
    """Scikit-learn from START to convergence, documents and topics: (gamma, concentrations)."""
    other = peer(max_doc_update_iter=2000, mean_change_tol=1e-14)
    other._init_latent_vars(COUNTS.shape[1], dtype=np.float64)
    other.components_ = START.copy()
    other.exp_dirichlet_component_ = np.exp(expectation(START))
    for _ in range(200):
        other._em_step(COUNTS.astype(float), total_samples=len(COUNTS), batch_update=True)
    gamma, _ = other._e_step(COUNTS.astype(float), cal_sstats=False, random_init=False)
    return gamma, other.components_


@cache
def ours():
    """`fit` from the same q(β): every gamma 1, as scikit-learn begins."""
    model = build()
    first = {"topic_probs": jnp.zeros((len(COUNTS), TOPICS)), "word_probs": jnp.asarray(START - 1)}
    algebra = model.algebra._replace(initial=model.algebra.initial._replace(draw=lambda hyper, key: first))
    return fit(model._replace(algebra=algebra), DATA, "cavi", num_starts=1, num_samples=10, tol=1e-15, progress=False)


def expected_tokens(gamma, concentration):
    """(M, K, V)."""
    share = np.exp(expectation(gamma)[:, :, None] + expectation(concentration)[None])
    return COUNTS[:, None, :] * share / share.sum(1, keepdims=True)


@pytest.mark.parametrize("restart", [False, True])
def test_a_sweep_is_that_of_the_textbook(restart):
    """Blei, Ng and Jordan's updates, documents several times and topics once, token by token."""
    rng = np.random.default_rng(7)
    gamma, concentration = rng.gamma(2.0, 1.0, (len(COUNTS), TOPICS)), rng.gamma(2.0, 1.0, (TOPICS, COUNTS.shape[1]))
    _, *after = swept()(gamma, concentration, restart)
    if restart:
        gamma = np.full_like(gamma, ALPHA + 1)
    for _ in range(settle.RESTART_STEPS if restart else settle.WARM_STEPS):
        gamma = ALPHA + expected_tokens(gamma, concentration).sum(2)
    assert near(after[0], gamma, rtol=1e-12)
    assert near(after[1], ETA + expected_tokens(gamma, concentration).sum(0), rtol=1e-12)


def test_where_scikit_learn_converges_our_sweep_stays():
    """Its documents stop at 1e-14, its topics after 200 rounds: one sweep changes no concentration by 1e-7."""
    gamma, concentration = theirs()
    _, *after = swept()(gamma, concentration)
    assert near(after[0], gamma, atol=1e-7)
    assert near(after[1], concentration, atol=1e-7)


@pytest.mark.slow
def test_cavi_climbs_from_scikit_learns_start_to_its_bound():
    """Never falling by more than 1e-9; both end in one optimum, as the start leans to it; from others they do not."""
    tree = ours()
    trace = tree["optimization"]["criterion"].values[0]
    assert neighbours_increase(trace, 1e-9)
    first = their_bound(np.ones((len(COUNTS), TOPICS)), START)
    carrier = float(np.asarray(build().rows(DATA).carrier).sum())
    number = 4 * COUNTS.sum()  # of tokens: both tables, and the concentrations that add up to as many
    assert trace[0] - carrier == pytest.approx(first, abs=2 * 2.5e-9 * number)
    assert tree.attrs["elbo"] - carrier == pytest.approx(their_bound(*theirs()), abs=2 * 2.5e-9 * number)


@pytest.mark.slow
def test_the_bound_is_below_the_evidence_of_one_topic():
    """With one topic q is the posterior: the bound is log p(w), Dirichlet and multinomial, to rounding."""
    model = MODELS["latent_dirichlet"](DATA, num_topics=1, topic_concentration=ALPHA, word_concentration=ETA)
    tree = fit(model, DATA, "cavi", num_starts=1, num_samples=10, progress=False)
    total, words = COUNTS.sum(0), COUNTS.shape[1]
    log_evidence = (gammaln(total + ETA) - gammaln(ETA)).sum() + gammaln(words * ETA) - gammaln(total.sum() + words * ETA)
    carrier = (gammaln(COUNTS.sum(1) + 1) - gammaln(COUNTS + 1).sum(1)).sum()
    assert tree.attrs["elbo"] == pytest.approx(log_evidence + carrier, rel=1e-11)
