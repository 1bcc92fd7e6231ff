"""Labels: observed, missing or a set of candidates, in the generative classifiers and in every method."""

from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import SHORT, log_local, log_prior, random_sites, two_groups
from numpyro.infer.util import log_density
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import accuracy_score, log_loss

from inference import METHODS, discriminant, fit, log_likelihood, predict, score
from inference.results import load
from inference.shell import run_main
from models import MODELS, Data, Model, ZooError, load_data
from models.data import allowed_labels, split, take

X = two_groups(14)
LABELS = ["a", "b", "c", None, "a|b", "b", None, "a", "c", "c|b", "a", "b", "c", "a"]
COVARIANCES = ("tied", "full")
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)


@cache
def table(labels: tuple[str | None, ...] = tuple(LABELS)) -> Data:
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])]).assign(kind=list(labels))
    return load_data(frame, label="kind")


def build(data: Data | None = None, **options) -> Model:
    return MODELS["linear_discriminant"](table() if data is None else data, **options)


@cache
def fitted(method: str) -> xr.DataTree:
    return fit(build(), table(), method=method, seed=1, **SHORT[method])


def sites_of(covariance: str) -> dict[str, np.ndarray]:
    sites = random_sites(covariance, 3, X)
    return {"class_probs": sites["mixture_probs"], "mean": sites["mean"], "precision": sites["precision"]}


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
    assert model_rows.allowed[2].tolist() == [True, True, False]  # a set of all levels of its table is no missing label
    with pytest.raises(ZooError, match="row 2: 'd' is a candidate"):
        load_data(pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", "a|d"]}), label="kind")


@every_covariance
def test_density_is_the_sum_over_what_is_allowed(covariance):
    """Program, algebra and the naive Σ_{k ∈ A_n} π_k p(x_n | θ_k); gradients are finite; the complete program likewise."""
    model, sites = build(covariance=covariance), sites_of(covariance)
    rows = model.rows(table())
    naive_sites = random_sites(covariance, 3, X)
    local = np.where(allowed_labels(table()), log_local(covariance, naive_sites, X), -np.inf)
    naive = logsumexp(local, axis=1)
    np.testing.assert_allclose(log_likelihood(model, sites, table()), naive, rtol=1e-10)

    def program(sites):
        return log_density(model.spec, (dict(model.hyper), rows), {"marginal": True}, sites)[0]

    density, gradient = jax.jit(jax.value_and_grad(program))(sites)
    assert float(density) == pytest.approx(log_prior(covariance, model.hyper, naive_sites) + naive.sum(), rel=1e-10)
    assert all(np.isfinite(leaf).all() for leaf in gradient.values())
    z = local.argmax(1)
    complete, _ = log_density(model.spec, (dict(model.hyper), rows), {"marginal": False}, sites | {"component": z})
    expected = log_prior(covariance, model.hyper, naive_sites) + local[np.arange(len(z)), z].sum()
    assert float(complete) == pytest.approx(expected, rel=1e-10)


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


@pytest.mark.parametrize("method", METHODS)
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


def test_em_is_map():
    assert float(fitted("em")["functionals"]["log_joint"]) == pytest.approx(
        float(fitted("map")["functionals"]["log_joint"]), 1e-6
    )


@every_covariance
def test_evidence_is_the_sum_over_completions(covariance):
    """With labels missing, p(x, labels) = Σ over completions of the labels of p(x, z); each term by a run of its own."""
    labels = ["a", "b", "c", *("abca" * 3)[:11]]
    partial = list(labels)
    partial[4], partial[7] = None, "a|c"
    model = build(table(tuple(labels)), covariance=covariance)
    whole = fit(model, table(tuple(partial)), method="exact", num_samples=10).attrs["log_evidence"]
    terms = []
    for fourth in "abc":
        for seventh in "ac":
            full = [*partial[:4], fourth, *partial[5:7], seventh, *partial[8:]]
            terms.append(fit(model, table(tuple(full)), method="exact", num_samples=10).attrs["log_evidence"])
    assert whole == pytest.approx(logsumexp(terms), rel=1e-10)
    bound = fit(model, table(tuple(labels)), method="cavi", num_samples=10).attrs["elbo"]
    assert bound == pytest.approx(
        fit(model, table(tuple(labels)), method="exact", num_samples=10).attrs["log_evidence"], rel=1e-10
    )


def test_exact_agrees_with_gibbs():
    """Means of the functionals within 4.5 Monte Carlo standard errors: a false alarm in 10,000 runs for a dozen numbers."""
    import arviz_stats

    exact = fit(build(), table(), method="exact", seed=2)
    gibbs = fit(build(), table(), method="gibbs", seed=2, num_samples=2000)
    for name in ("log_joint", "log_likelihood", "class_probs", "entropy"):
        gap = exact["functionals"][name].mean(("chain", "draw")) - gibbs["functionals"][name].mean(("chain", "draw"))
        errors = [arviz_stats.mcse(tree["functionals"].to_dataset()[name]) for tree in (exact, gibbs)]
        assert (np.abs(gap) <= -norm.ppf(1e-4 / 24) * np.sqrt(errors[0] ** 2 + errors[1] ** 2)).all(), name


def test_prediction_forgets_the_labels_of_new_rows():
    """p(class | x): the same with right labels, wrong ones and none."""
    model, tree = build(), fitted("gibbs")
    bare = predict(model, tree, Data("new", X, table().columns))
    np.testing.assert_array_equal(predict(model, tree, table())["probs"], bare["probs"])
    assert list(bare["class"].values) == ["a", "b", "c"]


def test_scores_are_scikit_learns():
    """On the second half of the irises by the first: accuracy and log loss as scikit-learn counts them; calibration by hand."""
    iris = load_data("iris")
    order = np.random.default_rng(0).permutation(150)
    half = [iris._replace(x=iris.x[rows], labels=iris.labels[rows]) for rows in (order[:75], order[75:])]
    model = MODELS["linear_discriminant"](half[0])
    tree = fit(model, half[0], method="exact", num_samples=200)
    found, probs = score(model, tree, half[1], num_bins=4), predict(model, tree, half[1])["probs"].values
    assert float(found["accuracy"]) == accuracy_score(half[1].labels, probs.argmax(1))
    assert float(found["log_loss"]) == pytest.approx(log_loss(half[1].labels, probs), rel=1e-10)
    confidence, hit, error = probs.max(1), probs.argmax(1) == half[1].labels, 0.0
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (confidence >= low) & ((confidence < low + 0.25) | (low == 0.75))
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - hit[inside].mean())
    assert float(found["calibration_error"]) == pytest.approx(error, rel=1e-10)
    assert int(found["count"].sum()) == 75
    renamed = half[1]._replace(levels=("virginica", "setosa", "versicolor"), labels=(half[1].labels + 1) % 3)
    assert float(score(model, tree, renamed)["accuracy"]) == float(found["accuracy"])  # classes go by name, not by code
    with pytest.raises(ZooError, match="no labels to score"):
        score(model, tree, half[1].x)


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
        (lambda: build(table(("a",) * 14)), "one class only"),
        (lambda: build(covariance="diag"), "covariance='diag' is not one of tied, full"),
        (lambda: build().rows(table(("a", "d") * 7)), "the class 'd'"),
        (lambda: fit(build(Data("bare", X, table().columns), num_classes=3), X, method="exact"), "at most 2\\^20"),
        (lambda: fit(build(prior="flat"), table(), method="exact"), "flat"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


def test_a_class_without_rows_keeps_its_prior():
    """A level that no row has is still a class: its mean is drawn from the prior, and EM puts it at the prior's location."""
    data = table(tuple("ab" * 7))._replace(levels=("a", "b", "c"))
    model = build(data)
    tree = fit(model, data, method="em")
    np.testing.assert_allclose(tree["point_estimate"]["mean"].sel({"class": "c"}), model.hyper["location"], rtol=1e-8)
    with pytest.raises(ZooError, match="there is no mode"):
        fit(build(data, prior="flat"), data, method="em")


def test_held_out_rows(tmp_path, capsys):
    """A quarter of the irises: in the report and in the result; the fit does not see them, and the figures are `score`'s."""
    arguments = ["model=linear_discriminant", "method=em", "data=iris", "data.test_fraction=0.25", "progress=false", "seed=3"]
    assert run_main([*arguments, f"out={tmp_path / 'run'}"]) == 0
    tree = load(tmp_path / "run")
    train, test = split(load_data("iris"), 0.25, 3)
    assert test is not None
    assert (train.num_rows, test.num_rows) == (112, 38) == (tree["observed_data"].sizes["row"], tree.attrs["held_out_rows"])
    assert len(np.unique(np.concatenate([train.x, test.x]), axis=0)) == len(np.unique(load_data("iris").x, axis=0))
    found = score(MODELS["linear_discriminant"](train), tree, test)
    assert tree.attrs["held_out_log_loss"] == pytest.approx(float(found["log_loss"]), rel=1e-12)
    assert "38 rows held out: accuracy" in capsys.readouterr().out
    with pytest.raises(ZooError, match="test_fraction must be"):
        run_main([*arguments[:3], "data.test_fraction=1.5"])


def test_command_line(tmp_path):
    table_path = tmp_path / "table.csv"
    pd.DataFrame(X, columns=["u", "v"][: X.shape[1]]).assign(kind=LABELS).to_csv(table_path, index=False)
    arguments = ["model=linear_discriminant", "method=exact", f"data={table_path}", "data.label=kind", "progress=false"]
    assert run_main([*arguments, f"out={tmp_path / 'run'}"]) == 0
    assert (tmp_path / "run" / "results.nc").is_file()


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (tuple("ab" * 7), "no row is of c"),
        (("a", "b", None) * 4 + ("a", "b"), "no row is known to be of c: it takes"),
        (("a", None) * 7, "no row is known to be of b, c: these classes are exchangeable"),
    ],
)
def test_classes_without_labelled_rows_are_said(labels, words):
    data = table(labels)
    codes = np.array([-1 if label is None else "abc".index(label) for label in labels])
    data = data._replace(labels=codes, levels=("a", "b", "c"))
    model = build(data)
    assert any(words in line for line in model.warnings)
    assert words in fit(model, data, method="em", num_starts=1).attrs["warnings"]


