"""A student's file: its text as a namespace, and its parts collected in processes of their own, each under a time limit."""

import hashlib
import io
import json
import linecache
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from inference.lab.parts.calls import SUBMISSION
from inference.lab.parts.lab import Answer, Lab
from models.errors import ZooError, did_you_mean

START = 20.0  # seconds of computing that Python and the imports of a student's file may take, beside those of the part
WAITING = 60.0  # seconds more by the clock: a busy machine computes slowly, but what sleeps must end, too
COMPUTING_TIME = "BAYES_MODEL_ZOO_LAB_SECONDS"  # the limit that the worker sets itself
COPIED = (".py", ".npz", ".csv")  # files beside the student's that are copied
LARGEST = 16 * 2**20  # bytes of one of them
TRACE = "trace"  # in the place of a part: the states of the run of the lab
LOOP = "move what runs long into a function, or below `if __name__ == '__main__':`"
WAITS = "does a loop never end, or does it wait for something? (seconds= gives more time)"
COMPUTES = "does a loop never end? (seconds= gives more time)"
PREFIX = "bayes-model-zoo-lab-"
LAST = 3  # lines of what a crashed process said
State = dict[str, tuple[int, int]]  # of a folder: file -> (size, time of the last change)


class Copy:
    """A copy of a student's file, with the files and packages beside it, for all processes of a grade.

    Whatever the code deletes, the work stays. It runs in a second copy, which is made again where the code has changed it.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.name, self._kept, self._work = path.name, folder / "kept", folder / "work"
        self._kept.mkdir()
        for file in _beside(path.resolve()):
            target = self._kept / file.relative_to(path.resolve().parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        copy = Path(shutil.copy(path, self._kept / path.name))
        self.sha256 = hashlib.sha256(copy.read_bytes()).hexdigest()

    def without(self, functions: Iterable[str], folder: Path) -> "Copy":
        """A copy, in an empty folder, whose file has these functions as the stub has them: finished ones are then lent."""
        other = Copy(self._kept / self.name, folder)
        with (other._kept / self.name).open("ab") as file:
            file.write("".join(f"\n\n\ndef {name}():\n    raise NotImplementedError\n" for name in functions).encode())
        return other

    def text(self) -> str:
        """The text of the file."""
        return text_of(self._kept / self.name)

    def whole(self) -> Path:
        """The file in a copy that no code has changed."""
        if _state(self._work) != _state(self._kept):
            shutil.rmtree(self._work, ignore_errors=True)
            shutil.copytree(self._kept, self._work)  # with the times of the files
        return self._work / self.name


@contextmanager
def copy_of(path: Path) -> Iterator[Copy]:
    """A copy that is gone afterwards. Raises `ZooError` where there is no such file."""
    if not path.is_file():
        raise ZooError(f"there is no file {path}")
    with scratch() as folder:
        yield Copy(path, folder)


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _beside(path: Path) -> list[Path]:
    """Files beside a file, and in packages beside it, that its code may read; no large and no hidden ones."""
    packages = [each.parent for each in path.parent.glob("[!.]*/__init__.py")]
    files = [*path.parent.iterdir(), *(file for package in packages for file in package.rglob("*"))]
    return [file for file in files if file != path and _is_copied(file)]


def _is_copied(file: Path) -> bool:
    ours = file.suffix in COPIED and not file.name.startswith(".")
    return ours and file.is_file() and file.stat().st_size <= LARGEST


def _state(folder: Path) -> State:
    """What shows that a folder has changed: its files with sizes and times. What Python has compiled counts for nothing."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.parent.name != "__pycache__"]
    stats = {file: file.stat() for file in files}
    return {str(file.relative_to(folder)): (stat.st_size, stat.st_mtime_ns) for file, stat in stats.items()}


class Read(NamedTuple):
    """What a file has when it is read alone."""

    missing: dict[str, str]  # functions of the lab that are not there -> in words
    unwritten: tuple[str, ...]  # functions that are still those of the stub
    problem: str | None  # why it cannot be read at all


class Ended(NamedTuple):
    """Why a process gave no answer."""

    reason: Literal["crashes", "computes", "sleeps"]
    said: str  # to the student, after the name of the function or file


