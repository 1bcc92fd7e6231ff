"""Counts of one column given the component: negative binomial (Greenwood and Yule 1920), zero-inflated Poisson (Lambert 1992).

rate_k ~ Gamma(3, 1.5),    inverse_dispersion_k ~ Gamma(4, 2),    zero_probs_k ~ Beta(4, 6)

x | k ~ NegativeBinomial of SciPy with n = inverse_dispersion_k and p = n / (n + rate_k), or Poisson(rate_k); zero-inflated
counts are 0 with probability zero_probs_k, and else one of these.

Given the rows of a component, the parameters have no closed form, but are few. A `Grid` has a cell for every combination of
quantiles of their priors. A cell is drawn by the likelihood at its centre, a point of it by the prior, and the weight of the
draw is the likelihood there beside that at the centre: near 1, and exact.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from inference.certificates.oracles.conjugate import Conjugate, total
from inference.certificates.oracles.oracle import Mutant, Sites, ten_percent
from inference.certificates.oracles.posterior import Posterior, weighted

NEGATIVE, ZERO = "negative_binomial", "zero_inflated_poisson"
HYPER = {
    "rate": {"shape": 3.0, "inverse_scale": 1.5},
    "inverse_dispersion": {"inverse_dispersion_shape": 4.0, "inverse_dispersion_rate": 2.0},
    "zero_probs": {"zero_a": 4.0, "zero_b": 6.0},
}
SITES = {NEGATIVE: ("rate", "inverse_dispersion"), ZERO: ("rate", "zero_probs")}
WRONG = {NEGATIVE: "inverse_dispersion_rate", ZERO: "zero_a"}  # which number of the prior the mutant has wrong
NODES = 64  # quantiles of each parameter
AT_ONCE = 256  # sets of rows whose grids are held at a time


def law_of(site: str) -> Any:
    """The prior of a site."""
    first, second = HYPER[site].values()
    return stats.beta(first, second) if site == "zero_probs" else stats.gamma(first, scale=1 / second)


def numbers_of(counts: str) -> dict[str, float]:
    """The prior as the zoo's options name it."""
    return {name: value for site in SITES[counts] for name, value in HYPER[site].items()}


def mutant_of(counts: str, options: Callable[[dict[str, float]], Mapping[str, Any]]) -> Mutant:
    """One number of the prior is 10 % too large; ``options`` are those of build, given all numbers of the counts."""
    name, right = WRONG[counts], numbers_of(counts)
    return ten_percent(name, right[name], lambda wrong: options(right | {name: wrong}))


