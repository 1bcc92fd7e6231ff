"""Options of a table as arguments of the command line: writing and reading them.

| option | argument |
|---|---|
| a name or a word | ``data.label=species``, ``data.label=body mass (kg)``, ``data.label="mass, kg"`` |
| a list | ``data.missing=[unknown,-99,"<0,5"]`` |
| of one column | ``data.units.weight=kg``, ``data.units."a=b"=kg`` |
| levels of one column | ``data.merge.sex={F: female}`` |

Text is taken as it stands, without white space at its ends. It needs quotes if it has a comma or an unclosed bracket, is itself
in quotes or brackets, or is ``null``. In quotes a backslash is a letter like others but in front of a quote, as in Hydra's
grammar. `models.errors.in_shell` quotes the argument once more, for the shell.

Imports the standard library, and PyYAML where levels are read.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from models.errors import ZooError, in_shell

BY_COLUMN = ("types", "units", "dates", "merge")  # options with a value for each column
TEXTS = ("label", "weight", "sequence", "text", "separator", "decimal", "thousands", "encoding")
LISTS = ("columns", "keep", "missing")
WHOLE = re.compile(r"0|-?[1-9]\d{0,99}")
QUOTED = {mark: re.compile(rf"{mark}((?:[^{mark}\\]|\\+[^{mark}\\]|(?:\\\\)*\\{mark})*(?:\\\\)*){mark}") for mark in "\"'"}
OPENS = re.compile(r"(^|[\[({])\s*[\"']")  # text in which a quote may open
CLOSING = {"[": "]", "(": ")", "{": "}"}
KEY = re.compile(rf"data\.(?:({'|'.join((*TEXTS, *LISTS))})=|({'|'.join(BY_COLUMN)})\.)")


class TableOption(NamedTuple):
    """One argument as it is read: ``Option("units", "kg", "weight")`` of ``data.units.weight=kg``."""

    name: str
    value: Any
    column: str | None = None


def is_of_table(argument: str) -> bool:
    """Whether an argument is one of these options, and no other of Hydra's grammar.

    >>> is_of_table("data.label=a b"), is_of_table("data.units.x=kg"), is_of_table("data.units={x: kg}"), is_of_table("seed=1")
    (True, True, False, False)
    """
    return KEY.match(argument) is not None


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def override(name: str, value: Any, column: str | None = None) -> str:
    """The argument for one option, which `read_override` reads back.

    >>> override("label", "body mass"), override("keep", ["id", "a, b"]), override("units", "kg", "a=b")
    ('data.label=body mass', 'data.keep=[id,"a, b"]', 'data.units.a=b=kg')
    """
    if column is not None:
        column = str(column)
        if isinstance(value, Mapping):
            return f"data.{name}.{_column(column, '={')}={_levels_text(value)}"
        return f"data.{name}.{_column(column, '' if '=' in str(value) else None)}={_text(str(value))}"
    if isinstance(value, list | tuple):
        return f"data.{name}=[{','.join(map(_entry, value))}]"
    if value is None or isinstance(value, bool):
        return f"data.{name}={'null' if value is None else str(value).lower()}"
    return f"data.{name}={_entry(value) if name in LISTS else _text(str(value))}"


def proposed(name: str, value: Any, column: str | None = None) -> str:
    """The argument for one option, as it is typed in a shell: for messages.

    >>> proposed("types", "category", "body mass")
    "'data.types.body mass=category'"
    """
    return in_shell(override(name, value, column))


def overrides_of(options: Mapping[str, Any]) -> list[str]:
    """All options of `models.load_data` as arguments.

    >>> overrides_of({"units": {"weight": "kg"}, "missing": ["unknown", -99], "merge": {"sex": {"F": "female"}}})
    ['data.units.weight=kg', 'data.missing=[unknown,-99]', 'data.merge.sex={F: female}']
    """
    arguments = []
    for name, value in options.items():
        if value is None:
            continue
        if name in BY_COLUMN:
            arguments += [override(name, one, column) for column, one in value.items()]
        else:
            arguments.append(override(name, value))
    return arguments


def quoted(text: str, mark: str = '"') -> str:
    r"""Text in quotes, by the rule of Hydra: backslashes are doubled only where a quote follows, or the end.

    >>> print(quoted('a"b'), quoted("C:\\new"))
    "a\"b" "C:\new"
    """
    escaped = re.sub(rf"(\\*)({mark}|\Z)", lambda match: match[1] * 2 + (f"\\{mark}" if match[2] else ""), text)
    return f"{mark}{escaped}{mark}"


def _text(text: str) -> str:
    """Text as the value of an option, or in a list: as it is if it is read so, otherwise in quotes."""
    alone, listed = _parts(f"x,{text},x") == ["x", text, "x"], _parts(f"[{text},x],x") == [f"[{text},x]", "x"]
    return text if alone and listed and _unquoted(text) == text and not OPENS.search(text) else quoted(text)


def _entry(value: Any) -> str:
    """A value in a list."""
    text = "null" if value is None else str(value)
    if not isinstance(value, str):
        return text
    return text if text and _text(text) == text and not WHOLE.fullmatch(text) else quoted(text)


def _column(column: str, ambiguous: str | None) -> str:
    """The name of a column in a key: in quotes where it begins with one, or has an ``ambiguous`` character."""
    plain = column and column[0] not in "\"'" and (ambiguous is None or ambiguous not in column)
    return column if plain else quoted(column)


def _levels_text(levels: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{_yaml(word)}: {_yaml(level)}' for word, level in levels.items())}}}"


def _yaml(word: str) -> str:
    return word if re.fullmatch(r"\w([\w ./+-]*[\w.+])?", word) else json.dumps(word, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_override(argument: str) -> TableOption:
    """The option of an argument; raises `ZooError` for one without a value, and for a list of several values of a sweep.

    >>> read_override("data.label=body mass"), read_override('data.units."a=b"=kg')
    (TableOption(name='label', value='body mass', column=None), TableOption(name='units', value='kg', column='a=b'))
    """
    name, column, value = _taken_apart(argument)
    if name == "merge":
        return TableOption(name, _levels(argument, value), column)
    if len(alternatives(argument)) > 1:
        hint = f"; a list stands in brackets, {in_shell(f'data.{name}=[{value}]')}" if name in LISTS else ""
        raise ZooError(f"{argument!r} lists several values: add -m to run them all{hint}; a text with a comma needs quotes")
    if column is not None:
        return TableOption(name, _unquoted(value), column)
    return TableOption(name, _list(argument, value) if name in LISTS else _unquoted(value))


def alternatives(argument: str) -> list[str]:
    """One argument for each value of a sweep.

    >>> alternatives("data.label=a,b"), alternatives("data.columns=[a,b],[c]")
    (['data.label=a', 'data.label=b'], ['data.columns=[a,b]', 'data.columns=[c]'])
    """
    name, _, value = _taken_apart(argument)
    parts = [value] if name == "merge" else [part.strip() for part in _parts(value)]
    if len(parts) < 2 or not all(parts):  # the separator itself may be a comma
        return [argument]
    return [f"{argument[: len(argument) - len(value)]}{part}" for part in parts]


def _taken_apart(argument: str) -> tuple[str, str | None, str]:
    """(option, column, text of the value); raises `ZooError` for an option of one column without column or value."""
    key = KEY.match(argument)
    assert key is not None
    rest = argument[key.end() :]
    if key[1] is not None:
        return key[1], None, rest
    name = key[2]
    known = next((match for form in QUOTED.values() if (match := form.match(rest)) and rest[match.end() :][:1] == "="), None)
    if known is not None:
        column, value = str(_unquoted(known[0])), rest[known.end() + 1 :]
    elif name == "merge":
        column, value = _before_levels(rest)
    else:
        column, _, value = rest.rpartition("=")
    if not column or not value or (name == "merge" and value[0] != "{"):
        example = "{<spelling>: <level>}" if name == "merge" else "<kind>" if name == "types" else "<value>"
        raise ZooError(f"{argument!r} does not have the form data.{name}.<column>={example}")
    return name, column, value


def _before_levels(rest: str) -> tuple[str, str]:
    """``sex={F: female}`` as the column and the text of its levels; both empty for another form."""
    column, mark, value = rest.partition("={")
    return (column, f"{{{value}") if mark else ("", "")


def _unquoted(value: str) -> str | None:
    """Text as it is meant: without quotes; None for ``null``."""
    value = value.strip()
    if value == "null":
        return None
    for mark, form in QUOTED.items():
        if (match := form.fullmatch(value)) is not None:
            return re.sub(rf"(\\+)({mark}|\Z)", lambda run: run[1][: len(run[1]) // 2] + run[2], match[1])
    return value


def _list(argument: str, value: str) -> Any:
    """A list in brackets, whose whole numbers are numbers; one text or number without brackets; None for ``null``."""
    value = value.strip()
    if not (value.startswith("[") and value.endswith("]")):
        return _one_of_list(value) if value != "null" else None
    inner = value[1:-1]
    if not inner.strip():
        return []
    entries = [part.strip() for part in _parts(inner)]
    if not all(entries):
        raise ZooError(f"{argument!r}: the list has an entry without text; an empty text stands in quotes")
    return [_one_of_list(entry) for entry in entries]


def _one_of_list(entry: str) -> str | int:
    if WHOLE.fullmatch(entry):
        return int(entry)
    level = _unquoted(entry)
    return "null" if level is None else level


def _parts(text: str) -> list[str]:
    """Text divided at commas, but not within quotes or brackets."""
    parts, begin, place, before = [], 0, 0, ","
    open_brackets: list[str] = []
    while place < len(text):
        letter = text[place]
        quote = QUOTED[letter].match(text, place) if letter in QUOTED and before in ",[({" else None
        before = before if letter.isspace() else letter
        if quote is not None:
            place = quote.end()
            continue
        if letter in CLOSING:
            open_brackets.append(CLOSING[letter])
        elif open_brackets and letter == open_brackets[-1]:
            open_brackets.pop()
        elif letter == "," and not open_brackets:
            parts.append(text[begin:place])
            begin = place + 1
        place += 1
    return [*parts, text[begin:]]


def _levels(argument: str, value: str) -> dict[str, str]:
    """``{F: female, f: female}`` as a dictionary of texts; raises `ZooError`."""
    import yaml

    try:
        node, mapping = yaml.compose(value, yaml.BaseLoader), yaml.load(value, yaml.BaseLoader)
    except yaml.YAMLError:
        node = mapping = None
    levels = [level for _, level in node.value] if isinstance(node, yaml.MappingNode) else []
    # A level in quotes may be empty: cells with this spelling are missing
    if not levels or not all(isinstance(level, yaml.ScalarNode) and (level.value or level.style) for level in levels):
        raise ZooError(f"{argument!r} does not have the form data.merge.<column>={{<spelling>: <level>, …}}")
    return dict(mapping)
