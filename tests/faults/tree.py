"""A copy of the tree to plant faults in: the checkout itself is never edited."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .fault import Fault, planted

ROOT = Path(__file__).parents[2]
# Numba keeps compiled functions by their own file, and does not see a change in another
NUMBA = ("models/topics/sampling/", "models/host/simd.py", "models/emissions/gaussians/loops.py", "models/chains/compiled/")


def copied(target: Path) -> Path:
    """Copy all files of the project that git knows of or would add; returns ``target``."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    # Hashes instead of times of change: two changes within a second would look like none.
    compiling = [
        sys.executable,
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "checked-hash",
        "models",
        "inference",
        "labs",
        "tests",
    ]
    subprocess.run(compiling, cwd=target, check=True)
    return target


@contextmanager
def with_fault(tree: Path, fault: Fault) -> Iterator[None]:
    """Plant a fault in a copy, and take it out again."""
    file = tree / fault.file
    source = file.read_text(encoding="utf-8")
    file.write_text(planted(fault, source), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(source, encoding="utf-8")


@contextmanager
def without_fault(tree: Path, fault: Fault) -> Iterator[None]:
    """Take a planted fault out for a while."""
    file = tree / fault.file
    faulty = file.read_text(encoding="utf-8")
    file.write_text((ROOT / fault.file).read_text(encoding="utf-8"), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(faulty, encoding="utf-8")


def environment(tree: Path, cache: Path) -> dict[str, str]:
    """That of a command in a copy: its modules come first, and what JAX compiles is shared by all faults."""
    shared = {
        "PYTHONPATH": str(tree),
        "JAX_COMPILATION_CACHE_DIR": str(cache / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # as tests/conftest.py has it
    }
    return {**os.environ, **shared}
