"""Negative binomial and zero-inflated counts: against SciPy's densities, the steps by hand, and the limits."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import CHAINS, geweke
from identities import agree, climbed, values_of
from naive import near, neighbours_increase
from naive_counts import (
    BOTH,
    NAMES,
    NEGATIVE,
    PRIORS,
    ZERO,
    build,
    draw_sites,
    law_of,
    log_cell,
    log_joint,
    log_local,
    log_prior,
    random_sites,
    table_of,
)
from scipy import optimize
from scipy.special import digamma, logsumexp
from two_stage import assert_standard_normal, of_distributions, of_means

from inference import fit
from inference.engine.sweep import Updates, sweep
from models import MODELS, ZooError, load_data
from models.algebra import at_mode
from models.emissions.counts import Counts
from models.emissions.named import COUNTS

K, D = 2, 2
RNG = np.random.default_rng(7)
X = RNG.poisson(RNG.gamma(1.5, 2.0, (12, D))).astype(float)
X[2, 0] = X[5, 1] = np.nan
X[7] = np.nan
Z = np.eye(K)[RNG.integers(K, size=len(X))]
every_name = pytest.mark.parametrize("name", NAMES)


@cache
def model_of(name: str) -> Any:
    return build(name, table_of(X))


@every_name
def test_the_program_is_the_algebra(name):
    """Log p(x, θ) and log p(x, z, θ): program, algebra and SciPy; the statistics are the gradient. Some cells are missing."""
    model, sites = model_of(name), random_sites(name, K, D)
    found = values_of(model, model.rows(table_of(X)), sites, Z)
    prior, local = log_prior(name, sites), log_local(sites, X)
    assert near(found.log_prior, prior, rtol=1e-10)
    assert near(found.local, local, rtol=1e-10)
    assert near(found.marginal, prior + logsumexp(local, axis=1).sum(), rtol=1e-10)
    assert near(found.complete, prior + (Z * local).sum(), rtol=1e-10)
    assert near(found.energy, (Z * local).sum(1), rtol=1e-10)
    assert agree(found.gradient, found.statistics, 1e-10)


@pytest.mark.slow
@every_name
def test_statistics_are_the_gradient_in_expectation_too(name):
    """At E_q[T], which is no point: the E-step of variational inference maximises the bound."""
    model, sites = model_of(name), random_sites(name, K, D)
    rows, algebra, hyper = model.rows(table_of(X)), model.algebra, dict(model.hyper)
    _, nu, _ = jax.jit(partial(sweep, algebra, Updates(at_mode, "mean")))(
        hyper, dict(model.prior), jax.random.PRNGKey(0), algebra.natural(hyper, sites), rows
    )
    T = {block: family.mean(nu[block]) for block, family in algebra.families}
    found = values_of(model, rows, sites, Z, T)
    assert agree(found.gradient, found.statistics, 1e-10)


def naive_step(name, sites, x):
    """One step of EM under `PRIORS`, cell by cell: structural zeros, relative rates, then every parameter by itself."""
    prior, local = PRIORS[name], log_local(sites, x)
    r = np.exp(local - logsumexp(local, axis=1, keepdims=True))
    found = {site: np.zeros((K, D)) for site in sites} | {"mixture_probs": (r.sum(0) + 1) / (len(x) + K)}
    for k, d in np.ndindex(K, D):
        seen = ~np.isnan(x[:, d])
        count, own = x[seen, d], r[seen, k]
        structural = np.zeros(len(count))
        if "zero_probs" in sites:
            zero = sites["zero_probs"][k, d]
            structural = np.array([zero / np.exp(log_cell(sites, 0.0, k, d)) if value == 0 else 0.0 for value in count])
            above = np.array([prior["zero_a"] - 1 + own @ structural, prior["zero_b"] - 1 + own @ (1 - structural)])
            found["zero_probs"][k, d] = above[0] / above.sum()
        weight, factor = own * (1 - structural), np.ones(len(count))
        if "inverse_dispersion" in sites:
            size, rate = sites["inverse_dispersion"][k, d], sites["rate"][k, d]
            factor = (size + count) / (size + rate)
            gain = 1 + digamma(size + count) - np.log(size + rate) - factor

            def slope(h, weight=weight, gain=gain):
                """Of Σ weight log Gamma(u; h, h) + log p(h) in h."""
                before = (prior["inverse_dispersion_shape"] - 1) / h - prior["inverse_dispersion_rate"]
                return weight.sum() * (np.log(h) - digamma(h)) + weight @ gain + before

            found["inverse_dispersion"][k, d] = optimize.brentq(slope, 1e-6, 1e6, xtol=1e-14)
        events, exposure = prior["shape"] - 1 + weight @ count, prior["inverse_scale"] + weight @ factor
        found["rate"][k, d] = events / exposure
    return found


@every_name
def test_a_step_of_em_is_that_of_every_parameter_by_itself(name):
    """Under the prior, with missing cells; then the log joint never falls, and is SciPy's at the end."""
    model, sites = model_of(name), random_sites(name, K, D)
    data = table_of(X)
    wanted = naive_step(name, sites, X)
    found = climbed(model, data, sites, max_iter=1, tol=0).sites
    assert all(near(found[site][0], wanted[site], rtol=1e-8) for site in wanted)
    points = climbed(model, data, sites)
    assert neighbours_increase(points.objective[0], 1e-9)
    last = {site: np.asarray(value[0]) for site, value in points.sites.items()}
    assert near(points.objective[0][-1], log_joint(name, last, X), rtol=1e-9)


