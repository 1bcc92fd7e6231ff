"""No retracing: a second fit of the same shapes, on new data and a new model, traces and compiles nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import build, table, two_groups

from inference import fit

SHORT = {"num_warmup": 5, "num_samples": 5, "num_chains": 2}
OPTIONS = {
    "em": {"num_starts": 2, "max_iter": 5},
    "hard_em": {"num_starts": 2, "max_iter": 5},
    "stochastic_em": {"num_starts": 2, "max_iter": 5},
    "cavi": {"num_starts": 2, "max_iter": 5, "num_samples": 5, "num_chains": 2},
    "gibbs": SHORT,
    "nuts": SHORT,
    "map": {"num_starts": 2, "max_iter": 5},
    "laplace": {"num_starts": 2, "num_samples": 5, "num_chains": 2},
}


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


@pytest.mark.parametrize("method", OPTIONS)
def test_second_fit_traces_nothing(method):
    for seed in (0, 1):
        x = two_groups(40, seed=seed)
        with counted() as events:
            tree = fit(build(x, "diag"), table(x), method=method, seed=seed, **OPTIONS[method])
    assert np.isfinite(float(tree["functionals"]["log_joint"].mean()))
    assert events == []
