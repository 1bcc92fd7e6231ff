"""From configuration to run folder: ``results.nc``, ``summary.csv``, ``config.yaml``, ``environment.json``, ``report.html``.

`inference.runtime.files` writes every file; the manifest comes last.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inference.cli.runs.config import OF_STREAMS
from inference.cli.runs.devices import require_devices
from inference.cli.runs.held_out import held_out_rows
from inference.cli.runs.inspecting import raise_hinted, raise_refusal
from inference.cli.runs.run_folder import IMPUTED, go_on_from_final, goes_on, keep_final, longer, run_folder
from inference.cli.runs.stored_run import asks_for_more, config_text, finished_result, resumed, with_digest, write_config
from inference.diagnostics.unfinished import LEFT_OUT
from inference.programs.program_file import load_program
from inference.report.views import write_views
from inference.runtime.files import LOG, RESULTS, complete, is_complete, is_sealed, remove, reopen, write_netcdf, write_table
from inference.runtime.signals import interruptible
from models.data.documents import without_absent_tokens
from models.data.table import Data, ZooError, held_out_mask, require_complete, require_rows, split
from models.host.private import private_folder
from models.reading.load import load_data

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

    from models.base import Model

MOST_DEVICES = 16
NOT_OPTIONS = {"model", "method", "data", "runtime", "out", "resume", "impute", "pictures"}
SLOW = ("impute", "pictures")  # output that an interrupted run leaves out, in addition to that of `fit`
SHARED = (
    "seed",
    "precision",
    "progress",
    "predictive",
    "checkpoint_seconds",
)  # arguments of `fit` in addition to the options of the method


def require_precision(config: Mapping[str, Any]) -> None:
    """A `ZooError` for anything but 64 and 32 bits."""
    if config["precision"] not in (32, 64):
        raise ZooError(f"precision={config['precision']!r} is not one of 64, 32")


def prepare_jax(config: Mapping[str, Any]) -> None:
    """Set up CPU devices, on which chains run in parallel, and a compilation cache that outlives the process.

    There is one device per core, or one per chain for a method whose chains would otherwise wait for each other. JAX cannot add
    devices once it runs, so a caller with several configurations must prepare for all of them first.
    """
    import jax

    from inference.engine.driver import num_cores
    from inference.methods.method import method_named
    from inference.runtime.programs import keep_programs, why_not_used

    require_precision(config)
    require_devices()
    chains = config.get("num_chains")  # not validated yet
    lockstep = method_named(config["method"]).lockstep
    wanted = min(chains, MOST_DEVICES) if isinstance(chains, int) and not lockstep else 1
    wanted = max(wanted, min(config["runtime"]["devices"] or 1, MOST_DEVICES))
    with contextlib.suppress(RuntimeError):  # JAX already runs and keeps its devices
        jax.config.update("jax_num_cpu_devices", max(jax.config.jax_num_cpu_devices, num_cores(), wanted))
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayes-model-zoo"
        private = private_folder(place)
        of_jax = None if private is None else private_folder(private / "jax")  # JAX runs what it finds there, too
        if private is None or of_jax is None:
            _say_once(why_not_used(place))
            return
        jax.config.update("jax_compilation_cache_dir", str(of_jax))
        keep_programs(private / "programs")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@cache
def _say_once(warning: str) -> None:
    print(f"warning: {warning}", file=sys.stderr)


def execute(
    config: dict[str, Any],
    show_columns: bool = True,
    screen: Console | None = None,
    brief: bool = False,
    ready: Callable[[], None] = lambda: None,
    again: Sequence[str] = (),
) -> tuple[xr.DataTree, Path]:
    """Run one configuration and write its folder; returns (result, folder). Results are saved before anything else can fail.

    They are printed on ``screen``, if there is one, before pictures are drawn; ``brief`` prints the verdict alone. ``ready`` is
    called once the table is read: until then JAX is not imported, so that an error in the table shows at once.

    With ``resume``, the run of that folder continues where it stopped: before, during or after the fit. ``again`` names the
    options that the user gave again (`inference.cli.runs.stored_run`). With ``show_columns``, the columns of a table from a
    file are printed on standard error before the run.
    """
    config = with_digest(resumed(config, again))
    from inference.methods.options import check_seed

    check_seed(config["seed"])
    try:
        whole, data, held_out = all_rows(config, ready)
    except ZooError as error:
        raise_refusal(error, config["data"])
    prepare_jax(config)
    from inference.methods.method import checked_options, method_named
    from inference.results.tree import save
    from models.algebra import is_sequential

    try:
        model, observed = build_model(config["model"], data, config["precision"])
    except ZooError as error:
        raise_hinted(error, config["data"], data.name)
    if held_out is not None:
        model.rows(held_out)  # raises now, before anything runs, if the model cannot read them
    if config["impute"] and model.abilities.table is None:
        why = "it sums over missing cells and steps" if is_sequential(model) else "it needs complete rows"
        raise ZooError(f"impute=true: {config['model']['name']} cannot fill in missing cells: {why}")
    if config["impute"]:
        require_rows(whole, "none of their cells can be filled in; leave impute=true out")
    shared = {name: config[name] for name in SHARED}
    options = options_of_method(config)
    checked_options(method_named(config["method"]), options)
    with run_folder(config, data.name) as folder:
        if show_columns and config["data"]["name"] == "file":
            show_columns_of(model, data, data.num_rows)
        text = config_text(config, folder)
        tree = _result(config, folder, model, observed, shared, options, data.name)
        if tree.attrs["interrupted"]:
            config = config | dict.fromkeys(SLOW, False)
        if held_out is not None and "held_out" not in tree:
            tree["held_out"], figures = held_out_rows(model, tree, held_out)
            tree.attrs |= figures
            save(tree, folder / RESULTS)
        written = [folder / name for name in ("config.yaml", "environment.json", RESULTS)]
        if config["impute"]:
            fraction = config["data"].get("test_fraction", 0.0)
            fitted = None if held_out is None else ~held_out_mask(whole, fraction, config["seed"])
            number = write_imputed(config, model, tree, whole, folder, fitted)
            tree.attrs["imputed_cells"] = number
            save(tree, folder / RESULTS)
            written += [folder / name for name in IMPUTED]
        if not tree.attrs["interrupted"]:
            keep_final(folder, tree, config)
            remove(*filter(is_sealed, folder.glob(LOG)))  # the log of an earlier failure
        complete(folder, [*written, *write_views(config, model, tree, observed, folder, text, screen, brief)])
    return tree, folder


def options_of_method(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the method in a configuration."""
    return {name: value for name, value in config.items() if name not in NOT_OPTIONS and name not in SHARED}