def draw_sites(counts: str, rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Parameters from the prior."""
    return {site: law_of(site).rvs(shape, random_state=rng) for site in SITES[counts]}


def log_prior(counts: str, sites: Sites) -> np.ndarray:
    """(R,)."""
    return np.sum([total(law_of(site).logpdf(sites[site])) for site in SITES[counts]], axis=0)


def draw_counts(rng: np.random.Generator, sites: Sites) -> np.ndarray:
    """A count for each entry of the sites."""
    rate = sites["rate"]
    if "inverse_dispersion" in sites:
        size = sites["inverse_dispersion"]
        return 1.0 * rng.negative_binomial(size, size / (size + rate))
    return np.where(rng.random(rate.shape) < sites["zero_probs"], 0.0, rng.poisson(rate))


def log_probability(sites: Sites, x: np.ndarray) -> np.ndarray:
    """Log p(x), of shapes that broadcast; 0 where x is missing."""
    count = np.nan_to_num(x)
    if "inverse_dispersion" in sites:
        size = sites["inverse_dispersion"]
        found = stats.nbinom.logpmf(count, size, size / (size + sites["rate"]))
    else:
        zero, own = sites["zero_probs"], stats.poisson.logpmf(count, sites["rate"])
        found = np.where(count == 0, np.log(zero + (1 - zero) * np.exp(own)), np.log1p(-zero) + own)
    return np.where(np.isnan(x), 0.0, found)


def poisson_alone(sites: Sites, x: np.ndarray) -> np.ndarray:
    """A slip: what is more than Poisson is forgotten."""
    return np.where(np.isnan(x), 0.0, stats.poisson.logpmf(np.nan_to_num(x), sites["rate"]))


def moments(sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of counts, each by the law of total variance."""
    rate = sites["rate"]
    if "inverse_dispersion" in sites:
        return rate, rate + rate**2 / sites["inverse_dispersion"]
    counted = 1 - sites["zero_probs"]
    return counted * rate, counted * rate + counted * (1 - counted) * rate**2


class Drawn(NamedTuple):
    """Parameters drawn on a grid, with the logs of their weights."""

    sites: dict[str, np.ndarray]  # (A, K, 1)
    log_weight: np.ndarray  # (A,)


class Grid:
    """The parameters of one column of counts, on quantiles of their priors."""

    def __init__(self, counts: str) -> None:
        self.sites = SITES[counts]
        self.places = np.array(list(product(range(NODES), repeat=len(self.sites))))  # (G, sites)
        self.centres = self._points((self.places + 0.5) / NODES)

    def _points(self, quantiles: np.ndarray) -> dict[str, np.ndarray]:
        return {site: law_of(site).ppf(quantiles[..., place]) for place, site in enumerate(self.sites)}

    def _logs(self, x: np.ndarray) -> np.ndarray:
        """(G, N): log p(x_n) at the centres."""
        return log_probability({site: value[:, None] for site, value in self.centres.items()}, x)

    def log_marginal(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(A,): log p(x (N,) | z) for z (A, N, K), all components together, by the centres."""
        rows, places = _sets(weights)
        logs = self._logs(x)
        parts = [logsumexp(logs @ some.T, axis=0) for some in np.array_split(rows, -(-len(rows) // AT_ONCE))]
        return (np.concatenate(parts)[places] - np.log(len(logs))).sum(1)

    def draw(self, rng: np.random.Generator, x: np.ndarray, weights: np.ndarray) -> Drawn:
        """A draw of the parameters of all components for each z (A, N, K)."""
        rows, places = _sets(weights)
        logs, cells = self._logs(x), np.zeros(places.shape, int)
        for place, some in enumerate(rows):
            power, here = logs @ some, places == place
            cells[here] = rng.choice(len(power), here.sum(), p=np.exp(power - logsumexp(power)))
        corner = self.places[cells]  # (A, K, sites)
        sites = self._points((corner + rng.random(corner.shape)) / NODES)
        here = log_probability({site: value[:, None] for site, value in sites.items()}, x[None, :, None])
        log_weight = (weights * (here - np.moveaxis(logs[cells], 2, 1))).sum((1, 2))
        return Drawn({site: value[..., None] for site, value in sites.items()}, log_weight)


def _sets(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different sets of rows (U, N) that components have under z (A, N, K), and which one each has (A, K)."""
    each = np.moveaxis(weights, 2, 1)
    rows, places = np.unique(each.reshape(-1, each.shape[2]), axis=0, return_inverse=True)
    return rows, places.reshape(each.shape[:2])


class Sampled(NamedTuple):
    """What the posterior given a table is sampled by: all assignments of its latents, listed."""

    x: np.ndarray  # (N,): the counts
    weights: np.ndarray  # (A, N, K)
    latents: Any  # what `blocks` reads of the assignments, with a leading axis A
    blocks: Conjugate  # all parameters but those of the counts
    rest: Any  # what `blocks` reads of the table


def sampled(grid: Grid, given: Sampled, rng: np.random.Generator, number: int) -> Posterior:
    """An assignment by its evidence, other parameters by their closed form, those of the counts by the grid, with weights."""
    logs = given.blocks.log_marginal(given.rest, given.latents) + grid.log_marginal(given.x, given.weights)
    evidence = logsumexp(logs)
    chosen = rng.choice(len(logs), number, p=np.exp(logs - evidence))
    drawn = grid.draw(rng, given.x, given.weights[chosen])
    others = given.blocks.draw(rng, given.rest, given.latents[chosen])
    return weighted(others | drawn.sites, drawn.log_weight + evidence)
