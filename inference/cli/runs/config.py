"""The command line's grammar: Hydra's ``key=value`` on the groups model, method and data, one clear message per mistake."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.cli.runs.stored_run import EXTENDED, RUNTIME, TAKEN
from inference.runtime.entries import CONF as CONF
from inference.runtime.entries import (
    GROUPS,
    chosen_entries,
    defaults_with,
    entry_defaults,
    ranges_of_method,
    require_key,
    run_options,
)
from inference.runtime.entries import choices as choices
from inference.runtime.entries import entry_options as entry_options
from models.cells.overrides import alternatives, is_of_table, quoted, read_override
from models.errors import ZooError, did_you_mean, exists, in_shell

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

KEY = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
PRIOR = "model.prior."  # how options that set one number of the prior begin
OF_STREAMS = ("stream", "block_rows", "sample_rows")  # options of data that are read block by block
WHOLE = r"[+-]?(?:0|[1-9]\d{0,99})"  # Python reads no more than 4300 digits
PLAIN = re.compile(  # arguments that need no grammar of Hydra
    rf"(?P<key>{KEY})=(?:(?P<whole>{WHOLE})|(?P<number>{WHOLE}\.\d+)|(?P<word>[A-Za-z_]\w*)|'(?P<text>[^'\\$\x00-\x1f]+)')",
    re.ASCII,
)
WORDS = {"true": True, "false": False, "null": None}
REASONS = {  # why an option does not go with resume=, where there is a special reason
    "out": "the run stays in its folder; copy the folder first where you want to keep the old result",
    "predictive": "these draws are part of the fit, and a run begins with them; start a new run",
}


def expand(arguments: list[str], sweep: bool) -> list[list[str]]:
    """The overrides of every run: the product of the comma lists if ``sweep``, otherwise one list.

    Raises `ZooError` for arguments that Hydra cannot parse, and for a comma list without ``sweep``.
    """
    lists = [_of_prior(argument, sweep) if argument.startswith(PRIOR) else _files(argument, sweep) for argument in arguments]
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


def _of_prior(argument: str, sweep: bool) -> list[str]:
    """``model.prior.<block>.<name>=1,2``, one override per number: `_gather_prior` makes one dictionary of several blocks."""
    return [argument] if _plain(argument) else _values(_parse(argument), sweep)


def _values(override: "Override", sweep: bool) -> list[str]:
    """One override per value of a list of a sweep; raises `ZooError` for a list without ``sweep``, or without an end."""
    from hydra.errors import HydraException

    line = override.input_line or ""
    if not override.is_sweep_override():
        return [line]
    if not sweep:
        raise ZooError(f"{line!r} lists several values: add -m to run them all")
    try:
        return [f"{override.key_or_group}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:
        raise ZooError(f"{line!r} does not say which values: list them with commas, such as seed=0,1") from error


def _expand(arguments: list[str], sweep: bool) -> list[list[str]]:
    of_tables = [argument for argument in arguments if is_of_table(argument)]
    others = [_translate(argument) for argument in _gather_prior([a for a in arguments if a not in of_tables])]
    parsed = [None if _plain(argument) else _parse(argument) for argument in others]
    expanded = [alternatives(argument) if sweep else [argument] for argument in of_tables]
    for argument in chain.from_iterable(expanded):
        read_override(argument)  # raises now
    expanded += [
        [argument] if override is None else _values(override, sweep) for argument, override in zip(others, parsed, strict=True)
    ]
    return [list(combination) for combination in product(*expanded)]


def compose(overrides: list[str]) -> dict[str, Any]:
    """The configuration of one run as plain containers; raises a `ZooError` that lists the valid names."""
    of_tables = [read_override(override) for override in overrides if is_of_table(override)]
    overrides = [override for override in overrides if not is_of_table(override)]
    pairs = [override.split("=", 1) for override in overrides]
    chosen = chosen_entries({key: value for key, value in pairs if key in GROUPS})
    base = defaults_with(chosen)
    options = [override for override, (key, _) in zip(overrides, pairs, strict=True) if key not in GROUPS]
    for option in options:
        require_key(base, option.split("=", 1)[0], chosen)
    for one in of_tables:
        require_key(base, f"data.{one.name}", chosen)
    config = _composed(base, options, chosen)
    for one in of_tables:
        had = config["data"][one.name]
        config["data"][one.name] = one.value if one.column is None else (had or {}) | {one.column: one.value}
    _require_values(config)
    return config


def _require_values(config: dict[str, Any]) -> None:
    """A `ZooError` for a value that the default of its option rules out: before a table is read, and before JAX is loaded."""
    from inference.methods.options import Option, Setting, check_checkpoint_seconds, check_flag, check_option, check_seed
    from models.data.arguments import require_whole

    check_seed(config["seed"])
    for flag in ("pictures", "impute", "predictive"):
        check_flag(flag, config[flag])
    check_checkpoint_seconds(config["checkpoint_seconds"])
    path = config["data"].get("path")
    if not isinstance(path, str | None):
        raise ZooError(f"data.path={str(path)[:40]} is no text; the name of a file needs quotes: data.path=\"'name'\"")
    ranges = ranges_of_method(config["method"])
    for name, default in entry_defaults("method", config["method"]).items():
        words = tuple(ranges[name]) if isinstance(default, str) else ()
        setting = Setting("", *ranges[name]) if name in ranges and not words else Setting("")
        check_option(Option(name, type(default), default, setting, words), config[name])
    model = config["model"]["name"]
    for name, default in entry_defaults("model", model).items():
        if isinstance(default, int) and not isinstance(default, bool):
            try:
                require_whole(name, config["model"][name])
            except ZooError as error:
                raise ZooError(f"model={model}: {error}") from error


def _composed(base: dict[str, Any], options: list[str], chosen: dict[str, str]) -> dict[str, Any]:
    """The configuration with the user's options: set here where all of them are plain, by Hydra where one needs its grammar."""
    plain = [_plain(option) for option in options]
    settings = dict(setting for setting in plain if setting is not None)
    if len(settings) < len(options) or not all(_is_leaf(base, key) for key in settings):
        return _by_hydra([*(f"{group}={name}" for group, name in chosen.items()), *options])
    for key, value in settings.items():
        *path, last = key.split(".")
        node = base
        for part in path:
            node = node[part]
        node[last] = value
    return base


