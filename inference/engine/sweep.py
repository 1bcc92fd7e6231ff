"""The one loop body: a pair of updates, one of the latents and one of the parameters, over blocks of rows.

    local = model.local(T)(features)            natural parameters of q(z); terms of T alone are computed once
    z     = latent update(local)                mean | mode | sample
    nu    = prior + statistics(z, features)     the update rule
    T     = parameter update(nu)                mean | mode | sample

A method is a pair of updates (`Updates`). Where the prior joins blocks of parameters (``algebra.coupling``) the last two
lines are run for each block in turn, with terms of the others in its nu. Where blocks are conjugate only given the others
(``algebra.cycle``), all four are: EM is then ECM (Meng and Rubin 1993), Gibbs is Gibbs. Rows are read in blocks, so
that memory beyond the data stays flat: the last block slides back over rows already counted and gives those weight zero, so
that no padding and no copy is needed.

Between prior and posterior lie the densities p(θ) p(x, z | θ)^t, whose conditionals are in the model's families
(`tempered_sweep`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from models.algebra import add, at_sample, structures
from models.base import Algebra, Hyper, Latent, Pytree, Stats
from models.rows.row_info import row_info

BLOCK = 2048  # rows, on a processor; measured: 1024 to 4096 are alike, larger blocks fall out of the cache
# On other devices: an iteration of EM on 2,000,000 × 16, K = 16 took 6.9 ms on an H200, and 25.8 ms with blocks as above
BLOCK_ON_ACCELERATOR = 16_384

ParameterUpdate = Callable[[Algebra, Array, Mapping[str, Stats]], dict[str, Stats]]


class Updates(NamedTuple):
    """The two updates of an iteration: of the parameters (`models.algebra.at_mean` …), and of the latents by its name."""

    parameters: ParameterUpdate
    latents: str  # mean, mode or sample

    def in_words(self) -> tuple[str, str]:
        """The names of both.

        >>> from models.algebra import at_mode
        >>> Updates(at_mode, "mean").in_words()
        ('mode', 'mean')
        """
        return self.parameters.__name__.removeprefix("at_"), self.latents


class Local(NamedTuple):
    """The result of the local step, summed over the rows."""

    stats: dict[str, Stats]
    log_partition: Array  # Σ_n weight_n log Σ_z exp(local): at a point, log p(x | θ)
    energy: Array  # Σ_n weight_n <z, local>: at a point and for a hard z, log p(x, z | θ)


def block_size() -> int:
    """Rows of a block on the platform in use."""
    return BLOCK if jax.default_backend() == "cpu" else BLOCK_ON_ACCELERATOR


def num_rows(rows: Pytree) -> int:
    """N, the leading axis of every array in ``rows``."""
    return int(jax.tree.leaves(rows)[0].shape[0])


def rows_weight(rows: Pytree) -> Array:
    """(N,): the weight of every row, 1 where the rows carry none."""
    weight = row_info(rows).weight
    return jnp.ones(num_rows(rows), jax.tree.leaves(rows)[0].dtype) if weight is None else weight


def weighted_sum(weight: Array, value: Array) -> Array:
    """Σ_n weight_n value_n, where 0 · (−∞) = 0: an impossible row of weight 0 does not count."""
    return jnp.where(weight == 0, 0.0, weight * value).sum()


def _at_once(rows: Pytree, size: int) -> bool:
    """Whether all rows are one block: few rows are, and rows that cannot be divided (``RowInfo.atomic``)."""
    return num_rows(rows) <= size or row_info(rows).atomic


def block_sum(function: Callable[[Array, Pytree, Array], Pytree], key: Array, rows: Pytree) -> Pytree:
    """Σ over blocks of ``function(key, rows, weight)``, with another key for every block."""
    total, size = num_rows(rows), block_size()
    if _at_once(rows, size):
        return function(key, rows, rows_weight(rows))

    def body(index: Array, sums: Pytree) -> Pytree:
        first = jnp.minimum(index * size, total - size)
        block = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, first, size), rows)
        fresh = first + jnp.arange(size) >= index * size
        weight = jnp.where(fresh, rows_weight(block), 0)
        return add(sums, function(jax.random.fold_in(key, index), block, weight))

    shapes = jax.eval_shape(lambda: function(key, (block := jax.tree.map(lambda leaf: leaf[:size], rows)), rows_weight(block)))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return lax.fori_loop(0, -(-total // size), body, zeros)


def block_map(function: Callable[[Pytree], Pytree], rows: Pytree, size: int | None = None) -> Pytree:
    """``function`` of every row (or draw, or entry), evaluated in blocks of ``size``; outputs keep the leading axis.

    ``size`` is `block_size` by default. The last block slides back over rows already done: `jax.lax.map` would
    compile its remainder as a second program.
    """
    total, size = num_rows(rows), size or block_size()
    if _at_once(rows, size):
        return function(rows)

    def body(index: Array, out: Pytree) -> Pytree:
        first = jnp.minimum(index * size, total - size)
        block = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, first, size), rows)
        return jax.tree.map(lambda into, value: lax.dynamic_update_slice_in_dim(into, value, first, 0), out, function(block))

    shapes = jax.eval_shape(lambda: function(jax.tree.map(lambda leaf: leaf[:size], rows)))
    buffers = jax.tree.map(lambda leaf: jnp.zeros((total, *leaf.shape[1:]), leaf.dtype), shapes)
    return lax.fori_loop(0, -(-total // size), body, buffers)


def local_step(algebra: Algebra, update: str, hyper: Hyper, key: Array, T: Stats, rows: Pytree) -> Local:
    """Latents of all rows given T, and their statistics: the E-step when ``update`` is "mean"."""
    update_latents = _latent_update(algebra.latent, update)
    natural_parameters = algebra.local_natural_parameters(T)

    def block(key: Array, rows: Pytree, weight: Array) -> Local:
        features = algebra.features(hyper, rows)
        local = natural_parameters(features)
        z = update_latents(key, local)
        log_partition = weighted_sum(weight, algebra.latent.log_partition(local))
        # Only a hard z needs its energy; for a soft one it would be one more pass over the block.
        energy = weighted_sum(weight, algebra.latent.energy(z, local)) if update == "mode" else log_partition
        return Local(algebra.statistics(weight, z, features), log_partition, energy)

    return block_sum(block, key, rows)


def _latent_update(latent: Latent, name: str) -> Callable[[Array, Pytree], Pytree]:
    """The update of that name: mean, mode or sample."""
    if name == "mode":
        assert latent.mode is not None  # a method that needs a mode refuses latents without one
        return latent.mode
    return latent.mean if name == "mean" else latent.sample


def sweep(
    algebra: Algebra, updates: Updates, hyper: Hyper, prior: Mapping[str, Stats], key: Array, T: Stats, rows: Pytree
) -> tuple[Stats, dict[str, Stats], Local]:
    """One iteration of every method: (T, nu, the local step at the entering T)."""
    if algebra.structure.cycle:
        return _cycle(algebra, updates, hyper, prior, key, T, rows)
    key_z, key_theta = jax.random.split(key)
    local = local_step(algebra, updates.latents, hyper, key_z, T, rows)
    return *parameter_step(algebra, updates, key_theta, prior, T, local.stats), local


def parameter_step(
    algebra: Algebra, updates: Updates, key: Array, prior: Mapping[str, Stats], T: Stats, stats: Mapping[str, Stats]
) -> tuple[Stats, dict[str, Stats]]:
    """The parameters given the statistics of the latents: (T, nu), the M-step when the update is `models.algebra.at_mode`."""
    nu = add(dict(prior), dict(stats))
    if algebra.structure.coupling is not None:
        return _joined(algebra, updates, key, prior, T, nu)
    return updates.parameters(algebra, key, nu), nu


def _joined(
    algebra: Algebra, updates: Updates, key: Array, prior: Mapping[str, Stats], T: Stats, nu: Mapping[str, Stats]
) -> tuple[dict[str, Stats], dict[str, Stats]]:
    """(T, nu) of blocks that the prior joins, one after another, each given the latest values of the others."""
    assert algebra.structure.coupling is not None
    following, nu_of_blocks = dict(T), {}
    for index, (name, family) in enumerate(algebra.families):
        joins = partial(_at_block, algebra.structure.coupling, prior, dict(following), name)
        nu_of_blocks[name] = add(nu[name], jax.grad(joins)(following[name]))
        alone = algebra._replace(families=((name, family),))
        following |= updates.parameters(alone, jax.random.fold_in(key, index), nu_of_blocks)
    return following, nu_of_blocks


def _at_block(
    coupling: Callable[..., Array], prior: Mapping[str, Stats], T: Mapping[str, Stats], name: str, block: Stats
) -> Array:
    return coupling(prior, {**T, name: block})


def _cycle(
    algebra: Algebra, updates: Updates, hyper: Hyper, prior: Mapping[str, Stats], key: Array, T: Stats, rows: Pytree
) -> tuple[Stats, dict[str, Stats], Local]:
    """One iteration, block by block: each sees the latest values of the others."""
    following, nu = dict(T), dict(prior)
    steps = []
    for index, part in enumerate(algebra.structure.cycle):
        part_prior = {name: prior[name] for name, _ in part.families}
        blocks, blocks_nu, local = sweep(part, updates, hyper, part_prior, jax.random.fold_in(key, index), following, rows)
        following, nu = following | blocks, nu | blocks_nu
        steps.append(local)
    stats = {name: leaf for step in steps for name, leaf in step.stats.items()}
    return following, nu, steps[0]._replace(stats=stats)


def has_temperatures(algebra: Algebra) -> bool:
    """Whether p(θ) p(x, z | θ)^t has conditionals in the model's families: z discrete, and all parameters conjugate at once."""
    return algebra.latent.enumerable and "joint" in structures(algebra.structure)


