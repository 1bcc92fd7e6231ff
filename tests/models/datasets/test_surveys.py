"""Surveys with holes: the generator's known truth, and a table of kinds on the command line."""

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from two_stage import assert_standard_normal, of_counts

from inference.cli.main import compare_main, guarded, run_main
from inference.cli.runs.config import compose, expand
from inference.results import load
from inference.results.table import data_of
from models import ZooError, load_data
from models.data import split
from models.data.columns import as_typed, layout, typed
from models.datasets.tables import MARTIAN_COVARIANCES, MARTIAN_MEANS, SURVEY_LEVELS, SURVEY_MOONS, SURVEY_PROBS
from models.reading.readers import to_frame

QUICK = ["model=gmm", "method=em", "num_starts=1", "model.covariance=diag", "progress=false", "pictures=false"]


def test_survey_has_the_truth_that_it_states():
    """Shares, means and variances of every kind of Martian."""

    def deviations(seed, times):
        data = load_data("martians_survey", num_rows=60_000 * times, missing=0.0, seed=seed)
        categories = {"weight": (), "height": (), **SURVEY_LEVELS, "moons": ()}
        assert dict(zip(data.columns, data.categories, strict=True)) == categories
        found = []
        for kind in range(3):
            rows = data.x[data.labels == kind]
            size, mean = len(rows), SURVEY_MOONS[kind]
            error = np.sqrt(np.diag(MARTIAN_COVARIANCES[kind]) / size)
            found += list((rows[:, :2].mean(0) - MARTIAN_MEANS[kind]) / error)
            for place, name in enumerate(SURVEY_LEVELS, 2):
                probs = SURVEY_PROBS[name][kind]
                assert probs.sum() == pytest.approx(1)
                counts = np.bincount(rows[:, place].astype(int), minlength=len(probs))
                found += list(of_counts(counts, size, probs))
            found.append((rows[:, 4].mean() - mean) / np.sqrt(mean / size))
            found.append((rows[:, 4].var() - mean) / np.sqrt((mean + 2 * mean**2) / size))
            found.append(np.corrcoef(rows[:, 0], rows[:, 4])[0, 1] * np.sqrt(size))
        return found

    assert_standard_normal(deviations)


def test_survey_of_independent_columns():
    """Given the kind weight and height have the document's means and variances, and no correlation."""

    def deviations(seed, times):
        data = load_data("martians_survey", num_rows=30_000 * times, missing=0.0, correlated=False, seed=seed)
        found = []
        for kind in range(3):
            rows = data.x[data.labels == kind, :2]
            size, variance = len(rows), np.diag(MARTIAN_COVARIANCES[kind])
            found += list((rows.mean(0) - MARTIAN_MEANS[kind]) / np.sqrt(variance / size))
            found += list((rows.var(0) / variance - 1) / np.sqrt(2 / size))
            found.append(np.corrcoef(rows.T)[0, 1] * np.sqrt(size))
        return found

    assert_standard_normal(deviations)


@pytest.mark.parametrize("mechanism", ["mcar", "mar"])
def test_holes(mechanism):
    """As many as asked for, none in the label; under MAR none in the height that decides on the others."""

    def deviations(seed, times):
        size, options = 20_000 * times, {"num_rows": 20_000 * times, "seed": seed}
        data = load_data("martians_survey", missing=0.2, mechanism=mechanism, **options)
        np.testing.assert_array_equal(data.x, load_data("martians_survey", missing=0.2, mechanism=mechanism, **options).x)
        whole = load_data("martians_survey", missing=0.0, **options)
        holes = np.isnan(data.x)
        np.testing.assert_array_equal(data.x[~holes], whole.x[~holes])
        assert (data.labels >= 0).all()
        order, found = np.argsort(whole.x[:, 1]), []
        for place, column in enumerate(data.columns):
            if mechanism == "mar" and column == "height":
                assert not holes[:, place].any()
                continue
            error = np.sqrt(0.16 / size)
            short, tall = holes[order[: size // 2], place].mean(), holes[order[size // 2 :], place].mean()
            found.append((holes[:, place].mean() - 0.2) / error)
            found.append((tall - short - (0.2 if mechanism == "mar" else 0)) / (2 * error))
        return found

    assert_standard_normal(deviations, 3)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_table_full_of_holes_on_the_command_line(tmp_path, capsys):
    """Kinds for the model, the identifier left out and said to be, rows held out in the same codes; read back as it was."""
    frame = to_frame(load_data("martians_survey", num_rows=120)).drop(columns="kind")
    frame.insert(0, "id", np.random.default_rng(0).permutation(120))
    frame.to_csv(tmp_path / "survey.csv", index=False, na_rep="?")
    arguments = ["model=mixed_mixture", "method=em", f"data={tmp_path}/survey.csv", "data.test_fraction=0.25"]
    assert guarded(run_main, [*arguments, "progress=false", "pictures=false", f"out={tmp_path}/run"]) == 0
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


@pytest.mark.slow
def test_columns_are_shown_once_for_several_runs(tmp_path, capsys):
    table = survey(tmp_path)
    options = [*(option for option in QUICK if not option.startswith("method")), table, "method=em,map", f"out={tmp_path}/out"]
    assert guarded(compare_main, options) == 0
    assert capsys.readouterr().err.replace("\n", "").count("table.csv: 50 rows") == 1  # a long path is folded
    assert guarded(run_main, ["-m", *QUICK, table, "model.num_components=1,2", f"out={tmp_path}/sweep"]) == 0
    assert capsys.readouterr().err.replace("\n", "").count("table.csv: 50 rows") == 1  # a long path is folded
