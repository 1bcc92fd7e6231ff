"""Short texts for tables and models, in place of the arrays and functions in them: as text, and as HTML for notebooks."""

import html
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from scipy import sparse

SHOWN = 12  # columns, and entries of a hyperparameter
LEVELS = 6


class Tabular(Protocol):
    """The fields of a `models.data.table.Data` that these functions read; it cannot be imported here."""

    @property
    def name(self) -> str: ...
    @property
    def x(self) -> Any: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> np.ndarray | None: ...
    @property
    def label(self) -> str | None: ...
    @property
    def levels(self) -> tuple[str, ...]: ...
    @property
    def weight(self) -> np.ndarray | None: ...
    @property
    def weights(self) -> str: ...
    @property
    def categories(self) -> tuple[tuple[str, ...], ...]: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def moments(self) -> bool: ...
    @property
    def starts(self) -> np.ndarray | None: ...
    @property
    def num_rows(self) -> int: ...


def data_text(data: Tabular) -> str:
    """One line on the table, then one per column: kind, missing cells, range or levels."""
    rows = columns_of(data)
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)] if rows else []
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"Data {title(data)}", *(f"  {line}" for line in lines), *_rest(data, len(rows))])


def data_html(data: Tabular) -> str:
    """The same as a table."""
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in columns_of(data))
    rest = "".join(f"<p>{html.escape(line.strip())}</p>" for line in _rest(data, len(columns_of(data))))
    head = "<tr><th>column</th><th>kind</th><th>missing</th><th>range or levels</th></tr>"
    return f"<b>Data</b> {html.escape(title(data))}<table>{head}{rows}</table>{rest}"


def title(data: Tabular) -> str:
    """Name and size of a table in words, and its labels."""
    labels = "" if data.labels is None else f", labels {data.label or ''} ({_some(data.levels)})".replace("  ", " ")
    weights = "" if data.weight is None else ", with relative weights" if data.weights == "relative" else ", with weights"
    if sparse.issparse(data.x):
        return f"{data.name}: {data.num_rows} documents, {len(data.columns)} words{labels}{weights}"
    if not isinstance(data.x, np.ndarray):
        return f"{data.name}: {data.num_rows} sequences, {len(data.x.tokens)} steps{labels}{weights}"
    if data.moments:
        return f"{data.name}: mean and covariance of {len(data.columns)} columns"
    steps = "" if data.starts is None else f" in {len(data.starts) - 1} sequences"
    return f"{data.name}: {data.num_rows} rows{steps}, {len(data.columns)} columns{labels}{weights}"


def columns_of(data: Tabular) -> list[tuple[str, str, str, str]]:
    """(column, kind, missing cells, range or levels) of the first columns of a table of cells; [] for words and sequences."""
    if not isinstance(data.x, np.ndarray) or data.moments:
        return []
    kinds, categories = data.kinds or ("",) * len(data.columns), data.categories or ((),) * len(data.columns)
    described = []
    for column, kind, levels, cells in zip(data.columns, kinds, categories, data.x.T[:SHOWN], strict=False):
        seen = cells[~np.isnan(cells)]
        missing = f"{len(cells) - len(seen)} missing" if len(seen) < len(cells) else ""
        holds = _some(levels) if levels else f"{seen.min():.4g} to {seen.max():.4g}" if len(seen) else ""
        described.append((column, kind or ("category" if levels else "number"), missing, holds))
    return described


def _rest(data: Tabular, shown: int) -> list[str]:
    hidden = len(data.columns) - shown
    return [f"  and {hidden} more columns"] if shown and hidden else []


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:LEVELS]) + (", …" if len(names) > LEVELS else "")


def model_text(name: str, options: Mapping[str, Any], hyper: Mapping[str, Any], description: str | None) -> str:
    """The options of a model, its generative program in maths, and the numbers of its prior."""
    given = ", ".join(f"{option}={value!r}" for option, value in options.items() if isinstance(value, str | float | int))
    maths = [f"  {line}".rstrip() for line in generative(description or "").splitlines()]
    numbers = [f"    {one} = {_number(value)}" for one, value in hyper.items()]
    return "\n".join([f"Model {name}({given})", *maths, *(["  Prior:", *numbers] if numbers else [])])


def model_html(name: str, options: Mapping[str, Any], hyper: Mapping[str, Any], description: str | None) -> str:
    """The same, in fixed width."""
    return f"<pre>{html.escape(model_text(name, options, hyper, description))}</pre>"


def generative(description: str) -> str:
    """The beginning of a model's docstring, up to the last indented paragraph of the generative program."""
    paragraphs = description.strip("\n").split("\n\n")
    drawn = [place for place, one in enumerate(paragraphs) if one.startswith("    ") and " ~ " in one and "E-step" not in one]
    return "\n\n".join(paragraphs[: max(drawn, default=0) + 1])


def _number(value: Any) -> str:
    """A hyperparameter: its number if all entries are equal, the first entries otherwise."""
    array = np.asarray(value)
    if array.size and (array == array.flat[0]).all():
        return f"{array.flat[0]:.4g}" + (f" in all {array.size} entries" if array.size > 1 else "")
    if array.size <= SHOWN and array.ndim == 1:
        return "(" + ", ".join(f"{entry:.4g}" for entry in array) + ")"
    return f"{array.min():.4g} to {array.max():.4g}, shape {array.shape}"