def tempered_latents(
    algebra: Algebra, hyper: Hyper, temperature: Array, key: Array, T: Stats, rows: Pytree
) -> tuple[dict[str, Stats], Array]:
    """Z given θ under p(θ) p(x, z | θ)^t: (the statistics of a draw, U = log p(x, z | θ) at it).

    As p(x, z | θ) = exp < local, z >, its t-th power is proportional in z to exp < t local, z >: the same family. An impossible
    value has −∞ at every temperature.
    """
    natural_parameters = algebra.local_natural_parameters(T)

    def block(key: Array, rows: Pytree, weight: Array) -> tuple[dict[str, Stats], Array]:
        features = algebra.features(hyper, rows)
        local = natural_parameters(features)
        z = algebra.latent.sample(key, jnp.where(local == -jnp.inf, local, temperature * local))
        return algebra.statistics(weight, z, features), weighted_sum(weight, algebra.latent.energy(z, local))

    return block_sum(block, key, rows)


def tempered_parameters(
    algebra: Algebra, prior: Mapping[str, Stats], temperature: Array, key: Array, stats: Mapping[str, Stats]
) -> dict[str, Stats]:
    """T of θ drawn given z under p(θ) p(x, z | θ)^t, from the statistics of z: nu = prior + t statistics.

    As log p(x, z | θ) = < T(θ), statistics > + a part without θ, its t-th power multiplies the statistics by t.
    """
    return at_sample(algebra, key, add(dict(prior), jax.tree.map(lambda leaf: temperature * leaf, dict(stats))))


