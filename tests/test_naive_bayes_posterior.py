"""Every method on every emission; evidence, posterior and predictive against closed forms; Geweke's test."""

import jax
import numpy as np
import pytest
from naive import SHORT, is_finite, neighbours_increase
from naive_emissions import ROWS, build, every_emission, fitted, table
from scipy import stats
from scipy.special import logsumexp

import models.base
from inference import METHODS, fit, posterior_predictive, predict
from inference.program import latent_sites
from models import MODELS, Data, ZooError, load_data
from models.documents import documents
from models.naive_bayes import EMISSIONS


@every_emission
@pytest.mark.parametrize("method", [method for method in METHODS if method != "collapsed_gibbs"])
def test_every_method_runs_on_every_emission(emission, method):
    """Finite, with named classes; the climbers never fall, and MAP ends where EM does (1e-6)."""
    tree = fitted(emission, method)
    assert is_finite(tree)
    assert list(tree["latent"]["class"].values) == ["a", "b", "c"]
    if method in ("em", "cavi"):
        traces = tree["optimization"]["criterion"].values
        assert all(neighbours_increase(trace, 1e-9) for trace in traces)
    if method == "map":
        em = float(fitted(emission, "em")["functionals"]["log_joint"])
        assert float(tree["functionals"]["log_joint"]) == pytest.approx(em, rel=1e-6)


@pytest.mark.slow
@every_emission
def test_samplers_agree_with_the_exact_posterior(emission):
    """Means of the functionals by gibbs and nuts against independent exact draws (2 missing labels, 2 sets).

    |z| below 5 with Monte Carlo errors by ArviZ, about 8 numbers for 5 emissions and 2 samplers: false alarms below 1e-4.
    """
    import arviz_stats

    exact = fitted(emission, "exact")["functionals"].to_dataset()
    for method in ("gibbs", "nuts"):
        found = fitted(emission, method)["functionals"].to_dataset()
        for name in ("log_joint", "log_likelihood", "class_probs", "entropy"):
            gap = exact[name].mean(("chain", "draw")) - found[name].mean(("chain", "draw"))
            error = np.sqrt(arviz_stats.mcse(exact[name]) ** 2 + arviz_stats.mcse(found[name]) ** 2)
            assert (np.abs(gap) < 5 * error).all(), (method, name)


@pytest.mark.parametrize("emission", ["bernoulli", "multinomial", "categorical", "poisson"])
def test_evidence_is_the_closed_form(emission):
    """With every label given: Beta-binomial, Dirichlet-multinomial and Gamma-Poisson marginal likelihoods."""
    from scipy.special import betaln, gammaln

    labels = tuple("abc" * 5)
    data = table(emission, labels)
    model = build(emission, data)
    hyper = model.hyper

    def dirichlet(concentration, count):
        return (
            gammaln(concentration.sum())
            - gammaln((concentration + count).sum())
            + np.sum(gammaln(concentration + count) - gammaln(concentration))
        )

    expected = dirichlet(hyper["concentration"], np.bincount(data.labels, minlength=3))
    for c in range(3):
        x = data.x[data.labels == c]
        if emission == "bernoulli":
            ones = x.sum(0)
            expected += (betaln(hyper["a"] + ones, hyper["b"] + len(x) - ones) - betaln(hyper["a"], hyper["b"])).sum()
        elif emission == "multinomial":
            expected += dirichlet(hyper["word_concentration"], x.sum(0))
            expected += (gammaln(x.sum(1) + 1) - gammaln(x + 1).sum(1)).sum()
        elif emission == "categorical":
            for d in range(data.x.shape[1]):
                levels = len(np.unique(data.x[:, d]))
                count = np.array([(x[:, d] == level).sum() for level in np.unique(data.x[:, d])])
                expected += dirichlet(np.full(levels, float(hyper["level_concentration"])), count)
        else:
            shape, scale = hyper["shape"], hyper["inverse_scale"]
            total = x.sum(0)
            expected += (
                shape * np.log(scale) - gammaln(shape) + gammaln(shape + total) - (shape + total) * np.log(scale + len(x))
            ).sum() - gammaln(x + 1).sum()
    found = fit(model, data, method="exact", **SHORT["exact"]).attrs["log_evidence"]
    assert found == pytest.approx(float(expected), rel=1e-11)


def test_posterior_predictive_is_laplaces_rule():
    """Averaged over exact draws, p(x = 1 | class) under Beta(1, 1) is (1 + n₁) / (2 + n): within 5 Monte Carlo errors, 6e-7."""
    data = load_data(np.array([[1], [1], [0], [1], [0], [0], [0]]), labels=list("aaaabbb"))
    model = MODELS["naive_bayes"](data, prior="beta(1,1)")
    tree = fit(model, data, method="exact", seed=5)
    new = load_data(np.array([[1], [0]]))
    densities = np.exp(predict(model, tree, new)["log_density"].values)
    concentration = np.array([2.0, 2.0]) + [4, 3]
    share, present = concentration / concentration.sum(), np.array([(1 + 3) / (2 + 4), (1 + 0) / (2 + 3)])
    expected = np.array([(share * present).sum(), (share * (1 - present)).sum()])
    draws = tree["posterior"]
    each = (draws["class_probs"] * draws["feature_probs"].sel(column="x0")).sum("class").values.ravel()
    assert np.abs(densities - expected).max() < 5 * each.std() / np.sqrt(each.size)


# ---------------------------------------------------------------------------------------------------------------------
# The posterior predictive in closed form


