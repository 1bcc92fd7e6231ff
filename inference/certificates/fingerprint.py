"""The hash of the code that a certificate speaks for: the model's file, the method's, the oracle's, and all they import.

Modules that a cell imports but never runs are left out. Checks hand a `Data` to the model, which `as_data` returns as it is:
nothing reads files (`models.reading`), looks for mistakes in them (`models.inspection`) or loads named data sets
(`models.datasets`). What a message says is none of a certificate's figures: `models.errors` holds messages alone, and an error
ends a check. `inference.runtime` stays in: checkpoints, caches of programs and chunks of draws can change what comes out.

The hash is of the syntax: comments, docstrings and the layout may change.

A process runs the modules that it imported, whatever is done to their files since. So all files are read once, when this module
is imported, and a hash is of that text; a cell whose files are others by now is not certified (`edited`).
"""

import ast
import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]  # the folder of `models` and `inference`
CELL = "inference.certificates.cell"
HERE, METHOD = "inference.certificates.", "inference.methods."  # checks list all methods, of which a cell has one
UNUSED = ("models.reading.", "models.inspection.", "models.datasets.", "models.errors.")  # what no cell on a `Data` runs
EMPTY: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}  # as every version before wrote it
LISTS = frozenset({"models", "models.zoo", "inference", "inference.methods"})  # they name cells, and are not part of one


# What every file said when this process began
SOURCES: dict[Path, bytes] = {
    path: path.read_bytes() for folder in ("models", "inference") for path in ROOT.glob(f"{folder}/**/*.py")
}


def fingerprint(roots: Iterable[str], settings: str) -> str:
    """Hash of the sources of modules and of all that they import; another one means that a check is stale.

    ``settings`` is in words what the modules do not say: how the model is made of its module, and how large the check is.
    """
    found = hashlib.sha256(settings.encode())
    for module in sorted(reached(roots)):
        found.update(module.encode())
        found.update(_digest(_source(module)))
    return found.hexdigest()[:16]


def edited(roots: Iterable[str]) -> list[str]:
    """The modules that do something else by now than when this process began."""
    return [module for module in sorted(reached(roots) | {CELL}) if not _is_as_it_was(module)]


def _is_as_it_was(module: str) -> bool:
    now = _now(module)
    try:
        return now is not None and syntax_of(now) == syntax_of(_source(module))
    except SyntaxError:  # in the middle of an edit
        return False


def _now(module: str) -> bytes | None:
    """What the file of a module says now; None if there is none any more."""
    path = _path(module)
    return path.read_bytes() if path is not None and path.is_file() else None


def reached(modules: Iterable[str]) -> frozenset[str]:
    """The modules of `models` and `inference` that ``modules`` import, wherever in them, and they themselves, but `UNUSED`."""
    return frozenset().union(*map(_reached, modules))


@cache
def _reached(module: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = [module]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            names = {name for name in _imports(module) - found - LISTS if not f"{name}.".startswith(UNUSED)}
            waiting += [name for name in names if not (module.startswith(HERE) and name.startswith(METHOD))]
    return frozenset(found)


def _source(module: str) -> bytes:
    """What the file of a module said when this process began."""
    path = _path(module)
    assert path is not None, module
    return SOURCES[path]


@cache
def syntax_of(source: bytes) -> bytes:
    """What a module does: its syntax, without docstrings and comments.

    >>> syntax_of(b"x = 1  # one") == syntax_of(b"x=1") != syntax_of(b"x = 2")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        if isinstance(node, ast.JoinedStr):  # before Python 3.13 a nested one may end with an empty text
            node.values = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
    return ast.dump(tree, **EMPTY).encode()


@cache
def _digest(source: bytes) -> bytes:
    return hashlib.sha256(syntax_of(source)).digest()


@cache
def _path(module: str) -> Path | None:
    """The file of a module or package of the zoo."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _imports(module: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    ours = {name for name in names if name.split(".")[0] in ("models", "inference")}
    return frozenset(name for name in ours if _path(name) is not None)
