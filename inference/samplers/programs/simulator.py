"""Parameters and data drawn from a program: θ₀ from its prior, and data given θ₀, put in the place of what it observes.

A program gets its data as arguments, and observes some of them. Drawn data must enter in the same way. So each observed site
must observe one whole argument, or one array of an argument. Whether it does is seen by running the program on the data of the
user, and again on every table that was drawn. Everything else stays as the user gave it: predictors, and which entries of the
data are missing (NaN).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import distributions as dist
from numpyro import handlers

from inference.engine.program import latent_sites
from inference.engine.requirements import improper_sites
from inference.engine.task import Task
from inference.fitting.predictive import prior_draws
from inference.fitting.prepare import make_task, x64
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Silent
from models.base import Hyper, Model, Pytree, Sites
from models.errors import ZooError

Trace = Mapping[str, Any]
Masks = Sequence[np.ndarray]
OWN = "let the program take it as an argument of its own, as it is observed: obs=y"
INEXACT = 2**53  # whole numbers from here on may share a double; Poisson numbers of JAX end at 2^63 - 1 at any rate


class Simulated(NamedTuple):
    """Parameters by site, and a table in the form of the data of the user."""

    sites: dict[str, np.ndarray]
    table: Pytree


class Simulator(NamedTuple):
    """The sampler of parameters and data of a program."""

    task: Task
    places: Mapping[str, int]  # observed site -> its place among the arrays of the data
    masks: Mapping[str, Masks]  # of the observed sites
    discrete: tuple[str, ...]  # discrete latents, which are drawn and then forgotten

    def draw(self, seed: int, place: int) -> Simulated:
        """Parameters and a table given them: the one with the number ``place`` of a seed.

        Raises `ZooError` where the program cannot draw its data, and for draws that are not finite. It does the same where this
        table shows that draws or masks depend on the observations, or that a site observes something else than its argument.
        What shows in a share p of the tables is seen in N of them with probability 1 - (1 - p)^N.
        """
        with x64(64):
            key = jax.random.fold_in(jax.random.PRNGKey(seed), place)
            drawn = _drawn(self.task, key)
            _require_finite(drawn, place)
            table = self.table(drawn)
            task = make_task(self.task.model, table, 0, None, Silent())
            _require_equal_draws(self, drawn, _drawn(task, key))
            given = {name: value for name, value in drawn.items() if name not in self.places}
            forms = _run(task, lambda: _forms(task.model.spec, task.hyper, task.rows, given))
            _require_same_form(self, forms, jax.tree.leaves(task.rows))
            names = latent_sites(self.task.model.spec, self.task.hyper, self.task.rows)
        return Simulated({name: drawn[name] for name in names}, table)

    def table(self, observed: Mapping[str, np.ndarray]) -> Pytree:
        """The data of the user with other values in the place of what sites observe; what is missing stays missing."""
        leaves, form = jax.tree.flatten(self.task.rows)
        arrays = [np.asarray(leaf) for leaf in leaves]
        for name, place in self.places.items():
            given, drawn = arrays[place], observed[name]
            kind = np.result_type(drawn, given)
            arrays[place] = np.where(_missing(given), given, drawn).astype(kind)
        return jax.tree.unflatten(form, arrays)


def simulator_of(model: Model, data: Any) -> Simulator:
    """The sampler of parameters and data of a program that `inference.program_model` made a model.

    ``data`` give the shapes, and all that is not observed.

    Raises `ZooError` for an improper prior, a density that no draw follows (factors, scales, masks that hide parameters), and
    a site that observes no argument as it is. `Simulator.draw` raises the errors that only drawn data show.

    >>> import numpyro
    >>> from inference.programs.model import program_model
    >>> def program(x):
    ...     mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    ...     numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    >>> data = np.zeros(3)
    >>> simulator_of(program_model(program, data), data).draw(seed=0, place=0).table.shape
    (3,)
    """
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        if improper := improper_sites(task):
            raise ZooError(f"the prior of {', '.join(improper)} is improper and cannot be drawn from: give a proper one")
        trace = _run(task, lambda: _trace(task.model.spec, task.hyper, task.rows, {}))
        _require_law(trace)
        discrete = tuple(name for name, site in trace.items() if not site["is_observed"] and site["fn"].is_discrete)
        places = _places(trace, jax.tree.leaves(task.rows))
        masks = {name: [np.asarray(mask) for mask in _masks(trace[name]["fn"])] for name in places}
        _require_equal_shapes({name: np.shape(trace[name]["value"]) for name in places}, _drawn(task, jax.random.PRNGKey(0)))
    return Simulator(task, places, masks, discrete)


def _trace(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, sites: Sites) -> Trace:
    """The sample statements of the program as it was written, with values of some ``sites``."""
    program = handlers.seed(handlers.substitute(spec, data=dict(sites)), jax.random.PRNGKey(0))
    trace = handlers.trace(program).get_trace(hyper, rows, marginal=False)
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


class ObservedStatement(NamedTuple):
    """A sample statement on drawn data."""

    value: Any
    finite: Any  # whether its log density is
    masks: Any


@cached_jit(static_argnames=("spec",))
def _forms(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, sites: Sites) -> dict[str, ObservedStatement]:
    """Every sample statement of the program on data that were drawn, with the parameters that they were drawn with."""
    return {
        name: ObservedStatement(site["value"], jnp.isfinite(site["fn"].log_prob(site["value"])).all(), _masks(site["fn"]))
        for name, site in _trace(spec, hyper, rows, sites).items()
    }


def _require_law(trace: Trace) -> None:
    """Raise `ZooError` where the density is not that of the draws."""
    for name, site in trace.items():
        if isinstance(site["fn"], dist.Unit):
            raise ZooError(f"the factor {name!r} changes the density of the program, and draws of data do not follow it")
        if site["scale"] is not None and not np.all(np.asarray(site["scale"]) == 1):
            raise ZooError(f"the site {name!r} is scaled or subsampled: draws of data do not follow such a density")
        if not site["is_observed"] and _masks(site["fn"]):
            raise ZooError(f"the parameter {name!r} is masked: its draws do not follow such a density")


def _masks(fn: Any) -> list[Any]:
    """The masks of a distribution, from the outermost on."""
    masks = []
    while hasattr(fn, "base_dist"):
        if isinstance(fn, dist.MaskedDistribution):
            masks.append(fn._mask)
        fn = fn.base_dist
    return masks


def _places(trace: Trace, leaves: Sequence[Any]) -> dict[str, int]:
    """Observed site -> its place among the arrays of the data."""
    places: dict[str, int] = {}
    for name, site in trace.items():
        if not site["is_observed"]:
            continue
        same = [place for place, leaf in enumerate(leaves) if _observes(site, np.asarray(leaf))]
        if not same:
            raise ZooError(
                f"the site {name!r} observes no argument of the program as it is, so that other data cannot be put in its "
                f"place (as with obs=jnp.log(y), obs=y[1:], or missing entries that are filled in and not masked); {OWN}"
            )
        if len(same) > 1:
            raise ZooError(f"the site {name!r} observes values that {len(same)} arguments have: give data in which they differ")
        if same[0] in places.values():
            raise ZooError(f"the site {name!r} observes what another site observes, too; {OWN}")
        places[name] = same[0]
    return places


def _observes(site: Mapping[str, Any], given: np.ndarray) -> bool:
    """Whether a site observes an argument: as it is, or with missing entries filled in that count nothing.

    They count nothing if the density does not change with them, as under a mask.
    """
    value = np.asarray(site["value"])
    if not _as_given(value, given):
        return False
    filled = _missing(given) & ~_missing(value)
    other = np.where(filled, np.nan if value.dtype.kind == "f" else value + 1, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPyro's, of values outside the support
        densities = [np.asarray(site["fn"].log_prob(each)) for each in (value, other)]
    return not filled.any() or np.array_equal(densities[0], densities[1])


def _as_given(value: np.ndarray, given: np.ndarray) -> bool:
    """Whether what is observed has the shape of an argument, and its entries where they are not missing."""
    return value.shape == given.shape and _equal(np.where(_missing(given), given, value), given)


def _equal(one: Any, other: Any) -> bool:
    """Whether two arrays have equal shapes and entries; NaN equals NaN."""
    here, there = np.asarray(one), np.asarray(other)
    return here.shape == there.shape and np.array_equal(here, there, equal_nan=here.dtype.kind == there.dtype.kind == "f")


def _missing(value: np.ndarray) -> np.ndarray:
    """Which entries are NaN."""
    return np.isnan(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)


def _require_equal_shapes(given: Mapping[str, tuple[int, ...]], drawn: Sites) -> None:
    """Raise `ZooError` where a site observes fewer or more numbers than the program draws."""
    for name, shape in given.items():
        if shape != drawn[name].shape:
            raise ZooError(
                f"the site {name!r} observes an array of shape {shape}, and the program draws one of shape "
                f"{drawn[name].shape}: give data of the shape of its distribution"
            )


def _require_finite(drawn: Sites, place: int) -> None:
    """Raise `ZooError` for draws that no double holds: NaN, infinities, and counts at which random numbers may end."""
    for name, value in drawn.items():
        whole = value.dtype.kind in "iu"
        if not (np.abs(value.astype(float)) < (INEXACT if whole else np.inf)).all():
            held = "whole numbers from 2^53 on" if whole else "NaN or infinities"
            raise ZooError(f"draws of {name!r} from the program hold {held} (table {place + 1}): give it a narrower prior")


def _require_equal_draws(simulator: Simulator, before: Sites, after: Sites) -> None:
    """Raise `ZooError` if draws of equal random numbers differ, because the data differ."""
    if not all(_equal(value, after[name]) for name, value in before.items()):
        names = ", ".join(simulator.places)
        raise ZooError(
            f"the program uses what it observes ({names}) elsewhere, too, so that its draws depend on the data; use what "
            "numpyro.sample returns, or pass such numbers as arguments of their own"
        )


def _require_same_form(simulator: Simulator, forms: Mapping[str, ObservedStatement], leaves: Sequence[Any]) -> None:
    """Raise `ZooError` for drawn data that are not observed as they are, have another mask, or an infinite density."""
    for name, place in simulator.places.items():
        if not _as_given(np.asarray(forms[name].value), np.asarray(leaves[place])):
            raise ZooError(f"the site {name!r} observes something else than its argument as it is; {OWN}")
        masks = forms[name].masks, simulator.masks[name]
        if len(masks[0]) != len(masks[1]) or not all(map(_equal, *masks)):
            raise ZooError(
                f"the mask of the site {name!r} depends on parameters or on what is observed: draws of data do not follow such "
                "a density; let the mask be an argument of its own, or hide missing entries (NaN) alone"
            )
    if infinite := [name for name, form in forms.items() if not form.finite]:
        raise ZooError(
            f"the log density of the site {infinite[0]!r} is not finite at a draw of the program: give it a narrower prior"
        )


def _drawn(task: Task, key: Array) -> dict[str, np.ndarray]:
    """A draw of all sites by the program itself."""
    return {name: value[0] for name, value in _run(task, lambda: prior_draws(task, key, 1)).items()}


def _run[Found](task: Task, call: Callable[[], Found]) -> Found:
    """``call()``, which runs the program; any error that it raises becomes a `ZooError`."""
    try:
        return call()
    except ZooError:
        raise
    except Exception as error:  # the program is the user's: any error that it raises is named, and is the cause
        message = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ZooError(f"the program {task.model.name} cannot draw its data: {message}") from error
