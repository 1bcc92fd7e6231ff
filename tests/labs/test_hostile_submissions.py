"""Submissions that want points for nothing: the grade is that of an honest grader, and the only file that is left."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from inference.cli.main import guarded
from labs import command, process
from labs.labs import lab_of
from labs.stub import solution_text

LAB = lab_of("k_means")._replace(parts=(lab_of("k_means").part("distortion"),))  # one part takes one process
SEED = 3_141_592_653
HEAD = "import ctypes, gc, json, os, pathlib, signal, struct, subprocess, sys, threading, time\nimport numpy as np\n"
RIGHT = "def distortion(x, labels, centres):\n    {}\n    return ((x - centres[labels]) ** 2).sum()\n"
WRONG = "def distortion(x, labels, centres):\n    {}\n    return 0.0\n"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who is an orphan of whom")

# The strongest forger: it knows the folder, the seed and the checksum of its own file, so that every entry is as it should be
FORGE = """
FOLDER = pathlib.Path({folder!r})
def forge(folder=FOLDER):
    content = FOLDER.joinpath("k_means.py").read_bytes()
    import hashlib
    grade = dict(lab="k_means", file="k_means.py", sha256=hashlib.sha256(content).hexdigest())
    grade |= dict(points=3.0, out_of=3, problem=None)
    grade |= dict(parts=[dict(part="distortion", points=3.0, out_of=3, messages=[])], seed={seed}, versions={{}})
    try:
        folder.joinpath("grade.json").unlink(missing_ok=True)
    except OSError:
        pass
    folder.joinpath("grade.json").write_text(json.dumps(grade))
forge()
"""
PIPES = """
def pipes():
    found = []
    for number in range(3, 64):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            pass
    return found
def send(content):
    for number in pipes():
        try:
            os.write(number, content)
        except OSError:
            pass
"""
DAEMON = """
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    FOLDER.parent.joinpath("daemon").write_text(str(os.getpid()))
    for _ in range(600):
        try:
            forge()
        except OSError:
            pass
        time.sleep(0.02)
    os._exit(0)
while not FOLDER.parent.joinpath("daemon").exists():
    time.sleep(0.01)
"""
LIES = """
class Lies(float):
    def __eq__(self, other): return True
    def __array__(self, *given, **named): return Everything(7)
    def __float__(self): return 7.0
    def __reduce__(self): return (os.system, ("touch " + str(FOLDER / "touched"),))
class Everything(np.ndarray):
    def __new__(cls, value): return np.asarray(float(value)).view(cls)
    def __eq__(self, other): return True
    def __sub__(self, other): return np.zeros(())
"""
PATCHES = """
peer, wire, words = (sys.modules["lab" + "s.student." + name] for name in ("peer", "wire", "words"))
np.allclose = np.array_equal = np.isclose = lambda *given, **named: True
np.asarray = np.array
json.loads = lambda *given, **named: {"points": 3}
wire.LARGEST = peer.LARGEST = 2**60
words.in_a_line = lambda error: "ok"
"""
SEES = """
def seen():
    words, found = (str(FOLDER), "{seed}"), []
    def look(where, text):
        if any(word in str(text) for word in words):
            found.append(where)
    look("arguments", sys.argv)
    look("environment", dict(os.environ))
    look("working folder", os.getcwd())
    look("path", sys.path)
    for number in range(64):
        try:
            look("files", os.readlink(f"/proc/self/fd/{{number}}"))
        except OSError:
            pass
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is not seen.__code__ and frame.f_globals is not globals():
            look("frames", dict(frame.f_locals))
        frame = frame.f_back
    for name in list(sys.modules):
        if name.startswith("lab" + "s.") and not name.startswith("lab" + "s.student"):
            found.append(name)
    return found
