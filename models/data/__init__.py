"""Tables, documents and sequences as NumPy arrays, and functions on their columns and labels. No JAX.

Imports no other room. `load_data` and `as_data` are defined in `models.reading`, which builds on this room; they are also
available here.
"""

from typing import Any

from models.data.classes import allowed_labels, missing_labels
from models.data.table import Data, Note, ZooError, held_out_mask, split, take

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
    """`load_data` and `as_data`, imported on first use (PEP 562)."""
    if name in ("load_data", "as_data"):
        from importlib import import_module

        return getattr(import_module("models.reading.load"), name)
    raise AttributeError(f"module 'models.data' has no attribute {name!r}")