def _result(
    config: Mapping[str, Any],
    folder: Path,
    model: Model,
    observed: Any,
    shared: dict[str, Any],
    options: dict[str, Any],
    name: str,
) -> xr.DataTree:
    """The saved result, or that of a fit of ``observed``, whose name is ``name``."""
    from inference.fitting.fit import fingerprint_of, fit
    from inference.fitting.modes import look_for_modes

    def fitted() -> xr.DataTree:
        tree = fit(model, observed, config["method"], folder=folder, **shared, **options)
        tree = look_for_modes(model, tree, observed)
        tree.attrs["data"] = name  # the data of a program have no name
        return tree

    options_of_fit = {name: shared[name] for name in ("seed", "precision")} | options
    return saved_result(config, folder, fitted, lambda: fingerprint_of(model, observed, config["method"], **options_of_fit))


def saved_result(
    config: Mapping[str, Any], folder: Path, fitted: Callable[[], xr.DataTree], fingerprint: Callable[[], str] | None
) -> xr.DataTree:
    """The saved result, if a resumed run had finished its fit; otherwise fit, and save the result.

    A finished run that becomes longer keeps its configuration and its result until the longer fit has ended. A result with
    another ``fingerprint`` than that of this fit is an error.
    """
    from inference.results.tree import save

    old = None if config["resume"] is None else finished_result(folder)
    if old is not None and fingerprint is not None and old.attrs.get("fingerprint") != fingerprint():
        raise ZooError(f"{folder} has results of other data than are there now, or of an older version: start a new run")
    has_ended = old is not None and not asks_for_more(config, old)
    keeps = old is not None and not has_ended and is_complete(folder, RESULTS)
    if not keeps:
        write_config(config, folder)
    if old is not None and has_ended:
        _say_where(config, goes_on(folder, config, old))
        reopen(folder)
        return old
    if old is not None and not keeps:
        go_on_from_final(folder)
    with interruptible(), longer(config, folder) if keeps else contextlib.nullcontext():
        if config["resume"] is not None:
            _say_where(config, goes_on(folder, config, old))
        tree = fitted()  # a signal too late to stop the fit stops the run here, once the result is saved
        if tree.attrs["interrupted"] and keeps:
            raise KeyboardInterrupt
        if tree.attrs["interrupted"]:
            left_out = [tree.attrs.get(LEFT_OUT, ""), *(option for option in SLOW if config[option])]
            tree.attrs[LEFT_OUT] = ", ".join(filter(None, left_out))
        reopen(folder)
        save(tree, folder / RESULTS)
    if keeps:
        write_config(config, folder)
    return tree


def _say_where(config: Mapping[str, Any], words: str) -> None:
    if config["progress"] is True:
        print(words, file=sys.stderr, flush=True)


