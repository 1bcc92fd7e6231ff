"""Latent Dirichlet allocation: program, algebra and every method against sums over the topics of all tokens."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from numpyro.infer.util import log_density
from scipy import sparse, stats
from scipy.special import gammaln
from topic_models import DOCUMENTS, OPTIONS, TOKENS, WORDS, allowed, build, distances_of_overlaps, random_sites
from two_stage import assert_standard_normal

from inference import compare, fit
from inference.diagnostics.checks import diagnose
from models import MODELS, Data, ZooError
from models.algebra import add, inner, log_prior
from models.data.documents import documents
from models.datasets.corpora import bags_of_texts, bar_pictures, bars, python_topics

COUNTS = np.array([[row.count(word) for word in WORDS] for row in DOCUMENTS], float)
every_kind = pytest.mark.parametrize("kind", OPTIONS)


def arrangements():
    """Log of how many orders of the tokens have these counts: (M,)."""
    return gammaln(COUNTS.sum(1) + 1) - gammaln(COUNTS + 1).sum(1)


@cache
def values(kind):
    """Both sides at one θ, of two topics of every token drawn at random."""
    model, data = build(kind)
    algebra, rows, sites = model.algebra, model.rows(data), random_sites()
    z = np.array([int(np.flatnonzero(allowed(kind)[d])[i % allowed(kind)[d].sum()]) for i, (d, _) in enumerate(TOKENS)])
    there = np.asarray(rows.tokens.times) > 0
    topic = np.zeros(there.shape, int)
    order = np.argsort([d * 10 + w for d, w in TOKENS], kind="stable")  # tokens of a document in the order of their words
    topic[there] = z[order]

    @jax.jit
    def both(rows, sites):
        T = algebra.natural(model.hyper, sites)
        features = algebra.features(model.hyper, rows)
        local = algebra.local_natural_parameters(T)(features)
        mean = algebra.latent.mean(None, local)
        weight = jnp.ones(len(DOCUMENTS))
        gradient = jax.grad(lambda T: algebra.latent.log_partition(algebra.local_natural_parameters(T)(features)).sum())(T)
        marginal, _ = log_density(model.spec, (dict(model.hyper), rows), {"marginal": True}, sites)
        complete, _ = log_density(model.spec, (dict(model.hyper), rows), {"marginal": False}, sites | {"topic": topic})
        return {
            "marginal": marginal,
            "complete": complete,
            "log_partition": algebra.latent.log_partition(local),
            "energy": algebra.latent.energy(mean, local),
            "entropy": algebra.latent.reported.entropy(mean, local),
            "report": algebra.latent.reported.part(mean),
            "statistics": algebra.statistics(weight, mean, features),
            "mode": algebra.statistics(weight, algebra.latent.mode(None, local), features),
            "gradient": gradient,
            "log_prior": log_prior(algebra, model.prior, T),
            "product": inner(T, add(dict(model.prior), algebra.statistics(weight, mean, features))),
        }

    return jax.tree.map(np.asarray, both(rows, sites)), sites, [(d, w, k) for (d, w), k in zip(TOKENS, z, strict=True)]


def joint(kind, sites):
    """(tokens, K): p(z = k, w | d) of every token, 0 where the topic is not allowed."""
    return np.array([np.where(allowed(kind)[d], sites["topic_probs"][d], 0) * sites["word_probs"][:, w] for d, w in TOKENS])


@every_kind
def test_program_and_algebra_are_sums_over_the_topics_of_tokens(kind):
    """Log p(x_d | θ) of every document, with its multinomial coefficient; and the program's, with and without topics."""
    found, sites, given = values(kind)
    log_likelihood = arrangements()
    np.add.at(log_likelihood, [d for d, _ in TOKENS], np.log(joint(kind, sites).sum(1)))
    assert near(found["log_partition"], log_likelihood, rtol=1e-13, atol=1e-13)
    assert near(found["marginal"], found["log_prior"] + log_likelihood.sum(), rtol=1e-12)
    drawn = sum(np.log(sites["topic_probs"][d, k] * sites["word_probs"][k, w]) for d, w, k in given)
    assert near(found["complete"], found["log_prior"] + arrangements().sum() + drawn, rtol=1e-12)


def test_the_prior_is_a_dirichlet_of_every_document_and_topic():
    found, sites, _ = values("asymmetric")
    alpha, eta = OPTIONS["asymmetric"]["topic_concentration"], OPTIONS["asymmetric"]["word_concentration"]
    wanted = sum(stats.dirichlet(alpha).logpdf(row) for row in sites["topic_probs"])
    assert near(found["log_prior"], wanted + sum(stats.dirichlet(eta).logpdf(row) for row in sites["word_probs"]), rtol=1e-12)
    assert values("flat")[0]["log_prior"] == 0


