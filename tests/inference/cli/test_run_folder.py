"""Run folders: gone on with at every stage, by the program of the run alone; faults of ours are one line and a log."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from omegaconf import OmegaConf
from quick_runs import QUICK, stopping

from inference.cli.main import compare_main, guarded, run_main
from inference.cli.runs.config import compose
from inference.cli.runs.run_folder import locked_folder
from inference.cli.runs.stored_run import finished_result, is_unfinished, resumed
from inference.results import load, save
from inference.results.tree import SCHEMA
from inference.runtime import checkpoints
from inference.runtime import files as store
from inference.runtime.hints import come_so_far, hint
from models import ZooError

PROGRAM = (
    "import pathlib, jax.numpy as jnp, numpyro, numpyro.distributions as dist\n"
    "pathlib.Path(__file__).with_name('imported').touch()\n"
    "def normal(x):\n"
    "    mean = numpyro.sample('mean', dist.Normal(0.0, 5.0))\n"
    "    with numpyro.plate('row', x.shape[0]):\n"
    "        numpyro.sample('x', dist.Normal(mean, 1.0), obs=x[:, 0])\n"
    "def other(x):\n"
    "    normal(x)\n"
)

ONE_GROUP = ["model=gmm", "method=em", "model.num_components=1", "progress=false", "pictures=false"]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["held_out_rows", "write_imputed", "write_views", "complete"])
def test_a_run_is_completed_from_its_results(tmp_path, monkeypatch, capsys, place):
    """Stopped between the results and the manifest: the fit is not done again, and the folder ends as an unbroken run's."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["u", "v"]).round(2)
    table.iloc[::7, 0] = np.nan
    table.to_csv(tmp_path / "table.csv", index=False)
    given = [*ONE_GROUP, f"data={tmp_path / 'table.csv'}"]
    given += ["impute=true", "data.test_fraction=0.2", "num_starts=1"]
    assert guarded(run_main, [*given, f"out={tmp_path / 'whole'}"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(f"inference.cli.runs.execute.{place}", stopping)
        assert guarded(run_main, [*given, f"out={tmp_path / 'parts'}"]) == 130
    assert "resume=" in capsys.readouterr().err
    assert not (tmp_path / "parts" / "manifest.json").exists()
    monkeypatch.setattr("inference.methods.em.run", stopping)
    assert guarded(run_main, [f"resume={tmp_path / 'parts'}", "progress=false"]) == 0
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert sorted(path.name for path in parts.iterdir()) == sorted(path.name for path in whole.iterdir())
    xr.testing.assert_equal(load(parts), load(whole))
    for name in ("imputed.csv", "summary.csv"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    assert guarded(run_main, [f"resume={parts}"]) == 2
    assert "that run is finished" in capsys.readouterr().err
    (parts / "summary.csv").write_text("edited")  # what is not as it was written is written again
    assert guarded(run_main, [f"resume={parts}", "progress=false"]) == 0
    assert (parts / "summary.csv").read_bytes() == (whole / "summary.csv").read_bytes()


@pytest.mark.slow
def test_results_of_other_data_are_not_completed(tmp_path, monkeypatch, capsys):
    """The table was changed since: its report would be of other rows than the fit."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["u", "v"])
    table.to_csv(tmp_path / "table.csv", index=False)
    given = [*ONE_GROUP, f"data={tmp_path / 'table.csv'}"]
    with monkeypatch.context() as patch:
        patch.setattr("inference.cli.runs.execute.write_views", stopping)
        assert guarded(run_main, [*given, f"out={tmp_path / 'run'}"]) == 130
    (table + 1).to_csv(tmp_path / "table.csv", index=False)
    assert guarded(run_main, [f"resume={tmp_path / 'run'}"]) == 2
    assert "other data than are there now" in capsys.readouterr().err


@pytest.mark.slow
def test_a_program_is_named_again(tmp_path, monkeypatch, capsys):
    """Nothing is imported until the file is named on the command line, and is the one that the run was begun with."""
    file, out = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(PROGRAM)
    pd.DataFrame({"x": np.arange(5) ** 1.5}).to_csv(tmp_path / "table.csv", index=False)
    program = f"model={file}:normal"
    with monkeypatch.context() as patch:
        patch.setattr("inference.results.tree.save", stopping)
        given = [program, "method=nuts", f"data={tmp_path / 'table.csv'}", "num_warmup=20", "num_samples=20", "num_chains=2"]
        assert guarded(run_main, [*given, "progress=false", "pictures=false", f"out={out}"]) == 130
    (tmp_path / "imported").unlink()
    capsys.readouterr()
    (tmp_path / "same.py").write_text(PROGRAM)
    (tmp_path / "other.py").write_text(PROGRAM + "\n")
    slips = {
        (): "say so by",
        (f"model={file}:other",): "not of",
        (f"model={tmp_path}/other.py:normal",): "not the file that the run",
        (f"model={tmp_path}/nowhere.py:normal",): "there is no file",
        ("model=gmm",): "does not go with resume=",
        ("seed=1",): "does not go with resume=",
    }
    for more, words in slips.items():
        assert guarded(run_main, [f"resume={out}", *more]) == 2
        assert words in capsys.readouterr().err
    environment = (out / "environment.json").read_text()
    (out / "environment.json").write_text("{}")
    assert guarded(run_main, [f"resume={out}", program]) == 2
    assert "does not say which program" in capsys.readouterr().err
    (out / "environment.json").write_text(environment)
    assert not (tmp_path / "imported").exists()
    assert guarded(run_main, [f"resume={out}", f"model={tmp_path}/same.py:normal", "progress=false"]) in (
        0,
        3,
    )
    assert load(out)["posterior"].sizes["draw"] == 20


@pytest.mark.slow
def test_a_model_of_the_zoo_needs_no_program(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr("inference.cli.runs.execute.write_views", stopping)
        assert guarded(run_main, [*QUICK, f"out={tmp_path / 'run'}"]) == 130
    (tmp_path / "mine.py").write_text(PROGRAM)
    assert guarded(run_main, [f"resume={tmp_path / 'run'}", f"model={tmp_path}/mine.py:normal"]) == 2
    assert "leave model=" in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "damaged"),
        ("model: [", "damaged"),
        (b"\xff\xfe", "damaged"),
        ("- a\n- b\n", "damaged"),
        ("model: 3\nmethod: em\n", "damaged"),
        ({"method": "nonsense"}, "nonsense"),
        ({"method": ["em"]}, "em"),
        ({"maximum": 3}, "an entry 'maximum'"),
        ({"method": "${oc.env:HOME}"}, "HOME"),
        ({"model": {"name": "nonsense"}}, "nonsense"),
        ({"model": {"name": [1]}}, "[1]"),
        ({"model": {}}, "None"),
        ({"model": {"name": "gmm_simple", "colour": "red"}}, "an entry 'model.colour'"),
        ({"model": {"name": "gmm_simple"}}, "lacks the entry 'model."),
        ({"data": {}}, "None"),
        ({"data": {"name": "file"}}, "lacks the entry 'data."),
        ({"data": {"name": "iris", "path": "x"}}, "an entry 'data.path'"),
    ],
    ids=str,
)
def test_broken_configurations(tmp_path, capsys, content, words):
    if isinstance(content, dict):
        content = OmegaConf.to_yaml(OmegaConf.create(compose(QUICK) | content))
    store.write(tmp_path / "config.yaml", content.encode() if isinstance(content, str) else content, seal=True)
    assert guarded(run_main, [f"resume={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert said.count("\n") == 1


def test_a_program_is_not_run_unasked(tmp_path, capsys):
    text = OmegaConf.to_yaml(OmegaConf.create(compose(["model=program", "model.path=x.py:f"])))
    store.write(tmp_path / "config.yaml", text.encode(), seal=True)
    assert guarded(run_main, [f"resume={tmp_path}"]) == 2
    assert "say so by model=x.py:f" in capsys.readouterr().err


def test_cut_off_configurations(tmp_path):
    """Of a run that was killed, with no manifest beside it: at every line, and without its last one, it is refused."""
    path, asked = tmp_path / "config.yaml", compose([f"resume={tmp_path}"])
    store.write(path, OmegaConf.to_yaml(OmegaConf.create(compose([*QUICK, "seed=7"]))).encode(), seal=True)
    assert resumed(asked)["seed"] == 7
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 20
    for number in range(len(lines)):
        path.write_bytes(b"".join(lines[:number]))
        with pytest.raises(ZooError, match="damaged"):
            resumed(asked)


def test_draws_without_their_checkpoints_are_computed_again(tmp_path):
    """As the message on a damaged checkpoint promises."""
    for method, interrupted, again in (("gibbs", 1, True), ("gibbs", 0, False), ("em", 1, True), ("em", 0, False)):
        folder = tmp_path / f"{method}-{interrupted}"
        folder.mkdir()
        tree = xr.DataTree(xr.Dataset({"x": 1.0}))
        tree.attrs = {"model": "gmm", "method": method, "exit_status": 0, "interrupted": interrupted, "schema": SCHEMA}
        save(tree, folder / "results.nc")
        assert (finished_result(folder) is None) == again
        store.complete(folder, [folder / "results.nc"])
        assert is_unfinished(folder) == again


def test_paths_are_text(tmp_path, capsys, monkeypatch):
    """Brackets and colons in names of files are no markup, on the way in and on the way out."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "[b]x[" / "b] :smile: it's"
    place.mkdir(parents=True)
    table = place / "[red]t.csv"
    pd.DataFrame({"[bold]u[/]": np.arange(30.0), "[/v]": np.arange(30) % 7 * 1.5}).to_csv(table, index=False)
    given = [
        f"data={table}",
        "model=gmm",
        "model.num_components=1",
        "method=em",
        "progress=false",
        "pictures=false",
        f"out={place}/[i]out[/i]",
    ]
    assert guarded(run_main, given) == 0
    said = capsys.readouterr()
    assert f"results in {place}/[i]out[/i]" in said.out
    assert "[red]t.csv" in said.out.replace("\n", "")  # it is folded
    assert "[bold]u[/]" in said.err.replace("\n", "")
    folder = f"{place}/[i]out[/i]"
    assert guarded(compare_main, [folder, f"out={place}/[u]table"]) == 0
    assert "[u]table" in capsys.readouterr().out
    assert guarded(run_main, [f"resume={folder}"]) == 2
    assert "that run is finished" in capsys.readouterr().err


def test_a_fault_of_ours_is_one_line(tmp_path, monkeypatch, capsys):
    """And a log, in the folder of the run, or where there is none in a temporary one; the exit code is 1."""

    def fault(*_, **__):
        raise RuntimeError("of a kind\nthat nobody knew")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for place, where in (
        ("inference.cli.runs.execute.write_views", tmp_path / "run"),
        ("inference.cli.runs.execute.all_rows", tmp_path),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, fault)
            assert guarded(run_main, [*QUICK, f"out={tmp_path / 'run'}"]) == 1
        said = capsys.readouterr().err
        log = re.search(r"error: a bug in the zoo: RuntimeError: of a kind \(the traceback is in (.*)\)\n", said)
        assert log, said
        assert said.count("\n") == 1
        assert log[1].startswith(str(where))
        assert "that nobody knew" in store.read(log[1]).decode()


def test_two_runs_in_one_folder(tmp_path, capsys):
    """The second is told who is there, and leaves the first one's folder alone."""
    out = tmp_path / "run"
    out.mkdir()
    with locked_folder(out):
        assert guarded(run_main, [*QUICK, f"out={out}"]) == 2
        assert "is in use by process" in capsys.readouterr().err
        assert guarded(compare_main, [*QUICK, f"out={out}"]) == 2
        assert "is in use by process" in capsys.readouterr().err
        assert [path.name for path in out.iterdir()] == [store.LOCK]
    assert not list(out.iterdir())


def test_the_manifest_lists_the_run(tmp_path):
    """What the run wrote, and no file of the user's."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    assert guarded(run_main, [*QUICK, f"out={out}"]) == 0
    listed = set(json.loads((out / store.MANIFEST).read_text())["files"])
    assert listed == {path.name for path in out.iterdir()} - {store.MANIFEST, "mine.txt"}
    assert store.is_complete(out)
    (out / "report.html").unlink()
    assert not store.is_complete(out)


@pytest.mark.slow
def test_evidence_is_written_through_the_manifest(tmp_path):
    """A result that is amended after its run is found again, and sound."""
    given = [
        "model=gmm",
        "model.num_components=1",
        "method=em",
        "data=blobs",
        "data.num_rows=30",
        "progress=false",
        "pictures=false",
    ]
    assert guarded(compare_main, [*given, "evidence=true", f"out={tmp_path / 'out'}"]) == 0
    tree = load(tmp_path / "out" / "run")
    assert "log_evidence_estimate" in tree.attrs or "log_evidence" in tree.attrs
    assert store.is_complete(tmp_path / "out" / "run")
    assert store.is_complete(tmp_path / "out")


def test_hints_can_be_typed(tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    assert hint(folder).startswith(f"fit with the same arguments, folder='{tmp_path}/a b'")
    store.write(folder / "config.yaml", b"model: {name: gmm}\n", seal=True)
    assert hint(folder) == f"'resume={tmp_path}/a b' writes what is missing"
    (folder / "checkpoint-sampling-abc.npz").touch()
    assert hint(folder) == f"'resume={tmp_path}/a b' goes on from there"
    store.write(folder / "config.yaml", b"model: {name: program, path: 'my file.py:f'}\n", seal=True)
    assert hint(folder).startswith(f"'resume={tmp_path}/a b' 'model=my file.py:f' goes on")


def test_how_far_a_sampler_had_come(tmp_path):
    """In draws of those asked for, once it draws; a damaged checkpoint says nothing, and a folder without one neither."""
    asked = {"num_warmup": 50, "num_samples": 100}
    assert come_so_far(tmp_path, asked) == ""
    (tmp_path / "checkpoint-warmup-abc.npz").write_bytes(b"no checkpoint")
    assert come_so_far(tmp_path, asked) == ""
    checkpoints.store(tmp_path / "checkpoint-warmup-abc.npz", 50, 1.0, np.zeros(2), [])
    assert come_so_far(tmp_path, asked) == "50 of 50 steps of the warm-up"
    checkpoints.store(tmp_path / "checkpoint-sampling-abc.npz", 12, 1.0, np.zeros(2), [])
    assert come_so_far(tmp_path, asked) == "12 of 100 draws per chain"
    assert come_so_far(tmp_path, asked | {"thin": 4}) == "3 of 100 draws per chain"
