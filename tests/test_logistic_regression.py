"""Logistic regression: the program, the Pólya-Gamma algebra, and every method on them, against NumPy and SciPy."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import batch_error, near, neighbours_increase
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from scipy import optimize, stats
from scipy.special import entr, log_softmax, logsumexp, softmax
from test_retrace import OPTIONS, counted

from inference import METHODS, discriminant, fit, gibbs, log_likelihood, predict, score
from inference.shell import run_main
from inference.sweep import Verbs, sweep
from models import MODELS, Data, Model, ZooError, load_data
from models.base import at_mode, log_prior
from models.data import allowed_labels
from models.logistic_regression import Rows, draw_labels
from models.normal import NormalStats, normal
from models.polya_gamma import draw, expected_omega, log_two_cosh
from models.separation import is_separable

Sites = dict[str, np.ndarray]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]]) + [1.0, -2.0]
LABELS = {
    2: [*("ab" * 4), None, *("abb" * 4), "a", None, "b"],
    3: ["a", "b", "c", None, "a|b", "b", None, "a", "c", "c|b", "a", "b", "c", "a", *("abc" * 3), "a|c"],
}
SHORT = {
    "em": {"num_starts": 2},
    "stochastic_em": {"num_starts": 2, "max_iter": 50},
    "cavi": {"num_starts": 2, "num_samples": 20},
    "map": {"num_starts": 2},
    "laplace": {"num_starts": 2, "num_samples": 20},
    "gibbs": {"num_warmup": 20, "num_samples": 20},
    "nuts": {"num_warmup": 20, "num_samples": 20},
}
RUNS = [(method, size) for method in SHORT for size in (2, 3) if (method, size) != ("cavi", 3)]
every_size = pytest.mark.parametrize("size", [2, 3])


@cache
def table(size: int) -> Data:
    return load_data(pd.DataFrame(X, columns=["u", "v"]).assign(kind=LABELS[size]), label="kind")


def build(size: int, data: Data | None = None, **options: Any) -> Model:
    return MODELS["logistic_regression"](table(size) if data is None else data, **options)


@cache
def fitted(method: str, size: int) -> xr.DataTree:
    return fit(build(size), table(size), method=method, seed=1, **SHORT[method])


def random_sites(size: int, columns: int = 2, seed: int = 1) -> Sites:
    rng = np.random.default_rng(seed)
    return {"weight": rng.normal(size=(size - 1, columns)), "intercept": rng.normal(size=size - 1)}


def found_sites(tree: xr.DataTree) -> Sites:
    return {str(name): value.values for name, value in tree["point_estimate"].data_vars.items()}


# ---------------------------------------------------------------------------------------------------------------------
# The model once more, written stupidly


def naive_eta(model: Model, sites: Sites, x: np.ndarray) -> np.ndarray:
    centred = x - model.hyper["origin"]
    columns = [np.zeros(len(x))] + [b + centred @ w for w, b in zip(sites["weight"], sites["intercept"], strict=True)]
    return np.stack(columns, axis=1)


def naive_log_likelihood(model: Model, sites: Sites, x: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    return logsumexp(np.where(allowed, log_softmax(naive_eta(model, sites, x), axis=1), -np.inf), axis=1)


def naive_log_prior(model: Model, sites: Sites) -> float:
    if "weight_scale" not in model.hyper:
        return 0.0
    weights = stats.norm(0, model.hyper["weight_scale"]).logpdf(sites["weight"]).sum()
    return float(weights + stats.norm(0, model.hyper["intercept_scale"]).logpdf(sites["intercept"]).sum())


def naive_step(model: Model, sites: Sites, x: np.ndarray, allowed: np.ndarray) -> Sites:
    """One step of EM: class after class, ω and labels expected given the latest coefficients, then weighted least squares."""
    weight, intercept = sites["weight"].copy(), sites["intercept"].copy()
    design = np.column_stack([np.ones(len(x)), x - model.hyper["origin"]])
    precision = np.diag(np.concatenate([[model.hyper["intercept_scale"]], model.hyper["weight_scale"]]) ** -2.0)
    for c in range(1, allowed.shape[1]):
        eta = naive_eta(model, {"weight": weight, "intercept": intercept}, x)
        total, pull = precision.copy(), np.zeros(design.shape[1])
        for n, row in enumerate(design):
            if allowed[n].all():
                continue
            offset = logsumexp(np.delete(eta[n], c))
            psi = eta[n, c] - offset
            omega = np.tanh(psi / 2) / (2 * psi)
            probs = softmax(np.where(allowed[n], eta[n], -np.inf))
            total += omega * np.outer(row, row)
            pull += (probs[c] - 0.5 + omega * offset) * row
        intercept[c - 1], *weight[c - 1] = np.linalg.solve(total, pull)
    return {"weight": weight, "intercept": intercept}


def best_log_joint(model: Model, x: np.ndarray, allowed: np.ndarray) -> float:
    """The maximum of the naive log posterior, by SciPy."""
    shape = (allowed.shape[1] - 1, x.shape[1] + 1)

    def loss(flat: np.ndarray) -> float:
        coefficients = flat.reshape(shape)
        sites = {"weight": coefficients[:, 1:], "intercept": coefficients[:, 0]}
        return -naive_log_prior(model, sites) - naive_log_likelihood(model, sites, x, allowed).sum()

    first = optimize.minimize(loss, np.zeros(np.prod(shape)), method="BFGS")
    polished = optimize.minimize(loss, first.x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxfev": 20000})
    return -float(polished.fun)


# ---------------------------------------------------------------------------------------------------------------------
# Program and algebra


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

    def program(sites: Any, rows: Any, marginal: bool = True) -> Any:
        return log_density(model.spec, (dict(model.hyper), rows), {"marginal": marginal}, sites)[0]

    density, gradient = jax.jit(jax.value_and_grad(program))(sites, rows)
    assert float(density) == pytest.approx(total, rel=1e-10)
    assert all(np.isfinite(leaf).all() for leaf in gradient.values())
    near(log_likelihood(model, sites, data), naive, rtol=1e-10, atol=1e-12)

    @jax.jit
    def by_algebra(sites: Any) -> Any:
        with jax.numpy_rank_promotion("raise"):
            T = algebra.natural(model.hyper, sites)
            local = algebra.local(T)(algebra.features(model.hyper, rows))
            return log_prior(algebra, model.prior, T) + (weight * algebra.latent.log_partition(local)).sum()

    assert float(by_algebra(sites)) == pytest.approx(total, rel=1e-10)
    label = np.array([np.flatnonzero(row)[-1] for row in allowed])
    complete = jax.jit(program, static_argnames="marginal")(sites | {"label": label}, rows, marginal=False)
    chosen = log_softmax(naive_eta(model, sites, X), axis=1)[np.arange(24), label]
    assert float(complete) == pytest.approx(naive_log_prior(model, sites) + (weight * chosen).sum(), rel=1e-10)
    forbidden = np.array([np.flatnonzero(~row)[0] if not row.all() else 0 for row in allowed])
    outside = program(sites | {"label": forbidden}, rows._replace(weight=None), marginal=False)
    assert float(outside) == -np.inf


@every_size
def test_sites_survive_the_round_trip(size):
    model, sites = build(size), random_sites(size)
    back = model.algebra.sites(model.hyper, model.algebra.natural(model.hyper, sites))
    assert all(near(back[name], sites[name], rtol=1e-15) for name in sites)


def random_natural(seed: int = 3, columns: int = 3) -> NormalStats:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(columns, columns))
    return NormalStats(jnp.asarray(rng.normal(size=columns)), jnp.asarray(factor @ factor.T + np.eye(columns)))


def test_normal_family():
    """The gradient of the log partition is the mean; its value SciPy's; the mode's gradient vanishes; draws have the moments.

    Twelve means of 40,000 draws within 5.5 standard errors: false alarms below 1e-6.
    """
    nu = random_natural()
    gradient, mean = jax.grad(normal.log_partition)(nu), normal.mean(nu)
    near(gradient.linear, mean.linear, rtol=1e-12)
    near((gradient.quadratic + gradient.quadratic.T) / 2, mean.quadratic, rtol=1e-12)
    covariance = np.linalg.inv(nu.quadratic)
    peer = stats.multivariate_normal(covariance @ nu.linear, covariance)
    beta = np.array([0.3, -1.0, 2.0])
    T = NormalStats(beta, -0.5 * np.outer(beta, beta))
    value = (T.linear * nu.linear).sum() + (T.quadratic * nu.quadratic).sum() - normal.log_partition(nu)
    assert float(value) == pytest.approx(peer.logpdf(beta), rel=1e-12)
    near(normal.mode(nu).linear, peer.mean, rtol=1e-12)
    draws = jax.vmap(normal.sample, (0, None))(jax.random.split(jax.random.PRNGKey(0), 40000), nu)
    for found, wanted in zip(jax.tree.leaves(draws), jax.tree.leaves(mean), strict=True):
        assert (np.abs(found.mean(0) - wanted) <= 5.5 * np.std(found, axis=0) / 200).all()
    assert normal.defect(nu) is None
    assert "combination" in normal.defect(NormalStats(nu.linear, jnp.ones((3, 3))))


@pytest.mark.parametrize(("size", "uncertain"), [(2, False), (2, True), (3, False)])
def test_gradient_of_the_local_log_partition_is_the_statistics(size, uncertain):
    """Block by block, ∂ Σ log Z(local(T)) / ∂T = statistics of the mean latents; at a point, and for two classes under q(θ)."""
    model = build(size)
    algebra, rows = model.algebra, model.rows(table(size))
    features = algebra.features(model.hyper, rows)
    T = algebra.natural(model.hyper, random_sites(size))
    if uncertain:
        T = {name: normal.mean(random_natural()) for name in T}
    together = algebra.statistics(jnp.ones(24), algebra.latent.mean(None, algebra.local(T)(features)), features)
    for part in algebra.cycle or (algebra,):
        [(block, _)] = part.families

        def total(own: Any, part: Any = part, block: str = block) -> Any:
            return part.latent.log_partition(part.local(T | {block: own})(features)).sum()

        gradient = jax.jit(jax.grad(total))(T[block])
        z = part.latent.mean(None, part.local(T)(features))
        found = part.statistics(jnp.ones(24), z, features)[block]
        near(gradient.linear, found.linear, rtol=1e-11)
        near((gradient.quadratic + gradient.quadratic.T) / 2, found.quadratic, rtol=1e-11)
        jax.tree.map(lambda a, b: near(a, b, rtol=1e-12), found, together[block])


@every_size
def test_functions_at_no_log_odds(size):
    """ψ = 0 is where tanh(c/2) / 2c is 0/0: probabilities are uniform, ω is 1/4, gradients are finite."""
    model = build(size)
    zero = {"weight": np.zeros((size - 1, 2)), "intercept": np.zeros(size - 1)}
    T = model.algebra.natural(model.hyper, zero)
    features = model.algebra.features(model.hyper, model.rows(table(size)))
    z = model.algebra.latent.mean(None, model.algebra.local(T)(features))
    if size == 2:
        near(z.omega, np.full((24, 1), 0.25), rtol=1e-15)
    naive = naive_log_likelihood(model, zero, X, allowed_labels(table(size)))
    near(log_likelihood(model, zero, table(size)), naive, rtol=1e-12, atol=1e-15)
    gradient = jax.grad(lambda T: model.algebra.latent.log_partition(model.algebra.local(T)(features)).sum())(T)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


# ---------------------------------------------------------------------------------------------------------------------
# Pólya-Gamma draws


@pytest.mark.parametrize("c", [0.0, 1e-4, 0.5, 1.0, 2.0, 3.1, 3.15, 5.0, 10.0, 30.0])
def test_polya_gamma_moments(c):
    """Mean, variance and Laplace transform in closed form, each within 5.5 standard errors: 4e-8 false alarms each."""
    omega = np.asarray(jax.jit(draw)(jax.random.PRNGKey(int(10 * c)), jnp.full(200000, c)))
    mean = np.tanh(c / 2) / (2 * c) if c > 1e-3 else 0.25
    variance = (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2) if c > 1e-3 else 1 / 24
    checks = {"mean": (omega, mean), "variance": ((omega - mean) ** 2, variance)}
    for t in (0.5, 4.0, 50.0):
        checks[f"exp(-{t} omega)"] = (np.exp(-t * omega), np.cosh(c / 2) / np.cosh(np.sqrt((c**2 / 2 + t) / 2)))
    for name, (values, wanted) in checks.items():
        assert abs(values.mean() - wanted) <= 5.5 * values.std() / np.sqrt(len(values)), name
    assert (omega > 0).all()


@pytest.mark.parametrize("c", [0.0, 1.5, 4.0])
def test_polya_gamma_is_its_sum_of_gammas(c):
    """Kolmogorov-Smirnov against (1/2π²) Σ g_k / ((k − ½)² + c²/4π²), 400 terms and the mean of the rest: p above 1e-6."""
    k = np.arange(1, 100001) - 0.5
    scale = 1 / (2 * np.pi**2 * (k**2 + c**2 / (4 * np.pi**2)))
    gammas = np.random.default_rng(0).exponential(size=(20000, 400))
    naive = gammas @ scale[:400] + scale[400:].sum()
    found = np.asarray(jax.jit(draw)(jax.random.PRNGKey(1), jnp.full(20000, c)))
    assert stats.ks_2samp(found, naive).pvalue > 1e-6


def test_polya_gamma_at_extremes():
    """Entries of all sizes side by side, huge ones too, in both precisions: finite, positive, and of the right size."""
    for dtype in (jnp.float32, jnp.float64):
        c = jnp.asarray([0.0, 1e-3, 1.0, 1e2, 1e4, 1e6] * 50, dtype)
        omega = np.asarray(jax.jit(draw)(jax.random.PRNGKey(0), c))
        assert omega.dtype == dtype
        assert (omega > 0).all()
        near(omega[np.asarray(c) == 1e6], 0.5e-6, rtol=0.05)


# ---------------------------------------------------------------------------------------------------------------------
# Methods


@every_size
def test_em_is_the_naive_steps(size):
    """Three steps from a start: class after class, with sums over rows."""
    model, sites = build(size), random_sites(size)
    tree = fit(model, table(size), method="em", start=sites, max_iter=3, tol=0)
    for _ in range(3):
        sites = naive_step(model, sites, X, allowed_labels(table(size)))
    for name, value in sites.items():
        near(tree["point_estimate"][name], value, rtol=1e-9)


def test_blocks_of_rows_are_one_step():
    """5000 rows take three blocks."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5000, 2))
    data = Data("many", x, ("u", "v"), rng.integers(-1, 3, 5000), "kind", ("a", "b", "c"))
    model, sites = build(3, data), random_sites(3)
    tree = fit(model, data, method="em", start=sites, max_iter=1, tol=0)
    for name, value in naive_step(model, sites, x, allowed_labels(data)).items():
        near(tree["point_estimate"][name], value, rtol=1e-9)


