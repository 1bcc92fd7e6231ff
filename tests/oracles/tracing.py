"""How often functions are traced and compiled while something runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


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
