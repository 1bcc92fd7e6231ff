"""Logistic regression of C classes on D real columns, N rows (document 003):

    weight_c    ~ Normal(0, diag(weight_scale)²)        c = 1 … C − 1, against the first class          (C − 1, D)
    intercept_c ~ Normal(0, intercept_scale²)                                                           (C − 1,)
    η_nc = intercept_c + weight_cᵀ (x_n − origin),    η_n0 = 0                                          (N, C)
    y_n ~ Categorical(softmax(η_n))                                                                     (N,)

``origin`` is the column means, so that an intercept is the log-odds of an average row: samplers then meet hardly correlated
coefficients, and an offset of the columns costs no digits. The columns x are given, not modelled: a row without a label has
likelihood 1, and one whose label is in a set A has Σ_{c ∈ A} softmax_c.

The posterior is log-concave where labels are values, so that all starts end at one mode. Its latents are Pólya-Gamma scales
(`models.polya_gamma`). Given ω the coefficients of one class against the others are Normal: with κ = p(y = c) − ½, and
``offset`` the log-sum-exp of the other classes,

    E-step: ω_n = tanh(ψ_n / 2) / 2ψ_n,  ψ_n = η_nc − offset_n         M-step: J m = h,  J = prior + Σ ω x xᵀ,
                                                                               h = Σ (κ + ω offset) x

For two classes offset = 0 and this is all. For more it is done class by class (Holmes and Held 2006): ``Algebra.cycle``.
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

from models.base import Algebra, Data, Discriminant, Hyper, Linear, Model, Sites, Stats, ZooError, on_host
from models.classifier import allowed_classes, classes_of, unlabelled
from models.data import as_data, require_complete
from models.gaussian_rows import centre, constant_columns, encode, flat, moments, table
from models.hyperparameters import check_hyper, given_numbers
from models.latents import restrict
from models.normal import NormalStats, covariance, normal, point
from models.polya_gamma import Augmented, LogOdds, polya_gamma
from models.rows import Rows, matched, witnesses
from models.separation import check_maximum

NAME = "logistic_regression"
WEIGHT_SCALE = 2.5  # prior standard deviation of a weight, for a column of standard deviation 1: that of rstanarm
INTERCEPT_SCALE = 5.0
PRIOR = {"weight": {"scale": "weight_scale"}, "intercept": {"scale": "intercept_scale"}}  # block -> name -> hyperparameter


def build(data: Any, weight_scale: float = WEIGHT_SCALE, prior: str | Mapping[str, Mapping[str, Any]] = "default") -> Model:
    """Classes, with their names from the label of ``data``, as softmax of linear functions of its columns.

    ``weight_scale`` is the prior standard deviation of a weight on a column of standard deviation 1, and on a column with one
    value in every row, whose weight keeps its prior. ``prior`` is "default", "flat" (maximum likelihood) or numbers:
    ``{"weight": {"scale": 0.1}, "intercept": {"scale": 2}}``, the first in the columns' own units, one number or one a column.
    Raises `ZooError` for missing cells, fewer than two classes, no label at all, a prior outside its support, or a flat prior
    on constant columns or on classes that a linear function separates.
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
        rows=partial(_rows, columns=data.columns, classes=classes),
        functionals=functionals,
        witnesses=witnesses,
        symmetry=None,
        simulate=simulate,
        dims={
            "weight": ("contrast", "column"),
            "intercept": ("contrast",),
            "weight_norm": ("contrast",),
            "weight_scale": ("column",),
            "origin": ("column",),
            "spread": ("column",),
            "responsibilities": ("row", "class"),
            "x": ("row", "column"),
        },
        coords={"contrast": list(classes[1:]), "class": list(classes), "column": list(data.columns)},
        options={"weight_scale": weight_scale, "prior": prior},
        explains="class given columns",
        discriminant=discriminant,
        warnings=_unused(constant),
    )


class Structure(NamedTuple):
    """The static half of the model: one object for equal arguments, so that jitted code recognises it."""

    algebra: Algebra
    program: Callable[..., Any]


@cache
def structure(num_classes: int, proper: bool) -> Structure:
    """Program and algebra for C classes, with a proper or a flat prior."""
    contrasts = tuple(range(1, num_classes))
    parts = tuple(_algebra(num_classes, proper, (c,)) for c in contrasts) if num_classes > 2 else ()
    algebra = _algebra(num_classes, proper, contrasts)._replace(cycle=parts)
    return Structure(algebra, partial(program, num_classes, proper))


