"""The files of the project as they are now: their names, their contents, their modules, and what test files import."""

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath

from .values import File, closure, parsed, takes_from

ROOT = Path(__file__).parents[2]
SHARED = "conftest.py"  # which test files below it use
PYTHON = ".python-version"
SETTINGS = "pyproject.toml: versions and settings of tests"  # a part of the file that every test depends on
ROOTS = ("", "tests/", "tests/oracles/")  # where imports are looked for
NOT_TESTED_BY = ("addopts", "markers", "compiled_programs", "testpaths")  # settings of pytest that change no outcome


class Tree:
    """A checkout. Git says which files belong to it: those it knows, and new ones that it would add. Without Git all do."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._hashes: dict[str, str] = {}
        self._parsed: dict[str, File] = {}
        self._takes: dict[str, set[str]] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """All its files."""
        try:
            listed = git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        except (OSError, subprocess.CalledProcessError):
            listed = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*")]
        return frozenset(name for name in listed if name and (self.root / name).is_file())

    @cached_property
    def folders(self) -> dict[str, set[str]]:
        """What is in each folder, whose name ends in a slash."""
        found: dict[str, set[str]] = {}
        for name in self.names:
            path = PurePosixPath(name)
            for above in path.parents:
                found.setdefault(f"{above}/", set()).add(path.relative_to(above).parts[0])
        return found

    def file_of(self, module: str) -> str | None:
        """The file of a module, or none: it is not of the project."""
        path = module.replace(".", "/")
        tried = (f"{root}{path}{end}" for root in ROOTS for end in (".py", "/__init__.py"))
        return next((name for name in tried if name in self.names), None)

    def parsed(self, name: str) -> File:
        """What it takes from others."""
        if name not in self._parsed:
            inside = name.removesuffix(".py").removesuffix("/__init__").split("/")
            package = inside if name.endswith("__init__.py") else inside[:-1]
            source = (self.root / name).read_text("utf-8") if name in self.names else ""
            self._parsed[name] = parsed(source, ".".join(package), lambda module: self.file_of(module) is not None)
        return self._parsed[name]

    def takes(self, name: str) -> set[str]:
        """The files whose values it takes."""
        if name not in self._takes:
            self._takes[name] = takes_from(name, self.file_of, self.parsed)
        return self._takes[name]

    def helpers(self, test_file: str) -> set[str]:
        """The test file, and what it imports of tests/, directly or not."""
        beside = [f"{above}/{SHARED}" for above in PurePosixPath(test_file).parents]
        found, waiting = set(), [test_file, *(name for name in beside if name in self.names)]
        while waiting:
            name = waiting.pop()
            if name.startswith("tests/") and name not in found:
                found.add(name)
                waiting += [file for taken in self.parsed(name).taken if (file := self.file_of(taken.module))]
        return found

    def depends(self, test_file: str, reached: Iterable[str]) -> set[str]:
        """All that the outcome of a test file depends on, of which it has reached a part."""
        return closure({*reached, *self.helpers(test_file)}, self.takes) | {SETTINGS, PYTHON}

    def digest(self, test_file: str, reached: Iterable[str]) -> str:
        """It changes with anything that the outcome of the test file depends on."""
        return self.digest_of(self.depends(test_file, reached))

    def digest_of(self, names: Iterable[str]) -> str:
        """It changes with the content of any of them."""
        pairs = [f"{name} {self.hash_of(name)}" for name in sorted(names)]
        return hashlib.sha256("\n".join(pairs).encode()).hexdigest()[:12]

    def changed_since(self, begin: float, names: Iterable[str]) -> bool:
        """Whether one of the files was written after a time."""
        return any((self.root / name).stat().st_mtime > begin for name in names if name in self.names)

    def hash_of(self, name: str) -> str:
        """Of the content of a file, of the names in a folder, or of the settings."""
        if name not in self._hashes:
            self._hashes[name] = hashlib.sha256(self._content(name)).hexdigest()
        return self._hashes[name]

    def _content(self, name: str) -> bytes:
        if name == SETTINGS:
            path = self.root / "pyproject.toml"
            return settings(path.read_text("utf-8")) if path.exists() else b""
        if name.endswith("/"):
            return "\n".join(sorted(self.folders.get(name, ()))).encode()
        return (self.root / name).read_bytes() if name in self.names else b""


def settings(text: str) -> bytes:
    """The part of pyproject.toml that tests depend on."""
    read = tomllib.loads(text)
    project, tools = read.get("project", {}), read.get("tool", {})
    parts = [project.get(key) for key in ("requires-python", "dependencies", "optional-dependencies")]
    own = {key: value for key, value in tools.get("pytest", {}).get("ini_options", {}).items() if key not in NOT_TESTED_BY}
    return json.dumps([parts, read.get("dependency-groups"), tools.get("uv"), own], sort_keys=True).encode()


def git(root: Path, *words: str) -> str:
    """What a command of git prints."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, check=True).stdout.decode()
