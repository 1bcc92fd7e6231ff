"""The models of the zoo and the data they read. Imports nothing from `inference`.

``MODELS`` maps a name to ``build(data, **options) -> Model``, see `models.zoo`. ``MODELS`` and ``Model`` are imported on first
use: reading a table or printing a help page does not load JAX.
"""

from typing import TYPE_CHECKING, Any

from models.data.table import Data, ZooError
from models.reading.load import load_data

if TYPE_CHECKING:
    from models.base import Model
    from models.zoo import MODELS

__all__ = ["MODELS", "Data", "Model", "ZooError", "load_data"]


def __getattr__(name: str) -> Any:
    """``MODELS`` and ``Model``, imported on first use (PEP 562)."""
    if name == "MODELS":
        from models.zoo import MODELS

        return MODELS
    if name == "Model":
        from models.base import Model

        return Model
    raise AttributeError(f"module 'models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
