"""Runs as the first code of every process of a recorded test file, and writes what the process reaches: one line a file.

Every Python of the environment begins with it once `record` has put a line into site-packages, if the variable ``ZOO_REACH``
names the file of lines. A child process inherits the variable; one that does not is written as unseen. A line is written when a
file is reached for the first time, so that a killed process leaves what it had reached.

    run <file>          a function of it began, or it is the main module; other bodies of modules and classes are no functions
    made <file> <file>  the body of the first, when it was imported, ran a function of the second
    named <module>      it was imported by a name in a text, which no reader of the source finds
    read <file>         it was opened, other than to import it, or named in the command of a child process
    list <folder>       its names were listed, other than to import
    unseen              a child process was started without the variable
"""

import os
import sys
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

VARIABLE = "ZOO_REACH"
LINES = os.environ.get(VARIABLE, "")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep  # noqa: PTH100, PTH120
PARTS = ("models", "inference", "labs", "docs", "benchmarks", "notebooks")  # of which tests make copies elsewhere
NOT_OURS = (".venv", ".git", "runs", "docs/_build")
TOOL = 4  # of sys.monitoring: debuggers, coverage and profilers have other numbers
IS_FUNCTION = 1  # the flag CO_OPTIMIZED, which modules and classes lack
NOT_BY_TESTS = (
    "<frozen importlib",
    "/importlib/metadata/",
    "/_pytest/config/",
    "/_pytest/pathlib.py",
    "/_pytest/main.py",
    "/_pytest/assertion/",
)
DEEP = 4  # calls between these and the opening of a file
_open, _write, _close = os.open, os.write, os.close  # a test may put others in their place
written: set[str] = set()
names: dict[str, str] = {}


def name_of(path: str) -> str:
    """The name of a file within the project, also of its copy elsewhere; empty for any other file."""
    if path not in names:
        names[path] = _name_of(path)
    return names[path]


def _name_of(path: str) -> str:
    if f"{path}{os.sep}" == ROOT:
        return "."
    if path.startswith(ROOT):
        name = path[len(ROOT) :]
        return "" if name.startswith(NOT_OURS) or "__pycache__" in name else name
    for part in PARTS:
        _, found, rest = path.rpartition(f"/{part}/")
        if found and os.path.exists(f"{ROOT}{part}/{rest}"):  # noqa: PTH110
            return f"{part}/{rest}"
    return ""


def write(line: str) -> None:
    """Write a line, unless this process has."""
    if line in written:
        return
    try:
        file = _open(LINES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _write(file, f"{line}\n".encode())
        _close(file)
    except OSError:  # no file can be opened at present: the next time then
        return
    written.add(line)


def begun(code: CodeType, offset: int) -> Any:
    """A function begins. It is told once; what imports by name always, and another for as long as only imports have run it."""
    if code is import_module.__code__:
        write(f"named {sys._getframe(1).f_locals.get('name', '')}")
        return None
    name = name_of(code.co_filename)
    if not name or not (code.co_flags & IS_FUNCTION or is_main(code)):
        return sys.monitoring.DISABLE
    if maker := imported_now(sys._getframe(1)):
        write(f"made {maker} {name}")
        return None
    write(f"run {name}")
    return sys.monitoring.DISABLE


def imported_now(frame: FrameType | None) -> str:
    """The file of the project whose body runs and has led here; empty if none does, or that of a test or of the main module."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and (name := name_of(frame.f_code.co_filename)):
            return "" if name.startswith("tests/") or frame.f_globals.get("__name__") == "__main__" else name
        frame = frame.f_back
    return ""


def is_main(code: CodeType) -> bool:
    """Whether it is the body of the module that the process runs."""
    return code.co_name == "<module>" and sys._getframe(2).f_globals.get("__name__") == "__main__"


def path_of(given: Any) -> str:
    """An absolute path of what was opened or listed; empty for a descriptor."""
    if given is None:
        given = "."
    return os.path.abspath(os.fsdecode(given)) if isinstance(given, str | bytes | os.PathLike) else ""  # noqa: PTH100


def heard(event: str, arguments: tuple[Any, ...]) -> None:
    """What the interpreter tells of files, folders and child processes."""
    if event == "open" or event == "os.listdir" or event == "os.scandir":
        name = name_of(path_of(arguments[0]))
        if name and not is_of_pytest():
            write(f"{'read' if event == 'open' else 'list'} {name}")
    elif event == "subprocess.Popen":
        child(*arguments)


def is_of_pytest() -> bool:
    """Whether Python imports, or pytest looks for settings and tests."""
    frame = sys._getframe(2)
    for _ in range(DEEP):
        if any(part in frame.f_code.co_filename for part in NOT_BY_TESTS):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def child(executable: Any, words: Any, folder: Any, environment: Any) -> None:
    """Files in a command count as read. A child without the variable would reach what nobody sees."""
    for word in [words] if isinstance(words, str | bytes) else words:
        path = path_of(word)
        if path.startswith(ROOT) and os.path.isfile(path) and (name := name_of(path)):  # noqa: PTH113
            write(f"read {name}")
    if VARIABLE not in (os.environ if environment is None else environment):
        write("unseen")


if LINES and sys.monitoring.get_tool(TOOL) is None:
    sys.monitoring.use_tool_id(TOOL, "reach")
    sys.monitoring.register_callback(TOOL, sys.monitoring.events.PY_START, begun)
    sys.monitoring.set_events(TOOL, sys.monitoring.events.PY_START)
    sys.addaudithook(heard)
