"""Strict settings for all tests: double precision, warnings are errors (pyproject). Workers share what they compile."""

import atexit
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # the first process makes a folder; its workers and kernels inherit it
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="bayes-model-zoo-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
if sys.dont_write_bytecode:  # as in containers: every process would compile the source of all libraries again
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(os.environ["JAX_COMPILATION_CACHE_DIR"]) / "bytecode")
# Tests compile for longer than they run: XLA leaves out the optimisations that cost most. Notebooks are compiled as users do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a command that a script starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

import jax
import pytest

pytest_plugins = ["costs", "stages", "time_limit"]

jax.config.update("jax_enable_x64", True)

if sys.pycache_prefix and "PYTEST_XDIST_WORKER" not in os.environ:  # compiled once here, not by all workers at once
    for library in ("numpyro", "sklearn.mixture", "arviz_stats", "matplotlib.pyplot", "numba", "hydra", "inference.cli.main"):
        importlib.import_module(library)

ALLOCATIONS = 50_000  # between two looks for cyclic garbage: a trace makes millions of objects

MAPS = Path("/proc/self/maps")
MOST_MAPS = 30_000  # Linux allows 65,530 a process, and XLA crashes without a word when it gets no more


LOOK_AFTER = 100  # programs: to count the maps of a process takes as long as a short test
COMPILED = "/jax/core/compile/backend_compile_duration"
programs = 0  # that this process has loaded since it last looked


def _loaded(event: str, *_: float, **__: object) -> None:
    global programs
    programs += event == COMPILED


jax.monitoring.register_event_duration_secs_listener(_loaded)


@pytest.fixture(autouse=True)
def bounded_memory_maps() -> Iterator[None]:
    """Every compiled program maps memory: drop them all before the limit on the number of maps is reached."""
    global programs
    yield
    if programs >= LOOK_AFTER and MAPS.exists():
        programs = 0
        if MAPS.read_bytes().count(b"\n") > MOST_MAPS:
            jax.clear_caches()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Notebooks first: the longest tests must not be the last ones of one worker."""
    items.sort(key=lambda item: "notebook" not in item.nodeid)


def pytest_collection_finish() -> None:
    """What is imported stays: the collector of cyclic garbage need not walk it again, nor look as often as Python has it."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)
