"""Signals that end a run: Ctrl-C, SIGTERM, SIGHUP."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

REPEAT = 1.0  # seconds within which a second signal is the same one, sent to the process and to its group
SHORTLY = 0.02  # seconds after which a lost KeyboardInterrupt is raised again


class Stop(threading.Event):
    """Set by a signal. A computation that ends early because of it sets ``heeded``, and reports it in its outcome."""

    heeded = False


class _Current:
    """The event in force in the main thread, the number of nested handlers, and the last signal with its time."""

    stop: Stop | None = None
    depth = 0
    last = -math.inf
    number = signal.SIGINT


def stop_signals() -> tuple[int, ...]:
    """The signals that ask a process to end: Ctrl-C, a scheduler's SIGTERM, a terminal that closes.

    Signals that are ignored on purpose stay ignored, as under ``nohup`` and for processes in the background. Signals that a
    library in C handles stay with it, because Python could not restore its handler.
    """
    named = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return tuple(number for number in named if signal.getsignal(number) not in (signal.SIG_IGN, None))


@contextmanager
def interruptible() -> Iterator[Stop]:
    """An event that the first of the `stop_signals` sets; the second raises KeyboardInterrupt. Only the main thread gets them.

    Nested contexts share one event, so that a Ctrl-C between two phases ends the phases that follow. The outermost context
    raises KeyboardInterrupt where ``heeded`` is not set: a signal that came too late to end anything is not lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Stop()
        return
    if _Current.stop is not None:
        yield _Current.stop
        return
    stop = _Current.stop = Stop()

    def act() -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    with _handling(act):
        try:
            yield stop
        finally:
            _Current.stop = None
    if stop.is_set() and not stop.heeded:
        raise KeyboardInterrupt


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """`stop_signals` raise KeyboardInterrupt, as Ctrl-C does, wherever nothing else handles them."""

    def act() -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handling(act):
        yield


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C behind an error, or None: code that cleans up after a Ctrl-C may raise another error."""
    behind: BaseException | None = error
    seen: set[int] = set()
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        if id(behind) in seen:  # ``raise error from error`` makes a circle
            return None
        seen.add(id(behind))
        behind = behind.__cause__ or behind.__context__
    return behind


@contextmanager
def _handling(act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` at every signal, except at one that is repeated at once. An error that ``act`` raises is not lost."""

    def handle(number: int, frame: Any) -> None:
        _Current.number = signal.Signals(number)
        now = time.monotonic()
        if now - _Current.last >= REPEAT:
            _Current.last = now
            act()

    if _Current.depth == 0:
        _Current.last = -math.inf
    previous = {number: signal.signal(number, handle) for number in stop_signals()}
    _Current.depth += 1
    try:
        with _nothing_lost():
            yield
    finally:
        _Current.depth -= 1
        if _Current.depth == 0:
            _Current.number = signal.SIGINT  # of what comes before the next handler
        for number, before in previous.items():
            signal.signal(number, before)


class _Repeated:
    """A hook of `sys.unraisablehook` that raises a KeyboardInterrupt once more, and passes on everything else.

    Python runs callbacks of weak references and destructors between any two instructions. What a signal raises in one of
    them goes to this hook, and the program goes on as if there had been no signal. The signal is repeated from another
    thread, because it would be lost once more inside the hook.
    """

    def __init__(self, before: "Callable[[sys.UnraisableHookArgs], Any]") -> None:
        self.before = before

    def __call__(self, lost: "sys.UnraisableHookArgs") -> None:
        """Repeat the signal, if the error came from one."""
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            self.before(lost)
            return
        _Current.last = -math.inf
        again = threading.Timer(SHORTLY, signal.pthread_kill, (threading.main_thread().ident, _Current.number))
        again.daemon = True
        again.start()


def repeat_lost_interrupts() -> None:
    """From now on, raise a KeyboardInterrupt that Python cannot pass on once more, instead of its traceback on the screen.

    For processes that run one job after another: a signal may come between two jobs, where nothing handles it.
    """
    if not isinstance(sys.unraisablehook, _Repeated):
        sys.unraisablehook = _Repeated(sys.unraisablehook)


@contextmanager
def _nothing_lost() -> Iterator[None]:
    """`repeat_lost_interrupts` in this context alone."""
    before = sys.unraisablehook
    repeat_lost_interrupts()
    try:
        yield
    finally:
        sys.unraisablehook = before
