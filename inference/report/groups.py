"""The groups of a result: their rows, their sizes, and their agreement with labels that the fit has not seen.

A group is a component, class or state of a result with one such latent for each row, or step of a sequence. Groups keep the
numbers of the result everywhere; tables list the largest first.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.identification.invariants import symmetry_of
from inference.results.tree import kept_columns, table_of
from models.symmetries import Permutation

ASSIGNMENTS, CROSS_TABLE = "assignments.csv", "crosstab.csv"
LABELS_SHOWN = 8  # columns of a cross-table in print


class Groups(NamedTuple):
    """The groups of M rows, or steps."""

    dim: str  # component, class or state
    names: np.ndarray  # (K,)
    probs: np.ndarray  # (M, K)
    decode: np.ndarray  # (M,): the most probable group
    places: pd.DataFrame  # of M lines: row, or sequence and step, from 1; and the columns that the user keeps
    weight: np.ndarray  # (M,): of the rows

    @property
    def share(self) -> np.ndarray:
        """(K,): the expected share of every group in the weight of all rows."""
        counts = self.weight @ self.probs
        return np.asarray(counts / counts.sum())

    @property
    def order(self) -> np.ndarray:
        """(K,): groups by their share, the largest first."""
        return np.argsort(-self.share, kind="stable")


def is_stepwise(tree: xr.DataTree) -> bool:
    """Whether the latents belong to steps of sequences."""
    return "latent" in tree and "time" in tree["latent"].dims


def groups_of(tree: xr.DataTree, numbers: np.ndarray | None = None) -> Groups | None:
    """The groups of a result; None where rows have scores, or shares of topics, or single rows are unknown.

    ``numbers`` (N,) are those of the rows, or sequences, in the table that they were taken from; 1, 2, … by default.
    """
    if "latent" not in tree or "decode" not in tree["latent"] or tree.attrs.get("local_blocks"):
        return None
    latent = tree["latent"].to_dataset()
    decode = latent["decode"]
    named = next(value for value in latent.data_vars.values() if value.dims[:-1] == decode.dims and value.ndim > decode.ndim)
    there = np.nonzero(decode.values >= 0)
    first = (np.arange(len(decode)) + 1 if numbers is None else numbers)[there[0]]
    places = {"sequence": first, "step": there[1] + 1} if len(there) > 1 else {"row": first}
    places |= kept_columns(table_of(tree) if len(there) > 1 else decode)  # the rows of a table of sequences are their steps
    dim, probs = str(named.dims[-1]), named.values[there].astype(float)
    return Groups(dim, named.coords[dim].values, probs, decode.values[there], pd.DataFrame(places), _weights(tree, there))


def _weights(tree: xr.DataTree, there: tuple[np.ndarray, ...]) -> np.ndarray:
    """(M,): the weight of every row, or of the sequence of every step; 1 where the table has none."""
    table = table_of(tree)
    if "weight" not in table:
        return np.ones(len(there[0]))
    weight = np.asarray(table["weight"], dtype=float)
    return weight if len(weight) == len(there[0]) else weight[there[0]]


def assignments(groups: Groups) -> pd.DataFrame:
    """One line for each row: its group and probability; the second best too, where there are three groups or more.

    The columns have the names of predictions (`inference.predictions.predict`): ``assignment``, ``probability``.
    """
    order = np.argsort(-groups.probs, axis=1, kind="stable")
    best = np.take_along_axis(groups.probs, order, 1)
    columns: dict[str, Any] = {"assignment": groups.names[order[:, 0]], "probability": best[:, 0]}
    if len(groups.names) > 2:
        columns |= {"second_assignment": groups.names[order[:, 1]], "second_probability": best[:, 1]}
    return groups.places.assign(**columns)


def unseen_labels(tree: xr.DataTree, groups: Groups) -> tuple[np.ndarray, list[str]] | None:
    """(label (M,) of every row, −1 where it is missing; names), where the fit has not seen the labels; or None."""
    table = table_of(tree)
    if "label" not in table or tree.attrs.get("labels_observed", 0):
        return None
    label = np.asarray(table["label"])
    if label.shape != groups.decode.shape or not (label >= 0).any():  # whole documents have one label each
        return None
    return label, [str(level) for level in np.atleast_1d(table.attrs.get("levels", ()))]


def cross_table(tree: xr.DataTree) -> pd.DataFrame | None:
    """How many rows of each label are in each group, by the most probable group: groups by labels, the largest group first.

    Rows without a label do not count. None without groups, or without labels that the fit has not seen.
    """
    groups = groups_of(tree)
    labels = None if groups is None else unseen_labels(tree, groups)
    if groups is None or labels is None:
        return None
    label, names = labels
    counts = np.zeros((len(groups.names), len(names)), int)
    np.add.at(counts, (groups.decode[label >= 0], label[label >= 0]), 1)
    table = pd.DataFrame(counts, index=pd.Index(groups.names.astype(str), name=groups.dim), columns=names)
    return table.iloc[groups.order]


def agreement(tree: xr.DataTree) -> str:
    """The adjusted Rand index of groups and labels, in words; "" where there are no labels to compare with."""
    groups = groups_of(tree)
    labels = None if groups is None else unseen_labels(tree, groups)
    if groups is None or labels is None:
        return ""
    known = labels[0] >= 0
    score = adjusted_rand_index(labels[0][known], groups.decode[known])
    what = "states" if is_stepwise(tree) else "components"
    return f"adjusted Rand index of the most probable {what} and the data's labels: {score:.3f}"


def adjusted_rand_index(left: np.ndarray, right: np.ndarray) -> float:
    """Agreement of two partitions of the same rows, corrected for chance (Hubert and Arabie 1985): 1 if they are equal.

    scikit-learn has it too, but importing it takes longer than a short run.
    """
    pairs = _pairs(np.unique(np.stack([left, right]), axis=1, return_counts=True)[1])
    of_left, of_right = (_pairs(np.unique(labels, return_counts=True)[1]) for labels in (left, right))
    expected = of_left * of_right / max(_pairs(np.array([len(left)])), 1)
    most = (of_left + of_right) / 2
    return 1.0 if most == expected else float((pairs - expected) / (most - expected))


def _pairs(counts: np.ndarray) -> float:
    return float((counts * (counts - 1) / 2).sum())


def largest_first(tree: xr.DataTree) -> xr.DataTree:
    """The result with the parameters of exchangeable groups in the order of their sizes; they keep their numbers."""
    groups, symmetry = groups_of(tree), symmetry_of(tree)
    name = "posterior" if "posterior" in tree else "point_estimate"
    if groups is None or not isinstance(symmetry, Permutation) or symmetry.dim != groups.dim:
        return tree
    dataset = tree[name].to_dataset()
    size = len(groups.order)
    moved = {
        dim: np.append(groups.order, np.arange(size, dataset.sizes[dim]))  # entries after the labels stay
        for dim in (symmetry.dim, *symmetry.also)
        if dim in dataset.dims
    }
    ordered = tree.copy()
    ordered[name] = xr.DataTree(dataset.isel(moved))
    return ordered
