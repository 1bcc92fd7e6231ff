"""Start-up of the command line: what ``--help`` imports, and a default EM run relative to importing the libraries.

The run is ``python -m inference.run model=gmm method=em progress=false`` on its default data, from the shell's point of view:
interpreter, imports, compilation, fit, files. *first* has an empty compilation cache, *warm* the one that a run before left.
The yardstick is ``python -c "import jax, numpyro, arviz_base, arviz_stats"``.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from benchmarks.child import ROOT, environment
from benchmarks.measure import Target, interleave, median, print_table, seconds

REPEATS = 5
FIRST, WARM = 2.5, 1.6  # the targets
HEAVY = ("jax", "numpyro", "arviz", "arviz_base", "arviz_stats", "arviz_plots")
YARDSTICK = [sys.executable, "-c", "import jax, numpyro, arviz_base, arviz_stats"]
HELP = [sys.executable, "-X", "importtime", "-m", "inference.run", "--help"]
RUN = [sys.executable, "-m", "inference.run", "model=gmm", "method=em", "progress=false"]
FINISHED = {0, 3}  # 3: finished, but a diagnostic failed


def timed(command: list[str], **changes: str) -> float:
    """Seconds of a command from start to exit."""
    clock = time.perf_counter()
    done = subprocess.run(command, env=environment(**changes), cwd=ROOT, capture_output=True, text=True)
    took = time.perf_counter() - clock
    if done.returncode not in FINISHED:
        raise RuntimeError(f"{' '.join(command)} exited {done.returncode}:\n{done.stderr[-2000:]}")
    return took


def heavy_imports_of_help() -> list[str]:
    """The heavy packages that ``--help`` imports, from the interpreter's own record of imports."""
    done = subprocess.run(HELP, env=environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    return sorted(imported & set(HEAVY))


def measure_startup() -> list[Target]:
    """``--help``, and the default run first and warm, in turns with the yardstick."""
    heavy = heavy_imports_of_help()
    help_seconds = timed([sys.executable, "-m", "inference.run", "--help"])
    with tempfile.TemporaryDirectory() as folder:
        number = count()

        def run(cache: Path) -> float:
            return timed([*RUN, f"out={folder}/run-{next(number)}"], JAX_COMPILATION_CACHE_DIR=str(cache))

        shared = Path(folder) / "shared"
        timed(YARDSTICK)
        run(shared)
        runs: dict[str, Callable[[int], float]] = {
            "imports": lambda index: timed(YARDSTICK),
            "warm": lambda index: run(shared),
            "first": lambda index: run(Path(folder) / f"cache-{index}"),
        }
        found = interleave(runs, REPEATS)
    ratio = {name: median(found[name]) / median(found["imports"]) for name in ("first", "warm")}
    rows = [
        ("--help", f"{help_seconds:.2f}", ""),
        ("import jax, numpyro, arviz_base, arviz_stats", seconds(found["imports"]), "1.00 ×"),
        ("method=em, empty compilation cache", seconds(found["first"]), f"{ratio['first']:.2f} ×"),
        ("method=em, warm compilation cache", seconds(found["warm"]), f"{ratio['warm']:.2f} ×"),
    ]
    print_table(
        "Start-up: seconds, median (range)", ("command", "seconds", "ratio"), rows, f"--help imports: {heavy or 'none'}"
    )
    return [
        Target("--help: heavy packages imported", len(heavy), 0, at_least=False, unit="packages"),
        Target("method=em, first time", ratio["first"], FIRST, at_least=False),
        Target("method=em, warm", ratio["warm"], WARM, at_least=False),
    ]