def test_weights_are_repeated_rows():
    """Evidence and estimates with whole weights on labelled rows; a weighted row without a label has no single latent."""
    weight = np.array([1, 2, 3, 1] * 3 + [1, 1])
    labels = tuple("abcabcabcabcab")
    model = build(table(labels))
    weighted = table(labels)._replace(weight=weight.astype(float))
    repeated = take(table(labels), np.repeat(np.arange(14), weight))
    pair = [fit(model, data, method="exact", num_samples=5).attrs["log_evidence"] for data in (weighted, repeated)]
    assert pair[0] == pytest.approx(pair[1], rel=1e-12)
    modes = [fit(model, data, method="em")["point_estimate"]["mean"].values for data in (weighted, repeated)]
    np.testing.assert_allclose(*modes, rtol=1e-10)
    partly = table()._replace(weight=weight.astype(float))
    for method in ("gibbs", "exact"):
        with pytest.raises(ZooError, match="row 7 of the data weighs 3"):
            fit(model, partly, method=method, **SHORT[method])


def test_labels_of_any_type():
    """Whole numbers, also with holes, and truth values: classes named as a reader writes them."""
    x = np.zeros((4, 1))
    assert load_data(x, labels=[0, 1, 2, 0]).levels == ("0", "1", "2")
    assert load_data(x, labels=[0, None, 10, 2]).levels == ("0", "2", "10")
    assert load_data(x, labels=[True, False, True, True]).levels == ("False", "True")
    assert load_data(x, labels=["a ", "a", "b", "a|b"]).levels == ("a", "b")
    order = pd.Categorical(["low", "high", "low", "low"], categories=["low", "high"], ordered=True)
    assert load_data(x, labels=order).levels == ("low", "high")


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


