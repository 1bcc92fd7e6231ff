"""The command line's grammar: Hydra's ``key=value`` on the groups model, method and data, one clear message per mistake."""

from itertools import product, takewhile
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from models.data.arguments import did_you_mean, exists
from models.data.table import ZooError

CONF = Path(__file__).parents[1] / "conf"
GROUPS = ("model", "method", "data")
BY_COLUMN = tuple(f"data.{option}." for option in ("types", "units", "dates", "merge"))  # followed by a column's name


def choices(group: str) -> dict[str, str]:
    """Name -> what it is, for every entry of a config group: the comments at the top of its file."""
    described = {}
    for path in sorted((CONF / group).glob("*.yaml")):
        top = takewhile(lambda line: line.startswith("# "), path.read_text(encoding="utf-8").splitlines())
        described[path.stem] = "; ".join(line[2:] for line in top if not line.startswith("# @"))
    return described


def expand(arguments: list[str], sweep: bool) -> list[list[str]]:
    """The overrides of every run: the product of the comma lists if ``sweep``, otherwise one list.

    Raises `ZooError` for arguments that Hydra cannot parse, and for a comma list without ``sweep``.
    """
    lists = [_files(argument, sweep) for argument in arguments]
    return [overrides for chosen in product(*lists) for overrides in _expand(list(chosen), sweep)]


def _files(argument: str, sweep: bool) -> list[str]:
    """``data=a.csv,b.csv`` and ``model=a.py:f,b.py:g``, split into one override per file."""
    key, _, value = argument.partition("=")
    alternatives = [f"{key}={part}" for part in value.split(",")]
    if key not in ("data", "model") or exists(value) or all(_translate(one) == one for one in alternatives):
        return [argument]
    if len(alternatives) > 1 and not sweep:
        raise ZooError(f"{argument!r} lists several values: add -m to run them all")
    return alternatives


def _expand(arguments: list[str], sweep: bool) -> list[list[str]]:
    of_columns = [argument for argument in arguments if argument.startswith(BY_COLUMN)]
    parsed = [_parse(_translate(argument)) for argument in _gather_prior([a for a in arguments if a not in of_columns])]
    alternatives = [_of_column(argument, sweep) for argument in of_columns]
    for override in parsed:
        if not override.is_sweep_override():
            alternatives.append([override.input_line or ""])
        elif sweep:
            alternatives.append([f"{override.key_or_group}={value}" for value in override.sweep_string_iterator()])
        else:
            raise ZooError(f"{override.input_line!r} lists several values: add -m to run them all")
    return [list(combination) for combination in product(*alternatives)]


def _of_column(argument: str, sweep: bool) -> list[str]:
    """``data.types.<column>=<kind>,<kind>``, split into one override per kind; the names of columns may hold anything."""
    option, column, value = _parts_of_column(argument)
    if option == "merge":
        _levels(argument, value)  # raises now
        return [argument]
    if "," in value and not sweep:
        raise ZooError(f"{argument!r} lists several values: add -m to run them all")
    return [f"data.{option}.{column}={one}" for one in value.split(",")]


def _parts_of_column(argument: str) -> tuple[str, str, str]:
    """``data.<option>.<column>=<value>`` as (option, column, value); raises `ZooError`."""
    option, _, rest = argument.removeprefix("data.").partition(".")
    column, mark, value = rest.partition("={") if option == "merge" else rest.rpartition("=")
    if not mark or not column or not value:
        example = "{<spelling>: <level>}" if option == "merge" else "<kind>" if option == "types" else "<value>"
        raise ZooError(f"{argument!r} does not have the form data.{option}.<column>={example}")
    return option, column, f"{{{value}" if option == "merge" else value


def _levels(argument: str, value: str) -> dict[str, str]:
    """``{F: female, f: female}`` as a dictionary of texts; raises `ZooError`."""
    import yaml

    try:
        found = yaml.load(value, yaml.BaseLoader)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict) or not found or not all(isinstance(level, str) and level for level in found.values()):
        raise ZooError(f"{argument!r} does not have the form data.merge.<column>={{<spelling>: <level>, …}}")
    return found


def _by_column(overrides: list[str]) -> dict[str, dict[str, Any]]:
    """Option of the data -> column -> value, of all overrides for single columns."""
    found: dict[str, dict[str, Any]] = {}
    for override in overrides:
        option, column, value = _parts_of_column(override)
        found.setdefault(option, {})[column] = _levels(override, value) if option == "merge" else value
    return found


