"""The command line: what `inference.run` and `inference.compare` do between the arguments and the exit code.

Exit codes: 0 finished, 2 a mistake in the arguments or the data (one message, no traceback), 3 finished but a diagnostic
failed, 130 interrupted (what was finished is kept).
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

INTERRUPTED = 130
HELP = """\
usage: python -m inference.run [-m] [model=NAME] [method=NAME] [data=NAME|FILE] [option=value ...]
       python -m inference.compare [model=NAME] method=A,B,... [data=NAME|FILE] [option=value ...]
       python -m inference.compare RUN_FOLDER RUN_FOLDER ...

  python -m inference.run model=gmm method=nuts
  python -m inference.run model=gmm method=em data=table.csv data.label=species out=runs/mine
  python -m inference.run -m model=gmm model.num_components=1,2,3,4 method=em
  python -m inference.compare model=gmm method=em,map,cavi,gibbs,nuts
"""


def guarded(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run ``main``; a `ZooError` is one message on standard error and exit code 2."""
    if {"--help", "-h"} & set(arguments):
        print(help_text())
        return 0
    from models.data import ZooError

    try:
        return main(arguments)
    except ZooError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted", file=sys.stderr)
        return INTERRUPTED


def help_text() -> str:
    """Usage, and the models, methods, data sets and options there are, read from the configuration files."""
    from inference.config import choices, options_of

    lines = [HELP]
    for group in ("model", "method", "data"):
        entries = choices(group)
        lines += [f"{group}:", *(f"  {name:<14} {text}" for name, text in entries.items()), ""]
    lines += ["options (name=value; model.* and data.* belong to the entry chosen):"]
    lines += [f"  {name}: {', '.join(options)}" for name, options in options_of().items()]
    return "\n".join(lines)


def run_main(arguments: list[str]) -> int:
    """One run, or with ``-m`` one for every combination of the comma lists; the largest exit code of all."""
    from inference.config import compose, expand
    from inference.runs import prepare_jax
    from models.data import ZooError

    resuming = [a for a in arguments if a.startswith("resume=")]
    if resuming and (extra := [a for a in arguments if not a.startswith(("resume=", "progress="))]):
        raise ZooError(f"{extra[0]} does not go with resume=, which keeps the run's own configuration; only progress does")
    sweep = any(flag in arguments for flag in ("-m", "--multirun"))
    overrides = [a for a in arguments if a not in ("-m", "--multirun")]
    configs = [compose(one) for one in expand(overrides, sweep)]
    for config in configs:
        prepare_jax(config)
    codes = []
    for index, config in enumerate(configs):
        if sweep:
            config["out"] = str(Path(config["out"]) / str(index)) if config["out"] else None
            print(f"── {index + 1} of {len(configs)}: {' '.join(expand(overrides, sweep)[index])}", file=sys.stderr)
        codes.append(_run(config, shown=index > 0 and _same_columns(config, configs[index - 1])))
        if codes[-1] == INTERRUPTED:
            break
    return max(codes)


def _same_columns(config: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether the columns of a run have been shown with those of the one before."""
    return bool(config["data"] == before["data"] and config["model"]["name"] == before["model"]["name"])


def _run(config: dict[str, Any], shown: bool) -> int:
    from rich.console import Console

    from inference.report import print_result
    from inference.runs import execute

    tree, folder = execute(config, show_columns=not shown)
    return print_result(tree, Console(), folder).exit_status


def compare_main(arguments: list[str]) -> int:
    """Run several methods, or load run folders; print one table, write ``comparison.csv`` and ``comparison.png``."""
    from inference.comparing import compare_runs

    return compare_runs(arguments)
