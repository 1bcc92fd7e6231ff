"""`load_data` reads files, DataFrames, arrays, texts and named data sets into `Data`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from models.data.arguments import checked_weight, column_name, column_names, require_flag, require_texts
from models.data.beside import require_meaning, take_weights, weighed, with_kept_columns
from models.data.columns import Layout, as_label, as_typed, checked_types, with_types
from models.data.covariance_matrix import of_covariance
from models.data.labels import with_labels
from models.data.table import (
    SEQUENCE_NAME,
    Data,
    ZooError,
    first_cell,
    is_sparse,
    is_table,
    keep_columns,
    require_no_categories,
    require_rows,
)
from models.errors import did_you_mean, some_of
from models.reading.arrays import as_sequences, is_symbols, starts_of, symbols, with_starts
from models.reading.generated import generate, is_named
from models.reading.grouping import in_sequences, names_of_sequences
from models.reading.readers import EMPTY, Wanted, read
from models.reading.repairs import Repairs, checked_repairs

UNSEEN = ". Correct the cell, leave it empty, or fit with model.unseen=missing"  # of a model that keeps a layout
CORPUS = ("vocabulary", "min_documents", "stop_words")  # options of files of counts, and of texts


def load_data(
    source: Any,
    *,
    label: str | int | None = None,
    columns: Sequence[str] | str | None = None,
    drop_constant: bool = False,
    threshold: float | None = None,
    labels: Any = None,
    text: str | None = None,
    unit: str | None = None,
    empty: str | None = None,
    weight: ArrayLike | str | None = None,
    weights: str | None = None,
    name: str | None = None,
    types: Mapping[str, str] | None = None,
    sequence: str | None = None,
    lengths: ArrayLike | None = None,
    keep: Sequence[str] | str | None = None,
    units: Mapping[str, str] | None = None,
    dates: Mapping[str, str] | None = None,
    merge: Mapping[str, Mapping[str, str]] | None = None,
    **options: Any,
) -> Data:
    """Read a data set into `Data`.

    Args:
        source: Name of a data set (`models.datasets.tables.DATASETS`); path of a CSV, Parquet or Arrow file; pandas DataFrame,
            or any table with the Arrow interface (polars, pyarrow); array; SciPy sparse matrix; list of texts, or of lists of
            tokens; list of arrays, one per sequence (`models.reading.arrays`).
        label: Column that holds the labels. Classes are sorted, or in the order of a pandas Categorical; log-odds are
            relative to the first class.
        columns: Columns to keep, in this order; for a sparse matrix the names of its columns.
        drop_constant: Whether to drop columns with a single value.
        threshold: Binarise: 1 for numbers above the threshold, otherwise 0.
        labels: One label per row, if they are not a column. None is a missing label, ``"a|b"`` a set of candidates.
        text: Column of texts, which are split into tokens.
        unit: Tokens of texts: word (default), character, or kind (of character).
        empty: Rows whose text is missing: ``keep`` (documents without words) or ``drop``; by default they are an error.
        weight: One non-negative number per row, or the column that holds them.
        weights: Their meaning: ``counts`` (a row of weight 3 stands for three rows), which is taken where all are whole
            numbers, or ``relative`` (scaled to mean 1 over the rows with a weight above 0), which is taken otherwise.
        name: Name for messages and results.
        types: Column -> number, count, category, label, or to drop it: identifier, ignore.
        sequence: Column that names the sequence of a row, for models of time (`models.reading.grouping`); results hold it.
        lengths: The lengths of sequences that follow each other in one table or array; they sum to its number of rows.
        keep: Columns, such as identifiers, that are not modelled, and that results hold with their rows.
        units: Column -> the unit of its numbers: ``{"weight": "kg"}`` (`models.reading.repairs`, also for the next two).
        dates: Column -> ymd, dmy or mdy, to read its dates as days since 1970-01-01.
        merge: Column -> spelling -> level: ``{"sex": {"F": "female"}}``; a spelling ``""`` is of empty cells, a level ``""``
            empties cells in this column alone.
        **options: For a named data set the options of its generator. For a table ``missing``, ``separator``, ``decimal``,
            ``thousands`` and ``encoding`` (`models.cells.style`), for a text file ``skip``, ``header`` and
            ``skip_end`` (`models.reading.lines.above`), or ``kind="covariance"`` and ``num_rows`` for a
            covariance matrix with divisor ``num_rows``, which is enough for factor models. For a corpus
            ``format`` (lda_c, uci or texts) and the options of `models.reading.corpus_files.read_corpus`.

    Raises:
        ZooError: The source cannot be read; the message names file, column, row and value.

    >>> import pandas as pd
    >>> data = load_data(pd.DataFrame({"height": [1.7, None], "sex": ["f", "m"], "species": ["a", "b"]}), label="species")
    >>> data.columns, data.categories, data.levels
    (('height', 'sex'), ((), ('f', 'm')), ('a', 'b'))
    """
    label, text, sequence = column_name("label", label), column_name("text", text), column_name("sequence", sequence)
    columns, to_keep = column_names(columns), column_names(keep, "keep") or []
    require_flag("drop_constant", drop_constant)
    require_texts(unit=unit, empty=empty, weights=weights, name=name, kind=options.get("kind"), format=options.get("format"))
    require_meaning(weights, weight is not None)
    _require_empty(empty, text)
    repairs = checked_repairs(units, dates, merge)
    types, label = checked_types(_kinds(types, repairs, [column for column in to_keep if column != sequence]), label)
    weighing = weight if isinstance(weight, str) else None
    aside = [column for column in (sequence, weighing) if column is not None]  # always read, but not kept as columns
    if sequence is not None:
        types = types | {sequence: "category"}
    if columns is not None:
        columns = [column for column in columns if column not in aside]
    source, starts = as_sequences(source, lengths)
    if isinstance(source, Data):
        if options:
            raise ZooError(f"unknown data option {min(options)!r}: {source.name} has already been read")
        _require_no_repairs(repairs, source.name)
        data = source
    elif isinstance(source, str) and is_named(source):
        _require_no_repairs(repairs, source)
        data = generate(source, options | ({"unit": unit} if unit is not None else {}))
    elif is_symbols(source) and (starts is not None or lengths is not None):
        starts = starts_of(lengths, len(source)) if starts is None else starts
        data, starts, lengths = symbols(source, starts, name or "sequences"), None, None
    else:
        names = None if columns is None else [*columns, *aside, *(column for column in to_keep if column not in columns)]
        wanted = Wanted(
            label, names, text, unit, name, types, repairs=repairs, sequence=sequence, keep=tuple(to_keep), empty=empty
        )
        data = _read(source, wanted, options)
        data = data._replace(kept_columns=tuple((column, cells) for column, cells in data.kept_columns if column in to_keep))
        if is_table(data):  # the label and dropped columns have been handled
            columns, types = None, {column: kind for column, kind in types.items() if column in data.columns}
        label = None
    if not is_table(data):  # kept columns of a table of texts
        types = {column: kind for column, kind in types.items() if column not in dict(data.kept_columns)}
    data = with_types(data, types, repairs.reasons)
    known = {} if sequence is None else {sequence: names_of_sequences(data, sequence)}
    if sequence in to_keep:  # names may be those of patients: results hold none by default
        known[SEQUENCE_NAME] = known[sequence]
    data = in_sequences(data, sequence)
    if starts is not None or lengths is not None:
        data = with_starts(data, starts_of(lengths, data.num_rows) if starts is None else starts)
    data = with_kept_columns(data if weighing is None else take_weights(data, weighing), to_keep, known)
    data = _select(data, label, columns, drop_constant)
    if data.x.shape[0] == 0:
        raise ZooError(f"{data.name} has no rows")
    if (cell := first_cell(data, np.isinf)) is not None:
        raise ZooError(f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the value is infinite; correct or remove it")
    if threshold is not None or labels is not None or weight is not None or data.categories:
        require_rows(data, "threshold, labels, weight and categories need rows")
    data = with_labels(_binarised(data, threshold), labels)
    data = data._replace(name=name or data.name, weight=checked_weight(None if weighing is not None else weight, data))
    return data if weight is None else weighed(data, weights)


def _require_empty(empty: str | None, text: str | None) -> None:
    """Raises `ZooError` for an unknown way to read empty texts, or for a table without a column of texts."""
    if empty is not None and empty not in EMPTY:
        raise ZooError(f"empty={empty!r} is not one of {', '.join(EMPTY)}")
    if empty is not None and text is None:
        raise ZooError(f"empty={empty} is for a column of texts: name it by data.text=<column>")


def _kinds(types: Any, repairs: Repairs, to_keep: list[str]) -> Any:
    """The user's types; otherwise numbers with units and dates are numbers, and kept columns are left out."""
    if types is not None and not isinstance(types, Mapping):
        return types  # `checked_types` raises the error
    implied = dict.fromkeys(repairs.reasons, "number") | dict.fromkeys(to_keep, "identifier")
    return implied | {str(column): kind for column, kind in (types or {}).items()} or None


