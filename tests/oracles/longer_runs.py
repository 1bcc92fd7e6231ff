"""Finished runs that ``resume=`` makes longer, and one that is killed while it becomes longer."""

from stopped_runs import BLOBS, SHORT

from inference.cli.main import guarded, run_main

GIVEN = [*BLOBS, "progress=false", "pictures=false"]
GIBBS = [*GIVEN, "method=gibbs", *SHORT]
EM = [*GIVEN, "method=em", "tol=0", "num_starts=2"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def killed(monkeypatch, folder, *more):
    """`resume=`, ended once the fit has all its checkpoints and before it has a result."""
    with monkeypatch.context() as patch:
        patch.setattr("inference.fitting.fit.evaluated", lambda *_: 1 / 0)
        assert guarded(run_main, [f"resume={folder}", *more, "progress=false"]) == 1
    (folder / "error.log").unlink()
