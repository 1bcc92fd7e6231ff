"""`inference.predict` from the shell: a finished run's predictions for the rows of a new table, written block by block.

JAX is imported once there is a run to read, so that a wrong argument fails at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from inference.cli.runs.config import compose
from inference.cli.runs.execute import prepare_jax
from inference.cli.runs.fitted_run import FittedRun, finished_config, fitted_run, key_values
from inference.cli.written_tables import in_tables
from inference.methods.options import NUM_DRAWS, check_seed
from inference.runtime.files import remove
from inference.runtime.formats.texts import visible
from models.cells.overrides import BY_COLUMN
from models.data.arguments import column_names, require_whole
from models.data.table import SEQUENCE_NAME, ZooError, has_missing_cell, is_table
from models.errors import exists
from models.reading.blocks import READING, RowBlock, counted_from, read_blocks
from models.reading.files import marks_of
from models.reading.generated import is_named

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("run", "data", "out")
OPTIONS = ("seed", "num_draws", "block", "overwrite")
ROWS, ROWS_OF_THEIR_OWN = 10_000, 1_000  # in a block; rows with local parameters need memory for all draws of these


LONGEST = 100  # digits of a number: Python reads no more than 4300
NUMBERS = ("row", "sequence", "step")  # columns that name the row of a line
OF_THEIR_OWN = (*NUMBERS, SEQUENCE_NAME, "assignment", "probability", "viterbi", "log_density")  # columns of predictions


class PredictRequest(NamedTuple):
    """The arguments of the command."""

    run: Path
    data: str
    out: Path
    reading: dict[str, Any]  # options of data that were given
    seed: int
    num_draws: int
    block: int | None
    overwrite: bool
    keep: list[str] | None  # columns to add to the predictions; None: those of the run that the new table has

    @property
    def imputed(self) -> Path:
        """The table of the imputed cells."""
        return self.out.with_name(f"{self.out.stem}.imputed{self.out.suffix}")


def predict_rows(arguments: list[str]) -> int:
    """Write the predictions for the rows of a new table; returns the exit code."""
    request = parsed(arguments)
    config, _ = finished_config(request.run)
    if config["model"]["name"] == "program":
        raise ZooError(f"run={request.run} is a run of your own program, which predicts from Python: inference.predict")
    prepare_jax(config)
    run = fitted_run(request.run)
    from models.algebra import is_sequential

    number, cells, warnings = write_predictions(run, request)
    print(f"{number} {'steps' if is_sequential(run.model) else 'rows'} of {request.data} by {request.run}: {request.out}")
    if cells:
        print(f"{cells} missing cells: {request.imputed}")
    for line in warnings:
        print(f"! {visible(line)}")
    return 0


def parsed(arguments: list[str]) -> PredictRequest:
    """The arguments ``key=value``; raises `ZooError` for an unknown, missing or impossible one."""
    takes = f"it takes {', '.join((*NEEDED, *OPTIONS))} and data.<option>, as key=value"
    given = key_values(arguments, lambda key: key in (*NEEDED, *OPTIONS) or key.startswith("data."), takes)
    if absent := [name for name in NEEDED if not given.get(name)]:
        raise ZooError(f"{absent[0]}= is missing: python -m inference.predict run=<folder> data=<file> out=<file>.csv")
    if given.get("overwrite", "false") not in ("true", "false"):
        raise ZooError(f"overwrite must be true or false, got {given['overwrite']!r}")
    reading = _reading(given)
    request = PredictRequest(
        Path(given["run"]),
        given["data"],
        Path(given["out"]),
        reading,
        _whole("seed", given, 0),
        _whole("num_draws", given, NUM_DRAWS),
        _whole("block", given, 0) or None,
        given.get("overwrite") == "true",
        None if "data.keep" not in given else column_names(reading.pop("keep"), "keep") or [],
    )
    if clashes := [name for name in request.keep or [] if name in OF_THEIR_OWN]:
        raise ZooError(f"data.keep: the predictions already have a column {clashes[0]!r}; rename that of the table")
    check_seed(request.seed)
    require_whole("num_draws", request.num_draws)
    require_whole("block", request.block or 1)
    _require_place(request)
    return request


def _whole(name: str, given: Mapping[str, str], usual: int) -> int:
    if not given.get(name, "0").isdecimal() or len(given.get(name, "0")) > LONGEST:
        raise ZooError(f"{name} must be a whole number, got {given[name]!r}")
    return int(given.get(name, usual))


def _reading(given: Mapping[str, str]) -> dict[str, Any]:
    """The options of data that the command line sets, read as those of a run."""
    typed = [f"{key}={value}" for key, value in given.items() if key.startswith("data.")]
    names = [key.split(".")[1] for key in given if key.startswith("data.")]
    if other := [name for name in names if name not in (*READING, "keep")]:
        raise ZooError(
            f"data.{other[0]} is of the run: new rows have its columns, kinds and levels; here one may set "
            f"{', '.join(f'data.{name}' for name in (*READING, 'keep'))}"
        )
    section = compose(["data=file", *typed])["data"]
    return {name: section[name] for name in names}


def _require_place(request: PredictRequest) -> None:
    """Raises `ZooError`, before anything is computed, where the predictions cannot be written."""
    if request.out.suffix not in (".csv", ".parquet"):
        raise ZooError(
            f"out={request.out}: predictions are written as CSV or Parquet; give a name that ends in .csv or .parquet"
        )
    if not request.out.parent.is_dir():
        raise ZooError(f"out={request.out}: there is no folder {request.out.parent}")
    if exists(request.data) and Path(request.data).is_dir() and request.out.parent.samefile(request.data):
        raise ZooError(f"out={request.out} is in the folder that is read: choose another one")
    for path in (request.out, request.imputed):
        if exists(request.data) and path.exists() and path.samefile(request.data):
            raise ZooError(f"out={request.out} would overwrite the table that is read: choose another name")
        if path.exists() and (path.is_dir() or not request.overwrite):
            raise ZooError(f"out={request.out}: there is a {path} already; choose another name, or say overwrite=true")


class BlockPredictions(NamedTuple):
    """Predictions of one block."""

    lines: pd.DataFrame
    cells: pd.DataFrame  # its missing cells
    wholes: int  # rows of the model: sequences, where the lines are steps
    warnings: list[str]  # about labels


def write_predictions(run: FittedRun, request: PredictRequest) -> tuple[int, int, list[str]]:
    """Write both tables; returns the numbers of rows, or steps, and of missing cells, and the warnings about labels."""
    number = cells = wholes = 0
    warnings: dict[str, None] = {}
    marks = marks_of(request.data, run.config["data"] | request.reading)
    with in_tables(request.out, marks) as write_lines, in_tables(request.imputed, marks, ["imputed"]) as write_cells:
        for block in new_rows(run, request):
            with counted_from(block.first):
                predictions = predictions_of(run, request, block, wholes)
            write_lines(predictions.lines)
            if len(predictions.cells):
                write_cells(predictions.cells)
            number, cells, wholes = number + len(predictions.lines), cells + len(predictions.cells), wholes + predictions.wholes
            warnings |= dict.fromkeys(predictions.warnings)
    if not cells:
        remove(request.imputed)  # of earlier predictions, which overwrite=true replaces
    return number, cells, list(warnings)


def new_rows(run: FittedRun, kept_of_run: PredictRequest) -> Iterator[RowBlock]:
    """The rows of the new table in blocks, with the columns and levels of the run."""
    from models.algebra import is_sequential

    options = reading_of(run, kept_of_run)
    assert run.model.algebra is not None
    size: int | None = kept_of_run.block or (ROWS_OF_THEIR_OWN if run.model.algebra.structure.local else ROWS)
    if is_sequential(run.model) and is_table(run.observed) and options["sequence"] is None:
        size = None  # the table is one sequence
    columns_kept = column_names(run.config["data"].get("keep"), "keep") or []
    inherited = [] if kept_of_run.keep is not None else [name for name in columns_kept if name not in OF_THEIR_OWN]
    begin = 0
    for path in _paths(kept_of_run.data, options):
        end = begin
        layout, keep, unseen = run.model.reading.layout, kept_of_run.keep or [], run.config["model"].get("unseen", "error")
        for block in read_blocks(path, run.observed, layout, options, size, keep, inherited, unseen):
            yield block._replace(first=begin + block.first)
            end = begin + block.first + block.data.num_rows
        begin = end


def reading_of(run: FittedRun, request: PredictRequest) -> dict[str, Any]:
    """How new rows are read: as those of the run, unless the command has other options; of single columns, column by column."""
    return merged({name: run.config["data"].get(name) for name in (*READING, "types")}, request.reading)


def merged(of_run: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the run, in which those that were given replace others: of single columns, column by column."""
    combined = dict(of_run)
    for name, value in given.items():
        combined[name] = {**(of_run[name] or {}), **value} if name in BY_COLUMN and value is not None else value
    return combined


