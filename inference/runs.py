"""A configuration -> a run folder: ``results.nc``, ``summary.csv``, ``config.yaml``, ``environment.json``, ``report.html``."""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from omegaconf import OmegaConf

from models.data import Data, ZooError, exists, load_data, require_complete, require_rows, split
from models.documents import with_own_vocabulary

MOST_DEVICES = 16
HELD_OUT = ("accuracy", "log_loss", "log_loss_se", "calibration_error")
NOT_OPTIONS = {"model", "method", "data", "out", "resume", "impute", "pictures"}


def prepare_jax(config: Mapping[str, Any]) -> None:
    """CPU devices, on which chains run side by side, and a compilation cache that outlives the process.

    Devices are one a core, and one a chain for a method whose chains would otherwise wait for each other. JAX cannot add
    devices once it runs, so a caller with several configurations prepares for all of them first.
    """
    import jax

    from inference.chains import num_cores
    from inference.fitting import method_module

    if config["precision"] not in (32, 64):
        raise ZooError(f"precision={config['precision']!r} is not one of 64, 32")
    lockstep = getattr(method_module(config["method"]), "LOCKSTEP", True)
    chains = config.get("num_chains")  # not checked yet
    wanted = min(chains, MOST_DEVICES) if isinstance(chains, int) and not lockstep else 1
    with contextlib.suppress(RuntimeError):  # JAX is already running: it keeps the devices that it has
        jax.config.update("jax_num_cpu_devices", max(jax.config.jax_num_cpu_devices, num_cores(), wanted))
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayes-model-zoo" / "jax"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def execute(config: dict[str, Any], show_columns: bool = True) -> tuple[xr.DataTree, Path]:
    """Run one configuration and write its folder: (result, folder). Results are on disk before anything else can fail.

    With ``show_columns`` the columns of a table from a file are printed before the run, on standard error.
    """
    config = resumed(config)
    from inference.decoding import is_sequential
    from inference.fitting import check_seed, checked_options, fit, method_module

    check_seed(config["seed"])
    whole, data, held_out = all_rows(config)
    if config["pictures"] not in (None, True, False):
        raise ZooError(f"pictures must be true or false, got {config['pictures']!r}")
    if not isinstance(config["impute"], bool):
        raise ZooError(f"impute must be true or false, got {config['impute']!r}")
    prepare_jax(config)
    model, observed, extra = build_model(config["model"], data)
    if held_out is not None:
        model.rows(held_out)  # what the model cannot read is said now, before anything runs
    if config["impute"] and getattr(model, "table", None) is None:  # a program has none either
        of_steps = getattr(model, "algebra", None) is not None and is_sequential(model)
        why = "steps that are missing are summed over" if of_steps else "it needs complete rows"
        raise ZooError(f"impute=true: {config['model']['name']} fills in no missing cells: {why}")
    if config["impute"]:
        require_rows(whole, "no cell of theirs can be filled in; leave impute=true out")
    from inference.report import write_report, write_summary
    from inference.results import environment, save

    options = {name: value for name, value in config.items() if name not in NOT_OPTIONS}
    shared = {name: options.pop(name) for name in ("seed", "precision", "progress")}
    checked_options(config["method"], method_module(config["method"]), options)
    folder = run_folder(config, data)
    if show_columns and config["data"]["name"] == "file":
        _show_columns(model, data)
    text = OmegaConf.to_yaml(OmegaConf.create(config | {"out": str(folder)}))
    (folder / "config.yaml").write_text(text)
    try:
        tree = fit(model, observed, config["method"], folder=folder, **shared, **extra, **options)
    except KeyboardInterrupt as stop:
        _remove_if_nothing_was_computed(folder)
        if any(folder.glob("checkpoint-*.npz")):
            raise KeyboardInterrupt(f"interrupted; resume={folder} goes on from there") from stop
        raise
    except BaseException:
        _remove_if_nothing_was_computed(folder)
        raise
    tree.attrs["data"] = data.name
    save(tree, folder / "results.nc")
    if held_out is not None:
        tree["held_out"], figures = held_out_rows(model, tree, held_out)
        tree.attrs |= figures
        save(tree, folder / "results.nc")
    if config["impute"]:
        tree.attrs["imputed_cells"] = write_imputed(model, tree, whole, folder, config["seed"], config["precision"])
        save(tree, folder / "results.nc")
    if not tree.attrs["interrupted"]:
        for checkpoint in folder.glob("checkpoint-*.npz"):
            checkpoint.unlink()
    (folder / "environment.json").write_text(json.dumps(environment(), indent=2) + "\n")
    write_summary(tree, folder / "summary.csv")
    wanted = config["pictures"] is True or (config["pictures"] is None and "posterior" in tree)
    pictures = draw_pictures(model, tree, observed, folder) if wanted else []
    write_report(tree, folder / "report.html", text, pictures)
    return tree, folder


