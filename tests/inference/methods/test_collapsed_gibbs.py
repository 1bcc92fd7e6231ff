"""Collapsed Gibbs sampling as a method: its density is the algebra's, its chains are their own, its hyperparameters climb."""

from functools import cache

import jax
import numpy as np
import pytest
from interrupting import Interrupting
from naive import near
from naive_topics import document_of
from scipy import stats
from topic_models import DOCUMENTS, OPTIONS, allowed, build, distances_of_overlaps, random_sites
from two_stage import LIMIT, assert_standard_normal, of_distribution

from inference import compare, fit
from inference.topics.stability import agreement_of_chains, topic_stability
from models import MODELS, ZooError, load_data
from models.algebra import add, inner, log_partition, log_prior
from models.data.documents import documents
from models.datasets.corpora import bars
from models.topics.collapsed import corpus_of

SHORT = {"num_warmup": 8, "num_samples": 6, "num_chains": 2, "thin": 3}


def host(model, data):
    return jax.tree.map(np.asarray, model.rows(data))


@pytest.mark.parametrize("kind", ["default", "asymmetric", "labelled"])
def test_the_joint_of_topics_is_the_algebras_with_parameters_integrated_out(kind):
    """Log p(x, z) = log p(x, z, θ) − log p(θ | x, z), at any θ: for topics at random, to rounding of sums of some ten terms."""
    model, data = build(kind)
    algebra, rows, hyper = model.algebra, host(model, data), jax.tree.map(np.asarray, dict(model.hyper))
    sampler = algebra.structure.collapsed.sampler(hyper, rows)
    corpus, sites = corpus_of(rows, 3), random_sites(3)
    T = algebra.natural(model.hyper, sites)
    for chain in range(5):
        state = sampler.start(0, chain, None)
        stats = {"topic_probs": np.zeros((len(DOCUMENTS), 2)), "word_probs": np.zeros((2, 3))}
        document = document_of(corpus)
        assert allowed(kind)[document, state.topic].all()
        np.add.at(stats["topic_probs"], (document, state.topic), 1)
        np.add.at(stats["word_probs"], (state.topic, corpus.word), 1)
        nu = add(dict(model.prior), stats)
        complete = float(np.sum(rows.carrier)) + inner(T, stats) + log_prior(algebra, model.prior, T)
        posterior = inner(T, nu) - log_partition(algebra, nu)
        assert near(sampler.log_joint(state), complete - posterior, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("integrate", ["all", "local"])
def test_draws_have_the_exact_posterior_means(integrate):
    """Σ_d θ_d1 θ_d2 and Σ_v β_1v β_2v."""
    model, data = build()

    def deviations(seed, times):
        options = {"num_warmup": 100, "num_samples": 2000 * times, "thin": 5, "seed": seed, "integrate": integrate}
        tree = fit(model, data, "collapsed_gibbs", **options)
        assert tree["functionals"]["collapsed_log_joint"].shape == (4, 2000 * times)
        return distances_of_overlaps(tree)

    assert_standard_normal(deviations, 2)


@cache
def short(seed=0, **options):
    model, data = build()
    return fit(model, data, "collapsed_gibbs", seed=seed, **(SHORT | options))


@pytest.mark.slow
def test_a_seed_is_a_result():
    """Two chains are the first two of four; another seed is another result."""
    first, four, other = (tree["posterior_raw"]["word_probs"].values for tree in (short(), short(num_chains=4), short(seed=1)))
    np.testing.assert_array_equal(first, four[:2])
    assert np.abs(first - other).min() > 0


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 3, 9])
@pytest.mark.parametrize("integrate", ["all", "local"])
def test_a_result_does_not_depend_on_the_cores(integrate, cores, monkeypatch):
    """Four chains on one thread, on three, and on four that have two each for the documents of their chain."""
    wanted = short(num_chains=4, integrate=integrate)["posterior_raw"]
    monkeypatch.setattr("inference.methods.collapsed_gibbs.num_cores", lambda: cores)
    model, data = build()
    found = fit(model, data, "collapsed_gibbs", seed=0, **(SHORT | {"num_chains": 4, "integrate": integrate}))
    for name in ("topic_probs", "word_probs"):
        np.testing.assert_array_equal(found["posterior_raw"][name], wanted[name])


