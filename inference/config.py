"""The command line's grammar: Hydra's ``key=value`` on the groups model, method and data, with one clear message for a slip."""

import difflib
from itertools import product
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from models.data import ZooError, exists

CONF = Path(__file__).parent / "conf"
GROUPS = ("model", "method", "data")
TYPES = "data.types."  # before the name of a column, which may hold anything and is nothing for Hydra's grammar


def choices(group: str) -> dict[str, str]:
    """Name -> one line on it, for every entry of a config group."""
    described = {}
    for path in sorted((CONF / group).glob("*.yaml")):
        comments = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ") and not line.startswith("# @")]
        described[path.stem] = comments[0]
    return described


def expand(arguments: list[str], sweep: bool) -> list[list[str]]:
    """Overrides of every run asked for: the product of the comma lists when ``sweep``, otherwise one.

    Raises `ZooError` for what Hydra's grammar cannot read, and for a comma list without ``sweep``.
    """
    lists = [_files(argument, sweep) for argument in arguments]
    return [overrides for chosen in product(*lists) for overrides in _expand(list(chosen), sweep)]


def _files(argument: str, sweep: bool) -> list[str]:
    """``data=a.csv,b.csv`` and ``model=a.py:f,b.py:g`` file by file: they become several overrides each."""
    key, _, value = argument.partition("=")
    alternatives = [f"{key}={part}" for part in value.split(",")]
    if key not in ("data", "model") or exists(value) or all(_translate(one) == one for one in alternatives):
        return [argument]
    if len(alternatives) > 1 and not sweep:
        raise ZooError(f"{argument!r} lists several values: add -m to run them all")
    return alternatives


def _expand(arguments: list[str], sweep: bool) -> list[list[str]]:
    types = [argument for argument in arguments if argument.startswith(TYPES)]
    parsed = [_parse(_translate(argument)) for argument in _gather_prior([a for a in arguments if a not in types])]
    alternatives = [_types(argument, sweep) for argument in types]
    for override in parsed:
        if not override.is_sweep_override():
            alternatives.append([override.input_line or ""])
        elif sweep:
            alternatives.append([f"{override.key_or_group}={value}" for value in override.sweep_string_iterator()])
        else:
            raise ZooError(f"{override.input_line!r} lists several values: add -m to run them all")
    return [list(combination) for combination in product(*alternatives)]


def _types(argument: str, sweep: bool) -> list[str]:
    """``data.types.<column>=<kind>,<kind>`` one by one."""
    column, mark, kinds = argument.rpartition("=")
    if not mark or column == TYPES:
        raise ZooError(f"{argument!r} is not of the form data.types.<column>=<kind>")
    if "," in kinds and not sweep:
        raise ZooError(f"{argument!r} lists several values: add -m to run them all")
    return [f"{column}={kind}" for kind in kinds.split(",")]


def compose(overrides: list[str]) -> dict[str, Any]:
    """The configuration of one run as plain containers; raises `ZooError` that lists what is valid."""
    types = dict(override.removeprefix(TYPES).rsplit("=", 1) for override in overrides if override.startswith(TYPES))
    overrides = [override for override in overrides if not override.startswith(TYPES)]
    pairs = [override.split("=", 1) for override in overrides]
    chosen = {key: value for key, value in pairs if key in GROUPS}
    for group, value in chosen.items():
        known = choices(group)
        if value not in known:
            raise ZooError(f"{group}={value} is not one of {', '.join(known)}{_nearest(value, list(known))}")
    if "data" not in chosen:
        entry = OmegaConf.load(CONF / "model" / f"{chosen.get('model', 'gmm')}.yaml")
        chosen["data"] = str(OmegaConf.select(entry, "default_data"))
    groups = [f"{group}={value}" for group, value in chosen.items()]
    base = _compose(groups)
    options = [override for override, (key, _) in zip(overrides, pairs, strict=True) if key not in GROUPS]
    for option in options:
        _check_key(base, option.split("=", 1)[0], chosen)
    if types:
        _check_key(base, TYPES.rstrip("."), chosen)
    composed = OmegaConf.to_container(_compose(groups + options), resolve=True)
    assert isinstance(composed, dict)
    config: dict[str, Any] = {str(key): value for key, value in composed.items()}
    if types:
        config["data"]["types"] = (config["data"]["types"] or {}) | types
    return config


