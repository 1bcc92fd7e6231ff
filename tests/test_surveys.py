"""Surveys with holes: the generator's known truth, and a table of kinds on the command line."""

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from inference.assembly import data_of
from inference.config import compose, expand
from inference.results import load
from inference.shell import compare_main, guarded, run_main
from models import ZooError, load_data
from models.columns import as_typed, layout, typed
from models.data import split
from models.datasets import MARTIAN_COVARIANCES, MARTIAN_MEANS, SURVEY_LEVELS, SURVEY_MOONS, SURVEY_PROBS
from models.tables import to_frame

QUICK = ["model=gmm", "method=em", "num_starts=1", "model.covariance=diag", "progress=false"]


def test_survey_has_the_truth_that_it_states():
    """100,000 rows: 51 shares, means and variances; |z| < 4.5 has false alarms below 4e-4."""
    data = load_data("martians_survey", num_rows=100_000, missing=0.0)
    assert dict(zip(data.columns, data.categories, strict=True)) == {"weight": (), "height": (), **SURVEY_LEVELS, "moons": ()}
    for kind in range(3):
        rows = data.x[data.labels == kind]
        size = len(rows)
        assert (abs(rows[:, :2].mean(0) - MARTIAN_MEANS[kind]) < 4.5 * np.sqrt(np.diag(MARTIAN_COVARIANCES[kind]) / size)).all()
        for place, name in enumerate(SURVEY_LEVELS, 2):
            probs = SURVEY_PROBS[name][kind]
            assert probs.sum() == pytest.approx(1)
            shares = np.bincount(rows[:, place].astype(int), minlength=3) / size
            assert (abs(shares - probs) < 4.5 * np.sqrt(probs * (1 - probs) / size)).all()
        mean = SURVEY_MOONS[kind]
        assert abs(rows[:, 4].mean() - mean) < 4.5 * np.sqrt(mean / size)
        assert abs(rows[:, 4].var() - mean) < 4.5 * np.sqrt((mean + 2 * mean**2) / size)
        assert abs(np.corrcoef(rows[:, 0], rows[:, 4])[0, 1]) < 4.5 / np.sqrt(size)


def test_survey_of_independent_columns():
    """Given the kind weight and height have the document's means and variances, and no correlation: |z| < 4.5."""
    data = load_data("martians_survey", num_rows=50_000, missing=0.0, correlated=False)
    for kind in range(3):
        rows = data.x[data.labels == kind, :2]
        size, variance = len(rows), np.diag(MARTIAN_COVARIANCES[kind])
        assert (abs(rows.mean(0) - MARTIAN_MEANS[kind]) < 4.5 * np.sqrt(variance / size)).all()
        assert (abs(rows.var(0) - variance) < 4.5 * variance * np.sqrt(2 / size)).all()
        assert abs(np.corrcoef(rows.T)[0, 1]) < 4.5 / np.sqrt(size)


@pytest.mark.parametrize("mechanism", ["mcar", "mar"])
def test_holes(mechanism):
    """As many as asked for (|z| < 4.5), none in the label; under MAR none in the height that decides on the others."""
    options = {"num_rows": 20_000, "seed": 3}
    data = load_data("martians_survey", missing=0.2, mechanism=mechanism, **options)
    whole = load_data("martians_survey", missing=0.0, **options)
    holes = np.isnan(data.x)
    np.testing.assert_array_equal(data.x[~holes], whole.x[~holes])
    assert (data.labels >= 0).all()
    order = np.argsort(whole.x[:, 1])
    for place, column in enumerate(data.columns):
        share, error = holes[:, place].mean(), np.sqrt(0.16 / 20_000)
        if mechanism == "mar" and column == "height":
            assert share == 0
            continue
        assert abs(share - 0.2) < 4.5 * error
        short, tall = holes[order[:10_000], place].mean(), holes[order[10_000:], place].mean()
        assert abs(tall - short - (0.2 if mechanism == "mar" else 0)) < 4.5 * 2 * error
    np.testing.assert_array_equal(data.x, load_data("martians_survey", missing=0.2, mechanism=mechanism, **options).x)


def test_holes_that_cannot_be():
    for options in ({"missing": 1.5}, {"missing": -0.1}, {"missing": 0.6, "mechanism": "mar"}, {"mechanism": "mnar"}):
        with pytest.raises(ZooError, match=f"{[*options][-1]}="):
            load_data("martians_survey", **options)


def test_sex_is_a_category_of_diabetes():
    """Nine numbers as scikit-learn has them, and no label but where one asks for it."""
    from sklearn.datasets import load_diabetes

    data, theirs = load_data("diabetes"), load_diabetes(scaled=False)["data"]
    np.testing.assert_array_equal(np.delete(data.x, 1, axis=1), np.delete(theirs, 1, axis=1))
    assert [data.categories[1][int(code)] for code in data.x[:, 1]] == [f"{value:.0f}" for value in theirs[:, 1]]
    assert data.label is None
    labelled = load_data("diabetes", label="sex")
    assert labelled.x.shape == (442, 9)
    np.testing.assert_array_equal(labelled.labels, data.x[:, 1])
    assert set(labelled.kinds) == {"number"}
    with pytest.raises(ZooError, match="no label 'age'; it has no label"):
        load_data("diabetes", label="age")