@pytest.mark.slow
def test_others_are_compared_with_its_draws():
    """They are of the posterior: a reference, with a rate of effective draws."""
    found = compare({"collapsed": short()})
    assert found.reference == "collapsed"
    assert np.isfinite(found.table.loc["collapsed", "ESS/s"])


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["warm-up", "sampling"])
@pytest.mark.parametrize("learn", ["none", "asymmetric"])
def test_a_resumed_run_equals_an_unbroken_one(phase, learn, tmp_path):
    model, data = build()
    options = SHORT | {"learn": learn}
    broken = pytest.raises(KeyboardInterrupt, match="before the first draw") if phase == "warm-up" else None
    interrupting = Interrupting(phase)
    if broken:
        with broken:
            fit(model, data, "collapsed_gibbs", folder=tmp_path, progress=interrupting, **options)
    else:
        tree = fit(model, data, "collapsed_gibbs", folder=tmp_path, progress=interrupting, **options)
        assert tree.attrs["interrupted"] == 1
        assert 0 < tree["posterior"].sizes["draw"] < options["num_samples"]
    tree = fit(model, data, "collapsed_gibbs", folder=tmp_path, **options)
    whole = short(learn=learn)
    for name in ("topic_probs", "word_probs"):
        np.testing.assert_array_equal(tree["posterior"][name], whole["posterior"][name])
    np.testing.assert_array_equal(tree["constant_data"]["topic_concentration"], whole["constant_data"]["topic_concentration"])


@pytest.mark.slow
def test_concentrations_are_learnt():
    """Of 300 pictures drawn under α = 0.3: the standard error of ln α is 0.04, by the curvature."""
    options = {"num_warmup": 400, "num_samples": 5, "num_chains": 2, "learn": "symmetric"}

    def learnt(seed, times, **changed):
        data = bars(300 * times, 60, concentration=0.3, seed=seed)
        model = MODELS["latent_dirichlet"](data, topic_concentration=2.0, word_concentration=0.5)
        return fit(model, data, "collapsed_gibbs", **(options | changed))

    def deviations(seed, times):
        alpha = learnt(seed, times)["constant_data"]["topic_concentration"].values
        assert np.ptp(alpha) == 0
        return np.log(alpha[0] / 0.3) / (0.04 / np.sqrt(times))

    assert_standard_normal(deviations, 4)
    tree = learnt(4, 1, num_warmup=40)
    assert "hyperparameters were learnt" in tree.attrs["warnings"]
    assert "posterior_raw" in tree  # topics alike a priori stay exchangeable
    uneven = learnt(4, 1, learn="asymmetric", num_warmup=40)
    assert np.ptp(uneven["constant_data"]["topic_concentration"].values) > 0
    assert "posterior_raw" not in uneven


@pytest.mark.slow
def test_a_warm_up_of_one_block_learns():
    """States further apart than the warm-up is long: what its only block ends with is learnt from."""
    model, data = build()
    options = {"num_warmup": 5, "num_samples": 2, "num_chains": 2, "thin": 7, "learn": "asymmetric"}
    tree = fit(model, data, "collapsed_gibbs", **options)
    assert (tree["constant_data"]["topic_concentration"] != model.hyper["topic_concentration"]).all()
    assert topic_stability(model, tree).equals(agreement_of_chains(tree))  # both as topics that hyperparameters tell apart


