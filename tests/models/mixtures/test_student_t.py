"""Student-t components: against SciPy's densities, the steps of Peel and McLachlan, and the Gaussian limit."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import CHAINS, geweke
from identities import agree, climbed, values_of
from naive import build, draws_of, log_local, log_prior, matrices, near, neighbours_increase, probs, random_sites, table
from scipy import optimize, stats
from scipy.special import digamma, logsumexp
from two_stage import assert_standard_normal, of_means

from inference import discriminant, fit, predict
from inference.engine.sweep import Updates, sweep
from models import MODELS, ZooError, load_data
from models.algebra import at_mode
from models.emissions.gaussians.student_t import FORMS
from models.rows.scales import robust_moments

K, D = 2, 2
RNG = np.random.default_rng(4)
X = np.concatenate([RNG.standard_t(3, (9, D)), RNG.standard_t(3, (8, D)) + 4.0])
Z = np.eye(K)[RNG.integers(K, size=len(X))]
COVARIANCES = ["full", *(pytest.param(name, marks=pytest.mark.slow) for name in FORMS if name != "full")]
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)
both = pytest.mark.parametrize("degrees", ["estimated", pytest.param(4.5, marks=pytest.mark.slow)])


def model_of(covariance, degrees="estimated", x=X, **options):
    return build(x, covariance, K, tails="student_t", degrees_of_freedom=degrees, **options)


def sites_of(covariance, degrees="estimated", x=X):
    sites = random_sites(covariance, K, x)
    return sites | ({"degrees_of_freedom": np.array([2.5, 7.0])} if degrees == "estimated" else {})


def degrees_at(sites, degrees):
    return sites.get("degrees_of_freedom", np.full(K, degrees))


def naive_local(covariance, sites, degrees, x=X):
    """Log π_k + log Student-t(x_n | ν_k, mean_k, precision_k⁻¹), one SciPy density at a time: (N, K)."""
    parts = zip(probs(sites), sites["mean"], matrices(covariance, sites), degrees_at(sites, degrees), strict=True)
    columns = [np.log(p) + stats.multivariate_t(m, np.linalg.inv(matrix), df=nu).logpdf(x) for p, m, matrix, nu in parts]
    return np.stack(columns, axis=1)


def naive_log_prior(covariance, model, sites):
    hyper, total = dict(model.hyper), log_prior(covariance, dict(model.hyper), sites)
    if "degrees_of_freedom" in sites:
        total += stats.gamma(hyper["tail_shape"], scale=1 / hyper["tail_rate"]).logpdf(sites["degrees_of_freedom"]).sum()
    return total


@both
@every_covariance
def test_the_program_is_the_algebra(covariance, degrees):
    """Log p(x, θ) and log p(x, z, θ): program, algebra and SciPy; the statistics are the gradient."""
    model, sites = model_of(covariance, degrees), sites_of(covariance, degrees)
    found = values_of(model, model.rows(table(X)), sites, Z)
    prior, local = naive_log_prior(covariance, model, sites), naive_local(covariance, sites, degrees)
    assert near(found.log_prior, prior, rtol=1e-10)
    assert near(found.local, local, rtol=1e-10)
    assert near(found.marginal, prior + logsumexp(local, axis=1).sum(), rtol=1e-10)
    assert near(found.complete, prior + (Z * local).sum(), rtol=1e-10)
    assert near(found.energy, (Z * local).sum(1), rtol=1e-10)
    assert agree(found.gradient, found.statistics, 1e-10)


@pytest.mark.slow
def test_statistics_are_the_gradient_in_expectation_too():
    """At E_q[T], which is no point: the E-step of variational inference maximises the bound."""
    model, sites = model_of("full"), sites_of("full")
    rows, algebra, hyper = model.rows(table(X)), model.algebra, dict(model.hyper)
    _, nu, _ = jax.jit(partial(sweep, algebra, Updates(at_mode, "mean")))(
        hyper, dict(model.prior), jax.random.PRNGKey(0), algebra.natural(hyper, sites), rows
    )
    T = {name: family.mean(nu[name]) for name, family in algebra.families}
    found = values_of(model, rows, sites, Z, T)
    assert agree(found.gradient, found.statistics, 1e-10)


def naive_step(covariance, sites, degrees, x=X):
    """One step of maximum likelihood by Peel and McLachlan (2000), equations 29 to 34, component by component."""
    local = naive_local(covariance, sites, degrees, x)
    r = np.exp(local - logsumexp(local, axis=1, keepdims=True))
    found = {"mixture_probs": r.mean(0), "mean": [], "degrees_of_freedom": []}
    scatters = []
    for k, (precision, nu) in enumerate(zip(matrices(covariance, sites), degrees_at(sites, degrees), strict=True)):
        away = x - sites["mean"][k]
        u = (nu + D) / (nu + np.einsum("ni,ij,nj->n", away, precision, away))
        mean = (r[:, k] * u) @ x / (r[:, k] * u).sum()
        scatters.append(sum(r[n, k] * u[n] * np.outer(x[n] - mean, x[n] - mean) for n in range(len(x))))
        log_u = digamma((nu + D) / 2) - np.log((nu + D) / 2) + np.log(u)
        gain = 1 + (r[:, k] * (log_u - u)).sum() / r[:, k].sum()
        found["mean"].append(mean)
        found["degrees_of_freedom"].append(
            optimize.brentq(lambda h, gain=gain: np.log(h) - digamma(h) + gain, 1e-3, 1e5, xtol=1e-14) * 2
        )
    counts = r.sum(0)
    each = [scatter / count for scatter, count in zip(scatters, counts, strict=True)]
    covariances = {
        "full": lambda: np.linalg.inv(np.stack(each)),
        "tied": lambda: np.linalg.inv(sum(scatters) / counts.sum()),
        "diag": lambda: 1 / np.stack([np.diag(scatter) for scatter in each]),
        "spherical": lambda: 1 / np.array([np.trace(scatter) / D for scatter in each]),
    }
    found["precision"] = covariances[covariance]()
    return {name: np.asarray(found[name]) for name in sites}


@both
@every_covariance
def test_a_step_of_em_is_peel_and_mclachlans(covariance, degrees):
    model, sites = model_of(covariance, degrees, prior="flat"), sites_of(covariance, degrees)
    found = climbed(model, table(X), sites, max_iter=1, tol=0).sites
    wanted = naive_step(covariance, sites, degrees)
    assert all(near(found[name][0], wanted[name], rtol=1e-8) for name in wanted)


@pytest.mark.slow
def test_em_climbs_to_a_maximum_of_the_program():
    """The log joint never falls, and map, which follows the program's gradient, ends at the same place."""
    data = load_data(X)
    model = model_of("full", x=data)
    points = climbed(model, data, sites_of("full"), max_iter=3000, tol=1e-12)
    assert neighbours_increase(points.objective[0], 1e-12)
    sites = {name: np.asarray(value[0]) for name, value in points.sites.items()}
    again = fit(model, data, "map", start=sites_of("full"), progress=False)
    assert near(again["functionals"]["log_joint"], points.objective[0][-1], rtol=1e-8)
    assert near(again["point_estimate"]["degrees_of_freedom"], sites["degrees_of_freedom"], rtol=1e-2)


