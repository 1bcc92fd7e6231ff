"""What the first run of every model and method compiles: programs of XLA, seconds of XLA, of Numba, and of the whole command.

Runs are ``python -m inference.run model=… method=… progress=false pictures=false`` on the model's default data, each in a fresh
process without any cache. Every method makes 10 iterations and 10 draws, and `laplace` as many iterations as it needs, as it
refuses what is no mode. Programs are those of any number, but for a few of `advi`. The whole includes
tracing, the run itself and its files, and all imports but those of JAX and Numba. Methods that refuse a model's
default data are not in the sums.

``corpora`` fits topics to one corpus after another in one process, each of another size: what a new corpus compiles.
"""

import contextlib
import io
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from benchmarks import child
from benchmarks.measure import CONSOLE, Target, print_table

COMPILED = "/jax/core/compile/backend_compile_duration"
FEW = 10  # iterations, and draws of each chain
FEWER = ("num_warmup", "num_samples", "max_iter")
WHOLE = {("laplace", "max_iter")}  # it refuses a point that is no mode
LARGEST = 15  # cells that are listed
FINISHED = {0, 3}  # 3: a diagnostic failed, which compilation does not mind
CORPORA = ((300, 50), (410, 70), (523, 41), (1000, 120))  # documents, words in each
CLIMB: dict[str, Any] = {"max_iter": 20, "num_starts": 1, "num_samples": 25, "seed": 1}


class First(NamedTuple):
    """The first run of a cell."""

    programs: int
    xla: float
    numba: float
    whole: float


def first_run(model: str, method: str) -> dict[str, Any]:
    """In a fresh process: the default command of a cell, and what it compiled; ``refused`` is its message if it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        from numba.core import event as numba_event

        from inference.cli.main import run_main
        from inference.methods.method import method_named
        from models.base import ZooError

        took = _heard()
        numba: list[float] = []
        known = method_named(method).options._fields
        few = [f"{name}={FEW}" for name in FEWER if name in known and (method, name) not in WHOLE]
        options = [*few, f"model={model}", f"method={method}", "progress=false", "pictures=false", f"out={folder}/run"]
        clock = time.perf_counter()
        with numba_event.install_timer("numba:compile", numba.append), contextlib.redirect_stdout(io.StringIO()):
            try:
                code = run_main(options)
            except ZooError as error:
                return {"refused": str(error)}
        whole = time.perf_counter() - clock
    if code not in FINISHED:
        raise RuntimeError(f"{' '.join(options)} ended with {code}")
    return {"first": First(len(took), sum(took), sum(numba), whole)._asdict()}


def _heard() -> list[float]:
    """A list that takes in the seconds of every program that XLA compiles in this process from now on."""
    import jax

    took: list[float] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if event == COMPILED:
            took.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(note)
    return took


def corpora() -> dict[str, Any]:
    """In a fresh process: fits of topics by cavi to one corpus after another."""
    from inference import fit
    from models import MODELS, load_data

    took, found = _heard(), []
    for num_rows, length in CORPORA:
        data = load_data(source="bars", num_rows=num_rows, length=length, seed=num_rows)
        took.clear()
        clock = time.perf_counter()
        fit(MODELS["latent_dirichlet"](data, num_topics=10), data, "cavi", **CLIMB)
        found.append((len(took), sum(took), time.perf_counter() - clock))
    return {"fits": found}


def measure_corpora() -> list[Target]:
    """What every further corpus costs."""
    fits = child.call(corpora, {})["fits"]
    rows = [
        (f"{num_rows} × {length}", str(programs), f"{xla:.1f}", f"{whole:.1f}")
        for (num_rows, length), (programs, xla, whole) in zip(CORPORA, fits, strict=True)
    ]
    print_table("cavi of topics, one corpus after another", ("documents × words", "programs", "XLA", "whole"), rows)
    return []


def measure_compilation() -> list[Target]:
    """Every cell once, one after the other; sums by method, and the cells that take longest."""
    from inference.certificates.cell import cells

    found = {}
    for model, method in cells():
        answer = child.call(first_run, {"model": model, "method": method})
        if "refused" in answer:
            CONSOLE.print(f"not counted: {model} {method}: {answer['refused']}")
        else:
            found[model, method] = first = First(**answer["first"])
            CONSOLE.print(model, method, *_sums([first]))  # all cells take an hour or two, and may be cut off
    by_method: dict[str, list[First]] = defaultdict(list)
    for (_, method), first in found.items():
        by_method[method].append(first)
    columns = ("programs", "XLA", "Numba", "whole")
    rows = [(method, str(len(firsts)), *_sums(firsts)) for method, firsts in sorted(by_method.items())]
    rows.append(("all", str(len(found)), *_sums(found.values())))
    print_table("First runs by method: programs, and seconds", ("method", "models", *columns), rows)
    longest = sorted(found.items(), key=lambda item: -item[1].xla - item[1].numba)[:LARGEST]
    rows = [(*cell, *_sums([first])) for cell, first in longest]
    print_table("First runs that compile longest", ("model", "method", *columns), rows)
    CONSOLE.print("without caches; whole: the command but for imports of JAX and Numba")
    return []


def _sums(firsts: Iterable[First]) -> tuple[str, ...]:
    """Each column's sum in words."""
    programs, *durations = (sum(column) for column in zip(*firsts, strict=True))
    return (str(programs), *(f"{duration:.1f}" for duration in durations))


PARTS = {"first": measure_compilation, "corpora": measure_corpora}
