"""Measures of chains: whether they agree, how many effective draws they have, and whether their trajectories go everywhere."""

import json
import warnings

import numpy as np
import xarray as xr

from inference.diagnostics.quantities import quantities_of
from inference.diagnostics.verdicts import APART, ESS, FEWEST_ENERGIES, RHAT, Finding, judge, largest_rhat
from inference.engine.task import Kind

MOST_COMPARED = 20  # quantities by which one chain is told from the others
STILL = 1e-12  # relative spread of a quantity up to which it counts as rounding
TAILS = (0.05, 0.95)  # probabilities of the quantiles behind a tail size
GEOMETRY = {  # diagnostics of trajectories, and what to do where chains disagree, too
    "divergences": "Mend the divergences",
    "energy": "Reparametrise (see E-BFMI)",
    "tree depth": "Raise max_tree_depth",
}
MANY = {"divergences": 0.01, "tree depth": 0.5}  # shares of the trajectories that may keep chains at different places


def standing_still(tree: xr.DataTree) -> Finding | None:
    """For each chain, whether all of its draws are equal."""
    if "posterior" not in tree or tree["posterior"].sizes["draw"] < 2:
        return None
    sites = [site.values.reshape(*site.shape[:2], -1) for site in tree["posterior"].to_dataset().data_vars.values()]
    still = np.all([(site == site[:, :1]).all((1, 2)) for site in sites], axis=0)
    return Finding(still.astype(int), [f"chain {chain}" for chain in range(len(still))])