def test_many_degrees_of_freedom_are_a_gaussian_mixture():
    """Log t − log Normal is about δ⁴ / (4 ν): below 1e-2 at ν = 1e8, where δ² is below 1e3."""
    model, sites = model_of("full", 1e8), sites_of("full", 1e8)
    assert near(values_of(model, model.rows(table(X)), sites, Z).local, log_local("full", sites, X), atol=1e-2)


@pytest.mark.slow
def test_outliers_do_not_move_components():
    """One row in twenty is far away. Student-t means stay within four standard errors, Gaussian ones do not."""
    rng = np.random.default_rng(0)
    clean = np.concatenate([rng.normal(size=(190, 2)), rng.normal(size=(190, 2)) + [8.0, 0.0]])
    x = np.concatenate([clean, rng.normal(size=(20, 2)) * 3 + [4.0, 60.0]])
    data = load_data(x)

    def distance(**options):
        tree = fit(build(data, "full", 2, **options), data, "em", num_starts=4, progress=False)
        mean = tree["point_estimate"]["mean"].values.reshape(2, 2)
        return np.abs(mean[np.argsort(mean[:, 0])] - [[0.0, 0.0], [8.0, 0.0]]).max()

    assert distance(tails="student_t") < 4 / np.sqrt(190) < 0.5 < distance()


