"""Commands beside `run` on a disk that is full from the n-th request on: one message, exit code 2, and nothing half-written."""

import hashlib
import shutil
from functools import partial

import numpy as np
import pytest
from failing_disk import Disk, full_from, watched

from inference.cli.main import compare_main, guarded, predict_main, report_main, run_main

pytestmark = pytest.mark.slow

RESULT = ("run/results.nc", "run/config.yaml", "run/environment.json")
OUTPUT = {"predict": "scored.csv", "predict parquet": "scored.parquet", "compare": "compared", "report": "run"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, new rows, and a finished run."""
    root = tmp_path_factory.mktemp("finished")
    rows = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    for name, some in (("rows.csv", rows), ("new.csv", rows[:7])):
        (root / name).write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in some) + "\n", encoding="utf-8")
    given = ["model=gmm", "method=em", "num_starts=1", "pictures=false", "progress=false"]
    assert run_main([*given, f"data={root / 'rows.csv'}", f"out={root / 'run'}"]) in (0, 3)
    return root


def command(name, root):
    """The command that writes ``OUTPUT[name]`` of a folder."""
    run = f"run={root / 'run'}"
    if name == "compare":
        return partial(guarded, compare_main, [str(root / "run"), f"out={root / 'compared'}"])
    if name == "report":
        return partial(guarded, report_main, [run])
    return partial(guarded, predict_main, [run, f"data={root / 'new.csv'}", f"out={root / OUTPUT[name]}"])


def files(root):
    """Digest of every file below a folder, by its name."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", OUTPUT)
def test_a_command_on_a_full_disk(folder, tmp_path, monkeypatch, capsys, name):
    """At every request: the run is as it was, an output is absent or whole, and the command then does its work."""
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    assert command(name, whole)() == 0
    number, failed, wanted = 1, 0, files(whole)
    while True:
        root = tmp_path / str(number)
        shutil.copytree(folder, root)
        before, full, refused = files(root), full_from(number), []

        def fails(asked, name, full=full, refused=refused):
            try:
                full(asked, name)
            except OSError:
                refused.append(name)
                raise

        disk = Disk(root, fails)
        with watched(monkeypatch, disk):
            code = command(name, root)()
        said = capsys.readouterr()
        if not refused:
            assert code == 0
            break
        failed += 1
        assert code == 2, (number, said.err)
        assert "No space left on device" in said.err
        assert "Traceback" not in said.err
        after = files(root)
        kept = before if name != "report" else {path: before[path] for path in RESULT}
        assert {path: after.get(path) for path in kept} == kept
        if name != "report":  # whose pages have the time
            assert {path: wanted.get(path) for path in after} == after, "something half-written"
        if name == "report" or set(after) == set(before):  # predictions and comparisons do not replace what is whole
            assert command(name, root)() == 0
        capsys.readouterr()
        number += 1 if failed < 3 else 4
    assert failed >= 2