def draw_pictures(model: Any, tree: xr.DataTree, data: Any, folder: Path) -> list[Path]:
    """What was drawn: ``profile.png`` where rows are made of columns, ``co_clustering.png`` where labels are exchangeable,
    ``loadings.png`` of factors, ``topics.png`` of words, ``state_probs.png``, ``transitions.png`` and ``emissions.png`` of
    sequences.
    """
    from inference.decoding import is_sequential
    from inference.pictures import plot_co_clustering, plot_loadings, plot_profile
    from inference.sequence_pictures import plot_emissions, plot_states, plot_transitions
    from inference.topic_pictures import plot_topics
    from inference.topic_sites import has_topics
    from models.base import Permutation, Reflection, Rotation

    symmetry, drawn = getattr(model, "symmetry", None), []
    if getattr(model, "algebra", None) is not None and is_sequential(model):  # a program has none
        plot_states(model, tree, data, folder / "state_probs.png")
        plot_transitions(model, tree, folder / "transitions.png")
        plot_emissions(model, tree, folder / "emissions.png")
        return [folder / f"{name}.png" for name in ("state_probs", "transitions", "emissions")]
    if getattr(model, "profile", None) is not None:
        plot_profile(model, tree, folder / "profile.png")
        drawn.append(folder / "profile.png")
    if has_topics(model):
        plot_topics(model, tree, folder / "topics.png")
        drawn.append(folder / "topics.png")
    if isinstance(symmetry, Rotation | Reflection):
        plot_loadings(model, tree, folder / "loadings.png")
        drawn.append(folder / "loadings.png")
    if isinstance(symmetry, Permutation) and model.reports == "responsibilities":
        plot_co_clustering(model, tree, data, folder / "co_clustering.png")
        drawn.append(folder / "co_clustering.png")
    return drawn


def write_imputed(model: Any, tree: xr.DataTree, data: Data, folder: Path, seed: int, precision: int) -> int:
    """``imputed.csv``: the table with its missing cells filled in. ``imputed.nc``: draws and probabilities of every cell.

    Of all rows, also those that were held out. Returns how many cells there were.
    """
    from inference.imputation import completed_table, impute

    found = impute(model, tree, data, seed=seed, precision=precision)
    found.to_netcdf(folder / "imputed.nc")
    completed_table(model, found, data).to_csv(folder / "imputed.csv", index=False)
    return int(found.sizes["cell"])


def all_rows(config: Mapping[str, Any]) -> tuple[Data, Data, Data | None]:
    """(all rows, those to fit, those held out or None) of a configuration.

    Kinds of columns and names of levels are those of the whole table: a model is built on it to learn them, and forgotten.
    """
    sections = dict(config["data"])
    test_fraction = sections.pop("test_fraction", 0.0)
    whole = read_data(sections)
    data, held_out = split(whole, test_fraction, config["seed"])
    if test_fraction and config["model"]["name"] != "program":
        _require_several_sequences(build_model(config["model"], whole)[0], whole, held_out is None)
    if held_out is None:
        return whole, data, None
    if config["model"]["name"] == "program":
        raise ZooError("data.test_fraction needs a model of the zoo: a program says nothing about new rows")
    from models.base import row_name

    model = build_model(config["model"], whole)[0]
    if model.layout is not None:
        data, held_out = (part._replace(like=model.layout) for part in (data, held_out))
    return whole, with_own_vocabulary(data), held_out._replace(name=f"{held_out.name} ({row_name(model)}s held out)")


def _require_several_sequences(model: Any, data: Data, none: bool) -> None:
    """A `ZooError` where a model of sequences has too few of them to hold some out: steps alone would tear one apart."""
    from inference.decoding import is_sequential
    from models.steps import steps_of

    if not is_sequential(model):
        return
    number = len(steps_of(data).starts) - 1
    if number == 1:
        raise ZooError(
            f"{data.name} is one sequence, of which no steps can be held out at random; leave data.test_fraction out, or name "
            "a column of sequences with data.sequence=. inference.stepwise makes leave-one-out over the steps of one"
        )
    if none:
        raise ZooError(f"data.test_fraction is less than one of the {number} sequences of {data.name}: take more")


def _show_columns(model: Any, data: Data) -> None:
    import sys

    from rich.console import Console

    from inference.columns import print_columns
    from models.columns import as_typed

    like = getattr(model, "layout", None)  # a program has none
    print_columns(data if like is None else as_typed(data, like), Console(file=sys.stderr))


