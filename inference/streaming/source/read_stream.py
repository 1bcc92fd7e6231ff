"""`read_stream`: files as a source of blocks, with a sample of their rows on which a model is built."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from inference.streaming.source.blocks import BLOCK_ROWS, Block, Sampled, Source, digest_of
from inference.streaming.source.files import Known, cut, files_of, style_at, table_of
from inference.streaming.source.processes import Group
from inference.streaming.source.scan import SAMPLE_ROWS, Scan, scanned, store_scan, stored_scan
from models.algebra import is_sequential
from models.base import Data, Model, ZooError
from models.data.arguments import column_name, column_names
from models.data.columns import categories_of, checked_types
from models.data.table import BOOLEAN, is_table
from models.reading.blocks import REPAIRS, counted_from
from models.reading.repairs import checked_repairs


class Files(Source):
    """The blocks of files, read as `models.load_data` reads a table with the same options."""

    def __init__(self, path: str | Path, options: Mapping[str, Any], block_rows: int, scan: Scan) -> None:
        self.name, self._options, self._block_rows = str(path), dict(options), block_rows
        self._paths, self._rows, self._weighing = files_of(path), scan.rows, scan.weighing
        self.num_blocks = sum(map(len, scan.rows.values()))
        self.num_rows = sum(map(sum, scan.rows.values()))
        self.sample: Data = scan.data(path, self._options)
        self._style, self._words, self._hints = style_at(path, self._options), scan.words, _hints_of(self.sample, scan.words)
        self.sampled = Sampled(self.sample, scan.numbers, self.num_rows == self.sample.num_rows)
        self.identity = f"{scan.rows} {scan.digest} {digest_of(self.sample)}"

    def __repr__(self) -> str:
        size = f"{self.num_rows:,} rows in {self.num_blocks:,} blocks"
        return f"Files({self.name!r}: {size}, a sample of {self.sample.num_rows:,})"

    def require_taken_by(self, model: Model) -> None:
        """As `Source.require_taken_by`."""
        if is_sequential(model) and is_table(self.sample) and self.sample.starts is None:
            raise ZooError(
                f"{self.name} has no column that names sequences, and a single sequence cannot be cut into blocks: name the "
                "column by sequence=, or fit it in memory"
            )

    def read(self, first: int, last: int | None) -> Iterator[Block]:
        """As `Source.read`."""
        number = row = 0
        for path in self._paths:
            rows = self._rows.get(path.name, ())
            skipped = min(max(first - number, 0), len(rows))
            if skipped < len(rows) and (last is None or number < last):
                yield from self._of_file(path, row, skipped, len(rows) if last is None else min(last - number, len(rows)))
            number, row = number + len(rows), row + sum(rows)

    def _of_file(self, path: Path, row: int, first: int, last: int) -> Iterator[Block]:
        """Its blocks number ``first`` … ``last`` − 1; its first row is number ``row`` of all."""
        rows = self._rows[path.name]
        begin = row + sum(rows[:first])
        whole = self._options.get("sequence") is not None  # where a block ends depends on all before it
        frames = cut(path, self._options, self._block_rows, 0 if whole else sum(rows[:first]), self._words)
        for place, frame in enumerate(frames, 0 if whole else first):
            if place == last:
                return
            if place < first:
                continue
            if place >= len(rows) or len(frame) != rows[place]:
                raise ZooError(f"{path} has changed since it was first read; start again")
            with counted_from(begin):
                known = Known(self._hints, self._weighing)
                yield Block(table_of(frame, self.name, self._options, self._style, known), begin)
            begin += len(frame)


def _hints_of(sample: Data, words: Collection[str]) -> dict[str, str]:
    """The kinds of columns in the sample: numbers, or levels with their names as written."""
    if not is_table(sample):
        return {}
    levels = dict(zip(sample.columns, categories_of(sample), strict=True))
    hints = {name: ("category" if kinds == BOOLEAN else "word") if kinds else "number" for name, kinds in levels.items()}
    return hints | ({sample.label: "category"} if sample.label is not None and sample.label in words else {})


def read_stream(
    path: str | Path,
    *,
    block_rows: int = BLOCK_ROWS,
    sample_rows: int = SAMPLE_ROWS,
    seed: int = 0,
    folder: str | Path | None = None,
    **options: Any,
) -> Files:
    """Scan the rows in a file, or in all tables of a folder, and open them for `inference.fit`.

    ``options`` are those of `models.load_data` for a table. The ``sample`` of the result, a `Data` of ``sample_rows`` rows
    drawn without replacement, is for building a model. A word that no row of it has adds a row. The scan is stored in
    ``folder``, and read there again. Processes of one fit give the same folder, and the first of them scans. Raises `ZooError`
    for files that cannot be read.

    >>> files = read_stream("rows/", label="species")  # doctest: +SKIP
    >>> model = MODELS["linear_discriminant"](files.sample)  # doctest: +SKIP
    >>> tree = fit(model, files, "em")  # doctest: +SKIP
    """
    checked = _checked({name: value for name, value in options.items() if value is not None and value is not False})
    requested = checked | {"block_rows": block_rows, "sample_rows": sample_rows, "seed": seed}
    group = Group()
    if group.size > 1 and folder is None:
        raise ZooError("several processes share one scan of the files: give them one folder=")
    scan = files = None
    if group.rank == 0:
        scan = None if folder is None else stored_scan(Path(folder), path, requested)
        if scan is None:
            scan = scanned(path, checked, block_rows, sample_rows, seed)
            files = _opened(path, checked, block_rows, scan)
            if folder is not None:  # only now: nothing is stored for a sample that cannot be read
                store_scan(Path(folder), path, requested, scan)
    group.barrier()
    if scan is None:
        assert folder is not None
        scan = stored_scan(Path(folder), path, requested, same_host=False)
    if scan is None:
        raise ZooError(f"process {group.rank} does not see {folder}, where process 0 has written: the folder must be shared")
    return _opened(path, checked, block_rows, scan) if files is None else files


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options with names of columns as texts; raises `ZooError` for one that needs all rows at once."""
    if "drop_constant" in options:
        raise ZooError(
            "drop_constant needs all rows in memory, and these are read block by block: leave such columns out by types="
        )
    checked_repairs(*(options.get(name) for name in REPAIRS))
    types, label = checked_types(options.get("types"), column_name("label", options.get("label")))
    named: dict[str, Any] = {"types": types or None, "label": label}
    named |= {name: column_name(name, options.get(name)) for name in ("weight", "sequence")}
    named |= {
        name: list(dict.fromkeys(column_names(options[name], name) or [])) for name in ("columns", "keep") if name in options
    }
    return {name: value for name, value in (options | named).items() if value is not None}


def _opened(path: str | Path, options: Mapping[str, Any], block_rows: int, scan: Scan) -> Files:
    """The files, after a scan; raises `ZooError` for a wrong cell in the sample, with its file and its row there."""
    try:
        return Files(path, options, block_rows, scan)
    except ZooError:
        for file in files_of(path):
            first = 0
            for frame in cut(file, options, block_rows, words=scan.words):
                with counted_from(first):
                    table_of(frame, str(file), options, style_at(file, options), Known())
                first += len(frame)
        raise
