"""Closed forms given the latents: parameters integrated out, drawn, and at their mode.

Latents are weights (A, N, K): 1 where row n belongs to component k under assignment a, and 0 elsewhere. A block is one prior
with what it generates. Posteriors are those of Gelman et al. (2013, "Bayesian Data Analysis", chapters 2 and 3); densities and
modes are in the coordinates of the sites, as precision and probability.

The helpers on arrays that all oracles share come first.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, multigammaln

from inference.certificates.oracles.oracle import Sites, Tables


def total(values: ArrayLike) -> np.ndarray:
    """(R, …) -> (R,): the sum of all entries."""
    values = np.asarray(values)
    return values.reshape(len(values), -1).sum(1)


def repeated(table: Tables, number: int) -> dict[str, np.ndarray]:
    """One table, ``number`` times."""
    return {name: np.broadcast_to(value, (number, *value.shape[1:])) for name, value in table.items()}


def one_hot(codes: np.ndarray, size: int) -> np.ndarray:
    """(…) -> (…, size)."""
    return np.asarray(codes[..., None] == np.arange(size), dtype=float)


def chosen(rng: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """A draw from each vector of probabilities along the last axis."""
    below = rng.random(probs.shape[:-1])[..., None] > probs.cumsum(-1)
    return np.minimum(below.sum(-1), probs.shape[-1] - 1)


def dirichlet(rng: np.random.Generator, concentration: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Draws (*shape, levels) of a Dirichlet; ``concentration`` (…, levels) has one vector for all, or one for each."""
    gammas = rng.gamma(np.broadcast_to(concentration, (*shape, np.shape(concentration)[-1])))
    return gammas / gammas.sum(-1, keepdims=True)


