"""Hidden Markov model (document 002, errata E9 to E11): S states and a boundary state *, N sequences of T_n steps.

    start_probs        ~ Dirichlet(start_concentration)                     P(* → i)              (S,)
    transition_probs_i ~ Dirichlet(transition_concentration)                P(i → j), P(i → *)    (S, S + 1)
    θ_i                ~ the conjugate prior of ``emission``
    z_n1 ~ Categorical(start_probs),    z_nt | z_n,t−1 = i ~ Categorical(transition_probs_i), until the boundary * is drawn
    x_nt | z_nt = i ~ emission(θ_i)                                                               t = 1 … T_n

The boundary ends a sequence, so that the probabilities of all finite sequences sum to one. Every sequence has at least one
step. With ``boundary=False`` the lengths are given, and ``transition_probs`` is (S, S).

E-step: expected states and transitions by forward-backward (`models.chains.latent`). M-step: start_probs ∝
start_concentration − 1 + E[starts], and likewise for transitions; emissions are updated as in `models.mixtures.mixture`, with
steps in place of rows. EM is then the Baum-Welch algorithm (1970).

A missing step contributes a factor of 1. With ``labelled`` the state of a step may be known, or restricted to a set.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.abilities import Abilities
from models.base import Algebra, Data, Hyper, Initial, Model, Naming, Reading, Sites, Stats, Structure, Summaries
from models.chains.checks import check_options, emission_of_steps, read_steps, state_names, warnings_of
from models.chains.distributions import HiddenMarkov, StatePath
from models.chains.emitting import Emitting, emitting, latent_of, moved
from models.chains.latent import Chain, Filtered, prepared
from models.chains.on_host import host_step
from models.chains.posterior_counts import pair_counts
from models.chains.prior import START, STATE, TRANSITION, Shape, alike, hyperparameters, pseudo_statistics
from models.chains.sequences import (
    Steps,
    Timed,
    filled_in,
    flattened,
    one_by_one,
    packing_of,
    probe_steps,
    rows_shape,
    sequence_weight,
    steps_of,
    timed,
)
from models.chains.summaries import functionals_of, simulate
from models.data.table import require_filled
from models.distributions.observed import observed_part
from models.emissions.block import Emission, translation
from models.emissions.gaussians.student_t import ESTIMATED
from models.emissions.named import Choice
from models.families.conjugate import dirichlet
from models.mixtures.cells import explained
from models.mixtures.mixture import NO_DENSITY
from models.rows.centring import flat
from models.rows.masks import partly_observed
from models.rows.packing import Packing, firsts, laid_out, lasts, of_row
from models.rows.scales import scale_doubts
from models.symmetries import Permutation


class Parts(NamedTuple):
    """The functions of the model. Cached: equal arguments give the same object, so jitted code is not compiled again."""

    algebra: Algebra
    program: Callable[..., Any]


@cache
def structure(emission: Emission, shape: Shape) -> Parts:
    """Algebra and program of a chain whose states emit ``emission``."""
    algebra = Algebra(
        families=((START, dirichlet), (TRANSITION, dirichlet), (STATE, emission.family)),
        latent=latent_of(emission.hidden),
        proper=shape.proper,
        features=partial(features, emission),
        local_natural_parameters=partial(local, emission, shape),
        statistics=partial(statistics, emission, shape),
        sites=partial(sites, emission),
        natural=partial(natural, emission),
        initial=Initial(partial(coordinates, emission), shape.size),
        structure=Structure(host_step=host_step(emission, shape)),
    )
    return Parts(algebra, partial(program, emission, shape))


def build(
    data: Any,
    num_states: int = 2,
    emission: str = "categorical",
    covariance: str = "diag",
    boundary: bool = True,
    labelled: bool = False,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    unseen: str = "error",
    degrees_of_freedom: str | float = ESTIMATED,
    counts: str = "poisson",
) -> Model:
    """Build a hidden Markov model with ``num_states`` states.

    ``data`` is documents, a table with a sequence column (``load_data(..., sequence=)``), or a table that is one sequence.

    - ``emission`` is categorical, multinomial, gaussian or student_t (with ``covariance`` full, tied, diag or spherical),
      bernoulli, mixed, or for counts poisson, negative_binomial, zero_inflated_poisson or zero_inflated_negative_binomial.
      Under student_t distant steps move the states little; ``degrees_of_freedom`` are as in `models.gmm`.
    - mixed are columns of numbers, categories and ``counts``, independent given the state. `models.data.columns.typed` decides
      the kind of each, and ``unseen`` says how new steps with an unknown category are read: "error", or "missing".
    - With ``boundary`` a boundary state starts and stops sequences; otherwise their lengths are given.
    - With ``labelled`` the labels of the steps are their states; a step without a label is latent.
    - ``prior`` is "default", "flat" (maximum likelihood), or numbers by block that replace defaults: ``{"start_probs":
      {"concentration": 1.1}, "transition_probs": {"concentration": 1.1}, "state": {…}}``. Block "state" holds the prior of the
      emission; transitions accept one number, one per next state, or a matrix.

    Whole steps may be missing, and single cells except with multinomial: a step counts with what is observed of it.

    Raises `ZooError` for values that the emission cannot produce, an empty sequence, more labels than states, or a prior
    outside its support.

    >>> from models import load_data
    >>> model = build(load_data("ice_cream"), num_states=2, boundary=False)
    >>> model.naming.dims["transition_probs"], sorted(model.prior)
    (('state', 'next_state'), ['start_probs', 'state', 'transition_probs'])
    """
    choice = Choice(emission, covariance, degrees_of_freedom, counts=counts)
    check_options(num_states, choice, boundary, labelled)
    data, like, read = read_steps(data, choice, unseen)
    steps = steps_of(data)
    block = emission_of_steps(choice, steps.table)
    require_filled(steps.table)
    sequence_weight(data, steps.starts)
    filled = filled_in(steps.table, block)[0]
    block.encoding.check(filled)
    names = state_names(steps.table, int(num_states), labelled)
    scale = scale_doubts(filled, block.encoding.unscaled(filled), prior, NO_DENSITY)
    shape = Shape(int(num_states), boundary, prior != "flat")
    static = structure(block, shape)
    columns = steps.table.columns
    rows = partial(_rows, columns, block, tuple(names) if labelled else None, read)
    explains = block.naming.density_of if like is None else explained(block.naming.density_of, like, None)
    hyper = hyperparameters(steps, block, shape, prior)
    exchangeable = shape.size > 1 and not labelled and alike(hyper, shape)
    places = probe_steps(steps.starts)
    return Model(
        name="hmm",
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=pseudo_statistics(hyper, static.algebra, block, shape, data, rows),
        reading=Reading(
            rows=rows,
            read=read,
            layout=like,
            translation=translation(block),
        ),
        summaries=Summaries(
            functionals=functionals_of(shape, exchangeable, tuple(places)),
            probe_rows=lambda num_rows: np.array([row for row, _ in places]),
            warnings=(*warnings_of(steps.table, emission, names, labelled), *scale),
        ),
        symmetry=Permutation(STATE, also=("next_state",)) if exchangeable else None,
        abilities=Abilities(
            simulate=partial(simulate, block, shape, int(np.diff(steps.starts).max())),
            profile=block.profile,
            replicated=replicated,
            may_be_zero=block.naming.may_be_zero,
            harmless_zeros=block.naming.harmless_zeros,
        ),
        naming=Naming(
            dims=_dims(block, exchangeable),
            coords=_coords(block, steps, shape, names),
            levels={column: own for column, own in zip(columns, block.naming.levels, strict=False) if own},
            density_of=f"sequences of {explains}"
            + ("; state" if labelled else "")
            + ("" if boundary else " given their lengths"),
            reports="state_probs",
        ),
        options={"num_states": int(num_states), "emission": emission, "covariance": covariance}
        | {"boundary": boundary, "labelled": labelled, "prior": prior, "unseen": unseen}
        | {"degrees_of_freedom": degrees_of_freedom, "counts": counts},
        description=__doc__,
    )


def _rows(
    columns: tuple[str, ...],
    emission: Emission,
    states: tuple[str, ...] | None,
    read: Callable[[Any], Data],
    source: Any,
) -> Timed:
    return timed(read(source), columns, emission, states)


def _dims(emission: Emission, exchangeable: bool) -> dict[str, tuple[str, ...]]:
    named = {site: tuple(STATE if dim == "component" else dim for dim in dims) for site, dims in emission.naming.dims}
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
    places = probe_steps(steps.starts)
    number = list(range(1, shape.size + 1))
    return emission.naming.coords(steps.table) | {
        STATE: names,
        "next_state": [*names, "*"] if shape.boundary else names,
        "rank": number,
        "time": list(range(1, int(np.diff(steps.starts).max()) + 1)),
        "pair": [_pair(*left, *right) for left, right in pairwise(places)],
    }


def _pair(row: int, time: int, other_row: int, other_time: int) -> str:
    """Label of a pair: sequence:step of both, counted from 1."""
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
    x = emission.encoding.observation(one_by_one(rows.x))
    components = emission.likelihood.program(hyper, x, size, shape.proper)
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
        allowed_states = jnp.ones((number, length, size), bool) if rows.allowed_states is None else rows.allowed_states
        numpyro.sample("x", HiddenMarkov(start, transition, components, packing_of(rows), seen, allowed_states, state), obs=x)


def replicated(rows: Timed, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn steps, sequence after sequence, and the drawn states if the data have labels."""
    there = np.arange(drawn["path"].shape[2])[None, :] < np.asarray(rows.length)[:, None]
    labels = {} if rows.allowed_states is None else {"label": drawn["path"][:, there]}
    return {"x": drawn["x"][:, there]} | labels


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Features(NamedTuple):
    """What the E-step reads of the rows, on the grid of `models.rows.packing`, time first."""

    observed: Any  # u(x) of the emission: leaves (L R, …)
    packing: Packing
    seen: Array | None  # (L, R)
    allowed_states: Array | None  # (L, R, S)