def test_many_inverse_dispersions_are_poisson_counts():
    """Log NB − log Poisson is below (x² + rate²) / r: 1e-5 at r = 1e8, where counts are below 30."""
    sites = random_sites(NEGATIVE, K, D)
    poisson = {site: value for site, value in sites.items() if site != "inverse_dispersion"}
    sites["inverse_dispersion"] = np.full((K, D), 1e8)
    model = model_of(NEGATIVE)
    found = values_of(model, model.rows(table_of(X)), sites, Z)
    assert np.nanmax(X) < 30
    assert near(found.local, log_local(poisson, X), atol=1e-5)


@pytest.mark.parametrize(("name", "block"), [(ZERO, "poisson"), (BOTH, NEGATIVE)])
def test_without_structural_zeros_it_is_the_block(name, block):
    """At zero_probs = 1e-12 a cell differs by 1e-12 / p(0) at most, where p(0) is above 1e-5."""
    sites = random_sites(name, K, D)
    sites["zero_probs"] = np.full((K, D), 1e-12)
    assert min(law_of(sites, k, d).pmf(0) for k, d in np.ndindex(K, D)) > 1e-5
    model = model_of(name)
    without = {site: value for site, value in sites.items() if site != "zero_probs"}
    found = values_of(model, model.rows(table_of(X)), sites, Z)
    assert near(found.local, log_local(without, X), atol=1e-6)


@every_name
def test_profiles_are_moments(name):
    """Mean and variance of every column, by sums over counts up to 400, beyond which there is less than 1e-12."""
    sites = random_sites(name, K, D)
    values = np.arange(401.0)
    for d, column in enumerate(COUNTS[name].profile(sites)):
        for k in range(K):
            probs = np.exp([log_cell(sites, value, k, d) for value in values])
            mean = probs @ values
            assert near(column.mean[k], mean, rtol=1e-9)
            assert near(column.variance[k], probs @ (values - mean) ** 2, rtol=1e-9)


@every_name
def test_sparse_rows_are_dense_rows(name):
    """Counts that are mostly zeros are stored by their places."""
    from scipy import sparse

    rows = np.zeros((20, 30))
    rows[np.arange(20), np.arange(20)] = np.arange(20) % 3
    labels = ["a", "b"] * 10
    dense, thin = load_data(rows, labels=labels), load_data(sparse.csr_array(rows), labels=labels)
    made = [MODELS["naive_bayes"](data, emission=name) for data in (dense, thin)]
    encoded = [model.rows(data) for model, data in zip(made, (dense, thin), strict=True)]
    assert type(encoded[0].x.value) is not type(encoded[1].x.value)
    found = [COUNTS[name].likelihood.features(dict(made[0].hyper), each.x) for each in encoded]
    assert agree(found[1], found[0], 1e-12)


