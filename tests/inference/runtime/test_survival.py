"""Runs that are killed, stopped, or meet a disk that fails: what was finished is kept, and the end is an unbroken run's."""

import os
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest
import xarray as xr
from failing_disk import Disk, Killed, full_at, full_from, watched
from release import RELEASE
from stopped_runs import CELLS, assert_same, configured, finish, resume, stage, unbroken

from inference.cli.main import guarded, run_main
from inference.cli.runs.config import compose
from inference.cli.runs.execute import execute
from inference.cli.runs.run_folder import goes_on
from inference.results import load
from inference.runtime import checkpoints
from inference.runtime.progress import Silent
from models import ZooError

STOPS = 18 if RELEASE else 4  # of every method
STRIDE = 1 if RELEASE else 9  # between the requests at which a disk fails
CHECKPOINTED = ("gibbs", "tempered_gibbs", "nuts", "collapsed_gibbs")
TRACED = ("em", "hard_em", "cavi")  # optimisers whose objective is a trace of the driver's
pytestmark = [
    pytest.mark.usefixtures("always_written_down"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # a kill inside a destructor
    pytest.mark.filterwarnings("ignore:.*returned without a checkpoint:RuntimeWarning"),  # the disk was full
]


# ---------------------------------------------------------------------------------------------------------------------
# A disk that fails


def fails_at(monkeypatch, cell, folder, number, how):
    """One run whose ``number``-th request to the disk fails, or kills it; then the end of it. Whether there was one."""
    kill = how == "kill"

    def ends(asked, name):
        if asked == number:
            disk.dead = True
            raise Killed

    disk = Disk(folder, {"kill": ends, "full once": full_at(number), "full": full_from(number)}[how])
    with watched(monkeypatch, disk):
        try:
            execute(configured(cell, folder))
        except ZooError as error:
            assert not kill
            assert "No space left on device" in str(error)
            assert ("resume=" in str(error)) == ((folder.exists() and any(folder.glob("checkpoint-*.npz"))) or
                                                 (folder / "results.nc").exists())  # fmt: skip
        except Killed:
            assert kill
    if disk.asked >= number:
        finish(cell, folder, left_behind=kill)
    return disk.asked >= number


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "full once", "kill"])
@pytest.mark.parametrize("number", [2, 15, 35])
def test_a_disk_that_fails(tmp_path, monkeypatch, number, how):
    monkeypatch.setattr(checkpoints.CheckpointTimer, "is_due", lambda self: False)
    assert fails_at(monkeypatch, "em", tmp_path / "run", number, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "kill"])
@pytest.mark.parametrize("cell", ["em", "gibbs", "collapsed_gibbs"])
def test_a_disk_that_fails_at_every_request(tmp_path, monkeypatch, cell, how):
    """Every STRIDE-th request, the two ways in turn."""
    monkeypatch.setattr(checkpoints.CheckpointTimer, "is_due", lambda self: False)  # as many requests in every run
    number = 1 if how == "full" else 1 + STRIDE // 2
    while fails_at(monkeypatch, cell, tmp_path / str(number), number, how):
        number += STRIDE
    assert number > 30


# ---------------------------------------------------------------------------------------------------------------------
# Kills and signals at any moment


