"""A user's program comes from the bytes that were hashed, and leaves nothing beside its file."""

import hashlib
import os
import sys

import pandas as pd
import pytest

from inference.cli.main import guarded, run_main
from inference.cli.runs import execute as runs
from inference.programs.program_file import digest_of, load_program
from models import ZooError

POSTPONED = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Prior:
    scale: float = 2.0

def scale():
    return Prior().scale
"""


def test_the_bytes_are_read_and_no_cache_is_believed(tmp_path):
    """Two contents of one size and one time: Python's cache takes the second for the first."""
    file = tmp_path / "mine.py"
    for number in (1, 2):
        file.write_text(f"def f(): return {number}\n")
        os.utime(file, (10**9, 10**9))
        assert load_program(f"{file}:f")() == number
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert load_program(f"{file}:f", digest)() == 2
    assert digest_of(f"{file}:f") == digest
    with pytest.raises(ZooError, match="was changed"):
        load_program(f"{file}:f", "0" * 64)


def test_dataclasses_with_postponed_annotations(tmp_path):
    (tmp_path / "mine.py").write_text(POSTPONED)
    assert load_program(f"{tmp_path}/mine.py:scale")() == 2.0
    assert "mine" not in sys.modules


def test_a_file_that_fails_leaves_no_module(tmp_path):
    (tmp_path / "failing.py").write_text("1 / 0\n")
    with pytest.raises(ZooError, match="does not load: ZeroDivisionError"):
        load_program(f"{tmp_path}/failing.py:f")
    assert not [name for name in sys.modules if "failing" in name and name.startswith("_program")]


def test_a_file_that_changes_under_the_run_is_refused(tmp_path, monkeypatch, capsys):
    file, real = tmp_path / "mine.py", runs.load_program
    file.write_text("def f(x): pass\n")
    pd.DataFrame({"x": [1.0, 2.0]}).to_csv(tmp_path / "table.csv", index=False)

    def late(*arguments):
        file.write_text("def f(x): raise RuntimeError\n")
        return real(*arguments)

    monkeypatch.setattr(runs, "load_program", late)
    given = [f"model={file}:f", "method=map", f"data={tmp_path}/table.csv", f"out={tmp_path}/run"]
    assert guarded(run_main, given) == 2
    assert "was changed while it was being read" in capsys.readouterr().err
