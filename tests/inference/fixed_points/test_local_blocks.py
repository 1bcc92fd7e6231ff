"""Topics over blocks: proportions are found anew for every block, and the bound is that of the corpus."""

import jax
import numpy as np
import pytest
from fit_blocks import fit_blocks
from scipy.special import digamma, gammaln, logsumexp

from inference import fit
from inference.fixed_points.local_blocks import shared_blocks, sums_with_local, with_local_priors
from models import MODELS, load_data
from models.base import ZooError
from models.data.table import take
from models.topics.padding import padded_documents

CONCENTRATION = 0.7


@pytest.fixture(scope="module")
def corpus():
    data = load_data("bars", num_rows=60, length=30)
    return MODELS["latent_dirichlet"](data, num_topics=3, topic_concentration=CONCENTRATION), data


def part_of_a_document(counts, expected):
    """(Σ_v counts_v log Σ_k exp(E log θ_k + expected_kv) − KL(q ‖ p) at the best q(θ), expected counts of words by topic)."""
    prior = np.full(len(expected), CONCENTRATION)
    nu = prior + counts.sum() / len(prior)
    for _ in range(5000):
        logits = (digamma(nu) - digamma(nu.sum()))[:, None] + expected
        shares = np.exp(logits - logsumexp(logits, axis=0)) * counts
        nu = prior + shares.sum(1)
    at = digamma(nu) - digamma(nu.sum())
    divergence = gammaln(nu.sum()) - gammaln(nu).sum() - gammaln(prior.sum()) + gammaln(prior).sum() + ((nu - prior) * at).sum()
    logits = at[:, None] + expected
    return counts @ logsumexp(logits, axis=0) - divergence, np.exp(logits - logsumexp(logits, axis=0)) * counts


@pytest.mark.parametrize("weight", [None, 2.0])
def test_the_part_of_a_block_is_that_of_its_documents(corpus, weight):
    """Against coordinate ascent of one document after another; the likelihood of a document of weight 2 counts twice."""
    model, data = corpus
    few = take(data, np.arange(5))
    few = few._replace(weight=None if weight is None else np.full(5, weight))
    rng = np.random.default_rng(0)
    expected = np.log(rng.dirichlet(np.ones(len(data.columns)), 3))
    T = {"word_probs": np.asarray(expected)[None]}
    of_few = with_local_priors(model, few)
    prior = {name: np.asarray(of_few.prior[name]) for name in of_few.algebra.structure.local}
    found = sums_with_local(of_few.algebra, {}, prior, T, of_few.rows(few))
    counts, times = np.asarray(few.x, float), 1.0 if weight is None else weight
    parts = [part_of_a_document(times * one, expected) for one in counts]
    orders = times * (gammaln(counts.sum(1) + 1) - gammaln(counts + 1).sum(1)).sum()  # of the tokens of given counts
    # The inner ascent ends when a document's numbers move by less than 1e-4 on average; the bound is flat at its top.
    np.testing.assert_allclose(found.log_partition[0], sum(bound for bound, _ in parts) + orders, rtol=1e-7)
    wanted = sum(shares for _, shares in parts)
    np.testing.assert_allclose(jax.tree.leaves(found.stats)[0][0], wanted, atol=1e-2 * wanted.max())


def test_shared_blocks_are_those_without_rows(corpus):
    model, _ = corpus
    assert set(shared_blocks(model.algebra, model.prior)) == {"word_probs"}
    assert len(with_local_priors(model, take(corpus[1], np.arange(7))).prior["topic_probs"]) == 7


@pytest.mark.slow
def test_tables_of_documents(corpus):
    """In memory and over tables the climb ends at one bound; what the result says of rows is said of the sample."""
    model, data = corpus
    whole = fit(model, data, "cavi", num_starts=1, num_samples=10, tol=1e-8, max_iter=5000)
    tables = [take(data, np.arange(begin, begin + 20)) for begin in range(0, 60, 20)]
    tree = fit_blocks(model, tables, "cavi", num_starts=1, num_samples=10, tol=1e-8, max_iter=5000)
    assert tree["optimization"]["converged"].values.all()
    assert np.isclose(tree.attrs["elbo"], whole.attrs["elbo"], rtol=1e-6)
    sampled = fit_blocks(model, lambda: iter(tables), "cavi", sample=tables[0], num_starts=1, num_samples=10, max_iter=3)
    assert sampled["posterior"].sizes["document"] == sampled["observed_data"].sizes["row"] == 20
    assert sampled.attrs["total_weight"] == 60


