"""A student's file: its text as a namespace, and its parts collected in processes of their own, each under a time limit."""

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
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from inference.lab.parts.calls import SUBMISSION
from inference.lab.parts.lab import Answer, Lab
from models.errors import ZooError, did_you_mean

START = 20.0  # seconds of computing that Python and the imports of a student's file may take, beside those of the part
WAITING = 10.0  # times the computing time: a busy machine computes slowly, but what sleeps must end, too
COMPUTING_TIME = "BAYES_MODEL_ZOO_LAB_SECONDS"  # the limit that the worker sets itself
LARGEST = 16 * 2**20  # bytes of a file beside the student's that is copied
CRASHED = "ended the Python process"
TRACE = "trace"  # in the place of a part: the states of the run of the lab
LOOP = "move what runs long into a function, or below `if __name__ == '__main__':`"
COMPUTES, SLEEPS = "computes", "sleeps"  # why a process was ended
TOO_LONG = {
    COMPUTES: "takes more than {:g} seconds of computing time: does a loop never end? (seconds= gives more time)",
    SLEEPS: "has used less than {:g} seconds of computing time, but it does not end: does it wait for something? "
    "(seconds= gives more time)",
}
LAST = 3  # lines of what a crashed process said


class Read(NamedTuple):
    """What a file has when it is read alone."""

    missing: dict[str, str]  # functions of the lab that are not there -> in words
    problem: str | None  # why it cannot be read at all


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


def collected(lab: Lab, path: Path, part: str, seed: int, seconds: float) -> Answer:
    """The answer of one part, from a process of its own."""
    patience = seconds * (1 if part == TRACE else lab.part(part).patience)
    with tempfile.TemporaryDirectory(prefix="bayes-model-zoo-lab-") as folder:
        out = Path(folder) / "answer.npz"
        said = _child(lab, path, part, seed, out, patience + START)
        if said is not None:
            return Answer({}, {"all": said if said.startswith(CRASHED) else TOO_LONG[said].format(patience)})
        return from_bytes(out.read_bytes())


def read_alone(lab: Lab, path: Path, seconds: float) -> Read:
    """Import the file and nothing more: is it Python, does it end, and which functions does it have?"""
    if not path.is_file():
        raise ZooError(f"there is no file {path}")
    with tempfile.TemporaryDirectory(prefix="bayes-model-zoo-lab-") as folder:
        out = Path(folder) / "answer.npz"
        said = _child(lab, path, "", 0, out, seconds + START)
        if said is not None:
            return Read(
                {}, f"{path.name} {said}" if said.startswith(CRASHED) else f"importing {path.name} does not end: {LOOP}"
            )
        notes = from_bytes(out.read_bytes()).notes
        return Read(notes.get("missing", {}), notes.get("problem"))


def _child(lab: Lab, path: Path, part: str, seed: int, out: Path, seconds: float) -> str | None:
    """Run the worker on a copy, which writes ``out``; what went wrong, or None. What the student's file prints is thrown away.

    ``seconds`` are of computing: another program that keeps the machine busy does not fail right code.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bayes-model-zoo-lab-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as errors,  # no pipe: a process that the student's file starts may hold it open
    ):
        copy = copied(path.resolve(), Path(folder) / "work")
        arguments = [lab.name, str(copy), part, str(seed), str(out)]
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "inference.lab.worker", *arguments],
                cwd=copy.parent,
                env=_environment(seconds),
                timeout=WAITING * seconds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        except subprocess.TimeoutExpired:
            return SLEEPS
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if done.returncode == -getattr(signal, "SIGXCPU", 0) != 0:
        return COMPUTES
    if done.returncode or not out.is_file():
        last = " / ".join(said.strip().splitlines()[-LAST:])
        return f"{CRASHED} (exit code {done.returncode}){f': {last}' if last else ''}"
    return None


def copied(path: Path, folder: Path) -> Path:
    """A copy of a student's file, with the files and packages beside it: whatever the code deletes, the work stays.

    Large files and hidden ones are left out.
    """
    folder.mkdir()
    for each in path.parent.iterdir():
        if each == path or each.name.startswith("."):
            continue
        if each.is_file() and each.stat().st_size <= LARGEST:
            shutil.copy(each, folder)
        elif (each / "__init__.py").is_file():
            shutil.copytree(each, folder / each.name)
    return Path(shutil.copy(path, folder))


def limit_computing() -> None:
    """In the worker: the system ends this process when it has computed for too long. Where it cannot, time passes instead."""
    if sys.platform == "win32":
        return
    import resource

    limit = math.ceil(float(os.environ.get(COMPUTING_TIME, "inf")))
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
