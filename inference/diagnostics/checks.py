"""Is a result fit for use? This file measures what `inference.diagnostics.verdicts` judges."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics.chains import TRAJECTORIES, agreement, standing_still
from inference.diagnostics.starts import shares_of_modes, starts_at_best
from inference.diagnostics.summaries import summarise
from inference.diagnostics.unfinished import so_far
from inference.diagnostics.verdicts import (
    EXPLAINED,
    FINISHED,
    INTERRUPTED,
    Finding,
    Problem,
    anchor,
    judge,
)
from inference.engine.task import Kind, kind_of
from inference.identification.invariants import ELSEWHERE
from inference.identification.relabel import SURE
from inference.results.tree import values


class Diagnosis(NamedTuple):
    """``problems`` is empty if every diagnostic passed; ``exit_status`` is the exit code of a run."""

    functionals: pd.DataFrame
    problems: list[str]
    exit_status: int
    remarks: list[str]  # messages of diagnostics that are no failures
    interrupted: str = ""  # how far an interrupted run had come, which is no failure
    failed: tuple[str, ...] = ()  # the diagnostics of ``problems``

    @property
    def doubted(self) -> bool:
        """Whether a diagnostic failed, or the run was interrupted."""
        return bool(self.problems or self.interrupted)

    @property
    def explained(self) -> str:
        """Where the documentation explains the problems; empty if there are none."""
        anchors = ", ".join(f"#{anchor(name)}" for name in self.failed)
        return f"{EXPLAINED} explains this: {anchors}" if anchors else ""


def diagnose(tree: xr.DataTree) -> Diagnosis:
    """Check a result by the table of verdicts; results of `inference.fit` store their verdicts, which are then read."""
    verdicts = stored(tree) if "verdicts" in tree.attrs else problems_of(tree)
    failed = [each for each in verdicts if each.exit not in (FINISHED, INTERRUPTED)]
    interrupted = "".join(each.sentence for each in verdicts if each.exit == INTERRUPTED)
    remarks = [each.sentence for each in verdicts if each.exit == FINISHED]
    exit_status = max((each.exit for each in verdicts), default=FINISHED)
    names = tuple(dict.fromkeys(each.diagnostic for each in failed))
    problems = [each.sentence for each in failed]
    return Diagnosis(summarise(tree, "functionals"), problems, exit_status, remarks, interrupted, names)


def problems_of(tree: xr.DataTree) -> list[Problem]:
    """The problems of a result by the table of verdicts."""
    findings = {name: finding for name, measure in MEASURES.items() if (finding := measure(tree)) is not None}
    if kind_of(tree) is Kind.CHAINS:
        findings |= agreement(tree)
    return judge(kind_of(tree), findings)


def stored(tree: xr.DataTree) -> list[Problem]:
    """The verdicts stored in a result."""
    return [Problem(*each) for each in json.loads(tree.attrs["verdicts"])]


def as_attributes(problems: list[Problem]) -> dict[str, Any]:
    """Verdicts as attributes of a result: all of them, the failed ones as lines, and the exit code."""
    return {
        "verdicts": json.dumps(problems),
        "problems": "\n".join(each.sentence for each in problems if each.exit != FINISHED),
        "exit_status": max((each.exit for each in problems), default=FINISHED),
    }


# ---------------------------------------------------------------------------------------------------------------------
# What is measured: a finding, or None if there is nothing to measure


def _interrupted(tree: xr.DataTree) -> Finding | None:
    interrupted = int(tree.attrs.get("interrupted", 0))
    return Finding(np.array([interrupted]), details={"so_far": so_far(tree)}) if interrupted else None


def _log_joint(tree: xr.DataTree) -> Finding | None:
    """The number of values of the log joint that are not finite."""
    log_joint = values(tree, "functionals", "log_joint")
    return Finding(np.array([np.sum(~np.isfinite(log_joint))]), details={"total": log_joint.size})


def _single_precision(tree: xr.DataTree) -> Finding | None:
    """The error of the log joint in a run with single precision."""
    if "precision_gap" not in tree.attrs:
        return None
    gap, log_joint = (float(tree.attrs[f"precision_{name}"]) for name in ("gap", "log_joint"))
    off = f"{gap:.3g} nats off" if np.isfinite(gap) else "not finite"
    return Finding(np.array([gap]), size=log_joint if np.isfinite(log_joint) else 0.0, details={"off": off})


def _number_of_chains(tree: xr.DataTree) -> Finding | None:
    return Finding(np.array([tree["posterior"].sizes["chain"]])) if "posterior" in tree else None


def _number_of_draws(tree: xr.DataTree) -> Finding | None:
    return Finding(np.array([tree["posterior"].sizes["draw"]])) if "posterior" in tree else None


def _unvisited_mode(tree: xr.DataTree) -> Finding | None:
    """The share of the mass at a mode that no chain has visited, as `inference.fitting.modes` estimated it."""
    if "unvisited_share" not in tree.attrs:
        return None
    details = {"where": tree.attrs["unvisited_mode"], "remedy": tree.attrs["modes_remedy"]}
    return Finding(np.array([tree.attrs["unvisited_share"]]), details=details)


def other_modes(tree: xr.DataTree) -> Finding:
    """Whether modes that no chain has visited were not looked for, and why."""
    remedy = str(tree.attrs.get("modes_remedy", ""))
    details = {"why": tree.attrs.get("modes_unknown", ""), "remedy": remedy[:1].upper() + remedy[1:]}
    return Finding(np.array([int("modes_unknown" in tree.attrs)]), details=details)


def _ancestors(tree: xr.DataTree) -> Finding | None:
    """The smallest effective number of ancestors of a run of sequential Monte Carlo."""
    if "effective_ancestors" not in tree.attrs:
        return None
    return Finding(np.array([min(json.loads(tree.attrs["effective_ancestors"]))]))


def _pareto_k(tree: xr.DataTree) -> Finding | None:
    if "pareto_k" not in tree.attrs:
        return None
    return Finding(np.array([tree.attrs["pareto_k"]]), size=tree["posterior"].sizes["chain"] * tree["posterior"].sizes["draw"])


def _no_pareto_k(tree: xr.DataTree) -> Finding | None:
    few = "there are too few draws to tell (num_samples)" if np.isnan(tree.attrs.get("pareto_k", 0.0)) else ""
    why = str(tree.attrs.get("no_pareto_k", few))
    return Finding(np.array([1]), details={"why": why}) if why else None


def _parts_alike(tree: xr.DataTree) -> Finding | None:
    """The share of draws in which components, states or topics cannot be told apart."""
    if "sample_stats" not in tree or "permutation" not in tree["sample_stats"]:
        return None
    what = str(tree.attrs.get("exchangeable", "component"))
    unsure = (values(tree, "sample_stats", "relabel_confidence") < SURE).mean()
    return Finding(np.array([unsure]), details={"what": what + ("es" if what.endswith("s") else "s")})


def _another_mode(tree: xr.DataTree) -> Finding | None:
    """Starts that ended at a mode that the draws leave out: how far its log mass is below the largest.

    An evidence lower bound bounds the mass of a mode, except a bound of one assignment of the latents. Where the method has
    told the modes apart, it reports their masses itself.
    """
    if tree.attrs.get("of_one_assignment", 0):
        return None
    if "optimization" not in tree or not ("distance" in tree["optimization"] or "modes_covered" in tree.attrs):
        return None
    if "modes_covered" in tree.attrs:
        mass = values(tree, "optimization", "log_mass")
        elsewhere = values(tree, "optimization", "mode") >= int(tree.attrs["modes_covered"])
    else:
        mass, distance, converged = (
            values(tree, "optimization", name) for name in ("final_objective", "distance", "converged")
        )
        elsewhere = np.isfinite(mass) & converged.astype(bool) & (distance > ELSEWHERE)
    below = np.nanmax(mass) - mass[elsewhere]
    return Finding(below, details={"total": len(mass), "share": f"{np.exp(-below.min()):.0%}"}) if elsewhere.any() else None


def _heavier_optimum(tree: xr.DataTree) -> Finding | None:
    """How far the log mass of the optimum that a point is at is below the largest, where several optima were weighed."""
    if "optimization" not in tree or "mode" not in tree["optimization"] or "modes_covered" in tree.attrs:
        return None
    mode, mass, final = (values(tree, "optimization", name) for name in ("mode", "log_mass", "final_objective"))
    best, first = int(tree.attrs["best_start"]), int(np.argmax(mode == 0))
    if mode[best] < 0:
        return None
    shares, _ = shares_of_modes(tree)
    details = {"here": shares[int(mode[best])], "there": shares[0], "lower": f"{final[best] - final[first]:.2f}"}
    return Finding(np.array([mass[first] - mass[best]]), details=details)


def _iterations(tree: xr.DataTree) -> Finding | None:
    return _not_converged(tree, stopped=False)


def _gradient(tree: xr.DataTree) -> Finding | None:
    return _not_converged(tree, stopped=True)


def _not_converged(tree: xr.DataTree, stopped: bool) -> Finding | None:
    """Whether the best start has not converged: with ``stopped``, before it used up its iterations, otherwise after."""
    if "optimization" not in tree or tree.attrs.get("interrupted", 0):
        return None
    most, best = json.loads(tree.attrs["options"]).get("max_iter"), int(tree.attrs["best_start"])
    if most is None:  # such as for a maximum in closed form
        return None
    taken = int(values(tree, "optimization", "iterations")[best])
    failed = not values(tree, "optimization", "converged")[best]
    details = {"taken": taken, "advice": _advice(tree, best, taken)}
    return Finding(np.array([int(failed and (taken < most) == stopped)]), details=details)


def _advice(tree: xr.DataTree, best: int, taken: int) -> str:
    """Advice for an optimiser that ran out of iterations: more of them, unless twice as many would not be enough."""
    if "iterations_left" not in tree["optimization"]:
        return ": raise max_iter"
    rate, left, gain = (float(values(tree, "optimization", name)[best]) for name in ("rate", "iterations_left", "gain_left"))
    if not left > taken:
        return f": raise max_iter{'' if np.isnan(left) else f' (about {left:.0f} more are needed)'}"
    more = f"{left:.0f} or more iterations and {gain:.2g} nats" if np.isfinite(left) else "no end in sight"
    return (
        f", and raising max_iter would not help soon: each iteration gains {rate:.4f} of what the one before gained ({more} to "
        "go). The objective is nearly flat in some direction, or its maximum lies on the boundary. Use fewer components or "
        "factors, a stronger prior, or a method that uses the curvature: map for a point, nuts for draws"
    )


def _starts(tree: xr.DataTree) -> Finding | None:
    """The number of starts at the best objective, if the best start converged and there are others."""
    reached = starts_at_best(tree)
    if reached is None or not tree.attrs.get("repeatable", 1):
        return None
    if "best_start" in tree.attrs and not values(tree, "optimization", "converged")[int(tree.attrs["best_start"])]:
        return None
    best, others = "the best objective", "a better one"
    if (covered := int(tree.attrs.get("modes_covered", 0))) > 0:
        best, others = ("the mode of largest mass", "a larger one") if covered == 1 else ("one of the modes", "others")
    return Finding(np.array([reached[0]]), details={"total": reached[1], "best": best, "others": others})


MEASURES: dict[str, Callable[[xr.DataTree], Finding | None]] = {
    "interrupted": _interrupted,
    "log joint": _log_joint,
    "single precision": _single_precision,
    "number of chains": _number_of_chains,
    "number of draws": _number_of_draws,
    "chains that stand still": standing_still,
    "unvisited mode": _unvisited_mode,
    "other modes": other_modes,
    **TRAJECTORIES,
    "few ancestors": _ancestors,
    "Pareto k-hat": _pareto_k,
    "no Pareto k-hat": _no_pareto_k,
    "parts alike": _parts_alike,
    "another mode": _another_mode,
    "heavier optimum": _heavier_optimum,
    "iterations": _iterations,
    "gradient": _gradient,
    "starts at the best objective": _starts,
}
