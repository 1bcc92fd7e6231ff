"""What `python -m tests.lowest` says, with commands that do not run: the models themselves run by that command."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import lowest
import pytest

from models import MODELS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BOUNDS = {entry.partition(">=")[0].partition("[")[0]: entry.partition(">=")[2] for entry in PROJECT["dependencies"]}


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A record of the dependencies as they are."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"dependencies": lowest.digest(PROJECT), "date": "2026-11-28"}), encoding="utf-8")
    monkeypatch.setattr(lowest, "RECORD", path)
    return path


@pytest.fixture
def ran(monkeypatch):
    """The models whose commands run: gmm ends with what ``ran.end`` says, the others well."""

    class Ran(list):
        end = (0, "")

    models = Ran()

    def run(command, **options):
        name = command[3].removeprefix("model=")
        models.append(name)
        code, said = models.end if name == "gmm" else (3, "a diagnostic failed")
        return subprocess.CompletedProcess(command, code, "", said)

    monkeypatch.setattr(lowest, "environment", lambda folder, version: (folder / "python", dict(BOUNDS)))
    monkeypatch.setattr(lowest.subprocess, "run", run)
    return models


def test_nothing_runs_while_the_dependencies_are_the_recorded_ones(record, ran, capsys):
    assert lowest.main([]) == 0
    assert not ran
    assert "2026-11-28" in capsys.readouterr().out


def test_changed_dependencies_run_every_model(record, ran, capsys):
    record.write_text('{"dependencies": "others", "date": "2026-11-28"}', encoding="utf-8")
    before = record.read_bytes()
    assert lowest.main([]) == 0
    assert len(ran) == len(MODELS)
    assert lowest.RENEW in capsys.readouterr().out
    assert record.read_bytes() == before


def test_a_renewed_record_has_what_ran(record, ran):
    record.unlink()
    assert lowest.main(["renew"]) == 0
    new = json.loads(record.read_text(encoding="utf-8"))
    assert new["dependencies"] == lowest.digest(PROJECT)
    assert new["versions"] == BOUNDS
    assert set(new["seconds"]) == set(ran)
    assert lowest.main([]) == 0
    assert len(ran) == len(MODELS)


def test_a_model_that_fails_is_one_line_and_is_not_recorded(record, ran, capsys):
    before = record.read_bytes()
    ran.end = (1, "loading\nerror: a bug in the zoo: AssertionError")
    assert lowest.main(["renew"]) == 3
    assert capsys.readouterr().out == "lowest versions: gmm: exit code 1: error: a bug in the zoo: AssertionError\n"
    assert record.read_bytes() == before


def test_a_model_without_end_is_one_line(record, ran, monkeypatch):
    def run(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(lowest.subprocess, "run", run)
    assert lowest.failure(Path("python"), "gmm", Path()) == "no end after 900 seconds"


def test_an_unknown_argument_is_refused(record, ran):
    assert lowest.main(["again"]) == 2
    assert not ran


def test_the_hash_is_of_the_dependencies_alone():
    assert lowest.digest(PROJECT) == lowest.digest({**PROJECT, "dependencies": PROJECT["dependencies"][::-1], "version": "9"})
    assert lowest.digest(PROJECT) != lowest.digest({**PROJECT, "dependencies": [*PROJECT["dependencies"], "lda>=3"]})
    assert lowest.digest(PROJECT) != lowest.digest({**PROJECT, "requires-python": ">=3.13"})


def test_a_bound_that_no_environment_reaches_is_named():
    assert (
        lowest.unreached(["flatbuffers>=24", "arviz-plots[matplotlib]>=1.0"], {"flatbuffers": "24.3", "arviz-plots": "1.0.0"})
        == []
    )
    (line,) = lowest.unreached(["numpy>=2.1"], {"numpy": "2.10.0"})
    assert line.startswith("numpy>=2.1 is not a bound: 2.10.0")


@pytest.mark.skipif(not lowest.RECORD.exists(), reason="no record")
def test_the_record_names_no_place():
    text = lowest.RECORD.read_text(encoding="utf-8")
    assert "://" not in text
    assert str(Path.home()) not in text


def test_the_page_on_installing_states_the_bounds():
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    stated = re.search(r"## Versions\n.*?```text\n(.*?)```", page, re.DOTALL).group(1)
    assert [entry.strip() for entry in stated.split(",")] == [f"{name} {bound}" for name, bound in BOUNDS.items()]
    assert f"Python {lowest.lowest_python(PROJECT)} or later" in page
