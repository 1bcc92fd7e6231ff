"""Bayesian logistic regression (document 003): C classes, D real columns, N rows.

    weight_c    ~ Normal(0, diag(weight_scale)²)        c = 1 … C − 1, against the first class          (C − 1, D)
    intercept_c ~ Normal(0, intercept_scale²)                                                           (C − 1,)
    η_nc = intercept_c + weight_cᵀ (x_n − origin),    η_n0 = 0                                          (N, C)
    y_n ~ Categorical(softmax(η_n))                                                                     (N,)

``origin`` are the column means, so that an intercept is the log-odds of an average row. This makes the coefficients nearly
uncorrelated, which helps samplers, and keeps precision if columns have a large offset. The columns x are given, not modelled: a
row without a label has likelihood 1, a row whose label is known to lie in a set A has Σ_{c ∈ A} softmax_c.

If every label is a single class the posterior is log-concave: all starts reach the same mode. The latents are Pólya-Gamma
variables ω (`models.logistic.polya_gamma`). Given ω the coefficients of one class against the others are Normal: with
κ = p(y = c) − ½, and ``offset`` the log-sum-exp of the other classes,

    E-step: ω_n = tanh(ψ_n / 2) / 2ψ_n,  ψ_n = η_nc − offset_n         M-step: J m = h,  J = prior + Σ ω x xᵀ,
                                                                               h = Σ (κ + ω offset) x

For two classes offset = 0. With more classes the update is done class by class (Holmes and Held 2006), by ``Structure.cycle``.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.abilities import Abilities, Discriminant, Linear
from models.base import (
    Algebra,
    Data,
    Hyper,
    Initial,
    Model,
    Naming,
    Reading,
    Sites,
    Stats,
    Structure,
    Summaries,
    Translation,
    ZooError,
    on_host,
)
from models.data.classes import allowed_classes, classes_of, unlabelled
from models.data.table import require_complete
from models.families.coefficients import NormalStats, covariance, normal, point
from models.latents.categorical import restrict
from models.logistic.polya_gamma import Augmented, LogOdds, polya_gamma
from models.logistic.prior import hyperparameters, pseudo_statistics
from models.logistic.separation import check_maximum, unused
from models.reading.load import as_data
from models.rows.centring import centre, encode, flat, translated
from models.rows.encoded import Rows, matched, probe_rows

NAME = "logistic_regression"
WEIGHT_SCALE = 2.5  # prior standard deviation of a weight if the column has standard deviation 1; the default of rstanarm


def build(data: Any, weight_scale: float = WEIGHT_SCALE, prior: str | Mapping[str, Mapping[str, Any]] = "default") -> Model:
    """Build a logistic regression of the label of ``data`` on its columns.

    ``weight_scale`` is the prior standard deviation of a weight on a column of standard deviation 1, or on a constant column.
    ``prior`` is "default", "flat" (maximum likelihood), or numbers: ``{"weight": {"scale": 0.1}, "intercept": {"scale": 2}}``,
    where the weight scale is in the units of the columns, one number or one per column. Raises `ZooError` for missing cells, no
    labels, fewer than two classes, a prior outside its support, or a flat prior with constant columns or separable classes.

    >>> from models import load_data
    >>> model = build(load_data([[1.0], [2.0], [3.0], [4.0]], labels=["no", "no", "yes", "yes"]))
    >>> model.naming.coords["contrast"], model.naming.dims["weight"]
    (['yes'], ('contrast', 'feature'))
    """
    data = matched(as_data(data), as_data(data).columns)
    require_complete(data, NAME)
    classes = _classes(data)
    hyper = hyperparameters(data, weight_scale, prior)
    constant = [name for name, spread in zip(data.columns, hyper["spread"], strict=True) if spread == 0]
    if prior == "flat":
        check_maximum(data, constant)
    static = structure(len(classes), prior != "flat")
    return Model(
        name=NAME,
        spec=static.program,
        algebra=static.algebra,
        hyper=hyper,
        prior=pseudo_statistics(hyper, static.algebra, prior != "flat"),
        reading=Reading(
            rows=partial(_rows, columns=data.columns, classes=classes),
            read=as_data,
            translation=Translation(lambda rows, origin: rows._replace(x=translated(rows.x, origin)), moved_sites=()),
        ),
        summaries=Summaries(
            functionals=functionals,
            probe_rows=probe_rows,
            warnings=unused(constant),
        ),
        symmetry=None,
        abilities=Abilities(
            simulate=simulate,
            discriminant=discriminant,
            replicated=lambda rows, drawn: {"label": drawn["label"]},
        ),
        naming=Naming(
            dims={
                "weight": ("contrast", "feature"),
                "intercept": ("contrast",),
                "weight_norm": ("contrast",),
                "weight_scale": ("feature",),
                "origin": ("feature",),
                "spread": ("feature",),
                "responsibilities": ("row", "class"),
                "x": ("row", "column"),
            },
            coords={"contrast": list(classes[1:]), "class": list(classes), "feature": list(data.columns)},
            density_of="class given columns",
            observes=(),
        ),
        options={"weight_scale": weight_scale, "prior": prior},
        description=__doc__,
    )


class Parts(NamedTuple):
    """The functions of the model. Cached: equal arguments give the same object, so jitted code is not compiled again."""

    algebra: Algebra
    program: Callable[..., Any]


@cache
def structure(num_classes: int, proper: bool) -> Parts:
    """Program and algebra for C classes, with a proper or a flat prior."""
    contrasts = tuple(range(1, num_classes))
    parts = tuple(_algebra(num_classes, proper, (c,)) for c in contrasts) if num_classes > 2 else ()
    algebra = _algebra(num_classes, proper, contrasts)._replace(structure=Structure(cycle=parts))
    return Parts(algebra, partial(program, num_classes, proper))


def _algebra(num_classes: int, proper: bool, contrasts: tuple[int, ...]) -> Algebra:
    """The algebra of the coefficients of the classes ``contrasts``, given those of the other classes."""
    return Algebra(
        families=tuple((_block(c), normal) for c in contrasts),
        latent=polya_gamma,
        proper=proper,
        features=features,
        local_natural_parameters=partial(local, num_classes, contrasts),
        statistics=partial(statistics, contrasts),
        sites=partial(sites, num_classes),
        natural=partial(natural, num_classes),
        initial=Initial(draw=partial(start, num_classes)),
    )


def _block(contrast: int) -> str:
    return f"class_{contrast}"


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(num_classes: int, proper: bool, hyper: Hyper, rows: Rows, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with labels summed out when ``marginal``."""
    shape = (num_classes - 1, rows.x.shape[1])
    real = dist.constraints.real
    weight_prior = dist.Normal(0.0, hyper["weight_scale"]).expand(shape).to_event(2) if proper else flat(real, shape)
    intercept_prior = (
        dist.Normal(0.0, hyper["intercept_scale"]).expand(shape[:1]).to_event(1) if proper else flat(real, shape[:1])
    )
    weight = numpyro.sample("weight", weight_prior)
    intercept = numpyro.sample("intercept", intercept_prior)
    eta = log_odds(hyper, rows.x, weight, intercept)
    scale = jnp.ones(()) if rows.weight is None else rows.weight
    with numpyro.plate("row", rows.x.shape[0]), numpyro.handlers.scale(scale=scale):
        if not marginal:
            label = numpyro.sample("label", dist.Categorical(logits=eta), infer={"enumerate": "parallel"})
            if rows.allowed_states is not None:
                seen = jnp.take_along_axis(rows.allowed_states, label[..., None], axis=-1)[..., 0]
                numpyro.factor("allowed", jnp.where(seen, 0.0, -jnp.inf))
        elif rows.allowed_states is not None:
            log_probs = jax.nn.log_softmax(eta, axis=-1)
            numpyro.factor("label", jax.nn.logsumexp(restrict(log_probs, rows.allowed_states), axis=-1))  # log p(y_n ∈ A_n)