@pytest.mark.parametrize("learn", ["symmetric", "asymmetric"])
def test_seeds_are_learnt_around(learn):
    """The prior of words is what makes a seeded topic that topic: it stays as given, to rounding."""
    data = documents(DOCUMENTS)
    model = MODELS["latent_dirichlet"](data, num_topics=2, seeds={"x": ["b"]}, seed_weight=50.0)
    tree = fit(model, data, "collapsed_gibbs", learn=learn, **SHORT)
    assert near(tree["constant_data"]["word_concentration"], model.hyper["word_concentration"], rtol=1e-12)
    assert "word_concentration as given" in tree.attrs["warnings"]
    assert (tree["constant_data"]["topic_concentration"] != 1.1).all()


@pytest.mark.slow
def test_documents_of_weight_0_are_not_there():
    """Their words do not count, and their proportions are independent draws of the prior: their mean, and all by the
    Kolmogorov-Smirnov test. Those of a document with words are not.
    """
    data = load_data(documents(DOCUMENTS))._replace(weight=np.array([1.0, 1.0, 0.0, 1.0]))
    model = MODELS["latent_dirichlet"](data, num_topics=2)
    corpus = corpus_of(host(model, data), 3)
    assert list(np.diff(corpus.starts)) == [3, 0, 0, 1]
    with pytest.raises(ZooError, match="row 1 of the data weighs 2"):
        fit(model, data._replace(weight=np.full(4, 2.0)), "collapsed_gibbs", **SHORT)
    concentration = OPTIONS["asymmetric"]["topic_concentration"]
    model = MODELS["latent_dirichlet"](
        data, num_topics=2, topic_concentration=concentration, seeds={"x": ["b", "c"]}, seed_weight=50.0
    )
    prior = stats.beta(*concentration)

    def deviations(seed, times):
        options = {"num_warmup": 10, "num_samples": 1000 * times, "num_chains": 4, "thin": 1, "seed": seed}
        share = fit(model, data, "collapsed_gibbs", **options)["posterior"]["topic_probs"].values[..., 0].reshape(-1, 4)
        law = [of_distribution(share[:, d], prior.cdf) for d in range(4)]
        assert min(law[0], law[3]) > LIMIT
        return [law[1], law[2], (share[:, 2].mean() - prior.mean()) / (prior.std() / np.sqrt(len(share)))]

    assert_standard_normal(deviations)


def test_chains_start_where_they_are_told():
    """At word probabilities of 0 and 1 the topics are known: the first state has them."""
    model, data = build()
    sites = {"topic_probs": np.full((4, 2), 0.5), "word_probs": np.array([[1.0, 0, 0], [0, 0.5, 0.5]])}
    state = model.algebra.structure.collapsed.sampler(model.hyper, host(model, data)).start(0, 0, sites)
    np.testing.assert_array_equal(state.topic, corpus_of(host(model, data), 3).word > 0)


@pytest.mark.parametrize(
    ("name", "options", "method", "message"),
    [
        ("gmm", {"tails": "student_t"}, {}, "needs a model with a collapsed sampler"),
        ("latent_dirichlet", {"prior": "flat"}, {}, "prior=flat makes no proper posterior"),
        ("latent_dirichlet", {}, {"learn": "symmetric", "num_warmup": 0}, "learns during the warm-up, of which there is none"),
        ("latent_dirichlet", {}, {"learn": "both"}, "learn='both' is not one of none, symmetric, asymmetric"),
        ("latent_dirichlet", {}, {"thin": 0}, "thin must be at least 1"),
        ("latent_dirichlet", {"labelled": True}, {"learn": "symmetric"}, "takes labels"),
        ("latent_dirichlet", {}, {"num_samples": 10**9}, "take fewer"),
    ],
)
def test_what_it_refuses(name, options, method, message):
    data = load_data("iris") if name == "gmm" else documents(DOCUMENTS)
    if options.get("labelled"):
        data = load_data(data, labels=["x", "y", "x", "y"])
    with pytest.raises(ZooError, match=message):
        fit(MODELS[name](data, **options), data, "collapsed_gibbs", **method)