def _require_no_repairs(repairs: Repairs, name: str) -> None:
    if repairs.columns:
        raise ZooError(f"units, dates and merge are for tables that are read from files or frames; {name} has been read")


def _read(source: Any, wanted: Wanted, options: dict[str, Any]) -> Data:
    """Read a file, a frame, an array or texts, of rows or as a covariance matrix."""
    kind, size = options.pop("kind", "table"), options.pop("num_rows", None)
    format, corpus = options.pop("format", None), {option: options.pop(option) for option in CORPUS if option in options}
    if kind not in ("table", "covariance"):
        raise ZooError(f"kind={kind!r} is not one of table, covariance")
    if kind == "covariance" and format is not None:
        raise ZooError(f"kind=covariance cannot be combined with format={format}, which holds documents")
    data = read(source, wanted._replace(format=format, corpus=corpus), options)
    if kind == "covariance":
        return of_covariance(data, size)
    if size is not None:
        raise ZooError("num_rows is only for kind=covariance")
    return data


def as_data(source: Any) -> Data:
    """Return `Data` unchanged; read anything else with `load_data`."""
    return source if isinstance(source, Data) else load_data(source)


def _binarised(data: Data, threshold: float | None) -> Data:
    if threshold is None:
        return data
    if not is_table(data):
        raise ZooError(f"{data.name} holds documents: threshold needs numbers")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not abs(threshold) <= sys.float_info.max:
        raise ZooError(f"threshold must be a number, got {threshold!r}")
    threshold = float(threshold)  # a whole number may have more digits than NumPy's
    require_no_categories(data, "threshold needs numbers")
    if is_sparse(data.x):
        if threshold < 0:
            raise ZooError("threshold must be 0 or more for sparse counts: their empty cells are 0")
        return data._replace(x=sparse.csr_array(data.x > threshold, dtype=np.float64))
    return data._replace(x=np.where(np.isnan(data.x), np.nan, data.x > threshold), categories=(), kinds=())