@every_size
def test_em_is_monotone_and_ends_at_scipys_maximum(size):
    """Every start at one mode, that of the naive log posterior to 1e-8; MAP on the program agrees to 1e-6."""
    model = build(size)
    tree = fit(model, table(size), method="em", tol=1e-15, num_starts=3, max_iter=5000)
    assert all(neighbours_increase(trace, 1e-12) for trace in tree["optimization"]["objective"].values)
    best = best_log_joint(model, X, allowed_labels(table(size)))
    near(tree["optimization"]["final_objective"], best, atol=1e-8)
    assert float(fitted("map", size)["functionals"]["log_joint"]) == pytest.approx(best, rel=1e-6)
    for name, value in found_sites(tree).items():
        near(fitted("map", size)["point_estimate"][name], value, atol=1e-4)


@every_size
def test_maximum_likelihood_by_em_is_scipys(size):
    """prior=flat, on labels that overlap."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    labels = (x[:, 0] + rng.logistic(size=60) > np.array([[0.0], [1.0]])[: size - 1]).sum(0)
    data = Data("overlap", x, ("u", "v"), labels, "kind", ("a", "b", "c")[:size])
    model = build(size, data, prior="flat")
    tree = fit(model, data, method="em", tol=1e-15, num_starts=2, max_iter=20000)
    near(tree["functionals"]["log_joint"], best_log_joint(model, x, allowed_labels(data)), atol=1e-8)
    assert float(tree["functionals"]["log_joint"]) == float(tree["functionals"]["log_likelihood"])


def test_weighted_rows_are_repeated_rows():
    weight = np.array([0, 1, 2, 3] * 6)
    data = table(3)._replace(weight=weight.astype(float))
    picked = np.repeat(np.arange(24), weight)
    assert table(3).candidates is not None
    repeated = Data("repeated", X[picked], ("u", "v"), table(3).labels[picked], "kind", table(3).levels)
    repeated = repeated._replace(candidates=table(3).candidates[picked])
    left, right = (fit(build(3, d), d, method="em", start=random_sites(3), max_iter=5, tol=0) for d in (data, repeated))
    for name in ("weight", "intercept"):
        near(left["point_estimate"][name], right["point_estimate"][name], rtol=1e-9)
    with pytest.raises(ZooError, match="repeat the rows"):
        fit(build(3, data), data, method="gibbs")


def line(labels: list[Any]) -> Data:
    x = np.linspace(-1, 1, len(labels)) ** 3 + 0.2 * np.linspace(-1, 1, len(labels))
    return load_data(pd.DataFrame({"u": x, "kind": labels}), label="kind")


def test_cavi_bound_is_below_the_evidence():
    """The evidence of one column by quadrature over weight and intercept; the bound is monotone and within half a nat."""
    data = line(["a", "b", "a", "a", None, "b", "a", "b", "b", None, "b", "b"])
    model = build(2, data, weight_scale=1.0)
    tree = fit(model, data, method="cavi", num_starts=3, num_samples=10)
    assert all(neighbours_increase(trace, 1e-12) for trace in tree["optimization"]["criterion"].values)
    assert np.isfinite(tree["optimization"]["criterion"].values[:, 0]).all()
    weight_scale, intercept_scale = float(model.hyper["weight_scale"][0]), float(model.hyper["intercept_scale"])
    weights, intercepts = np.linspace(-9, 9, 401) * weight_scale, np.linspace(-9, 9, 401) * intercept_scale
    allowed = allowed_labels(data)
    values = np.zeros((401, 401)) + stats.norm(0, weight_scale).logpdf(weights)[:, None]
    values = values + stats.norm(0, intercept_scale).logpdf(intercepts)
    for n in np.flatnonzero(~allowed.all(1)):
        psi = weights[:, None] * (data.x[n, 0] - model.hyper["origin"][0]) + intercepts
        values -= np.logaddexp(0, -psi if allowed[n, 1] else psi)
    evidence = logsumexp(values) + np.log((weights[1] - weights[0]) * (intercepts[1] - intercepts[0]))
    assert evidence - 0.5 < tree.attrs["elbo"] < evidence


@pytest.mark.parametrize(("method", "size"), RUNS)
def test_every_method_takes_partial_labels(method, size):
    """Finite results, named classes, no relabelling, and no probability where a label forbids it."""
    tree = fitted(method, size)
    assert "posterior_raw" not in tree
    probs = tree["latent"]["responsibilities"]
    assert probs.dims == ("row", "class")
    assert tuple(probs["class"].values) == table(size).levels
    assert np.abs(probs.values[~allowed_labels(table(size))]).max() == 0
    near(probs.sum("class"), 1, rtol=1e-6)
    assert all(np.isfinite(value).all() for value in tree["functionals"].data_vars.values())
    assert set(tree["functionals"].data_vars) == {"log_joint", "log_likelihood", "weight_norm", "intercept", "entropy"}
    assert tuple(tree["functionals"]["weight_norm"]["contrast"].values) == table(size).levels[1:]
    group = tree["posterior"] if "posterior" in tree else tree["point_estimate"]
    assert group["weight"].dims[-2:] == ("contrast", "column")


def test_every_method_is_run_or_refused():
    refused = {"hard_em": "most probable value", "exact": "never observed"}
    assert {*SHORT, *refused} == set(METHODS)
    for method, words in refused.items():
        with pytest.raises(ZooError, match=words):
            fit(build(2), table(2), method=method)
    with pytest.raises(ZooError, match="no evidence bound"):
        fit(build(3), table(3), method="cavi")


@pytest.mark.parametrize(("method", "size"), RUNS)
def test_second_fit_traces_nothing(method, size):
    for seed in (0, 1):
        data = table(size)._replace(x=X + seed * np.sin(X))
        with counted() as events:
            fit(build(size, data), data, method=method, seed=seed, **OPTIONS[method])
    assert events == []


def test_program_runs_in_numpyro():
    """As the contract says: the model's program is an argument of NumPyro's own sampler."""
    model = build(3)
    sampler = MCMC(NUTS(model.program), num_warmup=20, num_samples=5, progress_bar=False)
    sampler.run(jax.random.PRNGKey(0), table(3))
    assert sampler.get_samples()["weight"].shape == (5, 2, 2)


@pytest.mark.slow
@every_size
def test_gibbs_agrees_with_nuts(size):
    """Means of functionals and sites and their squares, |z| < 5.5 at 39 degrees of freedom: false alarms below 1e-4."""
    options = {"gibbs": {"num_warmup": 1000, "num_samples": 10000}, "nuts": {"num_samples": 2000}}
    trees = [fit(build(size), table(size), method=method, seed=2, **chosen) for method, chosen in options.items()]
    scores = {}
    for group in ("functionals", "posterior"):
        for name in trees[0][group].data_vars:
            left, right = (np.moveaxis(t[group][name].values.reshape(*t[group][name].shape[:2], -1), 2, 0) for t in trees)
            for column, (found, wanted) in enumerate(zip(left, right, strict=True)):
                for power in (1, 2):
                    pair = [(draws - wanted.mean()) ** power for draws in (found, wanted)]
                    error = np.hypot(batch_error(pair[0]), batch_error(pair[1]))
                    scores[name, column, power] = abs(pair[0].mean() - pair[1].mean()) / error
    assert max(scores.values()) < 5.5, scores


CHAINS, SWEEPS, ROWS = 10000, 6, 10


@pytest.mark.slow
@every_size
def test_geweke(size):
    """Started from the prior, "labels given θ, then θ by Gibbs" leaves θ and the labels at the prior; columns are fixed.

    Of three classes, six of ten rows hide which of two they are in; one hides its label altogether. Kolmogorov-Smirnov on 6
    functions, twice, each at a p-value of 1e-6: false alarms below 2e-5.
    """
    rng = np.random.default_rng(0)
    x = X[:ROWS]
    labels = np.arange(ROWS) % size
    data = Data("few", x, ("u", "v"), labels, "kind", ("a", "b", "c")[:size])
    model = build(size, data, weight_scale=1.5, prior={"intercept": {"scale": 1.0}})
    told = np.tile(np.eye(size, dtype=bool), (ROWS, 1, 1))  # row, label -> what is seen of it
    told[-1] = True
    if size == 3:
        told[:3, 1:, 1:] = told[3:6, :2, :2] = True
    hyper, prior = dict(model.hyper), dict(model.prior)

    def prior_draws() -> Sites:
        weight = rng.normal(size=(CHAINS, size - 1, 2)) * hyper["weight_scale"]
        return {"weight": weight, "intercept": rng.normal(size=(CHAINS, size - 1)) * float(hyper["intercept_scale"])}

    def labels_of(key: Any, T: Any) -> Any:
        return draw_labels(key, hyper, model.algebra.sites(hyper, T), jnp.asarray(x))

    def step(T: Any, key: Any) -> tuple[Any, None]:
        key_labels, key_step = jax.random.split(key)
        seen = (labels_of(key_labels, T)[:, :, None] & told).any(1)
        return gibbs.step(model.algebra, (hyper, prior, Rows(jnp.asarray(x), None, seen)), key_step, T)[0], None

    def chain(sites: Any, key: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, SWEEPS + 1)
        T, _ = jax.lax.scan(step, model.algebra.natural(hyper, sites), keys[1:])
        return model.algebra.sites(hyper, T), labels_of(keys[0], T)

    def summaries(sites: Sites, y: np.ndarray) -> dict[str, np.ndarray]:
        first = {"first": sites["weight"][:, 0, 0], "last": sites["weight"][:, -1, 1], "intercept": sites["intercept"][:, -1]}
        first["square"] = (sites["weight"] ** 2).sum((1, 2)) + (sites["intercept"] ** 2).sum(1)
        pull = (y[:, :, -1] * (x[:, 0] - x[:, 0].mean())).sum(1)
        return first | {"pull": pull, "coupling": pull * sites["weight"][:, -1, 0]}

    start, reference = prior_draws(), prior_draws()
    keys = jax.random.split(jax.random.PRNGKey(1), CHAINS)
    after = jax.tree.map(np.asarray, jax.jit(jax.vmap(chain))(start, keys))
    eta = np.stack([naive_eta(model, jax.tree.map(lambda leaf, s=s: leaf[s], reference), x) for s in range(CHAINS)])
    gumbel = rng.gumbel(size=eta.shape)
    y = np.eye(size)[(eta + gumbel).argmax(-1)]
    found, wanted = summaries(*after), summaries(reference, y)
    p_values = {name: stats.ks_2samp(found[name], wanted[name]).pvalue for name in wanted}
    assert min(p_values.values()) > 1e-6, p_values


# ---------------------------------------------------------------------------------------------------------------------
# Prediction, invariances, mistakes


@every_size
def test_prediction_is_the_average_softmax(size):
    """Over draws, whatever labels the new rows carry; x is not modelled, so its log density is 0."""
    model, tree = build(size), fitted("gibbs", size)
    found = predict(model, tree, table(size))
    weight, intercept = (tree["posterior"][name].values for name in ("weight", "intercept"))
    naive = [
        softmax(naive_eta(model, {"weight": w, "intercept": b}, X), axis=1)
        for w, b in zip(weight.reshape(-1, size - 1, 2), intercept.reshape(-1, size - 1), strict=True)
    ]
    near(found["probs"], np.mean(naive, axis=0), rtol=1e-10)
    near(found["probs"].sum("class"), 1, rtol=1e-12)
    near(found["log_density"], 0, atol=1e-12)
    # Where labels are given, the entropy that is reported is theirs.
    responsibilities = fitted("em", size)["latent"]["responsibilities"].values.astype(float)
    near(fitted("em", size)["functionals"]["entropy"], entr(responsibilities).sum(1).mean(), rtol=1e-5)
    bare = predict(model, tree, Data("new", X, ("u", "v")))
    np.testing.assert_array_equal(found["probs"], bare["probs"])
    assert 0.3 < float(score(model, tree, table(size))["accuracy"]) <= 1


@pytest.mark.parametrize("size", [2, 3])
def test_discriminant_is_linear_in_raw_columns(size):
    """bias + weightᵀ x, in the table's own units, is log p(y = c) − log p(y = first), at a point; draws have an interval."""
    model, sites = build(size), random_sites(size)
    found = discriminant(model, sites)
    x = table(size).x
    odds = found["bias"].values[None] + x @ found["weight_x"].values.T
    logs = np.log(predict(model, sites, table(size))["probs"].values)
    np.testing.assert_allclose(odds, logs - logs[:, :1], atol=1e-10)
    assert discriminant(model, fitted("nuts", size))["weight_x"].dims == ("chain", "draw", "class", "column")


