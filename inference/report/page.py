"""``summary.csv``, the groups of rows as tables, and ``report.html``: one self-contained page."""

import base64
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from inference.criticism.replications import Compared, as_table
from inference.diagnostics.summaries import trusted
from inference.markup.glossary import used
from inference.markup.script import SCRIPT
from inference.markup.style import STYLE
from inference.markup.tags import (
    Card,
    Section,
    bullets,
    cards,
    definitions,
    folded,
    page,
    paragraph,
    picture,
    preformatted,
    table,
)
from inference.markup.topic_panel import topic_panel
from inference.predictions.clustering import SURE
from inference.report.columns import lines
from inference.report.groups import ASSIGNMENTS, CROSS_TABLE, assignments, cross_table, groups_of, is_stepwise
from inference.report.numbers import format_number, in_digits, printed_columns
from inference.report.reading import ResultView, functionals_title, site_of
from inference.report.remarks import uncertain
from inference.results.table import data_of
from inference.results.tree import table_of
from inference.runtime.files import picture_bytes, write, write_table
from inference.topics.relevance import topic_map
from inference.topics.shares import SHARES, topic_shares, typical_documents
from inference.topics.shares import TITLE as TYPICAL_TITLE
from inference.topics.summary import TITLE, topic_table
from models.reading.files import CSV, Marks
from models.rows.encoded import spread

LISTED = 50  # uncertain rows on the page
CRITICISM = ("checks", "word_checks")  # pictures of the section on whether the model fits
UNLIKE = 0.01  # posterior predictive p-value up to which draws are unlike the data
NAMED = 5  # of those, in the sentence
TRACED = 500  # draws of a chain in its picture
CAPTIONS = {  # name of a picture's file -> what it shows
    "pairs": (
        "Below the diagonal each row has the colour of its group. The ellipses are one and two standard deviations of the "
        "group under the model. Above the diagonal, the larger a row, the less certain its group. Whole numbers with few "
        "values are moved apart a little. A row with a missing cell is left out where that cell would be needed."
    ),
    "checks": (
        "Grey: the middle 89 % of what the fitted model draws. Orange: the data. By chance alone, one part in nine leaves "
        "the grey; where whole stretches do, the model does not fit. p is the share of drawn tables that lie as far from the "
        "others as the data do: only small ones speak against the model."
    ),
    "word_checks": (
        "Within a topic, words should not depend on the document. Orange: how much they do, in all and for the words that do "
        "most. Grey: the middle 89 % of corpora whose words are drawn from the model, given the same topics. A word far to the "
        "right of the grey occurs in only a few of the topic's documents. p is the share of these corpora in which all words "
        "together depend on the document at least as much as in the data. Words come in bursts, so that many topics of real "
        "texts have a small p: look which words stand out. A large p says little, because the words were used to fit the "
        "topics. Nats are the unit of information."
    ),
    "profile": "What each group looks like, column by column, in the units of the table.",
    "co_clustering": "How probable it is that two rows are in one group. It does not depend on the numbers of the groups.",
    "loadings": "How strongly each column goes with each factor.",
    "topics": "The words of each topic, and how much of the corpus it explains.",
    "state_probs": (
        "The probability of each state at every step, and what was observed there. Of more than six sequences, six are drawn, "
        "evenly spaced from the first to the last; of more than 150 steps, the first 150."
    ),
    "transitions": "How probable each state is after each other one.",
    "emissions": "What each state emits.",
    "traces": "Functionals, draw by draw, in one colour for each chain. Chains that agree look alike.",
}


def write_summary(reading: ResultView, path: Path) -> None:
    """Write ``summary.csv``: functionals and parameters, one line per entry."""
    groups = {"functionals": reading.diagnosis.functionals, "parameters": reading.parameters}
    write_table(path, pd.concat(groups, names=["group", "name"]))


def write_groups(tree: xr.DataTree, folder: Path, numbers: np.ndarray | None = None, marks: Marks = CSV) -> list[Path]:
    """Write ``assignments.csv``, ``crosstab.csv`` and ``topic_shares.csv``, those that the result has; returns their paths.

    ``numbers`` (N,) are those of the rows in the whole table, of which some may be held out; ``marks`` are the table's. None is
    written where labels are not to be trusted: probabilities averaged over draws then mix different components.
    """
    if not trusted(tree):
        return []
    groups, crossed, written = groups_of(tree, numbers), cross_table(tree), []
    if groups is not None:
        lines = in_digits(assignments(groups), marks.decimal)
        write_table(folder / ASSIGNMENTS, lines, index=False, sep=marks.separator)
        written.append(folder / ASSIGNMENTS)
    if crossed is not None:
        write_table(folder / CROSS_TABLE, crossed, sep=marks.separator)
        written.append(folder / CROSS_TABLE)
    shares = topic_shares(tree, numbers)
    if shares is not None:
        write_table(folder / SHARES, in_digits(shares, marks.decimal), index=False, sep=marks.separator)
        written.append(folder / SHARES)
    return written


