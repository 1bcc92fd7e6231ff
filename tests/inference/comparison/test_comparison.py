"""Results side by side: which of their figures compare."""

from functools import cache

import numpy as np
import numpyro
import pandas as pd
import pytest
import xarray as xr
from numpyro import distributions as dist
from rich.console import Console

from inference import compare, fit, predict
from inference.cli.comparing import print_comparison
from inference.cli.main import compare_main
from inference.cli.runs.held_out import held_out_rows
from inference.comparison.criteria import best_sizes
from inference.comparison.table import Comparison, Score, below_the_best
from inference.results import load
from models import MODELS, Data, Model, ZooError, load_data
from models.data import take
from models.data.documents import documents

LABELS = list("abc" * 8)
X = np.random.default_rng(0).integers(0, 2, (24, 3))


@cache
def table() -> Data:
    return load_data(X + 0.1 * np.random.default_rng(1).normal(size=X.shape), labels=LABELS)


@cache
def fitted(name: str, **options: str) -> xr.DataTree:
    return fit(MODELS[name](table(), **options), table(), method="em", num_starts=1)


def gaussian_bayes() -> xr.DataTree:
    return fitted("naive_bayes", emission="gaussian")


@pytest.mark.parametrize(
    ("make", "explained"),
    [
        (lambda: MODELS["gmm"](table()), "numbers: x0, x1, x2"),
        (lambda: MODELS["mixed_mixture"](table()), "numbers: x0, x1, x2"),
        (lambda: MODELS["linear_discriminant"](table()), "numbers: x0, x1, x2; class"),
        (lambda: MODELS["linear_discriminant"](table()._replace(labels=None), num_classes=2), "numbers: x0, x1, x2"),
        (lambda: MODELS["logistic_regression"](table()), "class given columns"),
        (lambda: MODELS["naive_bayes"](table(), emission="gaussian"), "numbers: x0, x1, x2; class"),
        (lambda: MODELS["naive_bayes"](load_data(X, labels=LABELS)), "binary columns: x0, x1, x2; class"),
        (
            lambda: MODELS["markov_naive_bayes"](load_data(X, labels=LABELS), homogeneous=False),
            "binary columns: x0, x1, x2; class",
        ),
        (lambda: MODELS["naive_bayes"](load_data(X, labels=LABELS), emission="poisson"), "counts: x0, x1, x2; class"),
        (lambda: MODELS["naive_bayes"](load_data(X, labels=LABELS), emission="categorical"), "categories: x0, x1, x2; class"),
        (lambda: MODELS["naive_bayes"](words(), emission="multinomial"), "counts given their sum: a, b; class"),
        (lambda: MODELS["markov_naive_bayes"](words()), "sequences given their lengths: a, b; class"),
    ],
)
def test_models_say_what_they_explain(make, explained):
    model: Model = make()
    assert model.naming.density_of == explained


def words() -> Data:
    return load_data(documents([["a", "b"], ["b"]]), labels=["x", "y"])


def test_a_difference_of_elpd_is_known_better_than_its_terms():
    """Rows that are hard for both models: the error is that of the differences, row by row."""
    rng = np.random.default_rng(0)
    hard = rng.normal(size=200)
    rows = {"best": hard, "near": hard - 0.1 + 0.01 * rng.normal(size=200)}
    found = below_the_best({name: Score(each.sum(), rows=each) for name, each in rows.items()} | {"em": Score()})
    off = rows["near"] - rows["best"]
    assert found["near"]["elpd diff"] == pytest.approx(rows["near"].sum() - rows["best"].sum())
    assert found["near"]["elpd diff se"] == pytest.approx(np.sqrt(200) * off.std(ddof=1))
    assert (found["best"]["elpd diff"], np.isnan(found["best"]["elpd diff se"]), "em" in found) == (0, True, False)
    assert not below_the_best({"one": Score(rows=hard), "other": Score(rows=hard[1:])})


