"""Which labellings and which modes chains have visited: tables and sentences. `inference.fitting.modes` finds the modes.

A *labelling* is one of the K! orders of the components, which are all the same posterior. A *mode* is an optimum of EM up to
labels; a draw belongs to the mode to which EM climbs from it. Weights of modes can be read off chains only if these
cross between them: a chain that stays at one mode carries no information about the others.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from inference.engine.task import Kind

ENOUGH = 20  # crossings, over all chains, from which shares of modes count as weights
NOWHERE = -1  # the mode of a draw from which there is no way up to a mode
SHOWN = 5  # modes named in sentences


class Modes(NamedTuple):
    """The labellings and modes of a result; printed, these are sentences and a table.

    ``modes`` has a row for each mode, the highest first: ``log_joint`` at the mode, ``below`` (nats below the highest),
    ``share`` of the draws looked at, and the share of those of every chain. ``labellings`` has a row for each chain:
    ``visited``, ``of`` (K!), ``switches`` (successive draws with different labels) and ``draws``; None where there is nothing
    to permute. ``crossings`` counts, for each chain, successive draws looked at that belong to different modes.
    """

    modes: pd.DataFrame
    labellings: pd.DataFrame | None
    crossings: tuple[int, ...]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        table = self.modes.to_string(float_format=lambda value: f"{value:.2f}")
        return "\n".join([*self.sentences, "", table])

    def __repr__(self) -> str:
        return str(self)


def described_modes(
    mode: np.ndarray, height: np.ndarray, moves: np.ndarray | None, kind: Kind = Kind.CHAINS, remedy: str = ""
) -> Modes:
    """Tables and sentences from the mode of every draw looked at.

    ``mode`` (chain, draw) has numbers of modes from 0, the highest first, or `NOWHERE`. ``height`` (M,) is the log joint at
    each mode. ``moves`` (chain, draw, K) are the permutations of all draws by relabelling, or None. ``remedy`` is the advice
    where chains do not cross.

    >>> visited = described_modes(np.array([[0, 0], [1, 1]]), np.array([-10.0, -12.0]), None)
    >>> visited.modes["share"].tolist(), visited.crossings
    ([0.5, 0.5], (0, 0))
    """
    chains = {f"chain {chain}": [float(np.mean(here == m)) for m in range(len(height))] for chain, here in enumerate(mode)}
    share = [float(np.mean(mode == m)) for m in range(len(height))]
    index = pd.RangeIndex(1, len(height) + 1, name="mode")
    table = pd.DataFrame({"log_joint": height, "below": height.max(initial=-np.inf) - height, "share": share} | chains, index)
    crossings = tuple(int((here[1:] != here[:-1]).sum()) for here in mode)
    labellings = None if moves is None else _labellings(moves)
    sentences = [_of_modes(mode, table, crossings, kind, remedy)]
    nowhere = float(np.mean(mode == NOWHERE))
    if nowhere:
        sentences.append(f"From {nowhere:.0%} of the draws EM climbs to no mode in the iterations that it has.")
    if labellings is not None:
        sentences.append(_of_labellings(labellings))
    return Modes(table, labellings, crossings, tuple(sentences))


def _labellings(moves: np.ndarray) -> pd.DataFrame:
    """For each chain, how many of the K! labellings its raw draws have, and how often successive draws differ."""
    rows = {
        "visited": [len(np.unique(each, axis=0)) for each in moves],
        "of": math.factorial(moves.shape[-1]),
        "switches": [int((each[1:] != each[:-1]).any(-1).sum()) for each in moves],
        "draws": moves.shape[1],
    }
    return pd.DataFrame(rows, pd.RangeIndex(len(moves), name="chain"))


def _of_labellings(labellings: pd.DataFrame) -> str:
    total, switches = int(labellings["of"].iloc[0]), int(labellings["switches"].sum())
    low, high = int(labellings["visited"].min()), int(labellings["visited"].max())
    visited = f"{low}" if low == high else f"{low} to {high}"
    each = "Every chain visits" if len(labellings) > 1 else "The chain visits"
    sentence = f"{each} {visited} of the {total:,} labellings, and labels switch {switches:,} times."
    return f"{sentence} All labellings are the same posterior, so that it does not matter which are visited."


def _of_modes(mode: np.ndarray, table: pd.DataFrame, crossings: tuple[int, ...], kind: Kind, remedy: str) -> str:
    number = int(mode.size)
    if not len(table):
        return f"None of the {number} draws looked at leads up to a mode."
    if len(table) == 1:
        up = f"all {int((mode != NOWHERE).sum())} draws that lead up to one reach log joint {table['log_joint'].iloc[0]:.2f}"
        return f"One mode: {up}. A mode that no chain has visited is not seen."
    total = sum(crossings)
    if kind is not Kind.CHAINS:
        return f"{len(table)} modes among independent draws: {_weights(table)}."
    if total == 0:
        return f"{len(table)} modes, and no chain crosses between them: {_places(mode, table)}. {_unread(remedy)}"
    if total < ENOUGH or not _all_alike(mode, table):
        return (
            f"{len(table)} modes, between which chains cross {_times(total)} in {number} draws looked at: "
            f"{_places(mode, table)}. {_unread(remedy)}"
        )
    return f"{len(table)} modes, between which chains cross {_times(total)} in {number} draws looked at: {_weights(table)}."


def _unread(remedy: str) -> str:
    end = f": {remedy}" if remedy else ""
    return f"The weights of the modes cannot be read off these chains{end}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _all_alike(mode: np.ndarray, table: pd.DataFrame) -> bool:
    """Whether every chain has visited every mode that has a tenth of the draws or more."""
    large = np.flatnonzero(table["share"].to_numpy() >= 0.1)
    return all(m in modes_of_chain for modes_of_chain in mode for m in large)


def _places(mode: np.ndarray, table: pd.DataFrame) -> str:
    """Which chains are at which mode, and how much lower it is."""
    places = []
    for m in range(min(len(table), SHOWN)):
        visitors = [chain for chain, modes_of_chain in enumerate(mode) if m in modes_of_chain]
        places.append(f"mode {m + 1} ({_height(m, table)}) has {_chains(visitors)}")
    return ", ".join(places) + _more(table)


def _height(m: int, table: pd.DataFrame) -> str:
    return f"log joint {table['log_joint'].iloc[m]:.2f}" if m == 0 else f"{table['below'].iloc[m]:.2f} nats lower"


def _chains(visitors: list[int]) -> str:
    if len(visitors) == 1:
        return f"chain {visitors[0]}"
    return f"chains {', '.join(map(str, visitors[:-1]))} and {visitors[-1]}"


def _weights(table: pd.DataFrame) -> str:
    places = range(min(len(table), SHOWN))
    shares = [f"mode {m + 1} ({_height(m, table)}) has {table['share'].iloc[m]:.0%} of the draws" for m in places]
    return ", ".join(shares) + _more(table)


def _more(table: pd.DataFrame) -> str:
    return f", and {len(table) - SHOWN} more" if len(table) > SHOWN else ""
