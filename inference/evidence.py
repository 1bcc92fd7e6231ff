"""The evidence log p(x | model) by thermodynamic integration, from the same sweep that Gibbs sampling makes.

Between the prior and the posterior lie the densities p(θ) p(x, z | θ)^t, whose conditionals are the model's own families: z
from its natural parameters times t, θ from nu = prior + t statistics. With U = log p(x, z | θ) and their constants Z(t),

    log p(x) = log Z(1),   log Z(0) = Σ_n log (number of values that z_n may take),   d log Z / dt = E_t[U]

integrated by the trapezium rule with its second-order correction, for which d E_t[U] / dt = Var_t[U] (Friel, Hurn and
Wyse 2014).
Half of the chains climb from the prior, half come down from starting points near modes. Where they mix slowly the first lag
behind and end too low, the last too high, so that their gap tells the error. At small t the labels mix freely, and U does not
change when they are permuted, so that modes which are copies of each other need not be visited one by one.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.chains import each
from inference.fitting import check_seed, make_task, require_model, x64
from inference.optimise import require_algebra, require_proper, require_single_rows
from inference.outcome import Task
from inference.progress import Silent
from inference.start import start_points
from inference.sweep import block_sum, num_rows, rows_weight
from models.base import Algebra, Hyper, Model, Pytree, Stats, ZooError, add, at_sample

WARMUP = 0.25  # of the sweeps at every temperature are dropped
POWER = 5  # temperatures (i / M)^5: close together near the prior, where U varies most


class Evidence(NamedTuple):
    """Log p(x), its Monte Carlo standard error, and the means of the chains that went up and of those that went down."""

    log_evidence: float
    standard_error: float
    up: float
    down: float


def log_evidence(
    model: Model,
    data: Any,
    num_temperatures: int = 300,
    num_sweeps: int = 24,
    num_chains: int = 8,
    seed: int = 0,
) -> Evidence:
    """Estimate log p(x), or log p(x, labels), with parameters and latents summed out, under the model's prior.

    Each of ``num_chains`` chains makes ``num_sweeps`` sweeps at each of ``num_temperatures`` steps between prior and
    posterior. The estimate is the mean of theirs; the standard error is that of this mean, or half the gap between the two
    directions where that is larger. Raises `ZooError` for a model without the algebra, an improper prior, latents that are not
    discrete, and rows of weights other than 0 and 1.
    """
    require_model(model)
    check_seed(seed)
    for name, value, least in (
        ("num_temperatures", num_temperatures, 2),
        ("num_sweeps", num_sweeps, 4),
        ("num_chains", num_chains, 4),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ZooError(f"{name} must be a whole number of at least {least}, got {value!r}")
    with x64(64):
        task, algebra = evidence_task(model, data, seed)
        steps = (np.arange(num_temperatures + 1) / num_temperatures) ** POWER
        half = num_chains // 2
        arrays = (task.hyper, task.prior, task.rows)
        low = prior_points(algebra, task.prior, jax.random.split(jax.random.fold_in(task.key, 1), half))
        high = start_points(task, algebra, num_chains - half)
        keys = jax.random.split(jax.random.fold_in(task.key, 2), num_chains)
        up = np.asarray(_chains(algebra, num_sweeps, *arrays, jnp.asarray(steps), low, keys[:half]))
        down = np.asarray(_chains(algebra, num_sweeps, *arrays, jnp.asarray(steps[::-1]), high, keys[half:]))
    found = np.concatenate([up, down])
    error = max(found.std(ddof=1) / np.sqrt(num_chains), abs(up.mean() - down.mean()) / 2)
    return Evidence(float(found.mean()), float(error), float(up.mean()), float(down.mean()))


def evidence_task(model: Model, data: Any, seed: int) -> tuple[Task, Algebra]:
    """Model and data as the sweeps take them; raises `ZooError` where the evidence cannot be estimated."""
    with x64(64):
        task = make_task(model, data, seed, None, Silent())
        algebra = require_algebra(task, _refuses)
        require_proper(task)
        require_single_rows(task, algebra)
    return task, algebra


@partial(jax.jit, static_argnames=("algebra",))
def prior_points(algebra: Algebra, prior: Any, keys: Array) -> Stats:
    """T drawn from the prior, for every key."""
    return jax.vmap(lambda key: at_sample(algebra, key, dict(prior)))(keys)


def _refuses(algebra: Algebra) -> str | None:
    if algebra.latent.discrete and not algebra.cycle:
        return None
    return (
        "the evidence is estimated where all latents are discrete and independent (no missing cells under full or tied "
        "covariances, no logistic_regression, no hmm); compare elpd or rows held out instead"
    )


@partial(jax.jit, static_argnames=("algebra", "num_sweeps"))
def _chains(
    algebra: Algebra, num_sweeps: int, hyper: Hyper, prior: Any, rows: Pytree, ladder: Array, T: Stats, keys: Array
) -> Array:
    """Log Z(1) by every chain, each from a T of its own."""
    allowed = getattr(rows, "allowed", None)
    choices = jnp.full(num_rows(rows), algebra.num_groups) if allowed is None else allowed.sum(-1)
    start = (rows_weight(rows) * jnp.log(choices)).sum()
    return each(lambda key, T: start + _chain(algebra, num_sweeps, hyper, prior, rows, ladder, T, key), keys, T)


def _chain(
    algebra: Algebra, num_sweeps: int, hyper: Hyper, prior: Any, rows: Pytree, ladder: Array, T: Stats, key: Array
) -> Array:
    """Log Z(1) − log Z(0): temperature by temperature in the order given, each starting where the last one ended."""
    warmup = int(WARMUP * num_sweeps)

    def rung(T: Stats, inputs: tuple[Array, Array]) -> tuple[Stats, tuple[Array, Array]]:
        temperature, key = inputs
        T, energies = jax.lax.scan(
            lambda T, key: _sweep(algebra, hyper, prior, temperature, rows, key, T), T, jax.random.split(key, num_sweeps)
        )
        return T, (energies[warmup:].mean(), energies[warmup:].var(ddof=1))

    mean, variance = jax.lax.scan(rung, T, (ladder, jax.random.split(key, ladder.shape[0])))[1]
    step = jnp.diff(ladder)
    pieces = step * (mean[1:] + mean[:-1]) / 2 - step**2 * jnp.diff(variance) / 12
    return jnp.sign(step[0]) * pieces.sum()


def _sweep(
    algebra: Algebra, hyper: Hyper, prior: Any, temperature: Array, rows: Pytree, key: Array, T: Stats
) -> tuple[Stats, Array]:
    """Gibbs at one temperature: (T, U at the latents drawn and the parameters that they were drawn from)."""
    key_z, key_theta = jax.random.split(key)
    natural_parameters = algebra.local(T)

    def block(key: Array, rows: Pytree, weight: Array) -> tuple[Stats, Array]:
        features = algebra.features(hyper, rows)
        local = natural_parameters(features)
        z = algebra.latent.sample(key, jnp.where(local == -jnp.inf, local, temperature * local))
        return algebra.statistics(temperature * weight, z, features), (weight * algebra.latent.energy(z, local)).sum()

    stats, energy = block_sum(block, key_z, rows)
    return at_sample(algebra, key_theta, add(dict(prior), stats)), energy
