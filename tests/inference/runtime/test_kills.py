"""Runs that are killed at a stage that is known: what lies on disk is gone on with, and the end is an unbroken run's."""

import json
import subprocess
import sys
from collections import Counter

import jax
import numpy as np
import pytest
from failing_disk import Disk, Killed, watched
from release import RELEASE
from stopped_runs import CELLS, configured, finish, stage, unbroken

from inference.cli.runs.execute import execute
from inference.fitting.fit import fit

pytestmark = [
    pytest.mark.usefixtures("always_written_down"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # a kill inside a destructor
]


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["em", "gibbs"])
@pytest.mark.parametrize("place", ["before the fit", "fit", "write_views", "complete"])
def test_killed_at_every_stage(tmp_path, monkeypatch, cell, place):
    """Before the fit, after it and before there is a result, between that and the pictures, and before the manifest."""
    unbroken(cell)
    folder, disk = tmp_path / "run", Disk(tmp_path / "run")
    target = f"inference.cli.runs.execute.{place}" if place in ("write_views", "complete") else "inference.fitting.fit.fit"

    def dying(*arguments, **options):
        if place == "fit":
            fit(*arguments, **options)
        disk.dead = True
        raise Killed

    with monkeypatch.context() as patch, watched(patch, disk):
        patch.setattr(target, dying)
        with pytest.raises(Killed):
            execute(configured(cell, folder))
    assert stage(folder) == {"before the fit": "begun", "fit": "begun", "write_views": "result", "complete": "result"}[place]
    finish(cell, folder, left_behind=True)


VICTIMS = """
import json, os, signal, sys, time
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import inference.fitting.fit, inference.report.terminal, inference.cli.runs.execute
from inference.engine import driver as chains
from inference.runtime import checkpoints
from inference.cli.main import guarded, run_main
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()  # its threads would not outlive the fork
checkpoints.CheckpointTimer.is_due = lambda self: True
chains.CHUNK_SECONDS = 0.002
for line in sys.stdin:
    given, folder, seconds = json.loads(line)
    child = os.fork()
    if child == 0:
        jax.devices()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(guarded(run_main, given))
    gone = 0
    while not gone and not os.path.exists(os.path.join(folder, "config.yaml")):
        time.sleep(0.005)
        gone = os.waitpid(child, os.WNOHANG)[0]
    if not gone:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print("gone", flush=True)
"""


KILLS = 20 if RELEASE else 1  # of every method


@pytest.mark.slow
def test_killed_by_the_system(tmp_path):
    """SIGKILL, which nothing can catch, to a process of every method: what is on disk is gone on with here."""
    rng, reached = np.random.default_rng(0), Counter()
    command = [sys.executable, "-c", VICTIMS, str(len(jax.devices()))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for cell in CELLS:
            unbroken(cell)
            for number in range(KILLS):
                folder = tmp_path / f"{cell}-{number}"
                given = [*CELLS[cell], "progress=false", "pictures=false", f"out={folder}"]
                process.stdin.write(json.dumps([given, str(folder), rng.uniform(0, 2)]) + "\n")
                process.stdin.flush()
                assert process.stdout.readline() == "gone\n"
                reached[stage(folder)] += 1
                finish(cell, folder, left_behind=True)
        process.stdin.close()
    assert reached["begun"] >= 2, reached
    assert reached["whole"] < KILLS * len(CELLS), reached
