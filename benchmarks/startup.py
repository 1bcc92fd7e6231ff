"""Start-up of the command line, as ratios to importing the libraries in the same turns.

Runs are ``python -m inference.run model=gmm method=… progress=false`` on the default data, from the shell's point of view:
interpreter, imports, tracing, compilation, fit, files. *first* has empty caches, *warm* the traces and compiled programs that
a run before left. *Printed* is the time until the result stands on the screen, before pictures. The yardstick is ``python -c
"import jax, numpyro, arviz"`` with bytecode on disk. Beside it stand the same imports without ArviZ's plots, which runs never
load.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.child import ROOT, environment
from benchmarks.measure import CONSOLE, Target, interleave, median, print_table, seconds

REPEATS = 5
HEAVY = ("jax", "numpyro", "arviz", "arviz_base", "arviz_stats", "arviz_plots")
YARDSTICK = [sys.executable, "-c", "import jax, numpyro, arviz"]
WITHOUT_PLOTS = [sys.executable, "-c", "import jax, numpyro, arviz_base, arviz_stats"]
HELP = [sys.executable, "-X", "importtime", "-m", "inference.run", "--help"]
TABLE = "size,kind\n1.5,ant\n2.5 kg,bee\n3.5,ant\n"  # refused: a unit in one cell
BOUNDS = {  # the targets, as ratios to the yardstick
    "em, warm": 1.4,
    "gibbs, warm": 2.0,
    "nuts, warm": 3.0,
    "nuts, first": 5.0,
    "--help": 0.15,
    "a refused key": 0.15,
    "a refused table": 0.4,
}
ENDS = {0, 2, 3}  # finished; refused; finished, but a diagnostic failed


class Timed(NamedTuple):
    whole: float  # seconds from start to exit
    printed: float  # seconds until the result stood on the screen


def timed(command: list[str], **changes: str) -> Timed:
    """Run a command, and note when its line of results came."""
    clock = time.perf_counter()
    with subprocess.Popen(
        command,
        env=environment(**changes, PYTHONUNBUFFERED="1"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = float("nan")
        for line in process.stdout:
            if line.startswith("functionals"):
                printed = time.perf_counter() - clock
    if process.returncode not in ENDS:
        raise RuntimeError(f"{' '.join(command)} exited {process.returncode}")
    return Timed(time.perf_counter() - clock, printed)


def heavy_imports_of_help() -> list[str]:
    """The heavy packages that ``--help`` imports, from the interpreter's own record of imports."""
    done = subprocess.run(HELP, env=environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    return sorted(imported & set(HEAVY))


def bytecode_is_there() -> bool:
    """Whether JAX's bytecode is on disk: without it imports take twice as long."""
    found = importlib.util.find_spec("jax")
    return found is not None and found.cached is not None and Path(found.cached).exists()


def _with_cache(run: Callable[..., Timed], options: tuple[str, ...], cache: str, index: int) -> Timed:
    """A run with the shared cache, or in every round with a new one."""
    return run(cache if cache == "shared" else f"{cache}-{index}", *options)


def measure_startup() -> list[Target]:
    """Every command first and warm, in turns with the yardstick."""
    heavy = heavy_imports_of_help()
    with tempfile.TemporaryDirectory() as folder:
        number, table = count(), Path(folder) / "table.csv"
        table.write_text(TABLE, encoding="utf-8")

        def run(cache: str, *options: str) -> Timed:
            command = [sys.executable, "-m", "inference.run", *options, "progress=false", f"out={folder}/run-{next(number)}"]
            return timed(command, XDG_CACHE_HOME=f"{folder}/{cache}")

        timed(YARDSTICK)
        for method in ("em", "gibbs", "nuts"):
            run("shared", "model=gmm", f"method={method}")
        runs: dict[str, Callable[[int], Timed]] = {
            "imports": lambda index: timed(YARDSTICK),
            "imports without plots": lambda index: timed(WITHOUT_PLOTS),
            "--help": lambda index: timed([sys.executable, "-m", "inference.run", "--help"]),
            "a refused key": lambda index: run("shared", "model=gmm", "nonsense=1"),
            "a refused table": lambda index: run("shared", "model=gmm", f"data={table}"),
        }
        for method in ("em", "gibbs", "nuts"):
            options = ("model=gmm", f"method={method}")
            runs[f"{method}, warm"] = partial(_with_cache, run, options, "shared")
            runs[f"{method}, first"] = partial(_with_cache, run, options, method)
        found = interleave(runs, REPEATS)
    whole = {name: [one.whole for one in each] for name, each in found.items()}
    ratio = {name: median(each) / median(whole["imports"]) for name, each in whole.items()}
    rows = [
        (
            name,
            seconds(each),
            f"{ratio[name]:.2f} ×",
            f"{median(one.printed for one in found[name]):.2f}" if "," in name else "",
        )
        for name, each in whole.items()
    ]
    note = f"--help imports: {heavy or 'none'}; bytecode is {'' if bytecode_is_there() else 'not '}on disk"
    print_table("Start-up: seconds, median (range)", ("command", "seconds", "ratio", "printed"), rows, note)
    CONSOLE.print("imports: jax, numpyro, arviz; without plots: arviz_base and arviz_stats in its place")
    targets = [Target(name, ratio[name], bound, at_least=False) for name, bound in BOUNDS.items()]
    return [Target("--help: heavy packages imported", len(heavy), 0, at_least=False, unit="packages"), *targets]
