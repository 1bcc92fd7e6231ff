"""Logistic regression: program and algebra against NumPy; prediction, invariances, separation, mistakes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from naive_logistic import (
    X,
    build,
    every_size,
    fitted,
    line,
    naive_eta,
    naive_log_likelihood,
    naive_log_prior,
    random_natural,
    random_sites,
    table,
)
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from scipy.special import entr, log_softmax, softmax

from inference import discriminant, fit, log_likelihood, predict, score
from inference.engine.sweep import Updates, sweep
from models import MODELS, Data, ZooError, load_data
from models.algebra import at_mode, log_prior
from models.data import allowed_labels
from models.families.coefficients import normal
from models.logistic.separation import is_separable
from models.logistic_regression import linear, log_odds


@every_size
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("prior", ["default", "flat"])
def test_program_equals_algebra_equals_numpy(size, weighted, prior):
    """log p(y, θ) at random θ, with observed labels, missing ones, sets and weights; and the program with its labels drawn."""
    weight = np.array([0, 1, 2, 0.5] * 6) if weighted else np.ones(24)
    data = table(size)._replace(weight=weight if weighted else None)
    model, sites, allowed = build(size, data, prior=prior), random_sites(size), allowed_labels(data)
    rows, algebra = model.rows(data), model.algebra
    naive = naive_log_likelihood(model, sites, X, allowed)
    total = naive_log_prior(model, sites) + (weight * naive).sum()

    label = np.array([np.flatnonzero(row)[-1] for row in allowed])
    forbidden = np.array([np.flatnonzero(~row)[0] if not row.all() else 0 for row in allowed])
    given = dict(model.hyper), dict(model.prior), sites, rows, weight, label, forbidden
    density, gradient, by_algebra, complete, outside = evaluated(algebra, model.spec, *given)
    assert float(density) == pytest.approx(total, rel=1e-10)
    assert all(np.isfinite(leaf).all() for leaf in gradient.values())
    assert near(log_likelihood(model, sites, data), naive, rtol=1e-10, atol=1e-12)
    assert float(by_algebra) == pytest.approx(total, rel=1e-10)
    chosen = log_softmax(naive_eta(model, sites, X), axis=1)[np.arange(24), label]
    assert float(complete) == pytest.approx(naive_log_prior(model, sites) + (weight * chosen).sum(), rel=1e-10)
    assert float(outside) == -np.inf


@partial(jax.jit, static_argnums=(0, 1))
def evaluated(algebra: Any, spec: Any, hyper: Any, prior: Any, sites: Any, rows: Any, weight: Any, *labels: Any) -> Any:
    """Log p(y, θ) of the program with its gradient, by the algebra, with labels drawn, and with labels that may not be."""

    def program(sites: Any, rows: Any, marginal: bool = True) -> Any:
        return log_density(spec, (hyper, rows), {"marginal": marginal}, sites)[0]

    with jax.numpy_rank_promotion("raise"):
        T = algebra.natural(hyper, sites)
        local = algebra.local_natural_parameters(T)(algebra.features(hyper, rows))
        by_algebra = log_prior(algebra, prior, T) + (weight * algebra.latent.log_partition(local)).sum()
    complete = program(sites | {"label": labels[0]}, rows, marginal=False)
    outside = program(sites | {"label": labels[1]}, rows._replace(weight=None), marginal=False)
    return *jax.value_and_grad(program)(sites, rows), by_algebra, complete, outside


@every_size
def test_sites_survive_the_round_trip(size):
    model, sites = build(size), random_sites(size)
    back = jax.jit(lambda sites: model.algebra.sites(model.hyper, model.algebra.natural(model.hyper, sites)))(sites)
    assert all(near(back[name], sites[name], rtol=1e-15) for name in sites)


@pytest.mark.parametrize(("size", "uncertain"), [(2, False), (2, True), (3, False)])
def test_gradient_of_the_local_log_partition_is_the_statistics(size, uncertain):
    """Block by block, ∂ Σ log Z(local(T)) / ∂T = statistics of the mean latents; at a point, and for two classes under q(θ)."""
    model = build(size)
    algebra, rows = model.algebra, model.rows(table(size))

    @jax.jit
    def compared(sites: Any, natural: Any, rows: Any) -> Any:
        features = algebra.features(model.hyper, rows)
        T = algebra.natural(model.hyper, sites)
        T = {name: normal.mean(natural) for name in T} if uncertain else T
        ones = jnp.ones(24)
        together = algebra.statistics(ones, algebra.latent.mean(None, algebra.local_natural_parameters(T)(features)), features)
        found = []
        for part in algebra.structure.cycle or (algebra,):
            [(block, _)] = part.families

            def total(own: Any, part: Any = part, block: str = block) -> Any:
                return part.latent.log_partition(part.local_natural_parameters(T | {block: own})(features)).sum()

            z = part.latent.mean(None, part.local_natural_parameters(T)(features))
            found.append((jax.grad(total)(T[block]), part.statistics(ones, z, features)[block], together[block]))
        return found

    for gradient, found, together in jax.tree.map(np.asarray, compared(random_sites(size), random_natural(), rows)):
        assert near(gradient.linear, found.linear, rtol=1e-11)
        assert near((gradient.quadratic + gradient.quadratic.T) / 2, found.quadratic, rtol=1e-11)
        jax.tree.map(lambda a, b: near(a, b, rtol=1e-12), found, together)


@every_size
def test_functions_at_no_log_odds(size):
    """ψ = 0 is where tanh(c/2) / 2c is 0/0: probabilities are uniform, ω is 1/4, gradients are finite."""
    model = build(size)
    zero = {"weight": np.zeros((size - 1, 2)), "intercept": np.zeros(size - 1)}
    T = jax.jit(model.algebra.natural)(dict(model.hyper), zero)
    features = jax.jit(model.algebra.features)(dict(model.hyper), model.rows(table(size)))
    z = jax.jit(lambda T: model.algebra.latent.mean(None, model.algebra.local_natural_parameters(T)(features)))(T)
    if size == 2:
        assert near(z.omega, np.full((24, 1), 0.25), rtol=1e-15)
    naive = naive_log_likelihood(model, zero, X, allowed_labels(table(size)))
    assert near(log_likelihood(model, zero, table(size)), naive, rtol=1e-12, atol=1e-15)

    def log_partition(T):
        return model.algebra.latent.log_partition(model.algebra.local_natural_parameters(T)(features)).sum()

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.jit(jax.grad(log_partition))(T)))


def test_log_joint_of_a_sweep_is_that_of_its_start():
    """What a cycle of blocks reports is log p(y | θ) at the θ that it entered with, and statistics of every block."""
    model, sites = build(3), random_sites(3)
    algebra, rows = model.algebra, model.rows(table(3))

    @jax.jit
    def swept(key, sites, rows):
        T = algebra.natural(model.hyper, sites)
        return sweep(algebra, Updates(at_mode, "mean"), dict(model.hyper), dict(model.prior), key, T, rows)

    following, nu, local = swept(jax.random.PRNGKey(0), sites, rows)
    naive = naive_log_likelihood(model, sites, X, allowed_labels(table(3)))
    assert float(local.log_partition) == pytest.approx(naive.sum(), rel=1e-12)
    assert set(following) == set(nu) == set(local.stats) == {"class_1", "class_2"}


@pytest.mark.slow
def test_program_runs_in_numpyro():
    """As the contract says: the model's program is an argument of NumPyro's own sampler."""
    model = build(3)
    sampler = MCMC(NUTS(model.program), num_warmup=20, num_samples=5, progress_bar=False)
    sampler.run(jax.random.PRNGKey(0), table(3))
    assert sampler.get_samples()["weight"].shape == (5, 2, 2)


# ---------------------------------------------------------------------------------------------------------------------
# Prediction and invariances


@pytest.mark.slow
@every_size
def test_prediction_is_the_average_softmax(size):
    """Over draws, whatever labels the new rows carry; x is not modelled, so its log density is 0."""
    model, tree = build(size), fitted("laplace", size)
    found = predict(model, tree, table(size))
    weight, intercept = (tree["posterior"][name].values for name in ("weight", "intercept"))
    naive = [
        softmax(naive_eta(model, {"weight": w, "intercept": b}, X), axis=1)
        for w, b in zip(weight.reshape(-1, size - 1, 2), intercept.reshape(-1, size - 1), strict=True)
    ]
    assert near(found["probs"], np.mean(naive, axis=0), rtol=1e-10)
    assert near(found["probs"].sum("class"), 1, rtol=1e-12)
    assert near(found["log_density"], 0, atol=1e-12)
    # Where labels are given, the entropy that is reported is theirs.
    responsibilities = fitted("em", size)["latent"]["responsibilities"].values.astype(float)
    assert near(fitted("em", size)["functionals"]["entropy"], entr(responsibilities).sum(1).mean(), rtol=1e-5)
    bare = predict(model, tree, Data("new", X, ("u", "v")))
    np.testing.assert_array_equal(found["probs"], bare["probs"])
    known = table(size).labels >= 0
    hits = found["probs"].values.argmax(1)[known] == table(size).labels[known]
    assert float(score(model, tree, table(size))["accuracy"]) == pytest.approx(hits.mean(), rel=1e-12)


def test_log_odds_are_linear_in_columns_as_they_are():
    """Bias and weights of raw columns give the log-odds that the program takes about its origin."""
    model, sites = build(3), random_sites(3)
    assert (np.asarray(model.hyper["origin"]) != 0).all()
    found, wanted = jax.jit(lambda sites: (linear(model.hyper, sites), log_odds(model.hyper, X, **sites)))(sites)
    assert near(np.asarray(found.bias) + X @ np.asarray(found.weights["x"]).T, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_discriminant_is_linear_in_raw_columns(size):
    """bias + weightᵀ x, in the table's own units, is log p(y = c) − log p(y = first), at a point; draws have an interval."""
    model, sites = build(size), random_sites(size)
    found = discriminant(model, sites)
    x = table(size).x
    odds = found["bias"].values[None] + x @ found["weight_x"].values.T
    logs = np.log(predict(model, sites, table(size))["probs"].values)
    np.testing.assert_allclose(odds, logs - logs[:, :1], atol=1e-10)
    assert discriminant(model, fitted("nuts", size))["weight_x"].dims == ("chain", "draw", "class", "feature")


