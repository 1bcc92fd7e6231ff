"""Orders of import: each in a fresh interpreter."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ORDERS = (
    ("arviz_base", "inference.fitting.fit"),
    ("arviz_stats", "inference.sequences.decoding"),
    ("numpyro", "models.gmm"),
    ("jax", "inference.engine.program"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("library", "entrance"), ORDERS)
def test_numpyro_is_whole_whatever_is_imported_first(library, entrance):
    """ArviZ puts a lazy numpyro into `sys.modules`; a submodule imported through it lacks its own attributes."""
    code = f"import {library}, {entrance}, numpyro; numpyro.distributions.distribution.Unit"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_numpyro_that_the_user_has_half_loaded_is_completed():
    """The first lines of many notebooks: ArviZ, then a part of NumPyro."""
    code = "import arviz_stats; from numpyro.infer import MCMC; import numpyro; print(hasattr(numpyro.infer, 'hmc'))"
    mend = "from inference.runtime.shadowed import complete_numpyro; complete_numpyro()"
    used = "numpyro.infer.hmc.hmc, numpyro.infer.autoguide.AutoNormal, numpyro.infer.util.log_density"
    done = subprocess.run([sys.executable, "-c", f"{code}; {mend}; {used}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n", "NumPyro is whole of itself by now, and nothing has to be completed"


def half_loads(source):
    """Whether a text imports from a submodule of NumPyro before anything from NumPyro itself."""
    named = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    whole = [node.lineno for node in named if node.module == "numpyro"]
    parts = [node.lineno for node in named if node.module.startswith("numpyro.")]
    return bool(parts) and (not whole or min(whole) > min(parts))


def test_numpyro_is_imported_whole_first():
    """Whichever file of ours is the first to import NumPyro: ``from numpyro import …`` loads what ArviZ has left lazy."""
    files = [path for part in ("models", "inference", "labs") for path in (ROOT / part).rglob("*.py")]
    assert not [str(path) for path in files if half_loads(path.read_text(encoding="utf-8"))]
    assert half_loads("import numpyro\nfrom numpyro.infer import SVI")
    assert not half_loads("from numpyro import infer\nfrom numpyro.distributions import constraints")
