"""Weights of a Dirichlet process by truncated stick-breaking (Ishwaran and James 2001; Blei and Jordan 2006), K components:

    sticks_k ~ Beta(1, concentration)                             k < K                          (K − 1,)
    probs_k  = sticks_k Π_{j<k} (1 − sticks_j),    sticks_K = 1                                  (K,)

with ``concentration`` α a number, or (`learned`) concentration ~ Gamma(concentration_shape, concentration_rate). K, the number
of components, is the truncation: of the process itself a share of (α / (1 + α))^(K − 1) lies beyond component K − 1 on the
average, and all of it is component K's here. Given the latents, and N_k rows in component k,

    sticks_k | z, α ~ Beta(1 + N_k, α + Σ_{j>k} N_j),    α | sticks ~ Gamma(shape + K − 1, rate − Σ_k log(1 − sticks_k))

A stick is a Dirichlet of two: T = (log sticks_k, log(1 − sticks_k)). Sticks and a learned α are conjugate in turn, joined by
`coupling`, so that methods that update all blocks at once (`exact`, minibatches of `cavi`) do not take them. A mode of α or of
a stick need not exist where α may fall below 1: `em`, `hard_em` and `map` raise an error at a start that runs there.

**Symmetry.** The likelihood is the same in every order of the components, the prior is not: it is biased towards large first
ones, E[probs_k] = α^(k−1) / (1 + α)^k. A posterior has K! modes of unequal height, those by falling size highest, and a
`Permutation`, which leaves a posterior as it is, would be a false claim: there is none, draws stay in the order that they
were drawn in, and no log K! belongs to a bound. To relabel draws is to speak of the mixture without an order: probs and
parameters of components may be moved together, but sticks would have to be broken anew from the moved probs, and neither they
nor the log joint would then be draws of this program. Summaries that no order changes mean the same as in every mixture:
``sorted_probs``, ``co_clustering``, ``concentration``, densities of new rows. Chains change their order rarely
(Papaspiliopoulos and Roberts 2008), which R-hat of the sites shows only if chains are in different orders, and optima depend on
the order of their start (Kurihara, Welling and Teh 2007).

A concentration far below 1 breaks sticks that are 1 to all digits; the log joint of such a draw is not finite, and is named.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.base import Hyper, Sites, Stats, on_host
from models.families.conjugate import GammaStats, dirichlet, gamma, log_mean
from models.mixtures.weights import Weights, WeightsNaming, WeightsPrior

STICKS = "sticks"
CONCENTRATION = "concentration"


def broken(sticks: Array) -> Array:
    """Probs (K,) of sticks (K − 1,)."""
    return jnp.append(sticks, 1.0) * jnp.append(1.0, jnp.cumprod(1 - sticks))


def log_broken(T: Array) -> Array:
    """Log probs (K,), or their expectation, of T (K − 1, 2)."""
    zero = jnp.zeros(1, T.dtype)
    return jnp.append(T[:, 0], zero) + jnp.append(zero, jnp.cumsum(T[:, 1]))


def stops(counts: Array) -> Array:
    """(K − 1, 2): the rows N_k that stop at a stick, and Σ_{j>k} N_j that pass it."""
    passing = jnp.cumsum(counts[::-1])[::-1]
    return jnp.stack([counts[:-1], passing[1:]], axis=-1)


def natural(sites: Sites) -> dict[str, Stats]:
    """Sticks -> T."""
    sticks = jnp.asarray(sites[STICKS])
    return {STICKS: jnp.stack([jnp.log(sticks), jnp.log1p(-sticks)], axis=-1)}


def pseudo_stops(concentration: float, size: int) -> Array:
    """Pseudo-statistics of Beta(1, concentration) for every stick: (K − 1, 2)."""
    return on_host(np.tile([0.0, concentration - 1], (size - 1, 1)))


def program(hyper: Hyper, size: int, proper: bool) -> Array:
    """Sticks of a concentration that is given, or that `learned_program` drew."""
    return broken(numpyro.sample(STICKS, dist.Beta(jnp.ones(size - 1), hyper["concentration"]).to_event(1)))


def why_impossible(size: int, proper: bool, exchangeable: bool) -> str | None:
    """Why there is no such process, in words, or None."""
    if not proper:
        return "it is a prior on the weights, and prior=flat is none; give one of them"
    if size < 2:
        return f"num_components is where the process is cut off, and must be 2 or more, got {size}"
    if not exchangeable:
        return "it puts components in an order by size, and classes with names have none; use weights=learned or uniform"
    return None


fixed = Weights(
    name="dirichlet_process",
    families=((STICKS, dirichlet),),
    prior=WeightsPrior(
        parameters=((STICKS, (("concentration", "concentration"),)),),
        shapes=lambda size: {"concentration": ()},
        defaults=(("concentration", 2.0),),
        nu=lambda hyper, size: {STICKS: pseudo_stops(float(hyper["concentration"]), size)},
    ),
    program=program,
    log_probs=lambda T, size: log_broken(T[STICKS]),
    statistics=lambda counts: {STICKS: stops(counts)},
    sites=lambda T: {STICKS: jnp.exp(T[STICKS][:, 0])},
    natural=natural,
    probs=lambda sites, size: broken(jnp.asarray(sites[STICKS])),
    bias=lambda sites: log_broken(natural(sites)[STICKS]),
    functionals=lambda sites, exchangeable: {"sorted_probs": -jnp.sort(-broken(sites[STICKS]))},
    naming=WeightsNaming(
        dims=((STICKS, ("stick",)), ("sorted_probs", ("rank",)), ("concentration", ())),
        coords=lambda labels: {"stick": labels[:-1]},
    ),
    predictive=lambda nu, size: log_broken(log_mean(nu[STICKS])),
    exchangeable=False,
    why_impossible=why_impossible,
)


# ---------------------------------------------------------------------------------------------------------------------
# The concentration learned


def coupling(prior: Mapping[str, Stats], T: Mapping[str, Stats]) -> Array:
    """Σ_k log Beta(sticks_k | 1, α) = (K − 1) log α + (α − 1) Σ_k log(1 − sticks_k): a scalar."""
    passed = T[STICKS][:, 1]
    log_density: Array = len(passed) * T[CONCENTRATION].events - (T[CONCENTRATION].exposure + 1) * passed.sum()
    return log_density


def learned_program(hyper: Hyper, size: int, proper: bool) -> Array:
    """The concentration, then its sticks."""
    drawn = numpyro.sample(CONCENTRATION, dist.Gamma(hyper["concentration_shape"], hyper["concentration_rate"]))
    return program({"concentration": drawn}, size, proper)


def learned_nu(hyper: Hyper, size: int) -> dict[str, Stats]:
    """Sticks at α = 1, from where `coupling` goes on, and α's Gamma."""
    shape, rate = np.asarray(hyper["concentration_shape"]), np.asarray(hyper["concentration_rate"])
    return {STICKS: pseudo_stops(1.0, size), CONCENTRATION: GammaStats(on_host(np.asarray(shape - 1)), on_host(rate))}


def learned_natural(sites: Sites) -> dict[str, Stats]:
    """Sticks and concentration -> T."""
    concentration = jnp.asarray(sites[CONCENTRATION])
    return natural(sites) | {CONCENTRATION: GammaStats(jnp.log(concentration), -concentration)}


learned = fixed._replace(
    name="dirichlet_process_learned",
    families=(*fixed.families, (CONCENTRATION, gamma)),
    prior=WeightsPrior(
        parameters=((CONCENTRATION, (("shape", "concentration_shape"), ("rate", "concentration_rate"))),),
        shapes=lambda size: {"concentration_shape": (), "concentration_rate": ()},
        defaults=(("concentration_shape", 2.0), ("concentration_rate", 1.0)),
        nu=learned_nu,
    ),
    program=learned_program,
    statistics=lambda counts: fixed.statistics(counts) | {CONCENTRATION: GammaStats(jnp.zeros(()), jnp.zeros(()))},
    sites=lambda T: fixed.sites(T) | {CONCENTRATION: -T[CONCENTRATION].exposure},
    natural=learned_natural,
    functionals=lambda sites, exchangeable: fixed.functionals(sites, exchangeable) | {CONCENTRATION: sites[CONCENTRATION]},
    coupling=coupling,
)
