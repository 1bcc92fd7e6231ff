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

LABS = "inference.lab"
KEYS = f"{LABS}.solutions"
OWN_WORK = "it has the answers; write the functions yourself"


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
    """Modules of the labs that a student's file imports: all but `assert_right` has the answers, or leads to them.

    >>> imports_of_answers("from inference.lab import assert_right; from inference.lab.solutions.viterbi import *")
    ['inference.lab.solutions.viterbi']
    """
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith(f"{LABS}.")]
        elif isinstance(node, ast.ImportFrom) and node.module == LABS:
            found += [f"{LABS}.{alias.name}" for alias in node.names if alias.name != "assert_right"]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{LABS}."):
            found.append(str(node.module))
        elif isinstance(node, ast.ImportFrom) and node.module == "inference":
            found += [LABS for alias in node.names if alias.name == "lab"]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(KEYS):
            found.append(node.value)  # for importlib
    return found


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