def survey(tmp_path, **columns):
    """A CSV of numbers, with other columns beside them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size (cm)": rng.normal(size=50).round(3), "age": rng.integers(18, 80, 50)} | columns)
    frame.to_csv(tmp_path / "table.csv", index=False)
    return f"data={tmp_path}/table.csv"


def test_types_on_the_command_line(tmp_path, capsys):
    """For any name of a column; shown before the run, and written to its configuration and report."""
    table = survey(tmp_path, year=[2019, 2020] * 25, **{"who is=it?": ["a", "b"] * 25, "day": ["2020-01-01"] * 50})
    arguments = [*QUICK, table, "data.types.day=ignore", "data.types.who is=it?=label", f"out={tmp_path}/run"]
    assert guarded(run_main, [*arguments, "data.types.size (cm)=number"]) == 0
    shown = capsys.readouterr().err
    assert max(map(len, shown.splitlines())) <= 80
    rows = {line.split("  ")[0].strip(): line for line in shown.splitlines() if "  " in line}
    assert "by you" in rows["size (cm)"]
    assert "number" in rows["year"]
    assert "label" in rows["who is=it?"]
    assert "left out:" in rows["day"]
    config = OmegaConf.to_container(OmegaConf.load(tmp_path / "run" / "config.yaml"))
    assert config["data"]["types"] == {"day": "ignore", "who is=it?": "label", "size (cm)": "number"}
    assert load(tmp_path / "run")["observed_data"].attrs["label"] == "who is=it?"
    assert "left out: ignored" in (tmp_path / "run" / "report.html").read_text()


def test_a_table_full_of_holes_on_the_command_line(tmp_path, capsys):
    """Kinds for the model, the identifier left out and said to be, rows held out in the same codes; read back as it was."""
    frame = to_frame(load_data("martians_survey", num_rows=120)).drop(columns="kind")
    frame.insert(0, "id", np.random.default_rng(0).permutation(120))
    frame.to_csv(tmp_path / "survey.csv", index=False, na_rep="?")
    arguments = ["model=mixed_mixture", "method=em", f"data={tmp_path}/survey.csv", "data.test_fraction=0.25"]
    assert guarded(run_main, [*arguments, "progress=false", f"out={tmp_path}/run"]) == 0
    shown = capsys.readouterr().err
    assert "left out:" in next(line for line in shown.splitlines() if line.startswith("id "))
    tree = load(tmp_path / "run")
    data = data_of(tree)
    whole = load_data(str(tmp_path / "survey.csv"))
    train, _ = split(whole, 0.25, 0)
    assert dict(zip(data.columns, data.kinds, strict=True)) == {
        "weight": "number", "height": "number", "planet": "category", "diet": "category", "moons": "count",
    }  # fmt: skip
    pd.testing.assert_frame_equal(to_frame(data), to_frame(as_typed(train, layout(typed(whole)))))
    assert tree.attrs["held_out_rows"] == 30
    assert np.isfinite(tree.attrs["held_out_log_density"])


def test_types_are_swept_over_and_kept_from_other_data():
    both = expand(["-m", "data=table.csv", "data.types.a b=number,count"][1:], sweep=True)
    assert [compose(one)["data"]["types"] for one in both] == [{"a b": "number"}, {"a b": "count"}]
    said = compose(expand(["data=table.csv", "data.types={year: category}", "data.types.age=count"], sweep=False)[0])
    assert said["data"]["types"] == {"year": "category", "age": "count"}
    spelled = compose(expand(["data=table.csv", "data.missing=[?,-99,n.a.]", "data.decimal=comma"], sweep=False)[0])
    assert spelled["data"]["missing"] == ["?", -99, "n.a."]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data.types.year=float"], ["'float'", "'year'", "number, count, category"]),
        (["data.types.yaer=count"], ["table.csv", "'yaer'", "size (cm), age, year"]),
        (["data.types.year=category"], ["table.csv", "'year'", "holds categories (2019, 2020)"]),
        (["data.types.year=count,number"], ["several values", "-m"]),
        (["data.types.year"], ["data.types.<column>=<kind>"]),
        (["data.decimal=dot"], ["decimal='dot'", "comma"]),
        (["data=python_lines", "data.types.year=count"], ["data.types", "data=python_lines"]),
        (["data=iris", "data.missing=[?]"], ["data.missing", "data=iris"]),
        (["data=martians_survey"], ["martians_survey", "'planet'", "data.columns"]),
        (["data=diabetes"], ["diabetes", "'sex'", "data.label"]),
    ],
)
def test_slips_with_types(tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    table = survey(tmp_path, year=[2019, 2020] * 25)
    assert guarded(run_main, [*QUICK, *([] if arguments[0].startswith("data=") else [table]), *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1
    assert all(word in message for word in words), message
    assert not (tmp_path / "runs").exists()


def test_columns_are_shown_once_for_several_runs(tmp_path, capsys):
    table = survey(tmp_path)
    options = [*(option for option in QUICK if not option.startswith("method")), table, "method=em,map", f"out={tmp_path}/out"]
    assert guarded(compare_main, options) == 0
    assert capsys.readouterr().err.replace("\n", "").count("table.csv: 50 rows") == 1  # a long path is folded
    assert guarded(run_main, ["-m", *QUICK, table, "model.num_components=1,2", f"out={tmp_path}/sweep"]) == 0
    assert capsys.readouterr().err.replace("\n", "").count("table.csv: 50 rows") == 1  # a long path is folded
