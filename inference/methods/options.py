"""The options of methods: how a method declares them, and how values are checked. Loads no JAX."""

import sys
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from inference.runtime.files import CHECKPOINT_SECONDS
from models.errors import MOST, ZooError

# Options of every method, with their defaults
SHARED = {"seed": 0, "precision": 64, "progress": False, "predictive": False, "checkpoint_seconds": CHECKPOINT_SECONDS}
NUM_DRAWS = 200  # of every missing cell, and of topic proportions, by default


class Setting(NamedTuple):
    """The meaning of an option, and its range. The type, a Literal for words, and the default stand in ``Options``."""

    meaning: str
    low: float = 1
    high: float = np.inf


# Options that several methods have
MaxIter = Annotated[int, Setting("iterations of a start, at most")]
Tol = Annotated[float, Setting("a start ends when an iteration gains less than this", low=0)]
NumStarts = Annotated[int, Setting("starts, of which the best counts", high=1_000_000)]
NumWarmup = Annotated[int, Setting("steps of each chain that are dropped", low=0)]
NumSamples = Annotated[int, Setting("draws of each chain that are kept")]
NumChains = Annotated[int, Setting("chains; of independent draws, groups of them")]
Accelerate = Annotated[bool, Setting("true: extrapolate between iterations, to the same fixed points")]
PermuteComponents = Annotated[bool, Setting("true: every draw in a random labelling")]


class Option(NamedTuple):
    """An option of a method as its ``Options`` declare it."""

    name: str
    type: Any  # int, float, bool or str
    default: Any
    setting: Setting
    choices: tuple[str, ...] = ()  # of words


def described_options(options: Any) -> list[Option]:
    """The fields of a method's ``Options``, each an Annotated type with a `Setting`, and a default."""
    hints = get_type_hints(options, include_extras=True)
    return [_option(name, kind, options._field_defaults[name]) for name, kind in hints.items()]


def _option(name: str, annotated: Any, default: Any) -> Option:
    kind, setting = get_args(annotated)
    words = get_origin(kind) is not None  # a Literal
    return Option(name, str if words else kind, default, setting, get_args(kind) if words else ())


def check_seed(seed: Any) -> None:
    """A `ZooError` for anything but a whole number from 0 to 2³² − 1."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ZooError(f"seed must be a whole number from 0 to 2³² − 1, got {seed!r}")


def check_option(option: Option, value: Any) -> None:
    """A `ZooError` for a value that is not of the type of the option, not one of its words, or out of its range."""
    if option.choices:
        if value not in option.choices:
            raise ZooError(f"{option.name}={value!r} is not one of {', '.join(option.choices)}")
    elif option.type is bool:
        check_flag(option.name, value)
    else:
        check_number(option.name, value, option.type is int, option.setting.low, option.setting.high)


def check_checkpoint_seconds(value: Any) -> None:
    """A `ZooError` for anything but a number of seconds from 0 on."""
    check_number("checkpoint_seconds", value, whole=False, low=0)


def check_flag(name: str, value: Any) -> None:
    """A `ZooError` for anything but true or false."""
    if not isinstance(value, bool):
        raise ZooError(f"{name} must be true or false, got {value!r}")


def check_number(name: str, value: Any, whole: bool, low: float = 1, high: float = np.inf) -> None:
    """A `ZooError` for a value of an option that is no number, not ``whole`` where it must be, or out of its range."""
    if whole and (isinstance(value, bool) or not isinstance(value, int)):
        instead = f": write {value:.0f}" if isinstance(value, float) and value.is_integer() and 0 < value < 1e9 else ""
        raise ZooError(f"{name} must be a whole number, got {value!r}{instead}")
    largest = MOST if whole else sys.float_info.max
    if (isinstance(value, int | float) and largest < value < high) or value == high == np.inf:
        high = largest
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ZooError(f"{name} must be at least {low}{'' if np.isinf(high) else f' and at most {high}'}, got {value!r}")