@pytest.mark.slow
def test_units_and_offsets_do_not_matter():
    """A column in thousandths and far from 0: the prior follows, the weights are in the new unit, the labels as probable."""
    data = table(3)._replace(x=X * np.array([1e3, 1.0]) + np.array([1e9, 0.0]))
    here, there = fit(build(3), table(3), method="em"), fit(build(3, data), data, method="em")
    assert near(there["latent"]["responsibilities"], here["latent"]["responsibilities"], atol=1e-4)
    assert near(there["functionals"]["log_likelihood"], here["functionals"]["log_likelihood"], atol=1e-4)


# ---------------------------------------------------------------------------------------------------------------------
# Separation, priors, mistakes


def test_separation():
    """Complete, quasi-complete and none; by one class of three; a set that leaves the separation, and a missing label."""
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    low, high, either = [True, False], [False, True], [True, True]
    assert is_separable(x, np.array([low, low, high, high]))
    assert is_separable(np.array([[-2.0], [0.0], [0.0], [2.0]]), np.array([low, low, high, high]))
    assert not is_separable(x, np.array([low, high, low, high]))
    assert is_separable(x, np.array([low, either, low, high]))
    three = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    assert is_separable(x, three)
    assert not is_separable(np.tile(x, (3, 1)), np.repeat(np.eye(3, dtype=bool), 4, axis=0))


