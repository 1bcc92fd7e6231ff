"""Topics over blocks and processes: the exact posterior, and the same draws whoever holds the documents, killed or not."""

import itertools
import signal
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pandas as pd
import pytest
from joined_processes import ended, started
from scipy.special import gammaln, logsumexp
from topic_models import ALLOWED, DOCUMENTS, TOKENS, build
from two_stage import assert_standard_normal, of_batch_means

from inference import fit_stream, read_stream
from inference.fitting.prepare import make_task
from inference.results.tree import load
from inference.runtime.checkpoints import store
from inference.runtime.progress import Silent
from inference.streaming.local_blocks import built_on
from inference.streaming.passes import Stream
from inference.streaming.source.division import divided
from inference.streaming.source.processes import Group
from inference.streaming.topics import Chains, held_by
from models import MODELS, load_data
from models.base import ZooError
from models.data.table import take
from models.topics.collapsed import corpus_of
from models.topics.sampling.corpus import counted, log_joint

SMALL = {"num_chains": 2, "num_warmup": 3, "num_samples": 4, "thin": 2}
SITES = ("topic_probs", "word_probs")


class KilledError(Exception):
    pass


@pytest.fixture
def always_due(monkeypatch):
    """A checkpoint after every chunk of sweeps, with checkpoint_seconds=0."""
    monkeypatch.setattr("inference.streaming.topic_chains.SHARE", np.inf)


@pytest.fixture(scope="module")
def corpus():
    data = load_data("bars", num_rows=30, length=12)
    return MODELS["latent_dirichlet"](data, num_topics=3, topic_concentration=0.7), data


def cut(data, *ends):
    """Tables of documents up to these ends."""
    return [take(data, np.arange(begin, end)) for begin, end in itertools.pairwise((0, *ends, data.num_rows))]


def assert_same_draws(left, right):
    for site in SITES:
        np.testing.assert_array_equal(left["posterior_raw"][site], right["posterior_raw"][site])
    name = "collapsed_log_joint"
    np.testing.assert_allclose(left["functionals"][name], right["functionals"][name], rtol=1e-12)


def chains_of(kind, num_chains=2):
    """(chains over two blocks of the documents of `topic_models`, the model, the data)."""
    model, data = build(kind)
    given = divided(model, cut(data, 2), None, 0.0, 0, 1)
    model = built_on(model, given.sample)
    task = make_task(model, given.sample, 0, None, Silent())
    stream = Stream(model, given.source, Group(), given.held_out, None)
    held, topic = held_by(task, stream, given.numbers, 1, num_chains)
    return held, topic, model, data


@pytest.mark.parametrize("kind", ["default", "asymmetric", "labelled"])
def test_the_log_joint_is_that_of_all_documents(kind):
    """Log p(w, z) of counts that blocks add up, against that of all documents at once; topics stay among the allowed."""
    held, topic, model, data = chains_of(kind)
    rows = model.rows(data)
    whole = corpus_of(rows, 3)
    np.testing.assert_array_equal(whole.word, held.corpus.word)
    with ThreadPoolExecutor(2) as pool:
        chains = Chains(held, topic, 1, Group(), pool)
        chains.advance(5)
        found = chains.kept()
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
    listed = fit_stream(model, cut(data, *ends), "collapsed_gibbs", **SMALL)
    called = fit_stream(model, lambda: iter(cut(data, *ends)), "collapsed_gibbs", **SMALL)
    assert_same_draws(listed, called)
    assert listed.attrs["total_weight"] == 30
    assert not {"latent", "log_likelihood"} & set(listed.children)
    if ends == (13, 20):
        whole = fit_stream(model, data, "collapsed_gibbs", block_rows=10, **SMALL)
        assert_same_draws(whole, fit_stream(model, cut(data, 10, 20), "collapsed_gibbs", **SMALL))
        assert {"latent", "log_likelihood"} <= set(whole.children)


