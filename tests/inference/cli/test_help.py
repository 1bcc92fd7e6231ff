"""Help of the commands, of single entries, and the list of all entries."""

import subprocess
import sys
from pathlib import Path

import pytest

from inference.cli.main import ALLOCATIONS, guarded, run_main
from inference.cli.runs.config import choices, entry_options
from inference.cli.runs.help import COMMANDS, help_of, list_main, listed
from inference.methods import METHODS
from models.datasets.tables import DATASETS

ROOT = Path(__file__).parents[3]


def test_help_names_every_entry(capsys):
    """Every model, method and data set; that it loads nothing heavy is tested beside the plain options."""
    assert guarded(run_main, ["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in [*METHODS, *DATASETS, "gmm", "gmm_simple"])
    assert len(out.splitlines()) <= 40
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("group", ["model", "method", "data"])
def test_every_entry_has_help(group):
    """What it is and each of its options, in 80 columns; the list has all of them."""
    everything = listed([group])
    for name in choices(group):
        text = help_of(group, name)
        assert text.startswith(f"{group}={name}: ")
        assert max(len(line) for line in text.splitlines() if " " in line.strip()) <= 80
        assert name in everything
        prefix = "" if group == "method" else f"{group}."
        assert all(f"{prefix}{option}" in text for option in entry_options(group, name))


def test_help_of_one_entry(capsys):
    assert guarded(run_main, ["--help", "model=hmm", "method=nuts"]) == 0
    out = capsys.readouterr().out
    assert "model.num_states=2" in out
    assert "num_warmup=1000" in out
    assert guarded(run_main, ["--help", "model=hm"]) == 2
    assert "is not one of" in capsys.readouterr().err


def test_version_and_list(capsys):
    assert guarded(run_main, ["--version"]) == 0
    assert capsys.readouterr().out.split()[0] == "bayes-model-zoo"
    assert guarded(list_main, ["method"]) == 0
    assert "tempered_gibbs" in capsys.readouterr().out
    assert guarded(list_main, ["models"]) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    """Its own, in 80 columns, and it is the command's that is asked."""
    assert guarded(run_main, ["--help"], command) == 0
    out = capsys.readouterr().out
    module = command if command == "labs" else f"inference.{command}"
    assert out.startswith(f"usage: python -m {module} ")
    assert max(map(len, out.splitlines())) <= 80


def test_commands_look_for_garbage_rarely_and_end_with_their_code():
    """In a process of their own: a test that calls `guarded` keeps its own collector."""
    code = "import gc\nfrom inference.cli.main import run_as_command as run\nrun(lambda _: print(gc.get_threshold()[0]) or 3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{ALLOCATIONS}\n", "")
