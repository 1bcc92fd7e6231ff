"""Topics over blocks and processes: the exact posterior, and the same draws whoever holds the documents, killed or not."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cut_documents import SITES, SMALL, assert_same_draws, cut
from fit_blocks import fit_blocks
from joined_processes import counted_sums
from scipy.special import gammaln, logsumexp
from topic_models import ALLOWED, DOCUMENTS, TOKENS, build
from two_stage import assert_standard_normal, of_batch_means

from inference.fitting.prepare import make_task
from inference.fixed_points.local_blocks import with_local_priors
from inference.runtime.progress import Silent
from inference.streaming.passes import Stream
from inference.streaming.source.division import divided
from inference.streaming.source.processes import Group
from inference.streaming.topics import TopicChains, process_corpus
from models import MODELS, load_data
from models.base import ZooError
from models.data.table import take
from models.topics.collapsed import corpus_of
from models.topics.sampling.corpus import counted, log_joint


class KilledError(Exception):
    pass


@pytest.fixture(scope="module")
def corpus():
    data = load_data("bars", num_rows=30, length=12)
    return MODELS["latent_dirichlet"](data, num_topics=3, topic_concentration=0.7), data


def chains_of(kind, num_chains=2):
    """(chains over two blocks of the documents of `topic_models`, the model, the data)."""
    model, data = build(kind)
    given = divided(model, cut(data, 2), None, 0.0, 0, 1)
    model = with_local_priors(model, given.sample)
    task = make_task(model, given.sample, 0, None, Silent())
    stream = Stream(model, given.source, Group(), given.held_out, None)
    held, topic = process_corpus(task, stream, given.numbers, 1, num_chains)
    return held, topic, model, data


@pytest.mark.parametrize("kind", ["default", "asymmetric", "labelled"])
def test_the_log_joint_is_that_of_all_documents(kind):
    """Log p(w, z) of counts that blocks add up, against that of all documents at once; topics stay among the allowed."""
    held, topic, model, data = chains_of(kind)
    rows = model.rows(data)
    whole = corpus_of(rows, 3)
    np.testing.assert_array_equal(whole.word, held.corpus.word)
    with ThreadPoolExecutor(2) as pool:
        chains = TopicChains(held, topic, 1, Group(), pool)
        chains.advance(5)
        found = chains.draws()
    alpha, eta = (np.asarray(model.hyper[name]) for name in ("topic_concentration", "word_concentration"))
    for chain in range(2):
        wanted = log_joint(counted(whole, chains.topic[chain], 2), alpha, eta) + np.sum(rows.carrier)
        assert np.isclose(found.log_joint[chain], wanted, rtol=1e-12)
    if kind == "labelled":
        document = np.array([d for d, _ in TOKENS])
        assert ALLOWED[document, chains.topic].all()


@pytest.mark.parametrize("ends", [(13, 20), (1, 2)])
def test_blocks_of_a_table_and_tables(corpus, ends):
    """Draws depend on where blocks end and on nothing else; all of a table brings what is known row by row."""
    model, data = corpus
    listed = fit_blocks(model, cut(data, *ends), "collapsed_gibbs", **SMALL)
    called = fit_blocks(model, lambda: iter(cut(data, *ends)), "collapsed_gibbs", **SMALL)
    assert_same_draws(listed, called)
    assert listed.attrs["total_weight"] == 30
    assert not {"latent", "log_likelihood"} & set(listed.children)
    if ends == (13, 20):
        whole = fit_blocks(model, data, "collapsed_gibbs", block_rows=10, **SMALL)
        assert_same_draws(whole, fit_blocks(model, cut(data, 10, 20), "collapsed_gibbs", **SMALL))
        assert {"latent", "log_likelihood"} <= set(whole.children)


def test_proportions_are_those_of_the_sample(corpus, monkeypatch):
    """The result has as many documents as the sample, and stands for all."""
    model, data = corpus
    monkeypatch.setattr("inference.streaming.source.division.SAMPLE_ROWS", 7)
    tree = fit_blocks(model, cut(data, 13, 20), "collapsed_gibbs", **SMALL)
    assert tree["posterior"].sizes["document"] == tree["observed_data"].sizes["row"] == 7
    assert tree.attrs["total_weight"] == 30
    np.testing.assert_allclose(tree["posterior"]["topic_probs"].sum("topic"), 1.0)


def test_topics_of_the_sample_are_counted_where_they_are(corpus):
    """Wherever a sampled document lies, its topics are counted in its place of the sample, for each process alone."""
    model, data = corpus
    numbers = np.array([1, 12, 13, 29])
    given = divided(model, cut(data, 13, 20), None, 0.0, 0, 1)
    task = make_task(model, given.sample, 0, None, Silent())
    found, wanted = [], []
    for rank in range(2):
        group = Group()
        group.rank, group.size = rank, 2
        held, topic = process_corpus(task, Stream(model, given.source, group, given.held_out, None), numbers, 1, 1)
        with ThreadPoolExecutor(1) as pool:
            found.append(TopicChains(held, topic, 1, group, pool)._of_documents(topic[0])[1])
        wanted.append(counted(held.corpus, topic[0], 3).document_topic)
    assert [len(table) for table in wanted] == [13, 17]
    np.testing.assert_array_equal(sum(found), np.concatenate(wanted)[numbers])


def test_a_start_is_heeded(corpus):
    """Word probabilities that no other topic shares say at once which topic a token has."""
    model, data = corpus
    V = len(data.columns)
    words = np.where(np.arange(V) % 3 == np.arange(3)[:, None], 1.0, 0.0)
    start = {"topic_probs": np.full((30, 3), 1 / 3), "word_probs": words / words.sum(1, keepdims=True)}
    seen = []

    def first(self, sweeps):
        seen.append((self.topic.copy(), self.documents.corpus.word))
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TopicChains, "advance", first)
        with pytest.raises(KilledError):
            fit_blocks(model, cut(data, 13), "collapsed_gibbs", start=start, **SMALL)
    np.testing.assert_array_equal(seen[0][0], np.stack([seen[0][1] % 3] * 2))


def moments(documents):
    """Posterior means whatever the labels: θ_d1 θ_d2 of these documents, Σ_v β_1v β_2v, and Σ_k θ_dk β_kv of all words.

    By the collapsed joint of all 2⁷ assignments of the default prior: given the topics all are Dirichlet.
    """
    logs, means = [], []
    for z in itertools.product(range(2), repeat=len(TOKENS)):
        a, b = np.full((len(DOCUMENTS), 2), 1.1), np.full((2, 3), 1.1)
        for (d, w), k in zip(TOKENS, z, strict=True):
            a[d, k] += 1
            b[k, w] += 1
        logs.append(sum(gammaln(part).sum() - gammaln(part.sum(1)).sum() for part in (a, b)))
        a0, b = a.sum(1), b / b.sum(1, keepdims=True)
        predicted = (a / a0[:, None]) @ b
        means.append([*(a.prod(1) / (a0 * (a0 + 1)))[documents], b.prod(0).sum(), *predicted[documents].ravel()])
    return np.exp(np.array(logs) - logsumexp(logs)) @ np.array(means)


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 2])
def test_draws_are_from_the_posterior(monkeypatch, size):
    """Against the sum over all topics of all tokens, also of the documents of a sample alone.

    A batch of 60 sweeps or more is long beside the few sweeps after which seven tokens have forgotten their topics.
    """
    monkeypatch.setattr("inference.streaming.source.division.SAMPLE_ROWS", size)
    model, data = build()

    def deviations(seed, times):
        options = {"num_chains": 2, "num_warmup": 20, "num_samples": 1200 * times, "thin": 1}
        tables = cut(data, 1, 3)
        tree = fit_blocks(model, tables, "collapsed_gibbs", seed=seed, **options)
        theta, beta = (tree["posterior_raw"][site].values for site in SITES)
        theta, beta = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in (theta, beta))
        sampled = divided(model, tables, None, 0.0, seed, 1).numbers
        assert len(sampled) == size
        found = [theta.prod(2), beta.prod(1).sum(1)[:, None], np.einsum("sdk,skv->sdv", theta, beta).reshape(len(theta), -1)]
        return of_batch_means(np.concatenate(found, axis=1), moments(sampled), batches=40)

    assert_standard_normal(deviations)


def test_what_is_sent_does_not_grow_with_the_documents(monkeypatch):
    """Numbers in every all-reduce, of a corpus and of one ten times as large; the largest are the counts of topics by words."""
    monkeypatch.setattr("inference.streaming.source.division.SAMPLE_ROWS", 5)
    sent = []
    for number in (20, 200):
        data = load_data("bars", num_rows=number, length=12)
        model = MODELS["latent_dirichlet"](data, num_topics=3)
        with counted_sums() as sizes:
            fit_blocks(model, cut(data, 10), "collapsed_gibbs", **SMALL)
        sent.append(sizes)
    assert sent[0] == sent[1]
    chains, topics, words = 2, 3, len(data.columns)
    assert max(sent[0]) == chains * topics * words


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"learn": "symmetric"}, "learn=symmetric needs all rows at once"),
        ({"devices": 1}, "leave devices out"),
        ({"held_out": 0.2}, "collapsed_gibbs scores no rows"),
        ({"steps": True}, "steps of one block each are for em and cavi"),
        ({"num_sample": 3}, "num_samples"),
        ({"method": "gibbs"}, "use method=cavi or collapsed_gibbs"),
    ],
)
def test_mistakes(corpus, given, said):
    model, data = corpus
    with pytest.raises(ZooError, match=said):
        fit_blocks(model, cut(data, 13), **{"method": "collapsed_gibbs"} | given)


def test_samples_weights_and_models_that_are_refused(corpus):
    model, data = corpus
    with pytest.raises(ZooError, match="whose numbers must be known: leave sample out"):
        fit_blocks(model, cut(data, 13), "collapsed_gibbs", sample=take(data, np.arange(5)), **SMALL)
    heavy = data._replace(weight=np.full(30, 3.0))
    with pytest.raises(ZooError, match="one latent per row"):
        fit_blocks(MODELS["latent_dirichlet"](heavy, num_topics=2), [heavy], "collapsed_gibbs", **SMALL)
    rows = load_data(np.random.default_rng(0).normal(size=(30, 3)))
    with pytest.raises(ZooError, match="this model has none: use method=gibbs"):
        fit_blocks(MODELS["gmm"](rows, num_components=2), rows, "collapsed_gibbs")
    with pytest.raises(ZooError, match="this model has none: use method=gibbs"):
        fit_blocks(MODELS["factor_analysis"](rows, num_factors=1), rows, "collapsed_gibbs")
