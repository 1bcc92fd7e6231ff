"""Remarks before the numbers of a result, in sentences."""

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics.occupancy import in_words, occupied
from inference.diagnostics.starts import describe_starts
from inference.diagnostics.summaries import raw_rhat, trusted
from inference.diagnostics.unfinished import LEFT_OUT
from inference.predictions.clustering import SURE, uncertain_rows
from inference.predictions.score import OF_SEQUENCES
from inference.report.groups import agreement, is_stepwise
from inference.topics.summary import sites_of_topics, topics_agree

LEAST = 0.5  # expected rows below which a component of a point estimate counts as empty
FIRST = 5  # uncertain rows that a remark names
NARROW = "an approximation, whose intervals tend to be too narrow: check those that you report against gibbs or nuts"
SPELLED = {"perplexity": "perplexity (left to right)"}


def plural_dim(tree: xr.DataTree) -> str:
    """The name of the labelled dimension in the plural: components, states, factors."""
    dim = str(tree.attrs["exchangeable"] or "component")
    return dim + ("es" if dim.endswith("s") else "s")


def holders(tree: xr.DataTree) -> str:
    """The units that occupy components: components that hold a row, states that hold a step, topics that hold a token."""
    unit = "step" if is_stepwise(tree) else tree.attrs.get("unit") or "row"
    return f"{plural_dim(tree)} that hold a {unit}"


def _rows(tree: xr.DataTree) -> str:
    """The name of the rows of a result in the plural: rows, documents, sequences."""
    return "sequences" if is_stepwise(tree) else f"{tree.attrs['row']}s"


def remarks(tree: xr.DataTree) -> list[str]:
    """Remarks before the numbers: starts, relabelling, warnings, agreement with a label column."""
    warnings = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line]
    relabelled = "sample_stats" in tree and "permutation" in tree["sample_stats"]
    one = " (one labelling of the components)" if relabelled else ""
    if not trusted(tree):
        what, of_topics = plural_dim(tree), bool(sites_of_topics(tree))
        shown = "are means over draws that may mix different ones" if of_topics else "are not printed"
        warnings.append(
            f"therefore the parameters of single {what} {shown}; summary.csv has them all the same, and there is no "
            f"{'topic_shares' if of_topics else 'assignments'}.csv"
        )
    evidence = [
        f"log evidence by {name}: {tree.attrs[key]:.2f}{one}"
        for key, name in (("log_evidence_laplace", "Laplace"), ("log_evidence_importance", "importance sampling"))
        if key in tree.attrs
    ]
    if "log_evidence" in tree.attrs:
        evidence.append(f"log evidence {tree.attrs['log_evidence']:.4f} (exact); the draws are independent")
    if "log_evidence_smc" in tree.attrs:
        value, error = tree.attrs["log_evidence_smc"], tree.attrs["log_evidence_smc_se"]
        evidence.append(f"log evidence by sequential Monte Carlo: {value:.2f} ± {error:.2f}; moves: {tree.attrs['moves']}")
    number = occupied(tree)
    held = [f"left out, because the run was interrupted: {tree.attrs[LEFT_OUT]}"] if tree.attrs.get(LEFT_OUT) else []
    if number is not None and number.iloc[-1] < 1:
        held.append(f"number of {holders(tree)}, with its posterior probability: {in_words(number)}")
    if "imputed_cells" in tree.attrs:
        held.append(
            f"{tree.attrs['imputed_cells']} missing cells: imputed.csv is the table with them filled in, imputed.nc has draws "
            "of them" + ("" if "posterior" in tree else ", which are too narrow: a point estimate ignores its own uncertainty")
        )
    bound = [f"evidence lower bound {_with_error(tree)}; {NARROW}"] if "elbo" in tree.attrs else []
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
    of_rows = (_weights(tree), *held_out, agreement(tree), *held, _empty(tree), _least_certain(tree), topics_agree(tree))
    return [line for line in (*of_rows, describe_starts(tree), raw_rhat(tree), *bound, *evidence, *warnings) if line]


def _weights(tree: xr.DataTree) -> str:
    """The meaning assumed of the weights of the rows, and the option for another one; "" without any."""
    if (meaning := tree.attrs.get("weights", "")) == "counts":
        total = f"{tree.attrs['total_weight']:.10g} {_rows(tree)}"
        return f"the weights are counts: together they stand for {total} (data.weights=relative takes their ratios alone)"
    if meaning == "relative":
        how = "scaled to mean 1, so that only their ratios matter"
        return f"the weights are relative: {how} (data.weights=counts takes them as numbers of rows)"
    return ""


def _with_error(tree: xr.DataTree) -> str:
    """The bound, with its Monte Carlo error where it is a mean over draws."""
    attrs = tree.attrs
    return f"{attrs['elbo']:.3f} ± {attrs['elbo_se']:.3f}" if "elbo_se" in attrs else f"{attrs['elbo']:.4f}"


def _scored(tree: xr.DataTree) -> str:
    if "streamed" in tree.attrs:
        return ", those in the sample"
    labelled = tree.attrs.get("held_out_labelled", tree.attrs["held_out_rows"])
    if is_stepwise(tree):
        return f", {labelled} steps with a label" if "held_out_labelled" in tree.attrs else ""
    if tree.attrs.get("local_blocks") and tree.attrs["labels_observed"] and "label" in tree["held_out"]:
        return ", their labels ignored"
    return "" if labelled == tree.attrs["held_out_rows"] else f", {labelled} of them with a label"


def _empty(tree: xr.DataTree) -> str:
    """Components of a point estimate that hold no row; draws have the posterior of their number instead."""
    if "point_estimate" not in tree or "latent" not in tree or not tree.attrs["exchangeable"]:
        return ""
    if "responsibilities" not in tree["latent"]:
        return ""
    shares = tree["latent"]["responsibilities"]
    held = np.asarray(shares.sum([dim for dim in shares.dims if dim != tree.attrs["exchangeable"]]))
    empty, what = int((held < LEAST).sum()), plural_dim(tree)
    sentence = f"{empty} of {held.size} {what} are nearly empty (fewer than {LEAST} expected rows each): try fewer {what}"
    return sentence if empty else ""


def _least_certain(tree: xr.DataTree) -> str:
    rows = uncertain(tree)
    if rows.empty:
        return ""
    first = ", ".join(f"{row} ({share:.2f})" for row, share in rows["probability"].head(FIRST).items())
    return (
        f"{len(rows)} of {tree['latent'].sizes['row']} rows have no {rows.columns[0]} with probability {SURE:.0%} or more; the "
        f"least certain are row {first}" + ("; more in report.html" if len(rows) > FIRST else "")
    )


def uncertain(tree: xr.DataTree) -> pd.DataFrame:
    """The rows whose component is least certain, numbered from 1; none if labels differ between draws."""
    if "latent" not in tree or "responsibilities" not in tree["latent"] or not trusted(tree):
        return pd.DataFrame()
    rows = uncertain_rows(tree)
    return rows.set_axis(rows.index + 1)
