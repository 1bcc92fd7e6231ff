"""Criteria for the size of a model, such as the number of components, and the size that each prefers.

With p free parameters, N rows (their weights) and the log-likelihood ℓ at a point,

    AIC = −2 ℓ + 2 p,    BIC = −2 ℓ + p log N,    ICL = BIC + 2 Σ_n entropy(z_n | x_n)    (Biernacki, Celeux and Govaert 2000)

are small for a good size. They are defined at the maximum of the likelihood; under a prior they are evaluated at the mode.
ELBO, elpd, log evidence and log density of held-out rows are large for a good size. The ELBO refers to one labelling of the
components. If the components are distinct, it lies below the log evidence by another log K!, so across sizes compare the sum
of both; if some are empty or alike, adding log K! is too much. Elpd ranks sizes only if it is valid for all of them. The
approximate evidence is a closed form under a special prior, for every method: for PPCA by Minka (2000).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import gammaln

from inference.diagnostics.occupancy import occupied
from inference.identification.invariants import symmetry_of
from inference.results.tree import values
from inference.runtime.files import write_figure

SMALL = ("AIC", "BIC", "ICL")  # smaller is better
BOUND = "ELBO + log K!"
LARGE = ("ELBO", BOUND, "elpd", "log evidence", "approx evidence", "held out")  # larger is better
ERRORS = {"elpd": "se", "log evidence": "evidence se"}
COLUMNS = ("parameters", *SMALL, "ELBO", BOUND, "log evidence", "evidence se", "approx evidence", "held out", "occupied")


def criteria(tree: xr.DataTree) -> dict[str, float]:
    """The criteria `COLUMNS` of one result; NaN where its method does not provide one."""
    attrs, functionals = tree.attrs, tree["functionals"].to_dataset()
    value = dict.fromkeys(COLUMNS, np.nan)
    value["parameters"] = float(attrs["num_parameters"])
    value["log evidence"], value["evidence se"] = _evidence(attrs)
    value["approx evidence"] = float(attrs.get("log_evidence_approximate", np.nan))
    value["held out"] = float(attrs.get("held_out_log_density", np.nan))
    number = occupied(tree)
    if number is not None:
        value["occupied"] = float(number.index.to_numpy() @ number)
    if "elbo" in attrs or (attrs["method"] == "cavi" and "optimization" in tree):
        value["ELBO"] = float(tree.attrs["elbo"] if "elbo" in attrs else np.nanmax(values(tree, "optimization", "objective")))
        symmetry = symmetry_of(tree)
        # Within one assignment, exchanging empty components changes nothing: K! counts too many
        assigned = attrs.get("of_one_assignment", 0)
        if symmetry is not None and symmetry.exchanges_labels and not assigned:
            value[BOUND] = value["ELBO"] + float(gammaln(tree["posterior"].sizes[symmetry.dim] + 1))
    if "draw" in functionals.dims or attrs["local_blocks"]:  # parameters grow with the rows
        return value
    twice, size = -2 * float(functionals["log_likelihood"]), float(attrs["sample_size"])
    value["AIC"] = twice + 2 * value["parameters"]
    value["BIC"] = twice + np.log(size) * value["parameters"]
    if "entropy" in functionals:
        rows = float(attrs.get("total_weight", size))  # the entropy is a mean over rows, and a row may be a sequence
        value["ICL"] = value["BIC"] + 2 * rows * float(functionals["entropy"])
    return value


ERRORS = {"log_evidence_smc": "log_evidence_smc_se", "log_evidence_estimate": "log_evidence_se"}  # of the evidence


def _evidence(attrs: Mapping[Any, Any]) -> tuple[float, float]:
    """(log evidence, its standard error): exact without an error, or an estimate of the method or of `log_evidence`."""
    for name in ("log_evidence", "log_evidence_smc", "log_evidence_estimate"):
        if name in attrs:
            return float(attrs[name]), float(attrs.get(ERRORS.get(name), np.nan))
    return np.nan, np.nan


def alarms(trees: Mapping[str, xr.DataTree]) -> list[str]:
    """A warning where rows have their own parameters, which no criterion takes into account."""
    local_blocks = {str(tree.attrs.get("local_blocks", "")) for tree in trees.values()} - {""}
    return [
        f"every row has its own {name}, so AIC and BIC mean nothing, and elpd uses parameters fitted to the very rows that it "
        "scores; compare on held-out rows by inference.perplexity or data.test_fraction"
        for name in sorted(local_blocks)
    ]


def model_warnings(trees: Mapping[str, xr.DataTree]) -> list[str]:
    """The warnings of all models about their priors or data, without repetitions."""
    warnings = (str(tree.attrs.get("model_warnings", "")).split("\n") for tree in trees.values())
    return list(dict.fromkeys(line for lines in warnings for line in lines if line))


def ranks(table: pd.DataFrame, column: str) -> bool:
    """Whether a criterion can rank sizes: elpd only if it is valid for all."""
    return column != "elpd" or "elpd valid" not in table or bool(table["elpd valid"][table["elpd"].notna()].all())


def best_sizes(table: pd.DataFrame) -> list[str]:
    """The best size by every criterion, in words."""
    lines = []
    for column in (each for each in (*SMALL, *LARGE) if ranks(table, each)):
        scores = table[column].astype(float).dropna() if column in table else pd.Series(dtype=float)
        if len(scores) > 1:
            lines.append(f"{column}: {scores.idxmin() if column in SMALL else scores.idxmax()}")
    return lines


def plot_criteria(table: pd.DataFrame, methods: Mapping[str, str], path: Path) -> None:
    """Plot each criterion against the number of parameters: one line per method, bars of two standard errors."""
    from matplotlib.figure import Figure

    shown = [name for name in (*SMALL, *LARGE) if name in table and table[name].notna().sum() > 1]
    wide = min(3, len(shown))
    high = -(-len(shown) // wide)
    figure = Figure(figsize=(3.6 * wide, 2.9 * high), layout="constrained")
    for place, name in enumerate(shown):
        axis = figure.add_subplot(high, wide, place + 1)
        for number, method in enumerate(dict.fromkeys(methods.values())):
            lines_of = table.loc[[row for row, by in methods.items() if by == method]]
            line = lines_of[["parameters", name]].astype(float).dropna().sort_values("parameters")
            if line.empty:
                continue
            error = lines_of.loc[line.index, ERRORS[name]].astype(float).fillna(0.0) * 2 if name in ERRORS else None
            axis.errorbar(line["parameters"], line[name], yerr=error, marker="o", capsize=3, color=f"C{number}", label=method)
            if not ranks(table, name):
                continue
            best = int(line[name].argmin() if name in SMALL else line[name].argmax())
            axis.plot(line["parameters"].iloc[best], line[name].iloc[best], "*", markersize=15, color=f"C{number}")
        axis.set(xlabel="free parameters", title=f"{name} ({'small' if name in SMALL else 'large'} is good)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    write_figure(path, figure, dpi=110)
