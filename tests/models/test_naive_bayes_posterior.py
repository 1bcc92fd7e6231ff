"""Every method on every emission; evidence, posterior and predictive against closed forms; Geweke's test."""

from itertools import cycle, product

import jax
import numpy as np
import pytest
from naive import SHORT, distances_of_moments, draws_of, is_finite, near, neighbours_increase
from naive_emissions import EMISSIONS, ROWS, build, fitted, table
from scipy import stats
from scipy.special import logsumexp
from two_stage import assert_standard_normal, in_blocks, of_distributions, of_means

import models.base
from inference import METHODS, fit, posterior_predictive, predict
from inference.engine.program import latent_sites
from models import MODELS, Data, ZooError, load_data
from models.data.documents import documents

CERTIFIED = ("bernoulli", "poisson")  # certificates compare their samplers with the posterior by enumeration
CLIMBERS = ("em", "cavi", "map")  # of which there is more to say than that they run: on every emission
OTHERS = [method for method in METHODS if method not in (*CLIMBERS, "collapsed_gibbs")]  # on one emission each


@pytest.mark.slow
@pytest.mark.parametrize(("emission", "method"), [*product(EMISSIONS, CLIMBERS), *zip(cycle(EMISSIONS), OTHERS)])
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
@pytest.mark.parametrize("emission", [name for name in EMISSIONS if name not in CERTIFIED])
def test_samplers_agree_with_the_exact_posterior(emission):
    """Means of the functionals and their squares by gibbs and nuts against exact draws (2 missing labels, 2 sets)."""

    def deviations(seed, times):
        options, scores = {"num_samples": 768 * times, "seed": seed}, []
        exact, *others = (
            fit(build(emission), table(emission), method=method, **SHORT[method] | more | options)
            for method, more in {"exact": {}, "gibbs": {"num_warmup": 500}, "nuts": {}}.items()
        )
        for name in ("log_joint", "log_likelihood", "class_probs", "entropy"):
            wanted = draws_of(exact, "functionals", name)
            scores += [distances_of_moments(draws_of(found, "functionals", name), wanted) for found in others]
        return np.concatenate(scores)

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
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


@pytest.mark.slow
def test_posterior_predictive_is_laplaces_rule():
    """Averaged over exact draws, p(x = 1 | class) under Beta(1, 1) is (1 + n₁) / (2 + n)."""
    data = load_data(np.array([[1], [1], [0], [1], [0], [0], [0]]), labels=list("aaaabbb"))
    model = MODELS["naive_bayes"](data, prior="beta(1,1)")
    new = load_data(np.array([[1], [0]]))
    concentration = np.array([2.0, 2.0]) + [4, 3]
    share, present = concentration / concentration.sum(), np.array([(1 + 3) / (2 + 4), (1 + 0) / (2 + 3)])
    expected = np.array([(share * present).sum(), (share * (1 - present)).sum()])

    def deviations(seed, times):
        tree = fit(model, data, method="exact", num_samples=1000 * times, seed=seed)
        draws = tree["posterior"]
        each = (draws["class_probs"] * draws["feature_probs"].sel(feature="x0")).sum("class").values.ravel()
        assert near(np.exp(predict(model, tree, new)["log_density"]), [each.mean(), 1 - each.mean()], rtol=1e-9)
        return of_means(each, expected[0])

    assert_standard_normal(deviations, 5)
    assert expected.sum() == pytest.approx(1)


# ---------------------------------------------------------------------------------------------------------------------
# The posterior predictive in closed form


@pytest.mark.slow
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

CHAINS, SWEEPS = 2500, 6


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EMISSIONS[:-1], "markov", "positions"])
def test_geweke(name):
    """Prior draws by NumPyro; then "rows given θ, θ given rows by Gibbs" leaves them where they are.

    Kolmogorov-Smirnov on at most 7 functions.
    """
    from numpyro.infer import Predictive

    from inference.methods import gibbs

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
    prior_draws = Predictive(model.spec, num_samples=2 * CHAINS, return_sites=names)

    def sweep(T, key):
        key_rows, key_step = jax.random.split(key)
        rows = model.abilities.simulate(key_rows, hyper, algebra.sites(hyper, T), 5)
        return gibbs.step(algebra, (hyper, prior, rows), key_step, T)[0], None

    @jax.jit
    @jax.vmap
    def chain(sites, key):
        T, _ = jax.lax.scan(sweep, algebra.natural(hyper, sites), jax.random.split(key, SWEEPS))
        return algebra.sites(hyper, T)

    def functions(sites):
        found = {}
        for site, value in sites.items():
            flat = np.asarray(value).reshape(CHAINS, -1)
            found |= {f"{site} {place}": flat[:, place] for place in (0, -1)} | {f"{site} square": (flat**2).sum(1)}
        return found

    def found_and_wanted(seed):
        sites = prior_draws(jax.random.PRNGKey(seed), hyper, some)
        start, wanted = ({site: value[part] for site, value in sites.items()} for part in (slice(CHAINS), slice(CHAINS, None)))
        return functions(chain(start, jax.random.split(jax.random.PRNGKey(seed + 1), CHAINS))), functions(wanted)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))