def write_report(
    tree: xr.DataTree,
    reading: ResultView,
    path: Path,
    config: str,
    pictures: Sequence[Path] = (),
    compared: Sequence[Compared] = (),
    numbers: np.ndarray | None = None,
) -> None:
    """Write ``report.html``: verdict, groups, pictures, tables; diagnostics and settings folded below; a glossary.

    ``numbers`` are those of `write_groups`. The page is one file and needs nothing from elsewhere. It is whole without scripts,
    which sort tables and pick out groups.
    """
    diagnosis = reading.diagnosis
    top = paragraph(reading.verdict, f"verdict {'doubt' if diagnosis.doubted else 'sound'}")
    top += bullets(diagnosis.problems, "problems") + (paragraph(diagnosis.explained) if diagnosis.explained else "")
    shown, functionals = printed_columns(reading.shown), printed_columns(reading.diagnosis.functionals)
    crossed, topics, panel = reading.crossed, topic_table(tree), topic_panel(topic_map(tree))
    checks = [file for file in pictures if file.stem in CRITICISM]
    typical = typical_documents(tree, numbers) if trusted(tree) else None
    by_label = "" if crossed is None else f"Rows by {crossed.index.name} and label"
    sections = [
        Section(f"Groups of {'steps' if is_stepwise(tree) else tree.attrs['row'] + 's'}", _groups(tree, reading)),
        Section(by_label, _plain(crossed, "rows by group and label")),
        Section(TITLE.capitalize(), _plain(topics, TITLE)),
        Section(TYPICAL_TITLE.capitalize(), _plain(typical, TYPICAL_TITLE)),
        Section("Map of the topics", panel.body),
        Section("Pictures", "".join(_picture(file, reading.title) for file in pictures if file not in checks)),
        Section("Does the model fit?", _criticism(compared, checks, reading.title) or _unchecked(pictures, topics)),
        Section(*_uncertain(tree)),
        Section("Parameters", table(shown, "parameters", groups=_rows_of_groups(tree, shown)) if len(shown) else ""),
        Section(functionals_title(tree).capitalize(), table(functionals, "functionals")),
        Section("Remarks", bullets(reading.remarks)),
        Section("Details", _details(tree, config)),
    ]
    text_of_page = re.sub(r"<[^>]*>", " ", " ".join([top, *(section.title + section.body for section in sections)]))
    glossary = Section("Glossary", folded("What the words mean", definitions(used(text_of_page))))
    style, script = f"<style>{STYLE}{panel.style}</style>", f"<script>{SCRIPT}</script>{panel.script}"
    text = page(reading.title, style, top, [*sections, glossary], script)
    write(path, text.encode())


def _groups(tree: xr.DataTree, reading: ResultView) -> str:
    """A card for each of several groups, the largest first: its share of the rows, and what sets it apart."""
    groups, places, unit = groups_of(tree), _places(tree), "steps" if is_stepwise(tree) else f"{tree.attrs['row']}s"
    if groups is None or len(reading.groups) < 2:
        return ""
    cards_of_groups = []
    for group in reading.groups:
        sure = group.interval is not None and not reading.diagnosis.doubted
        between = " ({:.1%} to {:.1%})".format(*group.interval) if sure and group.interval is not None else ""
        share = f"{group.share:.1%}{between} of the {unit}"
        cards_of_groups.append(Card(f"{groups.dim} {group.name}", places[group.name], share, group.share, group.traits))
    return cards(cards_of_groups)


def _places(tree: xr.DataTree) -> dict[str, int]:
    """Group -> its number, which decides its colour here and in the pictures."""
    groups = groups_of(tree)
    return {} if groups is None else {str(name): place for place, name in enumerate(groups.names)}


def _rows_of_groups(tree: xr.DataTree, frame: pd.DataFrame) -> dict[str, int]:
    """The parameters of a single group, such as ``mean[0, size]``, with the place of the group."""
    groups, places = groups_of(tree), _places(tree)
    row_of_group: dict[str, int] = {}
    if groups is None:
        return {}
    sites = tree["posterior" if "posterior" in tree else "point_estimate"]
    for label in map(str, frame.index):
        dims = [dim for dim in sites[site_of(label)].dims if dim not in ("chain", "draw")]
        if groups.dim in dims:
            entries = label.partition("[")[2].removesuffix("]").split(", ")
            name = entries[min(dims.index(groups.dim), len(entries) - 1)]
            if name in places:  # a column with ", " in its name may hide the group
                row_of_group[label] = places[name]
    return row_of_group


