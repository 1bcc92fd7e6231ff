"""Sweeps that run: in this process, by joblib and by submitit, with and without a stop; all end with the same results."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pandas as pd
import pytest
import xarray as xr
from interrupting import Interrupting
from quick_runs import QUICK

from inference.cli import main as commands
from inference.cli.main import compare_main, guarded, run_main
from inference.fitting import fit as fitting
from inference.results import load

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
GIVEN = ["-m", "model=gmm", *QUICK[:-1], "seed=0,1"]
SHORT = ["num_warmup=20", "num_samples=60", "num_chains=2"]
ASKED = "/jax/compilation_cache/compile_requests_use_cache"


def assert_same(one, other, number):
    for each in range(number):
        xr.testing.assert_equal(load(Path(one) / str(each)), load(Path(other) / str(each)))
        assert {path.name for path in (Path(one) / str(each)).iterdir()} == {
            path.name for path in (Path(other) / str(each)).iterdir()
        }


def contents(folder):
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("method", "phase"), [("em", "iterating"), ("gibbs", "sampling"), ("gibbs", "warm-up")])
def test_a_sweep_that_stops_ends_as_one_that_does_not(monkeypatch, capsys, method, phase):
    """Ctrl-C in the second run. A sampler goes on, and an optimiser begins anew."""
    given = [*GIVEN, f"method={method}", *(SHORT if method == "gibbs" else [])]
    assert guarded(run_main, [*given, "out=whole"]) in (0, 3)
    real, begun = fitting.Silent, []

    def reporter():
        begun.append(phase)
        return Interrupting(phase) if len(begun) == 2 else real()

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "Silent", reporter)
        assert guarded(run_main, [*given, "out=parts"]) == 130
    assert "resume=parts runs what is missing" in capsys.readouterr().err
    assert pd.read_csv("parts/sweep.csv")["verdict"][1] == "interrupted"
    before = contents("parts/0")
    assert guarded(run_main, ["resume=parts", "progress=false"]) in (0, 3)
    assert contents("parts/0") == before
    assert_same("parts", "whole", 2)
    table = [pd.read_csv(f"{name}/sweep.csv").drop(columns=["folder", "seconds"]) for name in ("parts", "whole")]
    pd.testing.assert_frame_equal(*table)


def test_runs_of_one_shape_compile_once(monkeypatch):
    """After the first run, nothing is compiled or looked up in the cache of compiled programs."""
    asked, by_run = [], []
    jax.monitoring.register_event_listener(lambda event, **_: asked.append(event) if event == ASKED else None)
    real = commands._run

    def run(*arguments, **options):
        before = len(asked)
        found = real(*arguments, **options)
        by_run.append(len(asked) - before)
        return found

    monkeypatch.setattr(commands, "_run", run)
    jax.clear_caches()
    assert guarded(run_main, [*GIVEN[:-1], "method=em", "seed=0,1,2,3", "out=s"]) == 0
    assert by_run[0] > 0
    assert by_run[1:] == [0, 0, 0]


def command(*arguments):
    """The command in a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "inference.run", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """(exit code, what it said) once a command has ended."""
    _, said = process.communicate(timeout=600)
    return process.returncode, said


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_launcher_gives_the_same_results(launcher):
    """In other processes; and the table is the same but for times.

    The sweep beside it has a process of its own, too: that of the tests may have other devices, which round differently.
    """
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.split('_')[0]}_launcher")
    given = [*GIVEN, "method=em", "model.prior.component.strength=0.5"]
    assert ended(command(*given, "out=here"))[0] == 0
    assert guarded(run_main, [*given, "out=there", f"hydra/launcher={launcher}"]) == 0
    assert_same("here", "there", 2)
    table = [pd.read_csv(f"{name}/sweep.csv").drop(columns=["folder", "seconds"]) for name in ("here", "there")]
    pd.testing.assert_frame_equal(*table)
    assert guarded(compare_main, ["here", "there"]) == 0


def test_ctrl_c_in_a_sweep_by_joblib():
    """What was finished is kept, 130, the hint; and the end is that of a sweep that nothing stops."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    given = [*GIVEN[:-1], "method=gibbs", "num_chains=2", "num_samples=64,8000", "seed=0,1"]
    by_joblib = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    stopped = command(*given, "out=parts", *by_joblib)
    end = time.monotonic() + 300
    while not list(Path("parts").glob("[23]/checkpoint-*")) and stopped.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(stopped.pid, signal.SIGINT)
    code, said = ended(stopped)
    assert code == 130, said
    assert "resume=parts runs what is missing" in said
    assert "Traceback" not in said
    table = pd.read_csv("parts/sweep.csv")
    assert "interrupted" in set(table["verdict"])
    kept = table["folder"][table["verdict"].isin(["passed", "failed"])]
    assert len(kept) >= 1  # which of the short runs ends first is by chance
    before = [contents(folder) for folder in kept]
    code, said = ended(command("resume=parts", "progress=false", *by_joblib))
    assert code in (0, 3), said
    assert [contents(folder) for folder in kept] == before
    assert ended(command(*given, "out=whole"))[0] == code
    assert_same("parts", "whole", 4)