def log_odds(hyper: Hyper, x: Array, weight: Array, intercept: Array) -> Array:
    """η (N, C): 0 for the first class."""
    others = centre(hyper, x) @ weight.T + intercept[None, :]
    return jnp.concatenate([jnp.zeros((x.shape[0], 1), others.dtype), others], axis=1)


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Features(NamedTuple):
    """The inputs of the E-step."""

    x: Array  # (N, 1 + D): 1, and the columns minus the origin
    allowed_states: Array | None  # (N, C)
    seen: Array  # (N,): whether the label excludes any class


def features(hyper: Hyper, rows: Rows) -> Features:
    """(1, x − origin), and the labels."""
    x = centre(hyper, rows.x)
    seen = jnp.zeros(x.shape[0], bool) if rows.allowed_states is None else ~rows.allowed_states.all(axis=-1)
    return Features(jnp.concatenate([jnp.ones_like(x[:, :1]), x], axis=1), rows.allowed_states, seen)


def local(num_classes: int, contrasts: tuple[int, ...], T: Mapping[str, NormalStats]) -> Callable[[Features], LogOdds]:
    """E-step: E[ψ] and E[ψ²] of ψ = η_c − log Σ_{j ≠ c} exp η_j, for every class c in ``contrasts``.

    ψ are the log-odds of class c; the odds among the other classes do not depend on ψ. One contrast gives all C probabilities.
    """
    coefficients = jnp.stack([T[_block(c)].linear for c in range(1, num_classes)], axis=1)
    spreads = [covariance(T[_block(c)]) for c in contrasts]

    def natural_parameters(features: Features) -> LogOdds:
        x = features.x
        eta = jnp.concatenate([jnp.zeros_like(x[:, :1]), x @ coefficients], axis=1)
        offset = jnp.stack([_log_sum_of_others(eta, c) for c in contrasts], axis=1)
        psi = eta[:, jnp.array(contrasts)] - offset
        square = psi**2 + jnp.stack([((x @ spread) * x).sum(axis=1) for spread in spreads], axis=1)
        half, first = psi[:, :1] / 2, contrasts[0]
        logits = jnp.where(jnp.arange(num_classes)[None, :] == first, half, eta - offset[:, :1] - half)
        return LogOdds(restrict(logits, features.allowed_states), square, offset, features.seen)

    return natural_parameters


