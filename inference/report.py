"""What the user reads: tables for an 80-column terminal, ``summary.csv``, and ``report.html`` with pictures."""

import base64
import html
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from inference.assembly import data_of
from inference.clustering import SURE, uncertain_rows
from inference.columns import lines
from inference.diagnostics import Diagnosis, describe_starts, diagnose, raw_rhat, summarise
from inference.occupancy import in_words, occupied
from inference.prediction import OF_SEQUENCES
from inference.relabel import doubts_labels
from inference.results import values
from inference.topic_report import TITLE, sites_of_topics, topic_lines, topic_table, topics_agree

FIRST, LISTED = 5, 50  # uncertain rows: printed, and in report.html
SPELLED = {"perplexity": "perplexity (left to right)"}
SHOWN = 24  # parameters printed; all are in summary.csv
COLUMNS = ("mean", "sd", "eti89_lb", "eti89_ub", "ess_bulk", "r_hat")


def print_result(tree: xr.DataTree, console: Console, folder: Path | None = None) -> Diagnosis:
    """Print a result in three parts: functionals, parameters, and how the labels looked before; then what failed."""
    diagnosis = diagnose(tree)
    attrs = tree.attrs
    seconds = ", ".join(f"{phase} {attrs[f'{phase}_seconds']:.1f} s" for phase in ("compile", "warmup", "run"))
    console.print(f"[bold]{attrs['model']}[/] on {attrs['data']} by [bold]{attrs['method']}[/]  ({seconds})", highlight=False)
    _print_table(console, _functionals_title(tree), diagnosis.functionals)
    _print_topics(console, tree)
    if trusted(tree):
        title, shown = _parameters(tree)
        if not shown.empty:
            _print_table(console, title, shown)
    for line in remarks(tree):
        console.print(f"· {line}", highlight=False, markup=False)
    for problem in diagnosis.problems:
        console.print(f"! {problem}", style="bold red", highlight=False, markup=False)
    if folder is not None:
        console.print(f"results in {folder}", highlight=False, markup=False, soft_wrap=True)
    return diagnosis


def _print_topics(console: Console, tree: xr.DataTree) -> None:
    found = topic_lines(tree)
    if found:
        console.print(f"{TITLE}; all: summary.csv", style="bold", highlight=False, markup=False)
    for line in found:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _plural_dim(tree: xr.DataTree) -> str:
    """What single parameters belong to, in the plural: components, states, factors."""
    dim = str(tree.attrs.get("exchangeable", "component"))  # older results lack it
    return dim + ("es" if dim.endswith("s") else "s")


def _is_stepwise(tree: xr.DataTree) -> bool:
    """Whether latents are of the steps of sequences."""
    return "latent" in tree and "time" in tree["latent"].dims


def holders(tree: xr.DataTree) -> str:
    """What is counted where some may be empty: components that hold a row, states a step, topics a token."""
    unit = "step" if _is_stepwise(tree) else tree.attrs.get("unit") or "row"
    return f"{_plural_dim(tree)} that hold a {unit}"


def _rows(tree: xr.DataTree) -> str:
    """What is counted in a result, in the plural: rows, documents, sequences."""
    return "sequences" if _is_stepwise(tree) else f"{tree.attrs.get('row', 'row')}s"  # older results lack it


def _functionals_title(tree: xr.DataTree) -> str:
    whatever = tree.attrs.get("whatever", "the labels")  # older results lack it
    return f"functionals: valid whatever {whatever}" if whatever else "functionals"


def parameters(tree: xr.DataTree) -> pd.DataFrame:
    """The (relabelled) parameters: ArviZ's summary, or the values at the optimum."""
    return summarise(tree, "posterior" if "posterior" in tree else "point_estimate")


