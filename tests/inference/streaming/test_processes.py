"""Processes and devices that share a fit: the same result however many there are, and a clear end where one dies."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from block_tables import groups, largest_gap
from fit_blocks import fit_blocks
from joined_processes import counted_sums, ended, environment, free_port, started

from inference import read_stream
from inference.results.tree import load
from models import MODELS, load_data

pytestmark = pytest.mark.slow


def written(folder, number=9000):
    folder.mkdir()
    import pandas as pd

    table = pd.DataFrame(groups(number)[0], columns=list("abc"))
    for place, part in enumerate(np.array_split(np.arange(number), [3000, 3100])):
        table.iloc[part].to_parquet(folder / f"part{place}.parquet", row_group_size=700)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return written(tmp_path_factory.mktemp("data") / "rows")


def run(number, method, rows, folder, **options):
    folder.mkdir()
    for code, out, errors in ended(
        started(number, method, folder / "results.nc", rows=str(rows), folder=str(folder), **options)
    ):
        assert code == 0, errors
        assert out.endswith("finished\n")  # Gloo has a line before
    return load(folder)


@pytest.fixture(scope="module")
def whole(rows, tmp_path_factory):
    return run(1, "em", rows, tmp_path_factory.mktemp("whole") / "one", num_starts=2)


@pytest.mark.parametrize("number", [2, 3])
def test_processes_find_what_one_finds(rows, whole, tmp_path, number):
    """EM to rounding: the sums are added in another order. Of ten iterations each contracts, and none amplifies."""
    tree = run(number, "em", rows, tmp_path / "several", num_starts=2)
    assert largest_gap(tree, whole) < 1e-11
    assert tree.attrs["total_weight"] == whole.attrs["total_weight"] == 9000
    np.testing.assert_allclose(tree["functionals"]["log_joint"], whole["functionals"]["log_joint"], rtol=1e-13)


def test_steps_of_several_processes_come_near_the_passes(rows, whole, tmp_path):
    """A step takes a block of each process. The last of 150 averages over 1 / ρ = 33 steps, several times all rows.

    What is left comes from the last block of each file, which is shorter and counts as much as another.
    """
    tree = run(2, "em", rows, tmp_path / "steps", num_starts=2, steps=True, max_iter=150)
    assert largest_gap(tree, whole) < 0.1  # groups are several widths apart
    assert tree["optimization"].sizes["iteration"] == 151
    assert np.nanmax(tree["optimization"]["final_objective"]) <= np.nanmax(whole["optimization"]["final_objective"]) + 1e-6


def test_draws_are_the_same_however_rows_are_shared_out(rows, tmp_path):
    """Gibbs by one process, by two with two devices each, and by four devices: the key of a row's latent is its number's."""
    options = {"num_warmup": 3, "num_samples": 12, "num_chains": 2}
    one = run(1, "gibbs", rows, tmp_path / "one", **options)
    for number, devices in ((2, 2), (1, 4)):
        tree = run(number, "gibbs", rows, tmp_path / f"{number}-{devices}", devices=devices, **options)
        for site, value in one["posterior_raw"].data_vars.items():
            np.testing.assert_allclose(tree["posterior_raw"][site], value, rtol=1e-9)
        np.testing.assert_allclose(tree["sample_stats"]["lp"], one["sample_stats"]["lp"], rtol=1e-11)


def test_what_is_sent_are_the_statistics_whatever_the_rows():
    """Numbers in an all-reduce: those of the sums of all starts, for a table and for one ten times as long."""
    sent = []
    for number in (4096, 40960):
        data = load_data(groups(number)[0])
        model = MODELS["gmm"](data, num_components=3, covariance="diag")
        with counted_sums() as sizes:
            fit_blocks(model, data, "em", num_starts=2, devices=1, block_rows=2048)
        sent.append(max(sizes))
    components, columns, starts = 3, 3, 2
    assert sent[0] == sent[1] == starts * (components * (4 * columns + 1) + 5)  # as docs/how_to/cluster.md says


def test_a_process_that_is_killed_ends_the_others(rows, tmp_path):
    """They say so and exit with 2; what the first had written goes on on one process, and on three."""
    folder = tmp_path / "run"
    options = ["model=gmm", "model.num_components=3", "model.covariance=diag", "method=em", f"data={rows}", "data.stream=true"]
    options += ["data.block_rows=1024", "num_starts=2", "tol=0", "max_iter=400", "checkpoint_seconds=0", "pictures=false"]
    options += ["progress=false", f"out={folder}"]
    shell = [sys.executable, "-m", "inference.run"]

    def command(number, rank, port, given):
        joined = ["runtime=distributed", f"runtime.coordinator=127.0.0.1:{port}", f"runtime.num_processes={number}"]
        return [*shell, *given, *joined, f"runtime.process_id={rank}"]

    port = free_port()
    processes = [
        subprocess.Popen(
            command(2, rank, port, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        for rank in range(2)
    ]
    clock = time.monotonic()
    while not list(folder.glob("checkpoint-*")) and time.monotonic() - clock < 200:
        time.sleep(0.02)
    os.kill(processes[1].pid, signal.SIGKILL)
    (code, _, errors), _ = ended(processes)
    assert code == 2
    assert "another one has ended" in errors
    assert "resume=" in errors
    assert "Traceback" not in errors
    assert list(folder.glob("checkpoint-*"))
    whole = tmp_path / "whole"
    done = subprocess.run([*shell, *options[:-1], f"out={whole}"], capture_output=True, text=True, env=environment())
    assert done.returncode in (0, 3), done.stderr
    port = free_port()
    resumed = [
        subprocess.Popen(
            command(3, rank, port, [f"resume={folder}", "progress=false"]), stderr=subprocess.PIPE, text=True, env=environment()
        )
        for rank in range(3)
    ]
    for code, _, errors in ended(resumed):
        assert code in (0, 3), errors
    assert largest_gap(load(folder), load(whole)) < 1e-9


def test_processes_that_cannot_be_found():
    given = ["model=gmm", "method=em", "data=iris", "runtime=distributed"]
    shell = [sys.executable, "-m", "inference.run"]
    found = subprocess.run([*shell, *given], capture_output=True, text=True)
    assert found.returncode == 2
    assert "give out=<folder>" in found.stderr
    found = subprocess.run([*shell, *given, "out=/tmp/nowhere/run"], capture_output=True, text=True)
    assert found.returncode == 2
    assert "cannot be joined" in found.stderr
    assert "Traceback" not in found.stderr


def test_read_stream_of_several_processes_needs_a_folder(rows, monkeypatch):
    monkeypatch.setattr("inference.streaming.source.read_stream.Group", lambda: type("Two", (), {"size": 2, "rank": 0})())
    with pytest.raises(Exception, match="give them one folder="):
        read_stream(rows)
