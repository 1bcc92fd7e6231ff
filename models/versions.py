"""Versions below the bounds of the zoo's dependencies: importing `models` or `inference` then raises an error of one line.

``pyproject.toml`` alone states the bounds. An installation copies them into the metadata of the zoo, and this file reads them
there. It compares all direct dependencies before the zoo imports any of them, because an old version may fail late:
NumPyro 0.21 fails in the middle of a run. A command should start at once, and ``importlib.metadata`` takes 35 ms to import.
So this file uses the names of folders, and reads one file: below a millisecond.

It does not check a zoo that is not installed (``PYTHONPATH``), a dependency without metadata, and folders with another name
than ``site-packages``.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

ZOO = "bayes-model-zoo"
PLACES = ("site-packages", "dist-packages")  # folders of `sys.path` that packages are installed to


def require_versions() -> None:
    """Raise an error for dependencies below their bounds, in one line which names the command that installs newer ones.

    A command, as ``python -m inference.run``, ends with exit code 2, as for other mistakes that the user can correct. Any other
    import is a `ZooError`.
    """
    if not (old := below_bounds(sys.path)):
        return
    needed = ", ".join(f"{name}>={bound} ({version} is installed)" for name, bound, version in old)
    wanted = " ".join(f"'{name}>={bound}'" for name, bound, _ in old)
    message = f"the zoo needs {needed}: run pip install {wanted}, or uv sync in the zoo's folder"
    if sys.argv[:1] == ["-m"]:  # Python documents this value for the time in which it looks for the file of `python -m`
        sys.stderr.write(f"error: {message}\n")
        sys.exit(2)
    from models.errors import ZooError

    raise ZooError(message)


def below_bounds(folders: Iterable[str]) -> list[tuple[str, str, str]]:
    """The name, the bound and the version of every direct dependency that is older than its bound.

    ``folders`` are those of `sys.path`. A package may be in several of them: Python imports the first.
    """
    installed: dict[str, tuple[str, Path]] = {}  # package -> its version, and its folder of metadata
    for folder in map(Path, folders):
        if folder.name in PLACES:
            installed = _versions(folder) | installed
    if ZOO not in installed:
        return []
    return [
        (name, bound, version)
        for name, bound in _bounds(installed[ZOO][1] / "METADATA")
        for version, _ in [installed.get(name, (bound, None))]
        if _release(version) < _release(bound)
    ]


def _versions(folder: Path) -> dict[str, tuple[str, Path]]:
    """Packages in a folder; the newer one of two versions, where an update has left the metadata of the older one behind."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:  # five times as fast as Path.glob
        names = [entry.name for entry in entries if entry.name.endswith(".dist-info")]
    versions: dict[str, tuple[str, Path]] = {}
    for entry in names:
        name, _, version = entry.removesuffix(".dist-info").rpartition("-")
        if (name := _normal(name)) not in versions or _release(versions[name][0]) < _release(version):
            versions[name] = (version, folder / entry)
    return versions


def _bounds(metadata: Path) -> Iterator[tuple[str, str]]:
    """The dependencies that a file of metadata names with ``>=``, and their bounds; not those of extras or with a condition."""
    if not metadata.is_file():
        return
    with metadata.open(encoding="utf-8") as lines:
        for line in takewhile(str.strip, lines):  # an empty line ends the header
            field, _, needed = line.partition(":")
            if field == "Requires-Dist" and ">=" in needed and ";" not in needed:
                name = "".join(takewhile(lambda letter: letter not in "[<>=!~,( ", needed.strip()))
                yield _normal(name), needed.partition(">=")[2].partition(",")[0].strip()


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at its end: (0, 22, 1) of ``0.22.1rc1``, (3,) of ``3.0``."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = "".join(takewhile(str.isdigit, part))
        numbers += [int(digits)] if digits else []
        if digits != part:
            break
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
