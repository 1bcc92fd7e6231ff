"""What no recorder sees: constants, classes and compiled loops that a file takes from another.

Whoever runs a function of a file may use all that the file imports. A plain function among it is seen when it runs. Anything
else, as a table, a tuple of fields or a loop compiled by Numba, counts as used, and its file as reached.

Not followed is what the import of a module does besides making its own names, as setting something in another.
"""

import ast
from collections.abc import Callable, Iterable
from typing import NamedTuple

# Decorators below which a function still runs as Python code; below any other, as Numba's, nobody sees it run.
SEEN_BELOW = {"cache", "lru_cache", "contextmanager", "kept", "jit", "partial", "wraps", "overload", "custom_vjp", "fixture"}


class Taken(NamedTuple):
    """A name that a file takes from a module; None: the module itself, used in no way that names what is used."""

    module: str
    name: str | None


class File(NamedTuple):
    """What other files may take from a file, and what it takes."""

    functions: frozenset[str]  # plain ones, at its top level
    taken: tuple[Taken, ...]
    for_types: tuple[Taken, ...] = ()  # of ``if TYPE_CHECKING``: nothing of it runs, but it says what lazy names are


def decorator_name(node: ast.expr) -> str:
    """The last part of its name."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_plain(node: ast.stmt) -> bool:
    """Whether it is a function that runs as Python code."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return all(decorator_name(decorator) in SEEN_BELOW for decorator in node.decorator_list)


def parsed(source: str, package: str, is_module: Callable[[str], bool]) -> File:
    """Read a text of Python; relative imports begin in ``package``, and ``is_module`` knows the modules of the project."""
    tree = ast.parse(source)
    functions = frozenset(node.name for node in tree.body if is_plain(node))
    used: dict[str, set[str | None]] = {}  # by the name of a module in this file
    within: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
            within.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in within:
            used.setdefault(node.id, set()).add(None)
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    hidden = {inner for node in typing for inner in ast.walk(node)}
    found: dict[bool, list[Taken]] = {False: [], True: []}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found[node in hidden] += [Taken(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found[node in hidden] += _taken_from(node, package, used, is_module)
    runs, types = (tuple(dict.fromkeys(taken for taken in found[kind] if is_module(taken.module))) for kind in (False, True))
    return File(functions, runs, types)


def _taken_from(
    node: ast.ImportFrom, package: str, used: dict[str, set[str | None]], is_module: Callable[[str], bool]
) -> list[Taken]:
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    found: list[Taken] = []
    for alias in node.names:
        if is_module(f"{module}.{alias.name}"):
            found += [
                Taken(f"{module}.{alias.name}", name) for name in sorted(used.get(alias.asname or alias.name, {None}), key=str)
            ]
        else:
            found.append(Taken(module, alias.name))
    return found


def holders(taken: Taken, file_of: Callable[[str], str | None], read: Callable[[str], File], met: frozenset[Taken]) -> set[str]:
    """The files that a name comes from, unless it is a plain function: a file that only passes it on is none of them."""
    file = file_of(taken.module)
    if file is None or taken in met:
        return set()
    if taken.name is None:
        return {file}
    found = read(file)
    if taken.name in found.functions:
        return set()
    passed_on = [other for other in (*found.taken, *found.for_types) if other.name == taken.name]
    passed_on = [other for other in passed_on if other.module != taken.module]
    if not passed_on:
        return {file}
    return set().union(*(holders(other, file_of, read, met | {taken}) for other in passed_on))


def takes_from(name: str, file_of: Callable[[str], str | None], read: Callable[[str], File]) -> set[str]:
    """The files whose values a file takes; ``file_of`` finds the file of a module, and ``read`` parses a file."""
    if not name.endswith(".py"):
        return set()
    return set().union(*(holders(taken, file_of, read, frozenset()) for taken in read(name).taken))


def closure(begin: Iterable[str], takes: Callable[[str], set[str]]) -> set[str]:
    """The files ``begin``, those that they take from, and so on."""
    found, waiting = set(), list(begin)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += takes(name)
    return found