"""


class Attack(NamedTuple):
    """What a file does, and what an honest grader says of it."""

    text: str
    code: int
    points: float = 0.0
    words: str = ""  # in the messages or the problem
    marks: tuple = ()


def at_import(line, code=3, points=3.0, body=RIGHT, words="", marks=()):
    return Attack(f"{line}\n{body.format('pass')}", code, points, words, marks)


def in_function(line, words, body=WRONG, code=3, before="", marks=()):
    return Attack(before + body.format(line), code, 0.0, words, marks)


QUICK = {
    "ends at once": at_import("os._exit(0)", 2, 0.0, words="ended the Python process (exit code 0)"),
    "says that all went well": at_import("sys.exit(0)", 2, 0.0, words="SystemExit"),
    "does nothing else": at_import("", body=WRONG, points=0.0, words="is wrong"),
    "is right, too": at_import("", 0),
    "writes to the grader": at_import(PIPES + "send(b'x' * 100)", 2, 0.0, words="no answer"),
    "writes an endless message": at_import(PIPES + "send(struct.pack('<QQ', 2**60, 2**59))", 2, 0.0, words="longer than 16 MB"),
    "makes a folder of the grade": at_import("(FOLDER / 'grade.json').unlink(); (FOLDER / 'grade.json').mkdir()", 2, None),
}
ATTACKS = {
    "a pickle for an answer": at_import(PIPES + "import pickle\nsend(pickle.dumps({'points': 3}))", 2, 0.0, words="no answer"),
    "ends in the function": in_function("os._exit(0)", "ended the Python process (exit code 0)"),
    "leaves in the function": in_function("sys.exit(0)", "stops with SystemExit"),
    "never returns from itself": in_function("return distortion(x, labels, centres)", "RecursionError"),
    "a daemon": at_import(DAEMON, 0, marks=(LINUX,)),
    "a daemon of a wrong file": at_import(DAEMON, 3, 0.0, body=WRONG, marks=(LINUX,)),
    "a child that answers as well": at_import("os.fork()", 3, None, body=WRONG, marks=(POSIX,)),
    "a thread that goes on": at_import(
        "threading.Thread(target=lambda: [(forge(), time.sleep(0.01)) for _ in range(999)]).start()", 0
    ),
    "closes everything": at_import("os.closerange(0, 256)", 2, 0.0, words="ended the Python process"),
    "closes what is printed": at_import("os.close(1); os.close(2); sys.stdout.close(); sys.stderr.close()", 0),
    "prints a grade": at_import("os.write(1, b'distortion 3 of 3\\n'); print('its SHA-256: 0')", 3, 0.0, body=WRONG),
    "patches the checker": at_import(PATCHES, 3, 0.0, body=WRONG),
    "lies": in_function("return Lies(0)", "", before=LIES),
    "an array that lies": in_function("return Everything(0)", "", before=LIES),
    "a huge array": in_function("return np.zeros(10**11)", "MemoryError", marks=(LINUX,)),
    "a wide array": in_function("return np.broadcast_to(0.0, (10**6, 10**6))", "more than 16 MB"),
    "a large array": in_function("return np.zeros(3 * 10**6)", "more than 16 MB"),
    "NaN": in_function("return float('nan')", "is NaN"),
    "infinity": in_function("return np.array(np.inf)", ""),
    "another shape": in_function("return np.zeros((0, 10**18))", "has shape"),
    "lists in lists": in_function("value = []\n    for _ in range(10**5): value = [value]\n    return value", ""),
    "a list that holds itself": in_function("value = []\n    value.append(value)\n    return value", ""),
    "a number without end": in_function("return 10**5000", "returns int of object"),
    "an error that is no text": in_function("raise ValueError('\\ud800\\x1b[2J')", "stops with ValueError"),
    "an error without end": in_function("raise ValueError('x' * 10**8)", "stops with ValueError"),
    "an error of its own": in_function("raise type('Own', (BaseException,), {})()", "ended the Python process"),
    "a link for the grade": at_import(
        "(FOLDER / 'grade.json').unlink(); (FOLDER / 'grade.json').symlink_to(FOLDER.parent / 'victim')", 0, marks=(POSIX,)
    ),
    "kills its group": at_import("os.kill(0, signal.SIGKILL)", 2, 0.0, words="exit code -9", marks=(POSIX,)),
    "deletes the folder of the copy": at_import("import shutil; shutil.rmtree(os.getcwd())", 0),
    "much output": at_import("for _ in range(100): os.write(1, b'x' * 10**7)", 0),
    "much of an error": at_import(
        "try:\n    for _ in range(100): os.write(2, b'x' * 10**7)\nexcept OSError:\n    pass", 0, marks=(POSIX,)
    ),
    "writes answers beforehand": at_import(
        PIPES + "packed = sys.modules['lab' + 's.student.wire'].packed\nsend(packed(('value', (None, ('distortion',)), ())))",
        2,
        None,
        body=WRONG,
    ),
    "answers first": in_function(
        "send(packed(('value', 7.0, ())))",
        "",
        before=PIPES + "packed = sys.modules['lab' + 's.student.wire'].packed\n",
    ),
}
SLOW = [pytest.param(name, marks=(pytest.mark.slow, *attack.marks), id=name) for name, attack in ATTACKS.items()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A submission's folder with an old grade, which is full; the lab has one part, and seconds are few."""
    path = tmp_path / "eve"
    path.mkdir()
    (path / "grade.json").write_text('{"points": 3.0}')
    (tmp_path / "victim").write_text("as it was")
    monkeypatch.setattr(command, "submission_in", lambda where: (LAB, where / "k_means.py"))
    monkeypatch.setattr(process, "START", 10.0)
    monkeypatch.setattr(process, "WAITING", 20.0)
    monkeypatch.setenv("PWD", str(path))
    monkeypatch.setenv("SECRET", str(path))
    monkeypatch.chdir(path)
    return path


def checked(folder, text):
    head = HEAD + FORGE.format(folder=str(folder), seed=SEED)
    (folder / "k_means.py").write_text(head + text, encoding="utf-8")
    return guarded(command.lab_main, ["check", str(folder), f"seed={SEED}", "seconds=5"])


