"""Laws of the topic model under its samplers: Geweke's joint test, the ten bars, and corpora at the edge of what there is."""

import jax
import numpy as np
import pytest
from topic_models import build
from two_stage import assert_standard_normal, in_blocks, of_distributions

from inference import fit
from inference.comparison.criteria import alarms, criteria
from inference.methods import gibbs
from models import MODELS, Data, ZooError
from models.data.documents import documents
from models.datasets.corpora import bar_pictures, bars

CHAINS, SWEEPS, LENGTH = 4_000, 5, 4


@pytest.mark.slow
def test_geweke_of_the_uncollapsed_sampler():
    """Words given θ, then topics and θ given words, from the prior: Kolmogorov-Smirnov on 6 functions of θ and the words."""
    model, _ = build("asymmetric")
    hyper, prior = dict(model.hyper), dict(model.prior)
    alpha, eta = (np.asarray(hyper[f"{kind}_concentration"]) for kind in ("topic", "word"))

    def prior_draws(rng):
        words = np.stack([rng.dirichlet(row, CHAINS) for row in eta], axis=1)
        return {"topic_probs": rng.dirichlet(alpha, (CHAINS, 4)), "word_probs": words}

    def chain(sites, key):
        def rows_of(key, T):
            return model.abilities.simulate(key, hyper, model.algebra.sites(hyper, T), 4, length=LENGTH)

        def sweep(T, key):
            first, second = jax.random.split(key)
            return gibbs.step(model.algebra, (hyper, prior, rows_of(first, T)), second, T)[0], None

        T, _ = jax.lax.scan(sweep, model.algebra.natural(hyper, sites), jax.random.split(key, SWEEPS))
        return model.algebra.sites(hyper, T), rows_of(jax.random.fold_in(key, 1), T).words.word

    run = jax.jit(jax.vmap(chain))

    def functions(sites, words, rng):
        theta, beta = np.asarray(sites["topic_probs"]), np.asarray(sites["word_probs"])
        return {
            "first proportion": theta[:, 0, 0],
            "square": (theta[:, 1] ** 2).sum(-1),
            "a word": beta[:, 0, 0],
            "another": beta[:, 1, 2],
            "both": np.einsum("ck,ckv->cv", theta[:, 2], beta)[:, 1],
            "drawn": np.asarray(words) + rng.random(CHAINS),  # whole numbers, told apart by a continuous law
        }

    def found_and_wanted(seed):
        rng = np.random.default_rng(seed)
        found, words = run(prior_draws(rng), jax.random.split(jax.random.PRNGKey(seed + 1), CHAINS))
        wanted = prior_draws(rng)
        drawn = np.array([rng.choice(3, p=theta[0] @ beta) for theta, beta in zip(*wanted.values(), strict=True)])
        return functions(found, np.asarray(words)[:, 0, 0], rng), functions(wanted, drawn, rng)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))


@pytest.mark.slow
def test_the_ten_bars_are_found_by_collapsed_sampling():
    """1000 pictures of 100 pixels: every bar within 0.1 of total variation of a topic of its own, in the better chain."""
    data = bars(1000, 100, seed=5)
    model = MODELS["latent_dirichlet"](data, topic_concentration=1.0, word_concentration=0.1)
    tree = fit(model, data, "collapsed_gibbs", num_warmup=300, num_samples=10, num_chains=2)
    best = int(tree["functionals"]["collapsed_log_joint"].values.mean(1).argmax())
    words = tree["posterior_raw"]["word_probs"].values[best].mean(0)
    distance = 0.5 * np.abs(words[:, None, :] - bar_pictures()[None]).sum(-1)
    assert sorted(distance.argmin(0)) == list(range(10))
    assert distance.min(0).max() < 0.1


CORPORA = {
    "one document": documents([list("aab")]),
    "one word": documents([["a"], ["a", "a"]]),
    "an empty one": documents([[], list("ab"), ["b"]]),
    "a word that never occurs": Data("table", np.array([[1.0, 0, 2], [0, 0, 1]]), ("a", "b", "c")),
}
SMALL = {
    "cavi": {"num_starts": 2, "num_samples": 10, "num_chains": 1},
    "gibbs": {"num_warmup": 10, "num_samples": 10, "num_chains": 2},
    "collapsed_gibbs": {"num_warmup": 10, "num_samples": 10, "num_chains": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", SMALL)
@pytest.mark.parametrize(
    ("name", "topics"), [("an empty one", 1), ("one document", 4), ("one word", 4), ("a word that never occurs", 4)]
)
def test_corpora_at_the_edge(name, topics, method):
    """One topic, and more than there are words: finite, and probabilities sum to one."""
    data = CORPORA[name]
    tree = fit(MODELS["latent_dirichlet"](data, num_topics=topics), data, method, **SMALL[method])
    for site, values in tree["posterior"].data_vars.items():
        assert np.isfinite(values).all(), site
        assert np.abs(values.sum(values.dims[-1]) - 1).max() < 1e-9
    assert all(np.isfinite(values).all() for values in tree["functionals"].data_vars.values())


@pytest.mark.slow
def test_one_seed_is_one_result_in_every_sampler():
    """The same numbers again, of the algebra's sampler and of the compiled one."""
    data = CORPORA["an empty one"]
    model = MODELS["latent_dirichlet"](data, num_topics=2)
    for method in ("gibbs", "collapsed_gibbs"):
        first, second = (fit(model, data, method, seed=7, **SMALL[method])["posterior"]["word_probs"].values for _ in range(2))
        np.testing.assert_array_equal(first, second)


@pytest.mark.slow
def test_criteria_do_not_count_proportions():
    """AIC and BIC would count parameters that grow with the documents; a line says so, and what compares instead."""
    data = CORPORA["an empty one"]
    tree = fit(MODELS["latent_dirichlet"](data, num_topics=2), data, "em", num_starts=1)
    found = criteria(tree)
    assert np.isnan([found["AIC"], found["BIC"]]).all()
    assert "every row has its own topic_probs" in alarms({"em": tree})[0]


def test_laplace_refuses_more_parameters_than_a_hessian_may_have():
    """Before it climbs: 100 documents of 120 words under 60 topics have 13,000 free parameters."""
    data = Data("table", np.ones((100, 120)), tuple(map(str, range(120))))
    with pytest.raises(ZooError, match="13040 free parameters"):
        fit(MODELS["latent_dirichlet"](data, num_topics=60), data, "laplace", num_starts=1)
