"""The law of a kernel together with the latents that it draws, factor by factor of their density.

Parameters that are drawn rightly given the latents hide much of a slip in the latents. So each factor of p(x, z | θ), such as
the probability of the first states or that of the stops, is a statistic of its own. Noise that two blocks of a kernel share
hides from all sums over latents. So what a single latent points at is compared, too.
"""

import math
from itertools import pairwise

import numpy as np

from inference.certificates.checks.figure import MOST, POWER, TIMES, Check, Deviations, large_stage
from inference.certificates.checks.kernel_law import Law, Move, Pairs, deviations, rejection
from inference.certificates.checks.kernels import Ran
from inference.certificates.oracles.oracle import Oracle, Sites, Statistics, Tables

SHARE = 0.1  # of the latents, which the control exchanges


class KernelLaw(Law):
    """The law of parameters and latents; remembers which of them were not finite, or are no probabilities."""

    def __init__(self, oracle: Oracle, move: Move, replicates: int) -> None:
        super().__init__(oracle, move, replicates)
        self.faults: dict[str, str] = {}  # site -> what is wrong with its values, in words

    def pairs(self, seed: int, times: int) -> Pairs:
        """Statistics before and after; those of values outside the support are NaN, without a warning of NumPy."""
        with np.errstate(all="ignore"):
            return super().pairs(seed, times)

    def with_latents(self, pairs: Pairs, after: Sites, moved: Sites) -> Pairs:
        """With the factors of p(x, z | θ) as statistics, where the kernel returns latents."""
        for name, value in moved.items():
            if (fault := _fault(value, name in self.oracle.simplices)) is not None:
                self.faults[name] = fault
        latent = self.oracle.latent
        if latent is None or latent not in moved:
            return pairs
        before = of_latents(self.oracle, pairs.sites, pairs.tables)
        drawn = of_latents(self.oracle, after, {**pairs.tables, latent: moved[latent]})
        for name, values in before.items():
            if np.ptp(values) > 0:  # not so of equal probabilities of all components
                pairs.before[name], pairs.after[name] = values, drawn[name]
        return pairs


def of_latents(oracle: Oracle, sites: Sites, tables: Tables) -> Statistics:
    """The `factors`, what one latent points at, and which rows' latents are equal."""
    pointed = {} if oracle.pointed is None else oracle.pointed(sites, tables)
    return factors(oracle, sites, tables) | pointed | together(oracle, tables)


def together(oracle: Oracle, tables: Tables) -> Statistics:
    """Whether (R,) the first discrete latents of neighbouring rows are equal: rows that share random numbers show there."""
    assert oracle.latent is not None
    latent = tables[oracle.latent]
    if latent.dtype.kind not in "iu":
        return {}
    entry = latent.reshape(*latent.shape[:2], -1)[:, :, 0]
    name = oracle.latent
    return {
        f"{name} {one} = {name} {other}": 1.0 * (entry[:, one] == entry[:, other])
        for one, other in pairwise(range(entry.shape[1]))
    }


def factors(oracle: Oracle, sites: Sites, tables: Tables) -> Statistics:
    """The logs (R,) of the factors of p(x, z | θ), by name."""
    assert oracle.complete is not None
    return oracle.complete(sites, tables)


def _fault(value: np.ndarray, is_simplex: bool) -> str | None:
    """What is wrong with a site (R, …), in words, or None."""
    entries = value.reshape(len(value), -1)
    if not np.isfinite(entries).all():
        return f"is NaN or infinite in {int((~np.isfinite(entries)).any(1).sum()):,} of {len(value):,} replicates"
    if is_simplex and not np.allclose(value.sum(-1), 1.0, atol=1e-4):
        worst = value.sum(-1).flat[np.abs(value.sum(-1) - 1).argmax()]
        return f"does not sum to 1 along its last axis, as {worst:.3g}"
    return None


def latent_control(oracle: Oracle, move: Move, replicates: int, seed: int) -> Check:
    """Whether latents are rejected of which one in ten is that of another table."""
    name = oracle.latent
    assert name is not None

    def disturbed(sites: Sites, tables: Tables, seed: int) -> Ran:
        ran = move(sites, tables, seed)
        return ran._replace(sites={**ran.sites, name: _exchanged(oracle, ran.sites, tables, seed)})

    law = KernelLaw(oracle, disturbed, replicates)

    def of_factors(seed: int, times: int) -> Deviations:
        """Deviations of what latents alone enter."""
        pairs = law.pairs(seed, times)
        named = factors(oracle, pairs.sites, pairs.tables)
        every = deviations(pairs.before, pairs.after)
        return {key: value for key, value in every.items() if key.removesuffix(", spread") in named}

    figures = large_stage(of_factors, seed)
    check = rejection(name, f"1 in {1 / SHARE:.0f} entries of {name} from another table", figures, POWER)
    if not check.passed:
        return check
    fewer = max(abs(figure.value) for figure in figures if figure.rejects) / (MOST * math.sqrt(TIMES))
    return check._replace(
        says=f"{check.says} at {TIMES} × {replicates:,} replicates; 1 in {max(1, round(fewer / SHARE))} would be seen as often "
        "as not"
    )


def _exchanged(oracle: Oracle, sites: Sites, tables: Tables, seed: int) -> np.ndarray:
    """Latents (R, …) with some entries of the next replicate's, where the density allows them."""
    assert oracle.latent is not None
    own = sites[oracle.latent]
    chosen = np.random.default_rng(seed).random(own.shape) < SHARE
    other = np.where(chosen, np.roll(own, 1, 0), own)
    parameters = {name: value for name, value in sites.items() if name != oracle.latent}
    with np.errstate(all="ignore"):
        possible = np.isfinite(oracle.log_complete(parameters, {**tables, oracle.latent: other}))
    return np.where(possible.reshape(-1, *[1] * (own.ndim - 1)), other, own)