@every_kind
def test_expected_topics_are_those_of_the_tokens(kind):
    """By document and by word; entropy and energy of all tokens; and the gradient of the log partition is the statistics."""
    found, sites, _ = values(kind)
    probs = joint(kind, sites)
    share = probs / probs.sum(1, keepdims=True)
    topic, word = np.zeros((len(DOCUMENTS), 2)), np.zeros((2, 3))
    entropy = np.zeros(len(DOCUMENTS))
    for (d, w), row in zip(TOKENS, share, strict=True):
        topic[d] += row
        word[:, w] += row
        entropy[d] += stats.entropy(row)
    assert near(found["statistics"]["topic_probs"], topic, atol=1e-13)
    assert near(found["statistics"]["word_probs"], word, atol=1e-13)
    assert near(found["entropy"], entropy, atol=1e-12)
    assert near(found["log_partition"] - found["energy"], entropy, atol=1e-12)
    total = COUNTS.sum(1)[:, None]
    assert near(found["report"], np.where(total > 0, topic / np.maximum(total, 1), 0.5), atol=1e-13)
    assert near(found["gradient"]["topic_probs"], topic, atol=1e-12)
    assert near(found["gradient"]["word_probs"], word, atol=1e-12)
    hard = np.zeros((2, 3))
    for (_, w), row in zip(TOKENS, share, strict=True):
        hard[row.argmax(), w] += 1
    assert near(found["mode"]["word_probs"], hard)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "cavi"])
def test_methods_climb_and_em_finds_what_map_does(method):
    """The objective rises to 1e-9; EM and `map` reach one maximum from one start."""
    model, data = build()
    tree = fit(model, data, method, start=random_sites(), max_iter=200, tol=1e-13, progress=False)
    objective = np.asarray(tree["optimization"].to_dataset()["objective"])[0]
    objective = objective[np.isfinite(objective)]
    assert (np.diff(objective) > -1e-9).all()
    if method == "em":
        other = fit(model, data, "map", start=random_sites(), progress=False)
        value = float(np.asarray(other["functionals"].to_dataset()["log_joint"]).ravel()[0])
        assert value == pytest.approx(objective[-1], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "draws"), [("gibbs", 2000), ("nuts", 1000)])
def test_samplers_have_the_exact_posterior_means(method, draws):
    """Σ_d θ_d1 θ_d2 and Σ_v β_1v β_2v."""
    model, data = build()

    def deviations(seed, times):
        return distances_of_overlaps(
            fit(model, data, method, num_samples=draws * times, num_chains=4, seed=seed, progress=False)
        )

    assert_standard_normal(deviations, 1)


def test_every_source_of_counts_is_one_model():
    """Documents, a dense and a sparse table; words in another order of columns."""
    sites = random_sites()
    wanted = values("default")[0]["marginal"]
    table = Data("table", COUNTS, tuple(WORDS))
    shuffled = Data("table", COUNTS[:, [2, 0, 1]], ("c", "a", "b"))
    for data in (table, table._replace(x=sparse.csr_array(COUNTS))):
        model = build(data=data)[0]
        for rows in (data, shuffled, documents(DOCUMENTS)):
            found = jax.jit(lambda *given, spec=model.spec: log_density(spec, given[:2], {}, given[2])[0])(
                dict(model.hyper), model.rows(rows), sites
            )
            assert near(found, wanted, rtol=1e-13)


@pytest.mark.slow
def test_all_methods_run_and_are_compared():
    """One table of them all; map and laplace read the program, the others the algebra. Of nuts, see the posterior means.

    The log joint is that of the sites returned, document by document; em and map end at one mode; no optimum is above theirs;
    a bound has a place, and elpd only what is of the posterior.
    """
    model, data = build()
    small = {"gibbs": {"num_samples": 50}, "cavi": {"num_samples": 50}}
    methods = ("em", "hard_em", "stochastic_em", "map", "cavi", "gibbs", "laplace")
    trees = {method: fit(model, data, method, progress=False, **small.get(method, {})) for method in methods}
    found = compare(trees).table
    for method in ("em", "hard_em", "stochastic_em", "map"):
        sites = {str(name): site.values for name, site in trees[method]["point_estimate"].data_vars.items()}
        assert near(found["log joint"][method], naive_log_joint(sites), rtol=1e-9)
    best = found["log joint"][["em", "hard_em", "stochastic_em", "map"]]
    assert near(best["em"], best["map"], rtol=1e-7)
    assert (best <= best["em"] + 1e-6).all()
    assert found["ELBO"].notna().sum() == found["ELBO"].notna()["cavi"] == 1
    assert found["elpd"].notna().to_dict() == dict.fromkeys(methods, False) | {"gibbs": True, "laplace": True}
    assert found["R-hat"].notna().to_dict() == dict.fromkeys(methods, False) | {"gibbs": True}
    assert "of its own" in " ".join(diagnose(trees["cavi"]).problems)
    with pytest.raises(ZooError, match="exact"):
        fit(model, data, "exact")


