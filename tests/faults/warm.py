"""Commands in processes that begin with all libraries loaded: most of what a few tests cost is loading JAX and its company."""

import os
import runpy
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

# None of models, inference or tests: these are those of a copy.
LIBRARIES = ["pytest", "jax", "jax.numpy", "numpyro", "arviz_base", "arviz_stats", "pandas", "xarray", "scipy.stats", "sklearn"]
_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(LIBRARIES)


def run_module(arguments: Sequence[str], seconds: float, tree: Path, variables: dict[str, str]) -> tuple[int | None, str]:
    """(exit code, or None when time was up; what it printed) of `python -m <arguments>` in a copy of the tree."""
    with TemporaryDirectory() as own:
        printed = Path(own) / "printed"
        process = _SERVER.Process(target=_begin, args=(list(arguments), str(tree), variables, str(printed)))
        process.start()
        process.join(seconds)
        late = process.is_alive()
        if late:
            _end(process.pid)
        process.join()
        text = printed.read_text(encoding="utf-8", errors="replace") if printed.exists() else ""
        return (None if late else process.exitcode), text


def _end(number: int | None) -> None:
    """Kill a process and those that it has started."""
    assert number is not None
    for _ in range(20):
        try:
            os.killpg(number, signal.SIGKILL)
            return
        except ProcessLookupError:  # it has not become the first of its group yet
            time.sleep(0.1)


def _begin(arguments: list[str], tree: str, variables: dict[str, str], printed: str) -> None:
    os.setsid()
    file = os.open(printed, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(variables)
    sys.dont_write_bytecode = False  # pytest keeps the tests that it has rewritten
    os.chdir(tree)
    elsewhere = str(Path(__file__).parents[2])
    sys.path[:] = [tree, *(path for path in sys.path if path not in ("", elsewhere))]
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "models", "inference", "labs")]:
        del sys.modules[name]
    sys.argv = arguments
    code: object = 0
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as done:
        code = done.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