def compose(overrides: list[str]) -> dict[str, Any]:
    """The configuration of one run as plain containers; raises a `ZooError` that lists the valid names."""
    of_columns = _by_column([override for override in overrides if override.startswith(BY_COLUMN)])
    overrides = [override for override in overrides if not override.startswith(BY_COLUMN)]
    pairs = [override.split("=", 1) for override in overrides]
    chosen = {key: value for key, value in pairs if key in GROUPS}
    for group, value in chosen.items():
        known = choices(group)
        if value not in known:
            raise ZooError(f"{group}={value} is not one of {', '.join(known)}{did_you_mean(value, list(known))}")
    if "data" not in chosen:
        entry = OmegaConf.load(CONF / "model" / f"{chosen.get('model', 'gmm')}.yaml")
        chosen["data"] = str(OmegaConf.select(entry, "default_data"))
    groups = [f"{group}={value}" for group, value in chosen.items()]
    base = _compose(groups)
    options = [override for override, (key, _) in zip(overrides, pairs, strict=True) if key not in GROUPS]
    for option in options:
        _check_key(base, option.split("=", 1)[0], chosen)
    for option in of_columns:
        _check_key(base, f"data.{option}", chosen)
    composed = _compose(groups + options)
    try:
        plain = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:  # ${…} that cannot be resolved
        raise ZooError(str(error).splitlines()[0]) from error
    assert isinstance(plain, dict)
    config: dict[str, Any] = {str(key): value for key, value in plain.items()}
    for option, values in of_columns.items():
        config["data"][option] = (config["data"][option] or {}) | values
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
            raise ZooError(f"unknown option {key!r}: {'.'.join(path)} has no options of its own")
        known = [str(name) for name in node if not (not path and str(name) in GROUPS and str(name) != part)]
        if part not in node:
            prefix = "".join(f"{p}." for p in path)
            where = (
                f" of {path[0]}={chosen.get(path[0], config[path[0]].get('name'))}" if path else f" with method={config.method}"
            )
            listed = ", ".join(prefix + name for name in known if name not in ("name", "method", "default_data"))
            hint = _in_a_group(config, part, path) or did_you_mean(part, known if path else [*known, *GROUPS], prefix)
            raise ZooError(f"unknown option {key!r}{where}{hint}; valid options: {listed}")
        node, path = node[part], [*path, part]


def _in_a_group(config: DictConfig, part: str, path: list[str]) -> str:
    """A hint for the option of a group without the group's name: ``num_components=3`` for ``model.num_components=3``."""
    groups = [group for group in ("model", "data") if part in config[group]]
    return f" (did you mean {groups[0]}.{part}?)" if groups and not path else ""


def _parse(argument: str) -> Override:
    if "=" not in argument:
        raise ZooError(f"{argument!r} does not have the form key=value; see --help")
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException as error:
        raise ZooError(f"{argument!r} cannot be read: {str(error).splitlines()[0]}") from error
    if override.is_delete() or override.is_add():
        raise ZooError(f"{argument!r}: options are set by key=value, without + or ~")
    return override


def _translate(argument: str) -> str:
    """``data=<path>`` and ``model=<file.py>:<function>``, rewritten as ``data.path=`` and ``model.path=``."""
    key, _, value = argument.partition("=")
    if key == "data" and value not in choices("data") and ("." in value or "/" in value):
        return f"data.path={_quoted(value)}"
    if key == "model" and ".py:" in value:
        return f"model.path={_quoted(value)}"
    if key in ("out", "resume") and value not in ("", "null") and value[0] not in "'\"":
        return f"{key}={_quoted(value)}"
    if key == "model.prior" and "(" in value and "'" not in value and '"' not in value:  # beta(2,2) is a name, not a function
        return f"model.prior={_quoted(value)}"
    return argument


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _gather_prior(arguments: list[str]) -> list[str]:
    """``model.prior.<block>.<name>=<value>`` as one dictionary; ``data=file`` and ``model=program`` before their options."""
    prior: dict[str, dict[str, str]] = {}
    rest = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key.startswith("model.prior."):
            parts = key.split(".")[2:]
            if len(parts) != 2:
                raise ZooError(f"{argument!r}: a number of the prior is set by model.prior.<block>.<name>=<value>")
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


def run_keys() -> set[str]:
    """All keys in the configuration of a run but the options of its method."""
    return {str(key) for key in OmegaConf.load(CONF / "run.yaml") if key != "defaults"} | set(GROUPS)


def entry_keys(group: str, name: Any) -> set[str]:
    """All keys in the configuration of one entry of a group; raises `ZooError` if there is no such entry."""
    known = choices(group)
    if not isinstance(name, str) or name not in known:
        raise ZooError(f"{group}={name!r} is not one of {', '.join(known)}")
    return {str(key) for key in OmegaConf.load(CONF / group / f"{name}.yaml")}


def entry_options(group: str, name: str) -> list[str]:
    """Names of the options of one entry of a group."""
    entry = OmegaConf.load(CONF / group / f"{name}.yaml")
    return [str(key) for key in entry if key not in ("name", "method", "default_data")]


def entry_defaults(group: str, name: str) -> dict[str, Any]:
    """Options of one entry of a group, with their defaults; raises `ZooError` if there is no such entry."""
    entry_keys(group, name)
    entry = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))
    assert isinstance(entry, dict)
    return {str(key): value for key, value in entry.items() if key not in ("name", "method", "default_data")}


def options_of() -> dict[str, list[str]]:
    """Section of the help page -> names of its options; options that all data sets share are listed once."""
    found = {"every run": [str(key) for key in OmegaConf.load(CONF / "run.yaml") if key != "defaults"]}
    for group in GROUPS:
        prefix = "" if group == "method" else f"{group}."
        options = {name: [prefix + key for key in entry_options(group, name)] for name in choices(group)}
        shared = [key for key in options["file"] if all(key in own for own in options.values())] if group == "data" else []
        found |= {"every data set": shared} if shared else {}
        found |= {f"{group}={name}": [key for key in own if key not in shared] for name, own in options.items()}
    return found