def features(emission: Emission, hyper: Hyper, rows: Timed) -> Features:
    packing = packing_of(rows)
    seen, allowed_states = (None if part is None else laid_out(packing, part) for part in (rows.seen, rows.allowed_states))
    return Features(emission.likelihood.features(hyper, flattened(rows.x, packing)), packing, seen, allowed_states)


def local(emission: Emission, shape: Shape, T: Stats) -> Callable[[Features], Filtered | Emitting]:
    """E-step: log probabilities of starts, steps and stops, and log p(x_t | θ_i) of every step and state."""
    log_density = emission.likelihood.log_density(T[STATE])
    transition = T[TRANSITION]
    stop = transition[:, shape.size] if shape.boundary else jnp.zeros(shape.size, transition.dtype)

    def natural_parameters(features: Features) -> Filtered | Emitting:
        own = log_density(features.observed)
        density = emission.hidden.component(own).reshape(-1, features.packing.extent.bins, shape.size)
        if features.seen is not None:
            density = jnp.where(features.seen[..., None], density, 0.0)
        if features.allowed_states is not None:
            density = jnp.where(features.allowed_states, density, -jnp.inf)
        path = prepared(Chain(T[START], transition[:, : shape.size], stop, density, features.packing))
        return emitting(emission.hidden, path, own)

    return natural_parameters


