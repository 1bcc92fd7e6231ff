"""The exit code of a command, and the one message that it ends with.

Exit codes: 0 finished, 1 a bug in the zoo (one line, which names a log file), 2 a mistake in the arguments or the data, a
damaged file or a full disk (one message, no traceback), 3 finished but a diagnostic failed, 130 interrupted by Ctrl-C, SIGTERM
or SIGHUP (finished work stays).
"""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from inference.runtime.formats.texts import visible

FAULT = 1
INTERRUPTED = 130
OUTPUT = {errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF, errno.EDQUOT}  # errors of a write to standard output


def guarded(main: Callable[[list[str]], int], arguments: list[str], command: str | None = None) -> int:
    """Run ``main`` and return its exit code; any error that it raises is one message on standard error.

    ``command`` names the help to print, of `inference.cli.runs.help.COMMANDS`; None: that of all.

    A `ZooError` gives 2. Ctrl-C, SIGTERM and SIGHUP give 130: finished work stays. Anything else is a bug in the zoo and
    gives 1. Its traceback is written to a file, which the message names.
    """
    from inference.cli.runs.help import information
    from inference.runtime.files import LoggedError, log_of
    from inference.runtime.signals import ended_by_signals, interrupt_behind
    from models.errors import ZooError

    try:
        with ended_by_signals():
            code = main(arguments) if (text := information(arguments, command)) is None else _shown(text)
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
    except (KeyboardInterrupt, Exception, SystemExit) as error:
        if (stop := interrupt_behind(error)) is not None:
            return _message_to(str(stop) or "interrupted", INTERRUPTED)
        if (full := _unwritten(error)) is not None:
            return _message_to(f"error: standard output cannot be written: {full}; what is on disk is kept", 2)
        if isinstance(error, ZooError):
            return _message_to(f"error: {error}", 2)
        logged = error if isinstance(error, LoggedError) else LoggedError(error, log_of(error))
        return _message_to(f"error: a bug in the zoo: {logged}", FAULT)


def _shown(text: str) -> int:
    print(text)
    return 0


def _message_to(message: str, code: int) -> int:
    with suppress(OSError):  # standard error is closed
        print(visible(message), file=sys.stderr)
    return code


def _unwritten(error: BaseException) -> str | None:
    """Why standard output cannot be written, if that is the error; an error about a file has a file name or is a `ZooError`."""
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in OUTPUT:
        return None
    with suppress(OSError, ValueError):  # otherwise Python tries again at exit and prints a second error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return os.strerror(error.errno)
