"""Topics of the documents of a result: their shares of the topics, and the most typical documents of every topic."""

import numpy as np
import pandas as pd
import xarray as xr

from inference.results.tree import kept_columns, table_of
from inference.topics.access import OF_DOCUMENTS
from inference.topics.stability import topic_site

SHARES = "topic_shares.csv"
TYPICAL = 3  # documents of a topic on the page
TITLE = "documents with the largest share of each topic"


def topic_shares(tree: xr.DataTree, numbers: np.ndarray | None = None) -> pd.DataFrame | None:
    """One line for each document: its number, its kept columns, and its share of every topic, in ``topic <name>``.

    Shares are means over the draws. ``numbers`` (N,) are those of the documents in the table that they were taken from; 1, 2, …
    by default. None for a result without topics, or without proportions of documents.
    """
    proportions = _proportions(tree)
    if proportions is None:
        return None
    shares = np.asarray(proportions.mean([dim for dim in proportions.dims if dim not in OF_DOCUMENTS]).transpose(*OF_DOCUMENTS))
    named = {"row": np.arange(len(shares)) + 1 if numbers is None else numbers} | kept_columns(table_of(tree))
    return pd.DataFrame(named | {f"topic {name}": shares[:, k] for k, name in enumerate(_names(proportions))})


def typical_documents(tree: xr.DataTree, numbers: np.ndarray | None = None) -> pd.DataFrame:
    """For each topic, the largest first, its `TYPICAL` documents with the largest share of it; empty without shares.

    A document has the name in the first of its kept columns; without one its number.
    """
    proportions, table = _proportions(tree), topic_shares(tree, numbers)
    if proportions is None or table is None:
        return pd.DataFrame()
    names = _names(proportions)
    shares = table[[f"topic {name}" for name in names]].to_numpy()
    first = table.columns[1] if len(table.columns) > 1 + len(names) else "row"
    called = [str(name) if first != "row" else f"document {name}" for name in table[first]]
    lines = []
    for share in shares.T:
        best = np.argsort(-share, kind="stable")[:TYPICAL]
        lines.append(", ".join(f"{called[n]} ({share[n]:.0%})" for n in best))
    order = np.argsort(-shares.mean(0), kind="stable")
    index = pd.Index([names[k] for k in order], name="topic")
    return pd.DataFrame({"documents": [lines[k] for k in order]}, index=index)


def _proportions(tree: xr.DataTree) -> xr.DataArray | None:
    """The topic proportions of documents, with the dimensions of the draws before them."""
    if topic_site(tree) is None:
        return None
    sites = tree["posterior" if "posterior" in tree else "point_estimate"].to_dataset().data_vars.values()
    return next((site for site in sites if site.dims[-2:] == OF_DOCUMENTS), None)


def _names(proportions: xr.DataArray) -> list[str]:
    return [str(name) for name in np.asarray(proportions.coords["topic"])]
