"""Draws of other programs as results: what is computed of them is what is computed of draws of our own."""

from functools import cache

import arviz_base as az
import jax
import naive
import numpy as np
import numpyro
import pytest
import xarray as xr
from naive import SHORT, build, near, random_sites, table, two_groups
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS

from inference import as_result, compare, fit, full_matrices, predict
from inference.diagnostics.summaries import summarise
from inference.report.reading import read
from inference.results import load, save
from inference.results.triangles import sites_of
from models import MODELS, ZooError, load_data

X = two_groups(40)
DATA = table(X)


@cache
def model():
    return build(DATA, "diag")


@cache
def gibbs() -> xr.DataTree:
    return fit(model(), DATA, "gibbs", seed=3, **SHORT["gibbs"])


def as_given(form: str, tree: xr.DataTree, raw: bool = True):
    """The draws of a result as Stan's and PyMC's users have them, or as plain arrays."""
    sites = sites_of(tree, "posterior_raw" if raw and "posterior_raw" in tree else "posterior")
    return sites if form == "dict" else az.from_dict({"posterior": sites})


def log_joint(sites):
    """A draw's log joint by SciPy (`naive`)."""
    return naive.log_prior("diag", model().hyper, sites) + naive.log_likelihood("diag", sites, X).sum()


def agree(found: xr.DataTree, wanted: xr.DataTree) -> None:
    """Numbers of every group that both have, and the tables of functionals and parameters, to 1e-10."""
    for group in ("posterior", "posterior_raw", "functionals", "log_likelihood", "latent"):
        assert (group in found) == (group in wanted), group
        if group in wanted:
            for name, value in wanted[group].data_vars.items():
                assert found[group][name].dims == value.dims
                assert near(found[group][name], value, rtol=1e-10, atol=1e-10)
    for group in ("functionals", "posterior"):
        left, right = summarise(found, group), summarise(wanted, group)
        assert left.index.tolist() == right.index.tolist()
        assert near(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dict", "tree"])
def test_our_own_draws_come_back(form):
    """Relabelled as those of a fit, with the same log joints, functionals and diagnostics."""
    found = as_result(model(), DATA, as_given(form, gibbs()), "stan")
    agree(found, gibbs())
    assert found.attrs["method"] == "stan"
    assert found.attrs["exit_status"] == gibbs().attrs["exit_status"]
    own, other = compare({"gibbs": gibbs(), "stan": as_given(form, gibbs())}).table.to_dict("index").values()
    for column in ("log joint", "elpd", "se", "k-hat", "R-hat", "ESS", "parameters"):
        assert other[column] == pytest.approx(own[column], rel=1e-10), column


def test_names_of_dimensions_and_labels_put_draws_in_order():
    """A tree with the columns in another order, and the dimensions of a site swapped, is the tree in the model's order."""
    named = {"mean": ["component", "feature"], "precision": ["component", "feature"], "mixture_probs": ["component"]}
    labels = {"feature": list(map(str, model().naming.coords["feature"])), "component": [0, 1]}
    sites = sites_of(gibbs(), "posterior_raw")
    plain = az.from_dict({"posterior": sites}, dims=named, coords=labels)
    turned = plain["posterior"].to_dataset().isel(feature=slice(None, None, -1)).transpose("feature", "component", ...)
    wanted = as_result(model(), DATA, plain)["functionals"]["log_joint"]
    assert near(as_result(model(), DATA, turned)["functionals"]["log_joint"], wanted, rtol=1e-12)
    with pytest.raises(ZooError, match="has the labels"):
        as_result(model(), DATA, turned.assign_coords(feature=["p", "q"]))


@pytest.mark.slow
def test_the_others_must_agree_on_the_model_alone():
    """Results by two methods say which model it is; results under two priors do not."""
    em = fit(model(), DATA, "em", num_starts=1, max_iter=5)
    draws = as_given("dict", gibbs())
    assert "stan" in compare({"em": em, "gibbs": gibbs(), "stan": draws}).table.index
    other = fit(build(DATA, "diag", prior={"component": {"strength": 9.0}}), DATA, "em", num_starts=1, max_iter=5)
    with pytest.raises(ZooError, match="different options or priors"):
        compare({"em": em, "other": other, "stan": draws})


def test_log_joints_are_scipys():
    """At sites that no sampler drew, so that nothing is handed on from a fit."""
    draws = [random_sites("diag", 2, X, seed) for seed in range(6)]
    sites = {name: np.stack([each[name] for each in draws]).reshape(2, 3, *draws[0][name].shape) for name in draws[0]}
    found = as_result(model(), DATA, sites)["functionals"]["log_joint"].values.ravel()
    assert near(found, [log_joint(each) for each in draws], rtol=1e-10)


def test_foreign_results_are_results(tmp_path):
    """They are predicted from, read, saved and named as those of a fit; an unordered tree has its dimensions put in order."""
    turned = as_given("tree", gibbs())["posterior"].to_dataset().transpose(..., "draw", "chain")
    found = as_result(model(), DATA, turned, "stan")
    wanted = predict(model(), gibbs(), DATA)
    assert near(predict(model(), found, DATA)["log_density"], wanted["log_density"], atol=1e-10)
    assert read(found).title == "gmm on table by stan"
    save(found, tmp_path / "results.nc")
    assert near(load(tmp_path)["functionals"]["log_joint"], found["functionals"]["log_joint"])


def mean_of_rows(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    numpyro.deterministic("twice", 2 * mean)
    with numpyro.plate("row", len(x)):
        numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


@cache
def mcmc_of_program() -> MCMC:
    mcmc = MCMC(NUTS(mean_of_rows), num_warmup=50, num_samples=50, num_chains=2, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), X[:, 0], extra_fields=("num_steps",))
    return mcmc


@pytest.mark.slow
def test_an_mcmc_of_numpyro_is_a_result():
    """Of a user's program: draws as they are, the log joint by hand, divergences kept, what it computes computed anew."""
    x = X[:, 0]
    found = as_result(mean_of_rows, x, mcmc_of_program(), "numpyro")
    mean = np.asarray(mcmc_of_program().get_samples(group_by_chain=True)["mean"])
    assert near(found["posterior"]["mean"], mean)
    by_hand = dist.Normal(0.0, 10.0).log_prob(mean) + dist.Normal(mean[..., None], 1.0).log_prob(x).sum(-1)
    assert near(found["functionals"]["log_joint"], by_hand, rtol=1e-10)
    assert {"diverging", "n_steps"} <= set(found["sample_stats"].data_vars)
    assert near(found["posterior"]["twice"], 2 * mean)
    assert "not_sites" not in found.attrs


@pytest.mark.slow
def test_a_fit_of_a_program_supplies_the_data_of_an_mcmc():
    """The MCMC holds the program. Another one of the same name has other densities at the draws, and is not taken for it."""
    x, mcmc = X[:, 0], mcmc_of_program()
    wanted = compare({"mcmc": mcmc}, model=mean_of_rows, data=x).table["log joint"]["mcmc"]
    for tree in (fit(mean_of_rows, x, "map", **SHORT["map"]), as_result(mean_of_rows, x, mcmc)):
        assert near(compare({"fit": tree, "mcmc": mcmc}).table["log joint"]["mcmc"], wanted, rtol=1e-12)
        tree["functionals"]["log_joint"] = tree["functionals"]["log_joint"] + 1
        with pytest.raises(ZooError, match="give model= and data="):
            compare({"fit": tree, "mcmc": mcmc})


@pytest.mark.slow
def test_an_mcmc_on_the_program_of_a_model():
    """NumPyro's own run on the marginal program of the zoo, compared with the fit and relabelled."""
    mcmc = MCMC(
        NUTS(model().program), num_warmup=200, num_samples=64, num_chains=2, chain_method="sequential", progress_bar=False
    )
    mcmc.run(jax.random.PRNGKey(0), DATA)
    found = compare({"gibbs": gibbs(), "numpyro": mcmc})
    assert found.one_model
    sites = {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    tree = as_result(model(), DATA, mcmc)
    wanted = [log_joint({name: value[c, d] for name, value in sites.items()}) for c in range(2) for d in range(64)]
    assert near(tree["functionals"]["log_joint"].values.ravel(), wanted, rtol=1e-10)
    assert found.table["log joint"]["numpyro"] == pytest.approx(np.mean(wanted), rel=1e-10)
    assert tree["sample_stats"]["permutation"].shape == (2, 64, 2)


@pytest.mark.slow
def test_draws_of_nuts_come_back():
    wanted = fit(model(), DATA, "nuts", seed=3, **SHORT["nuts"])
    found = as_result(model(), DATA, as_given("tree", wanted))
    agree(found, wanted)
    assert found.attrs["draws"] == wanted.attrs["draws"]


@pytest.mark.slow
def test_matrices_come_back_whole_or_packed():
    """Results store the triangle of a matrix; foreign draws have whole ones. Both are read."""
    full = build(DATA, "full")
    draws = [random_sites("full", 2, X, seed) for seed in range(4)]
    sites = {name: np.stack([each[name] for each in draws])[None] for name in draws[0]}
    tree = as_result(full, DATA, sites)
    assert tree["posterior"]["precision"].shape == (1, 4, 2, 3)
    agree(as_result(full, DATA, full_matrices(tree)), as_result(full, DATA, tree["posterior"]))
    assert near(as_result(full, DATA, tree)["functionals"]["log_joint"], tree["functionals"]["log_joint"], rtol=1e-10)


def broken(change):
    sites = dict(as_given("dict", gibbs()))
    change(sites)
    return sites


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s: s.pop("mean"),
            "there is no site 'mean': expected the sites mean, mixture_probs, precision of gmm, got mixture",
        ),
        (lambda s: s.update(means=s["mean"]), "'means' is no site.*mean.*expected the sites mean, mixture_probs, precision"),
        (
            lambda s: s.update(mean=s["mean"][0]),
            r"mean has shape \(64, 2, 2\), and that of gmm has shape \(chain, draw, 2, 2\)",
        ),
        (lambda s: s.update(mixture_probs=s["mixture_probs"][:, :5]), r"shape \(4, 64, 2, 2\).* as mixture_probs, \(4, 5\)"),
        (lambda s: s.update(mixture_probs=s["mixture_probs"] * 1.01), "mixture_probs is outside its support.*sum to 1"),
        (lambda s: s.update(precision=-s["precision"]), "precision is outside its support: it takes numbers above 0"),
        (lambda s: s.update(mean=np.where(s["mean"] > 1, np.nan, s["mean"])), "mean is outside its support"),
        (lambda s: s.update({k: v[:, :0] for k, v in s.items()}), "not a single draw"),
        (lambda s: s.update(mean="many"), "mean must be an array of numbers"),
    ],
)
def test_sites_that_are_none_are_refused(change, words):
    with pytest.raises(ZooError, match=f"draws: .*{words}"):
        as_result(model(), DATA, broken(change))
    with pytest.raises(ZooError, match=f"stan: draws: .*{words}"):
        compare({"gibbs": gibbs(), "stan": broken(change)})


