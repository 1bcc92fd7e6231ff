"""Imports that fail outside the zoo: a file that hides one of its packages, and a NumPyro that is only partly loaded."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path


def require_in_folder(name: str, spec: ModuleSpec | None, folder: Path) -> None:
    """An `ImportError` of one line where Python imports a package ``name`` that is not the one in ``folder``.

    Python looks in the folder of a notebook or script first. A file ``models.py`` there hides the zoo's package of this name.
    """
    expected = folder / name / "__init__.py"
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != expected.resolve():
        place = "no file" if spec is None or spec.origin is None else spec.origin
        raise ImportError(
            f"the zoo needs its own package {name!r}, and Python finds {place} in its place: rename that file, or start "
            "Python in another folder",
            name="inference",  # so that `python -m inference.run` prints this line alone
        )


def require_models() -> None:
    """An `ImportError` where ``import models`` does not import the zoo's package."""
    require_in_folder("models", find_spec("models"), Path(__file__).parents[2])


def complete_numpyro() -> None:
    """Set every loaded module of NumPyro as an attribute of its package, where it is missing.

    ArviZ leaves a lazy ``numpyro`` behind. After ``from numpyro.infer import MCMC`` its modules are loaded, but
    ``numpyro.infer.hmc`` is an `AttributeError`.
    """
    for name, module in list(sys.modules.items()):
        parent, _, attribute = name.rpartition(".")
        if name.startswith("numpyro.") and attribute not in vars(sys.modules[parent]):
            setattr(sys.modules[parent], attribute, module)
