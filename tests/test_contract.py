"""The contract of `models.base`, for every model that `MODELS` lists and every cell of the support table."""

from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from naive import near
from numpyro import handlers
from numpyro.infer.util import log_density
from release import RELEASE

from inference import METHODS, fit, log_likelihood
from inference.results.triangles import sites_of
from inference.support import BEGIN, END
from models import MODELS, Model, load_data
from models.algebra import inner, log_prior
from models.data import Data
from models.data.documents import documents
from models.data.representation import generative
from models.rows.row_info import Encoded, row_info

RNG = np.random.default_rng(0)
LABELS = list("aabbab" * 2)
NUMBERS = RNG.normal(size=(12, 2)) + 2 * (np.arange(12) % 2)[:, None]
DISPERSED = np.random.default_rng(1).negative_binomial(0.8, 0.2, (12, 2)) * 1.0
WEIGHT = np.array([1.0, 2.0, 0.0, 1.0, 1.0, 0.5, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0])
RATINGS = {"anna": "aabbaabbabab", "ben": "abbbaaabbbab", "carl": "aabbabbbabaa"}
NO_LABELS = "without labels"  # an entry of the table of methods
WORDS = [list("abca"), list("bb"), list("cabbc"), list("a"), list("acb"), list("cc")] * 2


@cache
def data_of(name: str) -> Data:
    """A table of twelve weighted rows that the model can read."""
    labelled: dict[str, Any] = {"labels": LABELS, "weight": WEIGHT}
    mixed = pd.DataFrame({"size": NUMBERS[:, 0], "kind": list("xyzx" * 3), "seen": RNG.poisson(3, 12)})
    mixed.loc[3, "size"] = np.nan
    return {
        "gmm": lambda: load_data(NUMBERS, weight=WEIGHT),
        "gmm_simple": lambda: load_data(NUMBERS, weight=WEIGHT),
        "mixed_mixture": lambda: load_data(mixed, types={"seen": "count"}, weight=WEIGHT),
        "naive_bayes": lambda: load_data((NUMBERS > 0.5) * 1.0, **labelled),
        "poisson_naive_bayes": lambda: load_data(RNG.poisson(3.0, (12, 2)), **labelled),
        "markov_naive_bayes": lambda: load_data(documents(WORDS), **labelled),
        "linear_discriminant": lambda: load_data(NUMBERS, **labelled),
        "logistic_regression": lambda: load_data(NUMBERS, **labelled),
        "annotators": lambda: load_data(pd.DataFrame({r: list(words) for r, words in RATINGS.items()}), **labelled),
        "factor_analysis": lambda: load_data(RNG.normal(size=(12, 4)), weight=WEIGHT),
        "ppca": lambda: load_data(RNG.normal(size=(12, 4)), weight=WEIGHT),
        "hmm": lambda: load_data(documents(WORDS), weight=WEIGHT),
        "state_space": lambda: in_sequences(np.where(np.arange(36).reshape(12, 3) % 7 == 3, np.nan, RNG.normal(size=(12, 3)))),
        "hmm of mixed steps": lambda: in_sequences(mixed, types={"seen": "count"}),
        "hmm of numbers with holes": lambda: in_sequences(np.where(np.arange(24).reshape(12, 2) % 5 == 3, np.nan, NUMBERS)),
        "hmm with heavy tails": lambda: in_sequences(NUMBERS),
        "hmm of words": lambda: in_sequences(np.where(np.arange(12)[:, None] == 4, np.nan, RNG.poisson(2.0, (12, 3)))),
        "hmm of inflated counts": lambda: in_sequences(np.where(np.arange(24).reshape(12, 2) % 5 == 3, np.nan, DISPERSED)),
        "naive_bayes of dispersed counts": lambda: load_data(DISPERSED, **labelled),
        "mixed_mixture of dispersed counts": lambda: load_data(mixed, types={"seen": "count"}, weight=WEIGHT),
        "mixed_mixture of inflated counts": lambda: load_data(mixed, types={"seen": "count"}, weight=WEIGHT),
        "latent_dirichlet": lambda: load_data(documents(WORDS)),
    }[name]()


