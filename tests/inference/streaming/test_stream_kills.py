"""Runs over files that are killed at random points: nothing finished is lost, and the end is that of an unbroken run."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from block_tables import groups, largest_gap
from joined_processes import environment, free_port

from inference.results.tree import load

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("STREAM_KILLS", "3"))  # of a run; fifty before a release
SHELL = [sys.executable, "-m", "inference.run"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows") / "rows"
    folder.mkdir()
    table = pd.DataFrame(groups(60_000)[0], columns=list("abc"))
    for place, part in enumerate(np.array_split(np.arange(60_000), 2)):
        table.iloc[part].to_parquet(folder / f"part{place}.parquet", row_group_size=7000)
    options = ["model=gmm", "model.num_components=3", "method=em", f"data={folder}", "data.stream=true", "data.block_rows=4096"]
    return [*options, "num_starts=2", "tol=0", "max_iter=150", "checkpoint_seconds=0", "pictures=false", "progress=false"]


@pytest.fixture(scope="module")
def unbroken(asked, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    clock = time.monotonic()
    done = subprocess.run([*SHELL, *asked, f"out={folder}"], capture_output=True, text=True, env=environment())
    assert done.returncode in (0, 3), done.stderr
    return load(folder), time.monotonic() - clock


def goes_on(folder, asked):
    return [f"resume={folder}", "progress=false"] if (folder / "config.yaml").exists() else [*asked, f"out={folder}"]


def started(given, number, port):
    joined = [] if number == 1 else ["runtime=distributed", f"runtime.coordinator=127.0.0.1:{port}"]
    joined += [] if number == 1 else [f"runtime.num_processes={number}"]
    if number == 1 and given[0].startswith("resume="):
        joined = ["runtime=local"]
    each = [[] if number == 1 else [f"runtime.process_id={rank}"] for rank in range(number)]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    return [subprocess.Popen([*SHELL, *given, *joined, *own], **options) for own in each]


@pytest.mark.parametrize("numbers", [(1,), (2, 1)], ids=["one process", "two and one"])
def test_kills_at_random_points(asked, unbroken, tmp_path, numbers):
    """After every kill the run goes on, by another number of processes; a pass that one process had begun is not begun again.

    One process ends with the same bits; several add in another order.
    """
    whole, seconds = unbroken
    folder, random = tmp_path / "run", np.random.default_rng(len(numbers))
    iterations = []
    for kill in range(KILLS):
        given = goes_on(folder, asked)
        processes = started(given, numbers[kill % len(numbers)], free_port())
        time.sleep(random.uniform(0.3, 1.0) * seconds)
        os.kill(processes[random.integers(len(processes))].pid, signal.SIGKILL)  # process 0 too, which writes the checkpoints
        for process in processes:
            process.communicate(timeout=120)
        if (folder / "manifest.json").exists():  # it was faster than the kill
            break
        iterations += [_finished(folder)]
    assert iterations == sorted(iterations)  # no kill has cost what was on disk
    if not (folder / "manifest.json").exists():
        for process in started(goes_on(folder, asked), 1, 0):
            errors = process.communicate(timeout=200)[1]
            assert process.returncode in (0, 3), errors
    tree = load(folder)
    if numbers == (1,):
        for site, value in whole["point_estimate"].data_vars.items():
            np.testing.assert_array_equal(tree["point_estimate"][site], value)
        np.testing.assert_array_equal(tree["optimization"]["objective"], whole["optimization"]["objective"])
    else:
        assert largest_gap(tree, whole) < 1e-9


def _finished(folder):
    """Iterations in the checkpoint."""
    found = 0
    for file in folder.glob("checkpoint-*.npz"):
        with np.load(file, allow_pickle=False) as content:
            found = int(content["finished"])
    return found
