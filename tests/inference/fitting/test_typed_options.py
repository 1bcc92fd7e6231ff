"""The types of `fit` are those of the methods: what an editor completes and mypy checks is what a method takes."""

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import IPCompleter, provisionalcompleter

from inference import METHODS, fit
from inference.fitting.generated import OVERLOADS, generated_files
from inference.methods.method import method_named
from inference.methods.options import SHARED, check_option
from inference.runtime.entries import CONF
from models import MODELS

REFUSED = """from typing import Any
from inference import fit
from models import MODELS
model = MODELS["gmm"]("iris")
options: dict[str, Any] = {"num_samples": 3}
fit(model, "iris", "gibbs", **options)
fit(model, "iris", "gibbs", seed=1, num_chains=2)
fit(model, "iris", "gibbs", num_chain=2)
fit(model, "iris", target_acept=0.9)
fit(model, "iris", "gibbs", num_chains="two")
"""


def test_files_are_those_of_the_records():
    """`python -m inference.support` writes them again."""
    for path, content in generated_files().items():
        assert path.read_text(encoding="utf-8") == content, path
    assert {path.stem for path in (CONF / "method").iterdir()} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_records_describe_every_option(name):
    """Each has a meaning, a type that its default has, and a default in its range."""
    method = method_named(name)
    assert method.name == name
    options = method.described_options()
    assert [option.name for option in options] == list(method.options._fields)
    for option in options:
        assert option.setting.meaning, option.name
        assert type(option.default) is option.type, option.name
        check_option(option, option.default)


def test_options_of_every_method_are_those_of_fit():
    """The stub shares the arguments of `fit` with all methods, in their types."""
    stub = ast.parse(OVERLOADS.read_text(encoding="utf-8"))
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    shared = {field.target.id: ast.unparse(field.annotation) for field in classes["Shared"].body}
    fields = inspect.getfullargspec(inspect.unwrap(fit))
    source = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(fit)))).body[0]
    assert {one.arg: ast.unparse(one.annotation) for one in source.args.kwonlyargs} == shared
    assert set(SHARED) < set(shared)
    overloads = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    assert len(overloads) == len(METHODS) + 3
    assert f'Literal["{fields.defaults[-1]}"]' in ast.unparse(overloads[0]).replace("'", '"')  # the default method comes first


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("fit(model, data, 'nuts', target", ["target_accept="]),
        ("fit(model, data, num_c", ["num_chains="]),
        ("build(data, cova", ["covariance="]),
        ("MODELS['gm", ["gmm", "gmm_simple"]),
    ],
)
def test_notebooks_complete_options(typed, completed):
    names: dict[str, Any] = {"fit": fit, "MODELS": MODELS, "build": MODELS["gmm"]}
    with provisionalcompleter():
        found = [one.text for one in IPCompleter(namespace=names, use_jedi=False).completions(typed, len(typed))]
    assert found == completed


@pytest.mark.slow
def test_mypy_refuses_misspelt_options(tmp_path):
    from mypy import api

    (tmp_path / "script.py").write_text(REFUSED)
    settings = Path(__file__).parents[3] / "pyproject.toml"  # those of the project, whose cache mypy reads again
    report, _, code = api.run(["--config-file", str(settings), str(tmp_path / "script.py")])
    # An equal script in the cache is reported under the path that it had there
    lines = {int(line.split(":")[1]) for line in report.splitlines() if "script.py:" in line and " error: " in line}
    assert code == 1
    assert lines == {8, 9, 10}
