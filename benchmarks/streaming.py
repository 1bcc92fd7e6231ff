"""Fits over blocks: memory by the number of rows, speed beside the fit in memory, and speed by devices and processes.

Times are of an iteration: the difference between a fit of many iterations and one of few, from the same start, divided by the
difference of their numbers. Both have read the rows, compiled, and evaluated the result.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import child
from benchmarks.gmm_memory import resident
from benchmarks.measure import CONSOLE, Target, interleave, median, print_table, seconds

COLUMNS, COMPONENTS = 8, 4
BLOCK = 2**18
FEW, MANY = 3, 13  # iterations
STARTS, FEW_OF_ALL, MANY_OF_ALL = 10, 2, 6  # the default number of starts, and iterations of all of them
REPEATS = 3
ROWS_IN_MEMORY = 2_000_000
ROWS_OF_A_CORE = 2_097_152
ROWS_IN_FILE = 20_000_000
LIMIT_BEYOND = 1000  # MB of address space beyond what the process has before it opens the file
FLAT, SLOWER, SCALING = 300.0, 1.25, 1.7  # the targets

CENTRES = np.random.default_rng(0).normal(size=(COMPONENTS, COLUMNS)) * 4


def block_of(seed: int, number: int = BLOCK) -> np.ndarray:
    """``number`` rows of a mixture."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((number, COLUMNS))
    x += CENTRES[random.integers(0, COMPONENTS, number)]
    return x


def start() -> dict[str, np.ndarray]:
    """Parameters near those of the rows, from which all fits begin."""
    return {
        "mean": CENTRES + 0.3,
        "precision": np.tile(np.eye(COLUMNS), (COMPONENTS, 1, 1)),
        "mixture_probs": np.full(COMPONENTS, 1 / COMPONENTS),
    }


def model_of(x: np.ndarray) -> Any:
    """A mixture of Gaussians for such rows."""
    from models import MODELS, load_data

    return MODELS["gmm"](load_data(x), num_components=COMPONENTS)


def generated(rows: int) -> Iterator[Any]:
    """Blocks of rows that are made when they are asked for."""
    from models import load_data

    for number, begin in enumerate(range(0, rows, BLOCK)):
        yield load_data(block_of(number, min(BLOCK, rows - begin)))


def fit_generated(rows: int) -> dict[str, float]:
    """In a fresh process: the peak of resident memory of EM over so many rows, in MB, and seconds of a pass."""
    from inference import fit, in_blocks
    from models import load_data

    model, sample = model_of(block_of(0)), load_data(block_of(0))
    clock = time.perf_counter()
    tree = fit(model, in_blocks(partial(generated, rows), sample=sample), "em", start=start(), max_iter=2, tol=0)
    assert tree.attrs["total_weight"] == rows
    return {"peak": resident("VmHWM"), "seconds": time.perf_counter() - clock}


def measure_memory() -> list[Target]:
    """Peak memory of EM over a million to a hundred million rows."""
    found = {rows: child.call(fit_generated, {"rows": rows}) for rows in (10**6, 10**7, 10**8)}
    rows = [(f"{number:,}", f"{one['peak']:.0f}", f"{one['seconds']:.0f}") for number, one in found.items()]
    note = f"{COLUMNS} columns, K={COMPONENTS}, two iterations, rows generated while they are read"
    print_table("EM over blocks: peak of resident memory", ("rows", "MB", "seconds"), rows, note)
    apart = found[10**8]["peak"] - found[10**6]["peak"]
    return [Target("memory from 10⁶ to 10⁸ rows", apart, FLAT, at_least=False, unit="MB")]


def iteration_seconds(fitted: Any, few: int = FEW, many: int = MANY) -> float:
    """Seconds of an iteration of a function of their number."""
    took = {}
    for number in (few, many):
        clock = time.perf_counter()
        fitted(number)
        took[number] = time.perf_counter() - clock
    return (took[many] - took[few]) / (many - few)


def _timed(fitted: Callable[[int], Any], few: int, many: int, turn: int) -> float:
    return iteration_seconds(fitted, few, many)


def measure_speed() -> list[Target]:
    """An iteration of EM in memory, over tables in memory, and over a Parquet file: of one start, and of ten."""
    import pandas as pd

    from models import load_data

    x = block_of(0, ROWS_IN_MEMORY)
    data, model = load_data(x), model_of(x)
    with tempfile.TemporaryDirectory() as folder:
        table = pd.DataFrame(x, columns=list(data.columns))
        table.to_parquet(f"{folder}/rows.parquet", compression=None, row_group_size=BLOCK)
        one = _compared(model, data, f"{folder}/rows.parquet", {"start": start()}, FEW, MANY, "one start")
        of_all = _compared(model, data, f"{folder}/rows.parquet", {"num_starts": STARTS}, FEW_OF_ALL, MANY_OF_ALL, "ten starts")
        took = [reading_seconds(model, f"{folder}/rows.parquet") for _ in range(REPEATS)]
    parts = {name: seconds([one[name] for one in took]) for name in took[0]}
    CONSOLE.print(f"reading the file alone: {parts['encoded']} s; of these decoding on one core: {parts['decoded']} s")
    return one + of_all