def test_units_and_offsets_do_not_matter():
    """A column in thousandths and far from 0: the prior follows, the weights are in the new unit, the labels as probable."""
    data = table(3)._replace(x=X * np.array([1e3, 1.0]) + np.array([1e9, 0.0]))
    here, there = fit(build(3), table(3), method="em"), fit(build(3, data), data, method="em")
    near(there["latent"]["responsibilities"], here["latent"]["responsibilities"], atol=1e-4)
    near(there["functionals"]["log_likelihood"], here["functionals"]["log_likelihood"], atol=1e-4)


def test_log_joint_of_a_sweep_is_that_of_its_start():
    """What a cycle of blocks reports is log p(y | θ) at the θ that it entered with, and statistics of every block."""
    model, sites = build(3), random_sites(3)
    algebra, rows = model.algebra, model.rows(table(3))
    T = algebra.natural(model.hyper, sites)
    verbs = Verbs(at_mode, "mean")
    following, nu, local = sweep(algebra, verbs, model.hyper, model.prior, jax.random.PRNGKey(0), T, rows)
    naive = naive_log_likelihood(model, sites, X, allowed_labels(table(3)))
    assert float(local.log_partition) == pytest.approx(naive.sum(), rel=1e-12)
    assert set(following) == set(nu) == set(local.stats) == {"class_1", "class_2"}


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build(2, Data("bare", X, ("u", "v"))), "no labels"),
        (lambda: build(2, table(2)._replace(labels=np.full(24, -1))), "no labels"),
        (lambda: build(2, line(["a"] * 4)), "one class only"),
        (lambda: build(2, line(["a", "a", "b", "b"]), prior="flat"), r"separation.*proper prior"),
        (lambda: build(2, table(2)._replace(x=X * np.array([1.0, 0.0]))), "column 'v' has the same value"),
        (lambda: build(2, table(2)._replace(x=np.where(np.isin(X, X[3, 0]), np.nan, X))), "row 4: the cell is missing"),
        (lambda: build(2, weight_scale=-1.0), "weight_scale must be above 0"),
        (lambda: build(2, weight_scale="wide"), "weight_scale must be a number"),
        (lambda: build(2, prior="vague"), "expected default, flat, or numbers"),
        (lambda: build(2, prior={"slope": {"scale": 1}}), "the blocks are weight, intercept"),
        (lambda: build(2, prior={"weight": {"sd": 1}}), "one name, scale"),
        (lambda: build(2, prior={"weight": {"scale": [1, 2, 3]}}), "shape"),
        (lambda: build(2).rows(table(3)), "the class 'c'"),
        (lambda: fit(build(2, prior="flat"), table(2), method="gibbs"), "flat"),
        (lambda: fit(build(2, twins(), prior="flat"), twins(), method="em"), "combination of the others"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


def twins() -> Data:
    """Two columns that are one."""
    return table(2)._replace(x=X[:, [0, 0]] * np.array([1.0, 2.0]))


def test_given_numbers_are_the_prior():
    model = build(2, prior={"weight": {"scale": [0.1, 0.2]}, "intercept": {"scale": 3}})
    near(model.hyper["weight_scale"], [0.1, 0.2], rtol=1e-15)
    near(np.diag(model.prior["class_1"].quadratic), [1 / 9, 100, 25], rtol=1e-12)
    near(build(2).hyper["weight_scale"], 2.5 / X.std(0), rtol=1e-12)


@pytest.mark.parametrize("method", ["em", "gibbs", "nuts"])
def test_command_line(tmp_path, capsys, method):
    """The file says which labels are missing; the table names the classes and columns."""
    path = tmp_path / "table.csv"
    pd.DataFrame(X, columns=["u", "v"]).assign(kind=LABELS[3]).to_csv(path, index=False)
    arguments = ["model=logistic_regression", f"method={method}", f"data={path}", "data.label=kind", "progress=false"]
    short = [] if method == "em" else ["num_samples=50", "num_warmup=50"]
    assert run_main([*arguments, *short, f"out={tmp_path / 'run'}"]) in ({0} if method == "em" else {0, 3})
    assert (tmp_path / "run" / "results.nc").is_file()
    assert "weight_norm[b]" in capsys.readouterr().out


def test_rows_of_weight_zero_do_not_overlap():
    """The one row that keeps the classes apart from being separable counts only where it weighs something."""
    x, labels = np.array([[0.0], [1.0], [2.0], [3.0], [2.5]]), ["a", "a", "b", "b", "a"]
    weight = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    MODELS["logistic_regression"](load_data(x, labels=labels), prior="flat")
    with pytest.raises(ZooError, match="separates the classes"):
        MODELS["logistic_regression"](load_data(x, labels=labels, weight=weight), prior="flat")


def test_series_meet_the_functions_they_stand_for():
    """Just below the switch both are known to rounding: tanh(c/2)/2c, and log 2 cosh(c/2), at c = 9e-4."""
    c = 9e-4
    assert float(expected_omega(jnp.asarray(c**2))) == pytest.approx(np.tanh(c / 2) / (2 * c), rel=1e-12)
    assert float(log_two_cosh(jnp.asarray(c**2))) == pytest.approx(np.log(2 * np.cosh(c / 2)), rel=1e-14)
