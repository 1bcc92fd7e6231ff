"""Log-odds of the classes as functions that are linear in features of the row: bias and weights, with their uncertainty.

For classes whose p(x | y) is an exponential family with one carrier (documents 000, 001 and 003; errata E15),

    log p(y = c | x) − log p(y = reference | x) = bias_c + Σ_f < weights[f]_c, φ_f(x) >

with φ(x) = x for binary features, counts of words and Gaussian classes of one covariance, and (x, x xᵀ) where every class has
another covariance.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.fitting.prepare import require_model, x64
from inference.results.draws import draws_of
from inference.results.table import latent_dim
from models.abilities import Discriminant, Linear
from models.base import Hyper, Model, Sites, ZooError


def discriminant(model: Model, source: xr.DataTree | Sites, reference: str | None = None) -> xr.Dataset:
    """Bias and weights of the log-odds of every class against ``reference`` (the first class by default).

    ``source`` is a result, or a dict of sites. Returns ``bias`` (class) and ``weight_<feature>`` (class, ...), with leading
    dimensions (chain, draw) where ``source`` has draws, so that ArviZ summarises them. A maximum-likelihood estimate on the
    boundary has infinite weights, and undefined ones where both classes are there: ``attrs["warnings"]`` counts them.
    Raises `ZooError` for a model without classes, or whose log-odds are not linear, and for an unknown reference.

    >>> data = load_data("iris")
    >>> model = MODELS["linear_discriminant"](data)
    >>> discriminant(model, fit(model, data, "em"), reference="setosa")["weight_x"].dims
    ('class', 'feature')
    """
    require_model(model)
    classes = [str(name) for name in model.naming.coords.get(latent_dim(model), [])]
    if model.abilities.discriminant is None:
        raise ZooError(f"{model.name} has no discriminant that is linear in features of the row")
    if model.symmetry is not None:
        raise ZooError(
            f"the {latent_dim(model)} labels of this {model.name} are exchangeable: log-odds between them mean nothing"
        )
    if reference is not None and reference not in classes:
        raise ZooError(f"reference={reference!r} is not one of the classes {', '.join(classes)}")
    base = classes.index(reference) if reference is not None else 0
    with x64(64):
        draws = {name: jnp.asarray(value, float) for name, value in draws_of(model, source).items()}
        odds = jax.tree.map(np.asarray, _contrasts(model.abilities.discriminant, dict(model.hyper), draws, jnp.asarray(base)))
    lead = _leading(source)
    dims = {"bias": ()} | {f"weight_{name}": dims for name, dims in model.abilities.discriminant.dims}
    values = {"bias": odds.bias} | {f"weight_{name}": value for name, value in odds.weights.items()}
    sizes = tuple(lead.values())
    variables = {
        name: ((*lead, latent_dim(model), *dims[name]), value.reshape(*sizes, *value.shape[1:]))
        for name, value in values.items()
    }
    named = {dim for dims, _ in variables.values() for dim in dims}
    coords = {dim: np.arange(size) for dim, size in lead.items()} | {
        d: model.naming.coords[d] for d in named if d in model.naming.coords
    }
    infinite = sum(int(np.isinf(value).sum()) for value in values.values())
    undefined = sum(int(np.isnan(value).sum()) for value in values.values())
    warning = (
        f"{infinite} numbers are infinite and {undefined} undefined: the probabilities behind them are 0 or 1. A prior with "
        "concentration above 1 has none"
    )
    attrs = {"reference": classes[base], "warnings": warning if infinite or undefined else ""}
    return xr.Dataset(variables, coords=coords, attrs=attrs)


@partial(jax.jit, static_argnames=("declared",))
def _contrasts(declared: Discriminant, hyper: Hyper, draws: Sites, base: Array) -> Linear:
    linear = jax.vmap(partial(declared.linear, hyper))(draws)

    def against(leaf: Array) -> Array:
        is_base = (jnp.arange(leaf.shape[1]) == base).reshape(1, -1, *[1] * (leaf.ndim - 2))
        return jnp.where(is_base, 0.0, leaf - jnp.take(leaf, base, axis=1)[:, None])  # 0 there, also where it is infinite

    return jax.tree.map(against, linear)


def _leading(source: xr.DataTree | Sites) -> dict[str, int]:
    if not isinstance(source, xr.DataTree) or "posterior" not in source:
        return {}
    return {dim: int(source["posterior"].sizes[dim]) for dim in ("chain", "draw")}
