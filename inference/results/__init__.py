"""One result: the tree of groups in ArviZ's schema, its table, its observed sites, its draws and their weights.

Imports `inference.engine` and `inference.runtime`.
"""

from inference.results.tree import load, save

__all__ = ["load", "save"]
