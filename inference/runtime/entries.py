"""The configuration files as they are: the models, methods and data sets, their options, and the defaults.

Reads YAML alone. Hydra reads only what needs its grammar: it loads too slowly to report a mistyped argument at once.
"""

import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from models.errors import ZooError, also_called, did_you_mean

CONF = Path(__file__).parents[1] / "conf"
GROUPS = ("model", "method", "data", "runtime")
NOT_OPTIONS = ("name", "method", "default_data")  # entries of the files that the user does not set


def choices(group: str) -> dict[str, str]:
    """Name -> what it is, for every entry of a config group: the comments at the top of its file.

    >>> choices("model")["gmm"]
    'Gaussian mixture; covariance=full|tied|diag|spherical|unit'
    """
    described = {}
    for path in sorted((CONF / group).glob("*.yaml")):
        top = takewhile(lambda line: line.startswith("# "), path.read_text(encoding="utf-8").splitlines())
        described[path.stem] = "; ".join(line[2:] for line in top if not line.startswith("# @"))
    return described


def run_keys() -> set[str]:
    """All keys in the configuration of a run but the options of its method."""
    return set(run_options()) | set(GROUPS)


def run_options() -> dict[str, Any]:
    """The options of every run, with their defaults."""
    return {name: value for name, value in _loaded(CONF / "run.yaml").items() if name != "defaults"}


def entry_keys(group: str, name: Any) -> set[str]:
    """All keys in the configuration of one entry of a group; raises `ZooError` if there is no such entry."""
    known = choices(group)
    if not isinstance(name, str) or name not in known:
        raise ZooError(f"{group}={name!r} is not one of {', '.join(known)}")
    return set(_entry(group, name))


def entry_options(group: str, name: str) -> list[str]:
    """Names of the options of one entry of a group."""
    return [key for key in _entry(group, name) if key not in NOT_OPTIONS]


def entry_defaults(group: str, name: str) -> dict[str, Any]:
    """Options of one entry of a group, with their defaults; raises `ZooError` if there is no such entry.

    >>> entry_defaults("method", "em")["num_starts"]
    10
    """
    entry_keys(group, name)
    return {key: value for key, value in _entry(group, name).items() if key not in NOT_OPTIONS}


def ranges_of_method(name: str) -> dict[str, list[Any]]:
    """Option -> its lowest and its highest value, or its words.

    >>> ranges_of_method("nuts")["target_accept"]
    [0.05, 0.999]
    """
    ranges: dict[str, list[Any]] = _loaded(CONF / "ranges.yaml")[name]
    return ranges


def default_data_of(model: str) -> str:
    """The data set that a model runs on where none is named; raises `ZooError` for an unknown model.

    >>> default_data_of("gmm")
    'iris'
    """
    entry_keys("model", model)
    return str(_entry("model", model)["default_data"])


def options_of() -> dict[str, list[str]]:
    """Section of the help page -> names of its options; options that all data sets share are listed once."""
    sections = {"every run": list(run_options())}
    for group in GROUPS:
        prefix = "" if group == "method" else f"{group}."
        options = {name: [prefix + key for key in entry_options(group, name)] for name in choices(group)}
        shared = [key for key in options["file"] if all(key in names for names in options.values())] if group == "data" else []
        sections |= {"every data set": shared} if shared else {}
        sections |= {f"{group}={name}": [key for key in names if key not in shared] for name, names in options.items()}
    return sections


def chosen_entries(pairs: Mapping[str, str]) -> dict[str, str]:
    """The entry of each group that the user chose, and the model's default data; raises `ZooError` for an unknown one."""
    chosen = {key: value for key, value in pairs.items() if key in GROUPS}
    for group, value in chosen.items():
        known = choices(group)
        if value not in known:
            raise ZooError(f"{group}={value} is not one of {', '.join(known)}{did_you_mean(value, list(known))}")
    if "data" not in chosen:
        chosen["data"] = default_data_of(chosen.get("model", "gmm"))
    return chosen


def defaults_with(chosen: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of a run before any option is set: what Hydra composes of these entries.

    >>> defaults_with({"model": "gmm", "method": "em", "data": "iris"})["model"]["num_components"]
    2
    """
    listed = {
        group: str(name) for one in _loaded(CONF / "run.yaml")["defaults"] if one != "_self_" for group, name in one.items()
    }
    settings: dict[str, Any] = {}
    for group, name in (listed | dict(chosen)).items():
        settings |= _entry(group, name) if group == "method" else {group: _entry(group, name)}
    return settings | run_options()


def require_key(config: Mapping[str, Any], key: str, chosen: Mapping[str, str]) -> None:
    """A `ZooError`, which lists the known options, for a key that `defaults_with` lacks."""
    node: Any = config
    path: list[str] = []
    for part in key.split("."):
        if not isinstance(node, Mapping):
            raise ZooError(f"unknown option {key!r}: {'.'.join(path)} has no options of its own")
        known = [name for name in node if path or name not in GROUPS or name == part]
        if part not in node:
            prefix = "".join(f"{p}." for p in path)
            where = (
                f" of {path[0]}={chosen.get(path[0], config[path[0]].get('name'))}"
                if path
                else f" with method={config['method']}"
            )
            listed = ", ".join(prefix + name for name in known if name not in NOT_OPTIONS)
            hint = _in_a_group(config, part, path) or did_you_mean(part, known if path else [*known, *GROUPS], prefix)
            raise ZooError(f"unknown option {key!r}{where}{hint}; valid options: {listed}")
        node, path = node[part], [*path, part]


def _in_a_group(config: Mapping[str, Any], part: str, path: list[str]) -> str:
    """A hint for the option of a group without its name: ``num_components=3``, or ``k=3``, for ``model.num_components=3``."""
    groups = {group: [part] if part in config[group] else also_called(part, config[group]) for group in ("model", "data")}
    candidates = [f"{group}.{names[0]}" for group, names in groups.items() if names]
    return f" (did you mean {candidates[0]}?)" if candidates and not path and not also_called(part, config) else ""


def _entry(group: str, name: str) -> dict[str, Any]:
    return _loaded(CONF / group / f"{name}.yaml")


def _loaded(path: Path) -> dict[str, Any]:
    entry: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    return entry


# As for OmegaConf, 1e-6 is a number, which YAML 1.1 takes for text.
LOADER: Any = type("Loader", (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader,), {})
LOADER.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)