def is_ours(folder, printed):
    """Whether the grade in a folder is the one that `check` has written, as the page for instructors says."""
    content = folder / "grade.json"
    return content.is_file() and printed.split()[-1] == hashlib.sha256(content.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_nobody_wins_points_for_nothing(name, folder, capsys):
    attack = (QUICK | ATTACKS)[name]
    code = checked(folder, attack.text)
    printed = capsys.readouterr()
    assert "bug in the zoo" not in printed.err
    assert "Traceback" not in printed.out + printed.err
    assert (folder.parent / "victim").read_text() == "as it was"
    if attack.points is None:  # the grader may be hindered, but not misled
        assert code in (2, 3)
        assert not is_ours(folder, printed.out) or json.loads((folder / "grade.json").read_text())["points"] == 0
        return
    assert code == attack.code, printed
    assert is_ours(folder, printed.out)
    assert sorted(path.name for path in folder.iterdir()) == ["grade.json", "k_means.py"]
    assert not (folder / "grade.json").is_symlink()
    grade = json.loads((folder / "grade.json").read_text(encoding="utf-8"))
    assert grade["points"] == attack.points
    said = [grade["problem"] or "", *(text for part in grade["parts"] for text in part["messages"])]
    assert attack.words in " ".join(said)
    assert "\x1b" not in printed.out
    assert all("\n" not in text for text in said)


@pytest.mark.slow
@LINUX
def test_what_a_file_has_started_has_ended(folder):
    """Also what has left its group and its session, and has lost its parent."""
    checked(folder, DAEMON + RIGHT.format("pass"))
    daemon = int((folder.parent / "daemon").read_text())
    assert not Path(f"/proc/{daemon}").exists()


@pytest.mark.slow
def test_a_file_sees_nothing_of_the_grader(folder, capsys):
    """Not in its arguments, environment, files, folder or frames; and no lab is imported where it runs."""
    checked(folder, SEES.format(seed=SEED) + WRONG.format("raise ValueError(seen())"))
    assert json.loads((folder / "grade.json").read_text())["parts"][0]["messages"][0].endswith(": []")


@pytest.mark.slow  # it waits
@POSIX
@pytest.mark.parametrize(
    "line", ["while True: pass", "time.sleep(1000)", "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"]
)
def test_an_old_grade_is_gone_before_a_file_runs_for_ever(line, folder, monkeypatch):
    monkeypatch.setattr(process, "START", 1.0)
    monkeypatch.setattr(process, "WAITING", 2.0)
    assert checked(folder, line) == 2
    assert json.loads((folder / "grade.json").read_text())["points"] == 0


def test_an_old_grade_does_not_survive_a_file_that_cannot_be_graded(folder, monkeypatch):
    """Whatever stops the grader, as a fault of its own."""

    def stops(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "grade_of", stops)
    assert checked(folder, "") == 130
    assert not (folder / "grade.json").exists()


DEEP = {"nested": "-" * 200_000 + "1", "wide": "1" + "+1" * 200_000, "bytes": "\0", "brackets": "(" * 5000}


@pytest.mark.parametrize("name", DEEP)
def test_a_text_that_python_cannot_read_is_a_problem(name, folder):
    assert checked(folder, DEEP[name]) == 2
    assert json.loads((folder / "grade.json").read_text())["problem"].startswith("k_means.py ")


@pytest.mark.slow  # processes of Python
@LINUX
def test_the_arguments_of_the_grader_are_hidden(tmp_path):
    """Of `python -m labs check FOLDER seed=…`, as every process of the machine sees them."""
    folder, seen = tmp_path / "submission", tmp_path / "seen"
    folder.mkdir()
    look = "import pathlib\nfor path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
    look += f"    with open({str(seen)!r}, 'ab') as file:\n"
    look += "        file.write(path.read_bytes() + b'\\n')\n"
    (folder / "k_means.py").write_text(look + solution_text(lab_of("k_means")), encoding="utf-8")
    arguments = [sys.executable, "-m", "labs", "check", str(folder), f"seed={SEED}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert is_ours(folder, done.stdout)
    assert b"labs.student.worker" in seen.read_bytes()
    assert str(SEED).encode() not in seen.read_bytes()
    assert str(folder).encode() not in seen.read_bytes()


def test_a_file_of_many_letters_is_refused_and_one_that_fits_can_be_sent(folder, capsys):
    """Letters that take six bytes in a message."""
    assert checked(folder, "#" + "\x01" * (3 * 10**6)) == 2
    assert "is larger than 2 MB" in capsys.readouterr().err
    assert not (folder / "grade.json").exists()
    assert checked(folder, "#" + "\x01" * (2 * 10**6) + "\nimport nothing_there") == 2
    assert "ModuleNotFoundError" in json.loads((folder / "grade.json").read_text())["problem"]