def remarks(tree: xr.DataTree) -> list[str]:
    """What to know before reading the numbers: starts, label switching, doubts about labels, agreement with a label column."""
    doubts = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line]
    relabelled = "sample_stats" in tree and "permutation" in tree["sample_stats"]
    one = " (one labelling of the components)" if relabelled else ""
    if not trusted(tree):
        what = _plural_dim(tree)
        shown = "are means over draws that may mix different ones" if sites_of_topics(tree) else "are not printed"
        doubts.append(f"so the parameters of single {what} {shown}; summary.csv has them, for what they are worth")
    evidence = [
        f"log evidence by {name}: {tree.attrs[key]:.2f}{one}"
        for key, name in (("log_evidence_laplace", "Laplace"), ("log_evidence_importance", "importance sampling"))
        if key in tree.attrs
    ]
    if "log_evidence" in tree.attrs:
        evidence.append(f"log evidence {tree.attrs['log_evidence']:.4f}, exact; the draws are independent")
    number = occupied(tree)
    held = []
    if number is not None and number.iloc[-1] < 1:
        held.append(f"{holders(tree)}, with their probability: {in_words(number)}")
    if "imputed_cells" in tree.attrs:
        held.append(
            f"{tree.attrs['imputed_cells']} missing cells: imputed.csv is the table with them filled in, imputed.nc has draws "
            "of them" + ("" if "posterior" in tree else ", too narrow: a point estimate has no uncertainty of its own")
        )
    bound = [f"evidence lower bound {tree.attrs['elbo']:.4f}"] if "elbo" in tree.attrs else []
    held_out = (
        [
            f"{tree.attrs['held_out_rows']} {_rows(tree)} held out{_scored(tree)}: "
            + ", ".join(
                f"{SPELLED.get(name, name.replace('_', ' '))} {tree.attrs[f'held_out_{name}']:.4g}"
                for name in ("accuracy", *OF_SEQUENCES, "log_loss", "calibration_error", "log_density", "perplexity")
                if f"held_out_{name}" in tree.attrs
            )
        ]
        if "held_out_rows" in tree.attrs
        else []
    )
    of_rows = (*held_out, _agreement(tree), *held, _least_certain(tree), topics_agree(tree))
    return [line for line in (*of_rows, describe_starts(tree), raw_rhat(tree), *bound, *evidence, *doubts) if line]


def _scored(tree: xr.DataTree) -> str:
    labelled = tree.attrs.get("held_out_labelled", tree.attrs["held_out_rows"])
    if _is_stepwise(tree):
        return f", {labelled} steps with a label" if "held_out_labelled" in tree.attrs else ""
    if tree.attrs.get("private") and tree.attrs["labels_observed"] and "label" in tree["held_out"]:
        return ", whose labels are not looked at"
    return "" if labelled == tree.attrs["held_out_rows"] else f", {labelled} of them with a label"


def trusted(tree: xr.DataTree) -> bool:
    """Whether the components' labels mean the same thing in every draw."""
    return not doubts_labels(str(tree.attrs.get("warnings", "")))


def _agreement(tree: xr.DataTree) -> str:
    decoded = "latent" in tree and "decode" in tree["latent"]
    if "label" not in tree["observed_data"] or not decoded or tree.attrs.get("labels_observed", 0):
        return ""
    label, decode = values(tree, "observed_data", "label"), values(tree, "latent", "decode").ravel()
    decode = decode[decode >= 0]  # of sequences, without what is beyond their ends: a latent a step, as labels are
    known = label >= 0
    if decode.shape != label.shape or not known.any():  # labels of whole documents
        return ""
    score = adjusted_rand_index(label[known], decode[known])
    what = "states" if _is_stepwise(tree) else "components"
    return f"adjusted Rand index of the most probable {what} against the labels of the data: {score:.3f}"


def adjusted_rand_index(left: np.ndarray, right: np.ndarray) -> float:
    """Agreement of two partitions of the same rows, corrected for chance (Hubert and Arabie 1985): 1 when they are equal.

    scikit-learn has it too; its import would take longer than a short run.
    """
    pairs = _pairs(np.unique(np.stack([left, right]), axis=1, return_counts=True)[1])
    of_left, of_right = (_pairs(np.unique(labels, return_counts=True)[1]) for labels in (left, right))
    expected = of_left * of_right / max(_pairs(np.array([len(left)])), 1)
    most = (of_left + of_right) / 2
    return 1.0 if most == expected else float((pairs - expected) / (most - expected))


