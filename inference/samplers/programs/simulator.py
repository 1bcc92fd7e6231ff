"""Parameters and data drawn from a program: θ₀ from its prior, and data given θ₀, put in the place of what it observes.

A program gets its data as arguments, and observes some of them. Drawn data must come back by the same way. So each observed
site must observe one whole argument, or one array of an argument. Whether it does is seen by running the program, first on the
data of the user and then on data that were drawn. Everything else stays as the user gave it: predictors, and which entries of
the data are missing (NaN).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpyro import distributions as dist
from numpyro import handlers

from inference.engine.program import latent_sites
from inference.engine.task import Task
from inference.fitting.predictive import improper_sites, prior_draws
from inference.fitting.prepare import make_task, x64
from inference.runtime.progress import Silent
from models.base import Model, Pytree, Sites
from models.errors import ZooError

Trace = Mapping[str, Any]
OWN = "let the program take it as an argument of its own, as it is observed: obs=y"
TRIALS = 8  # draws at which the program is looked at


class Simulated(NamedTuple):
    """Parameters by site (R, …), and R tables in the form of the data of the user."""

    sites: dict[str, np.ndarray]
    tables: list[Pytree]


class Simulator(NamedTuple):
    """What draws parameters and data of a program."""

    task: Task
    places: Mapping[str, int]  # observed site -> its place among the arrays of the data
    discrete: tuple[str, ...]  # discrete latents, which are drawn and then forgotten

    def draws(self, seed: int, number: int) -> Simulated:
        """``number`` parameters, and a table given each.

        Raises `ZooError` where the program cannot draw its data, and for draws with NaN or infinities.
        """
        with x64(64):
            drawn = _drawn(self.task, jax.random.PRNGKey(seed), number)
            latent = latent_sites(self.task.model.spec, self.task.hyper, self.task.rows)
        lost = {name: ~np.isfinite(drawn[name]).reshape(number, -1).all(1) for name in (*latent, *self.places)}
        if bad := [name for name, each in lost.items() if each.any()]:
            raise ZooError(
                f"{int(lost[bad[0]].sum())} of {number} draws of {bad[0]!r} from the program hold NaN or infinities: give it a "
                "narrower prior"
            )
        tables = [self.table({name: drawn[name][each] for name in self.places}) for each in range(number)]
        return Simulated({name: drawn[name] for name in latent}, tables)

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
    """What draws parameters and data of a program that `inference.program_model` made a model.

    ``data`` give the shapes, and all that is not observed.

    Raises `ZooError` for an improper prior, a density that no draw follows (factors, scales, masks that hide parameters or
    depend on values), a site that observes no argument as it is, and a program that uses elsewhere what it observes.

    >>> def program(x):
    ...     mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    ...     numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    >>> data = np.zeros(3)
    >>> simulator_of(program_model(program, data), data).draws(seed=0, number=5).sites["mean"].shape
    (5,)
    """
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        if improper := improper_sites(task):
            raise ZooError(f"the prior of {', '.join(improper)} is improper and cannot be drawn from: give a proper one")
        trace = _trace(task, {})
        _require_law(trace)
        discrete = tuple(name for name, site in trace.items() if not site["is_observed"] and site["fn"].is_discrete)
        found = Simulator(task, _places(trace, jax.tree.leaves(task.rows)), discrete)
        _require_one_use(found, trace)
    return found


def _trace(task: Task, sites: Sites) -> Trace:
    """The sample statements of the program as it was written, on the data of ``task``, with values of some ``sites``."""
    program = handlers.seed(handlers.substitute(task.model.spec, data=sites), jax.random.PRNGKey(0))
    trace = handlers.trace(program).get_trace(task.hyper, task.rows, marginal=False)
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def _require_law(trace: Trace) -> None:
    """Raise `ZooError` where the density is not that of the draws."""
    for name, site in trace.items():
        if isinstance(site["fn"], dist.Unit):
            raise ZooError(f"the factor {name!r} changes the density of the program, and draws of data do not follow it")
        if site["scale"] is not None and not np.all(np.asarray(site["scale"]) == 1):
            raise ZooError(f"the site {name!r} is scaled or subsampled: draws of data do not follow such a density")
        if not site["is_observed"] and _masks(site["fn"]):
            raise ZooError(f"the parameter {name!r} is masked: its draws do not follow such a density")


def _masks(fn: Any) -> list[np.ndarray]:
    """The masks of a distribution, from the outermost on."""
    found = []
    while hasattr(fn, "base_dist"):
        if isinstance(fn, dist.MaskedDistribution):
            found.append(np.asarray(fn._mask))
        fn = fn.base_dist
    return found


def _places(trace: Trace, leaves: Sequence[Any]) -> dict[str, int]:
    """Observed site -> its place among the arrays of the data."""
    found: dict[str, int] = {}
    for name, site in trace.items():
        if not site["is_observed"]:
            continue
        same = [place for place, leaf in enumerate(leaves) if _equal(leaf, site["value"])]
        if not same:
            raise ZooError(
                f"the site {name!r} observes no argument of the program as it is, so that other data cannot be put in its "
                f"place (as with obs=jnp.log(y) or obs=y[1:]); {OWN}"
            )
        if len(same) > 1:
            raise ZooError(f"the site {name!r} observes values that {len(same)} arguments have: give data in which they differ")
        if same[0] in found.values():
            raise ZooError(f"the site {name!r} observes what another site observes, too; {OWN}")
        found[name] = same[0]
    return found


def _equal(one: Any, other: Any) -> bool:
    """Whether two arrays have equal shapes and entries; NaN equals NaN."""
    here, there = np.asarray(one), np.asarray(other)
    return here.shape == there.shape and np.array_equal(here, there, equal_nan=here.dtype.kind == there.dtype.kind == "f")


def _missing(value: np.ndarray) -> np.ndarray:
    """Which entries are NaN."""
    return np.isnan(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)


def _require_one_use(simulator: Simulator, trace: Trace) -> None:
    """Raise `ZooError` if draws or masks depend on what is observed, or a site observes something else than its argument.

    ``trace`` is of the data of the user.
    """
    key, task = jax.random.PRNGKey(0), simulator.task
    before = _drawn(task, key, TRIALS)
    for name in simulator.places:
        if (drawn := before[name].shape[1:]) != (given := np.shape(trace[name]["value"])):
            raise ZooError(
                f"the site {name!r} observes an array of shape {given}, and the program draws one of shape {drawn}: give data "
                "of the shape of its distribution"
            )
    for place in range(TRIALS):
        own = {name: value[place] for name, value in before.items()}
        other = make_task(task.model, simulator.table(own), 0, None, Silent())
        if not place:
            _require_equal_draws(simulator, before, _drawn(other, key, TRIALS))
        latent = {name: value for name, value in own.items() if name not in simulator.places}
        _require_same_form(simulator, trace, _trace(other, latent), jax.tree.leaves(other.rows))


def _require_equal_draws(simulator: Simulator, before: Sites, after: Sites) -> None:
    """Raise `ZooError` if draws of equal random numbers differ, because the data differ."""
    if not all(_equal(value, after[name]) for name, value in before.items()):
        names = ", ".join(simulator.places)
        raise ZooError(
            f"the program uses what it observes ({names}) elsewhere, too, so that its draws depend on the data; use what "
            "numpyro.sample returns, or pass such numbers as arguments of their own"
        )


def _require_same_form(simulator: Simulator, trace: Trace, other: Trace, leaves: Sequence[Any]) -> None:
    """Raise `ZooError` for a site that does not observe drawn data as they are, and for a mask that is another one."""
    for name, place in simulator.places.items():
        if not _equal(other[name]["value"], leaves[place]):
            raise ZooError(f"the site {name!r} observes something else than its argument as it is; {OWN}")
        masks = [_masks(each[name]["fn"]) for each in (trace, other)]
        if len(masks[0]) != len(masks[1]) or not all(map(_equal, *masks)):
            raise ZooError(
                f"the mask of the site {name!r} depends on parameters or on what is observed: draws of data do not follow such "
                "a density; let the mask be an argument of its own, or hide missing entries (NaN) alone"
            )


def _drawn(task: Task, key: Array, number: int) -> Sites:
    """All sites (number, …) by the program itself; whatever it raises becomes a `ZooError`."""
    try:
        return prior_draws(task, key, number)
    except ZooError:
        raise
    except Exception as error:  # the program is the user's: whatever it raises is named, and is the cause
        said = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ZooError(f"the program {task.model.name} cannot draw its data: {said}") from error
