"""A student's file: a copy of it, what its text says, and its parts collected from a process of its own."""

import ast
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import decode_source
from pathlib import Path
from typing import Any, NamedTuple

from labs.hidden import guarded_memory
from labs.parts.lab import Answer, Lab
from labs.parts.runs import states_as_answer
from labs.process import EndedError, StudentProcess
from labs.stub import parsed, solution_text, unwritten
from labs.student.words import SUBMISSION
from labs.student.worker import in_words
from models.errors import ZooError, did_you_mean

COPIED = (".py", ".npz", ".csv")  # files beside the student's that are copied
LARGEST = 16 * 2**20  # bytes of one of them
LARGEST_TEXT = 2 * 2**20  # bytes of the student's file: one message holds its text, in which a letter may take six bytes
TRACE = "trace"  # in the place of a part: the states of the run of the lab
LOOP = "move what runs long into a function, or below `if __name__ == '__main__':`"
PREFIX = "bayes-model-zoo-lab-"
PACKAGE = "labs"
MODULES = {path.stem for path in Path(__file__).parent.iterdir()}  # and folders of them
ALLOWED = f"{PACKAGE}.assert_right"
BY_NAME = {"importlib", "pkgutil", "runpy", "sys", "__import__"}  # what finds a module by a text
OWN_WORK = f"it has the answers; write the functions yourself (from {PACKAGE} import assert_right is allowed)"


class Copy:
    """A student's file, with the files and packages beside it, as they are when a grade begins.

    They are in memory: whatever the code deletes or changes, the next process finds the same files in a folder of its own.
    """

    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        self.name, self._files = name, files
        self.content = files[name]
        self.sha256 = hashlib.sha256(self.content).hexdigest()

    def without(self, functions: Iterable[str]) -> "Copy":
        """A copy whose file has these functions as the stub has them: finished ones are then lent."""
        stubs = "".join(f"\n\n\ndef {name}():\n    raise NotImplementedError\n" for name in functions)
        return Copy(self.name, {**self._files, self.name: self.content + stubs.encode()})

    def text(self) -> str:
        """The text of the file as Python reads it: with or without a byte-order mark, in the encoding that it declares."""
        return decode_source(self.content)

    @contextmanager
    def laid_out(self) -> Iterator[Path]:
        """The file, with all others beside it, in a folder that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
            for name, content in self._files.items():
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            yield Path(folder) / self.name


def copy_of(path: Path) -> Copy:
    """A copy. Raises `ZooError` where there is no such file, or where it cannot be read or graded."""
    if not path.is_file():
        raise ZooError(f"there is no file {path}")
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise ZooError(f"{path} is larger than {LARGEST_TEXT // 2**20} MB: keep data in a file beside it, as .npz or .csv")
        own, folder = path.read_bytes(), path.resolve().parent
        files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in _beside(path.resolve())}
    except OSError as error:
        raise ZooError(f"{error.filename or path} cannot be read: {error.strerror or error}") from error
    return Copy(path.name, files | {path.name: own})


def _beside(path: Path) -> list[Path]:
    """Files beside a file, and in packages beside it, that its code may read; no large and no hidden ones."""
    packages = [each.parent for each in path.parent.glob("[!.]*/__init__.py")]
    files = [*path.parent.iterdir(), *(file for package in packages for file in package.rglob("*"))]
    return [file for file in files if file != path and _is_copied(file)]


def _is_copied(file: Path) -> bool:
    ours = file.suffix in COPIED and not file.name.startswith(".")
    return ours and file.is_file() and file.stat().st_size <= LARGEST


class Read(NamedTuple):
    """What a file has when it is read alone."""

    missing: dict[str, str]  # functions of the lab that are not there -> in words
    unwritten: tuple[str, ...]  # functions that are still those of the stub
    problem: str | None  # why it cannot be read at all


class TamperedError(ZooError):
    """A student's process sent what no function returns: nothing of the file is graded."""


def collected(lab: Lab, work: Copy, part: str, seed: int, seconds: float) -> Answer:
    """The answer of one part, whose functions are in a process of their own. Raises `TamperedError`."""
    patience = seconds * (1 if part == TRACE else lab.part(part).patience)
    graded = lab.functions if part == TRACE else lab.part(part).functions
    try:
        with _finished(lab, work, graded, patience) as lent, work.laid_out() as path, StudentProcess(path, patience) as student:
            problem, _ = student.load(work.text(), lent)
            if problem is not None:
                return Answer({}, {"all": problem})
            functions = student.functions(lab.functions)
            if part == TRACE and lab.iterations is not None:
                return states_as_answer(functions, lab.iterations)
            return lab.part(part).collect(functions, seed)
    except EndedError as ended:
        if ended.reason == "tampers":
            raise TamperedError(f"{work.name} {ended.said}") from ended
        return Answer({}, {"all": ended.said})


