"""What is asked of a classifier: predictions of new rows, scores of held-out ones, the discriminant in raw columns."""

import numpy as np
import pytest
from naive_discriminant import X, build, fitted, table
from sklearn.metrics import accuracy_score, log_loss

from inference import discriminant, fit, predict, score
from inference.cli.main import run_main
from inference.predictions.score import calibration, mean_and_error
from inference.results import load
from models import MODELS, Data, ZooError, load_data
from models.data import split, take


@pytest.mark.slow
def test_prediction_forgets_the_labels_of_new_rows():
    """p(class | x): the same with right labels, wrong ones and none."""
    model, tree = build(), fitted("gibbs")
    bare = predict(model, tree, Data("new", X, table().columns))
    np.testing.assert_array_equal(predict(model, tree, table())["probs"], bare["probs"])
    assert list(bare["class"].values) == ["a", "b", "c"]


def test_columns_go_by_name():
    """New rows whose columns come in another order mean the same; a missing one is named."""
    iris = load_data("iris")
    model = build(iris)
    tree = fit(model, iris, method="em")
    turned = iris._replace(x=iris.x[:, ::-1], columns=iris.columns[::-1])
    np.testing.assert_array_equal(predict(model, tree, turned)["probs"], predict(model, tree, iris)["probs"])
    with pytest.raises(ZooError, match="has the columns"):
        predict(model, tree, load_data(iris, columns=list(iris.columns[:3])))


@pytest.mark.slow
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


@pytest.mark.slow
def test_held_out_rows(tmp_path, capsys):
    """A quarter of the irises: in the report and in the result; the fit does not see them, and the figures are `score`'s."""
    arguments = [
        "model=linear_discriminant",
        "method=em",
        "data=iris",
        "data.test_fraction=0.25",
        "progress=false",
        "pictures=false",
        "seed=3",
    ]
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


@pytest.mark.slow
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


def test_errors_of_calibration_do_not_cancel():
    """One bin that is too sure, one that is not sure enough, two empty ones; a row of weight 2 is two rows."""
    confidence, hit = np.array([0.6, 0.6, 0.9, 0.9]), np.array([True, True, True, False])
    found = calibration(confidence, hit, np.array([1.0, 2.0, 1.0, 1.0]), 4)
    np.testing.assert_allclose(found.confidence, [np.nan, np.nan, 0.6, 0.9])
    np.testing.assert_allclose(found.hit_rate, [np.nan, np.nan, 1.0, 0.5])
    np.testing.assert_array_equal(found.weight, [0, 0, 3, 2])
    assert found.error == pytest.approx((3 * 0.4 + 2 * 0.4) / 5)


def test_the_error_of_a_weighted_mean():
    """√(Σ w² (v − v̄)²) / Σ w, and that of the sums of groups where only groups are independent."""
    value, weight, group = np.array([1.0, 2.0, 4.0, 7.0]), np.array([1.0, 3.0, 2.0, 0.5]), np.array([0, 0, 1, 1])
    mean = (weight * value).sum() / weight.sum()
    away = weight * (value - mean)
    assert mean_and_error(value, weight) == pytest.approx((mean, np.sqrt((away**2).sum()) / weight.sum()))
    sums = np.array([away[:2].sum(), away[2:].sum()])
    assert mean_and_error(value, weight, group) == pytest.approx((mean, np.sqrt((sums**2).sum()) / weight.sum()))