@pytest.mark.parametrize(("name", "options"), [("linear_discriminant", {}), ("logistic_regression", {})])
def test_discriminant_far_from_zero(name, options):
    """Columns 1e4 from 0: the log-odds in raw units still agree to 1e-8, which is 1e-16 × 1e4 × weights of size 1e3."""
    iris = load_data("iris")
    data = iris._replace(x=iris.x + 1e4)
    model = MODELS[name](data, **options)
    tree = fit(model, data, method="em", num_starts=1)
    found = discriminant(model, tree)
    odds = found["bias"].values[None] + data.x @ found["weight_x"].values.T
    probs = predict(model, tree, data)["probs"].values
    sound = (probs > 1e-200).all(1)
    logs = np.log(probs[sound])
    np.testing.assert_allclose(odds[sound], logs - logs[:, :1], atol=1e-8)


def test_columns_go_by_name():
    """New rows whose columns come in another order mean the same; a missing one is named."""
    iris = load_data("iris")
    model = build(iris)
    tree = fit(model, iris, method="em")
    turned = iris._replace(x=iris.x[:, ::-1], columns=iris.columns[::-1])
    np.testing.assert_array_equal(predict(model, tree, turned)["probs"], predict(model, tree, iris)["probs"])
    with pytest.raises(ZooError, match="has the columns"):
        predict(model, tree, load_data(iris, columns=list(iris.columns[:3])))


def test_scores_weigh_rows():
    """A row of weight two is two rows; the standard error of the log loss is that of a mean."""
    iris = load_data("iris")
    model = build(iris)
    tree = fit(model, iris, method="em")
    weight = np.arange(150) % 3
    weighted = score(model, tree, iris._replace(weight=weight.astype(float)))
    repeated = score(model, tree, take(iris, np.repeat(np.arange(150), weight)))
    for name in ("accuracy", "log_loss", "calibration_error"):
        assert float(weighted[name]) == pytest.approx(float(repeated[name]), rel=1e-12), name
    probs = predict(model, tree, iris)["probs"].values
    losses = -np.log(probs[np.arange(150), iris.labels])
    assert float(score(model, tree, iris)["log_loss_se"]) == pytest.approx(losses.std() / np.sqrt(150), rel=1e-12)
    with pytest.raises(ZooError, match="num_bins"):
        score(model, tree, iris, num_bins=0)