def log_dirichlet(concentration: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """(R,): log density of vectors of probabilities (R, …, levels), summed over all of them."""
    concentration = np.broadcast_to(concentration, probs.shape)
    return total(((concentration - 1) * np.log(probs)).sum(-1) - _log_beta(concentration))


def _log_beta(concentration: np.ndarray) -> np.ndarray:
    return gammaln(concentration).sum(-1) - gammaln(concentration.sum(-1))


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


class Conjugate(NamedTuple):
    """One block; x is the data of a single table, in the form that the block reads."""

    log_marginal: Callable[[Any, np.ndarray], np.ndarray]  # (x, weights) -> (A,): log p(x | z), parameters integrated out
    draw: Callable[[np.random.Generator, Any, np.ndarray], dict[str, np.ndarray]]  # one draw of p(θ | x, z) for each z
    mode: Callable[[Any, np.ndarray], dict[str, np.ndarray]]  # argmax p(θ | x, z)


def independent(blocks: Sequence[Conjugate]) -> Conjugate:
    """Blocks that are independent given the latents."""

    def all_sites(sites_of_blocks: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {name: value for sites in sites_of_blocks for name, value in sites.items()}

    return Conjugate(
        lambda x, weights: np.sum([block.log_marginal(x, weights) for block in blocks], axis=0),
        lambda rng, x, weights: all_sites([block.draw(rng, x, weights) for block in blocks]),
        lambda x, weights: all_sites([block.mode(x, weights) for block in blocks]),
    )


def dirichlet_block(site: str, concentration: Any, counts: Callable[[Any, np.ndarray], np.ndarray]) -> Conjugate:
    """Vectors of probabilities; ``counts(x, weights)`` (A, …, levels) is how often each level was drawn from each."""
    concentration = np.asarray(concentration, float)

    def log_marginal(x: Any, weights: np.ndarray) -> np.ndarray:
        posterior = concentration + counts(x, weights)
        prior = np.broadcast_to(concentration, posterior.shape)
        return total(_log_beta(posterior) - _log_beta(prior))

    def draw(rng: np.random.Generator, x: Any, weights: np.ndarray) -> dict[str, np.ndarray]:
        posterior = concentration + counts(x, weights)
        return {site: dirichlet(rng, posterior, posterior.shape[:-1])}

    def mode(x: Any, weights: np.ndarray) -> dict[str, np.ndarray]:
        above = concentration + counts(x, weights) - 1
        return {site: above / above.sum(-1, keepdims=True)}

    return Conjugate(log_marginal, draw, mode)


def counted(prior: Mapping[str, np.ndarray], counts: Callable[[Any, np.ndarray], Mapping[str, np.ndarray]]) -> Conjugate:
    """A block for every site of ``prior``, by its concentration; ``counts(x, z)`` has the counts of all of them."""

    def of_site(name: str, x: Any, z: np.ndarray) -> np.ndarray:
        return counts(x, z)[name]

    return independent([dirichlet_block(name, value, partial(of_site, name)) for name, value in prior.items()])


def log_counts(sites: Sites, counts: Mapping[str, np.ndarray]) -> np.ndarray:
    """(R,): log probability of the draws, in their order; ``counts`` is how often each level was drawn."""
    log_probs: np.ndarray = np.sum([total(count * np.log(sites[name])) for name, count in counts.items()], axis=0)
    return log_probs


def beta_block(site: str, a: float, b: float) -> Conjugate:
    """A probability for every component and binary column: the first level of two."""

    def counts(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        ones = np.einsum("ank,nd->akd", weights, x)
        return np.stack([ones, weights.sum(1)[..., None] - ones], axis=-1)

    both = dirichlet_block(site, [a, b], counts)
    return both._replace(
        draw=lambda rng, x, weights: {site: both.draw(rng, x, weights)[site][..., 0]},
        mode=lambda x, weights: {site: both.mode(x, weights)[site][..., 0]},
    )


def poisson_block(site: str, shape: float, inverse_scale: float) -> Conjugate:
    """A rate for every component and column of counts; NaN is missing."""

    def posterior(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen = np.einsum("ank,nd->akd", weights, ~np.isnan(x))
        return shape + np.einsum("ank,nd->akd", weights, np.nan_to_num(x)), inverse_scale + seen

    def log_marginal(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        a, b = posterior(x, weights)
        each = gammaln(a) - a * np.log(b) - gammaln(shape) + shape * np.log(inverse_scale)
        return total(each) - gammaln(np.nan_to_num(x) + 1).sum()

    def draw(rng: np.random.Generator, x: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        a, b = posterior(x, weights)
        return {site: rng.gamma(a) / b}

    def mode(x: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        a, b = posterior(x, weights)
        return {site: (a - 1) / b}

    return Conjugate(log_marginal, draw, mode)


class Wishart(NamedTuple):
    """precision ~ Wishart(dof, scatter⁻¹),  mean_k ~ Normal(location, (strength precision)⁻¹)."""

    location: np.ndarray  # (D,)
    strength: float
    dof: float
    scatter: np.ndarray  # (D, D)
    tied: bool = False  # one precision for all components


def gaussian_block(prior: Wishart) -> Conjugate:
    """Means and precisions of components with full covariances, or with one covariance."""
    size = len(prior.location)

    def posterior(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        """Strength (A, K) and location (A, K, D) of the means; dof (A, K or 1) and scatter (A, K or 1, D, D)."""
        number = weights.sum(1)
        strength = prior.strength + number
        location = prior.strength * prior.location + np.einsum("ank,nd->akd", weights, x)
        location = location / strength[..., None]
        squares = np.einsum("ank,ni,nj->akij", weights, x, x) + prior.strength * np.outer(prior.location, prior.location)
        squares = squares - strength[..., None, None] * np.einsum("aki,akj->akij", location, location)
        if prior.tied:
            number, squares = number.sum(1, keepdims=True), squares.sum(1, keepdims=True)
        return strength, location, prior.dof + number, prior.scatter + squares

    def log_marginal(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        strength, _, dof, scatter = posterior(x, weights)
        log_ratio = 0.5 * size * (np.log(prior.strength) - np.log(strength)).sum(1) - 0.5 * size * len(x) * np.log(np.pi)
        before = 0.5 * prior.dof * np.linalg.slogdet(prior.scatter)[1] - multigammaln(prior.dof / 2, size)
        after = 0.5 * dof * np.linalg.slogdet(scatter)[1] - multigammaln(dof / 2, size)
        return log_ratio + (before - after).sum(1)

    def draw(rng: np.random.Generator, x: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        strength, location, dof, scatter = posterior(x, weights)
        precision = wisharts(rng, dof, np.linalg.inv(scatter))
        spread = np.linalg.cholesky(np.linalg.inv(strength[..., None, None] * precision))
        mean = location + np.einsum("akij,akj->aki", spread, rng.normal(size=location.shape))
        return {"mean": mean, "precision": precision[:, 0] if prior.tied else precision}

    def mode(x: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Of |Λ|^((dof − D − 1 + number of means of this precision) / 2) exp(−½ tr(scatter Λ))."""
        strength, location, dof, scatter = posterior(x, weights)
        means = strength.shape[1] if prior.tied else 1
        precision = (dof - size - 1 + means)[..., None, None] * np.linalg.inv(scatter)
        return {"mean": location, "precision": precision[:, 0] if prior.tied else precision}

    return Conjugate(log_marginal, draw, mode)


def wisharts(rng: np.random.Generator, dof: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A draw from each Wishart(dof (…), scale (…, D, D)), by the decomposition of Bartlett (1933)."""
    size = scale.shape[-1]
    lower = np.tril(rng.normal(size=scale.shape), -1)
    for place in range(size):
        lower[..., place, place] = np.sqrt(rng.chisquare(dof - place))
    root = np.linalg.cholesky(scale) @ lower
    return root @ np.swapaxes(root, -1, -2)


def standard_normal_block(site: str) -> Conjugate:
    """Means ~ Normal(0, 1) of columns with variance 1."""

    def posterior(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        strength = 1 + weights.sum(1)[..., None]
        return strength, np.einsum("ank,nd->akd", weights, x) / strength

    def log_marginal(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        strength, location = posterior(x, weights)
        both = np.broadcast_arrays(strength * location**2 - np.log(strength), location)[0]
        return 0.5 * total(both) - 0.5 * (x**2).sum() - 0.5 * x.size * np.log(2 * np.pi)

    def draw(rng: np.random.Generator, x: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        strength, location = posterior(x, weights)
        return {site: location + rng.normal(size=location.shape) * strength**-0.5}

    return Conjugate(log_marginal, draw, lambda x, weights: {site: posterior(x, weights)[1]})


def columns(places: slice, block: Conjugate) -> Conjugate:
    """A block of some columns of a table."""
    return Conjugate(
        lambda x, weights: block.log_marginal(x[:, places], weights),
        lambda rng, x, weights: block.draw(rng, x[:, places], weights),
        lambda x, weights: block.mode(x[:, places], weights),
    )


def observed(block: Conjugate) -> Conjugate:
    """A block of one column without the rows where it is missing."""

    def rows(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        there = ~np.isnan(x[:, 0])
        return x[there], weights[:, there]

    return Conjugate(
        lambda x, weights: block.log_marginal(*rows(x, weights)),
        lambda rng, x, weights: block.draw(rng, *rows(x, weights)),
        lambda x, weights: block.mode(*rows(x, weights)),
    )
