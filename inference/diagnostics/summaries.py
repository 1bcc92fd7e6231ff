"""Tables of a result, and what relabelling has changed."""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics.quantities import flattened
from inference.engine.task import Kind, kind_of
from inference.identification.relabel import is_label_warning
from inference.results.tree import values
from models.rows.encoded import spread

LARGE = 1000  # entries per site for which R-hat and ESS are computed at most: they take a millisecond each


def summarise(tree: xr.DataTree, group: str) -> pd.DataFrame:
    """A table of one group: ArviZ's summary for chains, moments for independent draws, values for a point.

    Sites with more than `LARGE` entries have moments and intervals, but NaN for R-hat and ESS.
    """
    dataset = tree[group].to_dataset()
    if "draw" not in dataset.dims:
        return pd.DataFrame({"value": pd.Series(flattened(dataset), dtype=float)})
    if kind_of(tree) is not Kind.CHAINS:
        return _moments(dataset)
    large = [name for name, site in dataset.data_vars.items() if site[0, 0].size > LARGE]
    small = dataset.drop_vars(large)
    tables = [_summary(small)] if small.data_vars else []
    tables += [_moments(dataset[[name]]) for name in large]
    table = pd.concat(tables)
    order = {name: place for place, name in enumerate(dataset.data_vars)}
    return table.iloc[np.argsort([order[str(label).partition("[")[0]] for label in table.index], kind="stable")]


def _summary(dataset: xr.Dataset) -> pd.DataFrame:
    import arviz_stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # R-hat of a constant quantity is 0 / 0
        tree = xr.DataTree.from_dict({"/posterior": dataset})
        table: pd.DataFrame = arviz_stats.summary(tree, round_to="none")
    return table


def _moments(dataset: xr.Dataset) -> pd.DataFrame:
    """Mean, standard deviation and 89 % interval of every entry, named as in ArviZ."""
    draws, each = ("chain", "draw"), dataset.quantile([0.055, 0.945], ("chain", "draw"))
    columns = {"mean": dataset.mean(draws), "sd": dataset.std(draws, ddof=1)}
    columns |= {"eti89_lb": each.isel(quantile=0, drop=True), "eti89_ub": each.isel(quantile=1, drop=True)}
    return pd.DataFrame({name: pd.Series(flattened(value), dtype=float) for name, value in columns.items()})


def raw_rhat(tree: xr.DataTree) -> str:
    """One line on R-hat before and after relabelling; "" without relabelling, for one chain, or for independent draws."""
    if "posterior_raw" not in tree or kind_of(tree) is not Kind.CHAINS or tree["posterior"].sizes["chain"] < 2:
        return ""
    raw, now = (_largest_rhat(tree[group].to_dataset()) for group in ("posterior_raw", "posterior"))
    change = f"largest R-hat of a parameter{raw.among}: {raw.value:.2f} raw, {now.value:.2f}"
    if "permutation" not in tree["sample_stats"]:
        return f"{change} after the factors of all draws were aligned"
    moved = values(tree, "sample_stats", "permutation")
    switched = float((moved != moved[:1, :1]).any(-1).mean())
    return f"{change} relabelled; {switched:.0%} of the draws had other labels than the first draw"


class _Worst(NamedTuple):
    value: float
    among: str  # how many entries were checked, in words; "" if all


def _largest_rhat(dataset: xr.Dataset) -> _Worst:
    """The largest R-hat over all sites, with at most `LARGE` evenly spread entries per site."""
    import arviz_stats

    flat = {name: site.values.reshape(*site.shape[:2], -1) for name, site in dataset.data_vars.items()}
    some = {name: value[..., spread(value.shape[-1], LARGE)] for name, value in flat.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        largest = max(np.nanmax(arviz_stats.rhat(value, chain_axis=0, draw_axis=1), initial=0) for value in some.values())
    looked, all_of_them = (sum(value.shape[-1] for value in values.values()) for values in (some, flat))
    return _Worst(float(largest), "" if looked == all_of_them else f" (of {looked} checked)")


def trusted(tree: xr.DataTree) -> bool:
    """Whether labels of components mean the same in every draw."""
    return not is_label_warning(str(tree.attrs.get("warnings", "")))