def agreement(tree: xr.DataTree) -> dict[str, Finding]:
    """R-hat and effective sample size of every functional, and of summaries of every site that no symmetry changes."""
    from arviz_stats.base import array_stats

    drawn, names = quantities_of(tree)
    chains, draws = drawn.shape[:2]
    if draws < 4:
        return {}
    moving = drawn.std((0, 1)) > STILL * np.abs(drawn.mean((0, 1)))
    drawn, names = drawn[..., moving], names[moving]
    if not len(names):
        return {}
    drawn = _halves(drawn) if chains == 1 else drawn
    lead = {"chain_axis": 0, "draw_axis": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # chains that never move have no variance
        rhat, size = np.asarray(array_stats.rhat(drawn, **lead)), np.asarray(array_stats.ess(drawn, **lead))
        within = np.full(len(names), np.inf)  # effective sizes from autocorrelation within chains; only needed if R-hat is high
        high = np.flatnonzero(rhat > RHAT)
        if len(high):
            centred = drawn[..., high] - drawn[..., high].mean(1, keepdims=True)
            within[high] = np.nan_to_num(np.asarray(array_stats.ess(centred, **lead)))
        rhats = Finding(rhat, list(names), within, len(drawn))
        tail = np.asarray(array_stats.ess(drawn, **lead, method="tail", prob=TAILS))
        differing = drawn[..., rhat > largest_rhat(rhats)]
        stay = chains > 1 and _stay_apart(differing)
        details = {"apart": _deviating_chain(differing), "advice": _advice_to_chains(tree, stay)}
    return {
        "R-hat": rhats._replace(details=details),
        "effective sample size": Finding(size, list(names)),
        "tail effective sample size": Finding(tail, list(names)),
    }


def _advice_to_chains(tree: xr.DataTree, apart: bool) -> str:
    """What chains that disagree should do first, by the likely cause, and by the options that the method has.

    Trajectories come first where a diagnostic of them fails; of chains that stay ``apart`` only where many of them fail.
    """
    options = json.loads(tree.attrs.get("options", "{}"))
    longer, crossing = "warm up and run longer (num_warmup, num_samples)", "tempered_gibbs where the model has it, or smc"
    if "num_moves" in options:
        longer = "take more particles and moves (num_samples, num_moves)"
        crossing = "tempered_gibbs where the model has it"
    elif "num_temperatures" in options:
        longer, crossing = "take more temperatures (num_temperatures), and run longer", "smc"
    failed = _failing_trajectories(tree, many=apart)
    first = f"{GEOMETRY[failed[0]]} first. " if failed else ""
    if apart:
        return f"{first}Each may be at a mode of its own: use {crossing}, or {longer}"
    return f"{first}{longer.capitalize()}; if that does not help, the posterior has several modes and each chain is in its own"


def _failing_trajectories(tree: xr.DataTree, many: bool) -> list[str]:
    """The diagnostics of trajectories that fail, in the order of causes; with ``many`` only where a large share does."""
    findings = {name: finding for name, measure in TRAJECTORIES.items() if (finding := measure(tree)) is not None}
    failed = [problem.diagnostic for problem in judge(Kind.CHAINS, findings)]
    return [name for name in failed if not many or findings[name].details.get("share", 1.0) > MANY.get(name, 0.0)]


def _stay_apart(drawn: np.ndarray) -> bool:
    """Whether chains (chain, draw, Q) stay at different places: halves of each agree, and two are `APART`, in one quantity."""
    half = drawn.shape[1] // 2
    early, late = drawn[:, :half].mean(1), drawn[:, half:].mean(1)
    within = np.sqrt(drawn[:, half:].var(1).mean(0))
    settled = (np.abs(early - late) <= within).all(0)
    return bool((settled & (np.ptp(late, axis=0) > APART * within)).any())


def _deviating_chain(drawn: np.ndarray) -> str:
    """The chain of (chain, draw, Q) without which the others agree, and whether only its first half differs; "" if none."""
    from arviz_stats.base import array_stats

    def agree(some: np.ndarray) -> bool:
        rhat = np.asarray(array_stats.rhat(some, chain_axis=0, draw_axis=1))
        return bool((rhat <= largest_rhat(Finding(rhat, size=ESS, num_chains=len(some)))).all())

    chains, draws = drawn.shape[:2]
    drawn = drawn[..., :MOST_COMPARED]
    alone = [chain for chain in range(chains) if chains > 2 and drawn.size and agree(np.delete(drawn, chain, axis=0))]
    if len(alone) != 1:
        return ""
    early = agree(drawn[:, draws // 2 :])
    return f"Chain {alone[0]} lies apart from the others{' in its first half' if early else ''}. "


def _halves(drawn: np.ndarray) -> np.ndarray:
    """The halves of one chain (1, draw, …) as two chains, because ArviZ has no R-hat for one."""
    half = drawn.shape[1] // 2
    return drawn[0, : 2 * half].reshape(2, half, *drawn.shape[2:])


def divergences(tree: xr.DataTree) -> Finding | None:
    """The number of divergent transitions."""
    stats = statistics_of(tree)
    if "diverging" not in stats:
        return None
    return Finding(np.array([int(stats["diverging"].sum())]), details={"share": float(stats["diverging"].mean())})


def energy(tree: xr.DataTree) -> Finding | None:
    """E-BFMI of all chains together, whose energies vary about their own means. Trajectories that diverged do not count."""
    stats = statistics_of(tree)
    if "energy" not in stats or stats.sizes["draw"] < FEWEST_ENERGIES:
        return None
    of_draws = stats["energy"].transpose("chain", "draw").values.astype(float)
    sound = np.isfinite(of_draws)
    if "diverging" in stats:
        sound &= ~stats["diverging"].transpose("chain", "draw").values.astype(bool)
    of_draws = np.where(sound, of_draws, np.nan)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a chain that always diverged has no mean
        changes = np.nanmean(np.diff(of_draws, axis=1) ** 2)
        spread = np.nanmean((of_draws - np.nanmean(of_draws, axis=1, keepdims=True)) ** 2)
        return Finding(np.array([changes / spread]))


def tree_depth(tree: xr.DataTree) -> Finding | None:
    """The share of trees that reached the largest depth."""
    stats = statistics_of(tree)
    if "reached_max_treedepth" not in stats:
        return None
    depth = json.loads(tree.attrs.get("options", "{}")).get("max_tree_depth")
    share = float(stats["reached_max_treedepth"].mean())
    return Finding(np.array([share]), details={"depth": "" if depth is None else f"={depth}", "share": share})


def statistics_of(tree: xr.DataTree) -> xr.Dataset:
    """The statistics of the method, an empty set where there are none."""
    return tree["sample_stats"].to_dataset() if "sample_stats" in tree else xr.Dataset()


# diagnostics of trajectories, in the order of causes
TRAJECTORIES = {"divergences": divergences, "energy": energy, "tree depth": tree_depth}
