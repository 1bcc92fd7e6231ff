"""Preparations on the host before a method runs: the precision, the arrays, the task."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from inference.engine.single_precision import in_precision, seen_from_origin
from inference.engine.sites import checked_sites
from inference.engine.sweep import num_rows
from inference.engine.task import Task
from inference.runtime.progress import Reporter
from models.base import Data, Model, Pytree, ZooError


@contextmanager
def x64(precision: int) -> Iterator[None]:
    """Double precision inside, under any setting of the process; single with ``precision=32``."""
    if isinstance(precision, bool) or not isinstance(precision, int) or precision not in (32, 64):
        raise ZooError(f"precision={precision!r} is not one of 64, 32")
    with jax.enable_x64(precision == 64):
        yield


def make_task(model: Model, data: Any, seed: int, start: Mapping[str, ArrayLike] | None, reporter: Reporter) -> Task:
    """Model, data and start on the device, in the precision in force; raises `ZooError` for moments where rows are needed.

    In single precision rows, prior and start are as they are seen from the model's origin
    (`inference.engine.single_precision`).
    """
    if isinstance(data, Data) and data.moments and model.reading.sufficient_rows is None:
        raise ZooError(f"{data.name} is a covariance and no rows: enough for models of factors, not for {model.name}")
    on_host = model.rows(data)
    _require_fitted_rows(model, on_host)
    at: Pytree = None if start is None else checked_sites(model, start, on_host, "start", boundary=False)
    numbers: Pytree = dict(model.hyper)
    if not jax.config.jax_enable_x64:
        numbers, on_host, at = seen_from_origin(model, numbers, on_host, at)
    hyper, prior, at = as_arrays((numbers, dict(model.prior), at))
    few = on_host if model.reading.sufficient_rows is None else model.reading.sufficient_rows(on_host)
    sufficient_rows, resident = as_arrays(few), few is on_host
    rows = sufficient_rows if resident else in_precision(on_host)
    task = Task(model, hyper, prior, rows, sufficient_rows, jax.random.PRNGKey(seed), at, reporter, resident=resident)
    return task._replace(moments=isinstance(data, Data) and data.moments, table=data)


def _require_fitted_rows(model: Model, rows: Pytree) -> None:
    """A `ZooError` for another number of rows than the model was built on, where rows have local parameters."""
    for name in () if model.algebra is None else model.algebra.structure.local:
        built, given = len(jax.tree.leaves(model.prior[name])[0]), num_rows(rows)
        if built != given:
            raise ZooError(
                f"{model.name} was built on {built} rows, each with separate {name}, and these are {given}: build a model on "
                "them, or predict them from a fit by inference.predict"
            )


def as_arrays(tree: Pytree) -> Pytree:
    """Host arrays on the device, each copied once: floating point in the precision in force, the rest as it is."""
    return jax.tree.map(lambda leaf: jax.device_put(_aligned_copy(leaf)), in_precision(tree))


ALIGNMENT = 64  # bytes; JAX uses an array on the host that begins at such an address without a copy


def _aligned_copy(host: np.ndarray) -> np.ndarray:
    """A copy that JAX need not copy again, as `jnp.asarray` does; the user's array may change while it is in use."""
    memory = np.empty(host.nbytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    copy = memory[begin : begin + host.nbytes].view(host.dtype).reshape(host.shape)
    np.copyto(copy, host)
    return copy


def require_model(model: Any) -> None:
    """A `ZooError` for anything but a `Model`; only `fit` takes a NumPyro function as it is."""
    if isinstance(model, Model):
        return
    message = f"model: expected a Model, not {type(model).__name__}"
    if callable(model):
        raise ZooError(f"{message}; inference.program_model(function, data, symmetry=…) makes one of a NumPyro function")
    raise ZooError(f"{message}; the model comes first, then the result, then the data")