class Watch(Silent):
    """What was said to be finished: steps of the sampling phase; a signal after so many."""

    def __init__(self, after=None, number=None):
        self.name, self.finished, self.after, self.number = "", 0, after, number

    def phase(self, name, total):
        self.name = name

    def update(self, done, note, chains):
        if self.name in ("sampling", "iterating"):
            self.finished = done
            if self.after is not None and done >= self.after:
                self.after = None
                os.kill(os.getpid(), self.number)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_is_ctrl_c(tmp_path, monkeypatch, number, capsys):
    """Draws are kept, the way on is said, the exit code is 130, and the end is that of an unbroken run."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("ignored on purpose, as nohup does")
    watch, folder = Watch(20, number), tmp_path / "run"
    monkeypatch.setattr("inference.fitting.fit.Silent", lambda: watch)
    given = [*CELLS["gibbs"], "progress=false", "pictures=false", f"out={folder}"]
    assert guarded(run_main, given) == 130
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    kept = load(folder)["posterior_raw"]["mean"].values
    reached = f"{kept.shape[1]} of 60 draws per chain"
    assert f"interrupted after {reached}, which {folder} keeps; resume={folder} goes on from there" in said.err
    assert goes_on(folder, compose(CELLS["gibbs"]), None) == f"{folder} goes on after {reached}"
    assert 20 <= kept.shape[1] < 60
    np.testing.assert_array_equal(kept, unbroken("gibbs")[0]["posterior_raw"]["mean"].values[:, : kept.shape[1]])
    assert_same(resume(folder), "gibbs")
    assert guarded(run_main, [f"resume={folder}"]) == 2
    assert "that run is finished" in capsys.readouterr().err


@pytest.mark.slow
def test_a_signal_to_an_optimiser(tmp_path, monkeypatch, capsys):
    """The objective so far is kept, and the message says how to go on. What takes long is left out."""
    watch, folder = Watch(1, signal.SIGTERM), tmp_path / "run"
    monkeypatch.setattr("inference.fitting.fit.Silent", lambda: watch)
    given = [*CELLS["em"], "tol=0", "predictive=true", "progress=false", f"out={folder}"]
    assert guarded(run_main, given) == 130
    said = capsys.readouterr()
    assert f"resume={folder} goes on from there" in said.err
    assert "left out, because the run was interrupted: predictive, pictures" in said.out
    assert "failed" not in said.out
    assert "posterior_predictive" not in load(folder)
    assert not list(folder.glob("*.svg"))
    trace = load(folder)["optimization"]["objective"].values
    assert np.isfinite(trace).all()
    assert trace.shape[1] < 2000
    monkeypatch.undo()
    given = [*given[:-1], f"out={tmp_path / 'whole'}"]
    assert guarded(run_main, given) == guarded(run_main, [f"resume={folder}", "progress=false"])
    xr.testing.assert_equal(load(folder), load(tmp_path / "whole"))


def test_a_signal_before_the_fit_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("inference.cli.runs.execute.write_config", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert guarded(run_main, [*CELLS["em"], "progress=false", f"out={tmp_path / 'run'}"]) == 130
    assert not (tmp_path / "run").exists()
    assert "Traceback" not in capsys.readouterr().err


def stop(kind, folder):
    """Ctrl-C, SIGTERM, or an end of the process after which nothing reaches the disk."""
    os.kill(os.getpid(), {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "KILL": signal.SIGUSR1}[kind])


def stopped(monkeypatch, cell, folder, kind, seconds):
    """A run that is stopped after ``seconds``: (its exit code or "killed", steps reported, steps on disk)."""
    disk, watch, written = Disk(folder), Watch(), [0]
    real = checkpoints.store

    def store(path, finished, *rest):
        real(path, finished, *rest)
        if "sampling" in path.name:
            written[0] = finished

    def end(number, frame):
        disk.dead = True  # the next request to it ends the run: an exception out of a signal may leave libraries half-way

    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, end)
    timer = threading.Timer(seconds, stop, (kind, folder))
    try:
        with monkeypatch.context() as patch, watched(patch, disk):
            patch.setattr(checkpoints, "store", store)
            patch.setattr("inference.fitting.fit.Silent", lambda: watch)
            timer.start()
            given = [*CELLS[cell], "progress=false", "pictures=false", f"out={folder}"]
            code = guarded(run_main, given)
    except Killed:
        code = "killed"
    finally:
        timer.cancel()
        timer.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    return code, watch.finished, written[0]


def survive(monkeypatch, cell, folder, kind, seconds, capsys):
    """Stop one run somewhere, look at what is left, and end it: how far it had come."""
    code, reported, written = stopped(monkeypatch, cell, folder, kind, seconds)
    reached = stage(folder)
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    assert code in (0, 3, 130, "killed"), said.err  # 0 and 3: the stop came too late
    if code == "killed" and cell in CHECKPOINTED and written and not (folder / "results.nc").exists():
        (kept,) = folder.glob("checkpoint-sampling-*.npz")
        with np.load(kept) as file:
            assert int(file["finished"]) >= written
    if code == 130 and (folder / "results.nc").exists() and load(folder).attrs["interrupted"]:
        tree = load(folder)
        if cell in CHECKPOINTED:
            raw = "posterior_raw" if cell in ("gibbs", "tempered_gibbs", "nuts") else "posterior"
            assert tree[raw].sizes["draw"] >= reported // (4 if cell == "collapsed_gibbs" else 1)
        if cell in TRACED:
            trace, whole = (one["optimization"]["objective"].values for one in (tree, unbroken(cell)[0]))
            np.testing.assert_array_equal(trace[:, : whole.shape[1]], whole[:, : trace.shape[1]])
    finish(cell, folder, left_behind=code == "killed")
    return reached


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seconds"), [("KILL", 0.3), ("TERM", 0.15), ("INT", 0.5)])
def test_stopped_anywhere(tmp_path, monkeypatch, capsys, kind, seconds):
    unbroken("gibbs")
    reached = survive(monkeypatch, "gibbs", tmp_path / "run", kind, seconds, capsys)
    assert reached in ("nothing", "begun", "result", "whole")


def took(run):
    """Seconds of one run. The fastest of several says how long it takes: a pause of the machine only adds to the others."""
    clock = time.perf_counter()
    run()
    return time.perf_counter() - clock


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_stopped_anywhere_by_any_method(tmp_path, monkeypatch, capsys, cell):
    """At moments spread over the time that a run takes: many of them before it had a result."""
    unbroken(cell)
    whole = min(took(lambda name=name: execute(configured(cell, tmp_path / name))) for name in ("first", "second", "third"))
    rng = np.random.default_rng(sorted(CELLS).index(cell))
    reached = Counter()
    for number in range(STOPS):
        kind = ("KILL", "TERM", "INT")[number % 3]
        reached[
            survive(monkeypatch, cell, tmp_path / str(number), kind, 1.1 * whole * (number + rng.uniform()) / STOPS, capsys)
        ] += 1
    assert reached["nothing"] + reached["begun"] >= 1, reached
    assert reached["whole"] < STOPS, reached
