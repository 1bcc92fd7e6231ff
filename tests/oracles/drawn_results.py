"""Results of draws that were made up, as if a fit had brought them."""

import json

import numpy as np
import xarray as xr
from scipy import stats
from scipy.signal import lfilter

from inference.diagnostics.checks import problems_of

RNG = np.random.default_rng


def drawn(theta: np.ndarray, kind: str = "chains", stats: dict | None = None, **attrs) -> xr.DataTree:
    """A result with draws (chain, draw, …) of one site; its log joint is noise of healthy chains."""
    lead = ("chain", "draw")
    noise = RNG(99).normal(size=theta.shape[:2])
    groups = {
        "/posterior": xr.Dataset({"theta": ((*lead, *(f"d{i}" for i in range(theta.ndim - 2))), theta)}),
        "/functionals": xr.Dataset({"log_joint": (lead, noise)}),
        "/sample_stats": xr.Dataset({name: (lead, value) for name, value in (stats or {}).items()}),
    }
    tree = xr.DataTree.from_dict(
        {name: group.assign_coords({d: np.arange(n) for d, n in group.sizes.items()}) for name, group in groups.items()}
    )
    tree.attrs = {"draws": kind, "symmetry": "", "method": "any", **attrs}
    return tree


def normal(chains: int = 4, draws: int = 500, seed: int = 0) -> np.ndarray:
    return RNG(seed).normal(size=(chains, draws))


def shifted(by: float) -> np.ndarray:
    """Four chains with the same normal quantiles in other orders, two of them up and two of them down by ``by``."""
    quantiles = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    return np.stack([RNG(c).permutation(quantiles) for c in range(4)]) + by * np.array([1, -1, 1, -1])[:, None]


def wandering(carried: float) -> np.ndarray:
    """Energies of unit variance whose E-BFMI is 2 (1 − carried)."""
    noise = normal() * np.sqrt(1 - carried**2)
    noise[:, 0] = normal(4, 1)[:, 0]
    return lfilter([1.0], [1.0, -carried], noise, axis=1)


def cut_off(share: float) -> dict[str, np.ndarray]:
    """Statistics of trees, of which a share has the largest depth."""
    return {"tree_depth": np.full((4, 500), 3), "reached_max_treedepth": np.arange(2000).reshape(4, 500) < share * 2000}


def optimised(final: list[float], converged: bool = True, iterations: int = 7, distance: list[float] | None = None, **attrs):
    """An optimiser's result, or with distances the starts of an approximation."""
    start = {"final_objective": final, "converged": [converged] * len(final), "iterations": [iterations] * len(final)}
    start |= {} if distance is None else {"distance": distance}
    tree = xr.DataTree() if distance is None else drawn(normal(), "approximation")
    tree["optimization"] = xr.DataTree(xr.Dataset({name: ("start", np.array(value)) for name, value in start.items()}))
    if distance is None:
        tree["functionals"] = xr.DataTree(xr.Dataset({"log_joint": ((), max(final))}))
    tree.attrs |= {"best_start": int(np.argmax(final)), "options": json.dumps({"max_iter": 7}), "method": "any", **attrs}
    return tree


def failed(tree: xr.DataTree) -> set[str]:
    return {problem.diagnostic for problem in problems_of(tree)}
