"""A user's program, named by file and function: importing the file runs it."""

import hashlib
import sys
import types
from pathlib import Path
from typing import Any

from models.errors import ZooError, exists


def load_program(path: str | None, sha256: str | None = None) -> Any:
    """The function named by ``file.py:function``; raises `ZooError` if the file's SHA-256 is not the given one."""
    if not path or ":" not in path:
        raise ZooError("model=program also needs model.path=<file.py>:<function>; shorter: model=<file.py>:<function>")
    file, _, name = path.rpartition(":")
    content = _content(file)
    digest = hashlib.sha256(content).hexdigest()
    if sha256 not in (None, digest):
        raise ZooError(f"model: {file} was changed while it was being read; start again")
    function = getattr(_executed(file, content, digest), name, None)
    if not callable(function):
        raise ZooError(f"model: {file} has no function {name!r}")
    return function


def _executed(file: str, content: bytes, digest: str) -> types.ModuleType:
    """Execute the bytes as a module, without reading the file again or writing a cache next to it.

    The module needs a name in `sys.modules`, because dataclasses look it up; with the digest in it, nothing else has it.
    """
    module = types.ModuleType(f"_program_{Path(file).stem}_{digest[:16]}")
    module.__file__ = str(Path(file).absolute())
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, module.__file__, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's file may raise anything, even SystemExit
        del sys.modules[module.__name__]
        raise ZooError(f"model: {file} does not load: {type(error).__name__}: {error}") from error
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def digest_of(path: str) -> str:
    """SHA-256 of the file named by ``file.py:function``; the file is read, not executed."""
    return hashlib.sha256(_content(path.rpartition(":")[0])).hexdigest()


def _content(file: str) -> bytes:
    if not (exists(file) and Path(file).is_file()):
        raise ZooError(f"model: there is no file {file!r}")
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ZooError(f"model: {file} cannot be read: {error.strerror or error}") from error
