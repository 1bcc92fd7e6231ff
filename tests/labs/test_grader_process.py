"""The grader's own process: its memory is closed, its limits hold, and what it lends leads to nothing else."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from inference.cli.main import guarded
from labs import command, process
from labs.labs import lab_of
from labs.stub import solution_text

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux closes the memory of a process to its user")

READS = """
import os, pathlib
found, parent = [], pathlib.Path(f"/proc/{os.getppid()}")
for name in ("environ", "maps", "fd/0", "cwd"):
    try:
        if os.readlink(parent / name) if name in ("fd/0", "cwd") else open(parent / name, "rb").read(1):
            found.append(name)
    except OSError:
        pass
print(found)
"""
GIVES_UP = """
import ctypes, os, sys
for right in (19, 21, 38):  # of root: it and what it starts may then look into others only as a user may
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
GUARDS = """
import subprocess, sys
from contextlib import nullcontext
from labs.hidden import guarded_memory
with guarded_memory() if sys.argv[2] == "guarded" else nullcontext():
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


@pytest.mark.slow  # processes of Python
@LINUX
@pytest.mark.parametrize(("how", "seen"), [("guarded", []), ("open", ["environ", "maps", "fd/0", "cwd"])])
def test_the_memory_of_the_grader_is_closed_to_its_user(how, seen):
    """Root may look into every process, unless it gives that right up."""
    done = subprocess.run([sys.executable, "-c", GIVES_UP, GUARDS, READS, how], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(seen)


@pytest.mark.slow  # processes of Python
@POSIX
def test_who_kills_the_grader_has_no_grade(tmp_path):
    folder = tmp_path / "submission"
    folder.mkdir()
    (folder / "grade.json").write_text('{"points": 20.0}')
    (folder / "k_means.py").write_text("import os, signal\nos.killpg(os.getpgid(os.getppid()), signal.SIGKILL)\n")
    arguments = [sys.executable, "-m", "labs", "check", str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, start_new_session=True)
    assert done.returncode == -signal.SIGKILL
    assert not done.stdout
    assert not (folder / "grade.json").exists()


@pytest.mark.slow  # a whole grade
def test_a_finished_function_that_is_lent_leads_to_no_other(tmp_path):
    """`assign` is not written, so that the key's is called for it, from a process of its own."""
    text = solution_text(lab_of("k_means"))
    own = text.partition("def assign(")[0]
    own += "def assign(x, centres):\n    raise NotImplementedError\n\n\n"
    own += "def move(x, labels, centres):\n    return assign.__globals__['move'](x, labels, centres)\n\n\n"
    own += "def distortion(x, labels, centres):\n    return assign.peer.call('distortion', (x, labels, centres))\n\n\n"
    own += "def k_means(*given):\n    return 0.0\n"
    path = tmp_path / "k_means.py"
    path.write_text(own, encoding="utf-8")
    assert guarded(command.lab_main, ["check", str(path)]) == 3
    assert json.loads((tmp_path / "grade.json").read_text())["points"] == 0


def test_limits_of_the_clock_hold_where_nobody_reads(tmp_path, monkeypatch):
    """Of a process that does not take what it is sent."""
    monkeypatch.setattr(process, "START", 0.5)
    monkeypatch.setattr(process, "WAITING", 0.5)
    path = tmp_path / "k_means.py"
    path.write_text("")
    begun = time.monotonic()
    with process.StudentProcess(path, 0.5) as student:
        os.kill(student._process.pid, signal.SIGSTOP)
        with pytest.raises(process.EndedError) as error:
            student.load("#" * 10**7, {})
    assert error.value.reason == "sleeps"
    assert time.monotonic() - begun < 15