def test_proportions_are_those_of_the_sample(corpus, monkeypatch):
    """The result has as many documents as the sample, and stands for all."""
    model, data = corpus
    monkeypatch.setattr("inference.streaming.source.division.SAMPLE_ROWS", 7)
    tree = fit_stream(model, cut(data, 13, 20), "collapsed_gibbs", **SMALL)
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
        held, topic = held_by(task, Stream(model, given.source, group, given.held_out, None), numbers, 1, 1)
        with ThreadPoolExecutor(1) as pool:
            found.append(Chains(held, topic, 1, group, pool)._of_documents(topic[0])[1])
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
        seen.append((self.topic.copy(), self.held.corpus.word))
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chains, "advance", first)
        with pytest.raises(KilledError):
            fit_stream(model, cut(data, 13), "collapsed_gibbs", start=start, **SMALL)
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
        tree = fit_stream(model, tables, "collapsed_gibbs", seed=seed, **options)
        theta, beta = (tree["posterior_raw"][site].values for site in SITES)
        theta, beta = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in (theta, beta))
        sampled = divided(model, tables, None, 0.0, seed, 1).numbers
        assert len(sampled) == size
        found = [theta.prod(2), beta.prod(1).sum(1)[:, None], np.einsum("sdk,skv->sdv", theta, beta).reshape(len(theta), -1)]
        return of_batch_means(np.concatenate(found, axis=1), moments(sampled), batches=40)

    assert_standard_normal(deviations)


@pytest.mark.parametrize("before", [False, True], ids=["after the main file", "before the main file"])
@pytest.mark.parametrize("kill", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_killed_run_goes_on_to_the_same_draws(corpus, tmp_path, monkeypatch, always_due, kill, before):
    """A kill in the warm-up or among the draws, before or after the main file is written."""
    model, data = corpus
    tables = cut(data, 13, 20)
    whole = fit_stream(model, tables, "collapsed_gibbs", **SMALL)
    written = []

    def dying(*arguments):
        written.append(arguments[1])
        if before and len(written) == kill:
            raise KilledError
        store(*arguments)
        if len(written) == kill:
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("inference.streaming.topic_chains.store", dying)
        with pytest.raises(KilledError):
            fit_stream(model, tables, "collapsed_gibbs", folder=tmp_path, checkpoint_seconds=0, **SMALL)
    tree = fit_stream(model, tables, "collapsed_gibbs", folder=tmp_path, checkpoint_seconds=0, **SMALL)
    assert_same_draws(tree, whole)
    assert len(list(tmp_path.glob("topics-*"))) == 3  # of the last sweep alone
    more = fit_stream(model, tables, "collapsed_gibbs", folder=tmp_path, **SMALL | {"num_samples": 6})
    assert_same_draws(more, fit_stream(model, tables, "collapsed_gibbs", **SMALL | {"num_samples": 6}))


def test_ctrl_c_leaves_a_checkpoint(corpus, tmp_path, monkeypatch):
    model, data = corpus
    advance, calls = Chains.advance, []

    def interrupted(self, sweeps):
        calls.append(sweeps)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        advance(self, sweeps)

    with monkeypatch.context() as patch:
        patch.setattr(Chains, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt, match="after 4 sweeps of the draws; fit with the same arguments"):
            fit_stream(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **SMALL)
    assert_same_draws(
        fit_stream(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **SMALL),
        fit_stream(model, cut(data, 13), "collapsed_gibbs", **SMALL),
    )


def test_files_of_topics_that_are_lost_or_of_others(corpus, tmp_path):
    model, data = corpus
    fit_stream(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **SMALL)
    more = SMALL | {"num_samples": 6}
    path = next(tmp_path.glob("topics-*-1.npy"))
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"x" + content[51:])
    with pytest.raises(ZooError, match="does not match its checksum; remove the checkpoints of this run"):
        fit_stream(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **more)
    path.write_bytes(next(tmp_path.glob("topics-*-0.npy")).read_bytes())
    with pytest.raises(ZooError, match="has topics of other documents"):
        fit_stream(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **more)
    path.unlink()
    with pytest.raises(ZooError, match="cannot be read"):
        fit_stream(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **more)