def held_out_rows(model: Any, tree: xr.DataTree, data: Data) -> tuple[xr.DataTree, dict[str, float]]:
    """Rows that the fit did not see: (group ``held_out``, root attributes).

    The group holds the rows themselves, as ``observed_data`` does, the ``log_density`` of each, and where labels are modelled
    its ``loss`` −log p(label | x) and whether it was a ``hit``, NaN without a label. The attributes are means over rows. Where
    rows have parameters of their own, labels say what these may be and are no classes to foretell: those of rows held out are
    kept, and not looked at; there is the perplexity.
    """
    from inference.assembly import observed_data
    from inference.prediction import OF_SEQUENCES, forget_labels, score, without_cells

    found = without_cells(model, tree, data)["log_density"]
    rows = observed_data(data)
    if found.sizes["row"] != rows.sizes["row"]:  # rows are steps, and densities of sequences
        found = found.drop_vars("row").rename(row="sequence")
    rows = rows.assign(log_density=found)
    figures = {"held_out_rows": int(found.size), "held_out_log_density": float(found.mean())}
    if getattr(model, "held_out", None) is not None:
        figures["held_out_perplexity"] = _perplexity(model, forget_labels(model, data), found.values)
    of_classes = tree.attrs["labels_observed"] and not model.algebra.private
    if of_classes and data.labels is not None and (data.labels >= 0).any():
        scores = score(model, tree, data)
        rows = rows.assign(scores[["loss", "hit"]].astype(float).reindex(row=rows["row"]))
        figures |= {"held_out_labelled": int(scores["num_rows"])} | {
            f"held_out_{name}": float(scores[name]) for name in (*HELD_OUT, *OF_SEQUENCES) if name in scores
        }
    return xr.DataTree(rows), figures


def _perplexity(model: Any, data: Data, log_density: np.ndarray) -> float:
    """What `inference.own_rows.perplexity` says, from densities that are known already."""
    rows = model.rows(data)
    units = model.held_out.number(rows).sum()
    return float(np.exp((model.held_out.orders(rows).sum() - log_density.sum()) / units)) if units else float("nan")


def read_data(options: dict[str, Any]) -> Data:
    """The data section of a configuration -> `Data`."""
    named = dict(options)
    name = named.pop("name")
    source = named.pop("path") if name == "file" else name
    if source is None:
        raise ZooError("data=file needs data.path=<file>; data=<file> does both")
    return load_data(source, **named)


def build_model(options: dict[str, Any], data: Data) -> tuple[Any, Any, dict[str, Any]]:
    """The model section -> (model or program, what it observes, further arguments of `fit`)."""
    named = {key: value for key, value in options.items() if key not in ("name", "default_data")}
    if options["name"] == "program":
        require_complete(data, "A program")
        return load_program(named.pop("path")), data.x, named
    from models import MODELS

    try:
        return MODELS[options["name"]](data, **named), data, {}
    except ZooError as error:
        raise ZooError(f"model={options['name']}: {error}") from error


def load_program(path: str | None) -> Any:
    """``file.py:function`` -> the function."""
    import importlib.util

    if not path or ":" not in path:
        raise ZooError("model=program needs model.path=<file.py>:<function>; model=<file.py>:<function> does both")
    file, _, name = path.rpartition(":")
    if not (exists(file) and Path(file).is_file()):
        raise ZooError(f"model: there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise ZooError(f"model: {file!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the file is the user's: it may raise anything, or end in sys.exit()
        raise ZooError(f"model: {file} does not load: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ZooError(f"model: {file} has no function {name!r}")
    return function


def run_folder(config: dict[str, Any], data: Data) -> Path:
    """The folder of this run, made now; an existing one that holds results is refused unless the run is resumed."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    source = config["data"]["name"]
    title = Path(data.name).stem if source == "file" else source
    name = config["model"]["name"]
    folder = Path(config["out"] or _unused(Path("runs") / f"{name}-{config['method']}-{title}-{stamp}"))
    if config["resume"] is None and (folder / "results.nc").exists():
        raise ZooError(f"out={folder} holds the results of another run; choose another folder, or resume={folder} to go on")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ZooError(f"out={folder} cannot be made: {error.strerror}") from error
    if config["resume"] is None and any(folder.glob("checkpoint-*.npz")):
        raise ZooError(f"out={folder} holds an unfinished run: resume={folder} goes on with it; or choose another folder")
    return folder


def _unused(path: Path) -> Path:
    candidates = (path if i == 0 else path.with_name(f"{path.name}-{i}") for i in range(10_000))
    return next(candidate for candidate in candidates if not candidate.exists())


def _remove_if_nothing_was_computed(folder: Path) -> None:
    if {path.name for path in folder.iterdir()} == {"config.yaml"}:
        (folder / "config.yaml").unlink()
        folder.rmdir()
        if folder.parent == Path("runs") and not any(folder.parent.iterdir()):
            folder.parent.rmdir()


def resumed(config: dict[str, Any]) -> dict[str, Any]:
    """With ``resume=<folder>``: that run's configuration, going on to its number of draws."""
    if config["resume"] is None:
        return config
    folder = Path(config["resume"])
    if not (folder / "config.yaml").is_file():
        raise ZooError(f"resume={folder}: there is no run to go on with (no config.yaml)")
    if (folder / "results.nc").is_file() and not list(folder.glob("checkpoint-*.npz")):
        raise ZooError(f"resume={folder}: that run is finished")
    old = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(folder / "config.yaml")))
    if not list(folder.glob("checkpoint-*.npz")):
        raise ZooError(f"resume={folder}: there is nothing to go on from (no checkpoint was written); start a new run")
    from inference.fitting import method_module

    others = method_module(config["method"]).Options._fields  # of the method that none has asked for: the run has its own
    config = {name: value for name, value in config.items() if name not in others}
    return config | old | {"out": str(folder), "resume": str(folder), "progress": config["progress"]}
