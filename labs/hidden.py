"""What a student's process may not see or leave behind, where Linux can help: the grader's arguments and memory, orphans.

Other systems have none of this, and the functions do nothing there.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHOWN = b"python\0-m\0labs\0check\0"  # instead of the arguments of the grader
GET_DUMPABLE, DUMPABLE, SUBREAPER = 3, 4, 36  # of prctl(2)
OF_START, OF_END = 45, 46  # fields of /proc/self/stat after the name: where the arguments are in memory
OF_PARENT, OF_SESSION = 1, 3
LONGEST = 5.0  # seconds that orphans are chased: each may start others


def hide_arguments() -> None:
    """Everyone on a machine can read the arguments of a process. Those of this one are no longer there."""
    if sys.platform != "linux":
        return
    with suppress(OSError, ValueError, IndexError):
        fields = _fields(Path("/proc/self/stat"))
        start, size = int(fields[OF_START]), int(fields[OF_END]) - int(fields[OF_START])
        if start and size > 0:
            ctypes.memmove(start, SHOWN.ljust(size, b"\0")[: size - 1] + b"\0", size)


@contextmanager
def guarded_memory() -> Iterator[None]:
    """Processes of the same user, but not those of root, are kept from this one's memory, open files and environment.

    Orphans of a student's process become children of this one, whichever session they have fled to.
    """
    before = _prctl(GET_DUMPABLE, 0)
    _prctl(DUMPABLE, 0)
    _prctl(SUBREAPER, 1)
    try:
        yield
    finally:
        if before == 1:
            _prctl(DUMPABLE, 1)
        _prctl(SUBREAPER, 0)


def _prctl(option: int, value: int) -> int:
    """What the system answers; −1 where it cannot do it."""
    if sys.platform != "linux":
        return -1
    try:
        return int(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0))
    except (OSError, AttributeError):
        return -1


def strangers() -> set[int]:
    """Children of this process that have another session."""
    if sys.platform != "linux":
        return set()
    own, session, found = str(os.getpid()), str(os.getsid(0)), set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):  # it has ended meanwhile
            fields = _fields(path)
            if fields[OF_PARENT] == own and fields[OF_SESSION] != session:
                found.add(int(path.parent.name))
    return found


def end_orphans(known: set[int]) -> None:
    """Kill the children of other sessions that this process has beside those ``known``, and their children in turn."""
    until = time.monotonic() + LONGEST
    while (orphans := strangers() - known) and time.monotonic() < until:
        for orphan in orphans:
            with suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
        for orphan in orphans:
            with suppress(OSError):
                os.waitpid(orphan, 0)


def _fields(path: Path) -> list[str]:
    """Of a /proc/…/stat, from the state on: the name before it may hold spaces and brackets."""
    return path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