@pytest.mark.slow
@every_name
def test_drawn_latents_have_the_means_of_the_expected_ones(name):
    """E[statistics of a draw] = statistics of the expectation, of which they are linear: every entry, some cells missing."""
    model, sites = model_of(name), random_sites(name, K, D)
    algebra, hyper, rows = model.algebra, dict(model.hyper), model.rows(table_of(X))
    features = algebra.features(hyper, rows)
    local = algebra.local_natural_parameters(algebra.natural(hyper, sites))(features)
    weight = jnp.ones(len(X))

    def flat(z: Any) -> Any:
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(algebra.statistics(weight, z, features))])

    drawn = jax.jit(jax.vmap(lambda key: flat(algebra.latent.sample(key, local))))
    wanted = np.asarray(flat(algebra.latent.mean(jax.random.PRNGKey(0), local)))

    def scores(seed: int, times: int) -> np.ndarray:
        found = np.asarray(drawn(jax.random.split(jax.random.PRNGKey(seed), 4000 * times)))
        varies = found.std(0) > 1e-9
        assert near(found[:, ~varies].mean(0), wanted[~varies], atol=1e-9)
        return of_means(found[:, varies], wanted[varies])

    assert_standard_normal(scores)


@pytest.mark.slow
@every_name
def test_simulated_rows_have_this_law(name):
    """The probabilities of 0, 1 and 2, and of more than 6, in every column of a component."""
    model, sites = model_of(name), random_sites(name, K, D)
    sites["mixture_probs"] = np.array([1.0, 0.0])
    simulate = jax.jit(partial(model.abilities.simulate, num_rows=20_000))

    def scores(seed: int, times: int) -> np.ndarray:
        drawn = [simulate(jax.random.PRNGKey(seed + 1000 * turn), dict(model.hyper), sites) for turn in range(times)]
        x = np.concatenate([np.asarray(rows.x["counts"].value) for rows in drawn])
        found = []
        for d in range(D):
            probs = np.exp([log_cell(sites, value, 0, d) for value in np.arange(7.0)])
            events = [(x[:, d] == value, probs[value]) for value in range(3)] + [(x[:, d] > 6, 1 - probs.sum())]
            found += [of_means(event.astype(float), wanted) for event, wanted in events]
        return np.array(found)

    assert_standard_normal(scores)


MISSING = np.arange(10).reshape(5, 2) % 4 == 1


def summaries(sites: Any, x: np.ndarray) -> dict[str, np.ndarray]:
    """Functions of θ and the counts that catch a wrong count, place or coupling."""
    rate = sites["rate"]
    found = {
        "probs": sites["mixture_probs"][:, 0],
        "rate": rate[:, 0, 0],
        "last rate": rate[:, 1, 1],
        "rates": np.log(rate).sum((1, 2)),
        "probs and rate": sites["mixture_probs"][:, 0] * np.abs(rate[:, 0] - rate[:, 1]).sum(1),
        "zeros": (x == 0).sum((1, 2)) + 0.5 * (x[:, 0] == 0).sum(1),
        "counts": np.log1p(x).sum((1, 2)),
        "rows": (np.log1p(x[:, :-1]) * np.log1p(x[:, 1:])).sum((1, 2)),
        "rates and counts": rate.mean((1, 2)) * np.log1p(x).mean((1, 2)),
    }
    for site in ("inverse_dispersion", "zero_probs"):
        if site in sites:
            own = sites[site]
            found |= {site: own[:, 0, 0], f"last {site}": own[:, 1, 1], f"{site} and rate": own[:, 0, 1] * rate[:, 0, 1]}
            found |= {f"{site} and zeros": own.mean((1, 2)) * (x == 0).mean((1, 2))}
    return found


@pytest.mark.slow
@every_name
def test_gibbs_keeps_the_joint_distribution(name):
    """Geweke: rows given θ, some cells hidden, then θ given the others by Gibbs, from the prior."""
    model = build(name, table_of(np.where(MISSING, np.nan, 1.0 * (np.arange(10).reshape(5, 2) % 3))))
    there = jnp.asarray(~MISSING)

    def hidden(rows: Any) -> Any:
        value = jnp.where(there, rows.x["counts"].value, 0.0)
        carrier = -jax.scipy.special.gammaln(value + 1).sum(1)
        return rows._replace(x={"counts": Counts(value, carrier, there)})

    run = geweke(model, hidden, 5)

    def scores(seed: int, times: int) -> np.ndarray:
        rng, found, wanted = np.random.default_rng(seed), [], []
        for repetition in range(times):
            sites, x = run(draw_sites(name, K, D, rng, CHAINS), seed + 1000 * repetition)
            found.append(summaries(sites, x["counts"].value))
            alone = draw_sites(name, K, D, rng, CHAINS)
            wanted.append(summaries(alone, drawn_rows(alone, rng)))
        return of_distributions(*(jax.tree.map(lambda *parts: np.concatenate(parts), *each) for each in (found, wanted)))

    assert_standard_normal(scores)


