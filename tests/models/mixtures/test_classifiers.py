"""Labels: observed, missing or a set of candidates, in the generative classifiers and in every method."""

from functools import partial

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import SHORT, distances_of_moments, draws_of, log_local, log_prior, random_sites
from naive_discriminant import LABELS, X, build, every_covariance, fitted, sites_of, table
from numpyro.infer.util import log_density
from release import some
from scipy.special import logsumexp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from two_stage import assert_standard_normal

from inference import METHODS, fit, log_likelihood, predict
from inference.cli.main import run_main
from models import MODELS, Data, ZooError, load_data
from models.data import allowed_labels, take


def test_labels_are_read():
    """A value, nothing, or candidates joined by |."""
    allowed = allowed_labels(table())
    assert table().levels == ("a", "b", "c")
    assert allowed[0].tolist() == [True, False, False]
    assert allowed[3].all()
    assert allowed[4].tolist() == [True, True, False]
    assert allowed[9].tolist() == [False, True, True]
    whole = load_data(pd.DataFrame({"x": range(3), "kind": ["a", "b", "a|b"]}), label="kind")
    three = build(table())
    model_rows = three.rows(whole._replace(x=np.zeros((3, 2)), columns=table().columns))
    assert model_rows.allowed_states[2].tolist() == [True, True, False]  # a set of all levels of its table is no missing label
    with pytest.raises(ZooError, match="row 2: 'd' is a candidate"):
        load_data(pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", "a|d"]}), label="kind")


def test_labels_of_any_type():
    """Whole numbers, also with holes, and truth values: classes named as a reader writes them."""
    x = np.zeros((4, 1))
    assert load_data(x, labels=[0, 1, 2, 0]).levels == ("0", "1", "2")
    assert load_data(x, labels=[0, None, 10, 2]).levels == ("0", "2", "10")
    assert load_data(x, labels=[True, False, True, True]).levels == ("False", "True")
    assert load_data(x, labels=["a ", "a", "b", "a|b"]).levels == ("a", "b")
    order = pd.Categorical(["low", "high", "low", "low"], categories=["low", "high"], ordered=True)
    assert load_data(x, labels=order).levels == ("low", "high")


@pytest.mark.slow
@every_covariance
def test_density_is_the_sum_over_what_is_allowed(covariance):
    """Program, algebra and the naive Σ_{k ∈ A_n} π_k p(x_n | θ_k); gradients are finite; the complete program likewise."""
    model, sites = build(covariance=covariance), sites_of(covariance)
    rows = model.rows(table())
    naive_sites = random_sites(covariance, 3, X)
    local = np.where(allowed_labels(table()), log_local(covariance, naive_sites, X), -np.inf)
    naive = logsumexp(local, axis=1)
    np.testing.assert_allclose(log_likelihood(model, sites, table()), naive, rtol=1e-10)

    def program(sites, marginal=True):
        return log_density(model.spec, (dict(model.hyper), rows), {"marginal": marginal}, sites)[0]

    density, gradient = jax.jit(jax.value_and_grad(program))(sites)
    assert float(density) == pytest.approx(log_prior(covariance, model.hyper, naive_sites) + naive.sum(), rel=1e-10)
    assert all(np.isfinite(leaf).all() for leaf in gradient.values())
    z = local.argmax(1)
    complete = jax.jit(partial(program, marginal=False))(sites | {"component": z})
    expected = log_prior(covariance, model.hyper, naive_sites) + local[np.arange(len(z)), z].sum()
    assert float(complete) == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine"])
@every_covariance
def test_maximum_likelihood_is_scikit_learns(name, covariance):
    """Document 001's estimates by EM, which converges in one step; predictions of the linear rule are identical."""
    data = load_data(name)
    tree = fit(MODELS["linear_discriminant"](data, covariance=covariance, prior="flat"), data, method="em")
    found = tree["point_estimate"]
    assert int(tree["optimization"]["iterations"].max()) <= 2  # the second finds nothing to gain
    covariances = np.linalg.inv(found["precision"].values)
    tied = covariance == "tied"
    peer = LinearDiscriminantAnalysis(solver="eigen", store_covariance=True) if tied else QuadraticDiscriminantAnalysis()
    peer.set_params(store_covariance=True).fit(data.x, data.labels)
    np.testing.assert_allclose(covariances, peer.covariance_, rtol=1e-8)
    probs = predict(MODELS["linear_discriminant"](data, covariance=covariance), found_sites(tree), data)["probs"]
    np.testing.assert_allclose(probs, peer.predict_proba(data.x), atol=1e-10)
    np.testing.assert_array_equal(probs.argmax("class"), peer.predict(data.x))
    np.testing.assert_allclose(found["mean"], peer.means_, rtol=1e-10)
    np.testing.assert_allclose(found["class_probs"], np.bincount(data.labels) / data.num_rows, rtol=1e-12)


def found_sites(tree: xr.DataTree) -> dict[str, np.ndarray]:
    return {str(name): value.values for name, value in tree["point_estimate"].data_vars.items()}


@pytest.mark.slow
@pytest.mark.parametrize("method", some(method for method in METHODS if method != "collapsed_gibbs"))
def test_every_method_takes_partial_labels(method):
    """Finite results, named classes, no relabelling, and no probability where a label forbids it."""
    tree = fitted(method)
    assert "posterior_raw" not in tree
    probs = tree["latent"]["responsibilities"]
    assert probs.dims == ("row", "class")
    assert list(probs["class"].values) == ["a", "b", "c"]
    assert np.abs(probs.values[~allowed_labels(table())]).max() == 0
    np.testing.assert_allclose(probs.sum("class"), 1, rtol=1e-6)
    assert all(np.isfinite(value).all() for value in tree["functionals"].data_vars.values())


@pytest.mark.slow
def test_em_is_map():
    assert float(fitted("em")["functionals"]["log_joint"]) == pytest.approx(
        float(fitted("map")["functionals"]["log_joint"]), 1e-6
    )


@pytest.mark.slow
def test_without_labels_it_is_the_mixture():
    """The same log joint as `gmm`, by EM from the same sites, and exchangeable classes."""
    bare = Data("bare", X, table().columns)
    model = build(bare, num_classes=3)
    assert model.symmetry is not None
    sites = sites_of("tied")
    mixture = {"mixture_probs": sites["class_probs"], "mean": sites["mean"], "precision": sites["precision"]}
    gmm = MODELS["gmm"](bare, num_components=3, covariance="tied")
    left = fit(model, bare, method="em", start=sites, max_iter=5, tol=0)["functionals"]["log_joint"]
    right = fit(gmm, bare, method="em", start=mixture, max_iter=5, tol=0)["functionals"]["log_joint"]
    assert float(left) == pytest.approx(float(right), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build(Data("bare", X, table().columns)), "no labels"),
        (lambda: build(num_classes=5), "has 3 classes"),
        (lambda: build(table(("a",) * 14)), "only one class"),
        (lambda: build(covariance="diag"), "covariance='diag' is not one of tied, full"),
        (lambda: build().rows(table(("a", "d") * 7)), "the label 'd'"),
        (lambda: fit(build(Data("bare", X, table().columns), num_classes=3), X, method="exact"), "at most 2\\^20"),
        (lambda: fit(build(prior="flat"), table(), method="exact"), "flat"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


@pytest.mark.slow
def test_a_class_without_rows_keeps_its_prior():
    """A level that no row has is still a class: its mean is drawn from the prior, and EM puts it at the prior's location."""
    data = table(tuple("ab" * 7))._replace(levels=("a", "b", "c"))
    model = build(data)
    tree = fit(model, data, method="em")
    np.testing.assert_allclose(tree["point_estimate"]["mean"].sel({"class": "c"}), model.hyper["location"], rtol=1e-8)
    with pytest.raises(ZooError, match="there is no mode"):
        fit(build(data, prior="flat"), data, method="em")


@pytest.mark.slow
def test_command_line(tmp_path):
    table_path = tmp_path / "table.csv"
    pd.DataFrame(X, columns=["u", "v"][: X.shape[1]]).assign(kind=LABELS).to_csv(table_path, index=False)
    arguments = [
        "model=linear_discriminant",
        "method=exact",
        f"data={table_path}",
        "data.label=kind",
        "progress=false",
        "pictures=false",
    ]
    assert run_main([*arguments, f"out={tmp_path / 'run'}"]) == 0
    assert (tmp_path / "run" / "results.nc").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (tuple("ab" * 7), "no row is of c"),
        (("a", "b", None) * 4 + ("a", "b"), "no row is known to be of c: it absorbs"),
        (("a", None) * 7, "no row is known to be of b, c: these classes are exchangeable"),
    ],
)
def test_classes_without_labelled_rows_are_said(labels, words):
    data = table(labels)
    codes = np.array([-1 if label is None else "abc".index(label) for label in labels])
    data = data._replace(labels=codes, levels=("a", "b", "c"))
    model = build(data)
    assert any(words in line for line in model.summaries.warnings)
    assert words in fit(model, data, method="em", num_starts=1).attrs["warnings"]