def _select(data: Data, label: str | None, columns: list[str] | None, drop_constant: bool) -> Data:
    """Apply ``label``, ``columns`` and ``drop_constant`` to a data set."""
    if label is not None and label != data.label:
        data = as_label(data, label)
    if not is_table(data) and (columns is not None or drop_constant):
        raise ZooError(f"{data.name} holds documents: columns and drop_constant are for tables")
    if columns is not None:
        for wanted in columns:
            if wanted not in data.columns:
                near = did_you_mean(wanted, data.columns)
                raise ZooError(f"{data.name} has no column {wanted!r}{near}; its columns are {some_of(data.columns)}")
        data = keep_columns(data, [data.columns.index(c) for c in columns])
    if drop_constant:
        data = keep_columns(data, [d for d in range(len(data.columns)) if not _is_constant(data.x[:, [d]])])
    if is_table(data) and not data.columns:
        raise ZooError(f"{data.name} has no columns to model")
    return data


def _is_constant(column: Any) -> bool:
    values = column.toarray() if is_sparse(column) else column
    return len(np.unique(values[~np.isnan(values)])) <= 1


def read_as(source: Any, like: Layout, unseen: str = "error") -> Data:
    """Read anything that `load_data` reads with the columns, kinds and levels of ``like`` (`models.data.columns.as_typed`)."""
    return as_typed(_read_for(source, like), like, unseen, UNSEEN)


def _read_for(source: Any, like: Layout) -> Data:
    if isinstance(source, Data):
        return source
    if isinstance(source, str) and is_named(source):
        return load_data(source)
    types = {column: "category" for column, levels in zip(like.columns, like.categories, strict=True) if levels}
    return load_data(source, columns=list(like.columns), types=types)