def _pairs(counts: np.ndarray) -> float:
    return float((counts * (counts - 1) / 2).sum())


def _sites(table: pd.DataFrame) -> list[str]:
    return [str(label).partition("[")[0] for label in table.index]


def _without_topics(tree: xr.DataTree) -> pd.DataFrame:
    """The parameters but for words and documents by topic, of which there are thousands, and which have lines of their own."""
    table, left_out = parameters(tree), sites_of_topics(tree)
    return table[[name not in left_out for name in _sites(table)]] if left_out else table


def _parameters(tree: xr.DataTree) -> tuple[str, pd.DataFrame]:
    """(title, rows shown): whole sites, those with the fewest entries first, as many as fit; all are in summary.csv."""
    table = _without_topics(tree)
    site = _sites(table)
    sizes = pd.Series(site).value_counts(sort=False)
    fitting = sizes.sort_values(kind="stable").cumsum() <= SHOWN
    shown = table[[bool(fitting[name]) for name in site]]
    hidden = ", ".join(f"{name} ({sizes[name]} entries)" for name in sizes.index if not fitting[name])
    title = "relabelled parameters" if "posterior_raw" in tree else "parameters"
    return title + (f"; in summary.csv: {hidden}" if hidden else ""), shown


def _print_table(console: Console, title: str, frame: pd.DataFrame) -> None:
    names = {"eti89_lb": "5.5 %", "eti89_ub": "94.5 %", "ess_bulk": "ESS", "r_hat": "R-hat"}
    columns = [column for column in (*COLUMNS, "value") if column in frame]
    table = Table(Column("", overflow="fold"), box=None, pad_edge=False)
    for column in columns:
        table.add_column(names.get(column, column), justify="right", no_wrap=True)
    for label, *numbers in frame[columns].itertuples():
        row = dict(zip(columns, map(float, numbers), strict=True))
        table.add_row(Text(str(label)), *(format_number(value, column, row.get("sd")) for column, value in row.items()))
    console.print(title, style="bold", highlight=False, markup=False)
    console.print(table)


def format_number(value: float, column: str = "", sd: float | None = None) -> str:
    """Four significant digits, or as many decimals as the posterior sd gives a meaning to; a dash for what is not defined."""
    if np.isnan(value):
        return "–"
    if column == "ess_bulk":
        return f"{value:.0f}"
    if column == "r_hat":
        return f"{value:.3f}"
    if column == "value":
        return f"{value:.8g}"
    if sd is not None and sd > 0 and abs(value) >= 1:
        return f"{value:.{int(np.clip(2 - np.floor(np.log10(sd)), 0, 6))}f}"
    return f"{value:.4g}"


def write_summary(tree: xr.DataTree, path: Path) -> None:
    """``summary.csv``: functionals and parameters, one line each."""
    groups = {"functionals": summarise(tree, "functionals"), "parameters": parameters(tree)}
    pd.concat(groups, names=["group", "name"]).to_csv(path)