@pytest.mark.slow
def test_simulated_rows_have_these_tails():
    """(x − mean)ᵀ Λ (x − mean) / D of rows of a component is F(D, ν): one factor scales a whole row."""
    model, sites = model_of("full"), sites_of("full")
    sites["mixture_probs"] = np.array([1.0, 0.0])

    def scores(seed, times):
        rows = model.abilities.simulate(jax.random.PRNGKey(seed), dict(model.hyper), sites, 20_000 * times)
        away = np.asarray(rows.x) - sites["mean"][0]
        distance = np.einsum("ni,ij,nj->n", away, sites["precision"][0], away) / D
        law = stats.f(D, sites["degrees_of_freedom"][0])
        wanted = [of_means((distance < threshold).astype(float), law.cdf(threshold)) for threshold in (0.1, 1.0, 5.0, 40.0)]
        return np.array(wanted)

    assert_standard_normal(scores)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_gibbs_keeps_the_joint_distribution(covariance):
    """Geweke: rows given θ, θ given rows by Gibbs, from the prior; degrees of freedom and means keep theirs."""
    x = RNG.normal(size=(6, D))
    prior = {"component": {"location": 0.0, "strength": 1.0, "dof": 8.0}}
    model = model_of(covariance, x=x, prior=prior)
    run = geweke(model, lambda rows: rows, 6)

    def prior_sites(seed):
        from numpyro.infer import Predictive

        rows = jax.tree.map(jnp.asarray, model.rows(table(x)))
        drawn = Predictive(partial(model.spec, marginal=True), num_samples=CHAINS)(
            jax.random.PRNGKey(seed), dict(model.hyper), rows
        )
        return {name: drawn[name] for name in ("mixture_probs", "mean", "precision", "degrees_of_freedom")}

    def scores(seed, times):
        found = []
        for repetition in range(times):
            start = prior_sites(seed + 1000 * repetition)
            sites, _ = run(start, seed + 1000 * repetition)
            nu = sites["degrees_of_freedom"]
            found.append(np.concatenate([np.log(nu), np.minimum(nu, 40.0), np.tanh(sites["mean"]).reshape(CHAINS, -1)], axis=1))
        values = np.concatenate(found)
        gamma = stats.gamma(2.0, scale=10.0)
        log_nu, capped = digamma(2.0) + np.log(10.0), gamma.expect(lambda v: np.minimum(v, 40.0))
        return of_means(values, np.array([log_nu] * K + [capped] * K + [0.0] * (K * D)))

    assert_standard_normal(scores)


@pytest.mark.slow
def test_gibbs_and_nuts_agree():
    """Means of the sites that no relabelling changes, and of their squares."""
    data = load_data(X)
    model = build(data, "diag", 1, tails="student_t")

    def scores(seed, times):
        trees = [
            fit(model, data, method, seed=seed, num_samples=1280 * times, num_warmup=500, num_chains=4, progress=False)
            for method in ("gibbs", "nuts")
        ]
        found = []
        for name in ("mean", "precision", "degrees_of_freedom"):
            left, right = (np.log(np.abs(draws_of(tree, "posterior", name))) for tree in trees)
            for power in (1, 2):
                found.append(_difference(left**power, right**power))
        return np.concatenate(found)

    assert_standard_normal(scores)


