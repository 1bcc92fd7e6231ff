"""The law of a kernel together with the latents that it draws, factor by factor of their density.

Parameters that are drawn rightly given the latents hide much of an error in the latents. So each factor of p(x, z | θ), such as
the probability of the first states or that of the stops, is a separate statistic. Noise that two blocks of a kernel share
hides from all sums over latents. So the parameters that a single latent points at are compared, too.

A user's kernel gives its components labels. So single entries of a site are compared, which a prior that differs between
labels changes. And a kernel that only exchanges labels moves every entry, but nothing identified: summaries that do not depend
on the order of the entries must move, too.
"""

import math
from collections.abc import Mapping

import numpy as np

from inference.certificates.checks.figure import MOST, POWER, TIMES, Check, Deviations, large_stage, rejection
from inference.certificates.laws.kernel_law import Law, Move, StatisticPairs, deviations, products
from inference.certificates.laws.kernels import Ran, same
from inference.certificates.oracles.oracle import Oracle, Sites, Statistics, Tables, pairs_of_rows, site_statistics

SHARE = 0.1  # of the latents, which the control exchanges
ENTRY = "entry"  # begins the names of statistics of single entries and of their products
ENTRIES = 24  # of all sites and latents, of which each two are compared


class KernelLaw(Law):
    """The law of parameters and latents; remembers which of them were not finite, or are no probabilities."""

    def __init__(self, oracle: Oracle, move: Move, replicates: int) -> None:
        super().__init__(oracle, move, replicates)
        self.faults: dict[str, str] = {}  # site -> what is wrong with its values, in words

    def pairs(self, seed: int, times: int) -> StatisticPairs:
        """Statistics before and after; those of values outside the support are NaN, without a warning of NumPy."""
        with np.errstate(all="ignore"):
            return super().pairs(seed, times)

    def with_dependence(self, pairs: StatisticPairs, after: Sites) -> StatisticPairs:
        """With entries of sites and latents, products of each two, and the factors of p(x, z | θ) where there are latents."""
        for name, value in pairs.moved.items():
            if (fault := _fault(value, name in self.oracle.simplices)) is not None:
                self.faults[name] = fault
        self.still = self.still | {
            f"{name}, whatever the order of its entries,": share for name, share in self._unmoved(pairs).items()
        }
        drawn, latent = pairs.tables, self.oracle.latent
        if latent is None or latent not in pairs.moved:
            return _with_entries(pairs, entries(pairs.sites), entries(after))
        drawn = {**pairs.tables, latent: pairs.moved[latent]}
        before, later = of_latents(self.oracle, pairs.sites, pairs.tables), of_latents(self.oracle, after, drawn)
        varied = [
            name for name, values in before.items() if values.min() < values.max()
        ]  # not so of equal probabilities of all components
        pairs.before.update({name: before[name] for name in varied})
        pairs.after.update({name: later[name] for name in varied})
        both = ({**sites, latent: tables[latent]} for sites, tables in ((pairs.sites, pairs.tables), (after, drawn)))
        return _with_entries(pairs, *(entries(values) for values in both))

    def _unmoved(self, pairs: StatisticPairs) -> dict[str, float]:
        """The share of replicates in which no statistic of a site moved: of sites with several entries."""
        shares = {}
        for name, value in pairs.sites.items():
            if value[0].size > 1:
                statistics = site_statistics(name, value, name in self.oracle.simplices)
                still = [same(pairs.before[each], pairs.after[each]) for each in statistics]
                shares[name] = float(np.all(still, axis=0).mean())
        return shares


def _with_entries(pairs: StatisticPairs, before: Statistics, after: Statistics) -> StatisticPairs:
    """With single entries and their products; products of two entries that do not vary carry no information."""
    centre = {name: float(np.median(value)) for name, value in before.items()}
    return pairs._replace(
        before=pairs.before | before | products(before, centre), after=pairs.after | after | products(after, centre)
    )


def entries(values: Mapping[str, np.ndarray]) -> Statistics:
    """Some entries (R,) of arrays (R, …), first and last among them, in all about `ENTRIES`: they depend on labels."""
    some, most = {}, max(2, ENTRIES // len(values))
    for name, value in values.items():
        flat = value.reshape(len(value), -1)
        for place in np.unique(np.linspace(0, flat.shape[1] - 1, most).round().astype(int)):
            some[f"{ENTRY} {place} of {name}"] = 1.0 * flat[:, place]
    return some


def of_latents(oracle: Oracle, sites: Sites, tables: Tables) -> Statistics:
    """The `factors`, the parameters that one latent points at, and which rows' latents are alike."""
    pointed = {} if oracle.pointed is None else oracle.pointed(sites, tables)
    assert oracle.latent is not None
    return factors(oracle, sites, tables) | pointed | pairs_of_rows(oracle.latent, tables)


def factors(oracle: Oracle, sites: Sites, tables: Tables) -> Statistics:
    """The logs (R,) of the factors of p(x, z | θ), by name."""
    assert oracle.complete is not None
    return oracle.complete(sites, tables)


def _fault(value: np.ndarray, is_simplex: bool) -> str | None:
    """The fault of a site (R, …), in words, or None."""
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
    latents = sites[oracle.latent]
    chosen = np.random.default_rng(seed).random(latents.shape) < SHARE
    other = np.where(chosen, np.roll(latents, 1, 0), latents)
    parameters = {name: value for name, value in sites.items() if name != oracle.latent}
    with np.errstate(all="ignore"):
        possible = np.isfinite(oracle.log_complete(parameters, {**tables, oracle.latent: other}))
    return np.where(possible.reshape(-1, *[1] * (latents.ndim - 1)), other, latents)
