"""What tests of sweeps ask for: runs that are played, in a folder of the test. A finished run, for tests of `resume=`."""

from pathlib import Path

import pytest
from longer_runs import EM
from played_runs import line_of, played

from inference.cli import main as commands
from inference.cli import sweeping
from inference.results import tree
from inference.runtime import files


@pytest.fixture(scope="session", autouse=True)
def decoded_once():
    """A file of results is read, and its checksum looked at, each time; what its bytes mean is found out once."""
    kept, decoded = {}, tree.read_netcdf

    def read_netcdf(path):
        content = files.read(path)
        if content not in kept:
            kept[content] = decoded(path)
        return kept[content].copy(deep=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "read_netcdf", read_netcdf)
        yield


@pytest.fixture
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweeping, "line_of", line_of)
    monkeypatch.setattr(sweeping, "plot_sweep", lambda lines, path: path.write_text("a picture"))  # a fifth of a second each


@pytest.fixture
def play(monkeypatch):
    """Let ``action`` of (configuration) be what a run does, here or in a job; returns the configurations that ran."""

    def play(action=played):
        ran = []

        def run(config, *_, **__):
            ran.append(config)
            tree = action(config)
            return int(tree.attrs["exit_status"]), tree, Path(config["out"])

        monkeypatch.setattr(commands, "_run", run)
        monkeypatch.setattr(sweeping, "_in_silence", lambda config, plan: run(config)[:2])
        return ran

    return play


@pytest.fixture(scope="session")
def of_em(tmp_path_factory):
    """A run of 5 iterations that have not converged; it stays as it is."""
    folder = tmp_path_factory.mktemp("em") / "run"
    assert commands.guarded(commands.run_main, [*EM, "max_iter=5", f"out={folder}"]) in (0, 3)
    return folder


@pytest.fixture
def em(of_em, tmp_path):
    """A copy of it."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in of_em.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder
