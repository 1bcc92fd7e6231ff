"""A run whose rows are read block by block, or shared out to devices and processes: the same folder, with the same files.

Process 0 writes. The others take part in the fit, write nothing, and end when it has written. A process whose group has lost a
member ends at once, with the message of a mistake.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inference.cli.runs.config import OF_STREAMS
from inference.cli.runs.execute import (
    SHARED,
    all_rows,
    build_model,
    execute,
    options_of_method,
    prepare_jax,
    saved_result,
    show_columns_of,
)
from inference.cli.runs.guard import guarded
from inference.cli.runs.held_out import held_out_rows
from inference.cli.runs.inspecting import raise_hinted, raise_refusal
from inference.cli.runs.run_folder import keep_final, run_folder
from inference.cli.runs.stored_run import config_text, finished_result, resumed
from inference.report.views import write_views
from inference.runtime.files import LOG, RESULTS, complete, is_sealed, remove
from inference.streaming.source.names import SAMPLE, SCAN
from models.errors import MOST, ZooError

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

    from inference.streaming.source.processes import Group
    from models.base import Model
    from models.data.table import Data

NOT_WITH_STREAM = ("kind", "num_rows", "format", "vocabulary", "min_documents", "stop_words", "keep", "text", "unit", "empty")


def execute_any(config: dict[str, Any], *, again: Sequence[str] = (), **shown: Any) -> tuple[xr.DataTree, Path]:
    """`inference.cli.runs.execute.execute`, or over blocks, as the configuration asks; ``shown`` are its other arguments."""
    known = resumed(config, again)
    if in_blocks(known):
        return execute_blocks(known, **shown)
    return execute(config, again=again, **shown)


def in_blocks(config: Mapping[str, Any]) -> bool:
    """Whether a run shares out its rows, or reads them block by block."""
    runtime = config["runtime"]
    return bool(config["data"].get("stream")) or runtime["name"] == "distributed" or runtime["devices"] is not None


def execute_blocks(
    config: dict[str, Any],
    *,
    show_columns: bool = True,
    screen: Console | None = None,
    brief: bool = False,
    ready: Callable[[], None] = lambda: None,
) -> tuple[xr.DataTree, Path]:
    """`inference.cli.runs.execute.execute` for such a run; its arguments are those of that function."""
    _require_possible(config)
    ready()
    prepare_jax(config)
    from inference.methods.method import checked_options, method_named, require_over_blocks
    from inference.results.tree import save
    from inference.streaming.source.processes import Group, join_processes

    if config["runtime"]["name"] == "distributed":
        join_processes(*(config["runtime"][name] for name in ("coordinator", "num_processes", "process_id")))
    require_over_blocks(method_named(config["method"]), steps=_takes_steps(config))
    checked_options(method_named(config["method"]), options_of_method(config))
    group = Group()
    with _ended_together(group), _folder_of(config, group) as folder:
        rows = _Rows(config, folder, show_columns and group.rank == 0)
        tree = _result(config, folder, rows, group)
        if group.rank == 0:
            if rows.held_out is not None and "held_out" not in tree:
                tree["held_out"], figures = held_out_rows(rows.model, tree, rows.held_out)
                tree.attrs |= figures
                save(tree, folder / RESULTS)
            keep_final(folder, tree, config)
            remove(*filter(is_sealed, folder.glob(LOG)))  # the log of an earlier failure
            written = [folder / name for name in ("config.yaml", "environment.json", RESULTS)]
            text = config_text(config, folder)
            complete(folder, [*written, *write_views(config, rows.model, tree, rows.data, folder, text, screen, brief)])
        group.barrier()  # the others end when all is written
        if group.rank > 0:
            tree.attrs["exit_status"] = 0
        return tree, folder


def _require_possible(config: Mapping[str, Any]) -> None:
    """A `ZooError` for options that a run over blocks does not support."""
    data, stream = config["data"], config["data"].get("stream")
    if stream not in (None, False, True, "steps"):
        raise ZooError(f"data.stream={stream!r} is not one of true, false, steps")
    if config["model"]["name"] == "program":
        raise ZooError("a program sees all rows at once: leave data.stream and runtime out")
    for name in ("predictive", "impute"):
        if config[name]:
            raise ZooError(f"{name}=true needs all rows in memory, and does not go with data.stream or runtime")
    if stream:
        for name in NOT_WITH_STREAM:
            if data[name] not in (None, "table"):
                raise ZooError(f"data.{name} does not go with data.stream, which reads tables of one row a line")
    if config["runtime"]["name"] == "distributed" and not config["out"]:
        raise ZooError("runtime=distributed: give out=<folder>, the same for all processes")
    sizes = {"runtime.devices": config["runtime"]["devices"]}
    sizes |= {f"data.{name}": data.get(name) for name in ("block_rows", "sample_rows")}
    for name, size in sizes.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ZooError(f"{name} must be a whole number of at least 1, got {size!r}")
        if size is not None and size > MOST:
            raise ZooError(f"{name} must be at most {MOST}, got {size}")


def _takes_steps(config: Mapping[str, Any]) -> bool:
    """Whether every step takes one block."""
    return config["data"].get("stream") == "steps" or bool(config.get("batch_size"))


@contextmanager
def _folder_of(config: Mapping[str, Any], group: Group) -> Iterator[Path]:
    """The folder of the run, which process 0 makes and locks."""
    if group.rank > 0:
        group.barrier()
        yield Path(config["out"])
        return
    name = config["data"]["path"] if config["data"]["name"] == "file" else config["data"]["name"]
    with run_folder(config, str(name)) as folder:
        group.barrier()
        yield folder


@contextmanager
def _ended_together(group: Group) -> Iterator[None]:
    """Of several processes: one that fails ends at once, as JAX's own goodbye would wait for the others and abort."""
    try:
        yield
    except BaseException as error:
        if group.size == 1:
            raise
        code = guarded(partial(_raised, error), [])
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _raised(error: BaseException, arguments: list[str]) -> int:
    raise error


class _Rows:
    """The rows of a run, the model that is built on them or on their sample, and the rows held out."""

    def __init__(self, config: Mapping[str, Any], folder: Path, show_columns: bool) -> None:
        self.source: Any
        self.data: Data
        self.held_out: Data | None = None
        self.model: Model
        try:
            if config["data"].get("stream"):
                self._open(config, folder)
            else:
                _, self.data, self.held_out = all_rows(config)
                self.source = self.data
        except ZooError as error:
            raise_refusal(error, config["data"])
        try:
            self.model = build_model(config["model"], self.data, config["precision"])[0]
        except ZooError as error:
            raise_hinted(error, config["data"], self.data.name)
        if show_columns and config["data"]["name"] == "file":
            show_columns_of(self.model, self.data, self.source.num_rows)

    def _open(self, config: Mapping[str, Any], folder: Path) -> None:
        from inference.streaming.source.processes import Group
        from inference.streaming.source.read_stream import read_stream

        options = dict(config["data"])
        sizes = {name: options[name] for name in ("block_rows", "sample_rows")}
        left_out = ("name", "path", "test_fraction", *OF_STREAMS, *NOT_WITH_STREAM)
        if options["path"] is None:
            raise ZooError("data.stream reads files: give data=<file or folder>")
        given = {name: value for name, value in options.items() if name not in left_out}
        if batch := config.get("batch_size"):
            sizes["block_rows"] = batch
        if config["resume"] is None and Group().rank == 0:  # any files there are of another run
            remove(folder / SCAN, folder / SAMPLE)
        self.source = read_stream(options["path"], folder=folder, seed=config["seed"], **sizes, **given)
        self.data = self.source.sample


def _result(config: Mapping[str, Any], folder: Path, rows: _Rows, group: Group) -> xr.DataTree:
    """The saved result, if a resumed run had finished its fit; otherwise all processes fit."""
    fits = np.ones(1)
    if group.rank > 0:
        if group.all_sum(np.zeros(1))[0]:
            return _fitted(config, folder, rows, group)
        if (result := finished_result(folder)) is None:
            raise ZooError(f"{folder} has no result that this process sees: the folder must be one that all processes share")
        return result

    def announced() -> xr.DataTree:
        group.all_sum(fits)
        fits[0] = 0
        return _fitted(config, folder, rows, group)

    tree = saved_result(config, folder, announced, None)
    if fits[0]:  # no process has announced a fit
        group.all_sum(np.zeros(1))
    return tree


def _fitted(config: Mapping[str, Any], folder: Path, rows: _Rows, group: Group) -> xr.DataTree:
    from inference.fitting.fit import fit
    from inference.streaming.in_blocks import in_blocks
    from inference.streaming.source.blocks import BLOCK_ROWS

    options = options_of_method(config)
    lengths = {name: options.pop(name) for name in ("delay", "forgetting") if name in options}
    shared = {name: config[name] for name in SHARED if name != "predictive"}
    shared["progress"] = config["progress"] and group.rank == 0
    blocks = in_blocks(
        rows.source,
        devices=config["runtime"]["devices"],
        block_rows=options.pop("batch_size", 0) or config["data"].get("block_rows", BLOCK_ROWS),
        held_out=config["data"].get("test_fraction", 0.0) if config["data"].get("stream") else 0.0,
        steps=_takes_steps(config),
        **lengths,
    )
    return fit(rows.model, blocks, config["method"], folder=folder, **shared, **options)
