"""Messages between grader and student: every value of numbers survives, no code does, and nothing but a message is read."""

import pickle

import numpy as np
import pytest

from labs.parts.calls import AnswerError, as_fields
from labs.student import wire
from labs.student.peer import ERRORS, TOO_LARGE, Peer, Remote, RemoteError
from labs.student.wire import HEAD, Foreign, TooLargeError, WireError, packed, unpacked

DTYPES = ["f8", "f4", "f2", "i8", "u1", "?", "c16", "U3", "S2", ">f8"]


def drawn(rng, depth=0):
    """A value that a function may return."""
    kind = rng.integers(9 if depth < 4 else 7)
    if kind == 0:
        return None
    if kind == 1:
        return [float("nan"), float("-inf"), -0.0, 1e308, 2.5][rng.integers(5)]
    if kind == 2:
        return [0, -(2**62), True, 7][rng.integers(4)]
    if kind == 3:
        return ["", "σ² 🎲", "\ud800", '"\\\x1b'][rng.integers(4)]
    if kind < 7:
        shape = tuple(int(size) for size in rng.integers(4, size=rng.integers(4)))
        return rng.integers(100, size=shape).astype(DTYPES[rng.integers(len(DTYPES))])
    found = [drawn(rng, depth + 1) for _ in range(rng.integers(4))]
    return found if kind == 7 else tuple(found)


def assert_same(first, second):
    assert type(first) is type(second)
    if isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        assert first.shape == second.shape
        assert first.tobytes() == second.tobytes()
    else:
        assert repr(first) == repr(second)


@pytest.mark.parametrize("seed", range(40))
def test_values_survive(seed):
    value = drawn(np.random.default_rng(seed))
    assert_same(unpacked(packed(value)), value)


def test_a_generator_goes_on_where_it_was():
    rng = np.random.default_rng(3)
    rng.normal(size=5)
    other = unpacked(packed(rng))
    assert other.normal() == rng.normal()


@pytest.mark.parametrize("seed", range(60))
def test_no_other_bytes_break_the_reader(seed):
    """Cut, longer, with bytes changed, or of chance alone: a value or a `WireError`, and no other error."""
    rng = np.random.default_rng(seed)
    content = packed((drawn(rng), np.eye(2), [1.5, "text"]))
    place, size = int(rng.integers(len(content))), int(rng.integers(1, 9))
    broken = [
        content[:place],
        content + rng.bytes(size),
        content[:place] + rng.bytes(size) + content[place + size :],
        rng.bytes(200),
        HEAD.pack(size, size) + rng.bytes(size),
    ]
    refused = 0
    for each in broken:
        try:
            unpacked(each)
        except WireError:
            refused += 1
    assert refused > 0  # what is cut is never whole


def as_message(text, numbers=b""):
    content = text.encode()
    return HEAD.pack(len(content) + len(numbers), len(content)) + content + numbers


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"list": ' * 100_000,
        "9" * 10_000,
        "[1]",
        "{}",
        '{"list": [], "tuple": []}',
        '{"array": ["O", [1], true]}',
        '{"array": ["<f8,<f8", [0], true]}',
        '{"array": ["<f8", [-1], true]}',
        '{"array": ["<f8", [1000000000000000000000], true]}',
        '{"array": ["<f8", [1e3], true]}',
        '{"array": ["<f8", [1], true]}',
        '{"rng": {"bit_generator": "MT19937"}}',
        '{"rng": 3}',
        '{"function": 0}',
        '{"pickle": "gASVCgAAAAAAAACMBnN5c3RlbZQu"}',
        '{"list": 7}',
        "",
        "nothing",
    ],
)
def test_what_no_side_writes_is_no_message(text):
    with pytest.raises(WireError):
        unpacked(as_message(text))


def test_numbers_that_no_array_has_are_no_message():
    with pytest.raises(WireError, match="more numbers"):
        unpacked(as_message("null", b"12345678"))


class Runs:
    def __reduce__(self):
        return pytest.fail, ("code has run",)


