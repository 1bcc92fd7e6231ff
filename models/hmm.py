"""Hidden Markov model with a boundary state (document 002, errata E9 to E11), S states, N sequences of T_n steps:

    start_probs        ~ Dirichlet(start_concentration)                     P(* → i)              (S,)
    transition_probs_i ~ Dirichlet(transition_concentration)                P(i → j), P(i → *)    (S, S + 1)
    θ_i                ~ the conjugate prior of ``emission``
    z_n1 ~ Categorical(start_probs),    z_nt | z_n,t−1 = i ~ Categorical(transition_probs_i) until the boundary * comes
    x_nt | z_nt = i ~ emission(θ_i)                                                               t = 1 … T_n

so that the probabilities of all finite sequences sum to one; a sequence has one step at least, as * → * is impossible. With
``boundary=False`` lengths are given, and ``transition_probs`` is (S, S). E-step: the expected states and transitions of forward
and backward (`models.chain`). M-step: start_probs ∝ start_concentration − 1 + E[starts], and so on; that of the emissions is
the one of `models.mixture`, with the steps in the place of rows. EM is then Baum and Welch's algorithm (1970).

A step may be missing, which has probability 1, and with ``labelled`` states may be known at some steps, or restricted to a
set: the density is that of what was seen.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.base import Algebra, Data, Hyper, Model, Permutation, Sites, Stats, ZooError
from models.categories import categorical, levels_of
from models.chain import Chain, Filtered, chain, prepared
from models.classifier import unlabelled, unseen_classes
from models.data import as_data, first_cell, is_sparse, require_filled
from models.discrete import DISCRETE
from models.distributions import HiddenMarkov, StatePath, observed_part
from models.emissions import Emission
from models.families import dirichlet
from models.gaussian_rows import flat
from models.gaussians import GAUSSIANS
from models.hmm_prior import START, STATE, TRANSITION, Shape, alike, hyperparameters, pseudo_statistics
from models.hmm_summaries import functionals_of, simulate
from models.lanes import Lanes, firsts, laid_out, lasts, of_row
from models.missing import partly_observed
from models.paths import Path, in_lanes, pair_counts
from models.steps import (
    Steps,
    Timed,
    filled_in,
    flattened,
    lanes_of,
    one_by_one,
    rows_shape,
    sequence_weight,
    steps_of,
    timed,
    witnesses,
)
from models.symbols import symbols

EMISSIONS = ("categorical", "gaussian", "poisson", "bernoulli")


class Structure(NamedTuple):
    """The static half of the model: one object for equal arguments, so that jitted code recognises it."""

    algebra: Algebra
    program: Callable[..., Any]


@cache
def structure(emission: Emission, shape: Shape) -> Structure:
    """A chain of ``emission`` blocks."""
    algebra = Algebra(
        families=((START, dirichlet), (TRANSITION, dirichlet), (STATE, emission.family)),
        latent=chain,
        proper=shape.proper,
        features=partial(features, emission),
        local=partial(local, emission, shape),
        statistics=partial(statistics, emission, shape),
        sites=partial(sites, emission),
        natural=partial(natural, emission),
        coordinates=partial(coordinates, emission),
        num_groups=shape.size,
    )
    return Structure(algebra, partial(program, emission, shape))


def build(
    data: Any,
    num_states: int = 2,
    emission: str = "categorical",
    covariance: str = "diag",
    boundary: bool = True,
    labelled: bool = False,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
) -> Model:
    """A hidden Markov model with ``num_states`` states on sequences.

    ``data`` are documents, a table with sequences (``sequence=``), or a table that is one. ``emission`` is categorical,
    gaussian (with ``covariance`` full, tied, diag or spherical), poisson or bernoulli. With ``labelled`` the labels of the
    steps are their states, where there are any. ``prior`` is "default", "flat" (maximum likelihood) or numbers by block over
    the defaults: ``{"start_probs": {"concentration": 1.1}, "transition_probs": {"concentration": 1.1}, "state": {…}}``; the
    emission's are in the last, and transitions may have a row or a matrix of them. Raises `ZooError` for values that the
    emission cannot explain, an empty sequence, more labels than states, or a prior outside its support.
    """
    data = as_data(data)
    _check_options(num_states, emission, covariance, boundary, labelled)
    steps = steps_of(data)
    block = emission_block(emission, covariance, steps.table)
    require_filled(steps.table)
    sequence_weight(data, steps.starts)
    block.check(filled_in(steps.table, block)[0])
    names = _state_names(steps.table, int(num_states), labelled)
    shape = Shape(int(num_states), boundary, prior != "flat")
    static = structure(block, shape)
    columns = steps.table.columns
    rows = partial(_rows, columns, block, tuple(names) if labelled else None)
    hyper = hyperparameters(steps, block, shape, prior)
    exchangeable = shape.size > 1 and not labelled and alike(hyper, shape)
    places = witnesses(steps.starts)
    return Model(
        name="hmm",
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=pseudo_statistics(hyper, static.algebra, block, shape, data, rows),
        rows=rows,
        functionals=functionals_of(shape, exchangeable, tuple(places)),
        witnesses=lambda num_rows: np.array([row for row, _ in places]),
        symmetry=Permutation(STATE, also=("next_state",)) if exchangeable else None,
        simulate=partial(simulate, block, shape, int(np.diff(steps.starts).max())),
        dims=_dims(block, exchangeable),
        coords=_coords(block, steps, shape, names),
        options={
            "num_states": int(num_states),
            "emission": emission,
            "covariance": covariance,
            "boundary": boundary,
            "labelled": labelled,
            "prior": prior,
        },
        explains=f"sequences of {block.explains}"
        + ("; state" if labelled else "")
        + ("" if boundary else " given their lengths"),
        profile=block.profile,
        reports="state_probs",
        warnings=tuple(_warnings(steps.table, emission, names, labelled)),
    )


def _check_options(num_states: Any, emission: Any, covariance: Any, boundary: Any, labelled: Any) -> None:
    if isinstance(num_states, bool) or not isinstance(num_states, int | np.integer) or num_states < 1:
        raise ZooError(f"num_states must be a whole number above 0, got {num_states!r}")
    if emission not in EMISSIONS:
        raise ZooError(f"emission={emission!r} is not one of {', '.join(EMISSIONS)}")
    known = [name for name in GAUSSIANS if name != "unit"]
    if covariance not in known:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(known)}")
    for name, value in {"boundary": boundary, "labelled": labelled}.items():
        if not isinstance(value, bool):
            raise ZooError(f"{name} must be true or false, got {value!r}")


def emission_block(emission: str, covariance: str, table: Data) -> Emission:
    """The block of a name, for the columns of the steps."""
    if is_sparse(table.x):
        raise ZooError(f"{table.name} holds sparse counts, which have no order in time; give a table of steps")
    if emission == "categorical":
        if (cell := first_cell(table, lambda x: (x != np.floor(x)) & ~np.isnan(x))) is not None:
            raise ZooError(
                f"{table.name}: column {cell.column!r}, row {cell.row + 1}: {cell.value:g} is a measurement, and "
                "emission=categorical takes categories; give emission=gaussian"
            )
        levels = levels_of(table)
        return symbols(table.columns[0], levels[0]) if len(levels) == 1 else categorical(table.columns, levels)
    return GAUSSIANS[covariance] if emission == "gaussian" else DISCRETE[emission]


def _warnings(table: Data, emission: str, names: list[Any], labelled: bool) -> list[str]:
    """What to know of these steps under these options."""
    found = unseen_classes(table, tuple(names), "step", "state") if labelled else []
    counts = [name for name, kind in zip(table.columns, table.kinds or (), strict=False) if kind == "count"]
    if emission == "categorical" and counts:
        found.append(
            f"column {counts[0]!r} holds counts, of which every value is a category here; emission=poisson counts them"
        )
    return found


def _state_names(table: Data, num_states: int, labelled: bool) -> list[Any]:
    """Names of the states: those of the labels, then numbers."""
    if not labelled:
        return list(range(num_states))
    if unlabelled(table):
        raise ZooError(f"{table.name} has no labels: labelled=true reads states off them; name the column with data.label=")
    if len(table.levels) > num_states:
        raise ZooError(
            f"{table.name} has {len(table.levels)} labels ({', '.join(table.levels[:5])}, …), and labelled=true makes each a "
            f"state; give num_states={len(table.levels)}"
        )
    if "*" in table.levels:
        raise ZooError(f"{table.name}: a label is '*', which stands for the boundary; give that state another name")
    others = (name for name in map(str, count(len(table.levels))) if name not in table.levels)
    return [*table.levels, *islice(others, num_states - len(table.levels))]


def _rows(columns: tuple[str, ...], emission: Emission, states: tuple[str, ...] | None, source: Any) -> Timed:
    return timed(as_data(source), columns, emission, states)


def _dims(emission: Emission, exchangeable: bool) -> dict[str, tuple[str, ...]]:
    named = {site: tuple(STATE if dim == "component" else dim for dim in dims) for site, dims in emission.dims}
    return named | {
        START: (STATE,),
        TRANSITION: (STATE, "next_state"),
        "stay_probs": ("rank" if exchangeable else STATE,),
        "co_occurrence": ("pair",),
        "start_concentration": (STATE,),
        "transition_concentration": (STATE, "next_state"),
        "state_probs": ("row", "time", STATE),
    }


def _coords(emission: Emission, steps: Steps, shape: Shape, names: list[Any]) -> dict[str, list[Any]]:
    places = witnesses(steps.starts)
    number = list(range(1, shape.size + 1))
    return emission.coords(steps.table) | {
        STATE: names,
        "next_state": [*names, "*"] if shape.boundary else names,
        "rank": number,
        "time": list(range(1, int(np.diff(steps.starts).max()) + 1)),
        "pair": [_pair(*left, *right) for left, right in pairwise(places)],
    }


def _pair(row: int, time: int, other_row: int, other_time: int) -> str:
    """Sequence:step of both, from 1 on."""
    return f"{row + 1}:{time + 1} {other_row + 1}:{other_time + 1}"


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(emission: Emission, shape: Shape, hyper: Hyper, rows: Timed, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with the states summed out when ``marginal``."""
    size, num_next = shape.size, shape.num_next
    if shape.proper:
        start = numpyro.sample(START, dist.Dirichlet(hyper["start_concentration"]))
        transition = numpyro.sample(TRANSITION, dist.Dirichlet(hyper["transition_concentration"]).to_event(1))
    else:
        simplex = dist.constraints.simplex
        start = numpyro.sample(START, flat(simplex, (size,)))
        transition = numpyro.sample(TRANSITION, flat(dist.constraints.independent(simplex, 1), (size, num_next)))
    x = emission.observation(one_by_one(rows.x))
    components = emission.program(hyper, x, size, shape.proper)
    if partly_observed(rows.x):
        components = observed_part(components)
    x = x.reshape(*rows_shape(rows), *x.shape[1:])
    number, length = x.shape[:2]
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", number), numpyro.handlers.scale(scale=scale):
        state = None
        if not marginal:
            state = numpyro.sample("path", StatePath(start, transition, rows.length, length))
        seen = jnp.ones((number, length), bool) if rows.seen is None else rows.seen
        allowed = jnp.ones((number, length, size), bool) if rows.allowed is None else rows.allowed
        numpyro.sample("x", HiddenMarkov(start, transition, components, lanes_of(rows), seen, allowed, state), obs=x)


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Features(NamedTuple):
    """What the rows bring, in lanes (`models.lanes`), time first."""

    observed: Any  # u(x) of the emission: leaves (L R, …)
    lanes: Lanes
    seen: Array | None  # (L, R)
    allowed: Array | None  # (L, R, S)


