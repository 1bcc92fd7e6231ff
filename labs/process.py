"""A student's process from the grader's side: what it gets, how long it may take, and how it ends.

It gets the file and the arguments of calls. The seed, the cases, the key and the folder of the grade stay in the grader.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from types import SimpleNamespace, TracebackType
from typing import Any, Literal

from inference.runtime.formats.texts import visible
from labs.hidden import end_orphans, strangers
from labs.parts.calls import AnswerError, NotWrittenError
from labs.student.peer import Peer, RemoteError
from labs.student.wire import WireError

WORKER = "labs.student.worker"
START = 20.0  # seconds of computing that Python and the imports of a student's file may take, beside those of the part
WAITING = 60.0  # seconds more by the clock: a busy machine computes slowly, but what sleeps must end, too
MOST_NAMES = 10_000  # of functions of a file
ALL = 512 * 2**20  # bytes that the answers of one part may have together
LOOK = 100  # milliseconds between two looks at the clock
PIECE = 2**16
WAITS = "does a loop never end, or does it wait for something? (seconds= gives more time)"
COMPUTES = "does a loop never end? (seconds= gives more time)"
LAST, LETTERS = 3, 2000  # lines and bytes of what a crashed process said
# Variables that a student's process keeps: others may hold folders or passwords
KEPT = {"PATH", "HOME", "USERPROFILE", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "VIRTUAL_ENV"}
KEPT |= {"CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
KEPT_KINDS = ("LC_", "PYTHON", "JAX_", "XLA_", "ZOO_")

Reason = Literal["crashes", "computes", "sleeps", "talks", "tampers"]


def in_one_line(text: str) -> str:
    """What a student's process says, which may be anything, as one line that a screen can show."""
    return visible(" ".join(text.split()))


class EndedError(BaseException):
    """A student's process gives no answers any more. It is no `Exception`: no part takes it for an error of a function."""

    def __init__(self, reason: Reason, said: str) -> None:
        super().__init__(said)
        self.reason = reason
        self.said = in_one_line(said)  # to the student, after the name of the function or file


class StudentProcess:
    """A process that serves the functions of a file. It has ended, and so have its children, where the block ends."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._bytes = 0
        self._read_ahead = bytearray()

    def __enter__(self) -> "StudentProcess":
        self._known = strangers()
        self._patience = self._seconds + START + WAITING  # seconds that the grader still waits; its own work takes none of them
        self._errors = tempfile.TemporaryFile()  # no pipe: a process that the student's file starts may hold it open
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER, self._path.name, str(self._seconds + START)],
            cwd=self._path.parent,
            env=_environment(),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        if sys.platform == "win32":  # nobody can wait for its pipes: they are read until the process is killed
            self._timer = Timer(self._patience, self._give_up)
            self._timer.start()
        else:
            for pipe in (self._in, self._out):
                os.set_blocking(pipe, False)
        self._peer = Peer(self._read, self._write, {})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._errors.close()

    def load(self, text: str, lent: Mapping[str, Callable[..., Any]]) -> tuple[str | None, tuple[str, ...]]:
        """Why the text cannot be loaded, and the names of its functions. Raises `EndedError`."""
        match self.call("load", (text, tuple(lent.items()))):
            case (None | str() as problem, tuple() as names) if all(isinstance(name, str) for name in names):
                known = tuple(name for name in names[:MOST_NAMES] if name.isidentifier())
                return None if problem is None else in_one_line(problem), known
        raise EndedError("tampers", "says of itself what cannot be read")

    def functions(self, names: Iterable[str]) -> SimpleNamespace:
        """What looks like the functions of the file. They raise `AnswerError`, `NotWrittenError` and `EndedError`."""
        return SimpleNamespace(**{name: self._function(name) for name in names})

    def call(self, name: str, given: tuple[Any, ...], named: Mapping[str, Any] | None = None) -> Any:
        """What a function returns. Raises `RemoteError` for what it raises, and `EndedError`."""
        try:
            return self._peer.call(name, given, named)
        except WireError as error:
            raise EndedError("tampers", f"writes into the pipe of the grader what is no answer: {error}") from error

    def _function(self, name: str) -> Callable[..., Any]:
        def function(*given: Any, **named: Any) -> Any:
            try:
                return self.call(name, given, named)
            except RemoteError as error:
                if error.kind == NotImplementedError.__name__:
                    raise NotWrittenError(in_one_line(error.function)) from error
                raise AnswerError(in_one_line(f"stops with {error.line}" if error.kind else error.line)) from error

        return function

    def _read(self, size: int) -> bytes:
        while len(self._read_ahead) < size:
            self._wait(self._out, reads=True)
            with suppress(BlockingIOError):
                piece = os.read(self._out, PIECE)
                if not piece:
                    raise self._crash()
                self._read_ahead += piece
                self._bytes += len(piece)
        if self._bytes > ALL:
            raise EndedError("talks", f"returns more than {ALL // 2**20} MB in all")
        found = bytes(self._read_ahead[:size])
        del self._read_ahead[:size]
        return found

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        while len(rest):
            self._wait(self._in, reads=False)
            try:
                rest = rest[os.write(self._in, rest[:PIECE]) :]
            except BlockingIOError:
                continue
            except OSError as error:  # nobody reads it any more
                raise self._crash() from error

    def _wait(self, pipe: int, reads: bool) -> None:
        """Until a pipe is ready, or may be. Raises `EndedError` where time is over, or the process is."""
        while True:
            if self._patience < 0:
                raise self._late()
            begun = time.monotonic()
            ready = _ready(pipe, reads)
            self._patience -= time.monotonic() - begun
            if ready:
                return
            if self._process.poll() is not None and not _ready(pipe, reads):  # a child of its own holds the pipe
                raise self._crash()

    def _give_up(self) -> None:
        self._patience = -1.0
        self._process.kill()

    def _late(self) -> EndedError:
        whole = self._seconds + START + WAITING
        return EndedError("sleeps", f"does not end within {whole:g} seconds by the clock: {WAITS}")

    def _crash(self) -> EndedError:
        """Why there are no more answers."""
        self._end()
        if self._patience < 0:
            return self._late()
        code = self._process.returncode
        if code == -getattr(signal, "SIGXCPU", 0) != 0:
            return EndedError("computes", f"takes more than {self._seconds:g} seconds of computing time: {COMPUTES}")
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LETTERS))
        last = " / ".join(self._errors.read().decode(errors="replace").strip().splitlines()[-LAST:])
        return EndedError("crashes", f"ended the Python process (exit code {code}){f': {last}' if last else ''}")

    def _end(self) -> None:
        """Kill the process and its group, and who has left the group, as far as the system says who that is."""
        if sys.platform == "win32":
            self._timer.cancel()
            self._process.kill()
        else:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end_orphans(self._known)


def _ready(pipe: int, reads: bool) -> bool:
    """Whether a pipe is ready within a moment. Where the system cannot say, it may be."""
    if sys.platform == "win32":
        return True
    look = select.poll()
    look.register(pipe, select.POLLIN if reads else select.POLLOUT)
    return bool(look.poll(LOOK))


def _environment() -> dict[str, str]:
    """Of a student's process: pictures go nowhere, Python's text is UTF-8, and one thread computes, so that times compare."""
    root = str(Path(__file__).parents[1])
    known = os.environ.get("PYTHONPATH")
    path = f"{root}{os.pathsep}{known}" if known else root
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_KINDS)}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return kept | threads | {"PYTHONPATH": path, "MPLBACKEND": "Agg", "PYTHONUTF8": "1"}
