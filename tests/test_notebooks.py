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


LONGEST = ("generative_vs_discriminative", "latent_dirichlet", "linear_discriminant", "mixed_mixture")  # before a release


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if RELEASE or path.stem not in LONGEST], ids=lambda path: path.stem
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
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
    nodes = list(ast.walk(ast.parse("\n".join(lines))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0]
    return {name.split(".")[0] for name in names}


@named
def test_notebooks_import_names_that_are_there(path):
    """Found out in a second, where running the notebook takes minutes and is left for last."""
    for cell in code_cells(nbformat.read(path, as_version=4)):
        lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))]
        for node in ast.walk(ast.parse("\n".join(lines))):
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
