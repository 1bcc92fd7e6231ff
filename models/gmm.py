"""Gaussian mixture (document 002), N rows of D columns, K components:

    mixture_probs ~ Dirichlet(concentration)                                                     (K,)
    precision_k   ~ Wishart(dof, scatter⁻¹)             full (K, D, D), tied (D, D)
                    Gamma(dof / 2, scatter / 2)         diag (K, D), spherical (K,)
    mean_k | precision_k ~ Normal(location, (strength precision_k)⁻¹)                            (K, D)
    z_n ~ Categorical(mixture_probs),    x_n | z_n ~ Normal(mean_{z_n}, precision_{z_n}⁻¹)       (N,), (N, D)

The precision is sampled, not the covariance, so that modes are taken in its coordinates (errata E17, E20). With
``covariance=unit weights=uniform`` and unit ``strength`` it is document 002's simplified model: mean_k ~ Normal(0, I),
z_n uniform, x_n ~ Normal(mean_{z_n}, I).
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.base import Algebra, Data, Hyper, Model, Permutation, Sites, Stats, ZooError, on_host
from models.data import as_data, missing_cell
from models.emissions import Emission, check_hyper
from models.families import dirichlet
from models.gaussians import GAUSSIANS
from models.latents import categorical


class Rows(NamedTuple):
    """What program and algebra read: x (N, D), and a weight a row (N,) or None."""

    x: Array
    weight: Array | None = None


def build(
    data: Any,
    num_components: int = 2,
    covariance: str = "full",
    weights: str = "learned",
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    name: str = "gmm",
) -> Model:
    """A Gaussian mixture with ``num_components`` components on the columns of ``data``.

    ``covariance`` is full, tied, diag, spherical or unit; ``weights`` is learned or uniform. ``prior`` is "default"
    (weak, from the columns), "flat" (maximum likelihood) or numbers by block, over the defaults:
    ``{"mixture_probs": {"concentration": 2}, "component": {"location", "strength", "dof", "scatter"}}``.
    Raises `ZooError` for missing cells, constant columns, fewer rows than components, or a prior outside its support.
    """
    data = as_data(data)
    if not isinstance(covariance, str) or covariance not in GAUSSIANS:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(GAUSSIANS)}")
    if not isinstance(weights, str) or weights not in ("learned", "uniform"):
        raise ZooError(f"weights={weights!r} is not one of learned, uniform")
    if isinstance(num_components, bool) or not isinstance(num_components, int | np.integer) or num_components < 1:
        raise ZooError(f"num_components must be a whole number above 0, got {num_components!r}")
    num_components = int(num_components)
    _check(data, num_components, GAUSSIANS[covariance])
    hyper = _hyper(data, num_components, covariance, weights, prior)
    algebra, spec = _algebra(covariance, weights, prior != "flat", num_components)
    return Model(
        name=name,
        spec=spec,
        algebra=algebra,
        hyper=hyper,
        prior=_prior(hyper, num_components, algebra, GAUSSIANS[covariance]),
        rows=partial(_rows, columns=data.columns),
        functionals=functionals,
        witnesses=witnesses,
        symmetry=Permutation("component") if num_components > 1 else None,
        simulate=partial(simulate, covariance, weights),
        dims=dict(GAUSSIANS[covariance].dims) | _DIMS,
        coords=_coords(data, num_components),
        options={"num_components": num_components, "covariance": covariance, "weights": weights, "prior": prior},
    )


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(
    covariance: str, weights: str, proper: bool, num_components: int, hyper: Hyper, rows: Rows, *, marginal: bool = True
) -> None:
    """The spec: the generative program at the top of this file, with z summed out when ``marginal``."""
    probs = _sample_probs(weights, proper, num_components, hyper)
    components = GAUSSIANS[covariance].program(hyper, num_components, proper)
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", rows.x.shape[0]), numpyro.handlers.scale(scale=scale):
        if marginal:
            mixing = dist.Categorical(probs)
        else:
            component = numpyro.sample("component", dist.Categorical(probs), infer={"enumerate": "parallel"})
            mixing = dist.Categorical(jax.nn.one_hot(component, num_components))  # all mass on component z_n
        numpyro.sample("x", dist.MixtureSameFamily(mixing, components), obs=rows.x)


def _sample_probs(weights: str, proper: bool, num_components: int, hyper: Hyper) -> Array:
    if weights == "uniform":
        return jnp.full(num_components, 1 / num_components)
    flat = dist.ImproperUniform(dist.constraints.simplex, (), (num_components,))
    return numpyro.sample("mixture_probs", dist.Dirichlet(hyper["concentration"]) if proper else flat)


# ---------------------------------------------------------------------------------------------------------------------
# Prior


def _hyper(data: Data, num_components: int, covariance: str, weights: str, prior: Any) -> dict[str, np.ndarray]:
    """The prior in textbook terms, as numbers; for a flat prior the origin of the statistics alone."""
    emission, dimension = GAUSSIANS[covariance], data.x.shape[1]
    origin = {"origin": data.x.mean(axis=0)}
    if prior == "flat":
        return origin
    blocks = {"component": emission.parameters} | ({"mixture_probs": ("concentration",)} if weights == "learned" else {})
    hyper = {"concentration": 2.0} | emission.defaults(data.x, num_components) | _named(prior, blocks)
    shapes = emission.shapes(dimension)
    if weights == "learned":
        shapes["concentration"] = (num_components,)
    checked = check_hyper(hyper, shapes)
    if covariance in {"full", "tied"} and checked["dof"] <= dimension - 1:
        raise ZooError(f"prior dof must be above {dimension - 1} (columns − 1), got {checked['dof']:g}")
    return checked | origin


def _named(prior: Any, blocks: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The user's numbers, flattened; unknown blocks and names are errors."""
    if prior == "default":
        return {}
    if not isinstance(prior, Mapping):
        raise ZooError(f"prior={prior!r}: expected default, flat, or numbers by block ({', '.join(blocks)})")
    numbers: dict[str, Any] = {}
    for block, named in prior.items():
        if block not in blocks or not isinstance(named, Mapping):
            raise ZooError(f"prior block {block!r}: the blocks are {', '.join(blocks)}, each with numbers by name")
        unknown = set(named) - set(blocks[block])
        if unknown:
            raise ZooError(f"prior {block}.{min(unknown)}: the names in this block are {', '.join(blocks[block])}")
        numbers |= named
    return numbers