@pytest.mark.slow
def test_elpd_and_evidence_of_two_models_of_one_thing_compare(capsys):
    """Both are densities of columns and class: no warning about that, and no distances between two posteriors."""
    assert fitted("linear_discriminant").attrs["density_of"] == "numbers: x0, x1, x2; class"
    found = compare({"linear": fitted("linear_discriminant"), "naive": gaussian_bayes()})
    assert found.comparable
    assert not found.one_model
    assert found.reference is None
    elpd = found.table["elpd"]
    np.testing.assert_allclose(found.table["elpd diff"], elpd - elpd.max())
    print_comparison(found, Console(width=80))
    printed = capsys.readouterr().out
    assert "explain the same data" in printed
    assert "compare within" not in printed
    assert not compare({"linear": fitted("linear_discriminant"), "logistic": fitted("logistic_regression")}).comparable


# ---------------------------------------------------------------------------------------------------------------------
# Rows held out


IRIS = load_data("iris")
ORDER = np.random.default_rng(0).permutation(150)
TRAIN = take(IRIS, ORDER[:100])
MADE = {"linear_discriminant": {}, "logistic_regression": {}, "naive_bayes": {"emission": "gaussian"}}


def rows_held_out(weighted: bool) -> Data:
    """Fifty irises, three of them without a label; weights of 0, 1 and 2."""
    rows = take(IRIS, ORDER[100:])
    rows = rows._replace(labels=np.where(np.arange(50) % 17 == 3, -1, rows.labels))
    return rows._replace(weight=np.arange(50) % 3 / 1.0) if weighted else rows


@cache
def iris_fit(name: str) -> tuple[Model, xr.DataTree]:
    model = MODELS[name](TRAIN, **MADE[name])
    return model, fit(model, TRAIN, method="em", num_starts=1)


def scored(name: str, rows: Data) -> xr.DataTree:
    """As the command line leaves it."""
    model, tree = iris_fit(name)
    tree = tree.copy()
    tree["held_out"], figures = held_out_rows(model, tree, rows)
    tree.attrs |= figures
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_differences_are_of_the_same_rows(weighted):
    """Labelled rows one by one from `predict`: weighted mean and standard error of the difference to the smallest log loss."""
    rows = rows_held_out(weighted)
    found = compare({name: scored(name, rows) for name in MADE}).table
    known = np.flatnonzero(rows.labels >= 0)
    weight = np.ones(len(known)) if rows.weight is None else rows.weight[known]
    losses = {name: -np.log(predict(*iris_fit(name), rows)["probs"].values[known, rows.labels[known]]) for name in MADE}
    best = min(losses, key=lambda name: np.average(losses[name], weights=weight))
    for name, loss in losses.items():
        assert found["log loss"][name] == pytest.approx(np.average(loss, weights=weight), rel=1e-10)
        gap = loss - losses[best]
        mean = (weight * gap).sum() / weight.sum()
        error = np.sqrt((weight**2 * (gap - mean) ** 2).sum()) / weight.sum()
        assert found["log loss diff"][name] == pytest.approx(mean, rel=1e-8)
        assert found["diff se"][name] == pytest.approx(np.nan if name == best else error, rel=1e-8, nan_ok=True)
    assert (found["log loss diff"] >= 0).all()


def without_group(tree: xr.DataTree) -> xr.DataTree:
    old = tree.copy()
    del old["held_out"]
    return old


@pytest.mark.slow
def test_no_differences_between_different_rows(capsys):
    """Other rows, other weights, or rows that were not stored: a dash, and a line that says why."""
    rows = rows_held_out(False)
    other = [
        scored("naive_bayes", take(rows, np.arange(50)[::-1])),
        scored("naive_bayes", rows_held_out(True)),
        without_group(scored("naive_bayes", rows)),
    ]
    for tree in other:
        found = compare({"linear": scored("linear_discriminant", rows), "naive": tree})
        assert found.table["log loss"].notna().all()
        assert found.table[["log loss diff", "diff se"]].isna().all(axis=None)
        print_comparison(found, Console(width=80))
        assert "these results do not hold out the same rows" in capsys.readouterr().out
    assert "held_out" not in iris_fit("naive_bayes")[1]


@pytest.mark.slow
def test_impossible_rows_have_an_infinite_difference():
    """A probability of 0 for what was seen: ∞ behind the best, and no standard error."""
    rows = rows_held_out(False)
    impossible = scored("naive_bayes", rows)
    impossible["held_out"]["loss"][0] = np.inf
    found = compare({"linear": scored("linear_discriminant", rows), "naive": impossible}).table
    assert found["log loss diff"]["naive"] == np.inf
    assert np.isnan(found["diff se"]["naive"])