@contextmanager
def _finished(lab: Lab, work: Copy, graded: tuple[str, ...], patience: float) -> Iterator[Mapping[str, Callable[..., Any]]]:
    """The key's functions in the place of those that are not written yet and are not graded, in a process of their own.

    They are called from there, so the student's process has no function of the key, whose module has all others.
    """
    names = [name for name in unwritten(work.text(), lab.functions) if name not in graded]
    with guarded_memory():
        if not names:
            yield {}
            return
        own = Copy(work.name, {work.name: solution_text(lab).encode()})
        with own.laid_out() as path, StudentProcess(path, patience) as key:
            key.load(own.text(), {})
            yield {name: partial(_of_key, key, name) for name in names}


def _of_key(key: StudentProcess, name: str, *given: Any, **named: Any) -> Any:
    return key.call(name, given, named)


def read_alone(lab: Lab, work: Copy, seconds: float) -> Read:
    """Import the file and nothing more: is it Python, does it end, and which functions does it have?

    Raises `TamperedError`.
    """
    if (problem := _unreadable(work)) is not None:
        return Read({}, (), problem)
    text = work.text()
    try:
        with guarded_memory(), work.laid_out() as path, StudentProcess(path, seconds) as student:
            problem, there = student.load(text, {})
    except EndedError as ended:
        if ended.reason == "tampers":
            raise TamperedError(f"{work.name} {ended.said}") from ended
        late = ended.reason in ("computes", "sleeps")
        return Read({}, (), f"importing {work.name} does not end: {LOOP}" if late else f"{work.name} {ended.said}")
    if problem is not None:
        return Read({}, (), problem)
    return Read(missing_functions(lab, there), tuple(unwritten(text, lab.functions)), None)


def _unreadable(work: Copy) -> str | None:
    """What is wrong with the text of a file, before any of it runs."""
    try:
        text = work.text()
        answers = imports_of_answers(text, f"{SUBMISSION}/{work.name}")
    except UnicodeDecodeError:
        return f"{work.name} is no text in UTF-8"
    except SyntaxError as error:
        if error.lineno is None:  # an encoding that Python does not know, or bytes that are none of it
            return f"{work.name} is no text in UTF-8"
        return in_words(error, Path(work.name))
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{work.name} is no Python that can be read: {type(error).__name__}: {error}"
    return f"{work.name} imports {answers[0]}: {OWN_WORK}" if answers else None


def missing_functions(lab: Lab, there: Iterable[str]) -> dict[str, str]:
    """Functions of the lab that are not among those that are there, with the nearest name."""
    others = [name for name in there if name not in lab.functions]
    return {
        name: f"is not in the file: there is no function of this name{did_you_mean(name, others)}"
        for name in lab.functions
        if name not in there
    }


def imports_of_answers(text: str, file: str = SUBMISSION) -> list[str]:
    """What a student's file takes from the labs: all but `assert_right` has the answers, or leads to them.

    That is every import of their package or of a module of it, and names of these as texts, as importlib takes them. What hides
    a name from this search, as a text that is put together, is not found.

    >>> imports_of_answers("from labs import assert_right; from labs.solutions.viterbi import *")
    ['labs.solutions.viterbi']
    >>> imports_of_answers("import labs as l"), imports_of_answers("labs = x.argmin(1); save('labs.npz', labs)")
    (['labs'], [])
    """
    nodes = list(ast.walk(parsed(text, file)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    taken = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [f"{node.module}.{alias.name}".removesuffix(".*") for node in taken for alias in node.names]
    used = {name.partition(".")[0] for name in names} | {node.id for node in nodes if isinstance(node, ast.Name)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names += [text for text in texts if _names_a_module(text, not used.isdisjoint(BY_NAME))]
    return [name for name in names if (name == PACKAGE or name.startswith(f"{PACKAGE}.")) and name != ALLOWED]


def _names_a_module(text: str, by_name: bool) -> bool:
    """Whether a text is the name of a module of the labs; ``by_name``: their package's name counts, which is also a word."""
    within = re.fullmatch(rf"{PACKAGE}\.(\w+)[\w.:]*", text)
    return within.group(1) in MODULES if within else by_name and text == PACKAGE