def drawn_rows(sites: Any, rng: np.random.Generator) -> np.ndarray:
    """(C, 5, D): rows of every θ, by NumPy."""
    number = len(sites["rate"])
    component = (rng.random((number, 5)) > sites["mixture_probs"][:, :1]).astype(int)
    of_row = {site: value[np.arange(number)[:, None], component] for site, value in sites.items() if site != "mixture_probs"}
    rate = of_row["rate"]
    if "inverse_dispersion" in of_row:
        rate = rate * rng.gamma(of_row["inverse_dispersion"]) / of_row["inverse_dispersion"]
    x = rng.poisson(rate).astype(float)
    return np.where(rng.random(x.shape) < of_row["zero_probs"], 0.0, x) if "zero_probs" in of_row else x


# ---------------------------------------------------------------------------------------------------------------------
# Without a prior, and what is refused


@pytest.mark.slow
@pytest.mark.parametrize("name", [NEGATIVE, BOTH])
def test_maxima_of_the_likelihood_are_scipys(name):
    """One component, a flat prior: a general optimiser of SciPy's density gets no further."""
    rng = np.random.default_rng(3)
    x = rng.poisson(rng.gamma(2.0, 2.0, (200, 1))).astype(float)
    x[::4] = 0.0
    data = table_of(x)
    model = build(name, data, 1, prior="flat", weights="uniform")
    tree = fit(model, data, "em", num_starts=1, tol=1e-12, max_iter=20_000, progress=False)
    values, number = np.unique(x, return_counts=True)

    def sites_at(point: np.ndarray) -> dict[str, np.ndarray]:
        sites = {"mixture_probs": np.ones(1), "rate": np.exp(point[:1, None]), "inverse_dispersion": np.exp(point[1:2, None])}
        return sites | ({} if name == NEGATIVE else {"zero_probs": 1 / (1 + np.exp(-point[2:, None]))})

    def downhill(point: np.ndarray) -> float:
        return -float(number @ [log_cell(sites_at(point), value, 0, 0) for value in values])

    best = optimize.minimize(downhill, np.zeros(2 if name == NEGATIVE else 3), method="Nelder-Mead", options={"xatol": 1e-9})
    assert near(tree["functionals"]["log_likelihood"], -best.fun, rtol=1e-8)
    wanted = sites_at(best.x)
    for site in ("rate", "inverse_dispersion"):
        assert near(tree["point_estimate"][site].values.ravel(), wanted[site].ravel(), rtol=1e-3)


@pytest.mark.slow
def test_counts_that_vary_less_have_no_maximum():
    """Without a prior the inverse dispersion grows at every step, and the result says that it has not converged."""
    data = table_of(np.tile([[3.0], [4.0]], (20, 1)))
    model = build(NEGATIVE, data, 1, prior="flat", weights="uniform")
    tree = fit(model, data, "em", num_starts=1, max_iter=500, progress=False)
    assert tree["point_estimate"]["inverse_dispersion"].values.min() > 300
    assert "its maximum lies on the boundary" in tree.attrs["problems"]


@pytest.mark.parametrize("method", ["exact", "tempered_gibbs", "collapsed_gibbs"])
def test_methods_that_list_the_latents_are_refused(method):
    with pytest.raises(ZooError, match=method.partition("_")[0]):
        fit(model_of(NEGATIVE), table_of(X), method, progress=False)


def test_options_are_checked():
    with pytest.raises(ZooError, match="counts='normal' is not one of poisson, negative_binomial"):
        build("normal", table_of(X), prior="default")
    with pytest.raises(
        ZooError, match="counts=negative_binomial is an option of emission=mixed; for counts alone, use emission"
    ):
        MODELS["hmm"](load_data(np.ones((4, 1))), emission="poisson", counts="negative_binomial")
    with pytest.raises(ZooError, match="inverse_dispersion_shape"):
        build(NEGATIVE, table_of(X), prior={"component": {"inverse_dispersion_shape": 0.5}})
    with pytest.raises(ZooError, match="counts must be whole numbers"):
        MODELS["hmm"](load_data(np.full((4, 1), 0.5)), emission=ZERO)
