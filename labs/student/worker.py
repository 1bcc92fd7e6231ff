"""The student's process: ``python -m labs.student.worker FILE SECONDS`` serves the functions of a file.

The text of the file comes through the pipe, as the grader has read it; FILE is its name in the working folder, a copy.
"""

import linecache
import math
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from labs.student.peer import Peer
from labs.student.words import SUBMISSION

MEMORY = 4 * 2**30  # bytes that a process may hold
WRITTEN = 256 * 2**20  # bytes of a file that it may write


def limit(seconds: float) -> None:
    """The system ends this process when it has computed for too long, and gives it no more memory than `MEMORY`.

    Where the system cannot, only time by the clock is limited.
    """
    if sys.platform == "win32":
        return
    import resource

    most = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    for kind, size in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, WRITTEN)):
        with suppress(OSError, ValueError):  # it is less already, or the system has no such limit
            resource.setrlimit(kind, (size, size))


def loaded(path: Path, text: str) -> ModuleType:
    """The names of a student's file, whose text is known. Raises what the file raises."""
    name = f"{SUBMISSION}/{path.name}"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # dataclasses look their module up there
    exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
    return module


def in_words(error: BaseException, path: Path) -> str:
    """``em_gmm.py is no Python: line 3: expected ':'``, or what the file raised, and where."""
    if isinstance(error, SyntaxError) and (file := _file_of(error, path)) is not None:
        line = (error.text or "").strip()
        return f"{file} is no Python: line {error.lineno}: {error.msg}{f': {line}' if line else ''}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(SUBMISSION)]
    where = f", line {own[-1].lineno}" if own else ""
    return f"{path.name} cannot be imported{where}: {type(error).__name__}: {error}"


def _file_of(error: SyntaxError, path: Path) -> str | None:
    """The file that is no Python: the student's, or one that it imports; None for text that the file itself has compiled."""
    if error.filename is None or error.filename.startswith(SUBMISSION):
        return path.name
    helper = Path(error.filename)
    return f"{helper.name}, which {path.name} imports," if helper.is_file() else None


def callables(module: ModuleType) -> tuple[str, ...]:
    """Public names of what can be called."""
    return tuple(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))


def main(file: str, seconds: str) -> None:
    """Load the file when the grader says so, and serve its functions until the grader ends."""
    limit(float(seconds))
    path = Path.cwd() / file
    sys.argv = [str(path)]
    sys.path.append(str(path.parent))  # last: a student's file must not hide a library
    peer = _over_pipes()

    def load(text: str, lent: Sequence[tuple[str, Any]]) -> tuple[str | None, tuple[str, ...]]:
        """Why the file cannot be loaded, and the names of its functions. ``lent`` stand for those that are not written."""
        try:
            module = loaded(path, text)
        except (Exception, SystemExit) as error:
            return in_words(error, path), ()
        found = callables(module)
        vars(module).update(lent)
        peer.names = vars(module)
        return None, found

    peer.names = {"load": load}
    peer.serve()


def _over_pipes() -> Peer:
    """The grader's pipes are standard input and output; the student's file gets others, which lead nowhere."""
    source, target = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)

    def read(size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            piece = os.read(source, size - len(found))
            if not piece:  # the grader has ended
                os._exit(0)
            found += piece
        return bytes(found)

    def write(content: bytes) -> None:
        rest = memoryview(content)
        while len(rest):
            rest = rest[os.write(target, rest) :]

    return Peer(read, write, {})


if __name__ == "__main__":
    main(*sys.argv[1:])
