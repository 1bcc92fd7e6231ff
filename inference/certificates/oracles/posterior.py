"""The posterior given one table: by enumeration of the latents, or by long importance sampling with its error and its size.

By enumeration, log p(x, z) of every assignment z is a closed form. Their sum is the evidence. An assignment drawn in proportion
to it, and parameters from p(θ | x, z), are an independent draw from the posterior. Where latents are no assignments, or none,
draws have importance weights.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats
from scipy.special import logsumexp

Table = Mapping[str, np.ndarray]  # the data of one table, with the leading axis of one replicate


class Posterior(NamedTuple):
    """Independent draws with weights that stand for p(θ | x), and the evidence."""

    sites: Mapping[str, np.ndarray]  # (S, …)
    weights: np.ndarray  # (S,), which sum to 1
    log_evidence: float
    error: float  # of the log evidence; 0 where nothing is sampled

    @property
    def effective_size(self) -> float:
        """The number of draws of equal weight with the same error (Kish 1965)."""
        return float(1 / np.sum(self.weights**2))


class Enumeration(NamedTuple):
    """Discrete latents of a small table, of which all assignments are listed."""

    number: Callable[[Table], int]  # A, how many assignments there are
    assignments: Callable[[Table], np.ndarray]  # (A, F): the latents of all of them
    log_joint: Callable[[Table, np.ndarray], np.ndarray]  # (table, z (A, F)) -> (A,): log p(x, z), parameters integrated out
    draw: Callable[[np.random.Generator, Table, np.ndarray], dict[str, np.ndarray]]  # one draw of p(θ | x, z) for each z
    mode: Callable[[Table, np.ndarray], dict[str, np.ndarray]]  # argmax p(θ | x, z)
    complete: Callable[[Mapping[str, np.ndarray], Table, np.ndarray], np.ndarray]  # (R,): log p(x, z | θ), R pairs of θ and z


def enumerated(latents: Enumeration, rng: np.random.Generator, table: Table, number: int) -> Posterior:
    """Draws by a sum over all assignments."""
    z = latents.assignments(table)
    logs = latents.log_joint(table, z)
    evidence = float(logsumexp(logs))
    chosen = rng.choice(len(z), number, p=np.exp(logs - evidence))
    return Posterior(latents.draw(rng, table, z[chosen]), np.full(number, 1 / number), evidence, 0.0)


def weighted(sites: Mapping[str, np.ndarray], log_ratios: np.ndarray) -> Posterior:
    """Draws of a proposal, with the logs of p(x, θ) over its density; the error is that of the mean of the ratios."""
    number = len(log_ratios)
    evidence = float(logsumexp(log_ratios) - np.log(number))
    weights = np.exp(log_ratios - evidence) / number
    return Posterior(sites, weights, evidence, float(np.std(weights * number) / np.sqrt(number)))


def near_the_mode(
    density: Callable[[np.ndarray], np.ndarray],
    sites_of: Callable[[np.ndarray], Mapping[str, np.ndarray]],
    size: int,
    rng: np.random.Generator,
    number: int,
) -> Posterior:
    """Importance sampling of a posterior with one mode on ℝᵖ: a Student-t of 5 degrees of freedom about it.

    ``density`` is log p(x, θ) of points (R, P).
    """

    def downhill(point: np.ndarray) -> float:
        return -float(density(point[None])[0])

    optimum: optimize.OptimizeResult = optimize.minimize(downhill, np.zeros(size), method="BFGS")
    proposal = stats.multivariate_t(optimum.x, 1.2 * optimum.hess_inv, df=5, seed=rng)
    points = proposal.rvs(number)
    return weighted(sites_of(points), density(points) - proposal.logpdf(points))