@pytest.mark.slow
def test_command_line_keeps_rows_held_out(tmp_path, capsys):
    """Documents: the group survives the disk, its means are the figures, and the table is 80 columns wide."""
    arguments = ["model=naive_bayes,markov_naive_bayes", "model.emission=multinomial", "method=em", "data=python_lines"]
    options = ["data.num_rows=120", "data.test_fraction=0.25", "progress=false", "pictures=false", f"out={tmp_path / 'out'}"]
    assert compare_main([*arguments, *options]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 80
    table = pd.read_csv(tmp_path / "out" / "comparison.csv", index_col="result")
    groups = {}
    for name in table.index:
        tree = load(tmp_path / "out" / name)
        groups[name] = tree["held_out"].to_dataset()
        assert groups[name].sizes["row"] == tree.attrs["held_out_rows"] == 30
        assert float(groups[name]["loss"].mean()) == pytest.approx(tree.attrs["held_out_log_loss"], rel=1e-12)
        assert float(groups[name]["hit"].mean()) == pytest.approx(tree.attrs["held_out_accuracy"], rel=1e-12)
        assert float(groups[name]["log_density"].mean()) == pytest.approx(tree.attrs["held_out_log_density"], rel=1e-12)
    left, right = (groups[name]["loss"] for name in table.index)
    assert table["log loss diff"].max() == pytest.approx(abs(float((left - right).mean())), rel=1e-9)
    assert table["diff se"].max() == pytest.approx(float((left - right).std()) / np.sqrt(30), rel=1e-9)


@pytest.mark.slow
def test_log_joints_under_other_priors_do_not_compare():
    """They are of other densities; what a model explains is the same."""
    corpus = documents([["a", "b"], ["b"]])
    trees = {
        str(each): fit(MODELS["latent_dirichlet"](corpus, num_topics=2, topic_concentration=each), corpus, "em", num_starts=1)
        for each in (1.5, 2.0)
    }
    found = compare(trees)
    assert found.comparable
    assert not found.one_model
    assert compare({"one": trees["2.0"], "again": trees["2.0"]}).one_model


def spread_about_zero(scale, y):
    """A user's program: the constant ``scale`` is not observed and sets the prior."""
    centre = numpyro.sample("centre", dist.Normal(0.0, scale))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(centre, 1.0), obs=y)


def test_log_joints_of_programs_with_other_constants_do_not_compare():
    """A program says not which of its constants are hyperparameters: all must agree."""
    trees = {str(scale): fit(spread_about_zero, (scale, X[:, 0]), "map", num_starts=1, max_iter=50) for scale in (1.0, 2.0)}
    assert not compare(trees).one_model
    assert compare({"one": trees["2.0"], "again": trees["2.0"]}).one_model
    with pytest.raises(ZooError, match="point estimate without a posterior sd"):
        compare({"one": trees["2.0"]}, reference="one")


def test_a_comparison_is_shown_in_80_columns():
    """However many figures there are, and however long the notes: every figure is shown."""
    columns = [f"a long figure {number}" for number in range(14)]
    table = pd.DataFrame(np.arange(28.0).reshape(2, 14), index=["gibbs", "nuts"], columns=columns)
    text = repr(Comparison(table, pd.DataFrame(), None, True, True, ("a note of many words " * 10,)))
    assert max(map(len, text.splitlines())) <= 80
    assert all(column in text for column in columns)
    assert text.count("note") == 10


@pytest.mark.slow
def test_log_k_is_added_to_the_bound():
    """In the table over numbers of components, beside the bound of one labelling."""
    data = load_data(np.random.default_rng(1).normal(size=(20, 2)))
    small = {"num_samples": 5, "num_chains": 1, "num_starts": 2, "max_iter": 20}
    trees = {str(k): fit(MODELS["gmm"](data, num_components=k, covariance="diag"), data, "cavi", **small) for k in (2, 3)}
    table = compare(trees).table
    np.testing.assert_allclose(table["ELBO + log K!"] - table["ELBO"], np.log([2, 6]), rtol=1e-12)
    assert any(line.startswith("ELBO + log K!") for line in best_sizes(table))