def in_sequences(table: Any, **options: Any) -> Data:
    """The rows as steps of four sequences, of which one has no weight."""
    data = load_data(table, **options)
    weight = np.repeat([1.0, 2.5, 0.0, 0.7], 3)
    return load_data(data._replace(starts=np.arange(0, 13, 3)), weight=weight, weights="counts")


EMITTING = (  # a model's name, then what its rows, or steps, have beside the component: latents, or columns, of their own
    "hmm of mixed steps",
    "hmm of numbers with holes",
    "hmm with heavy tails",
    "hmm of words",
    "hmm of inflated counts",
    "naive_bayes of dispersed counts",
    "mixed_mixture of dispersed counts",
    "mixed_mixture of inflated counts",
)
OPTIONS: dict[str, dict[str, Any]] = {
    "hmm of mixed steps": {"emission": "mixed"},
    "hmm of numbers with holes": {"emission": "gaussian", "covariance": "full"},
    "hmm with heavy tails": {"emission": "student_t"},
    "hmm of words": {"emission": "multinomial"},
    "hmm of inflated counts": {"emission": "zero_inflated_negative_binomial"},
    "naive_bayes of dispersed counts": {"emission": "negative_binomial"},
    "mixed_mixture of dispersed counts": {"counts": "negative_binomial"},
    "mixed_mixture of inflated counts": {"counts": "zero_inflated_poisson"},
    "annotators": {"raters": ["anna", "ben", "anna"]},
    "factor_analysis": {"num_factors": 1},
    "ppca": {"num_factors": 1},
    "state_space": {"num_factors": 2},
    "latent_dirichlet": {"num_topics": 2},
}
QUICK = ("gmm", "logistic_regression", "factor_analysis", "hmm", "latent_dirichlet")  # a kind of latents each
every_model = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in (*MODELS, *EMITTING)]
)


class Case(NamedTuple):
    """A model on its rows, at parameters that its prior drew."""

    model: Model
    rows: Any
    sites: dict[str, jax.Array]


@partial(jax.jit, static_argnums=0)  # NumPyro looks at weights that are numbers, and refuses 0
def drawn(spec: Any, key: Any, hyper: Any, rows: Any) -> dict[str, jax.Array]:
    trace = handlers.trace(handlers.seed(partial(spec, marginal=True), key)).get_trace(hyper, rows)
    return {site: found["value"] for site, found in trace.items() if found["type"] == "sample" and not found["is_observed"]}


def built(name: str) -> Model:
    return MODELS[name.split()[0]](data_of(name), **OPTIONS.get(name, {}))


@cache
def case(name: str, seed: int = 0) -> Case:
    model = built(name)
    rows = jax.device_put(model.rows(data_of(name)))
    return Case(model, rows, drawn(model.spec, jax.random.PRNGKey(seed), dict(model.hyper), rows))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_says_what_is_drawn_from_what(name):
    """The docstring of its file begins with the generative program, which stands in its short text."""
    model = MODELS[name](data_of(name), **OPTIONS.get(name, {}))
    assert model.description is not None
    assert " ~ " in generative(model.description)
    assert "E-step" not in repr(model)
    assert len(repr(model)) < 3000


class Sides(NamedTuple):
    """Both sides of every identity."""

    program: Any  # log p(x, θ) of the program
    algebra: Any  # log p(θ) + Σ weight log Σ_z p(x, z | θ)
    rows: Any  # (N,): log Σ_z p(x, z | θ)
    back: Any  # sites -> T -> sites
    slopes: Any  # along a line of T: of Σ weight log_partition, block by block where blocks are taken in turn
    statistics: Any  # < E[statistics], dT >
    tripled: Any  # statistics of three times the weights
    once: Any
    family_slopes: Any  # of every log ∫ exp < T, nu > dθ along nu
    family_means: Any


def weight_of(rows: Any) -> jax.Array:
    weight = row_info(rows).weight
    return jnp.ones(len(jax.tree.leaves(rows)[0])) if weight is None else weight


def log_partitions(algebra: Any, T: Any, features: Any) -> jax.Array:
    return algebra.latent.log_partition(algebra.local_natural_parameters(T)(features))


def along(function: Any, place: Any, step: Any) -> jax.Array:
    """The slope of a function at a place, along a step."""
    return sum(map(jnp.vdot, jax.tree.leaves(jax.grad(function)(place)), jax.tree.leaves(step)), jnp.zeros(()))