def test_other_things_are_refused():
    sites = as_given("dict", gibbs())
    with pytest.raises(ZooError, match=r"expected an xarray\.DataTree .*, got list"):
        as_result(model(), DATA, [1.0])
    with pytest.raises(ZooError, match="has not run"):
        as_result(model(), DATA, MCMC(NUTS(mean_of_rows), num_warmup=1, num_samples=1))
    with pytest.raises(ZooError, match="needs chain and draw"):
        as_result(model(), DATA, gibbs()["latent"].to_dataset())
    with pytest.raises(ZooError, match="kind='point' is not one of chains"):
        as_result(model(), DATA, sites, kind="point")
    with pytest.raises(ZooError, match="method is the name"):
        as_result(model(), DATA, sites, method=3)
    with pytest.raises(ZooError, match="statistic diverging has shape"):
        as_result(model(), DATA, xr.DataTree.from_dict({
            "/posterior": as_given("tree", gibbs())["posterior"].to_dataset(),
            "/sample_stats": xr.Dataset({"diverging": (("chain", "draw"), np.zeros((1, 2), bool))}),
        }))  # fmt: skip


def test_generated_quantities_are_left_out_and_named():
    given = az.from_dict({"posterior": as_given("dict", gibbs()) | {"log_lik": np.zeros((4, 64, 40))}})
    found = compare({"gibbs": gibbs(), "stan": given})
    assert found.notes[-1] == "stan: left out, as they are no sites of the model: log_lik"
    assert found.one_model