def _prior(hyper: Hyper, num_components: int, algebra: Algebra, emission: Emission) -> dict[str, Stats]:
    """The prior as pseudo-statistics: Dirichlet nu = concentration − 1, the Gaussian block about the origin; flat: nu = 0."""
    if algebra.proper:
        learned = {"mixture_probs": hyper["concentration"] - 1} if "concentration" in hyper else {}
        return learned | {"component": emission.prior(hyper, num_components)}
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct((1, len(hyper["origin"])), np.float64)
        z = jax.ShapeDtypeStruct((1, num_components), np.float64)
        shapes = jax.eval_shape(lambda x, z: algebra.statistics(z[:, 0], z, algebra.features(hyper, Rows(x))), x, z)
    return dict(jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes))


# ---------------------------------------------------------------------------------------------------------------------
# Algebra: one E-step and one M-step, for every method


@cache
def _algebra(covariance: str, weights: str, proper: bool, num_components: int) -> tuple[Algebra, Any]:
    """The static half of the model, one object for equal arguments, so that jitted code recognises it."""
    emission = GAUSSIANS[covariance]
    learned = (("mixture_probs", dirichlet),) if weights == "learned" else ()
    algebra = Algebra(
        families=(*learned, ("component", emission.family)),
        latent=categorical,
        proper=proper,
        features=lambda hyper, rows: emission.features(hyper, rows.x),
        local=partial(local, emission),
        statistics=partial(statistics, emission, weights),
        sites=partial(sites, emission),
        natural=partial(natural, emission, weights),
        coordinates=coordinates,
        num_groups=num_components,
    )
    return algebra, partial(program, covariance, weights, proper, num_components)


def local(emission: Emission, T: Stats) -> Callable[[Any], Array]:
    """E-step: log π_k + log Normal(x_n | mean_k, precision_k⁻¹), (N, K); their softmax are the responsibilities r_nk."""
    log_density = emission.log_density(T["component"])
    if "mixture_probs" in T:
        return lambda features: log_density(features) + T["mixture_probs"][None, :]

    def uniform(features: Any) -> Array:
        density = log_density(features)
        return density - np.log(density.shape[1])

    return uniform


def statistics(emission: Emission, weights: str, weight: Array, z: Array, features: Any) -> dict[str, Stats]:
    """Σ_n r_nk (1, u(x_n)). With the families' ``mode`` this is the M-step: π_k ∝ concentration_k − 1 + Σ_n r_nk, ..."""
    weighted = weight[:, None] * z
    stats: dict[str, Stats] = {"component": emission.statistics(weighted, features)}
    return stats | ({"mixture_probs": weighted.sum(0)} if weights == "learned" else {})


