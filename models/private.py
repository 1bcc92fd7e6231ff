"""Folders whose files are run: programs and machine code that an earlier process has left.

Such a file is trusted as the code of this project is. So nobody but its owner and root may be able to write it, exchange it, or
exchange a folder above it. Imports the standard library alone.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_folder(folder: Path) -> Path | None:
    """``folder``, made with mode 0700 if it is not there; None where others could write into it or exchange it.

    A folder of this user that others can only read is closed to them. Where the system knows no owners, as on Windows, every
    folder is taken.

    >>> private_folder(Path.home() / ".cache" / "bayes-model-zoo")
    PosixPath('/home/anna/.cache/bayes-model-zoo')
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve(strict=True)
        if not hasattr(os, "getuid"):
            return folder
        if not is_own(folder):
            return None
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError:
        return None
    return folder


def is_own(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else but root can write into it, or exchange it or a folder above it."""
    if not hasattr(os, "getuid"):
        return True
    with suppress(OSError):
        folder = folder.resolve(strict=True)
        own = folder.stat()
        return own.st_uid == os.getuid() and _is_closed(own) and all(map(_is_safe, folder.parents))
    return False


def _is_safe(above: Path) -> bool:
    """Whether only this user and root can rename what lies in a folder; in one with the sticky bit only owners can."""
    found = above.stat()
    return found.st_uid in (0, os.getuid()) and (_is_closed(found) or bool(found.st_mode & stat.S_ISVTX))


def _is_closed(found: os.stat_result) -> bool:
    """Many systems give every user a group of his own, of the same number, and let it write: nobody else is in it."""
    alone = found.st_gid == found.st_uid == os.getuid()
    return not found.st_mode & (stat.S_IWOTH if alone else stat.S_IWOTH | stat.S_IWGRP)
