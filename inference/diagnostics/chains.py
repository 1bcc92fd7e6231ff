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
    "energy": "Mend the energy",
    "tree depth": "Raise max_tree_depth",
}


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
        details = {
            "apart": _deviating_chain(drawn[..., rhat > largest_rhat(rhats)]),
            "advice": _advice_to_chains(tree, float(np.nanmax(rhat))),
        }
    return {
        "R-hat": rhats._replace(details=details),
        "effective sample size": Finding(size, list(names)),
        "tail effective sample size": Finding(tail, list(names)),
    }


def _advice_to_chains(tree: xr.DataTree, rhat: float) -> str:
    """What chains that disagree should do first, by the likely cause, and by the options that the method has."""
    causes = judge(Kind.CHAINS, {name: found for name, measure in TRAJECTORIES.items() if (found := measure(tree)) is not None})
    if causes:
        return f"{GEOMETRY[causes[0].diagnostic]} first: it may be the cause"
    options = json.loads(tree.attrs.get("options", "{}"))
    longer = "Warm up and run longer (num_warmup, num_samples)"
    if "num_moves" in options:
        longer = "Take more particles and moves (num_samples, num_moves)"
    elif "num_temperatures" in options:
        longer = "Take more temperatures (num_temperatures), and run longer"
    if rhat > APART:
        return f"Each may be at a mode of its own: use tempered_gibbs where the model has it, or smc. Else: {longer.lower()}"
    return f"{longer}; if that does not help, the posterior has several modes and each chain is in its own"


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
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree else xr.Dataset()
    return Finding(np.array([int(stats["diverging"].sum())])) if "diverging" in stats else None


def energy(tree: xr.DataTree) -> Finding | None:
    """E-BFMI of every chain of a method with trajectories; a trajectory that diverged may have no energy."""
    from arviz_stats.base import array_stats

    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree else xr.Dataset()
    if "energy" not in stats or stats.sizes["draw"] < FEWEST_ENERGIES:
        return None
    chains = [chain[np.isfinite(chain)] for chain in stats["energy"].transpose("chain", "draw").values]
    return Finding(
        np.array([array_stats.bfmi(chain[None])[0] if len(chain) >= FEWEST_ENERGIES else np.nan for chain in chains]),
        [f"chain {number}" for number in range(len(chains))],
    )


def tree_depth(tree: xr.DataTree) -> Finding | None:
    """The share of trajectories that were cut off."""
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree else xr.Dataset()
    if "reached_max_treedepth" not in stats:
        return None
    depth = json.loads(tree.attrs.get("options", "{}")).get("max_tree_depth", int(stats["tree_depth"].max()))
    return Finding(np.array([float(stats["reached_max_treedepth"].mean())]), details={"depth": depth})


# diagnostics of trajectories, in the order of causes
TRAJECTORIES = {"divergences": divergences, "energy": energy, "tree depth": tree_depth}
