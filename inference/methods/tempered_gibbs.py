"""Parallel tempering of Gibbs sampling: replicas at several temperatures exchange their states (Geyer 1991).

A chain holds R replicas. Replica r has the inverse temperature 1 = β_1 > β_2 > … > β_R > 0 and the density

    π_r(θ, z) ∝ p(θ) p(x, z | θ)^β_r

in which the likelihood, latents included, is tempered and the prior is not. All replicas together have Π_r π_r(θ_r, z_r). As
U = log p(x, z | θ) = < local(θ), z > = < T(θ), statistics(x, z) > + a part without θ, both conditionals are in the model's
families (`inference.engine.sweep.tempered_latents` and `tempered_parameters`): z has β times its natural parameters, and θ has
nu = prior + β statistics. A sweep has three parts, each of which leaves the joint density invariant:

    z_r given θ_r, in every replica
    (θ, z) of neighbours i and j = i + 1 change places with probability min(1, exp((β_i − β_j)(U_j − U_i)))
    θ_r given z_r, in every replica

Sweeps propose the pairs (1, 2), (3, 4) … and (2, 3), (4, 5) … in turn, so that a state keeps its direction (Syed,
Bouchard-Côté, Deligiannidis and Doucet 2022, the non-reversible scheme). U belongs to the z just drawn and costs nothing more.
θ is drawn after the exchange, at the new temperature. The draws kept are those at β_1 = 1: the posterior.

At first the temperatures are geometric from 1 to ``hottest``. In rounds of doubling length they move to where all neighbours
have equal rejection rates: as the same authors do, to equal shares of the sum of the rates, here by linear interpolation in
log β. This takes the first half of the warm-up, chain by chain; then the temperatures are fixed.

Plain Gibbs sampling may stay at one of several modes for longer than any run. A hot replica crosses between modes, and
the modes that it finds reach the cold replica. How this can mislead: the hottest replica may not cross between some modes
either, and exchange rates do not show it. R-hat of the functionals does, if chains stay at different modes.
"""

import json
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.driver import drive, sample, vmap_or_call
from inference.engine.initialise import finite_latents, start_points
from inference.engine.requirements import Support, require_algebra, require_proper, require_single_rows
from inference.engine.sweep import tempered_latents, tempered_parameters
from inference.engine.task import Draws, Kind, Task
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumWarmup, Setting
from inference.runtime.progress import Watch
from models.algebra import STRUCTURES, log_prior
from models.base import Algebra, Pytree, Stats, ZooError, on_host