@partial(jax.jit, static_argnames=("whole", "spec"))
def sides_of(whole: Any, spec: Any, hyper: Any, prior: Any, rows: Any, sites: Any, other: Any) -> Sides:
    weight, T = weight_of(rows), whole.natural(hyper, sites)
    densities = log_partitions(whole, T, whole.features(hyper, rows))
    slopes, statistics, tripled, once = [], [], [], []
    for algebra in whole.structure.cycle or (whole,):
        names, features = [block for block, _ in algebra.families], algebra.features(hyper, rows)
        away = whole.natural(hyper, other)
        step = {block: jax.tree.map(lambda a, b: a - b, away[block], T[block]) for block in names}

        def total(block: Any, algebra: Any = algebra, features: Any = features) -> jax.Array:
            return (weight * log_partitions(algebra, {**T, **block}, features)).sum()

        slopes.append(along(total, {block: T[block] for block in names}, step))
        mean = algebra.latent.mean(jax.random.PRNGKey(0), algebra.local_natural_parameters(T)(features))
        found = algebra.statistics(weight, mean, features)
        statistics.append(inner(step, {block: found[block] for block in names}))
        once.append(found)
        tripled.append(algebra.statistics(3 * weight, mean, features))
    nus = {block: jax.tree.map(lambda leaf: jnp.asarray(leaf, float), prior[block]) for block, _ in whole.families}
    return Sides(
        log_density(spec, (hyper, rows), {"marginal": True}, sites)[0],
        log_prior(whole, prior, T) + (weight * densities).sum(),
        densities,
        whole.sites(hyper, T),
        slopes,
        statistics,
        tripled,
        once,
        [along(family.log_partition, nus[block], nus[block]) for block, family in whole.families],
        [inner(family.mean(nus[block]), nus[block]) for block, family in whole.families],
    )


@cache
def sides(name: str) -> Sides:
    model, rows, sites = case(name)
    found = sides_of(model.algebra, model.spec, dict(model.hyper), dict(model.prior), rows, sites, case(name, 1).sites)
    return jax.tree.map(np.asarray, found)


@every_model
def test_the_marginal_program_is_the_algebra(name):
    """Log p(x, θ) of the program = log p(θ) + Σ weight log Σ_z p(x, z | θ)."""
    assert near(sides(name).algebra, sides(name).program, rtol=1e-9)


@every_model
def test_log_likelihoods_are_those_of_the_rows(name):
    assert near(log_likelihood(case(name).model, case(name).sites, data_of(name)), sides(name).rows, rtol=1e-9)


@every_model
def test_sites_survive_the_round_trip(name):
    back, sites = sides(name).back, case(name).sites
    assert set(back) == set(sites)
    assert all(near(back[site], sites[site], rtol=1e-9) for site in sites)


@every_model
def test_expected_statistics_are_the_slope_of_the_log_partition(name):
    """Along any line of T, block by block where blocks are taken in turn: d/dε Σ w log_partition = < E[statistics], dT >."""
    assert near(sides(name).slopes, sides(name).statistics, rtol=1e-8)


@every_model
def test_statistics_are_linear_in_the_weights(name):
    found = sides(name)
    pairs = zip(*map(jax.tree.leaves, (found.once, found.tripled)), strict=True)
    assert all(near(3 * one, three, rtol=1e-12, atol=1e-12 * np.abs(three).max()) for one, three in pairs)


@every_model
def test_means_of_families_are_slopes_of_their_log_partitions(name):
    assert near(sides(name).family_slopes, sides(name).family_means, rtol=1e-8)


@every_model
def test_structures_are_shared_and_hashable(name):
    """A second model of the same shapes has the same algebra and program, so that nothing is compiled again."""
    model = case(name).model
    again = built(name)
    assert hash(model.algebra) == hash(again.algebra)
    assert (model.algebra, model.spec) == (again.algebra, again.spec)


@every_model
def test_names_and_declarations(name):
    """Named dimensions fit the sites, coordinates the sizes; rows declare what they carry; the kind of latents has a view."""
    from inference.predictions.views import View, view_of

    model, rows, sites = case(name)
    for site, value in sites.items():
        dims = model.naming.dims.get(site, (None,) * value.ndim)
        assert len(dims) == value.ndim, site
        for dim, size in zip(dims, value.shape, strict=True):
            assert len(model.naming.coords.get(dim, range(size))) == size, (site, dim)
    assert isinstance(rows, Encoded)
    assert model.naming.density_of
    assert isinstance(view_of(model), View)


