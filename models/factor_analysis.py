"""Factor analysis and probabilistic PCA (document 002): N rows of D columns, L factors.

    precision_d ~ Gamma(dof / 2, scatter_d / 2)                                                  (D,), or () for ppca
    loading_dl | precision ~ Normal(0, (loading_strength precision_d)⁻¹)                         (D, L)
    mean_d | precision ~ Normal(location_d, (strength precision_d)⁻¹)                            (D,)
    z_n ~ Normal(0, I)                                                                           (N, L)
    x_n | z_n ~ Normal(mean + loading z_n, diag(precision)⁻¹)                                    (N, D)

With the scores integrated out, x_n ~ Normal(mean, loading loadingᵀ + Ψ), Ψ = diag(precision)⁻¹, or I / precision for ppca.
The loadings are identified only up to a rotation of the factors (errata E7): Gibbs and NUTS draw them in any rotation, and
`inference.identification.rotation` aligns the draws. Loadings and mean of a column are the coefficients of its regression on
(z, 1), which are conjugate given the scores (`models.factors.linear_regression`).

    E-step: z_n | x_n ~ Normal(P⁻¹ h_n, P⁻¹),   P = I + loadingᵀ Ψ⁻¹ loading,   h_n = loadingᵀ Ψ⁻¹ (x_n − mean)
    M-step: coefficients_d = (Σ E[z̃ z̃ᵀ])⁻¹ Σ x_nd E[z̃],  z̃ = (z, 1);  1 / precision_d = mean squared residual

A missing cell enters neither step; the scores of its row are conditioned on the observed cells. The likelihood of complete
rows depends only on their first two moments: `sufficient_rows` replaces N rows by D + 1 weighted ones, so that the cost of
a sweep does not depend on N (Rubin and Thayer 1982).
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Abilities, Expected, Table
from models.base import (
    Algebra,
    Data,
    Hyper,
    Initial,
    Model,
    Naming,
    Reading,
    Stats,
    Structure,
    Summaries,
    Translation,
    ZooError,
    on_host,
)
from models.data.columns import Layout
from models.distributions.observed import ObservedFactors
from models.factors.checks import check_factors, checked, ledermann, refuse_copies
from models.factors.columns import Observed, cell_terms, natural, peak, quadratic, regressions, sites, statistics
from models.factors.linear_regression import regression
from models.factors.prior import BLOCK, RELEVANCE, coupling, hyperparameters, prior_statistics, start
from models.factors.sufficient_rows import sufficient_rows
from models.factors.summaries import completed, coords, dims, expected, functionals, maximum, minka, simulate, warnings_of
from models.families.conjugate import gamma
from models.latents.gaussian import Scores, scores
from models.mixtures.cells import explained
from models.reading.load import as_data
from models.rows.centring import centre, encode, flat, translated
from models.rows.encoded import Rows, matched
from models.rows.masks import Cells, observation, partly_observed
from models.rows.scales import scale_doubts, without_spread
from models.symmetries import Reflection, Rotation

VARIES = "it varies with nothing"


class Parts(NamedTuple):
    """The functions of the model. Cached: equal arguments give the same object, so jitted code is not compiled again."""

    algebra: Algebra
    program: Callable[..., Any]
    completed: Callable[..., Array]
    expected: Callable[..., tuple[Expected, ...]]


@cache
def structure(num_factors: int, shared: bool, relevance: bool, proper: bool) -> Parts:
    """Program and algebra of L factors; ``shared``: one noise precision for all columns."""
    algebra = Algebra(
        families=((BLOCK, regression), (RELEVANCE, gamma)) if relevance else ((BLOCK, regression),),
        latent=scores,
        proper=proper,
        features=features,
        local_natural_parameters=local,
        statistics=partial(statistics, shared, relevance),
        sites=partial(sites, relevance),
        natural=partial(natural, shared, relevance),
        initial=Initial(draw=partial(start, num_factors, shared, relevance)),
        structure=Structure(coupling=coupling if relevance else None),
    )
    spec = partial(program, num_factors, shared, relevance, proper)
    return Parts(algebra, spec, partial(completed, algebra), partial(expected, algebra))


def factor_analysis(
    data: Any, num_factors: int = 2, prior: str | Mapping[str, Mapping[str, Any]] = "default", relevance: bool = False
) -> Model:
    """Build a factor model of the columns of ``data``; each column has its own noise variance.

    ``prior`` is "default" (weak, scaled to the columns), "flat" (maximum likelihood), or numbers that replace defaults:
    ``{"loading": {"loading_strength", "location", "strength", "dof", "scatter"}}``. ``relevance`` adds automatic relevance
    determination (block "relevance": "shape", "rate"), which switches off superfluous factors. Raises `ZooError` for constant
    or categorical columns, more factors than Ledermann's bound, or a prior outside its support.

    >>> factor_analysis("ability", num_factors=2).symmetry
    Rotation(dim='factor', scale='spread', also=())
    """
    data = checked(data)
    warnings = scale_doubts(data, without_spread(data), prior, VARIES)
    if prior == "flat":
        refuse_copies(data)
    most = ledermann(len(data.columns))
    number = f"{len(data.columns)} columns" if len(data.columns) > 1 else "one column"
    why = f"{number} can identify at most {most} factors (Ledermann's bound)"
    check_factors(num_factors, most, f"{why}; give num_factors={most}" if most else why)
    return _model("factor_analysis", data, num_factors, False, prior, relevance, warnings)


def ppca(
    data: Any, num_factors: int = 2, prior: str | Mapping[str, Mapping[str, Any]] = "default", relevance: bool = False
) -> Model:
    """Build probabilistic PCA: `factor_analysis` with one noise variance for all columns, which must have comparable units.

    Options and errors are those of `factor_analysis`. Also raises `ZooError` for as many factors as columns, or more.

    >>> ppca("iris", num_factors=2).naming.dims["loading"]
    ('feature', 'factor')
    """
    data = checked(data)
    most = len(data.columns) - 1
    check_factors(num_factors, most, f"with {len(data.columns)} columns there can be at most {most} factors")
    constant = without_spread(data)  # the shared noise takes its scale from all columns
    warnings = scale_doubts(data, constant if len(constant) == len(data.columns) else [], prior, VARIES)
    return _model("ppca", data, num_factors, True, prior, relevance, warnings)


def _model(
    name: str, data: Data, num_factors: int, shared: bool, prior: Any, relevance: bool, warnings: tuple[str, ...]
) -> Model:
    if not isinstance(relevance, bool):
        raise ZooError(f"relevance must be true or false, got {relevance!r}")
    if relevance and prior == "flat":
        raise ZooError("relevance=true is a prior on the loadings, so it cannot be combined with prior=flat")
    static = structure(int(num_factors), shared, relevance, prior != "flat")
    hyper = hyperparameters(data, shared, relevance, prior)
    scale = None if shared else "spread"
    columns = list(data.columns)
    cells = Layout(data.columns, ("number",) * len(columns), ((),) * len(columns))
    return Model(
        name=name,
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=prior_statistics(hyper, num_factors, shared, relevance, prior != "flat"),
        reading=Reading(
            rows=partial(_rows, columns=data.columns),
            read=as_data,
            sufficient_rows=sufficient_rows,
            translation=Translation(lambda rows, origin: rows._replace(x=translated(rows.x, origin))),
        ),
        summaries=Summaries(
            functionals=functionals,
            probe_rows=lambda num_rows: np.zeros(1, dtype=int),
            warnings=warnings,
            warnings_at_optimum=partial(warnings_of, data.columns, shared, relevance),
        ),
        symmetry=Reflection("factor", scale) if relevance else Rotation("factor", scale),
        abilities=Abilities(
            simulate=simulate,
            table=Table(cells, lambda rows: observation(rows.x), static.completed, static.expected),
            maximum=partial(maximum, num_factors) if shared and prior == "flat" else None,
            approximate_evidence=partial(minka, num_factors) if shared else None,
        ),
        naming=Naming(
            dims=dims(shared),
            coords=coords(columns, num_factors),
            density_of=explained("numbers", cells, None),
            reports="scores",
        ),
        options={"num_factors": num_factors, "prior": prior, "relevance": relevance},
        description=__doc__,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(
    num_factors: int, shared: bool, relevance: bool, proper: bool, hyper: Hyper, rows: Rows, *, marginal: bool = True
) -> None:
    """The spec: the generative program at the top of this file, with scores integrated out when ``marginal``."""
    x = observation(rows.x)
    dimension = hyper["origin"].shape[-1]
    batch = () if shared else (dimension,)
    if proper:
        gamma = dist.Gamma(hyper["dof"] / 2, hyper["scatter"] / 2)
        precision = numpyro.sample("precision", gamma.expand(batch).to_event(len(batch)))
        scale = jnp.broadcast_to(1 / jnp.sqrt(precision), (dimension,))
        strength = hyper["loading_strength"] * jnp.ones(num_factors)
        if relevance:
            each = dist.Gamma(hyper["relevance_shape"], hyper["relevance_rate"]).expand([num_factors]).to_event(1)
            strength = strength * numpyro.sample("relevance", each)
        wide = scale[:, None] / jnp.sqrt(strength)[None, :]
        loading = numpyro.sample("loading", dist.Normal(0.0, wide).expand([dimension, num_factors]).to_event(2))
        mean = numpyro.sample("mean", dist.Normal(hyper["location"], scale / jnp.sqrt(hyper["strength"])).to_event(1))
    else:
        precision = numpyro.sample("precision", flat(constraints.positive, batch))
        loading = numpyro.sample("loading", flat(constraints.real, (dimension, num_factors)))
        mean = numpyro.sample("mean", flat(constraints.real, (dimension,)))
    noise = jnp.broadcast_to(1 / precision, (dimension,))
    weight = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", x.shape[0]), numpyro.handlers.scale(scale=weight):
        if not marginal:
            z = numpyro.sample("score", dist.Normal(0.0, 1.0).expand([num_factors]).to_event(1))
            cells = dist.Normal(mean[None, :] + z @ loading.T, jnp.sqrt(noise)[None, :])
            numpyro.sample("x", cells.mask(~jnp.isnan(x)).to_event(1), obs=jnp.nan_to_num(x))
        elif partly_observed(rows.x):
            numpyro.sample("x", ObservedFactors(mean, loading, noise), obs=x)
        else:
            numpyro.sample("x", dist.LowRankMultivariateNormal(mean, cov_factor=loading, cov_diag=noise), obs=x)


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


def features(hyper: Hyper, rows: Rows) -> Observed:
    x = centre(hyper, rows.x)
    return Observed(x, rows.x.observed.astype(x.dtype) if isinstance(rows.x, Cells) else None)


def local(T: Stats) -> Callable[[Observed], Scores]:
    """E-step: the posterior of the scores of each row; T is a point, a draw or an expectation."""
    known = regressions(T[BLOCK])
    identity = jnp.eye(known.loading.shape[1], dtype=known.loading.dtype)

    def posterior(rows: Observed) -> Scores:
        if rows.seen is None:
            away = rows.x - known.mean[None, :]
            together = known.left.sum(0)
            root = jnp.linalg.cholesky(identity + known.outer.sum(0))
            pull = away @ known.scaled - together[:-1, -1][None, :]
            middle = jax.scipy.linalg.cho_solve((root, True), pull.T).T
            bent = quadratic(middle, together[None, :, :])
            residual = away - middle @ known.loading.T
            highest = known.half_log.sum() - 0.5 * (residual**2 @ known.precision) - 0.5 * bent
        else:
            cells = cell_terms(known, rows.x, rows.seen)
            root = jnp.linalg.cholesky(identity[None, :, :] + cells.precision)
            middle = jax.scipy.linalg.cho_solve((root, True), cells.pull[..., None])[..., 0]
            highest = peak(known, cells, rows.seen, middle)
        return Scores(highest - 0.5 * (middle**2).sum(1), middle, root)

    return posterior


def _rows(source: Any, columns: tuple[str, ...]) -> Rows:
    data = matched(as_data(source), columns)
    return Rows(encode(data), None if data.weight is None else on_host(data.weight))
