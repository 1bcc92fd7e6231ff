"""The Dawid-Skene model of raters (1979): N items, R raters, C classes, D columns of ratings.

    class_probs ~ Dirichlet(concentration)                                                            (C,)
    confusion_rc ~ Dirichlet(right_concentration at entry c, wrong_concentration elsewhere)           (R, C, C)
    z_n ~ Categorical(class_probs)                                              the true class of item n
    x_nd | z_n ~ Categorical(confusion_{raters[d], z_n})                        the rating in column d, or missing

``confusion[r, c, v]`` is the probability that rater r gives the rating v to an item of class c. A column is one occasion: a
rater who rates items several times has several columns. Missing ratings are ignored (missing at random). Items with a known
class, or a set of candidate classes, are used as in any classifier.

The classes are the ratings themselves, and the prior favours correct ratings. The likelihood is invariant to a permutation
of the classes in ``class_probs`` and along the class dimension of ``confusion``. Starts therefore assume raters who are better
than chance. With the flat prior the classes are exchangeable, and a result reports this.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Discriminant, Expected, Linear
from models.base import Data, Hyper, Model, Sites, Stats, ZooError, on_host
from models.cells.overrides import proposed
from models.data.classes import allowed_classes, unlabelled, unseen_classes
from models.data.table import require_filled
from models.distributions.observed import Categories
from models.emissions import counts
from models.emissions.block import BlockNaming, BlockPrior, Emission, Likelihood, checked, encoded, require_rows
from models.emissions.categorical import categorical, levels_of
from models.families.conjugate import dirichlet, log_mean
from models.mixtures import mixture
from models.mixtures.mixture import Shape
from models.mixtures.weights import dirichlet as dirichlet_weights
from models.reading.load import as_data
from models.rows.centring import flat
from models.rows.encoded import Rows

LEAST_RIGHT, MOST_RIGHT = 0.5, 0.95  # range of the accuracy of a rater in a start
START_COUNT = 100.0  # pseudo-items per class in a start


def build(
    data: Any,
    raters: Sequence[Any] | None = None,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
) -> Model:
    """Build the model from a table of ratings: one row per item, one column per occasion. Cells may be missing.

    ``raters`` names the rater of each column; by default each column is a different rater. ``prior`` is "default" (in each
    class two more correct ratings than ratings of any one wrong kind), "flat" (maximum likelihood, as in the paper), or numbers
    by block that replace defaults: ``{"class_probs": {"concentration": 2}, "class": {"right_concentration": 5,
    "wrong_concentration": 1.5}}``. Labels are the known classes of some items.

    Raises `ZooError` if ``raters`` does not have one entry per column, for fewer than two different ratings, or a prior outside
    its support.

    >>> from models import load_data
    >>> model = build(load_data("anaesthetists"), raters=["1", "1", "1", "2", "3", "4", "5"])
    >>> model.naming.dims["confusion"], model.naming.coords["rater"]
    (('rater', 'class', 'rating'), ['1', '2', '3', '4', '5'])
    """
    data = as_data(data)
    classes = ratings_of(data)
    of_columns = raters_of(data, raters)
    emission = ratings(data.columns, of_columns, classes)
    shape = Shape(
        dirichlet_weights("class_probs"), "class", prior != "flat", len(classes), prior == "flat" and unlabelled(data)
    )
    require_rows(checked(data, data.columns, emission, "annotators"), emission)
    rows = partial(_rows, emission, data.columns, classes)
    options = {"raters": None if raters is None else list(of_columns), "prior": prior}
    warnings = tuple(unseen_classes(data, classes)) if prior == "flat" else ()
    mixture_model = mixture.model("annotators", data, emission, shape, classes, prior, rows, options, warnings)
    assert mixture_model.algebra is not None
    if prior != "flat" and mixture_model.hyper["right_concentration"] <= mixture_model.hyper["wrong_concentration"]:
        raise ZooError("prior right_concentration must be above wrong_concentration: only this ties the classes to the ratings")
    initial = mixture_model.algebra.initial._replace(draw=_start(len(dict.fromkeys(of_columns)), len(classes)))
    naming = mixture_model.naming._replace(named=True)
    return mixture_model._replace(algebra=mixture_model.algebra._replace(initial=initial), naming=naming, description=__doc__)


def ratings_of(data: Data) -> tuple[str, ...]:
    """The distinct ratings of all columns and labels, in numerical or alphabetical order; raises `ZooError`."""
    levels = levels_of(data)
    require_filled(data)
    known = data.levels if not unlabelled(data) else ()
    for d, levels_of_column in enumerate(levels):
        rest = set().union(*levels[:d], *levels[d + 1 :], known)
        if len(levels) > 1 and rest.isdisjoint(levels_of_column):
            column = data.columns[d]
            raise ZooError(
                f"{data.name}: column {column!r} shares no rating with another; if it holds no ratings, leave it out with "
                f"{proposed('types', 'ignore', column)}"
            )
    distinct = sorted(set().union(*levels, known))
    if len(distinct) < 2:
        raise ZooError(f"{data.name} has only one rating ({', '.join(distinct)}), and at least two are needed")
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)


def raters_of(data: Data, raters: Sequence[Any] | None) -> tuple[str, ...]:
    """The rater of each column; raises `ZooError` for a list of the wrong length."""
    if raters is None:
        return data.columns
    listed = isinstance(raters, Sequence | np.ndarray) and not isinstance(raters, str)
    if not listed or len(raters) != len(data.columns) or any(rater is None or rater != rater for rater in raters):
        raise ZooError(
            f"raters={raters!r}: expected the rater of each of the {len(data.columns)} columns {', '.join(data.columns)}, "
            "such as [anna, anna, ben]"
        )
    return tuple(map(str, raters))


def _rows(emission: Emission, columns: tuple[str, ...], classes: tuple[str, ...], source: Any) -> Rows:
    data = checked(as_data(source), columns, emission, "annotators")
    return encoded(data, emission, allowed_classes(data, classes))


# ---------------------------------------------------------------------------------------------------------------------
# The likelihood block


@cache
def ratings(columns: tuple[str, ...], raters: tuple[str, ...], classes: tuple[str, ...]) -> Emission:
    """The likelihood block of ``columns`` rated by ``raters``. Cached: equal arguments give the same object.

    T and nu are (R, C, C): log confusion and pseudo-counts. The features of a row are its counts (R, C) of ratings by rater,
    so that E-step and M-step are one matrix product each. Cells are encoded as in `models.emissions.categorical`.
    """
    names = tuple(dict.fromkeys(raters))
    rater_of = tuple(names.index(rater) for rater in raters)
    size = len(classes)
    cells = categorical(columns, (classes,) * len(columns))
    count = partial(_counts, rater_of, len(names), size)
    return Emission(
        family=dirichlet,
        prior=BlockPrior(
            parameters=("right_concentration", "wrong_concentration"),
            shapes=lambda columns: {"right_concentration": (), "wrong_concentration": ()},
            defaults=lambda data, num_components: {"right_concentration": 3.1, "wrong_concentration": 1.1},
            bounds=lambda columns: {},
            constants=lambda data: {},
            nu=lambda hyper, num_components: on_host(np.tile(_concentration(np, hyper, size) - 1, (len(names), 1, 1))),
        ),
        likelihood=Likelihood(
            program=partial(_program, rater_of, len(names)),
            features=lambda hyper, x: count(x),
            log_density=_log_density,
            statistics=lambda weight, x: jnp.moveaxis((weight.T @ x).reshape(size, len(names), size), 1, 0),
            draw=partial(_draw, rater_of),
            # with the confusion integrated out, several ratings by the same rater are dependent
            predictive=(lambda nu: _log_density(log_mean(nu))) if len(names) == len(columns) else None,
        ),
        encoding=cells.encoding,
        naming=BlockNaming(
            dims=(("confusion", ("rater", "component", "rating")),),
            coords=lambda data: {"rater": list(names), "rating": list(classes), "feature": list(columns)},
            kind="category",
            levels=(classes,) * len(columns),
            density_of="categories",
        ),
        coordinates=lambda hyper, x: counts.coordinates(count(x)),
        sites=lambda hyper, T: {"confusion": jnp.exp(T)},
        natural=lambda hyper, sites: jnp.log(jnp.asarray(sites["confusion"])),
        discriminant=Discriminant(
            lambda hyper, sites: Linear(jnp.zeros(size), {"rating": jnp.moveaxis(jnp.log(sites["confusion"]), 1, 0)}),
            lambda x: {"rating": count(x).reshape(-1, len(names), size)},
            (("rating", ("rater", "rating")),),
        ),
        profile=lambda sites: tuple(Expected(jnp.asarray(sites["confusion"])[r], None) for r in rater_of),
    )


def _concentration(library: Any, hyper: Hyper, size: int) -> Any:
    """(C, C): right_concentration on the diagonal, wrong_concentration elsewhere; ``library`` is numpy or jax.numpy."""
    return library.where(np.eye(size, dtype=bool), hyper["right_concentration"], hyper["wrong_concentration"])


def _counts(rater_of: tuple[int, ...], num_raters: int, size: int, codes: Array) -> Array:
    """(N, R C): how often each rater gave each rating; missing cells (code −1) are not counted."""
    by_column = jax.nn.one_hot(codes, size)  # (N, D, C)
    by_rater = jnp.zeros((codes.shape[0], num_raters, size), by_column.dtype).at[:, np.array(rater_of)].add(by_column)
    return by_rater.reshape(codes.shape[0], -1)


def _log_density(T: Array) -> Any:
    """Σ_r Σ_v counts_nrv log confusion_rcv."""
    log_probs = jnp.moveaxis(T, 0, 1).reshape(T.shape[1], -1)
    return lambda x: counts.log_mass(x, log_probs)


def _program(
    rater_of: tuple[int, ...], num_raters: int, hyper: Hyper, x: Array, num_components: int, proper: bool
) -> dist.Distribution:
    shape = (num_raters, num_components, num_components)
    prior = (
        dist.Dirichlet(_concentration(jnp, hyper, num_components)).expand(shape[:2]).to_event(2)
        if proper
        else flat(constraints.independent(constraints.simplex, 2), shape)
    )
    confusion = numpyro.sample("confusion", prior)
    return Categories([confusion[r] for r in rater_of])


def _draw(rater_of: tuple[int, ...], key: Array, sites: Sites, z: Array) -> Array:
    log_probs = jnp.log(jnp.asarray(sites["confusion"]))[np.array(rater_of)]  # (D, C, C)
    return jax.random.categorical(key, jnp.moveaxis(log_probs[:, z], 0, 1)).astype(jnp.int32)


@cache
def _start(num_raters: int, size: int) -> Any:
    """(hyper, key) -> a random start: each rater has a random accuracy above one half in each class."""

    def draw(hyper: Hyper, key: Array) -> Stats:
        key_right, key_wrong = jax.random.split(key)
        right = jax.random.uniform(key_right, (num_raters, size, 1), minval=LEAST_RIGHT, maxval=MOST_RIGHT)
        others = jax.random.uniform(key_wrong, (num_raters, size, size)) * (1 - jnp.eye(size))
        wrong = (1 - right) * others / others.sum(-1, keepdims=True)
        return {"class_probs": jnp.full(size, START_COUNT), "class": START_COUNT * (right * jnp.eye(size) + wrong)}

    return draw
