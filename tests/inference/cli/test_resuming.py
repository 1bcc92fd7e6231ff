"""``resume=`` with options: what makes a finished run longer is taken, what would make another run is refused by name."""

import pytest
import xarray as xr
from stopped_runs import BLOBS, SHORT

from inference.cli.main import guarded, run_main
from inference.results import load
from inference.runtime.configuration import read_configuration

GIVEN = [*BLOBS, "progress=false", "pictures=false"]
GIBBS = [*GIVEN, "method=gibbs", *SHORT]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("given", "short", "long"),
    [
        ([*GIVEN, "method=em", "tol=0", "num_starts=2"], "max_iter=5", "max_iter=12"),
        pytest.param(GIBBS, "num_samples=20", "num_samples=60", marks=pytest.mark.slow),
        pytest.param([*GIBBS, "method=nuts"], "num_samples=20", "num_samples=60", marks=pytest.mark.slow),
        pytest.param([*GIVEN, "method=map"], "max_iter=5", "max_iter=200", marks=pytest.mark.slow),
        pytest.param([*GIVEN, "method=cavi"], "num_samples=20", "num_samples=60", marks=pytest.mark.slow),
        pytest.param([*GIVEN, "method=cavi", "batch_size=20"], "max_iter=50", "max_iter=80", marks=pytest.mark.slow),
    ],
)
def test_a_finished_run_becomes_longer(tmp_path, given, short, long):
    """Number by number and file by file it is then the longer run."""
    folder, whole = tmp_path / "run", tmp_path / "whole"
    given = [one for one in given if not one.startswith(short.partition("=")[0])]
    assert guarded(run_main, [*given, short, f"out={folder}"]) in (0, 3)
    assert guarded(run_main, [*given, long, f"out={whole}"]) in (0, 3)
    assert guarded(run_main, [f"resume={folder}", long, "progress=false"]) in (0, 3)
    xr.testing.assert_equal(load(folder), load(whole))
    assert names(folder) == names(whole)
    name, _, value = long.partition("=")
    assert read_configuration(folder / "config.yaml")[name] == int(value)


def test_what_does_not_make_it_longer(tmp_path, capsys):
    folder = tmp_path / "run"
    assert guarded(run_main, [*GIVEN, "method=em", "num_starts=2", f"out={folder}"]) == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    for given, words in {
        "": "that run is finished; max_iter=<more than 2000> makes it longer",
        "checkpoint_seconds=5": "that run is finished",
        "max_iter=2000": "that run is finished",
        "max_iter=1999": "max_iter=1999 is less than the 2000 of the run: resume= makes a run longer",
        "seed=1": "seed=1 does not go with resume=, which keeps the posterior of the run and its draws. It takes num_samples=",
        "tol=1e-3": "tol=1e-3 does not go with resume=",
        "model.num_components=3": "model.num_components=3 does not go",
        "data=iris": "data=iris does not go",
        "num_samples=10": "'num_samples'",
    }.items():
        assert guarded(run_main, [f"resume={folder}", *filter(None, [given])]) == 2
        assert words in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.slow
def test_a_longer_run_that_is_stopped_goes_on(tmp_path, monkeypatch):
    """Between the new configuration and the new result: the folder holds the old result, and is that of an unfinished run."""
    folder, whole = tmp_path / "run", tmp_path / "whole"
    assert guarded(run_main, [*GIBBS, f"out={folder}"]) in (0, 3)
    assert guarded(run_main, [*GIBBS, "num_samples=90", f"out={whole}"]) in (0, 3)
    with monkeypatch.context() as patch:
        patch.setattr("inference.methods.gibbs.run", lambda *_: 1 / 0)
        assert guarded(run_main, [f"resume={folder}", "num_samples=90", "progress=false"]) == 1
    assert load(folder)["posterior"].sizes["draw"] == 60
    assert guarded(run_main, [f"resume={folder}", "progress=false"]) in (0, 3)
    xr.testing.assert_equal(load(folder), load(whole))


@pytest.mark.slow
def test_pictures_of_a_finished_run(tmp_path):
    folder = tmp_path / "run"
    assert guarded(run_main, [*GIBBS, f"out={folder}"]) in (0, 3)
    assert not list(folder.glob("*.svg"))
    assert guarded(run_main, [f"resume={folder}", "pictures=true", "progress=false"]) in (0, 3)
    assert list(folder.glob("*.svg"))
