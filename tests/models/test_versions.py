"""A dependency below its bound is refused at import, in one line: by the bounds of the installed zoo."""

import ast
import importlib
import sys
import tomllib
from pathlib import Path

import pytest

import models
from models.errors import ZooError
from models.versions import below_bounds, require_versions

ROOT = Path(__file__).parents[2]
NEEDS = """Metadata-Version: 2.4
Name: bayes-model-zoo
Requires-Dist: arviz-plots[matplotlib]>=1.0
Requires-Dist: jax>=0.10
Requires-Dist: numpyro>=0.22
Requires-Dist: xarray<2027,>=2025.8
Requires-Dist: funsor>=9; extra == 'enumerate'

Requires-Dist: rich>=99
"""
ENOUGH = ("arviz_plots-1.0.0", "jax-0.10.0", "numpyro-0.22", "xarray-2026.9.0", "funsor-0.4.8", "rich-15.0.0")
LINE = "the zoo needs numpyro>=0.22 (0.21.0 is installed): run pip install 'numpyro>=0.22', or uv sync in the zoo's folder"


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of packages, by name and version, and the zoo."""

    def make(*packages, zoo=True, name="site-packages"):
        place = tmp_path / name
        for package in packages:
            (place / f"{package}.dist-info").mkdir(parents=True)
        if zoo:
            own = place / "bayes_model_zoo-0.2.0.dist-info"
            own.mkdir(parents=True)
            (own / "METADATA").write_text(NEEDS, encoding="utf-8")
        return str(place)

    return make


@pytest.fixture
def old(folder, monkeypatch):
    """An installation with an old NumPyro, which Python finds first."""
    monkeypatch.setattr(sys, "path", [folder("numpyro-0.21.0"), *sys.path])


def test_what_is_installed_here_is_enough():
    assert below_bounds(sys.path) == []
    require_versions()


def test_versions_at_the_bound_are_enough(folder):
    assert below_bounds([folder(*ENOUGH)]) == []


@pytest.mark.parametrize(
    ("package", "refused"),
    [
        ("numpyro-0.21.0", ("numpyro", "0.22", "0.21.0")),
        ("numpyro-0.9", ("numpyro", "0.22", "0.9")),  # as numbers, not as text
        ("jax-0.9.2", ("jax", "0.10", "0.9.2")),
        ("arviz_plots-0.9.1rc1", ("arviz-plots", "1.0", "0.9.1rc1")),
        ("xarray-2025.7.1", ("xarray", "2025.8", "2025.7.1")),
        ("numpyro-0.22.0.dev1", None),
        ("numpyro-1", None),
        ("jax-0.10.0.1+local", None),
        ("funsor-0.1", None),
    ],
)
def test_one_version(folder, package, refused):
    assert below_bounds([folder(package)]) == ([refused] if refused else [])


def test_the_first_folder_counts_and_the_newer_version_in_it(folder):
    first = folder("numpyro-0.22.0", zoo=False, name="first/dist-packages")
    second = folder("numpyro-0.21.0", "jax-0.9.0", "jax-0.10.1")
    assert below_bounds([first, second]) == []
    assert below_bounds([second, first]) == [("numpyro", "0.22", "0.21.0")]


def test_what_is_not_installed_is_not_refused(folder, tmp_path):
    assert below_bounds([folder("numpyro-0.21.0", zoo=False), str(tmp_path / "none" / "site-packages"), ""]) == []
    assert below_bounds([folder("numpyro-0.21.0", name="elsewhere")]) == []


@pytest.mark.usefixtures("old")
def test_importing_models_is_refused():
    with pytest.raises(ZooError) as refused:
        importlib.reload(models)
    assert str(refused.value) == LINE


@pytest.mark.usefixtures("old")
def test_importing_inference_is_refused(monkeypatch):
    """As the first import of a process, before which `models` is not loaded."""
    inference = importlib.import_module("inference")
    monkeypatch.delitem(sys.modules, "models")
    with pytest.raises(ZooError, match="numpyro"):
        importlib.reload(inference)


@pytest.mark.usefixtures("old")
def test_a_command_ends_with_one_line_and_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["-m", "model=gmm"])
    with pytest.raises(SystemExit) as ended:
        importlib.reload(models)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {LINE}\n"


def test_every_dependency_has_a_bound_that_is_read():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert not [entry for entry in declared if ">=" not in entry or ";" in entry]


def test_it_imports_nothing_that_takes_long():
    """`importlib.metadata` takes longer to import than all else that a refused command does."""
    source = ast.parse((ROOT / "models" / "versions.py").read_text(encoding="utf-8"))
    named = {alias.name for node in ast.walk(source) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in ast.walk(source) if isinstance(node, ast.ImportFrom)}
    assert named == {"os", "sys", "collections.abc", "itertools", "pathlib", "models.errors"}
