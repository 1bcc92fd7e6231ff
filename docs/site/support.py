"""The support table of the README: which methods run on which models. A test keeps it equal to the code."""

import re
from functools import cache
from pathlib import Path

from inference.certificates.command import PUBLISHED
from inference.support import BEGIN, END

ROOT = Path(__file__).parents[2]


@cache
def tables() -> list[str]:
    """The two tables: the updates of every method, and which method runs on which model."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    inside = readme.partition(BEGIN)[2].partition(END)[0].strip()
    return inside.split("\n\n")


@cache
def cells() -> dict[tuple[str, str], str]:
    """(model, method) -> the entry of the support table."""
    header, _, *lines = tables()[1].splitlines()
    methods = [name.strip("` ") for name in header.strip("| ").split("|")][1:]
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        model, *row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        found |= {(model.strip("`"), method): cell for method, cell in zip(methods, row, strict=True)}
    return found


def row_of(model: str) -> dict[str, str]:
    """Method -> the entry for a model."""
    return {method: cell for (name, method), cell in cells().items() if name == model}


def column_of(method: str) -> dict[str, str]:
    """Model -> the entry for a method."""
    return {model: cell for (model, name), cell in cells().items() if name == method}


def with_link(model: str, method: str, cell: str) -> str:
    """An entry of the table, for a page one folder down; the verdict of a certificate leads to its page."""
    stem = f"{model}-{method}"
    return f"[{cell}](../certificates/{stem}.md)" if (PUBLISHED / f"{stem}.json").is_file() else cell


def updates_of(method: str) -> tuple[str, str]:
    """What a method does to the parameters and to the latents."""
    for line in tables()[0].splitlines()[2:]:
        name, parameters, latents = [cell.strip() for cell in line.strip("| ").split("|")]
        if f"`{method}`" in name.split(", "):
            return parameters, latents
    raise KeyError(method)