@pytest.mark.slow
def test_weights_are_repeated_rows():
    """Evidence and estimates with whole weights on labelled rows; a weighted row without a label has no single latent."""
    weight = np.array([1, 2, 3, 1] * 3 + [1, 1])
    labels = tuple("abcabcabcabcab")
    model = build(table(labels))
    weighted = table(labels)._replace(weight=weight.astype(float))
    repeated = take(table(labels), np.repeat(np.arange(14), weight))
    pair = [fit(model, data, method="exact", **SHORT["exact"]).attrs["log_evidence"] for data in (weighted, repeated)]
    assert pair[0] == pytest.approx(pair[1], rel=1e-12)
    modes = [fit(model, data, method="em")["point_estimate"]["mean"].values for data in (weighted, repeated)]
    np.testing.assert_allclose(*modes, rtol=1e-10)
    partly = table()._replace(weight=weight.astype(float))
    for method in ("gibbs", "exact"):
        with pytest.raises(ZooError, match="row 7 of the data weighs 3"):
            fit(model, partly, method=method, **SHORT[method])


# ---------------------------------------------------------------------------------------------------------------------
# The evidence, and the posterior that is drawn exactly


@pytest.mark.slow
@every_covariance
def test_evidence_is_the_sum_over_completions(covariance):
    """With labels missing, p(x, labels) = Σ over completions of the labels of p(x, z); each term by a run of its own."""
    labels = ["a", "b", "c", *("abca" * 3)[:11]]
    partly = list(labels)
    partly[4], partly[7] = None, "a|c"
    model = build(table(tuple(labels)), covariance=covariance)

    def evidence(labels: list[str | None]) -> float:
        return fit(model, table(tuple(labels)), method="exact", **SHORT["exact"]).attrs["log_evidence"]

    terms = []
    for fourth in "abc":
        for seventh in "ac":
            terms.append(evidence([*partly[:4], fourth, *partly[5:7], seventh, *partly[8:]]))
    assert evidence(partly) == pytest.approx(logsumexp(terms), rel=1e-10)
    bound = fit(model, table(tuple(labels)), method="cavi", **SHORT["cavi"]).attrs["elbo"]
    assert bound == pytest.approx(evidence(labels), rel=1e-10)


