"""A finished run that becomes longer and stops on the way: its own files stay until those of the longer run are there."""

import numpy as np
import pytest
import xarray as xr
from longer_runs import EM, GIBBS, contents, killed, names
from stopped_runs import TOPICS

from inference.cli.main import guarded, report_main, run_main
from inference.cli.runs.config import compose
from inference.cli.runs.stored_run import resumed, write_config
from inference.results import load
from inference.runtime import checkpoints
from inference.runtime.configuration import read_configuration
from models import ZooError


def stopped(*_, **__):
    """A fit that Ctrl-C ended."""
    tree = xr.DataTree()
    tree.attrs["interrupted"] = 1
    return tree


@pytest.mark.slow
def test_the_old_result_stays_until_the_new_one_is_there(em, tmp_path, monkeypatch, capsys):
    """Killed, or stopped by Ctrl-C: the run is still finished, can be shown, and goes on by its folder alone."""
    before, whole = contents(em), tmp_path / "whole"
    killed(monkeypatch, em, "max_iter=12")
    for name in ("manifest.json", "config.yaml", "results.nc"):
        assert (em / name).read_bytes() == before[name]
    assert guarded(report_main, [f"run={em}"]) == 0
    tree = load(em)
    with monkeypatch.context() as patch:
        patch.setattr("inference.fitting.fit.fit", stopped)
        capsys.readouterr()
        assert guarded(run_main, [f"resume={em}", "progress=false"]) == 130
    said = capsys.readouterr().err
    assert f"interrupted after 12 iterations; results.nc stays that of the finished run; resume={em} goes on from there" in said
    xr.testing.assert_equal(load(em), tree)
    assert guarded(run_main, [f"resume={em}", "progress=false"]) in (0, 3)
    assert guarded(run_main, [*EM, "max_iter=12", f"out={whole}"]) in (0, 3)
    xr.testing.assert_equal(load(em), load(whole))
    assert names(em) == names(whole)
    assert read_configuration(em / "config.yaml")["max_iter"] == 12


def test_fewer_than_were_asked_for(em, tmp_path, monkeypatch, capsys):
    """All that is not below what was computed; the number of the old result ends the matter."""
    tree = load(em)
    killed(monkeypatch, em, "max_iter=12")
    killed(monkeypatch, em, "max_iter=20")
    capsys.readouterr()
    assert guarded(run_main, [f"resume={em}", "max_iter=19"]) == 2
    assert "max_iter=19 is less than the 20 of the run" in capsys.readouterr().err
    asked = compose([f"resume={em}", "method=em", "max_iter=21"])
    assert resumed(asked, ["max_iter"])["max_iter"] == 21
    assert resumed(asked)["max_iter"] == 20
    for path in em.glob("checkpoint-*.npz"):  # as if none had been written yet
        path.rename(path.with_name(path.name.replace("checkpoint", "final")))
    assert guarded(run_main, [f"resume={em}", "max_iter=5", "progress=false"]) in (0, 3)
    xr.testing.assert_equal(load(em), tree)
    assert not (em / "longer.yaml").exists()
    assert read_configuration(em / "config.yaml")["max_iter"] == 5


def test_fewer_draws_than_were_asked_for(tmp_path):
    """Of a sampler that was killed: not fewer than its checkpoint holds."""
    given = [*TOPICS, "method=collapsed_gibbs", "thin=2", "num_samples=60", f"out={tmp_path}"]
    write_config(compose(given), tmp_path)
    checkpoints.store(tmp_path / "checkpoint-sampling-abc.npz", 24, 1.0, np.zeros(2), [])
    for number, allowed in ((61, True), (12, True), (11, False)):
        asked = compose([f"resume={tmp_path}", "method=collapsed_gibbs", f"num_samples={number}"])
        if allowed:
            assert resumed(asked, ["num_samples"])["num_samples"] == number
        else:
            with pytest.raises(ZooError, match="num_samples=11 is less than the 12 of the run"):
                resumed(asked, ["num_samples"])


def test_a_damaged_checkpoint_changes_nothing(em, monkeypatch, capsys):
    """It is looked at first, and named as the user sees it; so is one that the fit refuses."""
    (path,) = em.glob("final-*.npz")
    sound, content = path.read_bytes(), bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(bytes(content))
    before = contents(em)
    assert guarded(run_main, [f"resume={em}", "max_iter=12", "progress=false"]) == 2
    assert f"{path} is damaged: its content does not match its checksum; remove it" in capsys.readouterr().err
    assert contents(em) == before
    path.write_bytes(sound)
    before = contents(em)
    monkeypatch.setattr("inference.runtime.checkpoints.VERSION", 2)
    assert guarded(run_main, [f"resume={em}", "max_iter=12", "progress=false"]) == 2
    said = capsys.readouterr().err
    assert f"{path} is a checkpoint of another version" in said
    assert "checkpoint-" not in said
    assert contents(em) == before


def test_other_data_change_nothing(em, monkeypatch, capsys):
    before = contents(em)
    monkeypatch.setattr("inference.fitting.fit.fingerprint_of", lambda *_, **__: "of other data")
    assert guarded(run_main, [f"resume={em}", "max_iter=12", "progress=false"]) == 2
    assert "has results of other data than are there now" in capsys.readouterr().err
    assert contents(em) == before


@pytest.mark.slow
def test_a_longer_run_that_is_stopped_goes_on(tmp_path, monkeypatch):
    """And to fewer draws than it was asked for, too."""
    folder = tmp_path / "run"
    assert guarded(run_main, [*GIBBS, f"out={folder}"]) in (0, 3)
    for asked, number in ((["num_samples=80"], 80), ([], 120)):
        killed(monkeypatch, folder, f"num_samples={120}")
        assert load(folder)["posterior"].sizes["draw"] < 120
        assert guarded(report_main, [f"run={folder}"]) == 0
        assert guarded(run_main, [f"resume={folder}", *asked, "progress=false"]) in (0, 3)
        whole = tmp_path / f"{number}"
        assert guarded(run_main, [*GIBBS, f"num_samples={number}", f"out={whole}"]) in (0, 3)
        xr.testing.assert_equal(load(folder), load(whole))
        assert names(folder) == names(whole)