@every_model
def test_simulated_rows_are_rows(name):
    model, rows, sites = case(name)
    if model.abilities.simulate is None:
        pytest.skip("nothing is simulated")
    algebra, simulate = model.algebra, partial(model.abilities.simulate, num_rows=len(jax.tree.leaves(rows)[0]))

    @jax.jit
    def simulated(key: Any, hyper: Any, sites: Any) -> Any:
        found = simulate(key, hyper, sites)
        return found, log_partitions(algebra, algebra.natural(hyper, sites), algebra.features(hyper, found))

    found, densities = simulated(jax.random.PRNGKey(1), dict(model.hyper), sites)
    assert type(found) is type(rows)
    assert np.isfinite(densities).all()


# ---------------------------------------------------------------------------------------------------------------------
# The cells of the support table

DRAWS = {"num_warmup": 20, "num_samples": 10, "num_chains": 2}
FEW: dict[str, Any] = {"num_samples": 10, "num_chains": 2}
SHORT: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("gibbs", "collapsed_gibbs", "nuts", "chees", "mclmc"), DRAWS),
    "tempered_gibbs": {**DRAWS, "num_temperatures": 3},
    "smc": {**FEW, "num_moves": 2},
    "exact": FEW,
    "laplace": {**FEW, "num_starts": 1},
    "advi": {**FEW, "num_starts": 1, "max_iter": 200},
    **{name: {**FEW, "num_starts": 1, "max_iter": 20} for name in ("pathfinder", "cavi", "hard_cavi")},
}


@cache
def table_of_methods() -> dict[tuple[str, str], str]:
    """(model, method) -> the entry of the README's table wherever that has more than a dash; a test holds it to the code."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    table = readme.partition(BEGIN)[2].partition(END)[0]
    lines = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line]
    head = next(line for line in lines if line[0] == "model")
    rows = [line for line in lines if line[0] in MODELS]
    found = {(row[0], method): entry for row in rows for method, entry in zip(head[1:], row[1:], strict=True)}
    return {cell: entry for cell, entry in found.items() if entry != "–"}


# `advi` works on the program alone, and compiles long: a model for each kind of latents is enough between releases.
SLOWEST = {(name, "advi") for name in MODELS if name not in ("gmm", "logistic_regression", "factor_analysis", "hmm")}


def unweighted(name: str, method: str) -> Data:
    """Samplers take rows of weight 0 or 1 only; `exact` few assignments, and for ppca a flat prior."""
    data = data_of(name)._replace(weight=None)
    return data._replace(labels=None, label=None, levels=()) if NO_LABELS in table_of_methods()[name, method] else data


def test_the_table_has_every_model_and_method():
    found = table_of_methods()
    assert {name for name, _ in found} == set(MODELS)
    assert {method for _, method in found} == set(METHODS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [cell for cell in table_of_methods() if RELEASE or cell not in SLOWEST])
def test_every_method_reports_the_density_of_the_program(name, method):
    """One posterior: the log joint of every draw or point is that of the program at the sites that the result stores."""
    data = unweighted(name, method)
    options = OPTIONS.get(name, {}) | ({"prior": "flat"} if (name, method) == ("ppca", "exact") else {})
    options |= {"num_classes": 2} if NO_LABELS in table_of_methods()[name, method] else {}
    model = MODELS[name](data, **options)
    tree = fit(model, data, method, **SHORT.get(method, {"num_starts": 1, "max_iter": 10}))
    points = "point_estimate" in tree
    group = "point_estimate" if points else "posterior_raw" if "posterior_raw" in tree else "posterior"
    stored = sites_of(tree, group)
    sites = {site: value if points else value[1, -1] for site, value in stored.items()}
    log_joint = np.asarray(tree["functionals"]["log_joint"].values)
    density = jax.jit(lambda hyper, rows, sites: log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0])
    wanted = density(dict(model.hyper), model.rows(data), sites)
    assert near(log_joint if points else log_joint[1, -1], wanted, rtol=1e-6)