@pytest.mark.slow
def test_where_model_and_data_come_from():
    """From results of the zoo, whose prior is checked, or from the caller; otherwise one message says what to give."""
    given = as_given("dict", gibbs())
    wanted = compare({"stan": given}, model=model(), data=DATA).table["log joint"]
    assert near(compare({"stan": given, "gibbs": gibbs()}).table["log joint"]["stan"], wanted["stan"], rtol=1e-12)
    with pytest.raises(ZooError, match=r"none of the others has its model and data; give model= and data="):
        compare({"stan": given})
    with pytest.raises(ZooError, match="together"):
        compare({"stan": given}, model=model())
    other = gibbs().copy()
    other["constant_data"] = xr.DataTree(other["constant_data"].to_dataset() * 2)
    with pytest.raises(ZooError, match="the prior of gmm is not known"):
        compare({"stan": given, "gibbs": other})
    programs = {"mean": as_result(mean_of_rows, X[:, 0], mcmc_of_program())}
    with pytest.raises(ZooError, match="a program that its result does not hold"):
        compare(programs | {"stan": {"mean": np.zeros((2, 30))}})
    with pytest.raises(ZooError, match="several models, gmm, mean_of_rows"):
        compare(programs | {"gibbs": gibbs(), "stan": given})


@pytest.mark.slow
def test_only_columns_that_apply_are_shown():
    """A point has no elpd; draws of which no seconds are known have none to show."""
    shown = compare({"stan": as_given("dict", gibbs())}, model=model(), data=DATA).shown.columns
    assert {"log joint", "elpd", "R-hat", "ESS"} <= set(shown)
    assert not {"ESS/s", "run s", "BIC", "log loss"} & set(shown)
    point = compare({"em": fit(model(), DATA, "em", **SHORT["em"])}).shown.columns
    assert {"log joint", "BIC", "run s"} <= set(point)
    assert not {"elpd", "elpd valid", "k-hat", "R-hat", "ESS"} & set(point)


@pytest.mark.slow
def test_models_with_classes_are_built_again():
    """Options and labels are read back from the result."""
    data = load_data(X[:12], labels=list("abb" * 4))
    made = MODELS["naive_bayes"](data, emission="gaussian")
    tree = fit(made, data, "exact", num_samples=8, num_chains=1)
    found = compare({"exact": tree, "stan": sites_of(tree, "posterior")})
    assert near(*(found.table["log joint"][name] for name in ("stan", "exact")), rtol=1e-12)