@pytest.mark.parametrize("emission", ["bernoulli", "poisson", "gaussian"])
def test_posterior_predictive_is_a_ratio_of_evidences(emission):
    """p(x, y = c | data) = p(data, (x, y = c)) / p(data), each evidence by a run of `exact` of its own."""
    data = table(emission, tuple("abc" * 5))
    model, last = build(emission, data), ROWS - 1
    train = models.data.take(data, np.arange(last))
    found = posterior_predictive(model, train, models.data.take(data, np.arange(last - 1, ROWS)))

    def evidence(one: Data) -> float:
        return fit(model, one, method="exact", **SHORT["exact"]).attrs["log_evidence"]

    base = evidence(train)
    ratios = [evidence(data._replace(labels=np.append(train.labels, c))) - base for c in range(3)]
    assert float(found["log_density"][1]) == pytest.approx(logsumexp(ratios), rel=1e-9)
    np.testing.assert_allclose(found["probs"][1], np.exp(ratios - logsumexp(ratios)), rtol=1e-9)


def test_posterior_predictive_of_laplace_and_student():
    """(1 + n₁) / (2 + n) exactly; and the multivariate Student t of the quadratic discriminant, by SciPy."""
    data = load_data(np.array([[1], [1], [0], [1], [0], [0], [0]]), labels=list("aaaabbb"))
    model = MODELS["naive_bayes"](data, prior="beta(1,1)")
    found = posterior_predictive(model, data, load_data(np.array([[1.0]])))
    share = np.array([6, 5]) / 11
    assert np.exp(float(found["log_density"][0])) == pytest.approx(share @ [4 / 6, 1 / 5], rel=1e-12)

    iris = load_data("iris")
    model = MODELS["linear_discriminant"](iris, covariance="full")
    found = posterior_predictive(model, iris, models.data.take(iris, np.arange(5)))
    hyper, densities = model.hyper, []
    for c in range(3):
        x = iris.x[iris.labels == c]
        strength, dof = hyper["strength"] + len(x), hyper["dof"] + len(x)
        location = (hyper["strength"] * hyper["location"] + x.sum(0)) / strength
        gap = x.mean(0) - hyper["location"]
        scatter = hyper["scatter"] + len(x) * np.cov(x.T, bias=True)
        scatter = scatter + hyper["strength"] * len(x) / strength * np.outer(gap, gap)
        student = stats.multivariate_t(location, scatter * (strength + 1) / (strength * (dof - 3)), df=dof - 3)
        densities.append(student.logpdf(iris.x[:5]) + np.log(52 / 156))
    np.testing.assert_allclose(found["log_density"], logsumexp(densities, axis=0), rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: posterior_predictive(build("poisson"), table("poisson"), table("poisson")), "rows without a label"),
        (
            lambda: posterior_predictive(build("poisson", prior="flat"), table("poisson", tuple("abc" * 5)), table("poisson")),
            "flat",
        ),
        (
            lambda: posterior_predictive(MODELS["logistic_regression"](load_data("iris")), "iris", "iris"),
            "no posterior predictive",
        ),
    ],
)
def test_no_closed_form_is_said(make, words):
    with pytest.raises(ZooError, match=words):
        make()


# ---------------------------------------------------------------------------------------------------------------------
# Geweke's test

CHAINS, SWEEPS = 4000, 6


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EMISSIONS[:-1], "markov", "positions"])
def test_geweke(name):
    """Prior draws by NumPyro; then "rows given θ, θ given rows by Gibbs" leaves them where they are.

    Kolmogorov-Smirnov on at most 7 functions for 6 models, each at a p-value of 1e-6: false alarms below 5e-5.
    """
    from numpyro.infer import Predictive

    from inference import gibbs

    if name == "markov":
        data = load_data(documents([list("abcab"), list("cba")]))
        model = MODELS["markov_naive_bayes"](data, num_classes=2, prior={"class_probs": {"concentration": 3.0}})
    elif name == "positions":
        model = MODELS["markov_naive_bayes"](load_data(np.eye(3)), homogeneous=False, num_classes=2)
    else:
        bare = table(name)._replace(labels=None, label=None, levels=(), candidates=None)
        numbers = {"poisson": {"shape": 5.0, "inverse_scale": 2.0}}.get(name, {})
        model = MODELS["naive_bayes"](bare, emission=name, num_classes=2, prior={"class": numbers})
        data = bare
    hyper, prior, algebra = dict(model.hyper), dict(model.prior), model.algebra
    some = model.rows(load_data(np.eye(3)) if name == "positions" else data)
    names = list(latent_sites(model.spec, hyper, some))
    sites = Predictive(model.spec, num_samples=2 * CHAINS, return_sites=names)(jax.random.PRNGKey(0), hyper, some)

    def sweep(T, key):
        key_rows, key_step = jax.random.split(key)
        rows = model.simulate(key_rows, hyper, algebra.sites(hyper, T), 5)
        return gibbs.step(algebra, (hyper, prior, rows), key_step, T)[0], None

    @jax.jit
    @jax.vmap
    def chain(sites, key):
        T, _ = jax.lax.scan(sweep, algebra.natural(hyper, sites), jax.random.split(key, SWEEPS))
        return algebra.sites(hyper, T)

    start = {site: value[:CHAINS] for site, value in sites.items()}
    after = chain(start, jax.random.split(jax.random.PRNGKey(1), CHAINS))
    p_values = {}
    for site, value in after.items():
        left, right = np.asarray(value).reshape(CHAINS, -1), np.asarray(sites[site])[CHAINS:].reshape(CHAINS, -1)
        for place in (0, -1):
            p_values[site, place] = stats.ks_2samp(left[:, place], right[:, place]).pvalue
        p_values[site, "square"] = stats.ks_2samp((left**2).sum(1), (right**2).sum(1)).pvalue
    assert min(p_values.values()) > 1e-6, p_values
