"""Is a result fit for use? Diagnostics of the symmetry-free functionals, and what failed, in words."""

import json
import warnings
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.results import values
from models.rows import spread

RHAT = 1.01
ESS = 400
PARETO_K = 0.7
LARGE = 1000  # entries of a site above which R-hat and ESS, a millisecond each, are computed for so many at most
FEWEST = 25  # draws from which ArviZ fits the tail that Pareto k-hat is of
FINISHED, FAILED, INTERRUPTED = 0, 3, 130


class Diagnosis(NamedTuple):
    """``problems`` is empty when every diagnostic passed; ``exit_status`` is the shell's."""

    functionals: pd.DataFrame
    problems: list[str]
    exit_status: int


def diagnose(tree: xr.DataTree) -> Diagnosis:
    """Check a result: R-hat and ESS of its functionals, divergences, convergence, the fit of an approximation."""
    functionals = summarise(tree, "functionals")
    problems = _of_draws(tree, functionals) if "posterior" in tree else []
    problems += _of_optimiser(tree)
    interrupted = bool(tree.attrs.get("interrupted", 0))
    if interrupted:
        problems.insert(0, "interrupted: what was finished is kept")
    return Diagnosis(functionals, problems, INTERRUPTED if interrupted else FAILED if problems else FINISHED)


def summarise(tree: xr.DataTree, group: str) -> pd.DataFrame:
    """A table of one group: ArviZ's summary for draws; the values for a point.

    Sites of more than `LARGE` entries have their moments and intervals, and NaN for R-hat and ESS.
    """
    found = tree[group].to_dataset()
    if "draw" not in found.dims:
        return pd.DataFrame({"value": pd.Series(_flatten(found), dtype=float)})
    large = [name for name, site in found.data_vars.items() if site[0, 0].size > LARGE]
    small = found.drop_vars(large)
    tables = [_summary(small)] if small.data_vars else []
    tables += [_moments(found[[name]]) for name in large]
    table = pd.concat(tables)
    order = {name: place for place, name in enumerate(found.data_vars)}
    return table.iloc[np.argsort([order[str(label).partition("[")[0]] for label in table.index], kind="stable")]


def _summary(found: xr.Dataset) -> pd.DataFrame:
    import arviz_stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # R-hat of a quantity that does not vary is 0 / 0
        tree = xr.DataTree.from_dict({"/posterior": found})
        table: pd.DataFrame = arviz_stats.summary(tree, round_to="none")
    return table


def _moments(found: xr.Dataset) -> pd.DataFrame:
    """Mean, standard deviation and the interval of 89 % of every entry, named as ArviZ names them."""
    draws, each = ("chain", "draw"), found.quantile([0.055, 0.945], ("chain", "draw"))
    columns = {"mean": found.mean(draws), "sd": found.std(draws, ddof=1)}
    columns |= {"eti89_lb": each.isel(quantile=0, drop=True), "eti89_ub": each.isel(quantile=1, drop=True)}
    return pd.DataFrame({name: pd.Series(_flatten(value), dtype=float) for name, value in columns.items()})


def _flatten(found: xr.Dataset) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, variable in found.data_vars.items():
        labels = product(*([str(label) for label in variable.coords[dim].values] for dim in variable.dims))
        names = (f"{name}[{', '.join(each)}]" if each else str(name) for each in labels)
        flat |= dict(zip(names, variable.values.ravel().tolist(), strict=True))
    return flat


def _of_draws(tree: xr.DataTree, functionals: pd.DataFrame) -> list[str]:
    problems = []
    varying = functionals[functionals["sd"] > 1e-12 * functionals["mean"].abs()]
    draws = int(tree["posterior"].sizes["draw"])
    worst, fewest = varying["r_hat"].max(), varying["ess_bulk"].min()
    if draws >= 4 and worst > RHAT:
        names = list(varying.index[varying["r_hat"] > RHAT])
        problems.append(
            f"R-hat {worst:.3f} > {RHAT} for {_some(names)}: the chains disagree. Either they need longer, or the posterior "
            "has several modes and each chain sees its own"
        )
    if np.isnan(fewest):
        problems.append("too few draws for any diagnostic: take more (num_samples)")
    elif fewest < ESS:
        name = varying["ess_bulk"].idxmin()
        problems.append(f"effective sample size {fewest:.0f} < {ESS} for {name}: take more draws (num_samples)")
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree else xr.Dataset()
    if "diverging" in stats and int(stats["diverging"].sum()):
        problems.append(
            f"{int(stats['diverging'].sum())} divergent transitions: a region of high curvature is missed. Raise target_accept"
        )
    k = tree.attrs.get("pareto_k", 0.0)
    if k > PARETO_K:
        problems.append(f"Pareto k-hat {k:.2f} > {PARETO_K}: the Gaussian does not fit this posterior; use nuts or gibbs")
    return problems


