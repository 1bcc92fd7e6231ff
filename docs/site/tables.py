"""Markdown tables, and the options of models, methods and data sets as the configuration files describe them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docs.site.meanings import ABOVE, MEANINGS, OF_MODELS
from inference.runtime.entries import CONF, NOT_OPTIONS, entry_defaults


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A Markdown table; bars in cells are escaped.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def said_of_options(text: str) -> dict[str, str]:
    r"""Option -> what a configuration file says of it: the comment behind it, or the lines of comments before it.

    The comments at the top of the file are of the entry itself.

    >>> said_of_options("# of the entry\nname: x\n# of the first\na: 1\nb: 2 # of the second\nc: 3\n")
    {'a': 'of the first', 'b': 'of the second', 'c': ''}
    """
    found: dict[str, str] = {}
    before: list[str] = []
    top = True
    for line in text.splitlines():
        if line.startswith("#"):
            before += [] if top else [line.removeprefix("#").strip()]
            continue
        top = False
        option, _, rest = line.partition(":")
        said = rest.partition(" # ")[2].strip()
        if option not in NOT_OPTIONS:
            found[option] = said or " ".join(before)
        before = []
    return found


def options_table(group: str, name: str) -> str:
    """The options of one model, method or data set: name on the command line, default, meaning."""
    prefix = "" if group == "method" else f"{group}."
    return options_in(entry_defaults(group, name), CONF / group / f"{name}.yaml", prefix)


def options_in(defaults: Mapping[str, object], source: Path, prefix: str = "") -> str:
    """Options with their defaults, and what ``source`` or `MEANINGS` says of them."""
    if not defaults:
        return "It has no options."
    said = said_of_options(source.read_text(encoding="utf-8"))
    rows = [[f"`{prefix}{option}`", f"`{written(value)}`"] for option, value in defaults.items()]
    shared = MEANINGS if prefix != "model." else dict.fromkeys(defaults, ABOVE) | OF_MODELS
    meanings = {option: said.get(option) or shared.get(option, "") for option in defaults}
    if all(meaning == ABOVE for meaning in meanings.values()):
        return table(["option", "default"], rows)
    return table(
        ["option", "default", "meaning"], [[*row, plain(said)] for row, said in zip(rows, meanings.values(), strict=True)]
    )


def plain(text: str) -> str:
    """A text whose angle brackets are no markup, and which may break behind bars.

    >>> plain("data.types.<column>=number|count")
    'data.types.&lt;column&gt;=number|<wbr>count'
    """
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("|", "|<wbr>")


def written(value: object) -> str:
    """A value as it is written on the command line."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