def _compose(overrides: list[str]) -> DictConfig:
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            return hydra.compose("run", overrides=overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(str(error).splitlines()[0]) from error


def _check_key(config: DictConfig, key: str, chosen: dict[str, str]) -> None:
    node: Any = config
    path: list[str] = []
    for part in key.split("."):
        if not isinstance(node, DictConfig):
            raise ZooError(f"unknown option {key!r}: {'.'.join(path)} has no parts")
        known = [str(name) for name in node if not (not path and str(name) in GROUPS and str(name) != part)]
        if part not in node:
            prefix = "".join(f"{p}." for p in path)
            where = (
                f" of {path[0]}={chosen.get(path[0], config[path[0]].get('name'))}" if path else f" with method={config.method}"
            )
            listed = ", ".join(prefix + name for name in known if name not in ("name", "method", "default_data"))
            raise ZooError(f"unknown option {key!r}{where}{_nearest(part, known, prefix)}; valid are {listed}")
        node, path = node[part], [*path, part]


def _nearest(word: str, known: list[str], prefix: str = "") -> str:
    found = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {prefix}{found[0]}?)" if found else ""


def _parse(argument: str) -> Override:
    if "=" not in argument:
        raise ZooError(f"{argument!r} is not of the form key=value; see --help")
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException as error:
        raise ZooError(f"{argument!r} cannot be read: {str(error).splitlines()[0]}") from error
    if override.is_delete() or override.is_add():
        raise ZooError(f"{argument!r}: options are set by key=value; + and ~ are not used here")
    return override


def _translate(argument: str) -> str:
    """``data=<path>`` and ``model=<file.py>:<function>`` name a file: write them as options of their groups' entries."""
    key, _, value = argument.partition("=")
    if key == "data" and value not in choices("data") and ("." in value or "/" in value):
        return f"data.path={_quoted(value)}"
    if key == "model" and ".py:" in value:
        return f"model.path={_quoted(value)}"
    if key == "model.prior" and "(" in value and "'" not in value and '"' not in value:  # beta(2,2) is a name, not a function
        return f"model.prior={_quoted(value)}"
    return argument


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _gather_prior(arguments: list[str]) -> list[str]:
    """``model.prior.<block>.<name>=<value>`` arguments as one dictionary; files' groups before their options."""
    prior: dict[str, dict[str, str]] = {}
    rest = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key.startswith("model.prior."):
            parts = key.split(".")[2:]
            if len(parts) != 2:
                raise ZooError(f"{argument!r}: a prior's number is model.prior.<block>.<name>=<value>")
            prior.setdefault(parts[0], {})[parts[1]] = value
        else:
            rest.append(argument)
    if prior:
        blocks = ", ".join(
            f"{block}: {{{', '.join(f'{name}: {value}' for name, value in named.items())}}}" for block, named in prior.items()
        )
        rest.append(f"model.prior={{{blocks}}}")
    for argument in list(rest):
        translated = _translate(argument)
        if translated.startswith("data.path="):
            rest.insert(0, "data=file")
        if translated.startswith("model.path=") and argument.startswith("model="):
            rest.insert(0, "model=program")
    return rest


def entry_options(group: str, name: str) -> list[str]:
    """Names of the options of one entry of a group."""
    entry = OmegaConf.load(CONF / group / f"{name}.yaml")
    return [str(key) for key in entry if key not in ("name", "method", "default_data")]


def options_of() -> dict[str, list[str]]:
    """Where they belong -> names of the options there, for the help page."""
    found = {"every run": [str(key) for key in OmegaConf.load(CONF / "run.yaml") if key != "defaults"]}
    for group in GROUPS:
        prefix = "" if group == "method" else f"{group}."
        found |= {f"{group}={name}": [prefix + key for key in entry_options(group, name)] for name in choices(group)}
    return found
