"""What a finished run says of new rows, from the shell: the numbers of Python, whatever the blocks; or nothing at all."""

import inspect
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference import impute, log_likelihood, predict
from inference.cli.main import guarded, predict_main, report_main, run_main
from inference.cli.predicting import NUM_DRAWS, with_kept_columns
from inference.cli.runs.execute import all_rows
from inference.cli.runs.fitted_run import finished_config, fitted_run
from inference.predictions.predict import without_cells
from inference.results import load
from inference.results.table import data_of
from inference.results.triangles import sites_of
from inference.runtime.files import intact, is_complete
from inference.sequences.states import VIEW
from models import MODELS, ZooError, load_data
from models.data.table import chosen_at_random
from models.reading.readers import to_frame

GIVEN = ["method=em", "num_starts=1", "progress=false", "pictures=false"]
MODEL = ["model=mixed_mixture", "model.num_components=2", "data.test_fraction=0.2", "impute=true"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of a table with numbers, categories, counts and holes, and a table of new rows beside it."""
    place = tmp_path_factory.mktemp("predict")
    survey = to_frame(load_data("martians_survey", num_rows=60, seed=1)).drop(columns="kind")
    survey.to_csv(place / "table.csv", index=False)
    new = to_frame(load_data("martians_survey", num_rows=40, seed=2)).drop(columns="kind")
    new[["diet", "moons", "weight", "planet", "height"]].assign(note="x").to_csv(place / "new.csv", index=False)
    assert guarded(run_main, [*GIVEN, *MODEL, f"data={place}/table.csv", f"out={place}/mine"]) == 0
    assert predicted(place) == 0
    return place


def predicted(place, *more, data="new.csv", out="scored.csv", name="mine"):
    return guarded(predict_main, [f"run={place / name}", f"data={place / data}", f"out={place / out}", *more])


@pytest.mark.slow
def test_the_numbers_are_those_of_python(run):
    lines, cells = pd.read_csv(run / "scored.csv"), pd.read_csv(run / "scored.imputed.csv")
    tree, new = load(run / "mine"), str(run / "new.csv")
    model = MODELS["mixed_mixture"](data_of(tree), num_components=2)
    found = predict(model, tree, new)
    np.testing.assert_allclose(lines[["probs[0]", "probs[1]"]], found["probs"], rtol=1e-5)
    np.testing.assert_array_equal(lines["assignment"], found["assignment"])
    np.testing.assert_array_equal(lines["row"], np.arange(1, 41))
    sites = sites_of(tree, "point_estimate")
    np.testing.assert_allclose(lines["log_density"], log_likelihood(model, sites, model.read(new)), rtol=1e-5)
    imputed = impute(model, tree, new)
    np.testing.assert_array_equal(cells["row"], imputed["cell_row"] + 1)
    np.testing.assert_array_equal(cells["column"], imputed["cell_column"])
    for (_, cell), n in zip(cells.iterrows(), range(len(cells)), strict=True):
        level = str(imputed["imputed_level"].values[n])
        assert cell["imputed"] == level or np.isclose(float(cell["imputed"]), _best(imputed, n), rtol=1e-5)
        low, high = np.quantile(imputed["imputed"].values[:, n], (0.055, 0.945))
        assert np.isnan(cell["sd"]) if level else np.allclose([cell["eti89_lb"], cell["eti89_ub"]], [low, high])
    assert len(cells) > 10


def _best(imputed, n):
    mode = float(imputed["imputed_mode"][n])
    return float(imputed["imputed_mean"][n]) if np.isnan(mode) else mode


@pytest.mark.slow
def test_blocks_do_not_matter(run):
    assert predicted(run, "block=20", out="parts.csv") == 0
    for kind in ("", ".imputed"):
        whole, parts = (pd.read_csv(run / f"{name}{kind}.csv") for name in ("scored", "parts"))
        pd.testing.assert_frame_equal(whole, parts, rtol=1e-5)


@pytest.mark.slow
def test_an_unknown_level_is_read_as_the_run_was_told(run, capsys):
    """An error that names `unseen=missing`; of a run with it a missing cell, which is imputed."""
    frame = pd.read_csv(run / "new.csv")
    frame.loc[3, "planet"] = "Pluto"
    frame.to_csv(run / "pluto.csv", index=False)
    assert predicted(run, data="pluto.csv", out="pluto_scored.csv") == 2
    assert "or fit with model.unseen=missing" in capsys.readouterr().err
    arguments = [*GIVEN, *MODEL, "model.unseen=missing", f"data={run}/table.csv", f"out={run}/told"]
    assert guarded(run_main, arguments) == 0
    assert predicted(run, "block=7", data="pluto.csv", out="pluto_scored.csv", name="told") == 0
    cells = pd.read_csv(run / "pluto_scored.imputed.csv")
    assert ((cells["row"] == 4) & (cells["column"] == "planet")).sum() == 1


@pytest.mark.slow
def test_columns_of_the_new_table_stand_beside_their_rows(run):
    """In every block, and nothing else changes."""
    assert predicted(run, "block=7", "data.keep=[note,planet]", out="kept.csv") == 0
    found, plain = pd.read_csv(run / "kept.csv"), pd.read_csv(run / "scored.csv")
    new = pd.read_csv(run / "new.csv")
    assert found.columns.tolist()[:3] == ["row", "note", "planet"]
    pd.testing.assert_series_equal(found["planet"], new["planet"])
    pd.testing.assert_frame_equal(found.drop(columns=["note", "planet"]), plain, rtol=1e-5)


@pytest.mark.parametrize("name", ["row", "log_density"])
def test_a_kept_column_has_a_name_of_its_own(name):
    with pytest.raises(ZooError, match=f"already have a column '{name}'"):
        with_kept_columns(pd.DataFrame({"row": [1], "log_density": [0.5]}), {name: ["x"]})


@pytest.mark.slow
def test_a_run_is_built_again_as_it_was(run):
    found = fitted_run(run / "mine")
    fitted = all_rows(finished_config(run / "mine")[0])[1]
    built = MODELS["mixed_mixture"](fitted, num_components=2)
    for name, value in built.hyper.items():
        np.testing.assert_allclose(found.model.hyper[name], value, rtol=1e-12)
    np.testing.assert_array_equal(found.observed.x, built.read(fitted).x)
    assert found.observed.categories == data_of(load(run / "mine")).categories


@pytest.mark.slow
def test_the_report_is_made_again(run, tmp_path, capsys):
    """Byte by byte, from the result alone; an edited table is written again, and pictures come and go."""
    shutil.copytree(run / "mine", tmp_path / "mine")
    before = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    for name in ("report.html", "assignments.csv", "summary.csv"):
        (tmp_path / "mine" / name).unlink()
    assert guarded(report_main, [f"run={tmp_path / 'mine'}"]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before
    assert guarded(report_main, [f"run={tmp_path / 'mine'}", "pictures=true"]) == 0
    assert "profile.svg" in capsys.readouterr().out
    assert is_complete(tmp_path / "mine", "profile.svg", "results.nc", "imputed.csv", "report.html")
    assert (tmp_path / "mine" / "report.html").read_bytes() != before["report.html"]


@pytest.mark.slow
def test_a_report_declares_nothing_whole_that_was_changed(run, tmp_path, capsys):
    """What it makes again is as it was; what it cannot make is named, and no longer listed."""
    shutil.copytree(run / "mine", tmp_path / "run")
    before = (tmp_path / "run" / "summary.csv").read_bytes()
    for name in ("summary.csv", "environment.json", "imputed.csv"):
        (tmp_path / "run" / name).write_text((tmp_path / "run" / name).read_text() + " ")
    assert guarded(report_main, [f"run={tmp_path / 'run'}"]) == 0
    said = capsys.readouterr().err
    assert "summary.csv is not as its run wrote it: it is written anew" in said
    assert "imputed.csv is not as its run wrote it: manifest.json no longer names it" in said
    assert "environment.json is not as its run wrote it: manifest.json no longer names it" in said
    assert (tmp_path / "run" / "summary.csv").read_bytes() == before
    assert is_complete(tmp_path / "run", "results.nc", "config.yaml", "summary.csv")
    assert not {"environment.json", "imputed.csv"} & intact(tmp_path / "run")


@pytest.mark.slow
def test_assignments_are_the_result(run):
    latent, found = load(run / "mine")["latent"], pd.read_csv(run / "mine" / "assignments.csv")
    np.testing.assert_array_equal(found["assignment"], latent["decode"])
    np.testing.assert_allclose(found["probability"], latent["responsibilities"].values.max(1), rtol=1e-5)
    kept = chosen_at_random(60, 12, 0)  # the rows held out
    np.testing.assert_array_equal(found["row"], 1 + np.flatnonzero(~kept))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "run= is missing"),
        (["run=a", "run=b"], "run= is given twice"),
        (["run=a", "out=b"], "'out=b' is no argument"),
        (["run=a"], "there is no such folder"),
    ],
)
def test_reports_are_of_runs(tmp_path, monkeypatch, capsys, given, words):
    monkeypatch.chdir(tmp_path)
    assert guarded(report_main, given) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        (lambda new: new.drop(columns="diet"), (), "has no column 'diet'"),
        (lambda new: new.assign(planet="Pluto"), (), "'Pluto' is a level unknown to the model"),
        (lambda new: new.assign(planet=[*new["planet"][:30], *["Pluto"] * 10]), ("block=20",), "counted from row 21"),
        (lambda new: new, ("data.label=diet",), "data.label is of the run"),
        (lambda new: new, ("data.separator=semicolon",), "several columns, use data.separator=comma"),
        (lambda new: new, ("block=none",), "block must be a whole number"),
        (lambda new: new, ("method=em",), "is no argument of this command"),
    ],
)
def test_mistakes_leave_no_file(run, tmp_path, capsys, change, more, words):
    change(pd.read_csv(run / "new.csv")).to_csv(tmp_path / "new.csv", index=False)
    assert guarded(predict_main, [f"run={run}/mine", f"data={tmp_path}/new.csv", f"out={tmp_path}/scored.csv", *more]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["data=new.csv", "out=scored.csv"], "run= is missing"),
        (["run=a", "run=b", "data=new.csv", "out=scored.csv"], "run= is given twice"),
        (["run=nowhere", "data=new.csv", "out=scored.csv"], "there is no such folder"),
        (["run=nowhere", "data=new.csv", "out=scored.nc"], "ends in .csv"),
        (["run=nowhere", "data=new.csv", "out=no/scored.csv"], "there is no folder no"),
        (["run=nowhere", "data=new.csv", "out=new.csv", "overwrite=true"], "would overwrite the table that is read"),
        (["run=nowhere", "data=new.csv", "out=old.csv"], "there is a old.csv already"),
        (["run=.", "data=new.csv", "out=scored.csv"], "no results.nc there"),
    ],
)
def test_arguments_are_checked_first(tmp_path, monkeypatch, capsys, given, words):
    monkeypatch.chdir(tmp_path)
    for name in ("new.csv", "old.csv"):
        (tmp_path / name).write_text("x\n1\n")
    assert guarded(predict_main, given) == 2
    assert words in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "old.csv"]


def test_as_many_draws_as_in_python():
    """`NUM_DRAWS` is written down where no JAX is loaded."""
    assert all(inspect.signature(call).parameters["num_draws"].default == NUM_DRAWS for call in (impute, without_cells))


def test_a_program_predicts_from_python(tmp_path, monkeypatch, capsys):
    """Nothing is read of it but its configuration."""
    monkeypatch.setattr("inference.cli.predicting.finished_config", lambda folder: ({"model": {"name": "program"}}, None))
    assert predicted(tmp_path) == 2
    assert "is a run of your own program, which predicts from Python" in capsys.readouterr().err


def test_sequences_are_told_step_by_step():
    probs = np.full((2, 3, 2), np.nan)
    probs[0, :2], probs[1] = [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7], [1.0, 0.0]]
    there = np.isfinite(probs[..., 0])
    states = np.where(there, probs[..., 1] > 0.5, -1)
    values = {"assignment": states, "viterbi": np.where(there, 0, -1), "step_log_density": np.where(there, -1.5, np.nan)}
    found = xr.Dataset(
        {name: (("row", "time"), value) for name, value in values.items()}
        | {"probs": (("row", "time", "state"), probs)}
        | {name: ("row", [-3.0, -4.5]) for name in ("log_density", "viterbi_log_prob")},
        coords={"state": ["rain", "sun"]},
    )
    lines = VIEW.lines(found, 5)
    assert lines["sequence"].tolist() == [6, 6, 7, 7, 7]
    assert lines["step"].tolist() == [1, 2, 1, 2, 3]
    assert lines["assignment"].tolist() == ["rain", "sun", "rain", "sun", "rain"]
    assert set(lines["viterbi"]) == {"rain"}
    np.testing.assert_array_equal(lines[["probs[rain]", "probs[sun]"]], probs[there])
    np.testing.assert_array_equal(lines["probability"], probs[there].max(1))
    assert lines["log_density"].tolist() == [-3.0] * 2 + [-4.5] * 3