def _log_sum_of_others(eta: Array, contrast: int) -> Array:
    """Log Σ_{j ≠ c} exp η_j: (N,); exactly 0 for two classes."""
    if eta.shape[1] == 2:
        return eta[:, 1 - contrast]
    return jax.nn.logsumexp(jnp.delete(eta, contrast, axis=1, assume_unique_indices=True), axis=1)


def statistics(contrasts: tuple[int, ...], weight: Array, z: Augmented, features: Features) -> dict[str, Stats]:
    """Σ_n ((κ_n + ω_n offset_n) x_n, ω_n x_n x_nᵀ), over the rows whose label excludes a class."""
    weight, x = jnp.where(features.seen, weight, 0), features.x
    stats: dict[str, Stats] = {}
    for b, c in enumerate(contrasts):
        pull = z.label[:, c] - 0.5 + z.omega[:, b] * z.offset[:, b]
        stats[_block(c)] = NormalStats((weight * pull) @ x, (x * (weight * z.omega[:, b])[:, None]).T @ x)
    return stats


def sites(num_classes: int, hyper: Hyper, T: Mapping[str, NormalStats]) -> dict[str, Array]:
    """T(θ) -> θ as the sites of the program."""
    coefficients = jnp.stack([T[_block(c)].linear for c in range(1, num_classes)])
    return {"weight": coefficients[:, 1:], "intercept": coefficients[:, 0]}


