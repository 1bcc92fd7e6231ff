"""What tests of sweeps ask for: runs that are played, in a folder of the test."""

from pathlib import Path

import pytest
from played_runs import line_of, played

from inference.cli import main as commands
from inference.cli import sweeping


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