def naive_log_joint(sites):
    """SciPy's Dirichlets of the default prior, and every token by its mixture of topics."""
    prior = sum(stats.dirichlet(np.full(len(p), 1.1)).logpdf(p / p.sum()) for rows in sites.values() for p in rows)
    return prior + arrangements().sum() + np.log(joint("default", sites).sum(1)).sum()


# ---------------------------------------------------------------------------------------------------------------------
# Corpora and what people give


@pytest.mark.slow
def test_bars_are_found():
    """EM from its best start: every one of the ten bars within 0.1 of total variation of a topic of its own."""
    data = bars(300, 60, seed=1)
    tree = fit(MODELS["latent_dirichlet"](data), data, "em", max_iter=300, progress=False)
    found = np.asarray(tree["point_estimate"].to_dataset()["word_probs"])
    distance = 0.5 * np.abs(found[:, None, :] - bar_pictures()[None]).sum(-1)
    assert sorted(distance.argmin(0)) == list(range(10))
    assert distance.min(0).max() < 0.1


def test_the_reference_that_ships_with_python():
    """A document a topic, words of two documents or more, and no stop words."""
    data = python_topics()
    assert data.num_rows > 50
    assert min((data.x > 0).sum(0)) >= 2
    assert not {"the", "and", "of"} & set(data.columns)
    with pytest.raises(ZooError, match="no words are left"):
        bags_of_texts(["a b", "12 34"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_topics": 0}, "num_topics must be a whole number above 0"),
        ({"topic_concentration": 0.0}, "topic_concentration must be finite and above 0"),
        ({"topic_concentration": [1.0, 1.0, 1.0]}, "expected a number or numbers of shape"),
        ({"word_concentration": -1.0}, "word_concentration must be finite and above 0"),
        ({"prior": "weak"}, "is not one of default, flat"),
        ({"labelled": True}, "has no labels"),
        ({"seeds": {"x": ["z"]}}, "'z' is not a word of this corpus"),
        ({"seeds": {"x": ["a"], "y": ["b"], "z": ["c"]}}, "give num_topics=3"),
        ({"seeds": {"x": ["a"]}, "prior": "flat"}, "seeds change the prior"),
        ({"seeds": ["a", "b"]}, "seeds must map topic names to lists of words"),
        ({"seeds": {"x": "ab"}}, "seeds must map topic names to lists of words"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(ZooError, match=message):
        MODELS["latent_dirichlet"](documents(DOCUMENTS), **({"num_topics": 2} | options))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1.0, -1.0]], "counts cannot be negative"),
        ([[0.5, 1.0]], "whole numbers"),
        ([[np.nan, 1.0], [1.0, 1.0]], "missing"),
        ([[0.0, 0.0], [0.0, 0.0]], "contain no tokens"),
    ],
)
def test_what_are_no_counts(x, message):
    with pytest.raises(ZooError, match=message):
        MODELS["latent_dirichlet"](Data("x", np.array(x), ("a", "b")))


def test_other_documents_have_proportions_of_their_own():
    model, _ = build()
    with pytest.raises(ZooError, match="built on 4 rows, each with separate topic_probs, and these are 2"):
        fit(model, documents(DOCUMENTS[:2]), "em")


def test_seeds_name_topics_and_weigh_their_words():
    model = MODELS["latent_dirichlet"](documents(DOCUMENTS), num_topics=2, seeds={"x": ["b", "c"]}, seed_weight=5.0)
    assert model.naming.coords["topic"] == ["x", "1"]
    assert near(model.hyper["word_concentration"] - 1.1, [[0, 5, 5], [0, 0, 0]], atol=1e-12)
    assert model.symmetry is None


@pytest.mark.slow
def test_an_empty_document_has_a_mode_under_a_flat_prior():
    """All proportions are equally likely, and the middle is as good as any; no NaN reaches a mean over documents."""
    model, data = build("flat")
    tree = fit(model, data, "em", num_starts=2)
    assert near(tree["point_estimate"]["topic_probs"][1], 0.5)
    assert np.isfinite(tree["functionals"]["topic_share"]).all()


def test_topics_have_names_of_their_own():
    """A seeded topic may be called by a number: the others are not."""
    for name in "012":
        names = MODELS["latent_dirichlet"](documents(DOCUMENTS), num_topics=3, seeds={name: ["b"]}).naming.coords["topic"]
        assert names[0] == name
        assert len(set(names)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("documents_", [[["a", "a"]], [["a"], ["a", "a"]], [["a", "b"]], [[], ["b"]]])
def test_tiny_corpora(documents_):
    """One document, one word, more topics than words, an empty document: finite and climbing."""
    data = documents(documents_)
    tree = fit(MODELS["latent_dirichlet"](data, num_topics=3), data, "em", progress=False)
    assert np.isfinite(np.asarray(tree["functionals"].to_dataset()["log_joint"])).all()
