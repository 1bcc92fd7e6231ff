"""Linear-Gaussian state-space model, the dynamic factor model: document 002's factor analysis whose scores form a chain.

N sequences of T_n steps with D columns, L factors:

    precision_d ~ Gamma(dof / 2, scatter_d / 2)                                                  (D,)
    loading_dl | precision ~ Normal(0, (loading_strength precision_d)⁻¹)                         (D, L)
    mean_d | precision ~ Normal(location_d, (strength precision_d)⁻¹)                            (D,)
    transition_ij ~ Normal(0, transition_strength⁻¹)                                             (L, L)
    z_n1 ~ Normal(0, I),    z_nt | z_n,t−1 ~ Normal(transition z_n,t−1, I)                       (N, T, L)
    x_nt | z_nt ~ Normal(mean + loading z_nt, diag(precision)⁻¹)                                 (N, T, D)

Source: Shumway and Stoffer (1982); the priors are those of `models.factor_analysis`, and a matrix Normal. Innovations have the
identity as their covariance, which fixes the scale of the factors. A rotation R of them stays free: loading R and
Rᵀ transition R have the same density. Factors need not be stationary.

    E-step: E[z_t], Cov(z_t), Cov(z_t, z_t−1) by the Kalman filter and the smoother of Rauch, Tung and Striebel
            (`models.latents.gaussian_path`)
    M-step: loading, mean and precision as in `models.factor_analysis`, with steps in place of rows;
            transition = (Σ E[z_t z_t−1ᵀ]) (transition_strength I + Σ E[z_t−1 z_t−1ᵀ])⁻¹

A missing cell, or a whole missing step, enters neither step: the factors are conditioned on what is observed.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Abilities, Expected, Table
from models.base import Algebra, Data, Hyper, Initial, Model, Naming, Reading, Sites, Stats, Summaries, Translation, on_host
from models.chains.sequences import Timed, padded_places, probe_steps, sequence_weight, steps_of
from models.data.columns import Layout
from models.distributions.observed import CELLS
from models.dynamics.summaries import TRANSITION, cells_of, completed, expected, functionals, replicated, simulate
from models.factors import summaries
from models.factors.checks import check_factors, checked, refuse_copies
from models.factors.columns import Observed, cell_terms, peak, regressions
from models.factors.columns import natural as natural_of_columns
from models.factors.columns import sites as sites_of_columns
from models.factors.columns import statistics as statistics_of_columns
from models.factors.linear_regression import regression
from models.factors.prior import BLOCK, PRIOR, hyperparameters, prior_statistics, start
from models.families.coefficients import NormalStats, covariance, normal, point
from models.families.user_prior import check_hyper, given_numbers
from models.latents.gaussian import Values
from models.latents.gaussian_path import Moments, Paths, decomposed, paths, steps_within
from models.mixtures.cells import explained
from models.reading.load import as_data
from models.rows.centring import centre, encode, flat, translated
from models.rows.encoded import matched
from models.rows.masks import Cells, observation
from models.rows.scales import scale_doubts, without_spread
from models.symmetries import Rotation

BLOCKS = PRIOR | {TRANSITION: {"strength": "transition_strength"}}
BEFORE = 0.5  # of a factor at the step before: where random starts have the transition
NO_TRANSITION = (
    "the transition has no mode: there are too few steps that follow one another, or factors that do not vary. Use "
    "prior=default, or fewer factors"
)
matrix_normal = normal._replace(why_no_mode=lambda nu: NO_TRANSITION if normal.why_no_mode(nu) else None)


class Parts(NamedTuple):
    """The functions of the model. Cached: equal arguments give the same object, so jitted code is not compiled again."""

    algebra: Algebra
    program: Callable[..., Any]
    completed: Callable[..., Array]
    expected: Callable[..., tuple[Expected, ...]]


@cache
def structure(num_factors: int, proper: bool) -> Parts:
    """Program and algebra of L factors."""
    algebra = Algebra(
        families=((BLOCK, regression), (TRANSITION, matrix_normal)),
        latent=paths,
        proper=proper,
        features=features,
        local_natural_parameters=local,
        statistics=statistics,
        sites=sites,
        natural=natural,
        initial=Initial(draw=partial(random_start, num_factors)),
    )
    return Parts(algebra, partial(program, num_factors, proper), partial(completed, algebra), partial(expected, algebra))


def build(data: Any, num_factors: int = 1, prior: str | Mapping[str, Mapping[str, Any]] = "default") -> Model:
    """Build a state-space model with ``num_factors`` factors.

    ``data`` is a table of numbers that is one sequence, or has a sequence column (``load_data(..., sequence=)``). Cells, and
    whole steps, may be missing. ``prior`` is "default" (weak, scaled to the columns), "flat" (maximum likelihood), or numbers
    that replace defaults: ``{"loading": {"loading_strength", "location", "strength", "dof", "scatter"}, "transition":
    {"strength"}}``. Raises `ZooError` for constant or categorical columns, an empty sequence, more factors than columns, or a
    prior outside its support.

    >>> model = build("gauges", num_factors=2)
    >>> model.symmetry.also, model.naming.dims["transition"]
    (('previous_factor',), ('factor', 'previous_factor'))
    """
    data = checked(data)
    warnings = scale_doubts(data, without_spread(data), prior, "it varies with nothing")
    if prior == "flat":
        refuse_copies(data)
    most = len(data.columns)
    check_factors(num_factors, most, f"{most} columns are driven by at most {most} factors; give num_factors={most}")
    starts = steps_of(data).starts
    sequence_weight(data, starts)
    static = structure(int(num_factors), prior != "flat")
    hyper = prior_numbers(data, prior)
    columns = list(data.columns)
    cells = Layout(data.columns, ("number",) * len(columns), ((),) * len(columns))
    longest, row = int(np.diff(starts).max()), probe_steps(starts)[0][0]
    return Model(
        name="state_space",
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=pseudo_statistics(hyper, int(num_factors), prior != "flat"),
        reading=Reading(
            rows=partial(_rows, columns=data.columns),
            read=as_data,
            translation=Translation(lambda rows, origin: rows._replace(x=translated(rows.x, origin))),
        ),
        summaries=Summaries(
            functionals=functionals,
            probe_rows=lambda num_rows: np.array([row]),
            warnings=warnings,
            warnings_at_optimum=partial(summaries.warnings_of, data.columns, False, False),
        ),
        symmetry=Rotation("factor", "spread", also=("previous_factor",)),
        abilities=Abilities(
            simulate=partial(simulate, longest),
            table=Table(cells, cells_of, static.completed, static.expected),
            replicated=replicated,
        ),
        naming=Naming(
            dims=summaries.dims(False)
            | {TRANSITION: ("factor", "previous_factor"), "modulus": ("axis",), "factors": ("row", "time", "factor")},
            coords=summaries.coords(columns, int(num_factors))
            | {"previous_factor": list(range(1, int(num_factors) + 1)), "time": list(range(1, longest + 1))},
            density_of=f"sequences of {explained('numbers', cells, None)} given their lengths",
            reports="factors",
        ),
        options={"num_factors": num_factors, "prior": prior},
        description=__doc__,
    )


def _rows(source: Any, columns: tuple[str, ...]) -> Timed:
    data = matched(as_data(source), columns)
    starts = steps_of(data).starts
    lengths, place = padded_places(starts)
    x = encode(data)
    seen = None
    if isinstance(x, Cells):
        observed = np.asarray(x.observed)
        seen = None if observed.any(1).all() else on_host(observed.any(1)[place])
        x = Cells(on_host(np.asarray(x.value)[place]), on_host(observed[place]))
    else:
        x = on_host(np.asarray(x)[place])
    return Timed(x, on_host(lengths), seen, sequence_weight(data, starts))


def prior_numbers(data: Data, prior: Any) -> dict[str, np.ndarray]:
    """The hyperparameters: defaults, replaced by the user's numbers; raises `ZooError`."""
    if prior == "flat":
        return hyperparameters(data, False, False, prior)
    given = given_numbers(prior, BLOCKS)
    of_columns = {BLOCK: prior[BLOCK]} if prior != "default" and BLOCK in prior else "default"
    own = {"transition_strength": given.get("transition_strength", 1.0)}
    return hyperparameters(data, False, False, of_columns) | check_hyper(own, {"transition_strength": ()}, {})


