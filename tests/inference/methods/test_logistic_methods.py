"""Every method on logistic regression: EM against the naive steps and SciPy's maximum, the bound, the samplers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import SHORT, distances, near, neighbours_increase
from naive_logistic import (
    LABELS,
    METHODS_RUN,
    RUNS,
    Sites,
    X,
    best_log_joint,
    build,
    every_size,
    fitted,
    line,
    naive_eta,
    naive_step,
    random_sites,
    table,
)
from release import some
from scipy import stats
from scipy.special import logsumexp
from two_stage import assert_standard_normal, in_blocks, of_distributions

from inference import METHODS, fit
from inference.cli.main import run_main
from inference.methods import gibbs
from models import Data, ZooError
from models.data import allowed_labels
from models.logistic_regression import draw_labels
from models.rows.encoded import Rows


def found_sites(tree: xr.DataTree) -> Sites:
    return {str(name): value.values for name, value in tree["point_estimate"].data_vars.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Fixed points


@every_size
def test_em_is_the_naive_steps(size):
    """Three steps from a start: class after class, with sums over rows."""
    model, sites = build(size), random_sites(size)
    tree = fit(model, table(size), method="em", start=sites, max_iter=3, tol=0)
    for _ in range(3):
        sites = naive_step(model, sites, X, allowed_labels(table(size)))
    for name, value in sites.items():
        assert near(tree["point_estimate"][name], value, rtol=1e-9)


@pytest.mark.slow
def test_blocks_of_rows_are_one_step():
    """5000 rows take three blocks."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5000, 2))
    data = Data("many", x, ("u", "v"), rng.integers(-1, 3, 5000), "kind", ("a", "b", "c"))
    model, sites = build(3, data), random_sites(3)
    tree = fit(model, data, method="em", start=sites, max_iter=1, tol=0)
    for name, value in naive_step(model, sites, x, allowed_labels(data)).items():
        assert near(tree["point_estimate"][name], value, rtol=1e-9)


@pytest.mark.slow
@every_size
def test_em_is_monotone_and_ends_at_scipys_maximum(size):
    """Every start at one mode, that of the naive log posterior to 1e-8; MAP on the program agrees to 1e-6."""
    model = build(size)
    tree = fit(model, table(size), method="em", tol=1e-15, num_starts=3, max_iter=5000)
    assert all(neighbours_increase(trace, 1e-12) for trace in tree["optimization"]["objective"].values)
    best = best_log_joint(model, X, allowed_labels(table(size)))
    assert near(tree["optimization"]["final_objective"], best, atol=1e-8)
    assert float(fitted("map", size)["functionals"]["log_joint"]) == pytest.approx(best, rel=1e-6)
    for name, value in found_sites(tree).items():
        assert near(fitted("map", size)["point_estimate"][name], value, atol=1e-4)


