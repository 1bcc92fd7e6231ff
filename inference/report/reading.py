"""The view of a result: made once, then printed, written to ``summary.csv``, and put on the page."""

from math import ceil, floor
from typing import NamedTuple

import pandas as pd
import xarray as xr

from inference.diagnostics.checks import Diagnosis, diagnose
from inference.diagnostics.summaries import summarise, trusted
from inference.engine.task import Kind, kind_of
from inference.report.groups import cross_table, largest_first
from inference.report.remarks import remarks
from inference.report.traits import GroupTraits, described
from inference.topics.summary import sites_of_topics


class ResultView(NamedTuple):
    """A result in words and tables."""

    title: str
    verdict: str  # one sentence
    diagnosis: Diagnosis
    groups: list[GroupTraits]
    crossed: pd.DataFrame | None  # groups by labels that the fit has not seen
    parameters: pd.DataFrame  # ArviZ's summary of the (relabelled) parameters, or their values at the optimum
    shown: pd.DataFrame  # of these the ones to show: no words by topic, and none whose labels are not to be trusted
    remarks: list[str]


def read(tree: xr.DataTree) -> ResultView:
    """All that terminal, ``summary.csv`` and ``report.html`` show of a result of `inference.fit`."""
    attrs, diagnosis = tree.attrs, diagnose(tree)
    parameters = summarise(largest_first(tree), "posterior" if "posterior" in tree else "point_estimate")
    title = f"{attrs['model']} on {attrs['data']} by {attrs['method']}"
    notes = [*remarks(tree), *diagnosis.remarks]
    crossed = cross_table(tree) if trusted(tree) else None
    shown = _to_show(tree, parameters) if trusted(tree) else parameters.iloc[:0]
    return ResultView(title, _verdict(tree, diagnosis), diagnosis, described(tree), crossed, parameters, shown, notes)


def functionals_title(tree: xr.DataTree) -> str:
    """The title of the table of functionals."""
    invariance = tree.attrs["whatever"]
    return f"functionals: do not depend on {invariance}" if invariance else "functionals"


def site_of(label: object) -> str:
    """The name of the site of a row of a summary: mean, of ``mean[0, x]``."""
    return str(label).partition("[")[0]


def _to_show(tree: xr.DataTree, parameters: pd.DataFrame) -> pd.DataFrame:
    """The parameters without words and documents by topic: there are thousands, and topics have separate lines."""
    left_out = sites_of_topics(tree)
    return parameters[[site_of(label) not in left_out for label in parameters.index]] if left_out else parameters


def _verdict(tree: xr.DataTree, diagnosis: Diagnosis) -> str:
    """Whether the result can be trusted by its diagnostics, with their figures."""
    number = len(diagnosis.problems)
    failed = f"{number} diagnostic{'s' if number > 1 else ''} failed"
    if diagnosis.interrupted:
        return diagnosis.interrupted + (f"; {failed} so far:" if number else "")
    if number:
        return f"{failed}; do not trust this result before you have read why:"
    table, kind = diagnosis.functionals, kind_of(tree)
    if kind is Kind.CHAINS and table["r_hat"].notna().any():
        chains, draws = (tree["posterior"].sizes[dim] for dim in ("chain", "draw"))
        most, least = ceil(1e3 * table["r_hat"].max()) / 1e3, floor(table["ess_bulk"].min())
        return f"all diagnostics passed: {chains} × {draws} draws; functionals' R-hat ≤ {most:.3f}, ESS ≥ {least}"
    return "all diagnostics passed"