def text_of(path: Path) -> str:
    """The text of a student's file as Python reads it: with or without a byte-order mark, in the encoding that it declares."""
    return decode_source(path.read_bytes())


def loaded(path: Path, text: str | None = None) -> ModuleType:
    """The names of a student's file, whose ``text`` may be known already. Raises what the file raises."""
    source = text_of(path) if text is None else text
    name = f"{SUBMISSION}/{path.name}"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # dataclasses look their module up there
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    return module


def missing_functions(lab: Lab, module: object) -> dict[str, str]:
    """Functions of the lab that a namespace lacks, with the nearest name that it has."""
    there = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    others = [name for name in there if name not in lab.functions]
    return {
        name: f"is not in the file: there is no function of this name{did_you_mean(name, others)}"
        for name in lab.functions
        if name not in there
    }


def collected(lab: Lab, work: Copy, part: str, seed: int, seconds: float) -> Answer:
    """The answer of one part, from a process of its own."""
    found = _child(lab, work, part, seed, seconds * (1 if part == TRACE else lab.part(part).patience))
    return Answer({}, {"all": found.said}) if isinstance(found, Ended) else found


def read_alone(lab: Lab, work: Copy, seconds: float) -> Read:
    """Import the file and nothing more: is it Python, does it end, and which functions does it have?"""
    found = _child(lab, work, "", 0, seconds)
    if isinstance(found, Ended):
        name = work.name
        said = f"{name} {found.said}" if found.reason == "crashes" else f"importing {name} does not end: {LOOP}"
        return Read({}, (), said)
    return Read(found.notes.get("missing", {}), tuple(found.notes.get("unwritten", ())), found.notes.get("problem"))


def _child(lab: Lab, work: Copy, part: str, seed: int, patience: float) -> Answer | Ended:
    """What the worker answers on a copy, or why it does not. What the student's file prints is thrown away.

    ``patience`` in seconds of computing: another program that keeps the machine busy does not fail right code.
    """
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as folder,
        tempfile.TemporaryFile() as errors,  # no pipe: a process that the student's file starts may hold it open
    ):
        path, out = work.whole(), Path(folder) / "answer.npz"
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "inference.lab.worker", lab.name, str(path), part, str(seed), str(out)],
                cwd=path.parent,
                env=_environment(patience + START),
                timeout=patience + START + WAITING,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        except subprocess.TimeoutExpired:
            return Ended("sleeps", f"does not end within {patience + START + WAITING:g} seconds by the clock: {WAITS}")
        if done.returncode == -getattr(signal, "SIGXCPU", 0) != 0:
            return Ended("computes", f"takes more than {patience:g} seconds of computing time: {COMPUTES}")
        if done.returncode or not out.is_file():
            errors.seek(0)
            last = " / ".join(errors.read().decode(errors="replace").strip().splitlines()[-LAST:])
            return Ended("crashes", f"ended the Python process (exit code {done.returncode}){f': {last}' if last else ''}")
        return from_bytes(out.read_bytes())


def limit_computing() -> None:
    """In the worker: the system ends this process when it has computed for too long. Where it cannot, time passes instead."""
    if sys.platform == "win32":
        return
    import resource

    limit = math.ceil(float(os.environ[COMPUTING_TIME]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))


def _environment(seconds: float) -> dict[str, str]:
    """That of this process; pictures go nowhere, Python's text is UTF-8, and one thread computes, so that times compare."""
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    path = f"{root}{os.pathsep}{known}" if known else root
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | threads | {"PYTHONPATH": path, "MPLBACKEND": "Agg", "PYTHONUTF8": "1", COMPUTING_TIME: str(seconds)}


def as_bytes(answer: Answer) -> bytes:
    """An answer as one npz file."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {f"array/{name}": value for name, value in answer.arrays.items()}
    np.savez(buffer, notes=np.frombuffer(json.dumps(answer.notes).encode(), dtype=np.uint8), **arrays)
    return buffer.getvalue()


def from_bytes(content: bytes) -> Answer:
    """The answer that `as_bytes` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as held:
        arrays = {name.removeprefix("array/"): held[name] for name in held.files if name != "notes"}
        return Answer(arrays, json.loads(held["notes"].tobytes()))