def _difference(left, right):
    """(entries,): differences of two chains' means in standard errors, by 40 batches each."""
    means = [draws.reshape(40, -1, draws.shape[1]).mean(1) for draws in (left, right)]
    error = np.sqrt(sum(each.var(0, ddof=1) / 40 for each in means))
    return (means[0].mean(0) - means[1].mean(0)) / error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tails": "heavy"}, "tails='heavy' is not one of gaussian, student_t"),
        ({"tails": "student_t", "degrees_of_freedom": 0}, "degrees_of_freedom must be estimated or a number above 0, got 0"),
        ({"tails": "student_t", "degrees_of_freedom": True}, "degrees_of_freedom must be estimated or a number above 0"),
        ({"degrees_of_freedom": 4}, "degrees_of_freedom=4 is an option of tails=student_t"),
        ({"tails": "student_t", "prior": {"component": {"tail_shape": 0.5}}}, "tail_shape"),
    ],
)
def test_options_are_checked(options, words):
    with pytest.raises(ZooError, match=words):
        build(X, "full", K, **options)


def test_what_it_cannot_take_is_refused():
    holed = X.copy()
    holed[0, 0] = np.nan
    with pytest.raises(ZooError, match="gmm with tails=student_t needs complete rows"):
        model_of("full", x=holed)
    with pytest.raises(ZooError, match="covariance=unit has no precision to scale"):
        model_of("unit")
    with pytest.raises(ZooError, match="exact"):
        fit(model_of("full"), table(X), "exact", progress=False)


@pytest.mark.parametrize("far", [60.0, 1e6])
def test_default_priors_take_their_scale_from_the_bulk(far):
    """Five rows in a hundred far away: location and scatter of the prior are about those of the others, however far."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(95, 2)), rng.normal(size=(5, 2)) + far])
    hyper = model_of("diag", x=x).hyper
    assert np.abs(hyper["location"]).max() < 0.5
    assert np.all((hyper["scatter"] > 0.5 / K) & (hyper["scatter"] < 2 / K))
    assert np.abs(hyper["origin"]).max() < 0.5


def test_weights_are_repeated_rows_in_default_priors():
    weight = np.array([2.0, 0.0, 1.0, 3.0] * 4 + [1.0])
    given, repeated = (robust_moments(each) for each in (table(X, weight), table(np.repeat(X, weight.astype(int), axis=0))))
    assert near(given[0], repeated[0], rtol=1e-12)
    assert near(given[1], repeated[1], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "hard_em", "stochastic_em", "cavi"])
def test_classes_with_tails(method):
    """Labels, sets of candidates and weights; the precision of a class with outliers is that of the others within a third."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=(190, 2)), rng.normal(size=(200, 2)) + 6.0, rng.normal(size=(10, 2)) + 1e4])
    labels = ["a"] * 190 + ["b"] * 200 + ["b"] * 10
    labels[0], labels[1] = None, "a|b"
    data = load_data(x, labels=labels, weight=np.where(np.arange(400) == 5, 0.0, 1.0))
    model = MODELS["linear_discriminant"](data, tails="student_t", covariance="full", degrees_of_freedom=4)
    tree = fit(model, data, method, num_starts=1, progress=False)
    group = tree["posterior"] if "posterior" in tree.children else tree["point_estimate"]
    mean = group["mean"].mean([dim for dim in group["mean"].dims if dim in ("chain", "draw")])
    assert np.abs(mean.sel({"class": "b"}) - 6.0).max() < 0.5
    new = predict(model, tree, load_data([[0.0, 0.0], [6.0, 6.0]]))
    assert list(new["assignment"].values) in ([0, 1], ["a", "b"])
    with pytest.raises(ZooError, match="no discriminant"):
        discriminant(model, tree)
