"""Foreign draws among the results to compare: the model and the data that they belong to."""

import inspect
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpyro import infer  # in this form: ArviZ leaves a lazy numpyro behind, which the other form half loads

from inference.fitting.foreign import as_result
from inference.identification.invariants import symmetry_of
from inference.programs.arguments import name_of
from inference.programs.model import program_model
from inference.results.observed import DRAWS, program_data
from inference.results.table import data_of
from inference.results.tree import table_of, values
from inference.results.triangles import MARK, sites_of
from models import MODELS
from models.base import Data, Model, ZooError

ASK = "; give model= and data=, or make a result of the draws by inference.as_result(model, data, draws)"


def is_result(given: Any) -> bool:
    """Whether this is a result of the zoo: a tree with functionals, that names its model."""
    return isinstance(given, xr.DataTree) and "functionals" in given.children and "model" in given.attrs


def as_results(given: Mapping[str, Any], model: Model | None, data: Any) -> dict[str, xr.DataTree]:
    """Results as they are, and foreign draws made results of ``model`` on ``data``, or of the model and data of the others."""
    foreign = [name for name, each in given.items() if not is_result(each)]
    if not foreign:
        return dict(given)
    if (model is None) != (data is None):
        raise ZooError("compare needs model= and data= together, or none of them")
    if model is None:
        results = [each for each in given.values() if is_result(each)]
        model, data = _program_of(results, given[foreign[0]]) or _model_of(results, foreign[0])
    return {name: each if name not in foreign else _named(model, data, each, name) for name, each in given.items()}


def _program_of(results: list[xr.DataTree], draws: Any) -> tuple[Model, Any] | None:
    """The program that an MCMC ran, on the data of results of the same program; None for anything else.

    An MCMC holds its program, and a result does not. The log joint shows whether both are the same: at a draw of each result
    the MCMC's program must have the log joint of the result.
    """
    function = getattr(getattr(draws, "sampler", None), "model", None)
    if not isinstance(draws, infer.MCMC) or not callable(function) or isinstance(getattr(function, "__self__", None), Model):
        return None
    names = {str(tree.attrs["model"]) for tree in results}
    if names != {name_of(function)} or "column" in table_of(results[0]).coords:
        return None
    first = results[0]
    data, symmetry = program_data(first), symmetry_of(first)
    try:
        model = program_model(function, data, symmetry=symmetry, dims=_dims(first))
        if all(_same_density(model, data, tree) for tree in results):
            return model, data
    except ZooError:  # the arguments were of another form
        return None
    return None


def _same_density(model: Model, data: Any, tree: xr.DataTree) -> bool:
    group = "posterior" if "posterior" in tree else "point_estimate"
    sites = sites_of(tree, group)
    one = {name: value[:1, :1] if group == "posterior" else value[None, None] for name, value in sites.items()}
    computed, wanted = (values(each, "functionals", "log_joint").ravel()[0] for each in (as_result(model, data, one), tree))
    return bool(np.isclose(computed, wanted, rtol=1e-6, atol=1e-6))


def _dims(tree: xr.DataTree) -> dict[str, tuple[str, ...]]:
    """The dimensions of the sites of a result, except of symmetric matrices, which are stored along one."""
    sites = tree["posterior" if "posterior" in tree else "point_estimate"].to_dataset().data_vars.items()
    named = {
        str(name): tuple(str(dim) for dim in value.dims if dim not in DRAWS) for name, value in sites if MARK not in value.attrs
    }
    return {name: dims for name, dims in named.items() if dims}


def _options(tree: xr.DataTree, takes: Collection[str]) -> dict[str, Any]:
    """The options of the model of a result, without those of the method."""
    return {name: value for name, value in json.loads(tree.attrs["options"]).items() if name in takes}


def _named(model: Model, data: Any, draws: Any, name: str) -> xr.DataTree:
    try:
        return as_result(model, data, draws, name)
    except ZooError as error:
        raise ZooError(f"{name}: {error}") from error


def _model_of(results: list[xr.DataTree], foreign: str) -> tuple[Model, Data]:
    """The model and the data of results of one model of the zoo, built again; raises `ZooError` where that cannot be done."""
    if not results:
        raise ZooError(f"{foreign} is no result of the zoo, and none of the others has its model and data{ASK}")
    names = sorted({str(tree.attrs["model"]) for tree in results})
    if len(names) > 1:
        raise ZooError(f"{foreign} is no result of the zoo, and the others are of several models, {', '.join(names)}{ASK}")
    tree = results[0]
    if names[0] not in MODELS or "column" not in table_of(tree).coords:
        raise ZooError(f"{foreign} is no result of the zoo, and {names[0]} is a program that its result does not hold{ASK}")
    data, build = data_of(tree), MODELS[names[0]]
    options, *others = [_options(each, inspect.signature(build).parameters) for each in results]
    if any(other != options for other in others):
        raise ZooError(f"{foreign} is no result of the zoo, and the others have different options or priors{ASK}")
    try:
        model = build(data, **options)
    except ZooError as error:
        raise ZooError(f"{foreign} is no result of the zoo, and {names[0]} cannot be built again ({error}){ASK}") from error
    stored = tree["constant_data"].to_dataset() if "constant_data" in tree else xr.Dataset()
    if not all(name in stored and np.array_equal(stored[name], value) for name, value in model.hyper.items()):
        raise ZooError(f"{foreign} is no result of the zoo, and the prior of {names[0]} is not known from the others{ASK}")
    return model, data
