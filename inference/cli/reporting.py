"""`inference.report` from the shell: the tables, pictures and report of a run folder, made again from its result."""

import sys
from pathlib import Path
from typing import Any

from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import prepare_jax
from inference.cli.runs.fitted_run import FittedRun, finished_config, fitted_run, key_values
from inference.cli.runs.stored_run import has_environment, with_digest
from inference.report.views import write_views
from inference.runtime.files import CONFIG, ENVIRONMENT, MANIFEST, RESULTS, complete, in_manifest, intact, read, reopen
from inference.runtime.lock import locked
from models.errors import ZooError

USAGE = "python -m inference.report run=<folder> [pictures=true|false]"
PICTURES = {"true": True, "false": False}


def report_again(arguments: list[str]) -> int:
    """Write the views of a finished run again; returns the exit code."""
    given = key_values(arguments, ("run", "pictures", "model").__contains__, USAGE)
    if not given.get("run"):
        raise ZooError(f"run= is missing: {USAGE}")
    if given.get("pictures", "true") not in PICTURES:
        raise ZooError(f"pictures must be true or false, got {given['pictures']!r}")
    folder = Path(given["run"])
    prepare_jax(finished_config(folder)[0])
    run = fitted_run(folder, _named(arguments))
    config = run.config | ({"pictures": PICTURES[given["pictures"]]} if "pictures" in given else {})
    with locked(folder):
        names = rewrite(run, config)
    print(f"{', '.join(names)} in {folder}")
    return 0


def _named(arguments: list[str]) -> dict[str, Any] | None:
    """The model section that names a user's program again."""
    named = [argument for argument in arguments if argument.startswith("model=")]
    return with_digest(compose(expand(named, sweep=False)[0]))["model"] if named else None


def rewrite(run: FittedRun, config: dict[str, Any]) -> list[str]:
    """Write all output that needs the result alone, and the manifest last; returns the names of the files."""
    folder = run.folder
    text = read(folder / CONFIG).decode()
    whole = intact(folder)
    changed = {path.name for path in in_manifest(folder) if path.is_file()} - whole
    if not has_environment(folder):
        changed.add(ENVIRONMENT)
    # The result and the configuration have been read: their seals are right.
    unchanged = (whole | {RESULTS, CONFIG, ENVIRONMENT}) - changed
    reopen(folder)
    written = write_views(config, run.model, run.tree, run.observed, folder, text)
    complete(folder, {*(folder / name for name in unchanged), *written})
    names = [path.name for path in written]
    for name in sorted(changed):
        now = "it is written anew" if name in names else f"{MANIFEST} no longer names it"
        print(f"warning: {folder / name} is not as its run wrote it: {now}", file=sys.stderr)
    return names