def test_objects_are_named_and_do_not_travel():
    assert unpacked(packed(Runs())) == Foreign("Runs", "object")
    assert unpacked(packed({1: 2})) == Foreign("dict", "object")
    assert unpacked(packed([[1], [2, 3]])) == [[1], [2, 3]]
    with pytest.raises(WireError):
        unpacked(pickle.dumps({}))


@pytest.mark.parametrize("value", [{}, object(), 10**30, "text", [1, "a"], [[1], [2, 3]], print, 1j, iter([])])
def test_the_message_about_a_value_is_as_in_this_process(value):
    """But for functions and for lists of unequal lists, it says the same of the value itself and of what arrives of it."""
    said = []
    for each in (value, unpacked(packed(value))):
        with pytest.raises(AnswerError) as error:
            as_fields(each, ("result",))
        said.append(str(error.value))
    assert said[0] == said[1]


def test_broadcast_arrays_are_too_large_before_they_are_written_out():
    with pytest.raises(TooLargeError):
        packed(np.broadcast_to(0.0, (10**6, 10**6)))


class Line:
    """Two peers, where what one sends is read by the other at once."""

    def __init__(self, names):
        self.sent = {0: b"", 1: b""}
        self.served = Peer(lambda size: self.read(1, size), lambda content: self.write(0, content), names)
        self.caller = Peer(lambda size: self.read(0, size), lambda content: self.write(1, content), {})

    def write(self, to, content):
        self.sent[to] += content

    def read(self, of, size):
        if not self.sent[of]:
            assert of == 0
            message = self.served._received()
            self.served._serve(*message[1:])
        found, self.sent[of] = self.sent[of][:size], self.sent[of][size:]
        return found


def test_a_call_is_a_call():
    def function(x, rng, *, factor):
        x[0] = 7
        return factor * rng.normal(), x.sum()

    x, rng = np.arange(3.0), np.random.default_rng(0)
    other, twin = x.copy(), np.random.default_rng(0)
    found = Line({"f": function}).caller.call("f", (x, rng), {"factor": 2})
    assert found == function(other, twin, factor=2)
    assert np.array_equal(x, other)
    assert rng.normal() == twin.normal()


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("k"), RuntimeError(), SystemExit(3), MemoryError()])
def test_errors_cross_in_words(error):
    def function():
        raise error

    with pytest.raises(RemoteError) as found:
        Line({"f": function}).caller.call("f")
    assert (found.value.kind, found.value.function) == (type(error).__name__, "function")


def test_a_value_that_is_too_large_is_an_error(monkeypatch):
    monkeypatch.setattr(wire, "LARGEST", 1000)
    with pytest.raises(RemoteError, match=TOO_LARGE):
        Line({"f": lambda: np.zeros(1000)}).caller.call("f")


def test_read_only_arrays_stay_read_only():
    def function(x):
        x[0] = 1

    x = np.zeros(3)
    x.setflags(write=False)
    with pytest.raises(RemoteError, match="read-only"):
        Line({"f": function}).caller.call("f", (x,))


def test_the_other_side_calls_only_what_it_was_given():
    line = Line({})
    for wanted in ("load", "__builtins__", 0, 10**6):
        line.served._serve(wanted, (), ())
        message = line.caller._received()
        assert message[:2] in (("error", "KeyError"), ("error", "IndexError"))


@pytest.mark.parametrize("kind", [*ERRORS, "SystemExit", "Exception", "eval", ""])
def test_errors_of_the_grader_are_errors_of_these_kinds(kind):
    class Raises:
        def call(self, number, given, named):
            raise RemoteError(kind, "text", "line", "f")

    with pytest.raises(ERRORS.get(kind, RuntimeError)):
        Remote(Raises(), 0)()


CHANGED = [
    ((0, np.zeros(3)),),
    ((5, np.zeros(2)),),
    ((-1, np.zeros(2)),),
    ((1, np.zeros(2)),),
    (3,),
    ((0, np.random.default_rng(0)),),
]


@pytest.mark.parametrize("changed", CHANGED)
def test_arguments_change_only_as_arrays_of_their_shape(changed):
    line = Line({})
    line.sent[0] = packed(("value", 1.0, changed))
    with pytest.raises((WireError, RemoteError)):
        line.caller.call("f", (np.zeros(2), 1.0))