def write_imputed(
    config: Mapping[str, Any], model: Model, tree: xr.DataTree, data: Data, folder: Path, fitted: np.ndarray | None
) -> int:
    """Write the table with its missing cells filled in, a mask and a list of these cells, and draws of them.

    All rows are covered, including held-out ones, in double precision. ``fitted`` (N,): which rows were fitted; None: all.
    Returns the number of missing cells.
    """
    from inference.predictions.imputation import cell_lines, impute
    from inference.report.filled import as_written, filled_in
    from inference.report.numbers import in_digits

    imputed = impute(model, tree, data, seed=config["seed"], fitted=fitted)
    write_netcdf(folder / "imputed.nc", imputed)
    written = as_written(config, data)
    table, mask = filled_in(model, imputed, data, written)
    write_table(folder / "imputed.csv", table, index=False, sep=written.separator)
    write_table(folder / "imputed_mask.csv", mask, index=False, sep=written.separator)
    cells = in_digits(cell_lines(model, imputed), written.decimal)
    write_table(folder / "imputed_cells.csv", cells, index=False, sep=written.separator)
    return int(imputed.sizes["cell"])


def all_rows(config: Mapping[str, Any], ready: Callable[[], None] = lambda: None) -> tuple[Data, Data, Data | None]:
    """(all rows, rows to fit, held-out rows or None) of a configuration; ``ready`` is called once the table has been read.

    Kinds of columns and names of levels come from the whole table: a temporary model is built on it to learn them.
    """
    sections = dict(config["data"])
    test_fraction = sections.pop("test_fraction", 0.0)
    whole = read_data(sections)
    ready()
    data, held_out = split(whole, test_fraction, config["seed"])
    if test_fraction and config["model"]["name"] != "program":
        _require_several_sequences(build_model(config["model"], whole)[0], whole, held_out is None)
    if held_out is None:
        return whole, data, None
    if config["model"]["name"] == "program":
        raise ZooError("data.test_fraction needs a model of the zoo: a program cannot predict new rows")
    from models.algebra import row_name

    model = build_model(config["model"], whole)[0]
    if model.reading.layout is not None:
        data, held_out = (part._replace(like=model.reading.layout) for part in (data, held_out))
    return whole, without_absent_tokens(data), held_out._replace(name=f"{held_out.name} ({row_name(model)}s held out)")


def _require_several_sequences(model: Model, data: Data, none: bool) -> None:
    """Raises `ZooError` if a sequence model has too few sequences to hold some out: single steps cannot be held out."""
    from models.algebra import is_sequential
    from models.chains.sequences import steps_of

    if not is_sequential(model):
        return
    number = len(steps_of(data).starts) - 1
    if number == 1:
        raise ZooError(
            f"{data.name} is a single sequence, and its steps cannot be held out at random: leave data.test_fraction out, or "
            "name the column of sequences by data.sequence=. For one-step-ahead prediction, see inference.stepwise"
        )
    if none:
        raise ZooError(f"data.test_fraction holds out none of the {number} sequences of {data.name}: raise it")


def show_columns_of(model: Model, data: Data, num_rows: int) -> None:
    """Print how the columns of a table were read, on standard error; ``data`` may be a sample of ``num_rows`` rows."""
    from inference.report.columns import print_columns
    from inference.runtime.progress import console
    from models.data.columns import as_typed

    like = model.reading.layout
    print_columns(data if like is None else as_typed(data, like), console(sys.stderr))
    if num_rows != data.num_rows:
        console(sys.stderr).print(f"{num_rows} rows in all: these columns are those of a sample")


def read_data(options: dict[str, Any]) -> Data:
    """The table described by the data section of a configuration."""
    named = {option: value for option, value in options.items() if option not in OF_STREAMS}
    name = named.pop("name")
    source = named.pop("path") if name == "file" else name
    if source is None:
        raise ZooError("data=file also needs data.path=<file>; shorter: data=<file>")
    return load_data(source, **named)


def build_model(options: dict[str, Any], data: Data, precision: int = 64) -> tuple[Model, Any]:
    """(model, what it observes), from the model section of a configuration."""
    named = {key: value for key, value in options.items() if key not in ("name", "default_data")}
    if options["name"] == "program":
        require_complete(data, "A program")
        from inference.fitting.prepare import x64
        from inference.programs.model import program_model

        function = load_program(named.pop("path"), named.pop("sha256", None))
        with x64(precision):
            return program_model(function, data.x, **named), data.x
    from models import MODELS

    try:
        return MODELS[options["name"]](data, **named), data
    except ZooError as error:
        raise ZooError(f"model={options['name']}: {error}") from error
