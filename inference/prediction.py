"""What a fitted model says of rows, old or new: log-likelihood, component probabilities, log density."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.assembly import latent_dim
from inference.evaluate import Static, in_groups, point, static_of, together
from inference.fitting import as_arrays, checked_start, require_model, x64
from inference.relabel import doubts_labels
from inference.sweep import BLOCK, block_map
from models.base import Algebra, Expected, Hyper, Model, Pytree, Sites, Stats, ZooError, reports_probabilities, row_name
from models.data import Data, has_missing_cell, require_rows
from models.padding import padded

OF_SEQUENCES = ("sequence_accuracy", "path_accuracy", "path_sequence_accuracy")
ROWLESS = "there is nothing to say of them one by one; new rows, about the same mean, can be given"


def log_likelihood(model: Model, sites: Sites, data: Any, precision: int = 64) -> np.ndarray:
    """Log p(x_n | θ) of every row, latents summed out: (N,). ``sites`` is a dict of the program's sites."""
    require_model(model)
    require_rows(data, ROWLESS)
    with x64(precision):
        hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), padded(model.rows(data))))
        at = checked_start(model, hyper, rows, sites)
        return np.asarray(_log_likelihood(static_of(model), hyper, prior, rows, at))


@partial(jax.jit, static_argnames=("static",))
def _log_likelihood(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, sites: Sites) -> Array:
    return point(static, hyper, prior, rows, sites)["log_likelihood"]


def predict(
    model: Model, source: xr.DataTree | Sites, data: Any, precision: int = 64, seed: int = 0, num_draws: int = 200
) -> xr.Dataset:
    """Predict the rows of ``data``, averaged over the draws of a result, or at a dict of sites.

    Returns ``probs`` (row, component) = p(z = k | x), ``assignment`` (row), the most probable component, and ``log_density``
    (row) = log p(x). Averaging is over the posterior: p(z = k | x) = Σ_s p(x, z = k | θ_s) / Σ_s p(x | θ_s). A model of
    factors has ``scores`` and ``scores_sd`` (row, factor) and the ``reconstruction`` (row, column) from them in their place,
    one of sequences what `inference.decoding.states` says of every step, over plain draws if the result is of these sequences.
    Where rows have parameters of their own, as topic proportions, these take the place of ``probs``: posterior means, ``_sd``,
    ``_eti89_lb`` and ``_eti89_ub``, in ``num_draws`` draws by ``seed``, drawn anew by Gibbs sampling given those of the result
    unless its rows are these; their log density, with these parameters integrated out, is an estimate.
    Where cells are missing also what `inference.imputation.impute` says of them, in ``num_draws`` draws by ``seed``; 0, which
    rows with parameters of their own do not take, is for none. Where labels, or factors, are not told apart in the draws,
    ``attrs["warnings"]`` says so. The labels of ``data`` are not looked at. Raises `ZooError` for data with other columns than
    the model's, or a program that hides its latents.
    """
    found = without_cells(model, source, data, precision, seed, num_draws)
    if num_draws == 0 or model.table is None or not has_missing_cell(model.read(data)):
        return found
    from inference.imputation import impute

    return found.merge(impute(model, source, forget_labels(model, data), num_draws, seed, precision))


def without_cells(
    model: Model, source: xr.DataTree | Sites, data: Any, precision: int = 64, seed: int = 0, num_draws: int = 200
) -> xr.Dataset:
    """`predict` without a word on missing cells."""
    require_model(model)
    if model.algebra is not None and model.algebra.private:
        from inference.own_rows import rows_of_their_own

        found = rows_of_their_own(model, source, data, precision, seed, num_draws)
    else:
        found = _predictor(model)(model, source, data, precision)
    said = str(source.attrs.get("warnings", "")).split("\n") if isinstance(source, xr.DataTree) else []
    doubts = [line for line in said if doubts_labels(line)]  # what is said of single components, or factors, is not to be read
    if model.algebra is not None and model.algebra.private:
        from inference.topic_agreement import disagreement

        doubts += filter(None, [disagreement(source)])
    return found.assign_attrs(warnings="\n".join(doubts)) if doubts else found


