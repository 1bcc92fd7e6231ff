"""Likelihood blocks for counts:

    multinomial   word_probs_k ~ Dirichlet(word_concentration)      x_n | z_n = k ~ Multinomial(Σ_v x_nv, word_probs_k)
    poisson       rate_kd ~ Gamma(shape_d, inverse_scale_d)         x_nd | z_n = k ~ Poisson(rate_kd)

All log densities are linear in counts of events, so that E-step and M-step are one matrix product each
(`models.emissions.counts`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Discriminant, Expected, Linear
from models.base import Data, Hyper, Sites, ZooError, on_host
from models.data.documents import bag_of_words
from models.data.table import first_cell, is_sparse, require_no_categories
from models.distributions.observed import WordCounts
from models.emissions import counts
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.emissions.counts import Counts
from models.families.conjugate import GammaStats, dirichlet, gamma
from models.rows.centring import flat

CATEGORIES = "use emission=categorical, or leave it out with data.columns=[…]"
BY_COLUMN = ("component", "feature")


def column_coords(data: Data) -> dict[str, list[Any]]:
    return {"feature": list(data.columns)}


def refuse(data: Data, wrong: Callable[[np.ndarray], np.ndarray], needs: str) -> None:
    """Raise `ZooError` for the first cell that is ``wrong``."""
    found = first_cell(data, wrong)
    if found is not None:
        raise ZooError(
            f"{data.name}: column {found.column!r}, row {found.row + 1}: the value is {found.value:g} ({found.number} such "
            f"cells); {needs}"
        )


def _whole(data: Data) -> Any:
    """The counts; raises `ZooError` for a cell that is not a count."""
    require_no_categories(data, CATEGORIES)
    refuse(data, lambda x: x < 0, "counts cannot be negative")
    refuse(data, lambda x: (x != np.floor(x)) & ~np.isnan(x), "counts must be whole numbers")
    return data.x


def _check_counts(data: Data) -> None:
    _whole(data)


def columns_expected(mean: Array, variance: Array) -> tuple[Expected, ...]:
    """Expected columns from means and variances (K, D)."""
    return tuple(Expected(*pair) for pair in zip(jnp.asarray(mean).T, jnp.asarray(variance).T, strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# Counts: the multinomial of a document's words, and independent Poisson columns


def _encode_multinomial(data: Data) -> Counts:
    x = _whole(bag_of_words(data))
    return Counts(counts.encode(x), on_host(_arrangements(x)))


def _encode_poisson(data: Data) -> Counts:
    x = _whole(bag_of_words(data))
    if is_sparse(x) or not np.isnan(x.sum()):
        return Counts(counts.encode(x), on_host(-counts.factorials(x)))
    seen = ~np.isnan(x)
    filled = np.where(seen, x, 0.0)
    return Counts(on_host(filled), on_host(-counts.factorials(filled)), on_host(seen))


def _arrangements(x: Any) -> np.ndarray:
    """Log multinomial coefficient of each row: (N,)."""
    from scipy.special import gammaln

    return np.asarray(gammaln(np.asarray(x.sum(axis=1)).ravel() + 1)) - counts.factorials(x)


def _counted(hyper: Hyper, x: Counts) -> Counts:
    return Counts(counts.as_float(x.value), x.carrier, None if x.observed is None else x.observed.astype(float))


def _observed_counts(x: Counts) -> Array:
    value = counts.dense(counts.as_float(x.value))
    return value if x.observed is None else jnp.where(x.observed, value, jnp.nan)


def _multinomial_prior(hyper: Hyper, num_components: int) -> Array:
    return on_host(np.tile(hyper["word_concentration"] - 1, (num_components, 1)))


def _multinomial_program(hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    words = (
        dist.Dirichlet(hyper["word_concentration"]).expand([num_components]).to_event(1)
        if proper
        else flat(constraints.independent(constraints.simplex, 1), (num_components, x.shape[1]))
    )
    return WordCounts(numpyro.sample("word_probs", words), x.sum(1))


def _multinomial_log_density(T: Array) -> Callable[[Counts], Array]:
    return lambda x: counts.log_mass(x.value, T) + x.carrier[:, None]


def _multinomial_draw(key: Array, sites: Sites, z: Array) -> Counts:
    """Draw documents of `DRAWN_WORDS` words: the model does not describe their length."""
    words = jax.random.categorical(key, jnp.log(sites["word_probs"])[z][:, None, :], axis=-1, shape=(z.shape[0], DRAWN_WORDS))
    value = jax.nn.one_hot(words, sites["word_probs"].shape[-1]).sum(1)
    return Counts(value, jax.scipy.special.gammaln(DRAWN_WORDS + 1.0) - counts.row_factorials(value))


DRAWN_WORDS = 20
UNKNOWN_SUM = (
    "without a count the sum of the row is unknown, which a multinomial is given; fill the cell in, remove the row, or use "
    "emission=poisson, under which any count may be missing"
)


multinomial = Emission(
    family=dirichlet,
    prior=BlockPrior(
        parameters=("word_concentration",),
        defaults=lambda data, num_components: {"word_concentration": 1.1},
        bounds=lambda columns: {},
        constants=lambda data: {},
        nu=_multinomial_prior,
        shapes=lambda columns: {"word_concentration": (columns,)},
    ),
    likelihood=Likelihood(
        program=_multinomial_program,
        features=_counted,
        log_density=_multinomial_log_density,
        statistics=lambda weight, x: counts.totals(weight, x.value),
        draw=_multinomial_draw,
    ),
    encoding=Encoding(
        encode=_encode_multinomial,
        observation=_observed_counts,
        check=_check_counts,
        remedy=UNKNOWN_SUM,
    ),
    coordinates=lambda hyper, x: counts.coordinates(counts.as_float(x.value)),
    sites=lambda hyper, T: {"word_probs": jnp.exp(T)},
    natural=lambda hyper, sites: jnp.log(jnp.asarray(sites["word_probs"])),
    naming=BlockNaming(
        dims=(("word_probs", ("component", "word")), ("word_concentration", ("word",))),
        coords=lambda data: {"word": list(data.columns)},
        density_of="counts given their sum",
    ),
    discriminant=Discriminant(
        lambda hyper, sites: Linear(jnp.zeros(sites["word_probs"].shape[0]), {"x": jnp.log(sites["word_probs"])}),
        lambda x: {"x": _observed_counts(x)},
        (("x", ("word",)),),
    ),
)


def _poisson_defaults(data: Data, num_components: int) -> dict[str, Any]:
    """A prior worth two events, with the mean of the column; columns without events count as half an event."""
    weight, x = np.ones(data.num_rows) if data.weight is None else data.weight, bag_of_words(data).x
    seen = np.ones(1) if is_sparse(x) else ~np.isnan(x)
    total = weight @ (x if is_sparse(x) else np.where(seen, x, 0.0))
    mean = (np.asarray(total).ravel() + 0.5) / (weight[:, None] * seen).sum(axis=0)
    return {"shape": 2.0, "inverse_scale": 2.0 / mean}


def _poisson_prior(hyper: Hyper, num_components: int) -> GammaStats:
    both = (np.tile(hyper["shape"] - 1, (num_components, 1)), np.tile(hyper["inverse_scale"], (num_components, 1)))
    return GammaStats(on_host(both[0]), on_host(both[1]))


def _poisson_program(hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    shape = (num_components, x.shape[1])
    if proper:
        rate = numpyro.sample("rate", dist.Gamma(hyper["shape"], hyper["inverse_scale"]).expand(shape).to_event(2))
    else:
        rate = numpyro.sample("rate", flat(constraints.positive, shape))
    return dist.Poisson(rate).to_event(1)


def _poisson_log_density(T: GammaStats) -> Callable[[Counts], Array]:
    def log_density(x: Counts) -> Array:
        exposure = T.exposure.sum(1)[None, :] if x.observed is None else x.observed @ T.exposure.T
        return counts.log_mass(x.value, T.events) + (exposure + x.carrier[:, None])

    return log_density


def _poisson_statistics(weight: Array, x: Counts) -> GammaStats:
    events = counts.totals(weight, x.value)
    exposure = weight.sum(0)[:, None] if x.observed is None else weight.T @ x.observed
    return GammaStats(events, jnp.broadcast_to(exposure, events.shape))


def _poisson_draw(key: Array, sites: Sites, z: Array) -> Counts:
    value = jax.random.poisson(key, sites["rate"][z]).astype(float)
    return Counts(value, -counts.row_factorials(value))


def _poisson_natural(hyper: Hyper, sites: Sites) -> GammaStats:
    rate = jnp.asarray(sites["rate"])
    return GammaStats(jnp.log(rate), -rate)


poisson = Emission(
    family=gamma,
    prior=BlockPrior(
        parameters=("shape", "inverse_scale"),
        defaults=_poisson_defaults,
        bounds=lambda columns: {},
        constants=lambda data: {},
        nu=_poisson_prior,
        shapes=lambda columns: {"shape": (columns,), "inverse_scale": (columns,)},
    ),
    likelihood=Likelihood(
        program=_poisson_program,
        features=_counted,
        log_density=_poisson_log_density,
        statistics=_poisson_statistics,
        draw=_poisson_draw,
    ),
    encoding=Encoding(
        encode=_encode_poisson,
        observation=_observed_counts,
        check=_check_counts,
        missing=True,
    ),
    coordinates=lambda hyper, x: counts.coordinates(counts.as_float(x.value)),
    sites=lambda hyper, T: {"rate": -T.exposure},
    natural=_poisson_natural,
    naming=BlockNaming(
        dims=(("rate", BY_COLUMN), ("shape", ("feature",)), ("inverse_scale", ("feature",))),
        coords=column_coords,
        kind="count",
        may_be_zero=("rate",),
        density_of="counts",
    ),
    discriminant=Discriminant(
        lambda hyper, sites: Linear(-sites["rate"].sum(1), {"x": jnp.log(sites["rate"])}),
        lambda x: {"x": _observed_counts(x)},
        (("x", ("feature",)),),
    ),
    profile=lambda sites: columns_expected(sites["rate"], sites["rate"]),
)