def reading_seconds(model: Any, path: str) -> dict[str, float]:
    """Seconds of one thread for all blocks of a file: decoded alone, and read as a pass reads them."""
    import jax
    from pyarrow import parquet

    from inference import read_stream
    from inference.streaming.source.encoding import HeldOutRows, encoded

    clock = time.perf_counter()
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        for _ in file.iter_batches(BLOCK, use_threads=False):
            pass
    decoded = time.perf_counter() - clock
    files, whole = read_stream(path), HeldOutRows(0.0, 0)
    clock = time.perf_counter()
    with jax.enable_x64(True):
        for number, block in enumerate(files.read(0, None)):
            encoded(model, block, number, whole)
    return {"decoded": decoded, "encoded": time.perf_counter() - clock}


def _compared(model: Any, data: Any, path: str, given: dict[str, Any], few: int, many: int, label: str) -> list[Target]:
    """An iteration over all ways to hold the rows, from the same starts."""
    from inference import fit, in_blocks, read_stream
    from models import load_data

    given, files = given | {"tol": 0}, read_stream(path)
    parts = [load_data(part) for part in np.array_split(data.x, -(-len(data.x) // BLOCK))]
    runs: dict[str, Callable[[int], Any]] = {
        "in memory (fit)": lambda n: fit(model, data, "em", max_iter=n, **given),
        "tables, one a block": lambda n: fit(model, in_blocks(parts, sample=data), "em", max_iter=n, **given),
        "Parquet file": lambda n: fit(model, in_blocks(files, sample=data), "em", max_iter=n, **given),
    }
    for run in runs.values():
        run(1)
    trees = [run(many) for run in runs.values()]
    gaps = [_gap(tree, np.asarray(trees[0]["point_estimate"]["mean"])) for tree in trees]
    found = interleave({name: partial(_timed, run, few, many) for name, run in runs.items()}, REPEATS)
    first = median(found["in memory (fit)"])
    rows = [
        (name, seconds(took), f"{median(took) / first:.2f}", f"{gap:.0e}")
        for (name, took), gap in zip(found.items(), gaps, strict=True)
    ]
    note = f"{len(data.x):,} rows, {COLUMNS} columns, K={COMPONENTS}, full covariances; largest difference of a mean"
    print_table(f"An iteration of EM, {label}, seconds", ("rows come from", "seconds", "ratio", "differs"), rows, note)
    return [
        Target(f"{name}, {label}: over time in memory", median(found[name]) / first, SLOWER, at_least=False, agreed=gap < 1e-9)
        for name, gap in zip(runs, gaps, strict=True)
        if name != "in memory (fit)"
    ]


def write_large(path: str) -> dict[str, float]:
    """In a fresh process: a Parquet file with all rows; its size in MB."""
    import pyarrow
    from pyarrow import parquet

    names = [f"x{column}" for column in range(COLUMNS)]
    with parquet.ParquetWriter(
        path, pyarrow.schema([(name, pyarrow.float64()) for name in names]), compression="none"
    ) as writer:
        for number, begin in enumerate(range(0, ROWS_IN_FILE, BLOCK)):
            x = block_of(number, min(BLOCK, ROWS_IN_FILE - begin))
            writer.write_table(pyarrow.table(dict(zip(names, x.T, strict=True))))
    return {"size": Path(path).stat().st_size / 1e6}


def fit_limited(path: str) -> dict[str, float]:
    """In a fresh process: EM over the file, with address space for `LIMIT_BEYOND` MB more than before."""
    import pandas as pd

    from inference import fit, read_stream

    model = model_of(block_of(0))
    with tempfile.NamedTemporaryFile(suffix=".parquet") as small:  # what is loaded, compiled and reserved once
        pd.DataFrame(block_of(0), columns=[f"x{column}" for column in range(COLUMNS)]).to_parquet(small.name)
        fit(model, read_stream(small.name), "em", start=start(), max_iter=1, tol=0)
    limit = int(resident("VmSize") * 1e6) + LIMIT_BEYOND * 10**6
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    clock = time.perf_counter()
    files = read_stream(path)
    tree = fit(model, files, "em", start=start(), max_iter=3, tol=0)
    error = _gap(tree, CENTRES)
    took = time.perf_counter() - clock
    return {"seconds": took, "rows": tree.attrs["total_weight"], "peak": resident("VmHWM"), "error": error}


def _gap(tree: Any, means: np.ndarray) -> float:
    """The largest difference of a mean, whatever the order of the components."""
    found = np.asarray(tree["point_estimate"]["mean"])
    return float(np.abs(found[:, None, :] - means[None, :, :]).max(2).min(1).max())


def measure_limit() -> list[Target]:
    """EM over a Parquet file that is larger than the memory which the process may take."""
    with tempfile.TemporaryDirectory() as folder:
        size = child.call(write_large, {"path": f"{folder}/rows.parquet"})["size"]
        found = child.call(fit_limited, {"path": f"{folder}/rows.parquet"})
    note = f"{ROWS_IN_FILE:,} rows; RLIMIT_AS is {LIMIT_BEYOND} MB above the address space before the file is opened"
    row = (f"{size:.0f}", f"{LIMIT_BEYOND}", f"{found['peak']:.0f}", f"{found['seconds']:.0f}")
    print_table("EM over a file larger than memory", ("file, MB", "may take, MB", "peak resident, MB", "seconds"), [row], note)
    sound = found["rows"] == ROWS_IN_FILE and found["error"] < 0.1
    return [Target("file over memory that may be taken", size / LIMIT_BEYOND, 1.0, agreed=sound)]


WORKER = "from benchmarks.streaming import worker; import sys; worker(*sys.argv[1:])"


def worker(given: str) -> None:
    """A process of a fit: print seconds of an iteration, and bytes that it sends for each."""
    import jax

    asked = json.loads(given)
    if asked["cores"] is not None:
        os.sched_setaffinity(0, asked["cores"])
    jax.config.update("jax_num_cpu_devices", max(asked["devices"] or 1, 1))
    from inference import fit, in_blocks, join_processes
    from inference.streaming.source import processes

    if asked["processes"] > 1:
        join_processes(asked["coordinator"], asked["processes"], asked["rank"])
    x = block_of(0, asked["rows"])
    model, sent = model_of(x[:BLOCK]), []
    data = model.read(x)

    class Counted(processes.Group):
        def all_sum(self, tree: Any) -> Any:
            sent.append(8 * sum(np.size(leaf) for leaf in jax.tree.leaves(tree)))
            return super().all_sum(tree)

    block_rows = -(-len(x) // asked["processes"])

    def run(number: int) -> Any:
        rows = in_blocks(data, devices=asked["devices"], block_rows=block_rows)
        return fit(model, rows, "em", start=start(), tol=0, max_iter=number)

    with mock.patch("inference.streaming.in_blocks.Group", Counted):
        run(1)
        took = iteration_seconds(run)
    print(json.dumps({"seconds": took, "bytes": max(sent)}), flush=True)


def together(asked: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Processes that share a fit: seconds of an iteration, the slowest of them, and bytes that each sends."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    common = {"processes": len(asked), "coordinator": f"127.0.0.1:{port}"}  # unless they are to have fits of their own
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(common | dict(one) | {"rank": rank})],
            stdout=subprocess.PIPE,
            text=True,
            cwd=child.ROOT,
            env=child.environment(),
        )
        for rank, one in enumerate(asked)
    ]
    found = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    return {name: max(one[name] for one in found) for name in ("seconds", "bytes")}


def _shared_out(asked: Sequence[Mapping[str, Any]], turn: int) -> dict[str, float]:
    return together(asked)


def measure_scaling() -> list[Target]:
    """Twice the rows on two cores beside the rows on one: by two devices of a process, and by two processes."""
    cases: dict[str, list[dict[str, Any]]] = {
        "one device, one core": [{"rows": ROWS_OF_A_CORE, "devices": 1, "cores": [0]}],
        "two devices, twice the rows": [{"rows": 2 * ROWS_OF_A_CORE, "devices": 2, "cores": None}],
        "one process, one core": [{"rows": ROWS_OF_A_CORE, "devices": None, "cores": [0]}],
        "two processes, each alone": [
            {"rows": ROWS_OF_A_CORE, "devices": None, "cores": [core], "processes": 1} for core in (0, 1)
        ],
        "two processes, twice the rows": [{"rows": 2 * ROWS_OF_A_CORE, "devices": None, "cores": [core]} for core in range(2)],
        "two processes, four times the rows": [
            {"rows": 4 * ROWS_OF_A_CORE, "devices": None, "cores": [core]} for core in range(2)
        ],
    }
    found = interleave({name: partial(_shared_out, asked) for name, asked in cases.items()}, REPEATS)
    rows = [(name, seconds([one["seconds"] for one in took]), f"{took[0]['bytes']:.0f}") for name, took in found.items()]
    note = f"{ROWS_OF_A_CORE:,} rows of a core, {COLUMNS} columns, K={COMPONENTS}, full covariances, one start"
    print_table("An iteration of EM shared out", ("", "seconds", "bytes sent"), rows, note)
    names = list(cases)
    took = {name: median(one["seconds"] for one in found[name]) for name in names}
    shared = [name for name in names if name.startswith("two processes") and not name.endswith("alone")]
    same = len({found[name][0]["bytes"] for name in shared}) == 1
    CONSOLE.print(f"bytes sent by each process are {'the same' if same else 'NOT the same'} whatever the rows")
    alone = 2 * took["one process, one core"] / took["two processes, each alone"]
    CONSOLE.print(f"two processes that share nothing do {alone:.2f} times the work of one: what the machine allows")
    of_devices = 2 * took["one device, one core"] / took["two devices, twice the rows"]
    of_processes = 2 * took["one process, one core"] / took["two processes, twice the rows"]
    return [
        Target("two devices: work in the same time", of_devices, SCALING),
        Target("two processes: work in the same time", of_processes, SCALING, agreed=same),
    ]


PARTS = {"memory": measure_memory, "speed": measure_speed, "limit": measure_limit, "scaling": measure_scaling}
