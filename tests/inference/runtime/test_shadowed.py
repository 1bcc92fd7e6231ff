"""A user's file with the name of one of the zoo's packages is named in one line."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from inference.runtime.shadowed import require_in_folder, require_models

ROOT = Path(__file__).parents[3]


def test_a_file_that_hides_models_is_one_line(tmp_path):
    """In the folder where the command starts, as beside a notebook."""
    (tmp_path / "models.py").write_text("class Mine: pass\n", encoding="utf-8")
    command = [sys.executable, "-m", "inference.list"]
    hidden = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert hidden.returncode == 1
    assert len(hidden.stderr.splitlines()) == 1
    assert f"Python finds {tmp_path / 'models.py'} in its place: rename that file" in hidden.stderr


def test_the_own_package_is_no_problem():
    own = find_spec("models")
    assert Path(own.origin) == ROOT / "models" / "__init__.py"
    require_models()
    require_in_folder("models", own, ROOT)


@pytest.mark.parametrize("found", [None, find_spec("json")])
def test_another_package_is_refused(found):
    with pytest.raises(ImportError, match="its own package 'models'"):
        require_in_folder("models", found, ROOT)
