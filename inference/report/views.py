"""What is made of a result alone: the printed result, ``summary.csv``, groups of rows, pictures, ``report.html``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models.data.table import chosen_at_random

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

    from models.base import Model


def write_views(
    config: Mapping[str, Any],
    model: Model,
    tree: xr.DataTree,
    observed: Any,
    folder: Path,
    text: str,
    screen: Console | None = None,
    brief: bool = False,
) -> list[Path]:
    """Print the result, and write the summary, the groups of rows, the pictures and the report; returns their paths.

    ``brief`` prints the verdict alone.
    """
    from inference.report.page import write_groups, write_report, write_summary
    from inference.report.reading import read
    from inference.report.terminal import print_result, print_verdict

    reading = read(tree)
    if screen is not None:
        with suppress(OSError):  # nobody reads on: the files are still written, and the line that comes last says so
            print_verdict(reading, screen) if brief else print_result(tree, reading, screen)
    summary, report = folder / "summary.csv", folder / "report.html"
    write_summary(reading, summary)
    groups = write_groups(tree, folder, numbers_in_table(tree))
    wanted = config["pictures"] is True or (config["pictures"] is None and "posterior" in tree)
    pictures = draw_pictures(model, tree, observed, folder) if wanted else []
    write_report(tree, reading, report, text, pictures)
    return [summary, *groups, *pictures, report]


def numbers_in_table(tree: xr.DataTree) -> np.ndarray | None:
    """(N,): the numbers of the fitted rows, or sequences, in the whole table, from 1; None where none were held out."""
    if "held_out" not in tree:
        return None
    held_out = tree["held_out"]["log_density"].size
    total = tree["latent"].sizes["row"] + held_out if "latent" in tree else held_out
    return 1 + np.flatnonzero(~chosen_at_random(total, held_out, int(tree.attrs["seed"])))


def draw_pictures(model: Model, tree: xr.DataTree, data: Any, folder: Path) -> list[Path]:
    """Draw the pictures that a model has, and return their paths.

    ``profile.png`` for columns, ``co_clustering.png`` for exchangeable components, ``loadings.png`` for factors, ``topics.png``
    for topics, and ``state_probs.png``, ``transitions.png`` and ``emissions.png`` for sequences.
    """
    from inference.plots.components import plot_co_clustering, plot_loadings, plot_profile
    from inference.plots.sequences import plot_emissions, plot_states, plot_transitions
    from inference.plots.topics import plot_topics
    from inference.topics.access import has_topics
    from models.algebra import is_sequential
    from models.base import Permutation, Reflection, Rotation

    drawn: list[Path] = []
    if is_sequential(model):
        plot_states(model, tree, data, folder / "state_probs.png")
        plot_transitions(model, tree, folder / "transitions.png")
        plot_emissions(model, tree, folder / "emissions.png")
        return [folder / f"{name}.png" for name in ("state_probs", "transitions", "emissions")]
    if model.abilities.profile is not None:
        plot_profile(model, tree, folder / "profile.png")
        drawn.append(folder / "profile.png")
    if has_topics(model):
        plot_topics(model, tree, folder / "topics.png")
        drawn.append(folder / "topics.png")
    if isinstance(model.symmetry, Rotation | Reflection):
        plot_loadings(model, tree, folder / "loadings.png")
        drawn.append(folder / "loadings.png")
    if isinstance(model.symmetry, Permutation) and model.naming.reports == "responsibilities":
        plot_co_clustering(model, tree, data, folder / "co_clustering.png")
        drawn.append(folder / "co_clustering.png")
    return drawn
