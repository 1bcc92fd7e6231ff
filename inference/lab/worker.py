"""The student's process: ``python -m inference.lab.worker LAB FILE PART SEED OUT`` collects one part.

Where PART is empty, the file is read and nothing more.
"""

import ast
import sys
import traceback
from pathlib import Path
from types import ModuleType

from inference.lab.labs import lab_of
from inference.lab.parts.calls import SUBMISSION
from inference.lab.parts.lab import Answer, Lab
from inference.lab.parts.runs import states_as_answer
from inference.lab.stub import key_of, unwritten
from inference.lab.submission import TRACE, as_bytes, limit_computing, loaded, missing_functions, text_of
from inference.runtime.files import write

ZOO = "inference"
LABS = f"{ZOO}.lab"
ALLOWED = f"{LABS}.assert_right"
OWN_WORK = f"it has the answers; write the functions yourself (from {LABS} import assert_right is allowed)"


def work(lab: str, file: str, part: str, seed: str, out: str) -> None:
    """Collect, and write the answer."""
    limit_computing()
    path = Path(file)
    sys.path.append(str(path.parent))  # last: a student's file must not hide a library
    try:
        text = text_of(path)
    except (UnicodeDecodeError, SyntaxError):  # a SyntaxError is an encoding that Python does not know
        write(out, as_bytes(Answer({}, {"problem": f"{path.name} is no text in UTF-8"})))
        return
    try:
        module = loaded(path, text)
    except (Exception, SystemExit) as error:
        write(out, as_bytes(Answer({}, {"problem": in_words(error, path)})))
        return
    if answers := imports_of_answers(text):
        write(out, as_bytes(Answer({}, {"problem": f"{path.name} imports {answers[0]}: {OWN_WORK}"})))
        return
    write(out, as_bytes(_answer(lab_of(lab), module, text, part, int(seed))))


def _answer(lab: Lab, module: ModuleType, text: str, part: str, seed: int) -> Answer:
    if not part:
        return Answer({}, {"missing": missing_functions(lab, module), "unwritten": unwritten(text, lab.functions)})
    if part == TRACE and lab.iterations is not None:
        return states_as_answer(module, lab.iterations)
    lend(lab, module, text, lab.part(part).functions)
    return lab.part(part).collect(module, seed)


def imports_of_answers(text: str) -> list[str]:
    """What a student's file takes from the labs: all but `assert_right` has the answers, or leads to them.

    That is every import of a module of the labs, their package as an attribute, and names of their modules as texts, as
    importlib takes them. What hides a name from this search, as a text that is put together, is not found.

    >>> imports_of_answers("from inference.lab import assert_right; from inference.lab.solutions.viterbi import *")
    ['inference.lab.solutions.viterbi']
    >>> imports_of_answers("import inference as zoo; right = zoo.lab"), imports_of_answers("import inference.lab as l")
    (['inference.lab'], ['inference.lab'])
    """
    nodes = list(ast.walk(ast.parse(text)))
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names = [alias.name for alias in imported]
    whole = [alias for alias in imported if alias.name == ZOO or not alias.asname]  # `import inference.run` binds `inference`
    packages = {alias.asname or ZOO for alias in whole if _is_in(alias.name, ZOO)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}".removesuffix(".*") for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            names.append(f"{ZOO}.{node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.append(node.value)  # for importlib
    return [name for name in names if _is_in(name, LABS) and name != ALLOWED]


def _is_in(name: str, package: str) -> bool:
    """Whether a name is that of a package, or of something in it."""
    return name == package or name.startswith(f"{package}.")


def lend(lab: Lab, module: ModuleType, text: str, graded: tuple[str, ...]) -> None:
    """Put the key's functions in the place of those that are not written yet, except the functions that are graded now."""
    for name in unwritten(text, lab.functions):
        if name not in graded:
            vars(module)[name] = vars(key_of(lab))[name]


def in_words(error: BaseException, path: Path) -> str:
    """``em_gmm.py is no Python: line 3: expected ':'``, or what the file raised, and where."""
    if isinstance(error, SyntaxError) and (file := _file_of(error, path)) is not None:
        line = (error.text or "").strip()
        return f"{file} is no Python: line {error.lineno}: {error.msg}{f': {line}' if line else ''}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(SUBMISSION)]
    where = f", line {own[-1].lineno}" if own else ""
    return f"{path.name} cannot be imported{where}: {type(error).__name__}: {error}"


def _file_of(error: SyntaxError, path: Path) -> str | None:
    """The file that is no Python: the student's, or one that it imports; None for text that the file itself has compiled."""
    if error.filename is None or error.filename.startswith(SUBMISSION):
        return path.name
    helper = Path(error.filename)
    return f"{helper.name}, which {path.name} imports," if helper.is_file() else None


if __name__ == "__main__":
    work(*sys.argv[1:])