def natural(num_classes: int, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """θ as the sites of the program -> T(θ)."""
    weight, intercept = jnp.asarray(sites["weight"]), jnp.asarray(sites["intercept"])
    coefficients = jnp.concatenate([intercept[:, None], weight], axis=1)
    return {_block(c): point(coefficients[c - 1]) for c in range(1, num_classes)}


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, simulation


def functionals(hyper: Hyper, sites: Sites, latents: Array) -> dict[str, Array]:
    """For each class: the norm of the weights on standardised columns, and the log-odds of an average row."""
    standard = sites["weight"] * jnp.asarray(hyper["spread"])[None, :]  # 0 for a column that does not vary
    return {"weight_norm": jnp.sqrt((standard**2).sum(axis=-1)), "intercept": sites["intercept"]}


def linear(hyper: Hyper, sites: Sites) -> Linear:
    """Log-odds against the first class, linear in x: bias_c = intercept_c − weight_cᵀ origin, and 0 for the first class."""
    weight = jnp.concatenate([jnp.zeros_like(sites["weight"][:1]), sites["weight"]])
    intercept = jnp.concatenate([jnp.zeros_like(sites["intercept"][:1]), sites["intercept"]])
    return Linear(intercept - weight @ jnp.asarray(hyper["origin"]), {"x": weight})


discriminant = Discriminant(linear, lambda rows: {"x": rows.x}, (("x", ("feature",)),))


def simulate(key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Draw labels at ``sites``. The model does not describe x: columns are independent Normals with the moments of the data."""
    key_x, key_label = jax.random.split(key)
    origin, spread = jnp.asarray(hyper["origin"]), jnp.asarray(hyper["spread"])
    x = origin[None, :] + spread[None, :] * jax.random.normal(key_x, (num_rows, len(origin)), origin.dtype)
    return Rows(x, None, draw_labels(key_label, hyper, sites, x))


def draw_labels(key: Array, hyper: Hyper, sites: Sites, x: Array) -> Array:
    """Draw labels given the columns: one-hot, boolean (N, C)."""
    eta = log_odds(hyper, x, sites["weight"], sites["intercept"])
    return jax.nn.one_hot(jax.random.categorical(key, eta), eta.shape[1], dtype=bool)


def start(num_classes: int, hyper: Hyper, key: Array) -> dict[str, Stats]:
    """Random start: a Normal nu under which the log-odds of the rows have variance about 2, centred at a draw from it.

    Such starts are overdispersed unless data are scarce. The posterior has one mode, so that no better start is needed.
    """
    spread = jnp.asarray(hyper["spread"])
    units = jnp.where(spread > 0, spread, 1.0)
    precision = jnp.concatenate([jnp.ones_like(spread[:1]), len(spread) * units**2])
    noise = jax.random.normal(key, (num_classes - 1, len(precision)), spread.dtype)
    nu = {_block(c): NormalStats(jnp.sqrt(precision) * noise[c - 1], jnp.diag(precision)) for c in range(1, num_classes)}
    return dict(nu)


# ---------------------------------------------------------------------------------------------------------------------
# Data


def _classes(data: Data) -> tuple[str, ...]:
    """Names of the classes: the levels of the label."""
    if unlabelled(data):
        raise ZooError(
            f"{data.name} has no labels, which {NAME} needs: name the label column with data.label=<column> (label= in Python)"
        )
    return classes_of(data)


def _rows(source: Any, columns: tuple[str, ...], classes: tuple[str, ...]) -> Rows:
    data = matched(as_data(source), columns)
    require_complete(data, NAME)
    weight, allowed_states = data.weight, allowed_classes(data, classes)
    return Rows(
        encode(data), None if weight is None else on_host(weight), None if allowed_states is None else on_host(allowed_states)
    )
