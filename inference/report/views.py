"""Output from a result alone: the printed result, ``summary.csv``, groups of rows, pictures, ``report.html``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models.data.table import chosen_at_random
from models.reading.files import CSV, Marks, marks_of

CHECKS = "checks.svg"  # posterior predictive checks of columns
WORD_CHECKS = "word_checks.svg"  # and of topics

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

    from inference.criticism.replications import Compared
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
        with suppress(OSError):  # a closed pipe: the files are still written, and the last line names them
            print_verdict(reading, screen) if brief else print_result(tree, reading, screen)
    summary, report = folder / "summary.csv", folder / "report.html"
    write_summary(reading, summary)
    numbers = numbers_in_table(tree)
    groups = write_groups(tree, folder, numbers, marks_of_run(config))
    pictures, compared = draw_pictures(model, tree, observed, folder) if config["pictures"] else ([], [])
    write_report(tree, reading, report, text, pictures, compared, numbers)
    return [summary, *groups, *pictures, report]


def marks_of_run(config: Mapping[str, Any]) -> Marks:
    """The marks of the table of a run; tables about its rows are written with them."""
    section = config["data"]
    return marks_of(section["path"], section) if section["name"] == "file" else CSV


def numbers_in_table(tree: xr.DataTree) -> np.ndarray | None:
    """(N,): the numbers of the fitted rows, or sequences, in the whole table, from 1; None where none were held out."""
    if "held_out" not in tree:
        return None
    held_out = tree["held_out"]["log_density"].size
    total = tree["latent"].sizes["row"] + held_out if "latent" in tree else held_out
    return 1 + np.flatnonzero(~chosen_at_random(total, held_out, int(tree.attrs["seed"])))


def drawings(model: Model, tree: xr.DataTree, data: Any) -> dict[str, Callable[[Path], Any]]:
    """Name -> a function that draws the picture to a file: the pictures of the fit that a model has, the most telling first.

    ``pairs.svg`` for rows with groups and numbers, ``profile.svg`` for columns, ``co_clustering.svg`` for exchangeable
    components, ``loadings.svg`` for factors, ``topics.svg`` for topics; ``state_probs.svg``,
    ``transitions.svg`` and ``emissions.svg`` for sequences.
    """
    from inference.plots.co_clustering import plot_co_clustering
    from inference.plots.components import draw_profile, plot_loadings, profile
    from inference.plots.pairs import draw_pairs, has_pairs
    from inference.plots.sequences import plot_emissions, plot_transitions
    from inference.plots.states_over_time import plot_states, some_sequences
    from inference.plots.topics import plot_topics
    from inference.topics.access import has_topics
    from models.algebra import exchanges_labels, has_paths, is_sequential, turns_factors

    clusters = exchanges_labels(model) and model.naming.reports == "responsibilities"
    sequential = is_sequential(model)
    columns = [] if sequential or model.abilities.profile is None else profile(model, tree)
    possible: list[tuple[str, bool, Callable[[Path], Any]]] = [
        ("state_probs", has_paths(model), lambda path: plot_states(model, tree, data, path, some_sequences(model, data))),
        ("transitions", has_paths(model), lambda path: plot_transitions(model, tree, path)),
        ("emissions", has_paths(model), lambda path: plot_emissions(model, tree, path)),
        ("pairs", has_pairs(tree, columns), lambda path: draw_pairs(model, tree, columns, path)),
        ("profile", bool(columns), lambda path: draw_profile(model, tree, columns, path)),
        ("topics", has_topics(model), lambda path: plot_topics(model, tree, path)),
        ("loadings", turns_factors(model), lambda path: plot_loadings(model, tree, path)),
        ("co_clustering", clusters and not sequential, lambda path: plot_co_clustering(model, tree, data, path)),
    ]
    return {name: draw for name, wanted, draw in possible if wanted}


def draw_pictures(model: Model, tree: xr.DataTree, data: Any, folder: Path) -> tuple[list[Path], list[Compared]]:
    """(paths of the pictures that a model has, drawn here; statistics of the data and of draws from the model).

    In addition to the `drawings`, ``checks.svg`` for models that draw rows like those observed, and ``word_checks.svg`` for
    topics.
    """
    from matplotlib import rc_context

    from inference.criticism.replications import has_replications, replications
    from inference.criticism.words import has_word_checks, word_checks
    from inference.plots.predictive_checks import draw_checks

    drawn = []
    compared = replications(model, tree, data) if has_replications(model, data) else []
    words = word_checks(model, tree, data) if has_word_checks(model, data) else []
    with rc_context({"text.parse_math": False}):  # a $ in the name of a column begins no formula
        for name, draw in drawings(model, tree, data).items():
            draw(folder / f"{name}.svg")
            drawn.append(folder / f"{name}.svg")
        for checks, name in ((compared, CHECKS), (words, WORD_CHECKS)):
            if checks:
                draw_checks(model.name, checks, folder / name)
                drawn.append(folder / name)
    return drawn, [*compared, *words]
