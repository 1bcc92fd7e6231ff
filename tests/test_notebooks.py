"""Every notebook runs from top to bottom, and what is committed of its outputs is clean."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from release import RELEASE

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 1_500_000  # bytes

# /folder/file and C:\folder, but neither a URL, a closing tag nor "and/or"
ABSOLUTE_PATH = re.compile(r"(?<![\w<:/.~])/(?:[\w.+-]+/)+[\w.+-]+|\b[A-Za-z]:\\\\?\w")

named = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def texts(output):
    """Every text of an output: streams, tracebacks, and representations other than pictures."""
    yield output.get("text", "")
    yield from output.get("traceback", [])
    yield from (value for kind, value in output.get("data", {}).items() if not kind.startswith("image/"))


def test_notebooks_are_found():
    assert NOTEBOOKS


@pytest.mark.parametrize("text", ["File /home/me/x.py", "(/tmp/a/b.nc)", "'/work/main/notebooks'", "C:\\Users", "C:\\\\Users"])
def test_absolute_paths_are_seen(text):
    assert ABSOLUTE_PATH.search(text)


@pytest.mark.parametrize("text", ["<th></th>", "and/or", "https://a.org/b/c", "ESS/s", "x / y", "models/gmm.py", "a: \\mu"])
def test_other_slashes_are_not_paths(text):
    assert not ABSOLUTE_PATH.search(text)


@named
def test_committed_outputs_are_clean(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "commit it executed from top to bottom"
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
            for text in texts(output):
                found = ABSOLUTE_PATH.search(text)
                assert found is None, found


SECTIONS = (
    "Story",
    "Draw from it",
    "Maths",
    "Program",
    "Methods",
    "Identification",
    "Criticism",
    "What to remember",
    "Exercises",
)
OWN_ORDER = {"errata"}  # a slip after the other
MOST_LINES, MOST_FOLDED = 15, 45  # of a cell that is shown, and of one that is folded: imports, drawing, long tables
HIDDEN, FOLDED = "remove-cell", "hide-input"  # what the site does with a cell of these tags
LONGEST_RUN = 120  # seconds on two cores with nothing else running; much of it is compilation


def tags(cell):
    return cell.metadata.get("tags", [])


def headings(notebook, level):
    """The headings of a level, without their signs."""
    start = "#" * level + " "
    lines = [line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


@named
def test_sections_are_in_the_same_order_everywhere(path):
    if path.stem not in OWN_ORDER:
        found = headings(nbformat.read(path, as_version=4), 2)
        assert len(found) == len(SECTIONS), found
        for place, (heading, section) in enumerate(zip(found, SECTIONS, strict=True)):
            assert re.match(rf"{place + 1}\. {section}\b", heading), heading


@named
def test_what_is_shown_is_short(path):
    """Checks are in cells of their own, which readers do not see; what draws a picture is folded."""
    for cell in code_cells(nbformat.read(path, as_version=4)):
        length = len(cell.source.splitlines())
        verifies = any(isinstance(node, ast.Assert) for node in ast.parse(_without_magic(cell.source)).body)
        if HIDDEN in tags(cell):
            assert "check" in tags(cell), cell.source
            assert not cell.outputs, f"a check prints nothing: {cell.source}"
        elif path.stem not in OWN_ORDER:
            assert not verifies, f"a check is to be seen: {cell.source}"
            assert length <= (MOST_FOLDED if FOLDED in tags(cell) else MOST_LINES), f"{length} lines: {cell.source}"
        hidden = {HIDDEN, FOLDED} & set(tags(cell))
        assert bool(hidden) == bool(cell.metadata.get("jupyter", {}).get("source_hidden")), "folded in Jupyter as on the site"


def _without_magic(source):
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))


@named
def test_claims_are_verified(path):
    assert any("assert" in cell.source for cell in code_cells(nbformat.read(path, as_version=4)))


@named
def test_every_exercise_has_a_folded_answer(path):
    notebook = nbformat.read(path, as_version=4)
    exercises = headings(notebook, 3)
    exercises = [title for title in exercises if title.startswith("Exercise ")]
    assert exercises
    assert [title.split(".")[0] for title in exercises] == [f"Exercise {k + 1}" for k in range(len(exercises))]
    for cell in notebook.cells:
        parts = re.split(r"^### Exercise ", cell.source, flags=re.MULTILINE) if cell.cell_type == "markdown" else []
        for part in parts[1:]:
            assert part.count("<details>") == part.count("</details>") == 1, part
            assert "<details>\n<summary>Answer</summary>\n\n" in part, part
            assert "\n\n</details>" in part, part


@named
def test_pictures_have_words_for_those_who_do_not_see_them(path):
    for cell in code_cells(nbformat.read(path, as_version=4)):
        if any(kind.startswith("image/") for output in cell.outputs for kind in output.get("data", {})):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt) > 20, cell.source


@named
def test_the_first_cell_says_how_long_it_takes(path):
    first = nbformat.read(path, as_version=4).cells[0].source
    found = re.search(r"^\*Runs in about (\d+) seconds on two cores\.\*$", first, flags=re.MULTILINE)
    assert found is not None, first
    assert 0 < int(found[1]) < LONGEST_RUN


@named
def test_no_document_is_cited_that_readers_do_not_have(path):
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    assert not re.search(r"[Dd]ocuments? 00\d", text)


BEFORE_RELEASE = {
    "compare_everything",
    "factor_analysis",
    "generative_vs_discriminative",
    "hmm",
    "latent_dirichlet",
    "linear_discriminant",
    "mixed_mixture",
    "state_space",
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if RELEASE or path.stem not in BEFORE_RELEASE], ids=lambda path: path.stem
)
def test_notebook_runs(path, tmp_path, monkeypatch):
    """In a kernel that knows nothing of the repository but its PYTHONPATH; `execute` raises where a cell does."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)
    notebook = nbformat.read(path, as_version=4)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    folder = tmp_path / "work"
    folder.mkdir()
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    assert all(cell.execution_count for cell in code_cells(notebook))
    streams = [output for cell in code_cells(notebook) for output in cell.outputs if output.output_type == "stream"]
    assert not [output.text for output in streams if output.name == "stderr"]
    assert not list(folder.iterdir()), "a notebook leaves nothing behind"


def imported(source):
    """The top-level modules that a text of Python imports; lines of magic are left out."""
    nodes = list(ast.walk(ast.parse(_without_magic(source))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0]
    return {name.split(".")[0] for name in names}


@named
def test_notebooks_import_names_that_are_there(path):
    """Found out in a second, where running the notebook takes minutes and is left for last."""
    for cell in code_cells(nbformat.read(path, as_version=4)):
        for node in ast.walk(ast.parse(_without_magic(cell.source))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in {"models", "inference"}:
                missing = [alias.name for alias in node.names if not hasattr(importlib.import_module(node.module), alias.name)]
                assert not missing, f"{node.module} has no {', '.join(missing)}"


@named
def test_notebooks_import_what_the_core_installs(path):
    """A package of an extra is there on the machine of who wrote the notebook, and not on the reader's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.split(r"[^\w.-]", entry)[0] for entry in project["dependencies"]}
    modules = set().union(*(imported(cell.source) for cell in code_cells(nbformat.read(path, as_version=4))))
    others = modules - sys.stdlib_module_names - {"models", "inference", "IPython"}  # every kernel brings IPython
    homes = importlib.metadata.packages_distributions()
    assert not {name for name in others if not core & set(homes.get(name, ()))}
