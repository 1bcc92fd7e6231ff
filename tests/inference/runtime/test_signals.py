"""Signals: none is forgotten, none counts twice, what is ignored on purpose stays so, and what ended a run is told."""

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import jax
import numpy as np
import pytest
from naive import SHORT, build, table, two_groups
from quick_runs import QUICK

from inference import fit
from inference.cli.main import compare_main, guarded, run_main
from inference.engine import driver as chains
from inference.engine.quasi_newton import minimise
from inference.engine.task import Task
from inference.fitting import fit as fitting
from inference.methods import collapsed_gibbs
from inference.results import load
from inference.runtime import signals
from inference.runtime.checkpoints import Checkpoint, restore
from inference.runtime.progress import Silent
from inference.runtime.signals import ended_by_signals, interrupt_behind, interruptible, repeat_lost_interrupts
from models import ZooError

ROOT = Path(__file__).parents[3]
X = two_groups(40)


def send(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.fixture
def _stopped_late(monkeypatch):
    """A SIGTERM in every fit, when all of its steps are done."""
    real = fitting.evaluated

    def evaluated(*arguments):
        send()
        return real(*arguments)

    monkeypatch.setattr(fitting, "evaluated", evaluated)


@pytest.mark.slow
@pytest.mark.usefixtures("_stopped_late")
@pytest.mark.parametrize("main", [run_main, compare_main])
def test_a_signal_during_evaluation_ends_a_sweep(tmp_path, capsys, main):
    """The result in hand is on disk, whole and not called interrupted; the next one is not begun."""
    flags = ["-m", "seed=0,1"] if main is run_main else ["model.num_components=2,3"]
    assert guarded(main, [*flags, *QUICK[:-2], "method=em", f"out={tmp_path}"]) == 130
    said = capsys.readouterr().err
    (folder,) = (path.parent for path in tmp_path.rglob("results.nc"))
    assert f"interrupted; resume={folder} writes what is missing" in said
    assert not load(folder).attrs["interrupted"]
    assert guarded(run_main, [f"resume={folder}", "progress=false"]) == 0


@pytest.mark.usefixtures("_stopped_late")
def test_a_signal_during_evaluation_ends_a_loop():
    with pytest.raises(KeyboardInterrupt):
        fit(build(X, "diag"), table(X), method="em", **SHORT["em"])


@pytest.mark.usefixtures("_stopped_late")
def test_a_signal_during_evaluation_leaves_out_what_takes_long():
    """Data are not drawn any more, and the result says so; it holds all that is computed by then."""
    tree = fit(build(X, "diag"), table(X), method="em", predictive=True, **SHORT["em"])
    assert (tree.attrs["interrupted"], tree.attrs["left_out"]) == (1, "predictive")
    assert not {"prior", "posterior_predictive"} & set(tree.children)
    assert {"point_estimate", "functionals", "latent"} <= set(tree.children)


def test_one_signal_that_comes_twice_is_one():
    """As under ``uv run``, which hands on what the process group has had already."""
    with interruptible() as stop:
        for _ in range(3):
            send()
        stop.heeded = True
    with ended_by_signals():
        with interruptible() as stop:
            send()
            stop.heeded = True
        send()  # the same one, after the fit
    with interruptible() as stop:
        send()
        signals._Current.last -= 2 * signals.REPEAT
        with pytest.raises(KeyboardInterrupt):
            send()
        stop.heeded = True
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        send()


class Collected:
    """Something with a weak reference."""


def lose_one():
    """A signal whose KeyboardInterrupt is raised inside the callback of a weak reference."""
    thing = Collected()
    watching = weakref.ref(thing, lambda _: send(signal.SIGINT))
    del thing
    time.sleep(30)
    return watching


def test_a_signal_inside_a_callback_is_not_lost(capfd):
    """Python drops what a callback of a weak reference raises: it prints a traceback, and goes on."""
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        lose_one()
    assert "Traceback" not in capfd.readouterr().err


def test_a_signal_between_two_jobs_is_not_lost_either(capfd, monkeypatch):
    """Nothing handles signals there, and the hook stays, however often it is asked for. Other errors go where they went."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    for _ in range(2):
        repeat_lost_interrupts()
    with pytest.raises(KeyboardInterrupt):
        lose_one()
    assert not said
    thing = Collected()
    watching = weakref.ref(thing, lambda _: 1 / 0)
    del thing
    assert watching() is None
    assert [type(lost.exc_value) for lost in said] == [ZeroDivisionError]
    assert "Traceback" not in capfd.readouterr().err


def test_ignored_signals_stay_ignored(monkeypatch):
    """As in the background of a shell; and those of C, which Python cannot put back, stay with it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as stop:
            send(signal.SIGINT)
            assert not stop.is_set()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    assert signals.stop_signals() == ()


class Finishing(Silent):
    """A signal when the last step is reported."""

    def __init__(self, total):
        self.total = total

    def update(self, done, note, chains):
        if done >= self.total:
            send()


def test_a_finished_run_is_not_called_interrupted(tmp_path):
    def step(static, arrays, key, state):
        return state + 1, state, state.sum() > 1e9

    state = np.zeros((2, 1))
    with interruptible() as stop:
        run = chains.drive(step, None, (), jax.random.PRNGKey(0), state, 5, Finishing(5), "sampling")
        assert stop.is_set()
        assert (run.num_steps, run.interrupted) == (5, False)
        stop.heeded = True
    task = Task(*[None] * 7, Finishing(3))
    with interruptible() as stop:
        found = collapsed_gibbs._run(task, "sampling", lambda state, done, n: (state, np.zeros(2)), state, 3, 1, 0.0)
        assert stop.is_set()
        assert (found[1].shape, found[3]) == ((2, 3), False)
        stop.heeded = True
    with pytest.raises(KeyboardInterrupt):
        minimise(_square, None, np.ones(1), {"x": np.ones((1, 2))}, 1, 0.0, Finishing(1))
    with interruptible() as stop:
        minima = minimise(_square, None, np.ones(1), {"x": np.ones((2, 2))}, 1, 0.0, Finishing(1))
        assert (minima.interrupted, stop.heeded) == (True, True)


def _square(static, arrays, point):
    return ((point["x"] - arrays) ** 4).sum() + (point["x"][0] - point["x"][1]) ** 2 + point["x"].sum()


class Twice(Silent):
    def update(self, done, note, chains):
        if done >= 3:
            raise KeyboardInterrupt  # as a second signal does


def test_a_second_signal_keeps_what_was_finished(tmp_path):
    def step(static, arrays, key, state):
        return state + 1, state, state.sum() > 1e9

    state, path = np.zeros((2, 1)), tmp_path / "checkpoint-sampling-abc.npz"
    with pytest.raises(KeyboardInterrupt):
        chains.drive(step, None, (), jax.random.PRNGKey(0), state, 500, Twice(), "sampling", checkpoint=Checkpoint(path))
    finished, _, kept, _ = restore(path, state, np.zeros(1), 500)
    assert 3 <= finished < 500
    np.testing.assert_array_equal(kept, np.full((2, 1), finished))

    task = Task(*[None] * 7, Twice(), tmp_path, "abc")
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        collapsed_gibbs._run(task, "sampling", lambda state, done, n: (state + n, np.zeros(2)), state, 500, 1, 0.0)
    assert restore(path, state, 0.0, 500)[0] == 3


@pytest.mark.parametrize("cover", [RuntimeError, ZooError])
def test_an_interrupt_under_another_exception_is_one(tmp_path, monkeypatch, capsys, cover):
    """No log of a fault, no exit code of a mistake, and the way on."""

    def views(*_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stop:
            raise cover("damaged, says a reader") from stop

    monkeypatch.setattr("inference.cli.runs.execute.write_views", views)
    assert guarded(run_main, [*QUICK, f"out={tmp_path / 'run'}"]) == 130
    assert f"interrupted; resume={tmp_path / 'run'} writes what is missing" in capsys.readouterr().err
    assert not (tmp_path / "run" / "error.log").exists()


def test_other_threads_get_no_signals():
    found = []

    def work():
        with interruptible() as stop:
            found.append(stop.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


# ---------------------------------------------------------------------------------------------------------------------
# Standard output that takes nothing


@pytest.mark.parametrize("main", ["run", "compare"])
@pytest.mark.parametrize("place", ["> /dev/full", "| true"])
def test_standard_output_that_is_full_or_closed(main, place):
    """One message and exit code 2, never a traceback, a fault, or silence."""
    command = f"set -o pipefail; (sleep 0.2; {sys.executable} -m inference.{main} --help) {place}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2, done
    assert done.stderr.startswith("error: standard output cannot be written: ")
    assert done.stderr.count("\n") == 1


def test_a_table_that_nobody_reads(tmp_path, capfd, monkeypatch):
    """What rich prints, as what print prints."""
    assert guarded(run_main, [*QUICK, f"out={tmp_path / 'run'}"]) == 0
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert guarded(compare_main, [str(tmp_path / "run")]) == 2
    assert "No space left on device" in capfd.readouterr().err


def test_a_result_that_nobody_reads_is_written_all_the_same(tmp_path, capfd, monkeypatch):
    """Standard output ends while the result is printed: every file is there, and one message says what is lost."""
    folder = tmp_path / "run"
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert guarded(run_main, [*QUICK, f"out={folder}"]) == 2
    message = capfd.readouterr().err
    assert "standard output cannot be written" in message
    assert "a bug in the zoo" not in message
    assert {"results.nc", "summary.csv", "assignments.csv", "report.html", "manifest.json"} <= {
        path.name for path in folder.iterdir()
    }


def test_a_name_that_is_too_long(capsys):
    assert guarded(compare_main, ["x" * 300]) == 2
    assert "is neither the folder of a run nor an option" in capsys.readouterr().err


def test_an_end_inside_a_run_is_a_fault(capsys):
    def ends(arguments):
        sys.exit(0)

    assert guarded(ends, []) == 1
    assert "a bug in the zoo: SystemExit" in capsys.readouterr().err


def test_an_error_that_came_of_an_interrupt_is_an_interrupt(capsys):
    """A library that cleans up after Ctrl-C may raise an error of its own; without one the same error is a bug of the zoo."""

    def failing(arguments):
        try:
            if arguments:
                raise KeyboardInterrupt("interrupted; here is how to go on")
        finally:
            raise UnboundLocalError("f")

    assert guarded(failing, ["stop"]) == 130
    assert "here is how to go on" in capsys.readouterr().err
    assert guarded(failing, []) == 1
    assert "a bug in the zoo" in capsys.readouterr().err


def test_an_error_that_is_its_own_cause_has_no_interrupt_behind():
    error = ValueError("of itself")
    error.__cause__ = error
    assert interrupt_behind(error) is None
    stop = KeyboardInterrupt()
    error.__cause__ = stop
    assert interrupt_behind(error) is stop