def _predictor(model: Model) -> Callable[..., xr.Dataset]:
    """What is said of a row by the kind of its latents: one of several values, states one after another, or numbers."""
    from inference.decoding import is_sequential, states

    if is_sequential(model):
        return states
    return probabilities if reports_probabilities(model) else scores


def scores(model: Model, source: xr.DataTree | Sites, data: Any, precision: int = 64) -> xr.Dataset:
    """Mean and standard deviation of the scores of every row, its log density, and what the scores make of its columns."""
    require_model(model)
    assert model.algebra is not None
    assert model.table is not None
    require_rows(data, ROWLESS)
    with x64(precision):
        hyper, rows, draws = as_arrays((dict(model.hyper), model.rows(forget_labels(model, data)), draws_of(source)))
        found = _score_average(model.algebra, model.table.expected, hyper, rows, draws)
    log_density, mean, square, reconstruction = (np.asarray(leaf, dtype=np.float64) for leaf in found)
    dim = latent_dim(model)
    variables = {
        model.reports: (("row", dim), mean),
        f"{model.reports}_sd": (("row", dim), np.sqrt(np.maximum(square - mean**2, 0.0))),
        "log_density": (("row",), log_density),
        "reconstruction": (("row", "column"), reconstruction),
    }
    coords = {"row": np.arange(len(mean)), dim: model.coords[dim], "column": list(model.table.cells.columns)}
    return xr.Dataset(variables, coords=coords)


@partial(jax.jit, static_argnames=("algebra", "expected"))
def _score_average(
    algebra: Algebra, expected: Callable[..., tuple[Expected, ...]], hyper: Hyper, rows: Pytree, draws: Sites
) -> tuple[Array, Array, Array, Array]:
    """Log mean density, first and second moments of the scores, and expected columns: over draws, weighed by the density."""

    def at(sites: Sites) -> tuple[Array, ...]:
        natural_parameters = algebra.local(algebra.natural(hyper, sites))

        def block(rows: Pytree) -> tuple[Array, ...]:
            local = natural_parameters(algebra.features(hyper, rows))
            z = algebra.latent.mean(jax.random.PRNGKey(0), local)
            assert algebra.latent.spread is not None
            mean = algebra.latent.report(z)
            columns = jnp.stack([column.mean for column in expected(hyper, sites, rows)], axis=1)
            return algebra.latent.log_partition(local), mean, algebra.latent.spread(z) + mean**2, columns

        return block_map(block, rows)

    def one(sums: tuple[Array, ...], sites: Sites) -> tuple[tuple[Array, ...], None]:
        log_density, *now = at(sites)
        total = jnp.logaddexp(sums[0], log_density)
        share = jnp.exp(log_density - total)[:, None]
        return (total, *(old + share * (new - old) for old, new in zip(sums[1:], now, strict=True))), None

    shapes = jax.eval_shape(lambda: at(jax.tree.map(lambda leaf: leaf[0], draws)))
    log_density, *rest = (jnp.zeros(shape.shape, shape.dtype) for shape in shapes)
    found, _ = jax.lax.scan(one, (log_density - jnp.inf, *rest), draws)
    return found[0] - jnp.log(jax.tree.leaves(draws)[0].shape[0]), found[1], found[2], found[3]


def probabilities(model: Model, source: xr.DataTree | Sites, data: Any, precision: int = 64) -> xr.Dataset:
    """`predict` of a model whose latents take values, without a word on missing cells."""
    require_model(model)
    draws = draws_of(source)
    if model.algebra is not None and model.algebra.private:
        raise ZooError(f"{model.name}: a {row_name(model)} has {model.algebra.private[0]} of its own and is of no one class")
    if model.algebra is not None:
        data = forget_labels(model, data)
    with x64(precision):
        hyper, prior, rows, stacked = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data), draws))
        log_joint = np.asarray(_log_average(static_of(model), hyper, prior, rows, stacked), dtype=np.float64)
    return as_predictions(model, log_joint)