def statistics(emission: Emission, shape: Shape, weight: Array, z: Any, features: Features) -> dict[str, Stats]:
    """Σ_n weight (first state, transitions and last state, u of every step that was seen, completed by z, by its state)."""
    z, own = moved(emission.hidden, z, features.packing)
    pair = pair_counts(z, weight)
    last = weight @ lasts(features.packing, z.state)
    transition = jnp.concatenate([pair, last[:, None]], axis=1) if shape.boundary else pair
    state = of_row(features.packing, weight)[..., None] * z.state
    if features.seen is not None:
        state = jnp.where(features.seen[..., None], state, 0.0)
    completed = emission.hidden.complete(own, features.observed)
    block = emission.likelihood.statistics(state.reshape(-1, shape.size), completed)
    return {START: weight @ firsts(features.packing, z.state), TRANSITION: transition, STATE: block}


def sites(emission: Emission, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T(θ) -> θ as the sites of the program."""
    return {START: jnp.exp(T[START]), TRANSITION: jnp.exp(T[TRANSITION])} | emission.sites(hyper, T[STATE])


def natural(emission: Emission, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """θ as the sites of the program -> T(θ)."""
    logs = {name: jnp.log(jnp.asarray(sites[name])) for name in (START, TRANSITION)}
    return logs | {STATE: emission.natural(hyper, sites)}


def coordinates(emission: Emission, hyper: Hyper, rows: Timed) -> Array:
    """Points (N, L, F) that are clustered to start a fit; NaN beyond the end of a sequence."""
    number, length = rows_shape(rows)
    points = emission.coordinates(hyper, one_by_one(rows.x))
    there = jnp.arange(length)[None, :] < rows.length[:, None]
    return jnp.where(there[..., None], points.reshape(number, length, -1), jnp.nan)
