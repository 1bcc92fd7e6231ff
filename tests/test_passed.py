"""What `python -m tests.labs` says, with tests that do not run, and what its digest depends on, in a small project."""

import json
import subprocess

import passed
import pytest

from tests.reach.tree import Tree

FILES = {
    "labs/grading.py": "",
    "tests/labs/conftest.py": "",
    "tests/labs/test_labs.py": "import judged_parts\n",
    "tests/labs/passed.json": "{}",
    "tests/oracles/judged_parts.py": "import shared\n",
    "tests/shared.py": "",
    "tests/conftest.py": "",
    "models/base.py": "",
    "inference/conf/run.yaml": "",
    "docs/labs.md": "",
    "pyproject.toml": '[project]\ndependencies = ["numpy"]\n[tool.ruff]\nline-length = 128\n',
    "tests/test_other.py": "",
    "tests/oracles/other.py": "",
    "docs/other.md": "",
    "README.md": "",
}
OTHERS = {"tests/labs/passed.json", "tests/test_other.py", "tests/oracles/other.py", "docs/other.md", "README.md"}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_the_digest_is_of_what_labs_and_their_tests_depend_on(name, project):
    before = passed.digest(Tree(project))
    (project / name).write_text(f"{FILES[name]}\n# changed\n".replace('"numpy"', '"numpy>=2"'), encoding="utf-8")
    assert (passed.digest(Tree(project)) == before) == (name in OTHERS)


@pytest.mark.parametrize("name", ["labs/new.py", "tests/labs/test_new.py", "models/new.csv"])
def test_a_new_file_is_a_change(name, project):
    before = passed.digest(Tree(project))
    (project / name).write_text("", encoding="utf-8")
    assert passed.digest(Tree(project)) != before


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A record of what the tests depend on as it is."""
    path = tmp_path / "passed.json"
    path.write_text(json.dumps({"digest": "now", "date": "2026-11-28"}), encoding="utf-8")
    monkeypatch.setattr(passed, "RECORD", path)
    monkeypatch.setattr(passed, "digest", lambda tree: "now")
    return path


@pytest.fixture
def ran(monkeypatch):
    """The commands that run; they end with the code in ``ran.end``."""

    class Ran(list):
        end = 0

    commands = Ran()

    def run(command, **options):
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, commands.end)

    monkeypatch.setattr(passed.subprocess, "run", run)
    return commands


def test_nothing_runs_while_all_is_as_recorded(record, ran, capsys):
    assert passed.main([]) == 0
    assert not ran
    assert "2026-11-28" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", '{"digest": "before", "date": "2026-11-28"}'])
def test_after_a_change_the_tests_run_and_the_record_stays(text, record, ran, capsys):
    record.write_text(text, encoding="utf-8") if text else record.unlink()
    assert passed.main([]) == 0
    assert ran == [["-m", "pytest", "tests/labs/"]]
    assert passed.RENEW in capsys.readouterr().out
    assert (record.read_text(encoding="utf-8") if record.exists() else "") == text


def test_a_renewed_record_has_what_passed(record, ran):
    record.unlink()
    assert passed.main(["renew"]) == 0
    assert json.loads(record.read_text(encoding="utf-8"))["digest"] == "now"
    assert passed.main([]) == 0
    assert len(ran) == 1
    assert passed.main(["renew"]) == 0
    assert len(ran) == 2


def test_tests_that_fail_are_not_recorded(record, ran, capsys):
    before = record.read_bytes()
    ran.end = 1
    assert passed.main(["renew"]) == 3
    assert capsys.readouterr().out == "labs: tests failed\n"
    assert record.read_bytes() == before


def test_what_changes_while_the_tests_run_is_not_recorded(record, ran, monkeypatch, capsys):
    before, digests = record.read_bytes(), iter(["one", "other"])
    monkeypatch.setattr(passed, "digest", lambda tree: next(digests))
    assert passed.main(["renew"]) == 3
    assert "has changed while they ran" in capsys.readouterr().out
    assert record.read_bytes() == before


def test_an_unknown_argument_is_refused(record, ran, capsys):
    assert passed.main(["again"]) == 2
    assert not ran
    assert capsys.readouterr().err == "error: again: the only argument is renew\n"