def sites(emission: Emission, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T of a point -> mixture_probs, mean, precision."""
    probs = {"mixture_probs": jnp.exp(T["mixture_probs"])} if "mixture_probs" in T else {}
    return probs | emission.sites(hyper, T["component"])


def natural(emission: Emission, weights: str, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """mixture_probs, mean, precision -> T."""
    probs = {"mixture_probs": jnp.log(jnp.asarray(sites["mixture_probs"]))} if weights == "learned" else {}
    return probs | {"component": emission.natural(hyper, sites)}


def coordinates(hyper: Hyper, rows: Rows) -> Array:
    """Columns about the origin; a start standardises them."""
    return rows.x - jnp.asarray(hyper["origin"], rows.x.dtype)[None, :]


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, data, simulation


def functionals(sites: Sites, latents: Array) -> dict[str, Array]:
    """Sorted weights, and for neighbouring witnesses P(z_i = z_j) = Σ_k r_ik r_jk: unchanged when labels are permuted."""
    sorted_probs = {"sorted_probs": -jnp.sort(-sites["mixture_probs"])} if "mixture_probs" in sites else {}
    return sorted_probs | {"co_clustering": (latents[:-1] * latents[1:]).sum(-1)}


def witnesses(num_rows: int) -> np.ndarray:
    """Up to five rows, evenly spread from the first to the last."""
    return np.unique(np.linspace(0, num_rows - 1, 5).round().astype(int))


def simulate(covariance: str, weights: str, key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Rows drawn from the mixture at ``sites``."""
    key_component, key_x = jax.random.split(key)
    num_components, dimension = sites["mean"].shape
    probs = sites["mixture_probs"] if weights == "learned" else jnp.full(num_components, 1 / num_components)
    component = jax.random.categorical(key_component, jnp.log(probs), shape=(num_rows,))
    noise = jax.random.normal(key_x, (num_rows, dimension), sites["mean"].dtype)
    precision = sites.get("precision", jnp.ones(()))
    if covariance in {"full", "tied"}:
        roots = jnp.broadcast_to(jnp.linalg.cholesky(precision), (num_components, dimension, dimension))
        transposed = jnp.swapaxes(roots[component], -1, -2)
        offset = jax.scipy.linalg.solve_triangular(transposed, noise[..., None], lower=False)[..., 0]
    else:
        scale = 1 / jnp.sqrt(precision)
        scale = jnp.broadcast_to(scale[:, None] if scale.ndim == 1 else scale, (num_components, dimension))
        offset = scale[component] * noise
    return Rows(sites["mean"][component] + offset)


_DIMS = {
    "mixture_probs": ("component",),
    "sorted_probs": ("rank",),
    "co_clustering": ("pair",),
    "concentration": ("component",),
    "location": ("column",),
    "origin": ("column",),
    "responsibilities": ("row", "component"),
    "x": ("row", "column"),
}


def _coords(data: Data, num_components: int) -> dict[str, list[Any]]:
    rows = witnesses(data.num_rows)
    return {
        "component": list(range(num_components)),
        "rank": list(range(1, num_components + 1)),
        "column": list(data.columns),
        "column_": list(data.columns),
        "pair": [f"rows {i + 1}, {j + 1}" for i, j in pairwise(rows)],
    }


def _rows(source: Any, columns: tuple[str, ...]) -> Rows:
    data = as_data(source)
    if data.columns != columns:
        raise ZooError(f"{data.name} has the columns {', '.join(data.columns)}; the model has {', '.join(columns)}")
    if (hole := missing_cell(data)) is not None:
        raise ZooError(f"{hole}. gmm needs complete rows: fill the cell in or remove the row")
    return Rows(on_host(data.x), None if data.weight is None else on_host(data.weight))


def _check(data: Data, num_components: int, emission: Emission) -> None:
    _rows(data, data.columns)
    if data.num_rows < num_components:
        raise ZooError(f"{data.name} has {data.num_rows} rows, fewer than num_components={num_components}")
    constant = [name for name, spread in zip(data.columns, np.ptp(data.x, axis=0), strict=True) if spread == 0]
    if constant and "dof" in emission.parameters:
        raise ZooError(
            f"{data.name}: {_listed(constant)} the same value in every row, so a Gaussian has no finite density there; "
            "leave it out with data.drop_constant=true"
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"column {shown} has" if len(names) == 1 else f"columns {shown} have"
