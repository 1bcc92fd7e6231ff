"""Files that are written piece by piece, such as tables that no memory holds: whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from inference.runtime.files import ELSEWHERE, PARTIALS, NotWrittenError, sync_folder, write_all


@contextlib.contextmanager
def in_pieces(path: str | Path) -> Iterator[Callable[[bytes], None]]:
    """Write a file piece by piece; it is in its place once the last piece is on disk.

    Yields the function that writes a piece. Without any piece there is no file. Where anything is raised, nothing new is left,
    and an old file stays as it was. Raises `NotWrittenError` where the disk is full.

    >>> with in_pieces("scored.csv") as write_piece:
    ...     write_piece(b"row,assignment")
    """
    path = Path(path)
    partial = path.parent / secrets.token_hex(8).join(PARTIALS)
    opened: list[int] = []

    def write_piece(content: bytes) -> None:
        with _or_not_written(path):
            if not opened:
                opened.append(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666))
            write_all(opened[0], content)

    try:
        try:
            yield write_piece
            with _or_not_written(path):
                for file in opened:
                    os.fsync(file)
        finally:
            for file in opened:
                os.close(file)
        if opened:
            with _or_not_written(path):
                partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    with _or_not_written(path):
        sync_folder(path.parent)


@contextlib.contextmanager
def _or_not_written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotWrittenError(f"{path} cannot be written: {error.strerror or error}; {ELSEWHERE}") from error