def features(emission: Emission, hyper: Hyper, rows: Timed) -> Features:
    lanes = lanes_of(rows)
    seen, allowed = (None if part is None else laid_out(lanes, part) for part in (rows.seen, rows.allowed))
    return Features(emission.features(hyper, flattened(rows.x, lanes)), lanes, seen, allowed)


def local(emission: Emission, shape: Shape, T: Stats) -> Callable[[Features], Filtered]:
    """E-step: log probabilities of starts, steps and stops, and log p(x_t | θ_i) of every step and state."""
    log_density = emission.log_density(T[STATE])
    transition = T[TRANSITION]
    stop = transition[:, shape.size] if shape.boundary else jnp.zeros(shape.size, transition.dtype)

    def natural_parameters(features: Features) -> Filtered:
        density = log_density(features.observed).reshape(-1, features.lanes.extent.lanes, shape.size)
        if features.seen is not None:
            density = jnp.where(features.seen[..., None], density, 0.0)
        if features.allowed is not None:
            density = jnp.where(features.allowed, density, -jnp.inf)
        return prepared(Chain(T[START], transition[:, : shape.size], stop, density, features.lanes))

    return natural_parameters


def statistics(emission: Emission, shape: Shape, weight: Array, z: Path, features: Features) -> dict[str, Stats]:
    """Σ_n weight (first state, transitions and last state, u(x_t) of every step that was seen by its state)."""
    z = in_lanes(z, features.lanes)
    pair = pair_counts(z, weight)
    last = weight @ lasts(features.lanes, z.state)
    transition = jnp.concatenate([pair, last[:, None]], axis=1) if shape.boundary else pair
    state = of_row(features.lanes, weight)[..., None] * z.state
    if features.seen is not None:
        state = jnp.where(features.seen[..., None], state, 0.0)
    block = emission.statistics(state.reshape(-1, shape.size), features.observed)
    return {START: weight @ firsts(features.lanes, z.state), TRANSITION: transition, STATE: block}


def sites(emission: Emission, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T of a point -> the sites of the program."""
    return {START: jnp.exp(T[START]), TRANSITION: jnp.exp(T[TRANSITION])} | emission.sites(hyper, T[STATE])


def natural(emission: Emission, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """The sites of the program -> T."""
    logs = {name: jnp.log(jnp.asarray(sites[name])) for name in (START, TRANSITION)}
    return logs | {STATE: emission.natural(hyper, sites)}


def coordinates(emission: Emission, hyper: Hyper, rows: Timed) -> Array:
    """(N, L, F): where a start looks for groups; NaN where there is no step."""
    number, length = rows_shape(rows)
    points = emission.coordinates(hyper, one_by_one(rows.x))
    there = jnp.arange(length)[None, :] < rows.length[:, None]
    return jnp.where(there[..., None], points.reshape(number, length, -1), jnp.nan)