def _paths(data: str, options: Mapping[str, Any]) -> list[str]:
    """The new table, or the tables of a folder in the order of their names."""
    if is_named(data) or options.get("format") is not None or not (exists(data) and Path(data).is_dir()):
        return [data]
    from inference.streaming.source.files import files_of

    return [str(path) for path in files_of(data)]


def predictions_of(run: FittedRun, request: PredictRequest, block: RowBlock, wholes: int) -> BlockPredictions:
    """Predictions for new rows, of which ``wholes`` came before, as `inference.predict` makes them with ``fitted=False``."""
    import pandas as pd

    from inference.predictions.imputation import cell_lines, impute
    from inference.predictions.predict import without_cells
    from inference.predictions.views import view_of
    from inference.results.draws import forget_labels

    predicted = without_cells(run.model, run.tree, block.data, request.seed, request.num_draws, fitted=False)
    cells = pd.DataFrame()
    if run.model.abilities.table is not None and has_missing_cell(run.model.read(block.data)):
        data = forget_labels(run.model, block.data)
        imputed = impute(run.model, run.tree, data, request.num_draws, request.seed, fitted=False, first_row=block.first)
        cells = cell_lines(run.model, imputed, block.first)
    warnings = [line for line in str(predicted.attrs.get("warnings", "")).split("\n") if line]
    lines = with_kept_columns(view_of(run.model).lines(predicted, wholes), block.kept_columns)
    if reading_of(run, request)["empty"] == "drop" and len(lines) == block.data.num_rows:
        lines = lines[block.data.x.lengths > 0]  # the others keep their numbers
    return BlockPredictions(lines, cells, predicted.sizes["row"], warnings)


def with_kept_columns(lines: pd.DataFrame, kept_columns: Mapping[str, list[str]]) -> pd.DataFrame:
    """Predictions with columns of the new table, row by row or step by step, inserted after the row numbers.

    Raises `ZooError` for a name that the predictions have, too.
    """
    if twice := [name for name in kept_columns if name in lines]:
        raise ZooError(f"data.keep: the predictions already have a column {twice[0]!r}; rename that of the table")
    place = sum(name in NUMBERS for name in lines)
    for name, cells in reversed(list(kept_columns.items())):
        lines.insert(place, name, cells)
    return lines
