"""How large a model: criteria of results that differ in size, and an alarm where random starts disagree.

With p free parameters, N rows (their weights) and the log-likelihood ℓ at a point,

    AIC = −2 ℓ + 2 p,    BIC = −2 ℓ + p log N,    ICL = BIC + 2 Σ_n entropy(z_n | x_n)    (Biernacki, Celeux and Govaert 2000)

are small for a good size. They are defined at the maximum of the likelihood; under a prior they are taken at the mode. ELBO,
elpd, log evidence and log density of rows held out are large for a good size. The ELBO is that of one labelling of the
components, so that where components are distinct it lies below the evidence by another log K!, which it does not know of. The
approximate evidence is a closed form under a prior of its own, whatever the method: of PPCA by Minka (2000).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics import starts_at_best
from inference.occupancy import occupied
from inference.results import values

SMALL = ("AIC", "BIC", "ICL")  # smaller is better
LARGE = ("ELBO", "elpd", "log evidence", "approx evidence", "held out")  # larger is better
ERRORS = {"elpd": "se", "log evidence": "evidence se"}
COLUMNS = ("parameters", *SMALL, "ELBO", "log evidence", "evidence se", "approx evidence", "held out", "occupied")


def criteria(tree: xr.DataTree) -> dict[str, float]:
    """`COLUMNS` of one result, NaN where its method does not bring them."""
    attrs, functionals = tree.attrs, tree["functionals"].to_dataset()
    found = dict.fromkeys(COLUMNS, np.nan)
    found["parameters"] = float(attrs.get("num_parameters", np.nan))  # older results lack it
    found["log evidence"] = float(attrs.get("log_evidence", attrs.get("log_evidence_estimate", np.nan)))
    found["approx evidence"] = float(attrs.get("log_evidence_approximate", np.nan))
    found["evidence se"] = float(attrs.get("log_evidence_se", np.nan))
    found["held out"] = float(attrs.get("held_out_log_density", np.nan))
    number = occupied(tree)
    if number is not None:
        found["occupied"] = float(number.index.to_numpy() @ number)
    if attrs["method"] == "cavi" and "optimization" in tree:
        found["ELBO"] = float(np.nanmax(values(tree, "optimization", "objective")))
    if "draw" in functionals.dims or "sample_size" not in attrs or attrs.get("private"):  # parameters grow with the rows
        return found
    twice, size = -2 * float(functionals["log_likelihood"]), float(attrs["sample_size"])
    found["AIC"] = twice + 2 * found["parameters"]
    found["BIC"] = twice + np.log(size) * found["parameters"]
    if "entropy" in functionals:
        rows = float(attrs.get("total_weight", size))  # the entropy is a mean over rows, which may be sequences
        found["ICL"] = found["BIC"] + 2 * rows * float(functionals["entropy"])
    return found


def alarms(trees: Mapping[str, xr.DataTree]) -> list[str]:
    """A line for every result whose best optimum one random start alone has reached: another may find a better one.

    And one where rows have parameters of their own, of which no criterion knows.
    """
    private = {str(tree.attrs.get("private", "")) for tree in trees.values()} - {""}
    lines = [
        f"every row has {name} of its own: elpd is of rows that theirs were fitted on, and AIC and BIC mean nothing; "
        "inference.perplexity, or data.test_fraction, compares on rows that nobody saw"
        for name in sorted(private)
    ]
    for name, tree in trees.items():
        reached = starts_at_best(tree)
        if reached is not None and reached[0] == 1:
            lines.append(
                f"{name}: only 1 of {reached[1]} starts reached the best objective. Random starts disagree, so there may be a "
                "better optimum, and the criteria of this size with it: raise num_starts until several agree"
            )
    return lines


def model_warnings(trees: Mapping[str, xr.DataTree]) -> list[str]:
    """What the models have to say of their priors, each once."""
    said = (str(tree.attrs.get("model_warnings", "")).split("\n") for tree in trees.values())
    return list(dict.fromkeys(line for lines in said for line in lines if line))


def best_sizes(table: pd.DataFrame) -> list[str]:
    """What every criterion prefers, in words."""
    lines = []
    for column in (*SMALL, *LARGE):
        found = table[column].astype(float).dropna() if column in table else pd.Series(dtype=float)
        if len(found) > 1:
            lines.append(f"{column}: {found.idxmin() if column in SMALL else found.idxmax()}")
    return lines


def plot_criteria(table: pd.DataFrame, methods: Mapping[str, str], path: Path) -> None:
    """Every criterion against the number of parameters, a line a method, bars of two standard errors; written to ``path``."""
    from matplotlib.figure import Figure

    shown = [name for name in (*SMALL, *LARGE) if name in table and table[name].notna().sum() > 1]
    wide = min(3, len(shown))
    high = -(-len(shown) // wide)
    figure = Figure(figsize=(3.6 * wide, 2.9 * high), layout="constrained")
    for place, name in enumerate(shown):
        axis = figure.add_subplot(high, wide, place + 1)
        for number, method in enumerate(dict.fromkeys(methods.values())):
            own = table.loc[[row for row, by in methods.items() if by == method]]
            line = own[["parameters", name]].astype(float).dropna().sort_values("parameters")
            if line.empty:
                continue
            error = own.loc[line.index, ERRORS[name]].astype(float).fillna(0.0) * 2 if name in ERRORS else None
            axis.errorbar(line["parameters"], line[name], yerr=error, marker="o", capsize=3, color=f"C{number}", label=method)
            best = int(line[name].argmin() if name in SMALL else line[name].argmax())
            axis.plot(line["parameters"].iloc[best], line[name].iloc[best], "*", markersize=15, color=f"C{number}")
        axis.set(xlabel="free parameters", title=f"{name} ({'small' if name in SMALL else 'large'} is good)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=110)
