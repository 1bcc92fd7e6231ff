"""One process a folder, whoever comes and goes; `fit` holds the folder that it is given."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from naive import SHORT, build, table, two_groups

from inference import fit
from inference.runtime import checkpoints, lock, loop
from inference.runtime import files as store
from inference.runtime.files import NotWrittenError
from inference.runtime.lock import held_or_locked, locked
from models import ZooError

ROOT = Path(__file__).parents[3]
X = two_groups(40)


def test_one_process_a_folder(tmp_path):
    """The second is told who is there; afterwards, and after a process that was killed, the folder is free."""
    with locked(tmp_path):
        with pytest.raises(ZooError, match=rf"in use by process {os.getpid()} on .* since"), locked(tmp_path):
            pass
        assert (tmp_path / store.LOCK).exists()
        with held_or_locked(tmp_path):
            pass
        assert (tmp_path / store.LOCK).exists()
    assert not (tmp_path / store.LOCK).exists()
    (tmp_path / store.LOCK).write_text("process 1 on a machine that was switched off")
    with locked(tmp_path):
        pass


def compete(folder, rounds, inside, most, taken):
    for _ in range(rounds):
        try:
            with locked(folder):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                most.append(len(inside))
                taken.append(1)
                inside.pop()
        except ZooError:
            time.sleep(0.0003)


def crowd(folder, rounds=40):
    """Threads that take and give back the lock: (most at once, how often it was taken)."""
    inside, most, taken = [], [], []
    threads = [threading.Thread(target=compete, args=(folder, rounds, inside, most, taken)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(most), len(taken)


def test_a_lock_is_held_by_one_of_many(tmp_path, monkeypatch):
    """Never by two at once, as they are where nothing locks."""
    most, taken = crowd(tmp_path)
    assert most == 1
    assert taken >= 4
    monkeypatch.setattr(lock, "_take", lambda file: None)
    assert crowd(tmp_path)[0] > 1


COMPETITOR = """
import os, sys, time
from contextlib import suppress
from pathlib import Path
from inference.runtime.lock import locked
from models import ZooError
folder, log = Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
end = time.time() + 2
while time.time() < end:
    try:
        with locked(folder, lambda: folder.mkdir(exist_ok=True)):
            os.write(log, b"(")
            time.sleep(0.002)
            os.write(log, b")")
        if sys.argv[3] == "leaves":
            with suppress(OSError):
                folder.rmdir()
    except ZooError:
        time.sleep(0.0005)
"""


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["stays", "leaves"])
def test_a_lock_is_held_by_one_process_of_many(tmp_path, manner):
    """With real processes, also where one who leaves removes the folder: no two inside, and no traceback."""
    (tmp_path / "folder").mkdir()
    command = [sys.executable, "-c", COMPETITOR, str(tmp_path / "folder"), str(tmp_path / "log"), manner]
    processes = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert "".join([process.communicate()[1] for process in processes]) == ""
    said = (tmp_path / "log").read_text()
    assert "((" not in said
    assert said.count("(") > 20


def test_a_lock_that_goes_while_it_is_looked_at(tmp_path, monkeypatch):
    """Its last holder removes the file, and then the folder, between two looks."""
    real, seen = os.path.samestat, []

    def samestat(*found):
        if not seen:
            seen.append(1)
            raise FileNotFoundError
        return real(*found)

    monkeypatch.setattr(os.path, "samestat", samestat)
    with locked(tmp_path):
        assert (tmp_path / store.LOCK).exists()
    folder = tmp_path / "gone"
    with locked(folder, lambda: folder.mkdir()):
        assert folder.is_dir()
    with pytest.raises(NotWrittenError), locked(tmp_path / "never"):
        pass


def test_fit_holds_its_folder(tmp_path):
    """It is there, it can be written to and it is nobody else's, before anything is computed."""
    given = {"method": "gibbs", **SHORT["gibbs"]}

    class Never:
        def phase(self, name, total):
            pytest.fail(f"begun: {name}")

    model, data = build(X, "diag"), table(X)
    with pytest.raises(ZooError, match="there is no such folder"):
        fit(model, data, folder=tmp_path / "nowhere", progress=Never(), **given)
    (tmp_path / store.LOCK).mkdir()
    with pytest.raises(NotWrittenError, match="cannot be written"):
        fit(model, data, folder=tmp_path, progress=Never(), **given)
    (tmp_path / store.LOCK).rmdir()
    found = []

    def elsewhere():
        with pytest.raises(ZooError, match="in use by"):
            fit(model, data, folder=tmp_path, progress=Never(), **given)
        found.append("refused")

    with locked(tmp_path):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == ["refused"]


@pytest.mark.parametrize("phase", ["warmup", "sampling"])
def test_checkpoints_of_other_runs_are_found_at_once(tmp_path, phase):
    class Never:
        def phase(self, name, total):
            pytest.fail(f"begun: {name}")

    (tmp_path / f"checkpoint-{phase}-0123456789ab.npz").touch()
    with pytest.raises(ZooError, match=f"checkpoint-{phase}-0123456789ab.npz belongs to a run with other data"):
        fit(build(X, "diag"), table(X), method="gibbs", folder=tmp_path, progress=Never(), **SHORT["gibbs"])


def test_draws_outlive_their_last_checkpoint(tmp_path, monkeypatch):
    """They are complete in memory."""

    def full(*_):
        raise NotWrittenError("full")

    monkeypatch.setattr(checkpoints, "store", full)
    state = np.zeros((2, 1))
    given = (tmp_path / "checkpoint-sampling-abc.npz", 0, 5, 1.0, state, [])
    with pytest.warns(RuntimeWarning, match="returned without a checkpoint"):
        checkpoints.store_last(*given, draws=True)
    with pytest.raises(NotWrittenError):
        checkpoints.store_last(*given, draws=False)
    assert loop.store_last is checkpoints.store_last
