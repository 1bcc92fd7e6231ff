"""Naive Bayes with every emission: the program is the spec, scikit-learn's estimates, documents, boundaries and mistakes."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from naive import SHORT, is_finite, neighbours_increase
from numpyro.infer.util import log_density
from scipy import sparse, stats
from scipy.special import logsumexp
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

import models.base
from inference import METHODS, discriminant, fit, log_likelihood, posterior_predictive, predict
from inference.program import latent_sites
from models import MODELS, Data, Model, ZooError, load_data
from models.base import inner
from models.documents import documents
from models.naive_bayes import EMISSIONS

ROWS, COLUMNS = 15, 4
LABELS = ["a", "b", "c", "a", "b", "c", "a", "a", "b", None, "a|b", "c", None, "b|c", "a"]
every_emission = pytest.mark.parametrize("emission", EMISSIONS)


@cache
def table(emission: str, labels: tuple[str | None, ...] = tuple(LABELS)) -> Data:
    rng = np.random.default_rng(4)
    x = {
        "bernoulli": rng.integers(0, 2, (ROWS, COLUMNS)),
        "multinomial": rng.poisson(2.0, (ROWS, COLUMNS)),
        "poisson": rng.poisson(2.0, (ROWS, COLUMNS)),
        "categorical": rng.integers(0, [2, 3, 4, 2], (ROWS, COLUMNS)),
        "gaussian": rng.normal(size=(ROWS, COLUMNS)),
    }[emission]
    return load_data(x, labels=list(labels))


def build(emission: str, data: Data | None = None, **options) -> Model:
    return MODELS["naive_bayes"](table(emission) if data is None else data, emission=emission, **options)


def random_sites(emission: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    sites = {"class_probs": rng.dirichlet([3.0, 3.0, 3.0])}
    return (
        sites
        | {
            "bernoulli": lambda: {"feature_probs": rng.beta(2, 2, (3, COLUMNS))},
            "multinomial": lambda: {"word_probs": rng.dirichlet(np.full(COLUMNS, 2.0), 3)},
            "poisson": lambda: {"rate": rng.gamma(4.0, 0.5, (3, COLUMNS))},
            "categorical": lambda: {f"probs_x{d}": rng.dirichlet(np.full(k, 2.0), 3) for d, k in enumerate([2, 3, 4, 2])},
            "gaussian": lambda: {"mean": rng.normal(size=(3, COLUMNS)), "precision": rng.gamma(3.0, 0.4, (3, COLUMNS))},
        }[emission]()
    )


def naive_log_density(emission: str, sites: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log p(x_n | class c) by SciPy, one row and class at a time: (N, 3)."""
    return np.array([[naive_row(emission, sites, row, c) for c in range(3)] for row in x])


def naive_row(emission: str, sites: dict[str, np.ndarray], row: np.ndarray, c: int) -> float:
    if emission == "multinomial":
        return float(stats.multinomial(int(row.sum()), sites["word_probs"][c]).logpmf(row))
    if emission == "categorical":
        return float(sum(np.log(sites[f"probs_x{d}"][c, int(value)]) for d, value in enumerate(row)))
    if emission == "bernoulli":
        return float(stats.bernoulli(sites["feature_probs"][c]).logpmf(row).sum())
    if emission == "poisson":
        return float(stats.poisson(sites["rate"][c]).logpmf(row).sum())
    return float(stats.norm(sites["mean"][c], sites["precision"][c] ** -0.5).logpdf(row).sum())


def naive_log_prior(emission: str, hyper, sites) -> float:
    """log p(θ) by SciPy, with the hyperparameters by name."""
    total = stats.dirichlet(hyper["concentration"]).logpdf(sites["class_probs"])
    if emission == "bernoulli":
        total += stats.beta(hyper["a"], hyper["b"]).logpdf(sites["feature_probs"]).sum()
    elif emission == "multinomial":
        total += sum(stats.dirichlet(hyper["word_concentration"]).logpdf(p) for p in sites["word_probs"])
    elif emission == "poisson":
        total += stats.gamma(hyper["shape"], scale=1 / hyper["inverse_scale"]).logpdf(sites["rate"]).sum()
    elif emission == "categorical":
        concentration = float(hyper["level_concentration"])
        tables = [value for name, value in sites.items() if name != "class_probs"]
        total += sum(stats.dirichlet(np.full(len(p), concentration)).logpdf(p) for one in tables for p in one)
    else:
        total += stats.gamma(hyper["dof"] / 2, scale=2 / hyper["scatter"]).logpdf(sites["precision"]).sum()
        spread = (hyper["strength"] * sites["precision"]) ** -0.5
        total += stats.norm(hyper["location"], spread).logpdf(sites["mean"]).sum()
    return float(total)