def _of_optimiser(tree: xr.DataTree) -> list[str]:
    if "optimization" not in tree:
        return []
    best = int(tree.attrs["best_start"])
    if values(tree, "optimization", "converged")[best]:
        return []
    taken = int(values(tree, "optimization", "iterations")[best])
    if taken < json.loads(tree.attrs["options"])["max_iter"] and not tree.attrs.get("interrupted", 0):
        return [
            f"the best start stopped after {taken} iterations with a gradient that has not vanished: the optimum may lie on "
            "the boundary of the support, or the log joint may not be smooth there"
        ]
    return [f"the best start has not converged after {taken} iterations: raise max_iter"]


def _some(names: list[Any]) -> str:
    return ", ".join(map(str, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def starts_at_best(tree: xr.DataTree) -> tuple[int, int] | None:
    """(starts that reached the best value, all starts) of an optimiser, or None where there was one, or none that is sound."""
    if "optimization" not in tree:
        return None
    final = values(tree, "optimization", "final_objective")
    sound = final[~np.isnan(final)]
    if not len(sound) or len(final) == 1:
        return None
    return int(_near_best(sound).sum()), len(final)


def _near_best(final: np.ndarray) -> np.ndarray:
    near: np.ndarray = final.max() - final < 1e-6 * (1 + abs(final.max()))
    return near


def describe_starts(tree: xr.DataTree) -> str:
    """How many starts an optimiser had, how many reached the best value, and where the others ended."""
    if starts_at_best(tree) is None:
        return ""
    final = values(tree, "optimization", "final_objective")
    sound = final[~np.isnan(final)]
    near = _near_best(sound)
    text = f"{near.sum()} of {len(final)} starts reached the best objective {sound.max():.4f}"
    if not near.all():
        text += f"; the others ended between {sound[~near].min():.4f} and {sound[~near].max():.4f}, at other local optima"
    failed = len(final) - len(sound)
    return text + (f"; {failed} failed" if failed else "")


def raw_rhat(tree: xr.DataTree) -> str:
    """One line on how R-hat looked before relabelling, or an empty one: one chain has none."""
    if "posterior_raw" not in tree or tree["posterior"].sizes["chain"] < 2:
        return ""
    raw, now = (_largest_rhat(tree[group].to_dataset()) for group in ("posterior_raw", "posterior"))
    change = f"largest R-hat of a parameter{raw.among}: {raw.value:.2f} raw, {now.value:.2f}"
    if "permutation" not in tree["sample_stats"]:
        return f"{change} after the factors were turned onto one another"
    moved = values(tree, "sample_stats", "permutation")
    switched = float((moved != moved[:1, :1]).any(-1).mean())
    return f"{change} relabelled; {switched:.0%} of the draws carry other labels than the first"


class _Worst(NamedTuple):
    value: float
    among: str  # how many were looked at, in words; "" for all


def _largest_rhat(found: xr.Dataset) -> _Worst:
    """Over the entries of all sites, of large ones over `LARGE` that lie evenly spread."""
    import arviz_stats

    flat = {name: site.values.reshape(*site.shape[:2], -1) for name, site in found.data_vars.items()}
    some = {name: value[..., spread(value.shape[-1], LARGE)] for name, value in flat.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        largest = max(np.nanmax(arviz_stats.rhat(value, chain_axis=0, draw_axis=1), initial=0) for value in some.values())
    looked, all_of_them = (sum(value.shape[-1] for value in values.values()) for values in (some, flat))
    return _Worst(float(largest), "" if looked == all_of_them else f" (of {looked} looked at)")
