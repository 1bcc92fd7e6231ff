"""Orders of import: each in a fresh interpreter."""

import subprocess
import sys

import pytest

LIBRARIES = ("arviz_base", "arviz_stats", "numpyro", "jax")
ENTRANCES = ("inference.program", "inference.fitting", "models.gmm", "models.gaussians")


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_numpyro_is_whole_whatever_is_imported_first(library, entrance):
    """ArviZ puts a lazy numpyro into `sys.modules`; a submodule imported through it lacks its own attributes."""
    code = f"import {library}, {entrance}, numpyro; numpyro.distributions.distribution.Unit"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