@pytest.mark.slow
def test_exact_enumerates_the_open_rows_only():
    """Two hundred rows, two of them without a label: the evidence is the sum over the nine completions."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(200, 2)), list("abc" * 66 + "ab")
    open_rows = [*labels[:5], None, *labels[6:150], None, *labels[151:]]
    model = build(load_data(x, labels=labels))
    found = fit(model, load_data(x, labels=open_rows), method="exact", num_samples=5).attrs["log_evidence"]
    terms = []
    for left in "abc":
        for right in "abc":
            full = [*labels[:5], left, *labels[6:150], right, *labels[151:]]
            terms.append(fit(model, load_data(x, labels=full), method="exact", num_samples=5).attrs["log_evidence"])
    assert found == pytest.approx(logsumexp(terms), rel=1e-12)


@pytest.mark.slow
def test_exact_agrees_with_gibbs():
    """Means of the functionals and their squares."""

    def deviations(seed, times):
        warmup = {"exact": {}, "gibbs": {"num_warmup": 1000}}
        options = {
            method: SHORT[method] | more | {"num_samples": 1280 * times, "seed": seed} for method, more in warmup.items()
        }
        exact, gibbs = (fit(build(), table(), method=method, **chosen) for method, chosen in options.items())
        names = ("log_joint", "log_likelihood", "class_probs", "entropy")
        pairs = [[draws_of(tree, "functionals", name) for tree in (gibbs, exact)] for name in names]
        return np.concatenate([distances_of_moments(*pair) for pair in pairs])

    assert_standard_normal(deviations, 1)