def test_rows_of_weight_zero_do_not_overlap():
    """The one row that keeps the classes apart from being separable counts only where it weighs something."""
    x, labels = np.array([[0.0], [1.0], [2.0], [3.0], [2.5]]), ["a", "a", "b", "b", "a"]
    weight = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    MODELS["logistic_regression"](load_data(x, labels=labels), prior="flat")
    with pytest.raises(ZooError, match="separates the classes"):
        MODELS["logistic_regression"](load_data(x, labels=labels, weight=weight), prior="flat")


def test_given_numbers_are_the_prior():
    model = build(2, prior={"weight": {"scale": [0.1, 0.2]}, "intercept": {"scale": 3}})
    assert near(model.hyper["weight_scale"], [0.1, 0.2], rtol=1e-15)
    assert near(np.diag(model.prior["class_1"].quadratic), [1 / 9, 100, 25], rtol=1e-12)
    assert near(build(2).hyper["weight_scale"], 2.5 / X.std(0), rtol=1e-12)


def twins() -> Data:
    """Two columns that are one."""
    return table(2)._replace(x=X[:, [0, 0]] * np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build(2, Data("bare", X, ("u", "v"))), "no labels"),
        (lambda: build(2, table(2)._replace(labels=np.full(24, -1))), "no labels"),
        (lambda: build(2, line(["a"] * 4)), "only one class"),
        (lambda: build(2, line(["a", "a", "b", "b"]), prior="flat"), r"separation.*proper prior"),
        (lambda: build(2, table(2)._replace(x=X * np.array([1.0, 0.0])), prior="flat"), "column 'v' has the same value"),
        (lambda: build(2, table(2)._replace(x=np.where(np.isin(X, X[3, 0]), np.nan, X))), "row 4: the cell is missing"),
        (lambda: build(2, weight_scale=-1.0), "weight_scale must be above 0"),
        (lambda: build(2, weight_scale="wide"), "weight_scale must be a number"),
        (lambda: build(2, prior="vague"), "expected default, flat, or numbers"),
        (lambda: build(2, prior={"slope": {"scale": 1}}), "the blocks are weight, intercept"),
        (lambda: build(2, prior={"weight": {"sd": 1}}), "only name in this block is scale"),
        (lambda: build(2, prior={"weight": {"scale": [1, 2, 3]}}), "shape"),
        (lambda: build(2).rows(table(3)), "the label 'c'"),
        (lambda: fit(build(2, prior="flat"), table(2), method="gibbs"), "flat"),
        (lambda: fit(build(2, twins(), prior="flat"), twins(), method="em"), "combination of the others"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()
