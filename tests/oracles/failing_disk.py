"""A disk that fails: at the n-th thing that is asked of it below a folder, by an error or by the end of the process.

What is asked is what the store asks of the operating system: to make, write, sync, rename and remove files. After the end of a
process nothing more reaches the disk, so that what lies there is what a kill leaves, whatever cleans up on the way out.
"""

import errno
import os
from contextlib import contextmanager
from pathlib import Path

ASKED = ("open", "write", "fsync", "ftruncate", "replace", "unlink")


class Killed(BaseException):
    """The process ends here."""


class Disk:
    """Counts what is asked of it below ``root``; ``fails(number, name)`` may raise."""

    def __init__(self, root, fails=lambda number, name: None):
        self.root, self.fails, self.asked, self.dead, self.files = str(root), fails, 0, False, set()

    def below(self, target):
        return target in self.files if isinstance(target, int) else str(os.fspath(target)).startswith(self.root)

    def request(self, name, target):
        if self.below(target):
            if self.dead:
                raise Killed
            self.asked += 1
            self.fails(self.asked, name)


def full_at(wanted, number=errno.ENOSPC):
    """The ``wanted``-th request fails, and only that one."""

    def fails(asked, name):
        if asked == wanted:
            raise OSError(number, os.strerror(number))

    return fails


def full_from(wanted, number=errno.ENOSPC):
    """The ``wanted``-th request fails, and all after it but those to remove something, as on a disk that stays full."""

    def fails(asked, name):
        if asked >= wanted and name not in ("unlink", "ftruncate"):
            raise OSError(number, os.strerror(number))

    return fails


@contextmanager
def watched(monkeypatch, disk):
    """Everything below the disk's root goes through it."""
    real = {name: getattr(os, name) for name in (*ASKED, "close")}

    def wrapped(name):
        def call(target, *arguments, **options):
            making = name != "open" or (arguments and arguments[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
            if name != "close" and (making or Path(target).is_dir()):
                disk.request(name, target)
            found = real[name](target, *arguments, **options)
            if name == "open" and disk.below(target):
                disk.files.add(found)
            if name == "close":
                disk.files.discard(target)
            return found

        return call

    with monkeypatch.context() as patch:
        for name in real:
            patch.setattr(os, name, wrapped(name))
        yield disk