def forget_labels(model: Model, data: Any) -> Data:
    """New rows without their labels, which are what is to be predicted."""
    return model.read(data)._replace(labels=None, label=None, levels=(), candidates=None)


def as_predictions(model: Model, log_joint: np.ndarray) -> xr.Dataset:
    """Log p(x_n, z = k), (N, K), as class probabilities, decisions and log densities; raises `ZooError` for a density of 0."""
    largest = log_joint.max(axis=1)
    if not np.isfinite(largest).all():
        raise ZooError(
            f"row {np.flatnonzero(~np.isfinite(largest))[0] + 1} has density 0 in every class: it is against a probability "
            "of 0 or 1 (as of a word never seen, under prior=flat: a prior with concentration above 1 has none), or far out"
        )
    probs = np.exp(log_joint - largest[:, None])
    total = probs.sum(axis=1)
    probs /= total[:, None]
    dim = latent_dim(model)
    variables = {
        "probs": (("row", dim), probs),
        "assignment": (("row",), probs.argmax(1)),
        "log_density": (("row",), largest + np.log(total)),
    }
    return xr.Dataset(variables, coords={"row": np.arange(len(probs)), dim: model.coords.get(dim, np.arange(probs.shape[1]))})


def score(model: Model, source: xr.DataTree | Sites, data: Any, num_bins: int = 10) -> xr.Dataset:
    """How well the labels of ``data`` are predicted, without a look at them; rows count by weight, without a label not at all.

    Returns ``accuracy``; ``log_loss``, the mean of −log p(label | x), and its standard error ``log_loss_se``;
    ``calibration_error``, the mean gap between confidence and accuracy, and the curve behind it: ``confidence``,
    ``hit_rate`` and ``count`` by ``bin`` of equal widths of the largest probability of a row (Guo et al. 2017);
    ``num_rows``, how many were scored; and of each such ``row`` its ``loss`` −log p(label | x), and whether it was a ``hit``.
    Of sequences with labelled states rows are steps, ``log_loss_se`` takes sequences for independent, not steps, and there are
    also `OF_SEQUENCES` (`inference.tagging.of_wholes`). Raises `ZooError` for data without labels, or with a class that the
    model lacks.
    """
    require_model(model)
    if isinstance(num_bins, bool) or not isinstance(num_bins, int) or num_bins < 1:
        raise ZooError(f"num_bins must be a whole number above 0, got {num_bins!r}")
    table = model.read(data)
    classes = [str(name) for name in model.coords.get(latent_dim(model), [])]
    if not reports_probabilities(model):
        raise ZooError(f"{model.name} has scores, not classes: nothing it says of a row is a label")
    if table.labels is None or not (table.labels >= 0).any():
        raise ZooError(f"{table.name} has no labels to score against: name the column with label=")
    if model.symmetry is not None:
        raise ZooError(f"the classes of this {model.name} are exchangeable: nothing says which one a label means")
    unknown = [level for level in table.levels if level not in classes]
    if unknown:
        raise ZooError(f"{table.name} has the label {unknown[0]!r}; the model knows {', '.join(classes)}")
    labelled = np.flatnonzero(table.labels >= 0)
    truth = np.array([classes.index(level) for level in table.levels])[table.labels[labelled]]
    weight = np.ones(len(truth)) if table.weight is None else table.weight[labelled]
    probs, wholes, sequence = _of_labelled(model, source, table, labelled, truth, weight)
    confidence, hit = probs.max(1), probs.argmax(1) == truth
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    count = np.bincount(bins, weights=weight, minlength=num_bins)
    with np.errstate(divide="ignore", invalid="ignore"):  # a probability of 0 costs ∞; an empty bin has no mean
        losses = -np.log(probs[np.arange(len(truth)), truth])
        means, rates = (np.bincount(bins, weights=weight * value, minlength=num_bins) / count for value in (confidence, hit))
    log_loss, error = mean_and_error(losses, weight, sequence)
    return xr.Dataset(
        wholes
        | {
            "accuracy": np.average(hit, weights=weight),
            "log_loss": log_loss,
            "log_loss_se": error,
            "calibration_error": np.nansum(count * np.abs(means - rates)) / weight.sum(),
            "num_rows": len(truth),
            "confidence": (("bin",), means),
            "hit_rate": (("bin",), rates),
            "count": (("bin",), count),
            "loss": (("row",), losses),
            "hit": (("row",), hit),
        },
        coords={"bin": np.arange(num_bins) / num_bins, "row": labelled},
    )