SHORTEST = 20  # sweeps of a round in which temperatures are tuned
ROUNDS = 20  # of doubling length; an upper bound on their number
FLOOR = 0.02  # least rejection rate that a pair counts with, so that temperatures stay apart
RARELY = 0.05  # an exchange rate below this is worth a warning


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` sweeps dropped and ``num_samples`` kept, each of ``num_temperatures`` replicas.

    The last replica has the inverse temperature ``hottest``.
    """

    num_warmup: NumWarmup = 1000
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4
    num_temperatures: Annotated[int, Setting("replicas of each chain")] = 8
    hottest: Annotated[float, Setting("inverse temperature of the last replica; 1 is the posterior", low=1e-6, high=1)] = 0.1


class Replicas(NamedTuple):
    """State of one chain: its R replicas, from cold to hot, and their history."""

    T: Stats  # (R, …)
    log_temperature: Array  # (R,): log β
    sweeps: Array  # number of sweeps so far
    rejected: Array  # (R − 1,): Σ of rejection probabilities over the proposals of a round
    proposed: Array  # (R − 1,): number of these proposals
    walker: Array  # (R,): the number of the state that is at each temperature now
    from_hottest: Array  # (R,), by walker: whether it has been at the hottest since it was last at the coldest
    round_trips: Array  # number of returns of walkers from the hottest to the coldest


class TemperedRecord(NamedTuple):
    """The record of a sweep."""

    sites: dict[str, Array]  # of the replica at β = 1
    log_prior: Array
    acceptance: Array  # (R − 1,): probability of exchange of every pair, NaN where none was proposed
    round_trips: Array
    log_temperature: Array


NO_TEMPERATURES = (
    "tempered_gibbs needs discrete and independent latents and parameters that are conjugate all at once (no missing cells "
    "under full or tied covariances, no logistic_regression, factors, hmm or topics); use method=gibbs or nuts"
)


# ---------------------------------------------------------------------------------------------------------------------
# Exchanges


def acceptance(temperature: Array, energy: Array) -> Array:
    """(R − 1,): min(1, exp((β_i − β_j)(U_j − U_i))) of neighbours i and j = i + 1.

    0 where neither state has a density, so that the exponent is NaN.
    """
    exponent = (temperature[:-1] - temperature[1:]) * (energy[1:] - energy[:-1])
    return jnp.where(jnp.isnan(exponent), 0.0, jnp.minimum(1.0, jnp.exp(exponent)))


def proposals(size: int, sweeps: Array) -> Array:
    """(R − 1,): whether this sweep proposes a pair, as it does every second one."""
    return jnp.arange(size - 1) % 2 == sweeps % 2


def order_after(accepted: Array) -> Array:
    """(R,): the temperature from which each state comes; ``accepted`` (R − 1,) has no two neighbours."""
    none = jnp.zeros(1, int)
    return jnp.arange(len(accepted) + 1) + jnp.append(accepted, none) - jnp.append(none, accepted)


def tuned(log_temperature: Array, rejection: Array) -> Array:
    """(R,): log temperatures with equal rejection rates, interpolated from those (R − 1,) between the present ones."""
    barrier = jnp.append(jnp.zeros(1), jnp.cumsum(jnp.maximum(rejection, FLOOR)))
    return jnp.interp(jnp.linspace(0.0, barrier[-1], len(barrier)), barrier, log_temperature)


# ---------------------------------------------------------------------------------------------------------------------
# The step


def step(algebra: Algebra, arrays: tuple[Any, ...], key: Array, state: Replicas) -> tuple[Replicas, TemperedRecord, Array]:
    """One sweep of one chain. The replica at β = 1 uses the same random numbers as `inference.methods.gibbs`."""
    hyper, prior, rows, num_warmup = arrays
    temperature = jnp.exp(state.log_temperature)
    key_exchange, keys_z, keys_theta = _keys(key, len(temperature))

    def latents(temperature: Array, key: Array, T: Stats) -> tuple[Stats, Array]:
        return tempered_latents(algebra, hyper, temperature, key, T, rows)

    def parameters(temperature: Array, key: Array, stats: Stats) -> Stats:
        return tempered_parameters(algebra, prior, temperature, key, stats)

    stats, energy = vmap_or_call(latents, temperature, keys_z, state.T)
    proposed = proposals(len(temperature), state.sweeps)
    probability = acceptance(temperature, energy)
    order = order_after(proposed & (jax.random.uniform(key_exchange, probability.shape) < probability))
    T = vmap_or_call(parameters, temperature, keys_theta, jax.tree.map(lambda leaf: leaf[order], stats))
    following = _tuning(_wandered(state._replace(T=T), order), proposed, probability, num_warmup)
    coldest = jax.tree.map(lambda leaf: leaf[0], T)
    record = TemperedRecord(
        algebra.sites(hyper, coldest),
        log_prior(algebra, prior, coldest),
        jnp.where(proposed, probability, jnp.nan),
        following.round_trips,
        state.log_temperature,
    )
    return following, record, jnp.zeros((), bool)


def _keys(key: Array, size: int) -> tuple[Array, Array, Array]:
    """(key of the exchanges, keys (R,) of latents, keys (R,) of parameters); the coldest replica splits ``key`` itself."""
    others = jax.random.split(jax.random.fold_in(key, 2), size)
    keys_z, keys_theta = jnp.moveaxis(jax.vmap(jax.random.split)(others.at[0].set(key)), 1, 0)
    return others[0], keys_z, keys_theta


def _wandered(state: Replicas, order: Array) -> Replicas:
    """The state with walkers in their new order, and the round trips that end here counted."""
    walker = state.walker[order]
    back = state.from_hottest[walker[0]]
    from_hottest = state.from_hottest.at[walker[0]].set(False)
    if len(walker) > 1:
        from_hottest = from_hottest.at[walker[-1]].set(True)
    return state._replace(walker=walker, from_hottest=from_hottest, round_trips=state.round_trips + back)


def _tuning(state: Replicas, proposed: Array, probability: Array, num_warmup: Array) -> Replicas:
    """One more sweep of a round. Rounds end after …, a quarter and a half of the warm-up, with new temperatures."""
    sweeps = state.sweeps + 1
    rejected = state.rejected + jnp.where(proposed, 1 - probability, 0.0)
    number = state.proposed + proposed
    ends = (sweeps == num_warmup >> jnp.arange(1, ROUNDS)).any() & (sweeps >= SHORTEST)
    log_temperature = state.log_temperature
    if len(log_temperature) > 2:
        log_temperature = jnp.where(ends, tuned(log_temperature, rejected / jnp.maximum(number, 1)), log_temperature)
    return state._replace(
        log_temperature=log_temperature,
        sweeps=sweeps,
        rejected=jnp.where(ends, 0.0, rejected),
        proposed=jnp.where(ends, 0, number),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The run


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain, with exchange rates, round trips and temperatures."""
    algebra = require_algebra(task, METHOD.support)
    require_proper(task)
    if not finite_latents(algebra, task.hyper, task.prior, task.rows):  # built on complete rows, given others
        raise ZooError(f"{task.model.name}: {NO_TEMPERATURES}")
    require_single_rows(task, algebra)
    arrays = (task.hyper, task.prior, task.rows_on_device, jnp.asarray(options.num_warmup, jnp.int32))
    state = initial(task, algebra, options)
    key = jax.random.fold_in(task.key, 1)
    iterate = partial(drive, step, algebra, arrays)
    run, timing = sample(iterate, key, state, options.num_warmup, options.num_samples, task, WATCH)
    if run.records is None:
        return Draws(Kind.CHAINS, {}, {}, timing, run.interrupted)
    sites, at_draws, probability, round_trips, log_temperature = run.records
    rates = exchange_rates(probability)
    attrs = {
        "exchange_rates": json.dumps(_rounded(rates)),
        "inverse_temperatures": json.dumps(_rounded(np.exp(log_temperature[:, -1]))),
    }
    stats = {"round_trips": round_trips - round_trips[:, :1], "exchange_probability": probability}
    several = options.num_temperatures > 1
    return Draws(
        Kind.CHAINS,
        sites,
        stats if several else {},
        timing,
        run.interrupted,
        attrs=attrs if several else {},
        warnings=tuple(exchange_warnings(rates, int(stats["round_trips"][:, -1].sum()))),
        log_prior=at_draws,
    )


def replicas(T: Stats, log_temperature: Any) -> Replicas:
    """State of one chain whose replicas have ``T`` (R, …), from cold to hot, before its first sweep."""
    size = len(log_temperature)
    return Replicas(
        T=T,
        log_temperature=log_temperature,
        sweeps=on_host(np.zeros((), np.int32)),
        rejected=on_host(np.zeros(size - 1, log_temperature.dtype)),
        proposed=on_host(np.zeros(size - 1, np.int32)),
        walker=on_host(np.arange(size, dtype=np.int32)),
        from_hottest=on_host(np.zeros(size, bool)),
        round_trips=on_host(np.zeros((), np.int32)),
    )


def initial(task: Task, algebra: Algebra, options: Options) -> Replicas:
    """State of every chain (a leading axis): one start per replica, at temperatures in geometric progression."""
    chains, size = options.num_chains, options.num_temperatures
    T = start_points(task, algebra, chains * size)
    ladder = np.linspace(0.0, np.log(options.hottest), size).astype(jnp.result_type(float))
    alike = jax.tree.map(lambda leaf: on_host(np.repeat(leaf[None], chains, axis=0)), replicas((), ladder))
    return alike._replace(T=jax.tree.map(lambda leaf: leaf.reshape(size, chains, *leaf.shape[1:]).swapaxes(0, 1), T))


def exchange_rates(probability: np.ndarray) -> np.ndarray:
    """(R − 1,): mean probability of exchange of neighbours, over chains and the sweeps that proposed it; NaN without any."""
    proposed = ~np.isnan(probability)
    number = proposed.sum((0, 1))
    return np.where(number > 0, np.where(proposed, probability, 0).sum((0, 1)) / np.maximum(number, 1), np.nan)


def exchange_warnings(rates: np.ndarray, round_trips: int) -> list[str]:
    """Warnings for a run whose replicas hardly exchange states."""
    rarely = np.flatnonzero(rates < RARELY)
    if len(rarely):
        pairs = ", ".join(f"{pair + 1} and {pair + 2} ({rates[pair]:.1%})" for pair in rarely)
        return [f"neighbouring temperatures hardly exchange states: {pairs}; take more of them (num_temperatures=)"]
    if len(rates) and round_trips == 0:
        return ["no state came from the hottest temperature down to the coldest; take more draws (num_samples=)"]
    return []


def _rounded(values: np.ndarray) -> Any:
    """Numbers of four digits as lists, None for NaN."""
    return [_rounded(value) if np.ndim(value) else None if np.isnan(value) else float(f"{value:.4g}") for value in values]


def _words(record: Pytree) -> str:
    probability = np.asarray(record.acceptance)
    proposed = ~np.isnan(probability)
    rate = f"exchanges {probability[proposed].mean():.0%}, " if proposed.any() else ""
    return f"{rate}{int(np.sum(record.round_trips))} round trips"


WATCH = Watch(_words, newest={"round trips": lambda record: record.round_trips})


METHOD = Method(
    name="tempered_gibbs",
    summary="Gibbs sampling at several temperatures that exchange states, for posteriors with modes far apart",
    options=Options,
    run=run,
    claim="invariant",
    evidence=("kernel law", "posterior", "predictions", "pipeline"),
    support=Support(
        "tempered_gibbs",
        STRUCTURES - {"coupled", "cycle"},
        consequence="the tempered posterior has no conditionals to draw from",
        remedy="use method=gibbs or nuts",
        why_no_latents=lambda latent: None if latent.enumerable else NO_TEMPERATURES,
    ),
    updates=("sample, at several temperatures", "sample, at several temperatures"),
)