def test_what_is_sent_does_not_grow_with_the_documents(monkeypatch):
    """Numbers in every all-reduce, of a corpus and of one ten times as large; the largest are the counts of topics by words."""
    monkeypatch.setattr("inference.streaming.source.division.SAMPLE_ROWS", 5)
    sent = []
    for number in (20, 200):
        data = load_data("bars", num_rows=number, length=12)
        model = MODELS["latent_dirichlet"](data, num_topics=3)
        sizes = []

        class Counted(Group):
            def all_sum(self, tree):
                sizes.append(sum(np.size(leaf) for leaf in jax.tree.leaves(tree)))  # noqa: B023
                return super().all_sum(tree)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("inference.streaming.fit_stream.Group", Counted)
            fit_stream(model, cut(data, 10), "collapsed_gibbs", **SMALL)
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
        ({"stochastic": True}, "steps of one block each are for em and cavi"),
        ({"num_sample": 3}, "num_samples"),
        ({"method": "gibbs"}, "use method=cavi or collapsed_gibbs"),
    ],
)
def test_mistakes(corpus, given, said):
    model, data = corpus
    with pytest.raises(ZooError, match=said):
        fit_stream(model, cut(data, 13), **{"method": "collapsed_gibbs"} | given)


def test_samples_weights_and_models_that_are_refused(corpus):
    model, data = corpus
    with pytest.raises(ZooError, match="whose numbers must be known: leave sample out"):
        fit_stream(model, cut(data, 13), "collapsed_gibbs", sample=take(data, np.arange(5)), **SMALL)
    heavy = data._replace(weight=np.full(30, 3.0))
    with pytest.raises(ZooError, match="one latent per row"):
        fit_stream(MODELS["latent_dirichlet"](heavy, num_topics=2), [heavy], "collapsed_gibbs", **SMALL)
    rows = load_data(np.random.default_rng(0).normal(size=(30, 3)))
    with pytest.raises(ZooError, match="rows of this model have none; use method=gibbs"):
        fit_stream(MODELS["gmm"](rows, num_components=2), rows, "collapsed_gibbs")
    with pytest.raises(ZooError, match="integrated out on paper"):
        fit_stream(MODELS["factor_analysis"](rows, num_factors=1), rows, "collapsed_gibbs")


# ---------------------------------------------------------------------------------------------------------------------
# Processes

OF_FILES = {"sizes": {"block_rows": 40, "sample_rows": 30}, "model": ("latent_dirichlet", {"num_topics": 3})}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of two tables of counts, 150 documents in all."""
    folder = tmp_path_factory.mktemp("documents") / "rows"
    folder.mkdir()
    data = load_data("bars", num_rows=150, length=12)
    table = pd.DataFrame(np.asarray(data.x), columns=[f"w{v}" for v in range(len(data.columns))])
    for place, part in enumerate(np.array_split(np.arange(150), [100])):
        table.iloc[part].to_parquet(folder / f"part{place}.parquet")
    return folder


def run(number, rows, folder, **options):
    folder.mkdir(exist_ok=True)
    given = OF_FILES | SMALL | {"rows": str(rows), "folder": str(folder)} | options
    for code, _, errors in ended(started(number, "collapsed_gibbs", folder / "results.nc", **given)):
        assert code == 0, errors
    return load(folder)


@pytest.mark.slow
def test_processes_draw_what_one_draws(files, tmp_path):
    """Bit for bit: counts are whole numbers, and random numbers belong to blocks."""
    one, two = (run(number, files, tmp_path / str(number)) for number in (1, 2))
    assert_same_draws(one, two)
    assert one.attrs["total_weight"] == two.attrs["total_weight"] == 150
    assert one["posterior"].sizes["document"] >= 30


@pytest.mark.slow
def test_two_processes_go_on_where_one_was_killed(files, tmp_path, monkeypatch, always_due):
    whole, folder = run(1, files, tmp_path / "whole"), tmp_path / "killed"
    folder.mkdir()
    written = []

    def dying(*arguments):
        store(*arguments)
        written.append(arguments[1])
        if len(written) == 4:
            raise KilledError

    source = read_stream(files, folder=folder, **OF_FILES["sizes"])
    name, given = OF_FILES["model"]
    model, options = MODELS[name](source.sample, **given), SMALL | {"folder": folder, "checkpoint_seconds": 0}
    with monkeypatch.context() as patch:
        patch.setattr("inference.streaming.topic_chains.store", dying)
        with pytest.raises(KilledError):
            fit_stream(model, source, "collapsed_gibbs", **options)
    assert written[-1] == 4  # sweeps of the draws
    assert len(list(folder.glob("topics-*"))) == 2 * source.num_blocks  # those before are still there
    assert_same_draws(run(2, files, folder, checkpoint_seconds=0), whole)
    assert len(list(folder.glob("topics-*"))) == source.num_blocks