# ---------------------------------------------------------------------------------------------------------------------
# The program is the spec


@every_emission
@pytest.mark.parametrize("prior", ["default", "flat"])
def test_program_equals_algebra_equals_scipy(emission, prior):
    """Labels observed, missing and sets; the complete program; < T, ν >; sites there and back; gradient = statistics."""
    model, sites = build(emission, prior=prior), random_sites(emission, np.random.default_rng(1))
    data = table(emission)
    allowed = np.array(models.data.allowed_labels(data))
    density = naive_log_density(emission, sites, data.x)
    local = np.where(allowed, density + np.log(sites["class_probs"]), -np.inf)
    prior_density = naive_log_prior(emission, model.hyper, sites) if prior == "default" else 0.0
    np.testing.assert_allclose(log_likelihood(model, sites, data), logsumexp(local, axis=1), rtol=1e-10)
    rows, algebra, hyper = model.rows(data), model.algebra, dict(model.hyper)

    @jax.jit
    def both(sites, hyper, prior, rows):
        T = algebra.natural(hyper, sites)
        features = algebra.features(hyper, rows)
        z = jax.nn.one_hot(jnp.argmax(rows.allowed, axis=1), 3)
        mean = algebra.latent.mean(None, algebra.local(T)(features))
        ones = jnp.ones(len(mean))
        return {
            "marginal": log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0],
            "complete": log_density(
                model.spec, (hyper, rows), {"marginal": False}, sites | {"component": jnp.argmax(rows.allowed, axis=1)}
            )[0],
            "product": inner(T, models.base.add(prior, algebra.statistics(ones, z, features)))
            - (sum(family.log_partition(prior[name]) for name, family in algebra.families) if algebra.proper else 0.0),
            "back": algebra.sites(hyper, T),
            "gradient": jax.grad(lambda T: algebra.latent.log_partition(algebra.local(T)(features)).sum())(T),
            "statistics": algebra.statistics(ones, mean, features),
        }

    found = both(sites, hyper, dict(model.prior), rows)
    assert float(found["marginal"]) == pytest.approx(prior_density + logsumexp(local, axis=1).sum(), rel=1e-10)
    chosen = allowed.argmax(1)
    complete = prior_density + local[np.arange(ROWS), chosen].sum()
    assert float(found["complete"]) == pytest.approx(complete, rel=1e-10)
    carrier = complete - float(found["product"])  # what no parameter enters: the same at any other θ
    other = random_sites(emission, np.random.default_rng(2))
    again = both(other, hyper, dict(model.prior), rows)
    assert float(again["complete"]) - float(again["product"]) == pytest.approx(carrier, rel=1e-9, abs=1e-9)
    assert set(found["back"]) == set(sites)
    for name, value in sites.items():
        np.testing.assert_allclose(found["back"][name], value, rtol=1e-12)
    for left, right in zip(jax.tree.leaves(found["gradient"]), jax.tree.leaves(found["statistics"]), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("emission", ["bernoulli", "multinomial", "poisson"])
def test_sparse_rows_are_dense_rows(emission):
    """The same densities and statistics; both with rows of no event at all, and a word that never occurs."""
    rng = np.random.default_rng(0)
    x = rng.poisson(0.05, (40, 60)) if emission != "bernoulli" else (rng.random((40, 60)) < 0.05).astype(int)
    x[0], x[:, 3] = 0, 0
    labels = list("ab" * 20)
    data = [load_data(source, labels=labels) for source in (x, sparse.csr_array(x))]
    assert isinstance(build(emission, data[1]).rows(data[1]).x, models.counts.SparseCounts | models.counts.Counts)
    trees = [fit(build(emission, one), one, method="em") for one in data]
    for name in trees[0]["point_estimate"].data_vars:
        np.testing.assert_allclose(*(tree["point_estimate"][name].values for tree in trees), rtol=1e-12)
    np.testing.assert_allclose(*(tree["log_likelihood"]["x"].values for tree in trees), rtol=1e-12)
    nuts = [fit(build(emission, one), one, method="map")["functionals"]["log_joint"] for one in data]
    assert float(nuts[0]) == pytest.approx(float(nuts[1]), rel=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Estimates


def test_laplace_smoothing_is_scikit_learns():
    """Beta(2, 2) at the mode is BernoulliNB's alpha = 1; class shares by a uniform prior are its shares: digits, 10 classes."""
    data = load_data("binary_digits")
    model = MODELS["naive_bayes"](data, prior={"class_probs": {"concentration": 1.0}, "class": {"a": 2.0, "b": 2.0}})
    tree = fit(model, data, method="em")
    peer = BernoulliNB(alpha=1.0).fit(data.x, data.labels)
    np.testing.assert_allclose(tree["point_estimate"]["feature_probs"], np.exp(peer.feature_log_prob_), rtol=1e-10)
    probs = predict(model, tree, data)["probs"]
    np.testing.assert_allclose(probs, peer.predict_proba(data.x), atol=1e-10)
    np.testing.assert_array_equal(probs.argmax("class"), peer.predict(data.x))
    assert int(tree["optimization"]["iterations"].max()) <= 2  # one step; the second finds nothing to gain


@pytest.mark.parametrize(
    ("emission", "name", "peer"),
    [("multinomial", "digits", MultinomialNB()), ("categorical", "binary_digits", CategoricalNB())],
)
def test_concentration_two_is_scikit_learns(emission, name, peer):
    """One count more of everything, as alpha = 1 there."""
    data = load_data(name, drop_constant=True)
    model = MODELS["naive_bayes"](data, emission=emission, prior="laplace")
    tree = fit(model, data, method="em")
    peer.fit(data.x.astype(int), data.labels)
    if emission == "multinomial":
        np.testing.assert_allclose(tree["point_estimate"]["word_probs"], np.exp(peer.feature_log_prob_), rtol=1e-10)
    else:
        found = tree["point_estimate"][f"probs_{data.columns[5]}"]
        np.testing.assert_allclose(found, np.exp(peer.feature_log_prob_[5]), rtol=1e-10)


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_gaussian_maximum_likelihood_is_scikit_learns(name):
    data = load_data(name)
    model = MODELS["naive_bayes"](data, emission="gaussian", prior="flat")
    tree = fit(model, data, method="em")
    peer = GaussianNB(var_smoothing=0.0).fit(data.x, data.labels)
    np.testing.assert_allclose(tree["point_estimate"]["mean"], peer.theta_, rtol=1e-10)
    np.testing.assert_allclose(1 / tree["point_estimate"]["precision"], peer.var_, rtol=1e-10)
    probs = predict(model, tree, data)["probs"]
    np.testing.assert_allclose(probs, peer.predict_proba(data.x), atol=1e-10)
    np.testing.assert_array_equal(probs.argmax("class"), peer.predict(data.x))


def test_poisson_rates_are_class_means():
    data = load_data("digits")
    tree = fit(MODELS["poisson_naive_bayes"](data, prior="flat"), data, method="em")
    means = np.array([data.x[data.labels == c].mean(0) for c in range(10)])
    np.testing.assert_allclose(tree["point_estimate"]["rate"], means, rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Every method


@cache
def fitted(emission: str, method: str):
    return fit(build(emission), table(emission), method=method, seed=1, **SHORT[method])


@every_emission
@pytest.mark.parametrize("method", METHODS)
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

    data, model = table(emission), build(emission)
    exact = fit(model, data, method="exact", seed=2)["functionals"].to_dataset()
    for method in ("gibbs", "nuts"):
        found = fit(model, data, method=method, seed=3, num_warmup=500, num_samples=1000)["functionals"].to_dataset()
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
            for d in range(COLUMNS):
                levels = len(np.unique(data.x[:, d]))
                count = np.array([(x[:, d] == level).sum() for level in np.unique(data.x[:, d])])
                expected += dirichlet(np.full(levels, float(hyper["level_concentration"])), count)
        else:
            shape, scale = hyper["shape"], hyper["inverse_scale"]
            total = x.sum(0)
            expected += (
                shape * np.log(scale) - gammaln(shape) + gammaln(shape + total) - (shape + total) * np.log(scale + len(x))
            ).sum() - gammaln(x + 1).sum()
    found = fit(model, data, method="exact", num_samples=10).attrs["log_evidence"]
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
# Document 000's discriminant, boundaries, and the prior that smooths one side


def log_odds(model: Model, found, data: Data) -> np.ndarray:
    """bias + Σ_f < weight_f, φ_f(x) >: (N, C)."""
    odds = found["bias"].values[None]
    for name, value in model.discriminant.features(model.rows(data)).items():
        weight = found[f"weight_{name}"].values
        odds = odds + np.asarray(value, float).reshape(len(value), -1) @ weight.reshape(len(weight), -1).T
    return odds


@every_emission
def test_discriminant_is_the_log_odds(emission):
    """bias + < weights, φ(x) > = log p(y | x) − log p(reference | x) to 1e-10, at a point and at draws."""
    model, sites = build(emission), random_sites(emission, np.random.default_rng(3))
    data = table(emission)._replace(labels=None, label=None, levels=(), candidates=None)
    logs = np.log(predict(model, sites, data)["probs"].values)
    found = discriminant(model, sites, reference="b")
    np.testing.assert_allclose(log_odds(model, found, data), logs - logs[:, [1]], atol=1e-10)
    draws = discriminant(model, fitted(emission, "exact"))
    assert draws["bias"].dims == ("chain", "draw", "class")
    np.testing.assert_array_equal(draws["bias"].sel({"class": "a"}), 0.0)


def test_count_form_of_the_discriminant():
    """Document 000 2(d): weights log n(1,1) n(0,0) / (n(1,0) n(0,1)), and the bias with (N − 1) log n(0) / n(1)."""
    rng = np.random.default_rng(7)
    y = np.arange(60) % 3 == 0
    x = (rng.random((60, 5)) < np.where(y[:, None], 0.6, 0.35)).astype(float)
    data = load_data(x, labels=list(np.where(y, "1", "0")))
    model = MODELS["naive_bayes"](data, prior="flat")
    found = discriminant(model, fit(model, data, method="em")).sel({"class": "1"})
    count = {(value, label): ((x == value) & (y == label)[:, None]).sum(0) for value in (0, 1) for label in (0, 1)}
    weight = np.log(count[1, 1] * count[0, 0] / (count[1, 0] * count[0, 1]))
    bias = (5 - 1) * np.log((~y).sum() / y.sum()) + np.log(count[0, 1] / count[0, 0]).sum()
    np.testing.assert_allclose(found["weight_x"], weight, atol=1e-13)  # differences of logs below 10
    assert float(found["bias"]) == pytest.approx(bias, rel=1e-10)


def boundary_data() -> Data:
    """Column 0: never seen; 1: in every row; 2: in every row of b only; 3: mixed."""
    x = np.array([[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 1, 1]])
    return load_data(x, labels=list("aabbb"))


def test_words_never_and_always_seen():
    """A proper prior has finite weights and probabilities; maximum likelihood reports its boundary and stays a density."""
    data = boundary_data()
    proper, flat = (MODELS["naive_bayes"](data, prior=prior) for prior in ("default", "flat"))
    tree = fit(proper, data, method="em")
    assert is_finite(tree)
    assert all(np.isfinite(value).all() for value in discriminant(proper, tree).data_vars.values())
    tree = fit(flat, data, method="em")
    assert "6 of 8 entries of feature_probs are 0 or 1" in tree.attrs["warnings"]
    counted = 2 * np.log(2 / 5) + 3 * np.log(3 / 5) + 2 * np.log(1 / 2) + 2 * np.log(2 / 3) + np.log(1 / 3)
    assert float(tree["functionals"]["log_likelihood"]) == pytest.approx(counted, rel=1e-12)
    found = discriminant(flat, tree, reference="b")
    assert "infinite" in found.attrs["warnings"]
    assert (found["weight_x"].sel({"class": "b"}) == 0).all()
    with pytest.raises(ZooError, match="row 1 has density 0 in every class"):
        predict(flat, tree, load_data(np.array([[1, 1, 0, 0]])))


def test_one_sided_prior_is_the_documents_with_its_warning():
    """Beta(α, 1): mode (n₁ + α − 1) / (n + α − 1), weights still infinite for words in every row (errata E1, E2)."""
    data, alpha = boundary_data(), 3.0
    model = MODELS["naive_bayes"](data, prior=f"one_sided({alpha})")
    tree = fit(model, data, method="em")
    n = np.array([2, 3])[:, None]
    ones = np.array([data.x[data.labels == c].sum(0) for c in range(2)])
    np.testing.assert_allclose(tree["point_estimate"]["feature_probs"], (ones + alpha - 1) / (n + alpha - 1), rtol=1e-12)
    np.testing.assert_allclose(tree["point_estimate"]["class_probs"], [0.4, 0.6], rtol=1e-12)
    assert "b = 1 does not smooth" in tree.attrs["warnings"]
    assert "infinite" in discriminant(model, tree).attrs["warnings"]
    symmetric = MODELS["naive_bayes"](data, prior="beta(3,3)")
    assert not symmetric.warnings
    found = fit(symmetric, data, method="em")["point_estimate"]["feature_probs"]
    np.testing.assert_allclose(found, (ones + 2) / (n + 4), rtol=1e-12)
    with pytest.raises(ZooError, match="no interior mode"):
        fit(MODELS["naive_bayes"](data, prior="one_sided(0.5)"), data, method="em")


# ---------------------------------------------------------------------------------------------------------------------
# Documents


def test_documents_are_bags_of_words():
    """Sequences are counted; words unknown to the model are left out of a new document; an empty one has the prior's odds."""
    texts = [["win", "gold", "gold"], ["office", "hours"], ["win"], ["office", "toast", "office"]]
    data = load_data(documents(texts), labels=["spam", "ham", "spam", "ham"])
    assert data.columns == ("gold", "hours", "office", "toast", "win")
    model = MODELS["naive_bayes"](data, emission="multinomial")
    tree = fit(model, data, method="em")
    np.testing.assert_allclose(tree["point_estimate"]["word_probs"].sum("word"), 1, rtol=1e-12)
    new = documents([["gold", "unheard", "win"], ["win", "gold"], []])
    probs = predict(model, tree, new)["probs"].values
    np.testing.assert_allclose(probs[0], probs[1], rtol=1e-12)
    np.testing.assert_allclose(probs[2], tree["point_estimate"]["class_probs"], rtol=1e-12)


def test_categories_go_by_name():
    """Text columns become categories; a table whose levels come in another order, or lack one, means the same."""
    frame = pd.DataFrame({"planet": ["mars", "earth", "mars", "venus"], "moons": [2, 1, 2, 0], "kind": list("abab")})
    data = load_data(frame, label="kind")
    assert data.categories == (("earth", "mars", "venus"), ())
    model = MODELS["naive_bayes"](data, emission="categorical")
    tree = fit(model, data, method="em")
    assert list(tree["point_estimate"]["level of planet"].values) == ["earth", "mars", "venus"]
    new = load_data(pd.DataFrame({"planet": ["venus", "mars"], "moons": [0, 2]}))
    whole = predict(model, tree, load_data(frame[["planet", "moons"]]))["probs"].values
    np.testing.assert_allclose(predict(model, tree, new)["probs"], whole[[3, 0]], rtol=1e-12)
    with pytest.raises(ZooError, match="column 'planet', row 2: 'pluto' is a level that the model has not seen"):
        predict(model, tree, load_data(pd.DataFrame({"planet": ["venus", "pluto"], "moons": [0, 2]})))


MISTAKES = [
    (lambda: build("bernoulli", load_data([[0, 2], [1, 1]], labels=["a", "b"])), "column 'x1', row 1: the value is 2"),
    (lambda: build("poisson", load_data([[0, -1], [1, 1]], labels=["a", "b"])), "column 'x1', row 1: the value is -1"),
    (lambda: build("multinomial", load_data([[0, 1], [0.5, 1]], labels=["a", "b"])), "column 'x0', row 2: the value is 0.5"),
    (lambda: build("bernoulli", load_data(sparse.csr_array([[0, 3], [1, 1]]), labels=["a", "b"])), "row 1: the value is 3"),
    (lambda: build("normal", table("gaussian")), "emission='normal' is not one of"),
    (lambda: build("poisson", prior="laplace"), "laplace is for probabilities"),
    (lambda: build("poisson", prior="beta(2,2)"), "for emission=bernoulli"),
    (lambda: build("bernoulli", prior="beta(2)"), "is not one of default, flat, laplace"),
    (lambda: build("bernoulli", prior="beta(2,-1)"), "prior b must be above 0"),
    (lambda: build("bernoulli", load_data([[0, 1], [1, 1]], labels=["a", "a"])), "one class only"),
    (lambda: build("bernoulli", load_data([[0, 1], [1, 1]])), "no labels"),
    (lambda: load_data([[0, 1], [1, 1]], labels=["a"]), "1 of them for 2 rows"),
    (lambda: build("categorical", load_data(documents([["a"], ["b"]]), labels=["a", "b"])), "not a table of categories"),
    (lambda: build("gaussian", load_data(documents([["a"], ["b"]]), labels=["a", "b"])), "holds documents"),
    (lambda: MODELS["gmm"](load_data(pd.DataFrame({"planet": ["mars", "earth"], "x": [1.0, 2.0]}))), "holds categories"),
    (lambda: documents([[], []]), "not a single token"),
]


@pytest.mark.parametrize(("make", "words"), MISTAKES)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


# ---------------------------------------------------------------------------------------------------------------------
# The posterior predictive in closed form, and Geweke's test


@pytest.mark.parametrize("emission", ["bernoulli", "poisson", "gaussian"])
def test_posterior_predictive_is_a_ratio_of_evidences(emission):
    """p(x, y = c | data) = p(data, (x, y = c)) / p(data), each evidence by a run of `exact` of its own."""
    labels = tuple("abc" * 5)
    data = table(emission, labels)
    rows = np.arange(ROWS)
    train, new = models.data.take(data, rows[:12]), models.data.take(data, rows[12:])
    model = build(emission, data)
    found = posterior_predictive(model, train, new)

    def evidence(one: Data) -> float:
        return fit(model, one, method="exact", num_samples=5).attrs["log_evidence"]

    base = evidence(train)
    longer = train._replace(x=np.concatenate([train.x, new.x[1:2]]))
    ratios = [evidence(longer._replace(labels=np.append(train.labels, c))) - base for c in range(3)]
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


def test_default_rates_follow_weights_and_columns():
    """The prior mean of a rate is its column's weighted mean, with half an event for columns without any."""
    x = np.array([[2.0, 0.0], [4.0, 0.0], [9.0, 0.0]])
    weight = np.array([1.0, 2.0, 0.0])
    model = build("poisson", load_data(x, labels=["a", "b", "a"], weight=weight))
    np.testing.assert_allclose(model.hyper["shape"] / model.hyper["inverse_scale"], [10.5 / 3, 0.5 / 3], rtol=1e-12)


@pytest.mark.parametrize("column", ["col/our", "size (cm)", "größe"])
def test_columns_of_any_name(column, tmp_path):
    """Names with slashes, spaces and letters of other alphabets: through a fit, and through a file and back."""
    from inference.results import load, save

    frame = pd.DataFrame({column: ["u", "v", "u", "v"], "other": [1000001, 1000002, 1000001, 1000001], "kind": list("abab")})
    data = load_data(frame, label="kind")
    model = MODELS["naive_bayes"](data, emission="categorical")
    tree = fit(model, data, method="em")
    save(tree, tmp_path / "results.nc")
    assert set(load(tmp_path / "results.nc")["point_estimate"].data_vars) == set(tree["point_estimate"].data_vars)
    assert list(tree["point_estimate"]["level of other"].values) == ["1000001", "1000002"]
    assert discriminant(model, tree)["bias"].shape == (2,)
