"""A fault: a fragment of models/ or inference/ as it stands, and as a tired engineer might have written it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from .pattern import Found, filled, found_by, fragment


@dataclass(frozen=True)
class Fault:
    """One fragment to replace; `pattern` says what ``pattern`` and ``faulty`` may be."""

    name: str
    place: str  # file from the root of the project::function, Class.method, or constant
    pattern: str  # matches exactly one fragment there
    faulty: str
    words: str  # what is wrong, for a person
    kind: str
    equivalent: str = ""  # why nothing can tell the two apart, if nothing can

    @property
    def file(self) -> str:
        return self.place.partition("::")[0]

    @property
    def within(self) -> str:
        return self.place.partition("::")[2]


class Match(NamedTuple):
    """A fragment of a source, and what the placeholders of a pattern stand for there."""

    node: ast.expr | ast.stmt | ast.keyword
    found: Found

    @property
    def lines(self) -> frozenset[int]:
        return _lines(self.node)


class Reach(NamedTuple):
    """The lines that run when the faulty ones matter, from the closest: (file, line numbers)."""

    places: tuple[tuple[str, frozenset[int]], ...]


def settled(fault: Fault, root: Path) -> Fault:
    """The fault in the file that has its function now.

    If its own file has not, another one of the folder has: exactly one. Else the fault stays as it is, and cannot be planted.
    """
    own = root / fault.file
    if own.exists() and fault.within in _definitions(own.read_text(encoding="utf-8")):
        return fault
    others = [path for path in own.parent.glob("*.py") if fault.within in _definitions(path.read_text(encoding="utf-8"))]
    if len(others) != 1:
        return fault
    return replace(fault, place=f"{others[0].relative_to(root).as_posix()}::{fault.within}")


def match_of(fault: Fault, source: str) -> Match:
    """Where the fault belongs; raises `ValueError` unless its pattern matches exactly once in its function."""
    scopes = _definitions(source).get(fault.within, [])
    if not scopes:
        raise ValueError(f"{fault.name}: {fault.file} has no {fault.within}")
    pattern = fragment(fault.pattern)
    nodes = [node for scope in scopes for node in ast.walk(scope) if isinstance(node, ast.expr | ast.stmt | ast.keyword)]
    places = [Match(node, found) for node in nodes if (found := found_by(pattern, node)) is not None]
    if len(places) != 1:
        raise ValueError(f"{fault.name}: {fault.place} has this {len(places)} times, not once: {fault.pattern}")
    return places[0]


def planted(fault: Fault, source: str) -> str:
    """The source with the fault, on as many lines; raises `ValueError` if nothing changes, `SyntaxError` if it is no Python."""
    node, found = match_of(fault, source)
    text = filled(fragment(fault.faulty), found)
    rest = "\n" * (len(_lines(node)) - 1)
    text = f"({text}{rest})" if isinstance(node, ast.expr) else text + rest
    raw = source.encode()
    starts = [0, *accumulate(map(len, raw.splitlines(keepends=True)))]
    begin, end = starts[node.lineno - 1] + node.col_offset, starts[_last(node) - 1] + (node.end_col_offset or 0)
    changed = (raw[:begin] + text.encode() + raw[end:]).decode()
    if ast.dump(ast.parse(changed)) == ast.dump(_tree(source)):
        raise ValueError(f"{fault.name}: the fragment is as it was")
    return changed


def reach_of(fault: Fault, source: str) -> Reach:
    """The fragment itself, its statement, its function, and the whole file.

    Statements of a module run when it is imported, which says nothing: there it is the lines that mention what they bind.
    """
    own = match_of(fault, source).lines
    everything = frozenset(range(1, len(source.splitlines()) + 1))
    around = [node for node in ast.walk(_tree(source)) if isinstance(node, ast.stmt | ast.expr) and own <= _lines(node)]
    functions = [node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)]
    if not functions:
        return Reach(((fault.file, _mentions(around, source) - own), (fault.file, everything)))
    statement = max((node for node in around if isinstance(node, ast.stmt)), key=lambda node: node.lineno)
    function = max(functions, key=lambda node: node.lineno)
    body = frozenset(range(function.lineno + isinstance(function, ast.FunctionDef), _last(function) + 1))
    return Reach(tuple((fault.file, part) for part in (own, _lines(statement) & body, body, everything)))


@cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def _definitions(source: str) -> dict[str, list[ast.stmt]]:
    """The functions, classes and constants of a file by qualified name; several of one name, as under `if` and `else`."""
    found: dict[str, list[ast.stmt]] = {}
    for name, node in _names(_tree(source)):
        found.setdefault(name, []).append(node)
    return found


def _names(scope: ast.AST, before: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield before + node.name, node
            yield from _names(node, f"{before}{node.name}.")
        elif isinstance(node, ast.stmt):
            yield from ((before + name, node) for name in _bound(node))
            yield from _names(node, before)
        elif isinstance(node, ast.ExceptHandler):
            yield from _names(node, before)


def _bound(node: ast.AST) -> list[str]:
    """The names that an assignment binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _last(node: ast.expr | ast.stmt | ast.keyword) -> int:
    return node.end_lineno or node.lineno


def _lines(node: ast.expr | ast.stmt | ast.keyword) -> frozenset[int]:
    return frozenset(range(node.lineno, _last(node) + 1))


def _mentions(around: list[ast.stmt | ast.expr], source: str) -> frozenset[int]:
    """Lines that hold a name which the statements bind."""
    names = [name for node in around for name in _bound(node)]
    found = re.compile(r"\b(" + "|".join(names) + r")\b") if names else re.compile(r"(?!)")
    return frozenset(number for number, line in enumerate(source.splitlines(), 1) if found.search(line))
