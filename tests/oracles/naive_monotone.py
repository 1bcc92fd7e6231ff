"""The exact posterior of Gaussian classes whose second column is missing in some rows: by factors, and over all assignments.

With Λ ~ Wishart(dof, S⁻¹) and μ_g | Λ ~ Normal(m, (κ Λ)⁻¹), after the complete rows (D = 2, Σ = Λ⁻¹):

    1 / Σ_11 ~ Gamma((dof − 1) / 2, S_11 / 2),   μ_g1 | Σ_11 ~ Normal(m_g1, Σ_11 / κ_g)                        first column
    1 / Σ_22.1 ~ Gamma(dof / 2, S_22.1 / 2),     Σ_21 / Σ_11 | Σ_22.1 ~ Normal(S_21 / S_11, Σ_22.1 / S_11)     second, given it
    μ_g2 | … ~ Normal(m_g2 + Σ_21 / Σ_11 (μ_g1 − m_g1), Σ_22.1 / κ_g)

and the two lines are independent. Rows with the first column alone go on to update the first (Little and Rubin 2019, §7.2).
"""

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from naive import Sites
from scipy.special import gammaln, logsumexp, multigammaln

CLASSES = 2


class Block(NamedTuple):
    """What the rows of G classes that share a precision make of it."""

    evidence: float
    strength: np.ndarray  # (G,): κ_g after the complete rows
    location: np.ndarray  # (G, 2): m_g
    scatter: np.ndarray  # (2, 2): S
    dof: float
    first: tuple[float, float, np.ndarray, np.ndarray]  # shape and rate of 1 / Σ_11, κ_g and m_g1, after all rows


def block(hyper: Mapping[str, Any], groups: list[np.ndarray]) -> Block:
    """Evidence and posterior of the rows of every class (n, 2), NaN in the second column or in both."""
    dof, strength, location, scatter = float(hyper["dof"]), float(hyper["strength"]), hyper["location"], hyper["scatter"]
    whole = [rows[~np.isnan(rows[:, 1])] for rows in groups]
    alone = [rows[np.isnan(rows[:, 1]) & ~np.isnan(rows[:, 0]), 0] for rows in groups]
    size = np.array([len(rows) for rows in whole])
    kappa = strength + size
    mean = np.array([(strength * location + rows.sum(0)) / k for rows, k in zip(whole, kappa, strict=True)])
    spread = scatter + sum(
        rows.T @ rows + strength * np.outer(location, location) - k * np.outer(m, m)
        for rows, k, m in zip(whole, kappa, mean, strict=True)
    )
    after = dof + size.sum()
    evidence = -size.sum() * np.log(np.pi) + multigammaln(after / 2, 2) - multigammaln(dof / 2, 2)
    evidence += (dof * np.linalg.slogdet(scatter)[1] - after * np.linalg.slogdet(spread)[1]) / 2
    evidence += np.log(strength / kappa).sum()
    shape, rate, number = (after - 1) / 2, spread[0, 0] / 2, sum(map(len, alone))
    more = kappa + np.array([len(rows) for rows in alone])
    first = (kappa * mean[:, 0] + np.array([rows.sum() for rows in alone])) / more
    rest = sum((rows**2).sum() for rows in alone) + (kappa * mean[:, 0] ** 2).sum() - (more * first**2).sum()
    evidence += gammaln(shape + number / 2) - gammaln(shape) - number / 2 * np.log(2 * np.pi)
    evidence += shape * np.log(rate) - (shape + number / 2) * np.log(rate + rest / 2) + np.log(kappa / more).sum() / 2
    return Block(float(evidence), kappa, mean, spread, after, (shape + number / 2, rate + rest / 2, more, first))


def draw(found: Block, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(means (size, G, 2), precisions (size, 2, 2)) from the posterior."""
    shape, rate, strength, location = found.first
    first = rate / rng.gamma(shape, size=size)
    mean_1 = location + rng.normal(size=(size, len(strength))) * np.sqrt(first[:, None] / strength)
    slope, schur = found.scatter[1, 0] / found.scatter[0, 0], np.linalg.det(found.scatter) / found.scatter[0, 0]
    left = schur / 2 / rng.gamma(found.dof / 2, size=size)
    slope = slope + rng.normal(size=size) * np.sqrt(left / found.scatter[0, 0])
    mean_2 = found.location[:, 1] + slope[:, None] * (mean_1 - found.location[:, 0])
    mean_2 = mean_2 + rng.normal(size=mean_2.shape) * np.sqrt(left[:, None] / found.strength)
    covariance = np.array([[first, slope * first], [slope * first, left + slope**2 * first]])
    return np.stack([mean_1, mean_2], axis=-1), np.linalg.inv(np.moveaxis(covariance, -1, 0))


def blocks(covariance: str, hyper: Mapping[str, Any], x: np.ndarray, z: np.ndarray) -> list[Block]:
    """One a class with full covariances, one for all with a tied one."""
    groups = [x[z == k] for k in range(CLASSES)]
    return [block(hyper, groups)] if covariance == "tied" else [block(hyper, [own]) for own in groups]


def posterior(
    covariance: str, hyper: Mapping[str, Any], x: np.ndarray, allowed: np.ndarray, size: int, seed: int = 0
) -> tuple[float, Sites]:
    """(log evidence, independent draws of the sites of the classifier), over all assignments that labels allow."""
    rng, prior = np.random.default_rng(seed), hyper["concentration"]
    assignments = [np.array(z) for z in product(*(np.flatnonzero(row) for row in allowed))]
    counts = np.array([np.bincount(z, minlength=CLASSES) for z in assignments])
    logs = gammaln(prior + counts).sum(1) - gammaln(prior).sum() + gammaln(prior.sum()) - gammaln(prior.sum() + len(x))
    found = [blocks(covariance, hyper, x, z) for z in assignments]
    logs = logs + np.array([sum(each.evidence for each in one) for one in found])
    chosen = rng.multinomial(size, np.exp(logs - logsumexp(logs)))
    parts: list[Sites] = []
    for number, one, count in zip(chosen, found, counts, strict=True):
        drawn = [draw(each, rng, number) for each in one]
        precision = drawn[0][1] if covariance == "tied" else np.stack([each for _, each in drawn], axis=1)
        mean = np.concatenate([each for each, _ in drawn], axis=1)
        parts.append({"class_probs": rng.dirichlet(prior + count, number), "mean": mean, "precision": precision})
    return float(logsumexp(logs)), {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
