"""The models of the zoo and the data they read. Imports nothing from `inference`.

``MODELS`` maps a name to ``build(data, **options) -> Model``, see `models.zoo`. Every name is imported on first use: reading a
table does not load JAX, and an error in an argument does not load NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from models.versions import require_versions

require_versions()

if TYPE_CHECKING:
    from models.base import Model
    from models.data.table import Data
    from models.errors import ZooError
    from models.inspection.table import inspect_table
    from models.reading.load import load_data
    from models.zoo import MODELS

EXPORTS = {  # name -> the module that defines it
    "MODELS": "models.zoo",
    "Data": "models.data.table",
    "Model": "models.base",
    "ZooError": "models.errors",
    "inspect_table": "models.inspection.table",
    "load_data": "models.reading.load",
}

__all__ = ["MODELS", "Data", "Model", "ZooError", "inspect_table", "load_data"]


def __getattr__(name: str) -> Any:
    """An exported name, imported on first use (PEP 562)."""
    if name not in EXPORTS:
        raise AttributeError(f"module 'models' has no attribute {name!r}")
    return getattr(import_module(EXPORTS[name]), name)


def __dir__() -> list[str]:
    return __all__
