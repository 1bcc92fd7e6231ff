"""The types of `fit` are those of the methods: what an editor completes and mypy checks is what a method takes."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints

import pytest
from IPython.core.completer import IPCompleter, provisionalcompleter

from inference import METHODS, fit
from inference.fitting.options import Every, Shared
from inference.methods import own_kernel
from inference.methods.options import SHARED
from inference.methods.own_kernel import MarkovKernel
from models import MODELS

OVERLOADS = get_overloads(fit)
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


def options_by_method():
    """Method -> option -> type, as the overloads have it."""
    found = {}
    for one in OVERLOADS[:-1]:  # the last is for programs, whose arguments have any name
        hints = get_type_hints(one)
        (options,) = get_args(hints["options"])
        own = {name: kind for name, kind in get_type_hints(options).items() if name not in Shared.__annotations__}
        found |= dict.fromkeys(get_args(hints["method"]) or [hints["method"]], own)
    return found


def test_every_method_has_its_own_options_and_types():
    declared = options_by_method()
    assert declared.pop(MarkovKernel) == get_type_hints(own_kernel.Options)
    every = declared.pop(str)
    assert set(declared) == set(METHODS)
    assert every == {name: kind for options in declared.values() for name, kind in options.items()}
    for method, typed in declared.items():
        module = import_module(METHODS[method])
        assert set(typed) == set(module.Options._fields), method
        for name, kind in get_type_hints(module.Options).items():
            chosen = vars(module).get("CHOICES", {}).get(name)
            assert get_args(typed[name]) == chosen if chosen else typed[name] is kind, (method, name)


def test_options_of_every_method_are_those_of_fit():
    code = inspect.getfullargspec(inspect.unwrap(fit)).kwonlyargs
    named = [name for name, one in inspect.signature(fit).parameters.items() if one.default is not ...]
    assert set(Shared.__annotations__) == set(named) - {"model", "data", "method"}
    assert set(SHARED) < set(Shared.__annotations__)
    hints = get_type_hints(fit)
    assert {name: hints[name] for name in Shared.__annotations__} == get_type_hints(Shared)
    assert set(code) == {*Shared.__annotations__, *(set(Every.__annotations__) - set(Shared.__annotations__))}


def test_the_default_method_comes_first():
    (first,) = get_args(get_type_hints(OVERLOADS[0])["method"])
    assert inspect.signature(fit).parameters["method"].default == first


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
