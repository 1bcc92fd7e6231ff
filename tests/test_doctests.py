"""The examples in docstrings run, and every public name has one. To add a module, list its name in `EXPORTS`."""

import doctest
import inspect
import sys
from importlib import import_module

import numpy as np
import pytest

import inference
import models
from models import MODELS, load_data

BUILDS = {getattr(build, "func", build) for build in MODELS.values()}  # without the arguments that presets fix
EXPORTS = {  # modules that define the public names
    "models.base",
    "inference.fitting.completion",
    "inference.engine.requirements",
    "inference.engine.sweep",
    "inference.fitting.generated",
    "inference.methods.method",
    "models.algebra",
    "models.data.missing_spellings",
    "models.data.table",
    "models.cells.dates",
    "models.errors",
    "models.inspection.advice",
    "models.inspection.levels",
    "models.inspection.problem",
    "models.inspection.table",
    "models.cells.notations",
    "models.cells.overrides",
    "models.reading.arrays",
    "models.reading.load",
    "models.reading.units",
    "models.zoo",
}
WITH_EXAMPLES = {"benchmarks.measure"}  # others whose examples run
MODULES = sorted(EXPORTS | WITH_EXAMPLES | {build.__module__ for build in BUILDS})


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not found.failed
    assert found.attempted


@pytest.mark.slow  # examples fit models as a reader would
@pytest.mark.parametrize("name", sorted(set(inference.EXPORTS.values())))
def test_examples_of_inference_run(name, tmp_path, monkeypatch):
    """With the public names at hand, as after ``from inference import …`` and ``from models import MODELS, load_data``."""
    monkeypatch.chdir(tmp_path)  # examples of pictures write files
    names = {export: getattr(inference, export) for export in inference.EXPORTS}
    names |= {"MODELS": MODELS, "load_data": load_data, "np": np}
    found = doctest.testmod(import_module(name), extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not found.failed


def example_of(value):
    return ">>> " in (inspect.getdoc(value) or "")


def test_every_export_has_an_example():
    exports = {name: getattr(models, name) for name in models.__all__}
    exports["MODELS"] = sys.modules["models.zoo"]  # a dict has no docstring of its own
    exports |= {name: getattr(inference, name) for name in inference.EXPORTS}
    assert not [name for name, value in exports.items() if not example_of(value)]


def test_every_build_function_has_an_example():
    assert not [build for build in BUILDS if not example_of(build)]