def _algebra(num_classes: int, proper: bool, contrasts: tuple[int, ...]) -> Algebra:
    """The algebra of the coefficients of some classes, given the others."""
    return Algebra(
        families=tuple((_block(c), normal) for c in contrasts),
        latent=polya_gamma,
        proper=proper,
        features=features,
        local=partial(local, num_classes, contrasts),
        statistics=partial(statistics, contrasts),
        sites=partial(sites, num_classes),
        natural=partial(natural, num_classes),
        start=partial(start, num_classes),
    )


def _block(contrast: int) -> str:
    return f"class_{contrast}"


# ---------------------------------------------------------------------------------------------------------------------
# Program


def program(num_classes: int, proper: bool, hyper: Hyper, rows: Rows, *, marginal: bool = True) -> None:
    """The spec: the generative program at the top of this file, with labels summed over what is allowed when ``marginal``."""
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
            if rows.allowed is not None:
                seen = jnp.take_along_axis(rows.allowed, label[..., None], axis=-1)[..., 0]
                numpyro.factor("allowed", jnp.where(seen, 0.0, -jnp.inf))
        elif rows.allowed is not None:
            log_probs = jax.nn.log_softmax(eta, axis=-1)
            numpyro.factor("label", jax.nn.logsumexp(restrict(log_probs, rows.allowed), axis=-1))  # log p(y_n ∈ A_n)


def log_odds(hyper: Hyper, x: Array, weight: Array, intercept: Array) -> Array:
    """η (N, C): 0 for the first class."""
    others = centre(hyper, x) @ weight.T + intercept[None, :]
    return jnp.concatenate([jnp.zeros((x.shape[0], 1), others.dtype), others], axis=1)


# ---------------------------------------------------------------------------------------------------------------------
# Prior


def hyperparameters(data: Data, weight_scale: float, prior: Any) -> dict[str, np.ndarray]:
    """Origin and spread of the columns, and the prior's standard deviations in the columns' units; raises `ZooError`.

    A column with one value in all rows that count has spread 0, and its weight the prior of a column of spread 1.
    """
    mean, variance = moments(data)
    counted = table(data) if data.weight is None else table(data)[data.weight > 0]
    constant = constant_columns(counted)
    mean[constant], variance[constant] = counted[0, constant], 0.0  # without rounding: such a column is 0 about the origin
    constants = {"origin": mean, "spread": np.sqrt(variance)}
    if prior == "flat":
        return constants
    try:
        weight_scales = float(weight_scale) / np.where(variance > 0, constants["spread"], 1.0)
        scales: dict[str, Any] = {"weight_scale": weight_scales, "intercept_scale": INTERCEPT_SCALE}
    except (TypeError, ValueError) as error:
        raise ZooError(f"weight_scale must be a number above 0, got {weight_scale!r}") from error
    shapes = {"weight_scale": mean.shape, "intercept_scale": ()}
    return check_hyper(scales | given_numbers(prior, PRIOR), shapes, {}) | constants


def pseudo_statistics(hyper: Hyper, algebra: Algebra, proper: bool) -> dict[str, Stats]:
    """The prior as pseudo-statistics: h = 0 and J = diag(1 / scale²), in every class; flat: nu = 0."""
    size = len(hyper["origin"]) + 1
    precision = np.zeros(size)
    if proper:
        precision = np.concatenate([np.reshape(hyper["intercept_scale"], 1), hyper["weight_scale"]]) ** -2.0
    nu: Any = NormalStats(on_host(np.zeros(size)), on_host(np.diag(precision)))
    return {name: nu for name, _ in algebra.families}


# ---------------------------------------------------------------------------------------------------------------------
# Algebra


class Features(NamedTuple):
    """What a row brings."""

    x: Array  # (N, 1 + D): 1, and the columns about the origin
    allowed: Array | None  # (N, C)
    seen: Array  # (N,): whether the label rules anything out


def features(hyper: Hyper, rows: Rows) -> Features:
    """(1, x − origin), and the labels."""
    x = centre(hyper, rows.x)
    seen = jnp.zeros(x.shape[0], bool) if rows.allowed is None else ~rows.allowed.all(axis=-1)
    return Features(jnp.concatenate([jnp.ones_like(x[:, :1]), x], axis=1), rows.allowed, seen)


