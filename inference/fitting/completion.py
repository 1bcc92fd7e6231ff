"""The signature of `inference.fitting.fit.fit` with the options of all methods, which notebooks complete."""

import inspect
from collections.abc import Callable
from typing import Any

from inference.runtime.entries import choices, entry_defaults


def options_of_fit(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of ``fit`` with the options of all methods in the place of ``**options``.

    The default of an option is that of its method, here ``...``.

    >>> from inference import fit
    >>> [name for name in options_of_fit(fit).parameters if name.startswith("num_")]
    ['num_chains', 'num_moves', 'num_samples', 'num_starts', 'num_temperatures', 'num_warmup']
    """
    named = [one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
    known = {one.name for one in named}
    types = {name: type(value) for method in choices("method") for name, value in entry_defaults("method", method).items()}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind)
        for name, kind in sorted(types.items())
        if name not in known
    ]
    return inspect.Signature([*named, *options], return_annotation=inspect.signature(function).return_annotation)
