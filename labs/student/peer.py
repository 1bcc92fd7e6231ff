"""Calls over a pair of pipes, the same on both sides: who waits for a value serves the calls of the other side meanwhile.

So a function may be an argument: the other side gets a number for it, and calls it by that number.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from labs.student.wire import HEAD, LARGEST, Foreign, TooLargeError, WireError, packed, unpacked
from labs.student.words import in_a_line, raised_in

LONGEST = 2000  # letters of an error
TOO_LARGE = f"returns or passes on more than {LARGEST // 2**20} MB"
ERRORS = {
    error.__name__: error
    for error in (ArithmeticError, IndexError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError)
}

Read = Callable[[int], bytes]  # a number of bytes -> as many
Write = Callable[[bytes], None]


class RemoteError(Exception):
    """What a function of the other side raised."""

    def __init__(self, kind: str, text: str, line: str, function: str) -> None:
        super().__init__(text[:LONGEST])
        self.kind = kind[:LONGEST]  # the name of its class; "" for a value that no message holds
        self.line = line[:LONGEST]  # with the line of the student's file
        self.function = function[:LONGEST]  # in which it was raised


class Peer:
    """One side. ``names`` are the functions that the other side may call by name; others it may call if it was given them."""

    def __init__(self, read: Read, write: Write, names: Mapping[str, Any]) -> None:
        self.names = names
        self._read, self._write = read, write
        self._given: list[Any] = []  # functions of this side, by number
        self._numbers: dict[int, int] = {}  # id of a function -> its number; the list keeps the function alive

    def call(self, target: str | int, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None) -> Any:
        """What a function of the other side returns.

        Arrays and generators among the arguments are afterwards as the function left them. Raises `RemoteError` for what it
        raises, and `WireError` for a message that is none.
        """
        named = named or {}
        self._send(("call", target, tuple(given), tuple(named.items())), self._handle)
        while True:
            match self._received():
                case ("call", str() | int() as wanted, tuple() as arguments, tuple() as keywords):
                    self._serve(wanted, arguments, keywords)
                case ("value", value, tuple() as changed):
                    _take([*given, *named.values()], changed)
                    return value
                case ("error", str() as kind, str() as text, str() as line, str() as function):
                    raise RemoteError(kind, text, line, function)
                case _:
                    raise WireError("it is neither a call nor a value")

    def serve(self) -> None:
        """Answer calls for ever."""
        while True:
            match self._received():
                case ("call", str() | int() as wanted, tuple() as arguments, tuple() as keywords):
                    self._serve(wanted, arguments, keywords)
                case _:
                    raise WireError("it is no call")

    def _serve(self, wanted: str | int, arguments: tuple[Any, ...], keywords: tuple[Any, ...]) -> None:
        named = _named(keywords)
        values = [*arguments, *named.values()]
        before = {place: value.copy() for place, value in enumerate(values) if isinstance(value, np.ndarray)}
        try:
            function = self.names[wanted] if isinstance(wanted, str) else self._given[wanted]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = function(*arguments, **named)
            reply = packed(("value", value, tuple(_changed(values, before))))
        except RemoteError as error:
            reply = packed(("error", error.kind, str(error), error.line, error.function))
        except TooLargeError:
            reply = packed(("error", "", TOO_LARGE, TOO_LARGE, ""))
        except (Exception, SystemExit) as error:
            text, line = str(error)[:LONGEST], in_a_line(error)[:LONGEST]
            reply = packed(("error", type(error).__name__, text, line, raised_in(error)))
        self._write(reply)

    def _send(self, value: Any, handle: Callable[[Any], int]) -> None:
        self._write(packed(value, handle))

    def _received(self) -> Any:
        head = self._read(HEAD.size)
        size = HEAD.unpack(head)[0]
        if size > LARGEST:
            raise WireError(f"it is longer than {LARGEST // 2**20} MB")
        return unpacked(head + self._read(size), self._function)

    def _handle(self, function: Any) -> int:
        """Functions of this side count from 0, those of the other side from −1 downwards."""
        if isinstance(function, Remote) and function.peer is self:
            return -1 - function.number
        if id(function) not in self._numbers:
            self._numbers[id(function)] = len(self._given)
            self._given.append(function)
        return self._numbers[id(function)]

    def _function(self, number: int) -> Any:
        return Remote(self, number) if number >= 0 else self._given[-1 - number]


class Remote:
    """A function of the other side. It raises what that raises, or `RuntimeError` for an error of another kind."""

    def __init__(self, peer: Peer, number: int) -> None:
        self.peer, self.number = peer, number

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it there."""
        try:
            return self.peer.call(self.number, given, named)
        except RemoteError as error:
            raise ERRORS.get(error.kind, RuntimeError)(str(error)) from None

    def __deepcopy__(self, memo: Any) -> "Remote":
        return self


def _named(keywords: tuple[Any, ...]) -> dict[str, Any]:
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in keywords):
        raise WireError("its arguments have no names")
    return dict(keywords)


def _changed(values: list[Any], before: Mapping[int, np.ndarray]) -> Iterator[tuple[int, Any]]:
    """Arguments with their places: arrays that are no longer as they were, and all generators."""
    for place, value in enumerate(values):
        if isinstance(value, np.random.Generator) or (place in before and not _same(before[place], value)):
            yield place, value


def _same(before: np.ndarray, after: np.ndarray) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    return before.tobytes() == after.tobytes()


def _take(values: list[Any], changed: tuple[Any, ...]) -> None:
    """Put what a function has changed into the arguments of this side."""
    for pair in changed:
        match pair:
            case (int() as place, np.random.Generator() as after) if 0 <= place < len(values):
                if not isinstance(values[place], np.random.Generator):
                    raise WireError("it changes what is no generator")
                values[place].bit_generator.state = after.bit_generator.state
            case (int() as place, np.ndarray() as after) if 0 <= place < len(values):
                own = values[place]
                if not isinstance(own, np.ndarray):
                    raise WireError("it changes what is no array")
                if own.shape != after.shape:
                    line = "changes the shape of an argument: work on a copy of it"
                    raise RemoteError("", line, line, "")
                own[...] = after
            case (int(), Foreign()):
                raise RemoteError("", "spoils an argument", "spoils an argument: work on a copy of it", "")
            case _:
                raise WireError("it changes what was no argument")
