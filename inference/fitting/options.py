"""The options of `inference.fitting.fit.fit` as types, from which editors complete them; tests compare them with the methods.

One class for each set of options; the overloads of ``fit`` say which method takes which. Notebooks read `options_of_fit`.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from numpy.typing import ArrayLike

from inference.runtime.progress import Reporter


class Shared(TypedDict, total=False):
    """Options of every method."""

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


class Starts(Shared, total=False):
    """Of every optimiser."""

    max_iter: int
    num_starts: int


class Climb(Starts, total=False):
    """Of optimisers that stop by themselves."""

    tol: float


class FixedPoint(Climb, total=False):
    """Of fixed-point methods that can extrapolate."""

    accelerate: bool


class Sample(Shared, total=False):
    """Of methods with independent draws."""

    num_samples: int
    num_chains: int


class Chains(Sample, total=False):
    """Of methods with chains."""

    num_warmup: int


class Own(Chains, total=False):
    """Of a kernel of one's own."""

    compiled: bool


class Gibbs(Chains, total=False):
    """Of ``gibbs``."""

    permute_components: bool


class Tempered(Chains, total=False):
    """Of ``tempered_gibbs``."""

    num_temperatures: int
    hottest: float


class Collapsed(Chains, total=False):
    """Of ``collapsed_gibbs``."""

    thin: int
    learn: Literal["none", "symmetric", "asymmetric"]
    integrate: Literal["all", "local"]


class Nuts(Chains, total=False):
    """Of ``nuts``."""

    target_accept: float
    max_tree_depth: int
    permute_components: bool


class Approximate(Climb, Sample, total=False):
    """Of ``laplace``: an optimum, and draws of a density around it."""


class Cavi(Approximate, FixedPoint, total=False):
    """Of ``cavi``."""

    batch_size: int
    delay: float
    forgetting: float


class Advi(Approximate, total=False):
    """Of ``advi``."""

    guide: Literal["full_rank", "low_rank", "mean_field"]
    rank: int


class Every(Advi, Cavi, Gibbs, Tempered, Collapsed, Nuts, total=False):
    """Of all methods, where the method is not known before the program runs."""


def options_of_fit(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of ``fit`` with the options of all methods in the place of ``**options``, which notebooks complete.

    The default of an option is that of its method, here ``...``.

    >>> from inference import fit
    >>> [name for name in options_of_fit(fit).parameters if name.startswith("num_")]
    ['num_chains', 'num_samples', 'num_starts', 'num_temperatures', 'num_warmup']
    """
    named = [one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
    known = {one.name for one in named}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind)
        for name, kind in sorted(Every.__annotations__.items())
        if name not in known
    ]
    return inspect.Signature([*named, *options], return_annotation=inspect.signature(function).return_annotation)