def pseudo_statistics(hyper: Hyper, num_factors: int, proper: bool) -> dict[str, Stats]:
    """The prior as pseudo-statistics of the columns, and of the transition; flat: nu = 0."""
    strength = np.eye(num_factors) * (hyper["transition_strength"] if proper else 0.0)
    transition = NormalStats(on_host(np.zeros((num_factors, num_factors))), on_host(strength))
    return prior_statistics(hyper, num_factors, False, False, proper) | {TRANSITION: transition}


def random_start(num_factors: int, hyper: Hyper, key: Array) -> dict[str, Stats]:
    """Random loadings, as in factor analysis; every factor depends on its own past."""
    number = 2.0 * (num_factors + 2)
    size = jnp.eye(num_factors, dtype=jnp.result_type(float))
    return start(num_factors, False, False, hyper, key) | {TRANSITION: NormalStats(number * BEFORE * size, number * size)}


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(num_factors: int, proper: bool, hyper: Hyper, rows: Timed, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with factors integrated out when ``marginal``."""
    x = observation(rows.x)
    number, length, dimension = x.shape
    shape = (dimension, num_factors)
    if proper:
        precision = numpyro.sample("precision", dist.Gamma(hyper["dof"] / 2, hyper["scatter"] / 2).to_event(1))
        scale = 1 / jnp.sqrt(precision)
        wide = scale[:, None] / jnp.sqrt(hyper["loading_strength"])
        loading = numpyro.sample("loading", dist.Normal(0.0, wide).expand(shape).to_event(2))
        mean = numpyro.sample("mean", dist.Normal(hyper["location"], scale / jnp.sqrt(hyper["strength"])).to_event(1))
        each = dist.Normal(0.0, 1 / jnp.sqrt(hyper["transition_strength"]))
        transition = numpyro.sample(TRANSITION, each.expand((num_factors, num_factors)).to_event(2))
    else:
        precision = numpyro.sample("precision", flat(constraints.positive, (dimension,)))
        loading = numpyro.sample("loading", flat(constraints.real, shape))
        mean = numpyro.sample("mean", flat(constraints.real, (dimension,)))
        transition = numpyro.sample(TRANSITION, flat(constraints.real, (num_factors, num_factors)))
    weight = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", number), numpyro.handlers.scale(scale=weight):
        if marginal:
            theta = {TRANSITION: transition, "loading": loading, "mean": mean, "precision": precision}
            numpyro.sample("x", FactorSequences(theta, rows.length, length), obs=x)
            return
        # Factors after the end of a sequence have no influence.
        z = numpyro.sample("path", dist.GaussianStateSpace(length, transition, jnp.eye(num_factors)))
        seen = steps_within(rows.length, length)[..., None] & ~jnp.isnan(x)
        cells = dist.Normal(mean + z @ loading.T, 1 / jnp.sqrt(precision))
        numpyro.sample("x", cells.mask(seen).to_event(2), obs=jnp.nan_to_num(x))


class FactorSequences(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Cells (T, D) of N sequences of given lengths, NaN where missing, with the factors integrated out by the Kalman filter."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(CELLS, 1)
    pytree_data_fields = ("sites", "length")

    def __init__(self, sites: Sites, length: Array, num_steps: int, *, validate_args: bool | None = None) -> None:
        self.sites, self.length = dict(sites), length
        super().__init__(jnp.shape(length), (num_steps, jnp.shape(sites["mean"])[0]), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """(N,)."""
        here = {"origin": self.sites["mean"]}  # so that an offset of the columns costs no digits
        seen = ~jnp.isnan(value)
        steps = features(here, Timed(Cells(jnp.where(seen, value, 0.0), seen), self.length))
        return paths.log_partition(local(natural(here, self.sites))(steps))


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Steps(NamedTuple):
    """What the E-step reads: sequences minus the origin, 0 where missing; which cells are observed; lengths."""

    x: Array  # (N, T, D)
    seen: Array  # (N, T, D), 1 or 0
    length: Array  # (N,)


def features(hyper: Hyper, rows: Timed) -> Steps:
    x = centre(hyper, rows.x)
    observed = rows.x.observed if isinstance(rows.x, Cells) else jnp.ones(x.shape, bool)
    seen = observed & steps_within(rows.length, x.shape[1])[..., None]
    return Steps(jnp.where(seen, x, 0.0), seen.astype(x.dtype), rows.length)


def local(T: Stats) -> Callable[[Steps], Paths]:
    """E-step: the posterior of the factors of each sequence; T is a point, a draw or an expectation."""
    known = regressions(T[BLOCK])
    link, left = T[TRANSITION].linear, covariance(T[TRANSITION])  # left is 0 at a point

    def posterior(steps: Steps) -> Paths:
        number, length, dimension = steps.x.shape
        seen = steps.seen.reshape(-1, dimension)
        said = cell_terms(known, steps.x.reshape(-1, dimension), seen)
        size = link.shape[0]
        precision, pull = said.precision.reshape(number, length, size, size), said.pull.reshape(number, length, size)
        found = decomposed(precision, link, link.T @ link + left, pull, steps.length)
        z = found.centre
        of_cells = peak(known, said, seen, z.reshape(-1, size)).reshape(number, length).sum(1)
        moved = jnp.where(steps_within(steps.length - 1, length)[..., None], z, 0.0)  # where another step follows
        away = jnp.concatenate([z[:, :1], z[:, 1:] - moved[:, :-1] @ link.T], axis=1)
        of_factors = (away**2).sum((1, 2)) + jnp.einsum("nti,ij,ntj->n", moved, left, moved)
        return found._replace(peak=of_cells - 0.5 * of_factors)

    return posterior


def statistics(weight: Array, z: Moments, steps: Steps) -> dict[str, Stats]:
    """Σ_n weight Σ_t those of factor analysis, and of the transition E[z_t z_t−1ᵀ] and E[z_t−1 z_t−1ᵀ]."""
    length, dimension = steps.x.shape[1:]
    size = z.mean.shape[-1]
    of_step = weight[:, None] * steps_within(steps.length, length)
    each = Values(z.mean.reshape(-1, size), None if z.covariance is None else z.covariance.reshape(-1, size, size))
    rows = Observed(steps.x.reshape(-1, dimension), steps.seen.reshape(-1, dimension))
    of_columns = statistics_of_columns(False, False, of_step.reshape(-1), each, rows)
    before, after, follows = z.mean[:, :-1], z.mean[:, 1:], of_step[:, 1:]
    linear = jnp.einsum("nt,nti,ntj->ij", follows, after, before)
    quadratic = jnp.einsum("nt,nti,ntj->ij", follows, before, before)
    if z.covariance is not None and z.lagged is not None:
        linear = linear + jnp.einsum("nt,ntij->ij", follows, z.lagged)
        quadratic = quadratic + jnp.einsum("nt,ntij->ij", follows, z.covariance[:, :-1])
    return of_columns | {TRANSITION: NormalStats(linear, quadratic)}


def sites(hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T(θ) -> θ as the sites of the program."""
    return sites_of_columns(False, hyper, T) | {TRANSITION: T[TRANSITION].linear}


def natural(hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """θ as the sites of the program -> T(θ)."""
    return natural_of_columns(False, False, hyper, sites) | {TRANSITION: point(jnp.asarray(sites[TRANSITION]))}
