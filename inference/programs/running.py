"""A user's program run once on its data, before any method: errors are raised here, in words about the arguments."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.primitives import Messenger

from inference.programs.arguments import Arguments, as_arguments, as_spec, name_of
from inference.programs.tracing import prior_trace
from models.base import Pytree
from models.errors import ZooError


class DrawnAnew(Messenger):  # type: ignore[misc]  # NumPyro has no types
    """A program whose observed sites are drawn anew, each in the shape of the observed values.

    A site may observe an array by the distribution of one entry: `sample("x", Normal(0, 1), obs=x)`. Its density is then that
    of independent entries, and as many are drawn.
    """

    def process_message(self, message: dict[str, Any]) -> None:
        """Expand the distribution of an observed site to the shape of the observed values."""
        if message["type"] != "sample" or not message["is_observed"]:
            return
        fn, shape = message["fn"], np.shape(message["value"])
        batch = shape[: max(len(shape) - fn.event_dim, 0)]
        if fn.batch_shape != batch and _fits(fn.batch_shape, batch):
            message["fn"] = fn.expand(batch)


def _fits(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another one."""
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


def drawn_anew(program: Callable[..., Any], key: Any) -> Callable[..., Any]:
    """A program that draws all of its sites, the observed ones among them, with random numbers of ``key``."""
    return handlers.uncondition(DrawnAnew(handlers.seed(program, key)))


def first_run(function: Callable[..., Any], data: Any) -> tuple[dict[str, Any], Pytree]:
    """(the trace of a user's function on its data, the data as JAX arrays).

    Raises `ZooError` for data that are no numbers, a program that does not run on them or whose log densities do not fit its
    data, one that observes nothing, and data with NaN of which the program computes a density.
    """
    named = data if isinstance(data, Arguments) else as_arguments(function, data, {})
    leaves = _by_name(named)
    _require_numbers(function, leaves)
    arrays = jax.tree.map(jnp.asarray, data)
    try:
        trace = prior_trace(as_spec(function), {}, arrays)
    except (Exception, SystemExit) as error:  # the program is the user's: any error that it raises is named, and is the cause
        raise _does_not_run(function, "", error, leaves) from error
    observed = {name: site for name, site in trace.items() if site["type"] == "sample" and site["is_observed"]}
    if not observed:
        raise ZooError("the program observes nothing: give one of its sample statements obs=")
    _require_densities(function, trace, leaves)
    if any(_number_of_nan(leaf) for leaf in leaves.values()):
        _require_no_nan(function, observed, leaves)
    return trace, arrays


def _by_name(named: Mapping[str, Any]) -> dict[str, Any]:
    """Every array of the arguments, by name: ``x``, or ``x['age']`` where x is a dict."""
    leaves = jax.tree_util.tree_leaves_with_path(dict(named), is_leaf=_is_plain_list)
    return {f"{path[0].key}{jax.tree_util.keystr(path[1:])}": leaf for path, leaf in leaves}


def _is_plain_list(value: Any) -> bool:
    """Whether this is a list of numbers or texts, which is an array to its user and many arguments to JAX."""
    return isinstance(value, list) and all(isinstance(each, bool | int | float | str) for each in value)


def _require_numbers(function: Callable[..., Any], leaves: Mapping[str, Any]) -> None:
    for name, leaf in leaves.items():
        if not isinstance(leaf, jax.Array) and (array := np.asarray(leaf)).dtype.kind not in "biufc":
            kind = "text" if array.dtype.kind in "US" or any(isinstance(each, str) for each in array.flat) else array.dtype
            raise ZooError(
                f"the program {name_of(function)}: the argument {name} holds {kind} and no numbers; give arrays of numbers, "
                "and categories as codes from 0 on (pandas.factorize makes them)"
            )


def _require_densities(function: Callable[..., Any], trace: Mapping[str, Any], leaves: Mapping[str, Any]) -> None:
    """A `ZooError` for a statement whose distribution does not fit its values; on shapes, no number is computed."""
    for name, site in trace.items():
        if site["type"] != "sample":
            continue
        try:
            jax.eval_shape(site["fn"].log_prob, site["value"])
        except Exception as error:  # the program is the user's: any error that it raises is named, and is the cause
            raise _does_not_run(function, f"site {name!r}: ", error, leaves) from error


def _require_no_nan(function: Callable[..., Any], observed: Mapping[str, Any], leaves: Mapping[str, Any]) -> None:
    """A `ZooError` where NaN in the data reaches a density; a program may mask them."""
    for name, site in observed.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPyro's, of values outside the support: they are named below
            density = np.asarray(site["fn"].log_prob(site["value"]))
        value = np.asarray(site["value"])
        if np.isnan(density).any() or (np.isnan(value).any() and not np.isfinite(density).all()):
            raise ZooError(
                f"the program {name_of(function)}: the log density of site {name!r} is {_worst(density)}, as the data hold "
                f"NaN: {_described(leaves, only_nan=True)}; leave these rows out, or let them count nothing in the program: "
                "dist.Normal(…).mask(~jnp.isnan(y)) with obs=jnp.nan_to_num(y)"
            )


def _worst(density: np.ndarray) -> float:
    return float(density[~np.isfinite(density)].flat[0])


def _does_not_run(function: Callable[..., Any], where: str, error: BaseException, leaves: Mapping[str, Any]) -> ZooError:
    message = f"{where}{type(error).__name__}: {error}"
    return ZooError(f"the program {name_of(function)} does not run on this data: {message} (the data: {_described(leaves)})")


def _described(leaves: Mapping[str, Any], only_nan: bool = False) -> str:
    """The arguments with their shapes, and where they hold NaN."""
    words = []
    for name, leaf in leaves.items():
        number = _number_of_nan(leaf)
        shape = f"{name} {np.shape(leaf)}{' as a list (numpy.asarray makes an array)' if isinstance(leaf, list) else ''}"
        if number:
            first = np.argwhere(np.isnan(np.asarray(leaf)))[0].tolist()
            words.append(f"{shape} with NaN in {number} of {np.size(leaf)} entries{f', the first at {first}' if first else ''}")
        elif not only_nan:
            words.append(shape)
    return ", ".join(words) or "none"


def _number_of_nan(leaf: Any) -> int:
    return int(np.isnan(np.asarray(leaf)).sum()) if _is_inexact(leaf) else 0


def _is_inexact(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype, jnp.inexact))
