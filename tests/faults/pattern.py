"""Patterns of the syntax tree: a fragment of Python, in which placeholders stand for any expression.

`_` stands for any expression. `_1`, `_2` and so on do as well. Each of these stands for the same expression wherever it occurs,
and the replacement may use it. Layout, comments and brackets that change nothing do not matter. `name=value` is an assignment,
or an argument of a call.
"""

import ast
import re

ANY = "_"
NUMBERED = re.compile(r"_\d+")
ASIDE = ("ctx", "kind", "type_comment")  # what a fragment does not say of itself
Found = dict[str, ast.expr]


def fragment(text: str) -> ast.AST:
    """The syntax tree of one expression or statement; raises `SyntaxError` or `ValueError`."""
    (statement,) = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def found_by(pattern: ast.AST, node: ast.AST) -> Found | None:
    """What the numbered placeholders stand for in a node of this pattern; None for any other node."""
    found: Found = {}
    return found if _agrees(pattern, node, found) else None


def filled(replacement: ast.AST, found: Found) -> str:
    """A replacement as text, with what the placeholders stand for; raises `ValueError` for one that the pattern lacks."""
    return ast.unparse(_Filling(found).visit(replacement))


def _agrees(pattern: object, node: object, found: Found) -> bool:
    if isinstance(pattern, ast.Name) and isinstance(node, ast.expr):
        if pattern.id == ANY:
            return True
        if NUMBERED.fullmatch(pattern.id):
            return ast.dump(found.setdefault(pattern.id, node)) == ast.dump(node)
    if isinstance(pattern, ast.Assign) and isinstance(node, ast.keyword):
        return ast.unparse(pattern.targets[0]) == node.arg and _agrees(pattern.value, node.value, found)
    if isinstance(pattern, list) and isinstance(node, list):
        return len(pattern) == len(node) and all(_agrees(*pair, found) for pair in zip(pattern, node, strict=True))
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.AST):
        fields = (name for name in pattern._fields if name not in ASIDE)
        return all(_agrees(getattr(pattern, name), getattr(node, name), found) for name in fields)
    return pattern == node


class _Filling(ast.NodeTransformer):
    def __init__(self, found: Found) -> None:
        self.found = found

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if NUMBERED.fullmatch(node.id) and node.id not in self.found:
            raise ValueError(f"{node.id} is not in the pattern")
        return self.found.get(node.id, node)