def _details(tree: xr.DataTree, config: str) -> str:
    """Chains or starts, the columns of the table, and the settings: folded."""
    if "posterior" in tree:
        looked = [tree.attrs["modes_looked"]] if "modes_looked" in tree.attrs else []
        detail = folded("Chains", bullets(looked) + _embedded("traces", _traces(tree), "svg+xml", "functionals"))
    else:
        detail = folded("Starts", _plain(_starts(tree), "starts"))
    columns = ""
    if "note_column" in table_of(tree):
        frame = pd.DataFrame(lines(data_of(tree)))
        listed = _plain(frame.set_index(frame.columns[0]), "columns", words=tuple(frame.columns))
        columns = folded("Columns of the table", listed)
    again = paragraph("The settings of this run (config.yaml). environment.json has the versions of all packages.")
    return detail + columns + folded("Reproduce this", again + preformatted(config))


def _plain(frame: pd.DataFrame | None, label: str, words: Sequence[str] = ("words", "documents", "what sets it apart")) -> str:
    """A table with numbers as they are printed; "" without rows."""
    if frame is None or frame.empty:
        return ""
    shown = frame.astype(object)
    for name in frame.select_dtypes("number"):
        shown[name] = frame[name].map(partial(format_number, column=str(name))).where(frame[name].notna(), "–")
    return table(shown.where(frame.notna(), "–"), label, words)


def _picture(file: Path, what: str) -> str:
    return _embedded(file.stem, file.read_bytes(), "svg+xml", what)


def _embedded(name: str, content: bytes, kind: str, what: str) -> str:
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return picture(source, f"{name.replace('_', ' ')} of {what}", CAPTIONS[name])


def _criticism(compared: Sequence[Compared], pictures: Sequence[Path], what: str) -> str:
    """Draws from the model that are unlike the data, in a sentence, as a picture, and as a table."""
    if not compared:
        return ""
    checks = as_table(list(compared))
    unlike = checks.index[checks["p_value"] <= UNLIKE]
    if len(unlike):
        more = f" and {len(unlike) - NAMED} more" if len(unlike) > NAMED else ""
        sentence = f"The model draws data unlike those observed in {', '.join(map(str, unlike[:NAMED]))}{more}"
        sentence += f": {len(unlike)} of {len(checks)} posterior predictive p-values are at most {UNLIKE:.0%}, "
        sentence += f"where chance alone makes about {UNLIKE * len(checks):.1g}."
    else:
        sentence = f"None of {len(checks)} posterior predictive p-values is at most {UNLIKE:.0%}. This alone proves no model."
    shown = "".join(_picture(file, what) for file in pictures)
    return paragraph(sentence) + shown + folded("All p-values", _plain(checks, "posterior predictive p-values", ("observed",)))


def _unchecked(pictures: Sequence[Path], topics: pd.DataFrame | None) -> str:
    """Why a topic model with requested pictures has no check."""
    if not pictures or topics is None or topics.empty:
        return ""
    return paragraph("Not checked: that takes long for a corpus of this size. inference.topic_check does it.")


def _starts(tree: xr.DataTree) -> pd.DataFrame:
    starts = tree["optimization"].to_dataset()[["final_objective", "iterations", "converged"]]
    return starts.to_dataframe().rename(columns={"final_objective": "value"})


def _traces(tree: xr.DataTree) -> bytes:
    """The scalar functionals chain by chain, as an SVG image; of long chains evenly spread draws."""
    from matplotlib.figure import Figure

    functionals = tree["functionals"].to_dataset()
    names = [str(name) for name in functionals.data_vars if functionals[name].ndim == 2][:3]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    for axis, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        for chain in functionals[name].values:
            shown = spread(len(chain), TRACED)
            axis.plot(shown, chain[shown], lw=0.5, alpha=0.8)
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.set_xlabel("draw")
    return picture_bytes(figure, "svg")


def _uncertain(tree: xr.DataTree) -> tuple[str, str]:
    """(title, table) of the rows whose component is least certain, numbered from 1."""
    rows = uncertain(tree)
    if rows.empty:
        return "", ""
    more = f", the first {LISTED} of {len(rows)}" if len(rows) > LISTED else ""
    return f"Rows whose most probable {rows.columns[0]} is below {SURE:.0%}{more}", _plain(rows.head(LISTED), "uncertain rows")
