"""One process per folder: a lock that the operating system releases when its process dies, however it dies."""

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from inference.runtime.files import LOCK, NotWrittenError
from models.errors import ZooError, exists

if sys.platform == "win32":
    import msvcrt

    def _take(file: int) -> None:
        os.lseek(file, 2**20, os.SEEK_SET)  # beyond the text, which others read
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


SAYS = "process"  # the first word of a lock


class _Mine(threading.local):
    """The folders that this thread has locked, as the system numbers them."""

    folders: tuple[tuple[int, int], ...] = ()


_mine = _Mine()


@contextmanager
def held_or_locked(given: str | Path | None) -> Iterator[None]:
    """`locked`, also for a folder that this thread has locked already, and for None. A `ZooError` for a missing folder."""
    if given is None:
        yield
        return
    folder = Path(given)
    if not (exists(folder) and folder.is_dir()):
        raise ZooError(f"folder={folder}: there is no such folder; make it first")
    with nullcontext() if _number(folder) in _mine.folders else locked(folder):
        yield


@contextmanager
def locked(folder: Path, make: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold ``folder`` for this process. Raises `ZooError`, which names the process, if another one holds it.

    ``make`` makes the folder again, where another process has removed it meanwhile.
    """
    path = folder / LOCK
    file = _acquired(path, make)
    before = _mine.folders
    try:
        try:
            os.ftruncate(file, 0)
            os.write(file, f"{SAYS} {os.getpid()} on {platform.node()} since {time.strftime('%Y-%m-%d %H:%M:%S')}".encode())
        except OSError as error:
            raise _not_written(path, error) from error
        _mine.folders = (*before, _number(folder))
        yield
    finally:
        _mine.folders = before
        try:
            if sys.platform != "win32":  # Windows removes no open file: it stays there, free to be taken
                with suppress(OSError):  # before the lock is released: another process then makes a new file of this name
                    path.unlink()
        finally:
            os.close(file)


def _number(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _acquired(path: Path, make: Callable[[], None] | None) -> int:
    """The open, locked file at ``path``; tried again if the last holder has removed that file meanwhile."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if make is None or not isinstance(error, FileNotFoundError) or path.parent.is_dir():
                raise _not_written(path, error) from error
            with suppress(FileExistsError):  # another process has made it, and removed it, meanwhile
                make()
            continue
        try:
            _take(file)
        except (BlockingIOError, PermissionError) as error:
            holder = os.read(file, 200).decode(errors="replace")
            os.close(file)
            raise ZooError(
                f"{path.parent} is in use by {holder or 'another process'}: wait for it, or give another folder with out="
            ) from error
        except OSError as error:
            os.close(file)
            raise ZooError(f"{path} cannot be locked: {error.strerror or error}; give a folder on another disk") from error
        try:
            if os.path.samestat(os.fstat(file), path.stat()):
                return _checked(file, path)
        except FileNotFoundError:
            pass
        os.close(file)


def _checked(file: int, path: Path) -> int:
    """The lock file. Raises `ZooError` for a file of the user's that has its name."""
    content = os.read(file, 200)
    if content and not content.startswith(SAYS.encode()):
        os.close(file)
        raise ZooError(f"{path} is no lock of the zoo, and stays as it is: rename it, or give another folder")
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _not_written(path: Path, error: OSError) -> NotWrittenError:
    return NotWrittenError(f"{path} cannot be written: {error.strerror or error}; make room, or give another folder")
