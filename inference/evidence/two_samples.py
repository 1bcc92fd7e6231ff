"""The ratio of two normalising constants from a sample of each density (Meng and Wong 1996): the estimator of bridge sampling.

Let p have the unknown normaliser r = ∫ p*(θ) dθ and q be normalised, with N₁ effective draws of p and N₂ of q. For any bridge
function h, r = E_q[p* h] / E_p[q h]. The variance is smallest at h ∝ 1 / (s₁ p + s₂ q) with s_i = N_i / (N₁ + N₂), which
depends on r, so that r is a fixed point. With the ratios w = p* / q it is (Gronau et al. 2017, equation 15)

    r = mean over q of  w / (s₁ w + s₂ r)    over    mean over p of  1 / (s₁ w + s₂ r)

The relative mean squared error of r (Frühwirth-Schnatter 2004, equation 22) is

    RE² = Var_q[f₁] / (N₂ E_q[f₁]²) + ρ Var_p[f₂] / (N₁ E_p[f₂]²),    f₁ = p / (s₁ p + s₂ q),    f₂ = q / (s₁ p + s₂ q)

where ρ is the number of draws of a chain that weigh as much as one independent draw, for f₂.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from models.base import ZooError

ROUNDS = 1000  # of the fixed point, which converges geometrically
SETTLED = 1e-11  # nats between two rounds
LEAST = 100.0  # effective draws of each sample below which neither the estimate nor its error is trusted


class Ratios(NamedTuple):
    """Log p*(θ) / q(θ): at draws of p in chains (chain, draw), and at independent draws of q (R,); −∞ where p* is 0."""

    posterior: np.ndarray
    proposal: np.ndarray


class Bridge(NamedTuple):
    """Log r, the square root of its relative mean squared error, and how many independent draws of p and of q it rests on.

    These count draws by the spread of their bridge functions: draws of q where p is 0 do not count.
    """

    log_ratio: float
    error: float
    effective_posterior: float
    effective_proposal: float


def bridged(ratios: Ratios, independent: bool = False) -> Bridge:
    """The normaliser of p from the log ratios of two samples; with ``independent`` draws of p have no autocorrelation.

    >>> rng = np.random.default_rng(0)  # p* = 2 q, whatever the draws
    >>> round(float(np.exp(bridged(Ratios(np.full((2, 10), np.log(2)), np.full(20, np.log(2)))).log_ratio)), 6)
    2.0
    """
    posterior, proposal = ratios.posterior, ratios.proposal
    if lost := int((~np.isfinite(posterior)).sum()):
        raise ZooError(
            f"bridge sampling: the density is not finite at {lost} of {posterior.size} draws of the posterior, which lie on "
            "the boundary of a parameter up to rounding, as a probability of 0; take a prior with less mass there"
        )
    size = _effective_size(posterior, independent)
    share = np.log(np.array([size, proposal.size]) / (size + proposal.size))
    log_r = float(np.median(posterior))
    for _ in range(ROUNDS):
        above = _mean(proposal - np.logaddexp(share[0] + proposal, share[1] + log_r))
        below = _mean(-np.logaddexp(share[0] + posterior, share[1] + log_r))
        before, log_r = log_r, above - below
        if not abs(log_r - before) > SETTLED:
            break
    slope = share[0] - share[1]
    f1 = expit(slope + proposal - log_r)  # s₁ p / (s₁ p + s₂ q): constants do not matter
    f2 = expit(-slope - posterior + log_r)
    sizes = _effective_size(f2, independent), float(proposal.size)
    parts = [_relative_variance(f2) / sizes[0], _relative_variance(f1) / sizes[1]]
    counted = [size / (1 + _relative_variance(f)) for f, size in zip((f2, f1), sizes, strict=True)]
    return Bridge(log_r, float(np.sqrt(sum(parts))), *counted)


def _mean(logs: np.ndarray) -> float:
    """The log of a mean of exponentials."""
    return float(logsumexp(logs) - np.log(logs.size))


def _relative_variance(f: np.ndarray) -> float:
    """The variance over the square of the mean; 0 for a constant."""
    return float(f.var() / f.mean() ** 2) if np.ptp(f) > 0 else 0.0


def _effective_size(chains: np.ndarray, independent: bool) -> float:
    """The effective number of draws (chain, draw) for their mean, at most their number; all of them for a constant."""
    import arviz_stats

    if independent or np.ptp(chains) < 1e-12 * (1 + np.abs(chains).max()):
        return float(chains.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        size = float(arviz_stats.ess(chains, method="mean", chain_axis=0, draw_axis=1))
    return min(size, float(chains.size))


def reasons(bridge: Bridge) -> list[str]:
    """Why the error of an estimate is not trustworthy; empty if it is."""
    lines = []
    if not bridge.effective_posterior >= LEAST:
        lines.append(f"the draws of the posterior weigh as much as {bridge.effective_posterior:.0f} independent ones")
    if not bridge.effective_proposal >= LEAST:
        lines.append(f"of the draws of the proposal as many as {bridge.effective_proposal:.0f} are like those of the posterior")
    return [
        f"the error is not trustworthy: {line}, and {LEAST:.0f} are needed; take more draws (num_samples=)" for line in lines
    ]
