"""What is the user's stays as it is: files under names that a run writes, folders that were there, evidence of an exchange."""

import re
import time
from pathlib import Path

import pytest
from quick_runs import QUICK, stopping

from inference.cli.comparing import WRITTEN as OF_COMPARISONS
from inference.cli.main import compare_main, guarded, run_main
from inference.cli.runs import execute as runs
from inference.cli.runs import run_folder
from inference.cli.runs.run_folder import locked_folder
from inference.report import views
from inference.results import load
from inference.runtime import files as store
from models import ZooError

OF_BOTH = ("manifest.json", "config.yaml", "run.lock")
NAMES = [(run_main, name) for name in (*OF_BOTH, "environment.json", "error.log", *run_folder.WRITTEN)]
NAMES += [(compare_main, name) for name in (*OF_BOTH, *OF_COMPARISONS)]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("main", "name"), NAMES)
def test_files_of_the_users_are_refused_and_stay(tmp_path, capsys, main, name):
    out = tmp_path / "webapp"
    out.mkdir()
    for path in (out / name, out / ".upload.partial"):
        path.write_text('{"name": "my app"}')
    before = contents(out)
    assert guarded(main, [*QUICK, f"out={out}"]) == 2
    assert name in capsys.readouterr().err or name == "config.yaml"
    assert contents(out) == before


def test_every_name_that_is_written_is_known():
    source = "".join(Path(module.__file__).read_text() for module in (runs, run_folder, views))
    named = set(re.findall(r'folder / "([\w.]+\.\w+)"', source))
    pictures = {f"{name}.svg" for name in re.findall(r'^        \("(\w+)", ', source, flags=re.M)} | {views.CHECKS}
    assert min(len(named), len(pictures)) > 5
    named |= pictures
    assert named <= {*run_folder.WRITTEN}


def test_a_run_that_is_refused_removes_what_it_wrote_alone(tmp_path, monkeypatch, capsys):
    """Before its first result: the files and folders that it made go, and nothing else."""
    monkeypatch.setattr("inference.cli.runs.execute._result", stopping)
    monkeypatch.chdir(tmp_path)
    assert guarded(run_main, QUICK) == 130
    assert not list(tmp_path.iterdir())
    assert guarded(run_main, [*QUICK, "out=a/b"]) == 130
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    assert guarded(run_main, [*QUICK, "out=mine"]) == 130
    assert (tmp_path / "mine").is_dir()
    (tmp_path / "mine" / ".upload.partial").touch()
    assert guarded(run_main, [*QUICK, "out=mine"]) == 130
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [".upload.partial"]


def test_what_a_killed_run_left_is_its_own(tmp_path, monkeypatch):
    """Its configuration, its environment and its log: a run under the same name begins again, and the log goes with success."""
    out = tmp_path / "run"

    def fault(*_, **__):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr("inference.fitting.fit.fit", fault)
        assert guarded(run_main, [*QUICK, f"out={out}"]) == 1
    (out / store.LOCK).write_text("process 1 on a machine that was switched off")
    (out / "0".join(store.PARTIALS)).touch()
    assert {path.name for path in out.iterdir()} >= {"config.yaml", "environment.json", "error.log"}
    assert guarded(run_main, [*QUICK, f"out={out}"]) == 0
    assert {path.name for path in out.iterdir()} & {"error.log", store.LOCK, "0".join(store.PARTIALS)} == set()


def test_the_evidence_of_an_exchange_stays(tmp_path, capsys):
    """A result that is another run's is refused by whoever reads it, also after somebody has tried to go on."""
    for name in ("first", "second"):
        assert guarded(run_main, [*QUICK, f"seed={len(name)}", f"out={tmp_path / name}"]) == 0
    exchanged, manifest = tmp_path / "first" / "results.nc", (tmp_path / "first" / "manifest.json").read_bytes()
    exchanged.write_bytes((tmp_path / "second" / "results.nc").read_bytes())
    assert guarded(run_main, [f"resume={tmp_path / 'first'}"]) == 2
    assert "not the file that its run wrote" in capsys.readouterr().err
    assert (tmp_path / "first" / "manifest.json").read_bytes() == manifest
    with pytest.raises(ZooError, match="not the file that its run wrote"):
        load(tmp_path / "first")


def test_a_comparison_and_a_run_share_no_folder(tmp_path, monkeypatch, capsys):
    """Its manifest would say that the run is finished."""
    first, killed = tmp_path / "first", tmp_path / "killed"
    assert guarded(run_main, [*QUICK, f"out={first}"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("inference.cli.runs.execute.write_views", stopping)
        assert guarded(run_main, [*QUICK, f"out={killed}"]) == 130
    before = contents(killed)
    for target in (killed, first):
        assert guarded(compare_main, [str(first), f"out={target}"]) == 2
        assert "is the folder of a run" in capsys.readouterr().err
    assert contents(killed) == before
    store.write(killed / "table.csv", b"x")
    store.complete(killed, [killed / "table.csv"])
    assert store.is_complete(killed)
    assert not store.is_complete(killed, "results.nc")
    assert guarded(run_main, [f"resume={killed}", "progress=false"]) == 0
    assert guarded(compare_main, [str(first), f"out={tmp_path / 'table'}"]) == 0
    assert guarded(compare_main, [str(first), f"out={tmp_path / 'table'}"]) == 0  # a comparison may be made again
    assert guarded(run_main, [*QUICK, f"out={tmp_path / 'table'}"]) == 2


def test_folders_of_one_second_are_several(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locked_folder(Path("runs/a"), fresh=True) as one, locked_folder(Path("runs/a"), fresh=True) as other:
        assert [str(one), str(other)] == ["runs/a", "runs/a-1"]
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(time, "strftime", lambda *_: "now")
    (tmp_path / "runs" / "compare-now").mkdir(parents=True)
    monkeypatch.setattr("inference.cli.comparing._run_all", lambda *_, **__: stopping())
    assert guarded(compare_main, QUICK) == 130
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["compare-now"]


def test_folders_that_cannot_be_made(tmp_path, monkeypatch):
    """In words, at once: below a file, and where the parent is a link to nowhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "runs").symlink_to("nowhere")
    for path, fresh in (("file/below", False), ("runs/x", True), ("runs", False), ("file/below", True)):
        with pytest.raises(ZooError, match="cannot be made"), locked_folder(Path(path), fresh):
            pass
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / store.LOCK).symlink_to(tmp_path / "gone" / "away")
    with pytest.raises(ZooError, match="cannot be written"), locked_folder(tmp_path / "lock"):
        pass


def test_a_folder_is_made_again_where_one_who_left_removed_it(tmp_path, monkeypatch):
    real, left = run_folder.locked, []

    def late(folder, make):
        folder.rmdir()
        left.append(folder)
        return real(folder, make)

    monkeypatch.setattr(run_folder, "locked", late)
    with locked_folder(tmp_path / "run") as folder:
        assert folder.is_dir()
        save_at = folder / "file"
        store.write(save_at, b"x")
    assert left
    assert save_at.exists()
