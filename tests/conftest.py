"""Strict settings for all tests: double precision, warnings are errors (pyproject)."""

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)

MAPS = Path("/proc/self/maps")
MOST_MAPS = 30_000  # Linux allows 65,530 a process, and XLA crashes without a word when it gets no more


@pytest.fixture(autouse=True)
def bounded_memory_maps() -> Iterator[None]:
    """Every compiled program maps memory: drop them all before the limit on the number of maps is reached."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
