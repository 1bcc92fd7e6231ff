"""Sites from a user, checked once: names, shapes, support, and that every number is finite.

Every dict of sites passes `checked_sites`: a start, a point to predict at, a picture to draw.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from numpyro import distributions as dist

from inference.engine.program import Site, innermost, latent_sites
from inference.programs.derived import DERIVED
from models.algebra import at_mean
from models.base import Algebra, Model, Pytree, ZooError


class Domain(NamedTuple):
    """The condition of a support: in words, and as a test of values (…) on the host."""

    words: str
    holds: Callable[[np.ndarray], Any]


CLOSE = 1e-6  # tolerance of sums of probabilities, as in NumPyro, and of matrices in units of their diagonal


def _positive_definite(value: np.ndarray) -> Any:
    """Whether a matrix is positive definite, in units of its diagonal, so that the units of the columns do not matter."""
    scale = np.diagonal(value, axis1=-2, axis2=-1)
    if not (scale > 0).all():
        return False
    unit = value / np.sqrt(scale[..., :, None] * scale[..., None, :])
    return (np.abs(unit - np.swapaxes(unit, -1, -2)) < CLOSE).all() and (np.linalg.eigvalsh(unit) > 0).all()


POSITIVE = type(dist.constraints.positive)
DOMAINS = {
    type(dist.constraints.simplex): Domain(
        "probabilities that are not below 0 and sum to 1 along the last axis",
        lambda value: (value >= 0).all() and (np.abs(value.sum(-1) - 1) < CLOSE).all(),
    ),
    type(dist.constraints.unit_interval): Domain("probabilities from 0 to 1", lambda value: (value >= 0) & (value <= 1)),
    POSITIVE: Domain("numbers above 0", lambda value: value > 0),
    type(dist.constraints.positive_definite): Domain("symmetric matrices that are positive definite", _positive_definite),
    type(dist.constraints.real): Domain("finite numbers", np.isfinite),
}


def sites_of_model(model: Model, rows: Pytree = None) -> dict[str, Site]:
    """Name -> site of the program on ``rows``; without rows, by the shapes of rows that the model simulates.

    The sites of a model do not depend on the rows, except those with an entry per row (``Structure.local``), which belong to
    the rows of the fit. For a model that cannot simulate its rows, the shapes are right without rows, and every support counts
    as the real numbers. The sites of a user's program may depend on its rows; raises `ZooError` without them.
    """
    if rows is not None:
        return latent_sites(model.spec, model.hyper, rows)
    if model.algebra is None or model.abilities.simulate is None:
        raise ZooError(f"{model.name} is a program, whose sites are known with its data only")
    return _without_rows(model.spec, _parts(model.abilities.simulate), model.algebra, *map(_shapes, (model.hyper, model.prior)))


def _parts(function: Callable[..., Pytree]) -> tuple[Callable[..., Pytree], tuple[Any, ...], tuple[Any, ...]]:
    """(function, arguments, named arguments) of a partial function, so that equal ones are traced once."""
    if not isinstance(function, partial):
        return function, (), ()
    return function.func, function.args, tuple(function.keywords.items())


def _shapes(tree: Any) -> tuple[Any, tuple[Any, ...]]:
    leaves, structure = jax.tree.flatten(dict(tree))
    return structure, tuple((np.shape(leaf), np.result_type(leaf)) for leaf in leaves)


@lru_cache(maxsize=64)
def _without_rows(spec: Callable[..., Any], parts: Any, algebra: Algebra, *shapes: Any) -> dict[str, Site]:
    with jax.enable_x64(True):
        hyper, prior = (
            jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves]) for structure, leaves in shapes
        )
        sites, rows = _simulated(parts, algebra, hyper, prior)
        if rows is None:
            return {name: Site(dist.constraints.real, leaf.shape, False) for name, leaf in sites.items()}
        return latent_sites(spec, hyper, rows)


def _simulated(parts: Any, algebra: Algebra, hyper: Any, prior: Any) -> tuple[dict[str, Any], Pytree]:
    """Shapes of the sites, and of rows that the model simulates, two where it may choose; None where it cannot."""
    key = jax.random.PRNGKey(0)
    number = len(jax.tree.leaves(prior[algebra.structure.local[0]])[0]) if algebra.structure.local else 2
    sites = jax.eval_shape(lambda hyper, prior: algebra.sites(hyper, at_mean(algebra, key, prior)), hyper, prior)
    simulate, arguments, named = parts
    try:
        return sites, jax.eval_shape(partial(simulate, *arguments, **dict(named), num_rows=number), key, hyper, sites)
    except ZooError:
        return sites, None


def simulated_rows(model: Model) -> Pytree:
    """Shapes of rows that a model simulates; raises `ZooError` where it cannot simulate any."""
    rows = None
    if model.algebra is not None and model.abilities.simulate is not None:
        rows = _simulated(_parts(model.abilities.simulate), model.algebra, dict(model.hyper), dict(model.prior))[1]
    if rows is None:
        raise ZooError(f"{model.name} cannot simulate its rows, so that its program is known with its data only: give data")
    return rows


def checked_sites(
    model: Model, given: Any, rows: Pytree = None, what: str = "sites", boundary: bool = True, lead: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """Sites as float64 arrays with the names, shapes and support of the program's sites; raises `ZooError`.

    With ``rows`` all sites of the program on these rows are needed. Without, sites with an entry per row may be left out, or
    have any number of rows. ``boundary`` says whether rates may be 0, as maximum-likelihood estimates may
    (``Abilities.may_be_zero``). Other positive numbers, as precisions and scales, may not. ``lead`` names dimensions before
    those of the sites, as chain and draw; every site has them in the same sizes.
    """
    if isinstance(given, xr.DataTree) and given.data_vars:  # one group of a result, as a point estimate is
        given = given.to_dataset()
    if isinstance(given, xr.DataTree) or not isinstance(given, Mapping):
        raise ZooError(
            f"{what}: expected {'' if what == 'start' else 'a result of a fit or '}a dict of arrays by site, got "
            f"{type(given).__name__}" + ("; inference.results.load reads the result of a run" if isinstance(given, str) else "")
        )
    given = {name: value for name, value in given.items() if DERIVED not in getattr(value, "attrs", {})}  # follow from sites
    sites = sites_of_model(model, rows)
    free = model.algebra.structure.local if model.algebra is not None and rows is None else ()
    if not set(sites) - set(free) <= set(given) <= set(sites):
        raise ZooError(
            f"{what}: expected the sites {', '.join(sorted(sites))} of {model.name}, got {', '.join(sorted(map(str, given)))}"
        )
    values = {name: _numbers(given[name], name, what) for name in sites if name in given}
    leading = next(iter(values.values())).shape[: len(lead)] if values else ()
    for name, value in values.items():
        wanted = (*value.shape[:1], *sites[name].shape[1:]) if name in free else sites[name].shape
        if lead and (len(leading) < len(lead) or value.shape != (*leading, *wanted)):
            shape = ", ".join(map(str, (*lead, *wanted)))
            also = f", with as many of each as {next(iter(values))}, {leading}" if len(leading) == len(lead) else ""
            raise ZooError(f"{what}: {name} has shape {value.shape}, and that of {model.name} has shape ({shape}){also}")
        if not lead and value.shape != wanted:
            raise ZooError(f"{what}: {name} has shape {value.shape}, and that of {model.name} has shape {wanted}")
    zeros = model.abilities.may_be_zero if boundary else ()
    for name, value in values.items():
        if not (np.isfinite(value).all() and _holds(sites[name].support, value, name in zeros)):
            raise ZooError(f"{what}: {name} is outside its support: it takes {_in_words(sites[name].support)}")
    return values


def _numbers(value: Any, name: str, what: str) -> np.ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ZooError(f"{what}: {name} must be an array of numbers, got {type(value).__name__}: {error}") from error


def _in_words(support: Any) -> str:
    known = DOMAINS.get(type(innermost(support)))
    return str(support) if known is None else known.words


def _holds(support: Any, value: np.ndarray, may_be_zero: bool) -> bool:
    base = innermost(support)
    if isinstance(base, POSITIVE) and may_be_zero:
        return bool((value >= 0).all())
    known = DOMAINS.get(type(base))
    if known is not None:
        return bool(np.all(known.holds(value)))
    with jax.enable_x64(True):  # a support of a user's program
        return bool(np.all(support(value)))
