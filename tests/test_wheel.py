"""The wheel: built through the source distribution, installed into an empty environment, and run there."""

import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(UV is None, reason="no uv")]


def run(*command, cwd):
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of both distributions; the wheel is made of the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(UV, "build", "--quiet", "--out-dir", folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


def test_what_is_in_them(built):
    """The wheel has the three packages with their configuration and data, and nothing else."""
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"models", "inference", "labs"}
    tracked = run("git", "ls-files", "models", "inference", "labs", cwd=ROOT).stdout.split()
    assert not set(tracked) - set(names)
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        source = archive.getnames()
    assert any(name.endswith("/LICENSE") for name in source)
    assert any(name.endswith("/CITATION.cff") for name in source)
    assert not [name for name in source if "/_build/" in name or "/.venv/" in name]


def test_it_runs_in_an_empty_environment(built, tmp_path):
    """The command of the README, that of labs, and a user's own file that hides the zoo's package."""
    desk = tmp_path / "desk"
    desk.mkdir()
    assert run(UV, "venv", "--quiet", tmp_path / "venv", cwd=ROOT).returncode == 0
    python = tmp_path / "venv" / "bin" / "python"
    installed = run(UV, "pip", "install", "--quiet", "--python", python, next(built.glob("*.whl")), cwd=ROOT)  # ROOT: versions
    assert installed.returncode == 0, installed.stderr
    given = ["model=gmm", "method=em", "out=runs/one", "progress=false"]
    done = run(python, "-m", "inference.run", *given, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert "gmm on iris by em" in done.stdout
    assert (desk / "runs" / "one" / "report.html").is_file()
    listed = [run(python, "-m", module, "list", cwd=desk) for module in ("labs", "inference.lab")]
    assert "k_means" in listed[0].stdout, listed[0].stderr
    assert listed[0].stdout == listed[1].stdout
    (desk / "models.py").write_text("class Mine: pass\n", encoding="utf-8")
    hidden = run(python, "-m", "inference.run", *given, cwd=desk)
    assert hidden.returncode == 1
    assert len(hidden.stderr.splitlines()) == 1
    assert str(desk / "models.py") in hidden.stderr
