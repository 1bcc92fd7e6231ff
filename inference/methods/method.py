"""The contract of a method: `Method`, one record from which everything else about the method derives.

Derived are its options on the command line with their help (``inference/conf/method/``), the types of `fit`
(``inference/fitting/overloads.pyi``), its row of the support table, its page and its certificates.
`python -m inference.support` writes the files among these again.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from inference.engine.requirements import ANY_MODEL, Support
from inference.engine.task import Draws, Points, Task
from inference.methods import METHODS
from inference.methods.options import SHARED, Option, check_option, described_options
from models.algebra import STRUCTURES
from models.base import Model, Pytree
from models.errors import ZooError, did_you_mean


class OverBlocks(NamedTuple):
    """The support of a method for rows in blocks."""

    support: Support = ANY_MODEL  # of models over whose rows in blocks it runs
    steps: bool = False  # whether it also takes steps of one block each: expected latents of a block stand for those of all
    held_out: bool = False  # whether it scores rows held out in every iteration
    devices: bool = True  # whether the rows of a block can be shared out to devices
    options: Callable[[Any], Any] = lambda options: options  # the options as they hold over blocks; raises `ZooError`


BLOCKS_OF_SHARED = Support("a fit over blocks", STRUCTURES - {"local"}, remedy="use method=cavi or collapsed_gibbs")


class Method(NamedTuple):
    """One inference method.

    >>> em = method_named("em")
    >>> em.updates, em.claim, [option.name for option in em.described_options()]
    (('mode', 'mean'), 'mode', ['max_iter', 'tol', 'num_starts', 'accelerate'])
    """

    name: str
    summary: str  # one line about the method, for the help page
    options: Any  # a named tuple class: every field an Annotated type with a `Setting`, and a default
    run: Callable[[Task, Any], Draws | Points]
    claim: str  # the claim of its certificates: exact, approximate, or which mode
    evidence: tuple[str, ...]  # the checks of a certificate, by their names in `inference.certificates.cell`
    support: Support = ANY_MODEL
    updates: tuple[str, str] | None = None  # of parameters and latents, in words; None: it runs on the NumPyro program
    # (model, rows) -> the data that the method runs on, in words, or None for none; None: all data of a supported model
    where: Callable[[Model, Pytree], str | None] | None = None
    lockstep: bool = True  # whether steps take equally long in all chains
    may_stay: bool = False  # whether a chain may stay at one mode for longer than any run; `fit` then looks for other modes
    over_blocks: OverBlocks | None = None  # None: it needs all rows at once

    def described_options(self) -> list[Option]:
        """The options with their types, defaults, meanings and ranges."""
        return described_options(self.options)


def method_named(method: str) -> Method:
    """The method of a name; a `ZooError` that lists all where there is none."""
    if not isinstance(method, str):
        raise ZooError(
            f"method: {type(method).__name__} is not one of {', '.join(METHODS)}; the order is fit(model, data, method), and "
            "several arrays for a program are a tuple: fit(program, (x, y), method)"
        )
    if method not in METHODS:
        raise ZooError(f"method={method!r} is not one of {', '.join(METHODS)}{did_you_mean(method, METHODS)}")
    record: Method = import_module(METHODS[method]).METHOD
    return record


def require_over_blocks(method: Method, *, steps: bool) -> OverBlocks:
    """``over_blocks`` of a method; raises `ZooError` for one that needs all rows, and for ``steps`` that it cannot take."""
    known = {name: record.over_blocks for name in METHODS if (record := method_named(name)).over_blocks is not None}
    if method.over_blocks is None:
        raise ZooError(f"method={method.name} needs all rows at once; over blocks there are {', '.join(known)}")
    if steps and not method.over_blocks.steps:
        those = " and ".join(name for name, over_blocks in known.items() if over_blocks.steps)
        raise ZooError(
            f"method={method.name} takes passes over all rows; steps of one block each are for {those}, whose "
            "expected latents of a block stand for those of all rows"
        )
    return method.over_blocks


def checked_options(method: Method, options: Mapping[str, Any], of_model: Iterable[str] = ()) -> Any:
    """The ``Options`` of a method with the user's values: known, of the type and in the range declared.

    ``of_model`` are the options of the model, which a user may take for options of the method. Raises `ZooError`.

    >>> checked_options(method_named("gibbs"), {"num_chains": 2}).num_chains
    2
    """
    known = {option.name: option for option in method.described_options()}
    for option, value in options.items():
        if option not in known:
            accepted = (*known, *SHARED, "start")
            hint = _hint(option, accepted, of_model)
            raise ZooError(f"method={method.name} has no option {option!r}{hint}; it takes {', '.join(accepted)}")
        check_option(known[option], value)
    return method.options(**options)


def _hint(name: str, accepted: Iterable[str], of_model: Iterable[str]) -> str:
    """The option that an unknown one may stand for: of the method, the model, or another method."""
    if name in of_model:
        return f" (the model takes it: MODELS[…](data, {name}=…))"
    if others := [other for other in METHODS if name in method_named(other).options._fields]:
        return f" ({', '.join(others)} {'takes' if len(others) == 1 else 'take'} it)"
    return did_you_mean(name, accepted)
