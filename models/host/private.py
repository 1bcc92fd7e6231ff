"""Folders with files that are run: programs and machine code of an earlier process.

Such a file is trusted like the code of this project. So nobody but its owner and root may be able to write it, exchange it, or
exchange a folder above it. Imports the standard library alone.
"""

import grp
import os
import stat
from contextlib import suppress
from pathlib import Path

ACCESS = "system.posix_acl_access"  # the attribute of a file that has a list of users


def private_folder(folder: Path) -> Path | None:
    """``folder``, made with mode 0700 if it is not there; None where others could write into it or exchange it.

    A folder of this user that others can only read is closed to them, if the disk can be written.

    >>> private_folder(Path.home() / ".cache" / "bayes-model-zoo")
    PosixPath('/home/anna/.cache/bayes-model-zoo')
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve(strict=True)
        if not is_private(folder):
            return None
        with suppress(OSError):  # a read-only disk
            if folder.stat().st_mode & 0o077:
                folder.chmod(0o700)
    except OSError:
        return None
    return folder


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else but root can write into it, or exchange it or a folder above it."""
    with suppress(OSError):
        folder = folder.resolve(strict=True)
        status = folder.stat()
        return status.st_uid == os.getuid() and _is_closed(folder, status) and all(map(_is_safe, folder.parents))
    return False


def _is_safe(above: Path) -> bool:
    """Whether only this user and root can rename files of a folder; in one with the sticky bit only owners can."""
    status = above.stat()
    return status.st_uid in (0, os.getuid()) and (_is_closed(above, status) or bool(status.st_mode & stat.S_ISVTX))


def _is_closed(folder: Path, status: os.stat_result) -> bool:
    """Whether neither others nor the group may write; many systems give every user a separate group, which may."""
    alone = status.st_gid == status.st_uid == os.getuid() and _has_no_other(status.st_gid) and not _has_list(folder)
    return not status.st_mode & (stat.S_IWOTH if alone else stat.S_IWOTH | stat.S_IWGRP)


def _has_no_other(group: int) -> bool:
    """Whether no further user is listed in a group."""
    try:
        return not grp.getgrgid(group).gr_mem
    except KeyError:  # the group has no name
        return True


def _has_list(folder: Path) -> bool:
    """Whether a folder has an access list: its bits of the group are then those of all users in it."""
    try:
        return ACCESS in os.listxattr(folder)
    except (OSError, AttributeError):  # no such lists on this disk, or on this system
        return False