@pytest.mark.slow
def test_steps_over_documents(corpus):
    """Steps of a block each climb, and the documents held out are scored on the way."""
    model, data = corpus
    tables = [take(data, np.arange(begin, begin + 15)) for begin in range(0, 60, 15)]
    given = {"num_starts": 1, "num_samples": 5, "held_out": 0.2}
    tree = fit_blocks(model, tables, "cavi", steps=True, max_iter=40, **given)
    trace = tree["optimization"]["held_out_log_density"].values[0]
    assert len(trace) == tree["optimization"].sizes["iteration"] == 41
    assert trace[-1] > trace[0] + 1
    assert tree.attrs["held_out_rows"] + tree.attrs["total_weight"] == 60
    passes = fit_blocks(model, tables, "cavi", max_iter=40, **given)
    assert tree.attrs["elbo"] < passes.attrs["elbo"] + 0.02 * abs(passes.attrs["elbo"])


def test_other_methods_say_what_to_do(corpus):
    model, data = corpus
    with pytest.raises(ZooError, match="cavi"):
        fit_blocks(model, data, "em")


def test_cavi_is_not_accelerated(corpus):
    """Extrapolated points would need the proportions, which are not kept; as in memory, the option is refused."""
    model, data = corpus
    with pytest.raises(ZooError, match=r"accelerate needs parameters that all rows share.*use accelerate=false"):
        fit_blocks(model, data, "cavi", accelerate=True)


def test_more_draws_than_memory_holds_are_refused_before_the_fit(corpus):
    """Draws have the proportions of every sampled document, which are many where the sample is."""
    model, data = corpus
    with pytest.raises(ZooError, match="take fewer"):
        fit_blocks(model, data, "cavi", num_samples=10**7)


@pytest.mark.slow
def test_a_bound_that_falls_has_not_converged(corpus):
    """Proportions that are found anew may lead to a lower bound for a pass; under sparse priors most climbs do so."""
    _, data = corpus
    sparse = MODELS["latent_dirichlet"](data, num_topics=6, topic_concentration=0.1, word_concentration=0.05)
    tables = [take(data, np.arange(begin, begin + 30)) for begin in (0, 30)]
    given = {"num_starts": 3, "num_samples": 2, "max_iter": 300}
    tree, further = (fit_blocks(sparse, tables, "cavi", tol=tol, **given) for tol in (1e-6, 0.0))
    traces = tree["optimization"]["criterion"].values
    fallen = [(np.diff(trace[np.isfinite(trace)]) < -0.1).any() for trace in traces]
    assert any(fallen)
    assert tree["optimization"]["converged"].values.all()
    last = np.array([trace[np.isfinite(trace)][-1] for trace in traces])
    np.testing.assert_allclose(last, further["optimization"]["criterion"].values[:, -1], atol=1.0)


def test_blocks_of_similar_documents_share_a_program(corpus):
    """Padded documents have the shapes of other documents as long as they are about, and bring the same sums."""
    model, data = corpus
    shapes = []
    for lengths in ((36, 3, 3), (39, 2, 2)):
        documents = load_data([" ".join((["a", "b", "c"] * 13)[:length]) for length in lengths])
        rows = MODELS["latent_dirichlet"](documents, num_topics=2).rows(documents)
        found = padded_documents(rows)
        shapes.append(jax.tree.map(np.shape, found))
        np.testing.assert_array_equal(np.asarray(found.tokens.times).sum(1), np.asarray(rows.tokens.times).sum(1))
    assert shapes[0] == shapes[1]
    few = take(data, np.arange(9))
    of_few = with_local_priors(model, few)
    prior = {name: np.asarray(of_few.prior[name]) for name in of_few.algebra.structure.local}
    T = {"word_probs": np.log(np.random.default_rng(0).dirichlet(np.ones(len(data.columns)), 3))[None]}
    sums = [
        sums_with_local(of_few.algebra, {}, prior, T, rows) for rows in (of_few.rows(few), padded_documents(of_few.rows(few)))
    ]
    jax.tree.map(lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-10), *sums)
