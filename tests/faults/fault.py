"""A fault: one line of models/ or inference/ as it stands, and as a tired engineer might have written it."""

import ast
import re
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Fault:
    """One line to replace; ``line`` and ``faulty`` are without indentation."""

    name: str
    file: str  # from the root of the project
    line: str  # occurs exactly once in the file
    faulty: str
    words: str  # what is wrong, for a person
    kind: str
    equivalent: str = ""  # why nothing can tell the two apart, if nothing can


class Reach(NamedTuple):
    """The lines that run when the faulty one matters, from the closest: (file, line numbers)."""

    places: tuple[tuple[str, frozenset[int]], ...]


def place_of(fault: Fault, source: str) -> int:
    """The number of the faulty line, from 1; raises `ValueError` unless the line occurs exactly once."""
    places = [number for number, line in enumerate(source.splitlines(), 1) if line.strip() == fault.line]
    if len(places) != 1:
        raise ValueError(f"{fault.name}: {fault.file} has the line {len(places)} times, not once: {fault.line}")
    return places[0]


def planted(fault: Fault, source: str) -> str:
    """The source with the fault; raises `ValueError` if the line is as it was, and `SyntaxError` if it is no Python."""
    number = place_of(fault, source)
    if fault.line.split() == fault.faulty.split():
        raise ValueError(f"{fault.name}: the line is as it was")
    lines = source.splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(fault.line, fault.faulty)
    changed = "".join(lines)
    ast.parse(changed)
    return changed


def reach_of(fault: Fault, source: str) -> Reach:
    """The line itself, its statement, its function, and the whole file.

    Statements of a module run when it is imported, which says nothing: there it is the lines that mention what they bind.
    """
    number = place_of(fault, source)
    everything = frozenset(range(1, len(source.splitlines()) + 1))
    around = [node for node in ast.walk(ast.parse(source)) if _holds(node, number)]
    functions = [node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)]
    if not functions:
        return Reach(((fault.file, _mentions(around, source) - {number}), (fault.file, everything)))
    statement = max((node for node in around if isinstance(node, ast.stmt)), key=lambda node: node.lineno)
    function = max(functions, key=lambda node: node.lineno)
    body = frozenset(range(function.lineno + isinstance(function, ast.FunctionDef), function.end_lineno + 1))
    lines = frozenset(range(statement.lineno, statement.end_lineno + 1)) & body
    return Reach(tuple((fault.file, part) for part in (frozenset({number}), lines, body, everything)))


def _holds(node: ast.AST, number: int) -> bool:
    return isinstance(node, ast.stmt | ast.expr) and node.lineno <= number <= (node.end_lineno or node.lineno)


def _mentions(around: list[ast.AST], source: str) -> frozenset[int]:
    """Lines that hold a name which the statements bind."""
    names = [
        target.id for node in around if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)
    ]
    names += [node.target.id for node in around if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    found = re.compile(r"\b(" + "|".join(names) + r")\b") if names else re.compile(r"(?!)")
    return frozenset(number for number, line in enumerate(source.splitlines(), 1) if found.search(line))
