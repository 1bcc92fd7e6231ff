"""Stubs, cut from the key: functions with their docstrings and without their bodies."""

import ast
import warnings
from importlib import import_module
from inspect import getsource
from types import ModuleType

from labs.parts.lab import Lab, slipped

SOLUTIONS = "labs.solutions"
TYPING = "# mypy: allow-untyped-defs\n"


def key_of(lab: Lab) -> ModuleType:
    """The right functions of a lab."""
    return import_module(f"{SOLUTIONS}.{lab.name}")


def solution_text(lab: Lab) -> str:
    """The key of a lab, without what it says to mypy."""
    return getsource(key_of(lab)).removeprefix(TYPING)


def stub_text(lab: Lab) -> str:
    """What a student starts from: the key without the bodies of its functions, or with slips to repair."""
    if lab.slips:
        return slipped(solution_text(lab), lab.slips)
    return cut(solution_text(lab), lab.functions, lab.given)


def model_text(lab: Lab) -> str:
    """The docstring of the student's file: what the symbols mean, for pages and notebooks."""
    return ast.get_docstring(ast.parse(stub_text(lab))) or ""


def function_text(source: str, name: str) -> str:
    """One function of a text."""
    node = next(each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == name)
    return "\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno])


def parsed(source: str, file: str = "<unknown>") -> ast.Module:
    """The tree of a student's text, whose warnings are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, file)


def unwritten(source: str, asked: tuple[str, ...]) -> list[str]:
    """Functions of a student's file whose body is still that of the stub.

    >>> unwritten("def f(x): raise NotImplementedError", ("f", "g")), unwritten("def f(x): return x", ("f",))
    (['f'], [])
    """
    own = [node for node in parsed(source).body if isinstance(node, ast.FunctionDef) and node.name in asked]
    return [node.name for node in own if all(_says_nothing(statement) for statement in node.body)]


def called_by(source: str, function: str) -> set[str]:
    """Names that a function of a student's file uses, and those that the file's own functions among them use.

    >>> sorted(called_by("f = lambda x: g(x); g = lambda x: h(x)", "f"))
    ['g', 'h', 'x']
    """
    uses: dict[str, set[str]] = {}
    for node in parsed(source).body:
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        for name in _defined(node):
            uses[name] = uses.get(name, set()) | used
    found: set[str] = set()
    left = [function]
    while left:
        new = uses.get(left.pop(), set()) - found
        found |= new
        left += new
    return found - {function}


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a file gives a meaning to."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, or ``raise NotImplementedError`` with or without a text."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    called = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(called, ast.Name) and called.id == "NotImplementedError"


def cut(source: str, asked: tuple[str, ...], given: tuple[str, ...] = ()) -> str:
    """The source with the functions ``asked`` emptied; private helpers are left out, and those ``given`` stay whole."""
    lines = source.splitlines()
    tree = ast.parse(source)
    parts: list[str] = []
    for node in tree.body:
        own = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef) and node.name in asked:
            docstring = node.body[0]
            parts.append("\n\n" + "\n".join(lines[node.lineno - 1 : docstring.end_lineno]) + "\n    raise NotImplementedError")
        elif isinstance(node, ast.FunctionDef):
            parts += [f"\n\n{own}"] if node.name in given else []
        else:
            parts.append(
                own if isinstance(node, ast.Import | ast.ImportFrom) and parts[-1].startswith(IMPORTS) else _apart(own, parts)
            )
    return "\n".join(parts) + "\n"


IMPORTS = ("import ", "from ")


def _apart(own: str, parts: list[str]) -> str:
    return f"\n{own}" if parts else own