def write_report(tree: xr.DataTree, path: Path, config: str, pictures: Sequence[Path] = ()) -> None:
    """``report.html``: one self-contained page with the tables, the remarks and the pictures, those given as files too."""
    diagnosis = diagnose(tree)
    attrs = tree.attrs
    verdict = (
        "".join(f"<li class=problem>{html.escape(p)}</li>" for p in diagnosis.problems) or "<li>all diagnostics passed</li>"
    )
    notes = "".join(f"<li>{html.escape(line)}</li>" for line in remarks(tree))
    # An optimiser's page is a table: drawing its trace would double the time of a short run.
    detail = f"<h2>Chains</h2>{_traces(tree)}" if "posterior" in tree else f"<h2>Starts</h2>{_html(_starts(tree))}"
    columns = f"<h2>Columns</h2>{_columns(tree)}" if "note_column" in tree["observed_data"] else ""
    own = _without_topics(tree) if trusted(tree) else pd.DataFrame()
    labelled = f"<h2>Parameters</h2>{_html(own)}" if len(own) else ""
    shown = "".join(_image(file.read_bytes(), file.stem.replace("_", " ")) for file in pictures)
    title = f"{attrs['model']} on {attrs['data']} by {attrs['method']}"
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(title)}</h1><ul>{verdict}{notes}</ul>"
        f"<h2>{_functionals_title(tree).capitalize()}</h2>{_html(diagnosis.functionals)}{detail}"
        f"{_topics(tree)}{shown}{_uncertain(tree)}{labelled}{columns}<h2>Configuration</h2><pre>{html.escape(config)}</pre></html>",
        encoding="utf-8",
    )


_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,.words td:last-child{text-align:left}img{max-width:100%}.problem{color:#b00020;font-weight:600}"
    "pre{background:#f6f6f6;padding:1rem}"
)


def _html(frame: pd.DataFrame) -> str:
    numbers = frame.select_dtypes("number")
    formatters: Any = {str(column): partial(format_number, column=str(column)) for column in numbers}
    return str(frame.to_html(formatters=formatters, border=0, na_rep="–"))


def _topics(tree: xr.DataTree) -> str:
    """The topics with their most probable words."""
    found = topic_table(tree)
    return f"<h2>{TITLE.capitalize()}</h2><div class=words>{_html(found)}</div>" if len(found) else ""


def _columns(tree: xr.DataTree) -> str:
    """The columns of the table that was read, also those left out."""
    return str(pd.DataFrame(lines(data_of(tree))).to_html(border=0, index=False))


def _starts(tree: xr.DataTree) -> pd.DataFrame:
    starts = tree["optimization"].to_dataset()[["final_objective", "iterations", "converged"]]
    return starts.to_dataframe().rename(columns={"final_objective": "value"})


def _traces(tree: xr.DataTree) -> str:
    """The scalar functionals chain by chain, as an inline image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    functionals = tree["functionals"].to_dataset()
    names = [str(name) for name in functionals.data_vars if functionals[name].ndim == 2][:3]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        for chain in functionals[name].values:
            axis.plot(chain, lw=0.5, alpha=0.8)
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.set_xlabel("draw")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return _image(buffer.getvalue(), "traces of the functionals")


def _image(png: bytes, what: str) -> str:
    return f"<img alt='{what}' src='data:image/png;base64,{base64.b64encode(png).decode()}'>"


def _uncertain(tree: xr.DataTree) -> str:
    """The rows that are least certain of their component, numbered from 1."""
    rows = _uncertain_rows(tree)
    if rows.empty:
        return ""
    more = f", the first {LISTED} of {len(rows)}" if len(rows) > LISTED else ""
    return f"<h2>Rows that are less than {SURE:.0%} sure of their {rows.columns[0]}{more}</h2>{_html(rows.head(LISTED))}"


def _least_certain(tree: xr.DataTree) -> str:
    rows = _uncertain_rows(tree)
    if rows.empty:
        return ""
    first = ", ".join(f"{row} ({share:.2f})" for row, share in rows["probability"].head(FIRST).items())
    return (
        f"{len(rows)} of {tree['latent'].sizes['row']} rows are less than {SURE:.0%} sure of their {rows.columns[0]}; the "
        f"least certain are row {first}" + ("; more in report.html" if len(rows) > FIRST else "")
    )


def _uncertain_rows(tree: xr.DataTree) -> pd.DataFrame:
    """The rows that are least certain, numbered from 1, where labels mean the same in every draw."""
    if "latent" not in tree or "responsibilities" not in tree["latent"] or not trusted(tree):
        return pd.DataFrame()
    rows = uncertain_rows(tree)
    return rows.set_axis(rows.index + 1)