def _of_labelled(
    model: Model, source: xr.DataTree | Sites, table: Data, labelled: np.ndarray, truth: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, dict[str, Any], np.ndarray | None]:
    """Of labelled rows: (probabilities (M, C); of steps also figures of whole sequences; and which one each belongs to)."""
    from inference.decoding import is_sequential
    from inference.tagging import of_wholes, tagged

    if not is_sequential(model):
        return probabilities(model, source, table)["probs"].values[labelled], {}, None
    found = tagged(model, source, table)
    probs, sequence = found.probs[labelled], found.sequence[labelled]
    return probs, of_wholes(probs.argmax(1) == truth, found.path[labelled] == truth, sequence, weight), sequence


def mean_and_error(values: np.ndarray, weight: np.ndarray, group: np.ndarray | None = None) -> tuple[float, float]:
    """The weighted mean of rows (N,), and its standard error; (∞, NaN) where a value is infinite.

    Rows are independent, or only those of different groups (N,) are, as steps are of different sequences: of a single group
    nothing is known of the error.
    """
    values, group, weight = values[weight > 0], None if group is None else group[weight > 0], weight[weight > 0]
    with np.errstate(invalid="ignore"):
        mean = np.average(values, weights=weight)
        away = weight * (values - mean)
        if group is not None:
            away = np.bincount(np.unique(group, return_inverse=True)[1], weights=away)
            if len(away) == 1:
                return float(mean), np.nan
        return float(mean), float(np.sqrt((away**2).sum()) / weight.sum())


@partial(jax.jit, static_argnames=("static",))
def _log_average(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Sites) -> Array:
    """Log of the average over draws of p(x_n, z_n = k | θ): (N, K)."""
    group = together(static, draws, rows)

    def at(sites: Sites) -> Array:
        found = point(static, hyper, prior, rows, sites, block_size=BLOCK // group)
        if found["latents"] is None:
            raise ZooError("this program hides its latents, so there are no component probabilities; use log_likelihood")
        density = found["log_likelihood"][:, None]
        return jnp.where(density == -jnp.inf, -jnp.inf, density + jnp.log(found["latents"]))

    size = jax.tree.leaves(draws)[0].shape[0]
    shape = jax.eval_shape(lambda: at(jax.tree.map(lambda leaf: leaf[0], draws)))
    empty = jnp.full(shape.shape, -jnp.inf, shape.dtype)

    def accumulate(total: Array, sites: Sites) -> tuple[Array, None]:
        return jnp.logaddexp(total, jax.nn.logsumexp(jax.vmap(at)(sites), axis=0)), None

    total, _ = jax.lax.scan(accumulate, empty, in_groups(draws, group))
    return total - jnp.log(size)


def draws_of(source: xr.DataTree | Sites) -> dict[str, np.ndarray]:
    """The sites of a result, or given ones, with one leading axis of draws."""
    if not isinstance(source, xr.DataTree):
        return {name: np.asarray(value)[None] for name, value in source.items()}
    if "posterior" in source:
        posterior = source["posterior"].to_dataset()
        values = {str(name): np.asarray(value) for name, value in posterior.data_vars.items()}
        return {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
    return {str(name): np.asarray(value)[None] for name, value in source["point_estimate"].to_dataset().data_vars.items()}
