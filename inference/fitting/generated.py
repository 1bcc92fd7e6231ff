"""Files that derive from the records of the methods: their options on the command line, and the types of `fit`."""

from pathlib import Path
from typing import Any

import numpy as np

from inference.methods import METHODS
from inference.methods import user_kernel as kernels
from inference.methods.method import method_named
from inference.methods.options import Option, described_options
from inference.runtime.entries import CONF

OVERLOADS = Path(__file__).parent / "overloads.pyi"
SHARED = '''"""The types of `inference.fit`, method by method; `python -m inference.support` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import xarray as xr
from numpy.typing import ArrayLike

from inference.methods.user_kernel import MarkovKernel
from inference.runtime.progress import Reporter

class Shared(TypedDict, total=False):
    seed: int
    precision: int
    progress: bool | Reporter
    predictive: bool
    start: Mapping[str, ArrayLike] | None
    folder: str | Path | None
    checkpoint_seconds: float
    symmetry: Any
    dims: Mapping[str, tuple[str, ...]] | None
    coords: Mapping[str, list[Any]] | None
'''
DEFAULT = "nuts"


def generated_files() -> dict[Path, str]:
    """Path -> the content that the file should have."""
    described = {name: method_named(name).described_options() for name in METHODS}
    files = {CONF / "method" / f"{name}.yaml": configuration(name, options) for name, options in described.items()}
    return files | {CONF / "ranges.yaml": ranges(described), OVERLOADS: overloads(described)}


def configuration(name: str, options: list[Option]) -> str:
    """The entry of a method in the configuration: its options with their defaults and meanings."""
    lines = ["# @package _global_", f"# {method_named(name).summary}", f"method: {name}"]
    for option in options:
        words = f"{', '.join(option.choices)}: " if option.choices else ""
        lines.append(f"{option.name}: {in_yaml(option.default)} # {words}{option.setting.meaning}")
    return "\n".join(lines) + "\n"


def in_yaml(value: Any) -> str:
    """A number, a word, or true or false, as YAML reads it.

    >>> in_yaml(1e-10), in_yaml(True), in_yaml(0.8), in_yaml("none")
    ('1.0e-10', 'true', '0.8', 'none')
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text.replace("e", ".0e", 1) if isinstance(value, float) and "e" in text and "." not in text else text


def ranges(described: dict[str, list[Option]]) -> str:
    """The values that options may have, for the command line, which raises errors for others before it loads JAX."""
    lines = ["# The lowest and the highest value of an option, or its words. Written by `python -m inference.support`."]
    for name, options in described.items():
        lines.append(f"{name}:")
        for option in options:
            if option.type is not bool:
                low, high = option.setting.low, option.setting.high
                both = option.choices or (in_yaml(low), ".inf" if np.isinf(high) else in_yaml(high))
                lines.append(f"  {option.name}: [{', '.join(both)}]")
    return "\n".join(lines) + "\n"


def overloads(described: dict[str, list[Option]]) -> str:
    """The stub with the overloads of `fit`, one for each method."""
    every = {option.name: option for options in described.values() for option in options}
    kernel = described_options(kernels.Options)
    classes = {name: f"{''.join(map(str.capitalize, name.split('_')))}Options" for name in described}
    typed = [_typed_dict(classes[name], options) for name, options in described.items()]
    typed += [_typed_dict("EveryOption", list(every.values())), _typed_dict("KernelOptions", kernel)]
    order = sorted(described, key=lambda name: name != DEFAULT)  # the default method comes first
    signatures = [
        _overload(f'method: Literal["{name}"]{" = ..." if name == DEFAULT else ""}', f"**options: Unpack[{classes[name]}]")
        for name in order
    ]
    signatures.append(_overload("method: str", "**options: Unpack[EveryOption]"))
    signatures.append(_overload("method: MarkovKernel", "**options: Unpack[KernelOptions]"))
    signatures.append(_overload("method: str", "**options: Any", "Callable[..., Any]"))  # data of a program by name
    return "\n".join([SHARED, *typed, *signatures]) + "\n"


def _typed_dict(name: str, options: list[Option]) -> str:
    fields = [f"    {option.name}: {_type_in_words(option)}" for option in options]
    return "\n".join([f"class {name}(Shared, total=False):", *fields, ""])


def _type_in_words(option: Option) -> str:
    words = ", ".join(f'"{word}"' for word in option.choices)
    return f"Literal[{words}]" if words else str(option.type.__name__)


def _overload(method: str, options: str, model: str = "Any") -> str:
    return f"@overload\ndef fit(model: {model}, data: Any, {method}, {options}) -> xr.DataTree: ..."