def _is_leaf(config: dict[str, Any], key: str) -> bool:
    node: Any = config
    for part in key.split("."):
        node = node[part]
    return not isinstance(node, dict | list)


def _plain(argument: str) -> tuple[str, Any] | None:
    """(key, value) of an argument that is a whole number, a decimal, a word or a quoted text; None for any other.

    >>> _plain("num_samples=100"), _plain("model.prior={a: 1}")
    (('num_samples', 100), None)
    """
    match = PLAIN.fullmatch(argument)
    if match is None:
        return None
    key, word = match["key"], match["word"]
    if word is not None:
        special = word.lower() in (*WORDS, "nan", "inf")
        return None if special and word not in WORDS else (key, WORDS.get(word, word))
    if match["text"] is not None:
        return key, match["text"]
    return (key, int(match["whole"])) if match["whole"] is not None else (key, float(match["number"]))


def _by_hydra(overrides: list[str]) -> dict[str, Any]:
    """The configuration that Hydra composes, as plain containers."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            composed = hydra.compose("run", overrides=overrides)
        plain = OmegaConf.to_container(composed, resolve=False)  # ${…} is text: it could print variables of the environment
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(str(error).splitlines()[0]) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _parse(argument: str) -> "Override":
    """An argument that is not plain; raises a `ZooError` with one that can be read, where there is one."""
    key, mark, value = argument.partition("=")
    if not mark:
        raise ZooError(f"{argument!r} does not have the form key=value, such as model=gmm; see --help")
    if not re.fullmatch(KEY, key, re.ASCII):
        name = key.strip("-+~. ")
        example = f"{name}={value}" if re.fullmatch(KEY, name, re.ASCII) else "model=gmm"
        raise ZooError(f"{argument!r}: options are set by key=value, without + or ~ or --, such as {in_shell(example)}")
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    try:
        return parser.parse_override(argument)
    except (HydraException, ValueError) as error:
        as_text, why = f"{key}={quoted(value)}", str(error).splitlines()[0]
        with suppress(HydraException):
            parser.parse_override(as_text)
            why = f"as a text it needs quotes, {in_shell(as_text)}"
        raise ZooError(f"{argument!r} cannot be read: {why}") from error


def _translate(argument: str) -> str:
    """``data=<path>`` and ``model=<file.py>:<function>``, rewritten as ``data.path=`` and ``model.path=``."""
    key, _, value = argument.partition("=")
    if key == "data" and value not in choices("data") and ("." in value or "/" in value or exists(value)):
        return f"data.path={quoted(value, "'")}"
    if key == "model" and ".py:" in value:
        return f"model.path={quoted(value, "'")}"
    if key in ("out", "resume") and value not in ("", "null") and value[0] not in "'\"":
        return f"{key}={quoted(value, "'")}"
    if key == "model.prior" and "(" in value and "'" not in value and '"' not in value:  # beta(2,2) is a name, not a function
        return f"model.prior={quoted(value, "'")}"
    return argument


def _gather_prior(arguments: list[str]) -> list[str]:
    """``model.prior.<block>.<name>=<value>`` as one dictionary; ``data=file`` and ``model=program`` before their options."""
    prior: dict[str, dict[str, str]] = {}
    rest = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key.startswith(PRIOR):
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


# ---------------------------------------------------------------------------------------------------------------------
# Options that go with resume=


def taken(arguments: Sequence[str], old: Mapping[str, Any]) -> list[str]:
    """The arguments in addition to ``resume=`` that change something; ``old`` is the configuration of the run.

    An option that is given again as the run has it is left out. Any other raises a `ZooError` that names it.
    """
    goes = [name for name in TAKEN if name in old]
    changes = []
    for argument in arguments:
        name, mark, _ = argument.partition("=")
        whose = name.partition(".")[0]
        if whose in ("resume", RUNTIME, *goes) or not mark or (name == "model" and ".py:" in argument):
            changes.append(argument)
        elif not _is_known(name, old):
            raise ZooError(f"unknown option {name!r}{did_you_mean(name, goes)}; resume= takes {_listed(goes)}")
        elif not _is_as_before(argument, old):
            raise ZooError(_why_not(argument, old, goes))
    return changes


def _is_known(name: str, old: Mapping[str, Any]) -> bool:
    """Whether a run has an option, or one by another method has it."""
    group, dot, rest = name.partition(".")
    if dot:
        return group in ("model", "data") and rest.partition(".")[0] in old[group]
    return name in old or name in run_options() or any(name in entry_defaults("method", one) for one in choices("method"))


def _is_as_before(argument: str, old: Mapping[str, Any]) -> bool:
    """Whether an argument gives an option as the run has it."""
    name = argument.partition("=")[0]
    if name.partition(".")[0] not in old:
        return False
    if name == "out":
        return bool(old["out"]) and Path(argument.partition("=")[2].strip("'\"")).resolve() == Path(old["out"]).resolve()
    entries = {"method": old["method"], "model": old["model"]["name"], "data": old["data"]["name"]}
    others = [f"{group}={entry}" for group, entry in entries.items() if group != name]
    given: Any = compose(expand([*others, argument], sweep=False)[0])
    if name in ("model", "data"):
        path = given[name].get("path")
        return given[name]["name"] == old[name]["name"] and path in (None, old[name].get("path"))
    had: Any = old
    for part in name.split(".", 2):
        given, had = given[part], had[part]
        if isinstance(had, dict) and isinstance(given, dict) and part not in ("model", "data"):  # by column, or of a prior
            return given.items() <= had.items()
        if not isinstance(had, dict):
            break
    return bool(given == had)


def _why_not(argument: str, old: Mapping[str, Any], goes: Sequence[str]) -> str:
    name = argument.partition("=")[0]
    if name in EXTENDED:
        longer = _listed([one for one in EXTENDED if one in old])
        return f"{argument} is no option of {old['method']}: use {longer} to make the run longer"
    if name in REASONS:
        return f"{argument} does not go with resume=: {REASONS[name]}"
    return (
        f"{argument} does not go with resume=, which keeps the posterior of the run and its draws. It takes {_listed(goes)}, "
        "runtime=, and for your own program model=<file.py>:<function>. For anything else begin a new run"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"{one}=" for one in names)