@every_size
def test_maximum_likelihood_by_em_is_scipys(size):
    """prior=flat, on labels that overlap."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    labels = (x[:, 0] + rng.logistic(size=60) > np.array([[0.0], [1.0]])[: size - 1]).sum(0)
    data = Data("overlap", x, ("u", "v"), labels, "kind", ("a", "b", "c")[:size])
    model = build(size, data, prior="flat")
    tree = fit(model, data, method="em", tol=1e-15, num_starts=2, max_iter=20000)
    assert near(tree["functionals"]["log_joint"], best_log_joint(model, x, allowed_labels(data)), atol=1e-8)
    assert float(tree["functionals"]["log_joint"]) == float(tree["functionals"]["log_likelihood"])


@pytest.mark.slow
def test_weighted_rows_are_repeated_rows():
    weight = np.array([0, 1, 2, 3] * 6)
    data = table(3)._replace(weight=weight.astype(float))
    picked = np.repeat(np.arange(24), weight)
    assert table(3).candidates is not None
    repeated = Data("repeated", X[picked], ("u", "v"), table(3).labels[picked], "kind", table(3).levels)
    repeated = repeated._replace(candidates=table(3).candidates[picked])
    left, right = (fit(build(3, d), d, method="em", start=random_sites(3), max_iter=5, tol=0) for d in (data, repeated))
    for name in ("weight", "intercept"):
        assert near(left["point_estimate"][name], right["point_estimate"][name], rtol=1e-9)
    with pytest.raises(ZooError, match="repeat the rows"):
        fit(build(3, data), data, method="gibbs")


@pytest.mark.slow
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


# ---------------------------------------------------------------------------------------------------------------------
# Every method


@pytest.mark.slow
@pytest.mark.parametrize(("method", "size"), some(RUNS))
def test_every_method_takes_partial_labels(method, size):
    """Finite results, named classes, no relabelling, and no probability where a label forbids it."""
    tree = fitted(method, size)
    assert "posterior_raw" not in tree
    probs = tree["latent"]["responsibilities"]
    assert probs.dims == ("row", "class")
    assert tuple(probs["class"].values) == table(size).levels
    assert np.abs(probs.values[~allowed_labels(table(size))]).max() == 0
    assert near(probs.sum("class"), 1, rtol=1e-6)
    assert all(np.isfinite(value).all() for value in tree["functionals"].data_vars.values())
    assert set(tree["functionals"].data_vars) == {"log_joint", "log_likelihood", "weight_norm", "intercept", "entropy"}
    assert tuple(tree["functionals"]["weight_norm"]["contrast"].values) == table(size).levels[1:]
    group = tree["posterior"] if "posterior" in tree else tree["point_estimate"]
    assert group["weight"].dims[-2:] == ("contrast", "feature")


@pytest.mark.slow
def test_every_method_is_run_or_refused():
    refused = dict.fromkeys(("hard_em", "hard_cavi"), "most probable value") | {"exact": "never observed"}
    refused |= {"tempered_gibbs": "conjugate all at once", "collapsed_gibbs": "needs a model with a collapsed sampler"}
    assert {*METHODS_RUN, *refused} == set(METHODS)
    for method, words in refused.items():
        with pytest.raises(ZooError, match=words):
            fit(build(2), table(2), method=method)
    with pytest.raises(ZooError, match="no evidence bound"):
        fit(build(3), table(3), method="cavi")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "gibbs", "nuts"])
def test_command_line(tmp_path, capsys, method):
    """The file says which labels are missing; the table names the classes and columns."""
    path = tmp_path / "table.csv"
    pd.DataFrame(X, columns=["u", "v"]).assign(kind=LABELS[3]).to_csv(path, index=False)
    arguments = [
        "model=logistic_regression",
        f"method={method}",
        f"data={path}",
        "data.label=kind",
        "progress=false",
        "pictures=false",
    ]
    short = [f"{name}={value}" for name, value in SHORT[method].items()]
    assert run_main([*arguments, *short, f"out={tmp_path / 'run'}"]) in ({0} if method == "em" else {0, 3})
    assert (tmp_path / "run" / "results.nc").is_file()
    assert "weight_norm[b]" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------------------
# Samplers


@pytest.mark.slow
@every_size
def test_gibbs_agrees_with_nuts(size):
    """Means of functionals and sites and their squares."""

    def deviations(seed: int, times: int) -> np.ndarray:
        draws = {"gibbs": {"num_warmup": 1000, "num_samples": 5120 * times}, "nuts": {"num_samples": 1280 * times}}
        options = {method: SHORT[method] | chosen | {"seed": seed} for method, chosen in draws.items()}
        return distances(*(fit(build(size), table(size), method=method, **chosen) for method, chosen in options.items()))

    assert_standard_normal(deviations, 1)


CHAINS, SWEEPS, ROWS = 6000, 6, 10


@pytest.mark.slow
@every_size
def test_geweke(size):
    """Started from the prior, "labels given θ, then θ by Gibbs" leaves θ and the labels at the prior; columns are fixed.

    Of three classes, six of ten rows hide which of two they are in; one hides its label altogether. Kolmogorov-Smirnov on 6
    functions.
    """
    x = X[:ROWS]
    labels = np.arange(ROWS) % size
    data = Data("few", x, ("u", "v"), labels, "kind", ("a", "b", "c")[:size])
    model = build(size, data, weight_scale=1.5, prior={"intercept": {"scale": 1.0}})
    told = np.tile(np.eye(size, dtype=bool), (ROWS, 1, 1))  # row, label -> what is seen of it
    told[-1] = True
    if size == 3:
        told[:3, 1:, 1:] = told[3:6, :2, :2] = True
    hyper, prior = dict(model.hyper), dict(model.prior)

    def prior_draws(rng: np.random.Generator) -> Sites:
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

    run = jax.jit(jax.vmap(chain))

    def found_and_wanted(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        rng = np.random.default_rng(seed)
        start, reference = prior_draws(rng), prior_draws(rng)
        after = jax.tree.map(np.asarray, run(start, jax.random.split(jax.random.PRNGKey(seed + 1), CHAINS)))
        eta = np.stack([naive_eta(model, {name: leaf[s] for name, leaf in reference.items()}, x) for s in range(CHAINS)])
        y = np.eye(size)[(eta + rng.gumbel(size=eta.shape)).argmax(-1)]
        return summaries(*after), summaries(reference, y)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))
