"""Run a function of the benchmarks in a fresh process, with its own imports, caches, memory and devices.

``python -m benchmarks.child module:function answer.json`` reads the arguments as JSON from standard input.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without any compilation cache, with ``changes``."""
    caches = {"JAX_COMPILATION_CACHE_DIR", "PYTENSOR_FLAGS", "NUMBA_CACHE_DIR"}
    kept = {name: value for name, value in os.environ.items() if name not in caches}
    return kept | {"PYTHONPATH": str(ROOT)} | changes


def call(
    function: Callable[..., Mapping[str, Any]], arguments: Mapping[str, Any], limit: float | None = None
) -> dict[str, Any]:
    """``function(**arguments)`` in a fresh process with empty compilation caches; both sides of the call are JSON.

    Raises `subprocess.TimeoutExpired` after ``limit`` seconds, and `RuntimeError` where the function fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        caches = {"PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor", "NUMBA_CACHE_DIR": f"{folder}/numba"}
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.child", f"{function.__module__}:{function.__qualname__}", str(answer)]
        done = subprocess.run(
            command,
            input=json.dumps(dict(arguments)),
            env=environment(JAX_ENABLE_COMPILATION_CACHE="false", **caches),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        result: dict[str, Any] = json.loads(answer.read_text())
        return result


def main(target: str, answer: str) -> None:
    """Find the function, call it, write its answer."""
    module, _, name = target.partition(":")
    result = getattr(importlib.import_module(module), name)(**json.load(sys.stdin))
    Path(answer).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
