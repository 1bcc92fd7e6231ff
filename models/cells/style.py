"""How a source writes its cells: marks in numbers, spellings of missing cells, encoding, and which lines are a table."""

import codecs
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from models.errors import ZooError, did_you_mean

MISSING = ("?",)
PANDAS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN",
    "None", "n/a", "nan", "null",
)  # fmt: skip
AMONG_NUMBERS = ("-", "--", "–", "—", ".", "..", "...", "*", "na", "n.a.", "missing", "unknown")
DOUBTFUL = tuple(sorted({*AMONG_NUMBERS, *map(str.lower, PANDAS)}))  # in lower case
MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "point": ".", "space": " ", "apostrophe": "'", "bar": "|", "none": ""}
NO_MARKS = '"+-\n\r\0'  # in addition to letters and digits: quotes, signs and ends of lines


class Style(NamedTuple):
    """How a source writes its cells; `style_of` builds it from the options of a user."""

    words: tuple[str, ...] = MISSING  # spellings of a missing cell, in addition to the empty cell
    among_numbers: tuple[str, ...] = DOUBTFUL
    separator: str | None = None  # between the columns of a text file; default: a comma, in .tsv a tab
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"  # of a text file
    skip: int | None = None  # lines above the names, which are left out; None: not given
    header: int | None = None  # lines of names, 0 for none; None: one, unless the first lines look different
    skip_end: int | None = None  # lines below the rows


LINES = ("skip", "header", "skip_end")  # options of which lines of a text file are a table
OPTIONS = ("missing", "separator", "decimal", "thousands", "encoding", *LINES)


def style_of(options: Mapping[str, Any], plain: bool) -> Style:
    """Build a `Style` from options of `load_data`; ``plain``: for a text file. Raises `ZooError` for unknown ones."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        takes = "label, labels, columns, keep, types, units, dates, merge, weight, weights, drop_constant, threshold, text"
        takes += ", unit, empty, format"
        near = did_you_mean(unknown[0], [*takes.split(", "), *OPTIONS])
        raise ZooError(f"unknown data option {unknown[0]!r}{near}: the options of a table are {takes}, {', '.join(OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    missing = given.pop("missing", None)
    fixed: dict[str, Any] = {name: _lines(name, given.pop(name)) for name in LINES if name in given}
    fixed["encoding"] = _encoding(given.pop("encoding", "utf-8"))
    for name, value in given.items():
        mark = MARKS.get(value, value) if isinstance(value, str) else None
        if mark is None or len(mark) > 1 or (not mark and name != "thousands"):
            raise ZooError(f"{name}={value!r} is neither one character nor one of {', '.join(MARKS)}")
        if mark.isalnum() or (mark and mark in NO_MARKS) or (name == "separator" and not mark.isascii()):
            raise ZooError(
                f"{name}={value!r} cannot be a mark, as numbers, words or lines hold it: take one of {', '.join(MARKS)}"
            )
        given[name] = mark
    if given.get("thousands") == ".":
        given.setdefault("decimal", ",")  # otherwise 63.503 of a repair would be read as 63503
    usual = (*MISSING, *PANDAS) if plain else MISSING
    if missing is None:
        return Style(words=usual, **fixed, **given)
    added = missing if isinstance(missing, list | tuple | set) else [missing]
    if not added:
        return Style(words=(), among_numbers=(), **fixed, **given)
    return Style(words=(*usual, *("null" if word is None else cell_name(word) for word in added)), **fixed, **given)


def _lines(option: str, value: Any) -> int:
    """A number of lines; raises `ZooError`."""
    if option == "header":
        if value == "none":
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ZooError(f"header={value!r} is neither none nor a number of lines with names, such as 1 or 2")
    elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ZooError(f"{option}={value!r} is not a number of lines, such as 1")
    return value


def _encoding(name: Any) -> str:
    """The name of an encoding that Python knows; raises `ZooError`."""
    try:
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError) as error:
        raise ZooError(f"encoding={name!r} is not the name of an encoding, such as utf-8 or cp1252") from error


def cell_name(cell: Any, thousands: str = "") -> str:
    """The text of a cell, as the name of a level: 1.000 is 1, unless a point stands between ``thousands``.

    >>> cell_name("1.000"), cell_name("1.000", thousands=".")
    ('1', '1.000')
    """
    if isinstance(cell, float | np.floating):
        return f"{cell:.15g}".replace(".", "," if thousands == "." else ".")
    text = str(cell).replace("\0", "").strip()  # netCDF cannot store null characters
    return text.partition(".")[0] if thousands != "." and re.fullmatch(r"[+-]?(0|[1-9]\d*)\.0+", text) else text
