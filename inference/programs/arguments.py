"""The data of a user's program: one argument, a tuple of arguments, or arguments by name."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import jax

from models.base import Hyper, Pytree
from models.errors import ZooError, did_you_mean


class Arguments(dict[str, Any]):
    """All arguments of a program by the names of its parameters; a pytree, with leaves in the order of the names."""


def _flatten(arguments: Arguments) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    names = tuple(sorted(arguments))
    return [(jax.tree_util.DictKey(name), arguments[name]) for name in names], names


jax.tree_util.register_pytree_with_keys(Arguments, _flatten, lambda names, values: Arguments(zip(names, values, strict=True)))


def as_arguments(function: Callable[..., Any], data: Any, named: Mapping[str, Any]) -> Arguments:
    """``data``, the first argument or a tuple of the first ones, and those in ``named``, by the names of the parameters.

    Raises `ZooError` for a name that the function lacks, and for an argument that is missing or given twice.
    """
    known = inspect.signature(function)
    takes = ", ".join(known.parameters)
    name = name_of(function)
    if unknown := [each for each in named if not takes_by_name(function, each)]:
        hint = did_you_mean(unknown[0], known.parameters)
        raise ZooError(f"the program {name} has no argument {unknown[0]!r}{hint}; it takes {takes}")
    for each, value in named.items():
        if isinstance(value, bool | str):  # data are traced: neither a switch nor a text can be
            raise ZooError(
                f"the program {name}: {each}={value!r} is no data; fix it beforehand, as in functools.partial({name}, {each}=…)"
            )
    try:
        return Arguments(known.bind(*(data if isinstance(data, tuple) else (data,)), **named).arguments)
    except TypeError as error:
        first, *others = known.parameters or ("x",)
        by_name = ", ".join(f"{each}=…" for each in others)
        ways = f"; several arguments are a tuple, fit({name}, ({takes})), or follow by name, fit({name}, {first}, {by_name})"
        listed = "; a list is one argument" if isinstance(data, list) else ""
        raise ZooError(f"the program {name} takes the data {takes}: {error}{ways if others else ''}{listed}") from error


def name_of(function: Callable[..., Any]) -> str:
    """The name of a program: that of the function, also inside a `functools.partial`; of another callable that of its type."""
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def takes_by_name(function: Callable[..., Any], name: str) -> bool:
    """Whether a function takes an argument of this name."""
    parameters = inspect.signature(function).parameters
    if name in parameters and parameters[name].kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    ):
        return True
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def rows_by_name(function: Callable[..., Any], data: Any) -> Arguments:
    """Data of a program that was made with arguments by name, given as these, as a dict of them, or one after another."""
    if isinstance(data, Arguments):
        return data
    return as_arguments(function, (), data) if isinstance(data, Mapping) else as_arguments(function, data, {})


@cache
def as_spec(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's NumPyro function of its data as a spec; one object for one function, so that jitted code recognises it."""

    def spec(hyper: Hyper, rows: Pytree, *, marginal: bool = True) -> Any:
        if isinstance(rows, Arguments):
            known = inspect.signature(function)
            bound = inspect.BoundArguments(known, {name: rows[name] for name in known.parameters if name in rows})
            return function(*bound.args, **bound.kwargs)
        return function(*rows) if isinstance(rows, tuple) else function(rows)

    return spec
