"""Every function of ArviZ that applies, on a result of every model as it is read back from disk, without a filter."""

from functools import cache
from itertools import product

import matplotlib
import numpy as np
import numpyro
import pytest
import xarray as xr
from numpyro import distributions as dist
from release import some

from inference import fit
from inference.engine.program import latent_sites
from inference.results.tree import dataset, load, save
from inference.results.triangles import symmetric_sites
from models import MODELS, Data, load_data

matplotlib.use("Agg")

DRAWS = {"num_warmup": 60, "num_samples": 40, "num_chains": 2}
RNG = np.random.default_rng(0)
GROUP = np.arange(24) % 2
X = RNG.normal(size=(24, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]]) + 3 * GROUP[:, None]
COUNTS = RNG.poisson(2.0 + 3.0 * GROUP[:, None], (24, 3))
LABELS = [["ant", "bee"][g] for g in GROUP]
TEXTS = ["apple pear apple", "milk pear milk", "pear apple pear", "milk milk apple", "apple apple pear", "pear milk milk"]


def program(x, y):
    """A user's regression, with two names of its own for what it observes."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 3.0))
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("height", dist.Normal(slope * x, scale), obs=y)
        numpyro.sample("width", dist.Normal(slope, 1.0), obs=x)


def data_of(name: str) -> Data:
    """What a model is fitted to: tables with labels, counts, texts."""
    if name == "markov_naive_bayes":
        return load_data(TEXTS, labels=LABELS[:6])
    if name == "latent_dirichlet":
        return load_data(COUNTS[:6])
    if name in ("naive_bayes", "poisson_naive_bayes"):
        return load_data((COUNTS > 2).astype(int) if name == "naive_bayes" else COUNTS, labels=LABELS)
    if name == "annotators":
        return load_data((COUNTS > 2).astype(int))
    if name == "factor_analysis":
        return load_data(X @ RNG.normal(size=(2, 3)) + RNG.normal(size=(24, 3)))
    return load_data(X, labels=LABELS)


OPTIONS = {
    "latent_dirichlet": {"num_topics": 2},
    "factor_analysis": {"num_factors": 1},
    "ppca": {"num_factors": 1},
    "hmm": {"emission": "gaussian", "boundary": False},
    "mixed_mixture": {"num_components": 2},
}


@cache
def fitted(name: str) -> xr.DataTree:
    if name == "program":
        return fit(program, (X[:, 0], X[:, 1]), method="nuts", predictive=True, **DRAWS)
    data = data_of(name)
    return fit(MODELS[name](data, **OPTIONS.get(name, {})), data, method="gibbs", predictive=True, **DRAWS)


@pytest.fixture(scope="session")
def reloaded(tmp_path_factory):
    """Results of models, one fit each, saved and read back."""

    @cache
    def read(name: str) -> xr.DataTree:
        folder = tmp_path_factory.mktemp(name)
        save(fitted(name), folder / "results.nc")
        return load(folder)

    return read


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def var_of(tree: xr.DataTree) -> str:
    """The observed variable with a log-likelihood of the same name."""
    return next(str(name) for name in tree["log_likelihood"].data_vars)


def call(name: str, tree: xr.DataTree, **options):
    import arviz as az

    return getattr(az, name)(tree, **options)


CHAINS = (
    *("plot_autocorr", "plot_convergence_dist", "plot_dist", "plot_ess", "plot_ess_evolution", "plot_forest", "plot_mcse"),
    *("plot_parallel", "plot_rank", "plot_rank_dist", "plot_ridge", "plot_trace", "plot_trace_dist"),
)
NUMBERS = ("ess", "eti", "hdi", "mcse", "psense", "rhat", "summary")
SENSITIVITY = ("plot_prior_posterior", "plot_psense_dist", "plot_psense_quantities")
PREDICTIVE = ("plot_ppc_dist", "plot_ppc_tstat")
BY_ROW = (  # of one number a row
    *("loo_pit", "plot_loo_interval", "plot_loo_pit", "plot_ppc_dist_pit", "plot_ppc_interval", "plot_ppc_pit"),
)
FAMILIES = {"chains": CHAINS, "numbers": NUMBERS, "sensitivity": SENSITIVITY, "predictive": PREDICTIVE}
COUNTED = "annotators", "naive_bayes", "poisson_naive_bayes", "latent_dirichlet", "markov_naive_bayes", "logistic_regression"
MANY = 40  # panels that ArviZ draws

every_model = pytest.mark.parametrize("name", [*MODELS, "program"])
pytestmark = pytest.mark.filterwarnings("ignore")  # ArviZ warns of so few draws


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family"), some(product([*MODELS, "program"], FAMILIES), 3))
def test_functions_take_whole_results(name, family, reloaded):
    """Of all sites, without a filter; counts and categories have no density, and are drawn as histograms."""
    tree = reloaded(name)
    entries = sum(int(np.prod(site.shape[2:])) for site in tree["posterior"].data_vars.values())
    assert entries <= MANY, "the data of this test are to have fewer columns"
    discrete = {"kind": "hist"} if name in COUNTED else {}
    of_one_site = len(tree["posterior"].data_vars) == 1
    for function in FAMILIES[family]:
        if function in ("plot_psense_dist", "plot_psense_quantities") and (of_one_site or 2 * entries > MANY):
            # ArviZ 1.3 takes a group of one variable for an array, and fails; it draws two panels an entry.
            if not of_one_site:
                assert call(function, tree, var_names=list(tree["posterior"].data_vars)[:2]) is not None
            continue
        assert call(function, tree, **(discrete if function == "plot_ppc_dist" else {})) is not None, function


@pytest.mark.slow
@pytest.mark.parametrize("name", some([*MODELS, "program"]))
def test_leave_one_out(name, reloaded):
    """elpd, its k-hat, and results beside each other."""
    import arviz as az

    tree = reloaded(name)
    loo = az.loo(tree, var_name=var_of(tree), pointwise=True)
    assert np.isfinite(loo.elpd)
    az.plot_khat(loo)
    az.plot_compare(az.compare({"one": loo, "other": loo}))


@pytest.mark.slow
def test_rows_of_one_number(reloaded):
    """What asks for one number a row: a user's program, whose sites keep their names; a table's rows have several cells."""
    tree = reloaded("program").copy()  # some functions of ArviZ 1.3 look at all that is observed, whatever is asked for
    for group in ("observed_data", "log_likelihood", "prior_predictive", "posterior_predictive"):
        tree[group] = xr.DataTree(tree[group].to_dataset()[["height"]])
    for function in BY_ROW:
        assert call(function, tree, var_names="height") is not None, function
    for function in ("plot_energy", "psense_summary"):
        assert call(function, reloaded("program")) is not None, function


@pytest.mark.slow
def test_pairs_of_a_site(reloaded):
    """Every pair of entries of one site; of all sites there are too many for anybody."""
    assert call("plot_pair", reloaded("gmm"), var_names=["mean"]) is not None


@pytest.mark.slow
def test_a_saved_mixture_is_plotted(reloaded):
    """The representative of the default run: sites with columns, a symmetric matrix, replications."""
    tree = reloaded("gmm")
    for function in ("summary", "plot_forest", "plot_ppc_dist"):
        assert call(function, tree) is not None, function


def test_the_default_result_has_few_enough_panels():
    """A result of the default command has at most as many different entries as ArviZ draws panels, each of them once."""
    data = load_data("iris")
    model = MODELS["gmm"](data)
    rows = model.rows(data)
    sites = {name: np.zeros((1, 1, *site.shape)) for name, site in latent_sites(model.spec, model.hyper, rows).items()}
    stored = dataset(sites, model, ("chain", "draw"), symmetric_sites(model.spec, model.hyper, rows))
    assert sum(site.size for site in stored.data_vars.values()) == 2 + 2 * 4 + 2 * 10 <= MANY
    reserved = {"column", "row", "model", "sample"}  # by the plots for themselves
    assert not reserved & set(stored.dims)