def local(num_classes: int, contrasts: tuple[int, ...], T: Mapping[str, NormalStats]) -> Callable[[Features], LogOdds]:
    """E-step: E[ψ] and E[ψ²] of ψ = η_c − log Σ_{j ≠ c} exp η_j, for every class c in ``contrasts``.

    A label is c with log-odds ψ, and another class with odds that ψ does not change: one contrast gives all C probabilities.
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
        return LogOdds(restrict(logits, features.allowed), square, offset, features.seen)

    return natural_parameters


def _log_sum_of_others(eta: Array, contrast: int) -> Array:
    """Log Σ_{j ≠ c} exp η_j: (N,); exactly 0 for two classes."""
    if eta.shape[1] == 2:
        return eta[:, 1 - contrast]
    return jax.nn.logsumexp(jnp.delete(eta, contrast, axis=1, assume_unique_indices=True), axis=1)


def statistics(contrasts: tuple[int, ...], weight: Array, z: Augmented, features: Features) -> dict[str, Stats]:
    """Σ_n ((κ_n + ω_n offset_n) x_n, ω_n x_n x_nᵀ), over the rows whose label says anything."""
    weight, x = jnp.where(features.seen, weight, 0), features.x
    stats: dict[str, Stats] = {}
    for b, c in enumerate(contrasts):
        pull = z.label[:, c] - 0.5 + z.omega[:, b] * z.offset[:, b]
        stats[_block(c)] = NormalStats((weight * pull) @ x, (x * (weight * z.omega[:, b])[:, None]).T @ x)
    return stats


def sites(num_classes: int, hyper: Hyper, T: Mapping[str, NormalStats]) -> dict[str, Array]:
    """T of a point -> the sites of the program."""
    coefficients = jnp.stack([T[_block(c)].linear for c in range(1, num_classes)])
    return {"weight": coefficients[:, 1:], "intercept": coefficients[:, 0]}


def natural(num_classes: int, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """The sites of the program -> T."""
    weight, intercept = jnp.asarray(sites["weight"]), jnp.asarray(sites["intercept"])
    coefficients = jnp.concatenate([intercept[:, None], weight], axis=1)
    return {_block(c): point(coefficients[c - 1]) for c in range(1, num_classes)}


# ---------------------------------------------------------------------------------------------------------------------
# Functionals, simulation


def functionals(hyper: Hyper, sites: Sites, latents: Array) -> dict[str, Array]:
    """Class by class: the length of the weights on columns of standard deviation 1, and the log-odds of an average row."""
    standard = sites["weight"] * jnp.asarray(hyper["spread"])[None, :]  # 0 for a column that does not vary
    return {"weight_norm": jnp.sqrt((standard**2).sum(axis=-1)), "intercept": sites["intercept"]}


def linear(hyper: Hyper, sites: Sites) -> Linear:
    """Log-odds against the first class, linear in x: bias_c = intercept_c − weight_cᵀ origin, and 0 for the first class."""
    weight = jnp.concatenate([jnp.zeros_like(sites["weight"][:1]), sites["weight"]])
    intercept = jnp.concatenate([jnp.zeros_like(sites["intercept"][:1]), sites["intercept"]])
    return Linear(intercept - weight @ jnp.asarray(hyper["origin"]), {"x": weight})


discriminant = Discriminant(linear, lambda rows: {"x": rows.x}, (("x", ("column",)),))


def simulate(key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Labels drawn at ``sites``. The model says nothing of x: columns are independent Normals of the data's moments."""
    key_x, key_label = jax.random.split(key)
    origin, spread = jnp.asarray(hyper["origin"]), jnp.asarray(hyper["spread"])
    x = origin[None, :] + spread[None, :] * jax.random.normal(key_x, (num_rows, len(origin)), origin.dtype)
    return Rows(x, None, draw_labels(key_label, hyper, sites, x))


def draw_labels(key: Array, hyper: Hyper, sites: Sites, x: Array) -> Array:
    """Labels given the columns, one-hot and boolean: (N, C)."""
    eta = log_odds(hyper, x, sites["weight"], sites["intercept"])
    return jax.nn.one_hot(jax.random.categorical(key, eta), eta.shape[1], dtype=bool)


def start(num_classes: int, hyper: Hyper, key: Array) -> dict[str, Stats]:
    """Nu of one start: a Normal under which log-odds have variance 2 on the rows, about a centre drawn from it.

    That is overdispersed unless data are scarce; with one mode there is no more to ask of a start.
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
            f"{data.name} has no labels, and {NAME} models nothing else: name the column with data.label=<column> (label= in "
            "Python)"
        )
    return classes_of(data)


def _unused(constant: list[str]) -> tuple[str, ...]:
    """A line that names the columns whose weights the rows say nothing of."""
    if not constant:
        return ()
    named = ", ".join(map(repr, constant[:5])) + (f" and {len(constant) - 5} more" if len(constant) > 5 else "")
    return (
        f"one value in every row of {named}: such a weight keeps its prior, and with it predictions where a new row has "
        "another value; data.drop_constant=true leaves such columns out",
    )


def _rows(source: Any, columns: tuple[str, ...], classes: tuple[str, ...]) -> Rows:
    data = matched(as_data(source), columns)
    require_complete(data, NAME)
    weight, allowed = data.weight, allowed_classes(data, classes)
    return Rows(encode(data), None if weight is None else on_host(weight), None if allowed is None else on_host(allowed))
