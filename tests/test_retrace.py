"""No retracing: a second fit of the same shapes, on new data and a new model, traces and compiles nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import naive_logistic
import numpy as np
import pytest
from naive import SHORT, build, table, two_groups

from inference import fit


@contextmanager
def counted() -> Iterator[list[str]]:
    """The functions that JAX traces or compiles inside."""
    events: list[str] = []

    def listen(event: str, duration: float, **details: object) -> None:
        if event in {"/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/backend_compile_duration"}:
            events.append(f"{event.split('/')[-1]} {details.get('fun_name', '')}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_counter_counts():
    """A new function is counted once, a second call not at all."""
    function = jax.jit(lambda x: x + 1)
    with counted() as first:
        function(jnp.ones(3)).block_until_ready()
    with counted() as second:
        function(jnp.ones(3)).block_until_ready()
    assert first
    assert second == []


@pytest.mark.parametrize("method", [method for method in SHORT if method != "exact"])
def test_second_fit_traces_nothing(method):
    for seed in (0, 1):
        x = two_groups(40, seed=seed)
        with counted() as events:
            tree = fit(build(x, "diag"), table(x), method=method, seed=seed, **SHORT[method])
    assert np.isfinite(float(tree["functionals"]["log_joint"].mean()))
    assert events == []


@pytest.mark.parametrize(("method", "size"), naive_logistic.RUNS)
def test_second_logistic_regression_traces_nothing(method, size):
    for seed in (0, 1):
        data = naive_logistic.table(size)._replace(x=naive_logistic.X + seed * np.sin(naive_logistic.X))
        with counted() as events:
            fit(naive_logistic.build(size, data), data, method=method, seed=seed, **SHORT[method])
    assert events == []
