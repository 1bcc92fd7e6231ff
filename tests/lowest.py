"""`python -m tests.lowest`: do the models run with the lowest versions that `pyproject.toml` allows?

It makes an environment in a temporary folder: the lowest version of every direct dependency, and the newest of all others. It
runs the default command of every model there. Each model that fails is one line. The exit code is then 3, and otherwise 0.

`lowest_versions.json` records what passed: a hash of the dependencies, the date, the versions, and the seconds of processors.
As long as the dependencies are the recorded ones, the command does nothing. `python -m tests.lowest renew` runs the models in
any case, and records that they passed. The hash does not cover the code of the models: renew the record after a change that
uses something new of a dependency.
"""

# ruff: noqa: T201

import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inference.runtime.entries import choices
from tests.passed import asks_to_renew, read_record, write_record

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "lowest_versions.json"
RENEW = "uv run python -m tests.lowest renew"
MOST_SECONDS = 900  # of one model
FINISHED = (0, 3)  # 3: the run is whole, and one of its diagnostics failed
# Default runs that take twenty minutes and more. These steps go through the same programs, and are too few for the diagnostics
SHORTER = dict.fromkeys(
    ("latent_dirichlet", "naive_bayes", "poisson_naive_bayes", "state_space"), ("num_warmup=25", "num_samples=25")
)
# Of this process, and not of a user who starts the command
LEFT_OUT = ("JAX_", "XLA_", "PYTHON", "VIRTUAL_ENV", "UV_CONSTRAINT", "UV_RESOLUTION")


def main(arguments: Sequence[str]) -> int:
    """Run the models, unless the record has these dependencies; returns the exit code."""
    if (renew := asks_to_renew(arguments)) is None:
        return 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    record = read_record(RECORD)
    if not renew and record.get("dependencies") == digest(project):
        print(f"lowest versions: the models ran with them on {record['date']}, and no dependency has changed since")
        return 0
    with TemporaryDirectory(prefix="bayes-model-zoo-lowest-") as folder:
        python, versions = environment(Path(folder), lowest_python(project))
        problems = unreached(project["dependencies"], versions)
        seconds: dict[str, int] = {}
        for model in sorted(set(choices("model")) - {"program"}):
            before = processors()
            problems += [f"{model}: {said}"] if (said := failure(python, model, Path(folder))) else []
            seconds[model] = round(processors() - before)
    for problem in problems:
        print(f"lowest versions: {problem}")
    if problems:
        return 3
    print(f"lowest versions: all {len(seconds)} models ran, in {sum(seconds.values())} seconds of processors")
    if renew:
        new = {"dependencies": digest(project), "date": str(date.today()), "versions": versions, "seconds": seconds}
        write_record(RECORD, new)
    else:
        print(f"lowest versions: the dependencies are not those of {RECORD.name}; renew it by: {RENEW}")
    return 0


def processors() -> float:
    """Seconds of processors that finished commands have taken: other work on the machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def digest(project: Mapping[str, Any]) -> str:
    """A hash of Python's bound and of the dependencies, which does not depend on their order."""
    stated = [project["requires-python"], *sorted(project["dependencies"])]
    return hashlib.sha256("\n".join(stated).encode()).hexdigest()


def lowest_python(project: Mapping[str, Any]) -> str:
    """The lowest Python that the project allows, such as ``3.12``."""
    return str(project["requires-python"].removeprefix(">="))


def environment(folder: Path, version: str) -> tuple[Path, dict[str, str]]:
    """Make the environment in ``folder``; returns its Python, and the version of everything in it.

    ``--no-config`` leaves out the versions that `pyproject.toml` pins for `uv run`.
    """
    python = folder / "venv" / "bin" / "python"
    uv("venv", "--python", version, folder / "venv")
    uv("pip", "install", "--no-config", "--resolution", "lowest-direct", "--python", python, "--editable", ROOT)
    listed = json.loads(uv("pip", "list", "--format", "json", "--python", python))
    return python, {entry["name"]: entry["version"] for entry in listed if entry["name"] != "bayes-model-zoo"}


def uv(*words: str | Path) -> str:
    """What uv prints; where it fails, this process ends with what uv says about it."""
    command = [os.environ.get("UV", "uv"), *map(str, words)]  # `uv run` names itself
    done = subprocess.run(command, cwd=ROOT, env=clean(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lowest versions: uv {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def clean() -> dict[str, str]:
    """The variables of a user who starts the command."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}


def unreached(dependencies: Sequence[str], versions: Mapping[str, str]) -> list[str]:
    """Bounds that no environment reaches, because other packages need a newer version: `pyproject.toml` promises too much.

    A version reaches a bound that it begins with, as 24.3.6 reaches ``>=24``: there may have been no 24.0.
    """
    problems = []
    for dependency in dependencies:
        name, bound = re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)", dependency).groups()
        if not f"{versions[name]}.".startswith(f"{bound}."):
            problems.append(f"{name}>={bound} is not a bound: {versions[name]} is the lowest version that goes with the others")
    return problems


def failure(python: Path, model: str, folder: Path) -> str:
    """How the default command of a model fails there, in one line; empty if it does not."""
    command = [str(python), "-m", "inference.run", f"model={model}", *SHORTER.get(model, ())]
    variables = clean() | {"XDG_CACHE_HOME": str(folder / "cache")}  # compiled anew, with these versions
    try:
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end after {MOST_SECONDS} seconds"
    if done.returncode in FINISHED:
        return ""
    return f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