def tempered_log_partition(algebra: Algebra, hyper: Hyper, temperature: Array, T: Stats, rows: Pytree) -> Array:
    """Σ_n weight_n log Σ_z p(x_n, z | θ)^t: the log density that `tempered_sweep` has for θ, without the prior.

    It is log p(x | θ) at t = 1, and the log number of values that the latents may take at t = 0.
    """
    natural_parameters = algebra.local_natural_parameters(T)

    def block(key: Array, rows: Pytree, weight: Array) -> Array:
        local = natural_parameters(algebra.features(hyper, rows))
        tempered = jnp.where(local == -jnp.inf, local, temperature * local)
        return weighted_sum(weight, algebra.latent.log_partition(tempered))

    return block_sum(block, jax.random.PRNGKey(0), rows)


def tempered_sweep(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], temperature: Array, key: Array, T: Stats, rows: Pytree
) -> tuple[Stats, Array]:
    """Gibbs at one (inverse) temperature: (T, U at the latents drawn and the parameters that they were drawn from)."""
    key_z, key_theta = jax.random.split(key)
    stats, energy = tempered_latents(algebra, hyper, temperature, key_z, T, rows)
    return tempered_parameters(algebra, prior, temperature, key_theta, stats), energy


def responsibilities(
    algebra: Algebra, hyper: Hyper, T: Stats, rows: Pytree, dtype: Any = None, size: int | None = None
) -> dict[str, Any]:
    """Per row at one θ: ``log_likelihood`` (N,), latents summed out; ``latents`` (N, K), what is reported of them; the
    ``entropy`` (N,) of probabilities.

    ``dtype`` is that of the latents: by default the precision in force.
    """
    natural_parameters = algebra.local_natural_parameters(T)

    def block(rows: Pytree) -> dict[str, Any]:
        local = natural_parameters(algebra.features(hyper, rows))
        z = algebra.latent.mean(jax.random.PRNGKey(0), local)
        latents = algebra.latent.reported.part(z)
        entropy = None if algebra.latent.reported.entropy is None else algebra.latent.reported.entropy(z, local)
        log_partition = algebra.latent.log_partition(local)
        return {"log_likelihood": log_partition, "latents": latents.astype(dtype or latents.dtype), "entropy": entropy}

    return block_map(block, rows, size)
