"""Tables, documents and sequences as NumPy arrays, and functions on their columns and labels. No JAX.

Imports `models.errors` alone. `load_data` and `as_data` are defined in `models.reading`, which builds on this room; they are
also available here. Every name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.data.classes import allowed_labels, missing_labels
    from models.data.table import Data, Note, held_out_mask, split, take
    from models.errors import ZooError

EXPORTS = {  # name -> the module that defines it
    "Data": "models.data.table",
    "Note": "models.data.table",
    "ZooError": "models.errors",
    "allowed_labels": "models.data.classes",
    "as_data": "models.reading.load",
    "held_out_mask": "models.data.table",
    "load_data": "models.reading.load",
    "missing_labels": "models.data.classes",
    "split": "models.data.table",
    "take": "models.data.table",
}

__all__ = [
    "Data",
    "Note",
    "ZooError",
    "allowed_labels",
    "as_data",
    "held_out_mask",
    "load_data",
    "missing_labels",
    "split",
    "take",
]


def __getattr__(name: str) -> Any:
    """An exported name, imported on first use (PEP 562)."""
    if name not in EXPORTS:
        raise AttributeError(f"module 'models.data' has no attribute {name!r}")
    return getattr(import_module(EXPORTS[name]), name)
